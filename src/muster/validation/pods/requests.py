"""What a pod asks of a node, as Kubernetes counts it (X5): containers, init containers, sidecars, overhead."""

from collections.abc import Iterable, Mapping

from muster.api.core import Container, PodSpec, ResourceRequirements
from muster.api.quantity import Resources

Amounts = Mapping[str, int]


def requests(spec: PodSpec) -> Resources:
    """The most that the pod needs at any moment of its life.

    Sidecars start in order among the init containers and stay: each ordinary init container runs beside those before
    it, and the containers run beside all of them. A pod-level request replaces what the containers add up to.
    """
    if len(spec.containers) == 1 and not (spec.init_containers or spec.overhead or _stated(spec.resources)):
        return _asked(spec.containers[0])  # most pods, and nothing to add up
    running = _sum(_asked(container) for container in spec.containers)
    sidecars: Amounts = {}
    starting: Amounts = {}
    for container in spec.init_containers:
        asked = _asked(container)
        if container.restart_policy == "Always":
            sidecars = _sum((sidecars, asked))
            starting = _most(starting, sidecars)
        else:
            starting = _most(starting, _sum((sidecars, asked)))
    needed = _most(_sum((running, sidecars)), starting)
    return Resources(_sum((_pod_level(spec.resources, needed), spec.overhead)))


def _asked(container: Container) -> Resources:
    """A limit without a request is a request too."""
    resources = container.resources
    if not resources.limits or resources.limits.keys() <= resources.requests.keys():
        return resources.requests
    return Resources({**resources.limits, **resources.requests})


def _stated(resources: ResourceRequirements) -> bool:
    return bool(resources.requests or resources.limits)


def _pod_level(stated: ResourceRequirements, containers: Amounts) -> Amounts:
    """Only cpu, memory and huge pages may be stated for the pod; a limit alone counts where containers ask nothing."""
    shared = {name: value for name, value in stated.requests.items() if _may_be_shared(name)}
    limits = {name: value for name, value in stated.limits.items() if _may_be_shared(name) and not containers.get(name)}
    return {**containers, **limits, **shared}


def _may_be_shared(name: str) -> bool:
    return name in ("cpu", "memory") or name.startswith("hugepages-")


def _sum(parts: Iterable[Amounts]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        for name, value in part.items():
            total[name] = total.get(name, 0) + value
    return total


def _most(one: Amounts, other: Amounts) -> dict[str, int]:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in (*one, *other)}

"""The requests of a pod as Kubernetes counts them (X5): containers, init containers, sidecars, overhead."""

from collections.abc import Iterable, Mapping

from muster.api.core import Container, PodSpec, ResourceRequirements
from muster.api.quantity import Resources

Amounts = Mapping[str, int]
MOST_SUMS = 4096
_SUMS: dict[int, tuple[tuple[Container, ...], Resources]] = {}  # by the identity of containers, kept alive here


def requests(spec: PodSpec) -> Resources:
    """The most that the pod needs at any moment of its life.

    Sidecars start in order among the init containers and stay: each ordinary init container runs beside those before
    it, and the containers run beside all of them. A pod-level request replaces what the containers add up to.
    """
    if not (spec.init_containers or spec.overhead or _stated(spec.resources)):
        return _sum_of_containers(spec.containers)  # the fast path of most pods
    running = _sum(_requests(container) for container in spec.containers)
    sidecars: Amounts = {}
    starting: Amounts = {}
    for container in spec.init_containers:
        requested = _requests(container)
        if container.restart_policy == "Always":
            sidecars = _sum((sidecars, requested))
            starting = _maximum(starting, sidecars)
        else:
            starting = _maximum(starting, _sum((sidecars, requested)))
    needed = _maximum(_sum((running, sidecars)), starting)
    return Resources(_sum((_pod_level(spec.resources, needed), spec.overhead)))


def _sum_of_containers(containers: tuple[Container, ...]) -> Resources:
    """What they request together: worked out once for pods that share them."""
    if len(containers) == 1:
        return _requests(containers[0])
    known = _SUMS.get(id(containers))
    if known is None:
        if len(_SUMS) >= MOST_SUMS:
            _SUMS.clear()
        known = _SUMS[id(containers)] = containers, Resources(_sum(map(_requests, containers)))
    return known[1]


def _requests(container: Container) -> Resources:
    """The requests of a container; a limit without a request counts as one."""
    resources = container.resources
    if not resources.limits or resources.limits.keys() <= resources.requests.keys():
        return resources.requests
    return Resources({**resources.limits, **resources.requests})


def _stated(resources: ResourceRequirements) -> bool:
    return bool(resources.requests or resources.limits)


def _pod_level(stated: ResourceRequirements, containers: Amounts) -> Amounts:
    """Pods may state cpu, memory and huge pages; a limit alone counts where no container requests the resource."""
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


def _maximum(first: Amounts, second: Amounts) -> dict[str, int]:
    return {name: max(first.get(name, 0), second.get(name, 0)) for name in (*first, *second)}

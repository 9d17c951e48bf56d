"""Random small clusters and gangs, near the edge between fitting and not, and their manifests."""

import random
from typing import Any

from tests.oracles.placement import Host, Part, PodClass, Puzzle
from tests.support.factories import Raw, node, pod

LEVELS = ("topology/zone", "topology/block", "topology/rack", "kubernetes.io/hostname")
RESOURCES = ("nvidia.com/gpu", "cpu")


def puzzle(seed: int, hosts: int = 32, parts: int = 12) -> Puzzle:
    rng = random.Random(seed)
    made = _hosts(rng, rng.randint(2, hosts))
    pod_classes = _pod_classes(rng)
    return Puzzle(made, _parts(rng, rng.randint(1, parts), pod_classes, made))


def _hosts(rng: random.Random, number: int) -> tuple[Host, ...]:
    zones, blocks, racks = rng.randint(1, 2), rng.randint(1, 3), rng.randint(1, 4)
    biggest = rng.choice((2, 4, 8))
    hosts = []
    for i in range(number):
        path: tuple[str, ...] = (
            f"z{rng.randrange(zones)}",
            f"b{rng.randrange(blocks)}",
            f"r{rng.randrange(racks)}",
            f"n{i}",
        )
        if rng.random() < 0.07:
            path = path[: rng.randrange(4)]
        hosts.append(
            Host(f"n{i}", path, (rng.randint(0, biggest), rng.choice((2, 4, 99))), rng.choice(("", "", "a", "b")))
        )
    return tuple(hosts)


def _pod_classes(rng: random.Random) -> list[PodClass]:
    sizes = rng.sample((1, 1, 2, 3, 4, 8), rng.randint(1, 3))
    return [PodClass((size, rng.choice((0, 1, 1, 2))), rng.choice(("", "", "", "a"))) for size in sizes]


def _parts(rng: random.Random, number: int, pod_classes: list[PodClass], hosts: tuple[Host, ...]) -> tuple[Part, ...]:
    names = [""] + [f"g{i}" for i in range(number - 1)]
    parents = {"": ""}
    level = {"": rng.choice((None, None, 0, 1))}
    for name in names[1:]:
        parents[name] = rng.choice([other for other in parents if _depth(other, parents) < 3])
        stated = [known for up in _ups(parents[name], parents) if (known := level[up]) is not None]
        above = max(stated, default=0)
        level[name] = rng.choice((None, None, *range(above, 4)))
    parts = []
    for name in names:
        below = [other for other in names[1:] if parents[other] == name]
        if below:
            parts.append(Part(name, parents[name], rng.randint(1, len(below)), level[name]))
            continue
        kinds = rng.sample(pod_classes, rng.randint(1, min(2, len(pod_classes))))
        pending = tuple((pod_class, rng.randint(1, 4)) for pod_class in kinds)
        total = sum(count for _, count in pending)
        parts.append(Part(name, parents[name], rng.randint(max(1, total - 2), total), level[name], pending))
    return _some_placed(rng, tuple(parts), hosts)


def _some_placed(rng: random.Random, parts: tuple[Part, ...], hosts: tuple[Host, ...]) -> tuple[Part, ...]:
    """Now and then a pod of a leaf runs already; its host's free room is what is left beside it."""
    if rng.random() < 0.7:
        return parts
    at = rng.choice([i for i, part in enumerate(parts) if part.pending])
    part = parts[at]._replace(placed=(rng.choice(hosts).name,), need=parts[at].need + 1)
    return (*parts[:at], part, *parts[at + 1 :])


def _ups(name: str, parents: dict[str, str]) -> list[str]:
    path = [name]
    while name:
        name = parents[name]
        path.append(name)
    return path


def _depth(name: str, parents: dict[str, str]) -> int:
    return len(_ups(name, parents)) - 1


def manifests(puzzle: Puzzle, namespace: str = "team") -> list[dict[str, Any]]:
    """The same puzzle as Kubernetes objects."""
    levels = [{"nodeLabel": label} for label in LEVELS]
    objects: list[dict[str, Any]] = [
        {
            "apiVersion": "kai.scheduler/v1alpha1",
            "kind": "Topology",
            "metadata": {"name": "t"},
            "spec": {"levels": levels},
        }
    ]
    objects += [_host_node(host) for host in puzzle.hosts]
    objects.append(_pod_group(puzzle, namespace))
    for part in puzzle.parts:
        number = 0
        for pod_class, count in part.pending:
            for _ in range(count):
                objects.append(_class_pod(part.name, number, pod_class, namespace))
                number += 1
        for host in part.placed:
            objects.append(_class_pod(part.name, number, PodClass((0, 0)), namespace, host))
            number += 1
    return objects


def _host_node(host: Host) -> Raw:
    labels = dict(zip(LEVELS, host.domains, strict=False)) | ({"kind": host.label} if host.label else {})
    allocatable = {name: str(amount) for name, amount in zip(RESOURCES, host.free, strict=True)}
    return node(host.name, allocatable=allocatable, labels=labels)


def _pod_group(puzzle: Puzzle, namespace: str) -> dict[str, Any]:
    branches = {part.parent for part in puzzle.parts if part.name}
    spec: dict[str, Any] = {}
    for part in puzzle.parts:
        raw: dict[str, Any] = {"minSubGroup" if part.name in branches else "minMember": part.need}
        if part.level is not None:
            raw["topologyConstraint"] = {"requiredTopologyLevel": LEVELS[part.level]}
        if not part.name:
            spec = raw
        else:
            spec.setdefault("subGroups", []).append({"name": part.name, "parent": part.parent, **raw})
    return {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "gang", "namespace": namespace},
        "spec": spec,
    }


def _class_pod(leaf: str, number: int, pod_class: PodClass, namespace: str, on: str = "") -> Raw:
    requests: Raw = {name: str(amount) for name, amount in zip(RESOURCES, pod_class.asks, strict=True)}
    raw = pod(f"{leaf or 'pod'}-{number}", leaf, namespace=namespace, on=on, scheduler="muster", **requests)
    raw["spec"] |= {"nodeSelector": {"kind": pod_class.label}} if pod_class.label else {}
    return raw

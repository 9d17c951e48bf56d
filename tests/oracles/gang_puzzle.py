"""What a gang still needs, as a puzzle for the placement oracle; in GPUs, on nodes with zones and racks."""

from collections.abc import Callable, Mapping

from tests.oracles.objects import CheckedGang, ObjectIndex, labels
from tests.oracles.placement import Host, Part, PodClass, Puzzle

LEVELS = ("zone", "rack")


def gang_puzzle(
    index: ObjectIndex, checked: CheckedGang, free: Mapping[str, int], gpus: Callable[[str], int]
) -> Puzzle:
    """The free GPUs of every node, and each group with what waits and what is placed."""
    hosts = tuple(
        Host(key, tuple(labels(node)[f"topology/{level}"] for level in LEVELS), (max(free[key], 0),))
        for key, node in index.nodes.items()
    )
    return Puzzle(hosts, tuple(_part(checked, group, gpus) for group in checked.tree))


def _part(checked: CheckedGang, group: str, gpus: Callable[[str], int]) -> Part:
    level = (checked.tree[group].get("topologyConstraint") or {}).get("requiredTopologyLevel")
    waiting = () if checked.children.get(group) else checked.waiting[group]
    return Part(
        group,
        checked.tree[group].get("parent") or "",
        max(checked.need(group) - checked.done[group], 0),
        LEVELS.index(level.rpartition("/")[2]) if level else None,
        tuple((PodClass((gpus(pod),)), 1) for pod in waiting),
        tuple(checked.placed[group].values()),
    )

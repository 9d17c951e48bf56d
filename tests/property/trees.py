"""Random gangs as manifests, and what docs/reference/rules.md says of them, written again without the engine."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeVar

from hypothesis import settings
from hypothesis import strategies as st

from tests.support.factories import Raw, group, pod, podgroup

T = TypeVar("T")
fewer = settings(max_examples=max(settings().max_examples // 3, 1))  # for properties that build many gangs each
Style = Literal["record", "totals", "mixed"]  # form of record; M5: pods in all on branches; or both on one tree
STATES: dict[str, Raw] = {
    "placed": {"on": "node"},
    "succeeded": {"on": "node", "phase": "Succeeded"},
    "pending": {},
    "gated": {"gated": True},
    "terminating": {"on": "node", "terminating": True},
    "failed": {"on": "node", "phase": "Failed"},
    "failed while terminating": {"on": "node", "phase": "Failed", "terminating": True},
    "done while terminating": {"on": "node", "phase": "Succeeded", "terminating": True},
}
AGES = ("", "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z", "2025-12-31T23:59:59.5Z", "2026-01-01T01:00:00+01:00")


class Sample(NamedTuple):
    """A PodGroup and its pods, as they stand in files."""

    manifest: Raw
    pods: list[Raw]

    def __repr__(self) -> str:
        spec = self.manifest["spec"]
        groups = [_line(raw) for raw in ({"name": "PodGroup"} | spec, *spec.get("subGroups", ()))]
        pods = [f"{named(raw)} {leaf_named(raw)} {state(raw)}" for raw in self.pods]
        return "\n  ".join(("Sample", *groups, *pods))


def _line(raw: Raw) -> str:
    return " ".join(f"{key}={value}" for key, value in raw.items() if key != "subGroups")


class Dice:
    """Small numbers out of one block of bytes: many times faster than a draw for each, and it shrinks as well."""

    def __init__(self, block: bytes) -> None:
        self.block = block
        self.at = 0

    def roll(self, sides: int) -> int:
        """A number below `sides`; 0 where the block has run out."""
        self.at += 1
        return self.block[self.at - 1] % sides if self.at <= len(self.block) else 0

    def one_of(self, choices: Sequence[T]) -> T:
        """One of the choices; the first is what examples shrink to."""
        return choices[self.roll(len(choices))]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """The items in any order."""
        left = list(items)
        return [left.pop(self.roll(len(left))) for _ in items]


def dice(size: int = 120) -> st.SearchStrategy[Dice]:
    """As many bytes as the largest example takes."""
    return st.binary(min_size=size, max_size=size).map(Dice)


def manifests(style: Style = "record") -> st.SearchStrategy[Raw]:
    """PodGroups of any shape; see `samples`."""
    return dice(60).map(lambda drawn: tree(drawn, style))


def samples(style: Style = "record") -> st.SearchStrategy[Sample]:
    """A tree of up to 12 SubGroups, often deeper than 4, listed in any order, with pods in any state."""
    return dice().map(lambda drawn: sample(drawn, style))


def sample(drawn: Dice, style: Style) -> Sample:
    """A tree and its pods: about as many placed as it needs, and some in any state."""
    manifest = tree(drawn, style)
    names = leaves(manifest)
    seats = [
        (leaf, "placed") for leaf in names for _ in range(max(part(manifest, leaf)["minMember"] + _spare(drawn), 0))
    ]
    seats += [(drawn.one_of(names), drawn.one_of(list(STATES))) for _ in range(drawn.roll(9))]
    return Sample(manifest, [_drawn_pod(drawn, i, *seat) for i, seat in enumerate(seats)])


def _spare(drawn: Dice) -> int:
    return drawn.one_of((0, 0, 0, 0, 1, 2, 3, -1, -2))


def tree(drawn: Dice, style: Style = "record", least: int = 0) -> Raw:
    """A PodGroup; each SubGroup hangs below one of the last few, or below the PodGroup."""
    size = least + drawn.roll(13 - least)
    ups = [drawn.one_of((99, 1, 1, 2, 3)) for _ in range(size)]
    parents = [i - up if up <= i else -1 for i, up in enumerate(ups)]
    groups = [
        group(f"g{i}", parent=f"g{parents[i]}" if parents[i] >= 0 else "") | _minimum(drawn, parents.count(i), style)
        for i in range(size)
    ]
    return podgroup(*drawn.shuffled(groups), **_minimum(drawn, parents.count(-1), style))


def _minimum(drawn: Dice, children: int, style: Style) -> Raw:
    if not children:
        return {"minMember": 1 + drawn.roll(4)}
    count, total = drawn.roll(children + 1), drawn.roll(13)
    return ({"minSubGroup": count} if count and style != "totals" else {}) | (
        {"minMember": total} if total and style != "record" else {}
    )


def _drawn_pod(drawn: Dice, i: int, leaf: str, state: str) -> Raw:
    priority, created = drawn.one_of((None, 1, 2)), drawn.one_of(AGES)
    return pod(f"p{i:02}", leaf, priority=priority, created=created, **STATES[state])


# changes ------------------------------------------------------------------------------------------------------------


def named(raw: Raw) -> str:
    """The name of an object."""
    return str(raw["metadata"]["name"])


def leaf_named(raw: Raw) -> str:
    """The leaf that a pod names; empty: the PodGroup itself."""
    return str(raw["metadata"]["labels"].get("kai.scheduler/subgroup-name", ""))


def put_on_a_node(pods: list[Raw], names: set[str]) -> list[Raw]:
    """The same pods, with some of them bound."""
    return [raw | {"spec": raw["spec"] | {"nodeName": "node"}} if named(raw) in names else raw for raw in pods]


def without(pods: list[Raw], names: set[str]) -> list[Raw]:
    """The pods that stay when some are gone."""
    return [raw for raw in pods if named(raw) not in names]


def invented(leaf: str, number: int) -> list[Raw]:
    """Pods that did not exist before, on nodes."""
    return [pod(f"new-{leaf}-{i}", leaf, on="node") for i in range(number)]


def fulfilled(sample: Sample) -> Sample:
    """A satisfied gang: the sample itself, or with the pods that its leaves and then its totals lack."""
    manifest, have = sample.manifest, counts(sample)
    if meets_minimums(manifest, have):
        return sample
    groups = [raw["name"] for raw in manifest["spec"].get("subGroups", ())]
    added = dict.fromkeys(have, 0)
    for name in sorted(("", *groups), key=lambda name: len(leaves(manifest, name))):
        below = leaves(manifest, name)
        lacking = part(manifest, name).get("minMember", 1) - sum(have[leaf] + added[leaf] for leaf in below)
        added[below[0]] += max(lacking, 0)
    return Sample(manifest, sample.pods + [raw for leaf in added for raw in invented(leaf, added[leaf])])


# meaning ------------------------------------------------------------------------------------------------------------


def part(manifest: Raw, name: str) -> Raw:
    """A SubGroup by name; the PodGroup's own spec for the empty one."""
    spec: Raw = manifest["spec"]
    return next(raw for raw in spec["subGroups"] if raw["name"] == name) if name else spec


def children(manifest: Raw, name: str) -> list[str]:
    """Direct children in spec order (N1)."""
    return [raw["name"] for raw in manifest["spec"].get("subGroups") or () if (raw.get("parent") or "") == name]


def leaves(manifest: Raw, name: str = "") -> list[str]:
    """Every leaf at or below a group."""
    below = children(manifest, name)
    return [leaf for child in below for leaf in leaves(manifest, child)] if below else [name]


def state(raw: Raw) -> str:
    """N5 in four words: placed, done, waiting, or nothing."""
    if raw["status"].get("phase") == "Failed" or "deletionTimestamp" in raw["metadata"]:
        return "nothing"
    if raw["status"].get("phase") == "Succeeded":
        return "done"
    if "nodeName" in raw["spec"]:
        return "placed"
    return "nothing" if "schedulingGates" in raw["spec"] else "waiting"


def of_leaf(pods: list[Raw], leaf: str, *states: str) -> list[str]:
    """Names of a leaf's pods in these states, in the order of M4."""
    mine = [raw for raw in pods if leaf_named(raw) == leaf]
    return [named(raw) for raw in sorted(mine, key=_rank) if state(raw) in states]


def _rank(raw: Raw) -> tuple[int, float, str]:
    meta = raw["metadata"]
    age = (0.0, 1767225600.0, 1767225601.0, 1767225599.5, 1767225600.0)[AGES.index(meta.get("creationTimestamp", ""))]
    return -int(meta["labels"].get("kai.scheduler/task-priority", 0)), age, meta["name"]


def counts(sample: Sample) -> dict[str, int]:
    """How many pods of each leaf count for its minimum."""
    return {leaf: len(of_leaf(sample.pods, leaf, "placed", "done")) for leaf in leaves(sample.manifest)}


def meets_minimums(manifest: Raw, have: dict[str, int], name: str = "") -> bool:
    """M1, M2 and M5, word by word."""
    own, below = part(manifest, name), children(manifest, name)
    if not below:
        return have[name] >= (own.get("minMember") or 1)
    good = sum(meets_minimums(manifest, have, child) for child in below)
    in_all = sum(have[leaf] for leaf in leaves(manifest, name))
    return good >= (own.get("minSubGroup") or len(below)) and in_all >= (own.get("minMember") or 0)


def core_of(sample: Sample, name: str = "") -> set[str]:
    """P2, word by word; pods that are done stand for as many of the first (N5)."""
    own, below = part(sample.manifest, name), children(sample.manifest, name)
    if not below:
        still = max((own.get("minMember") or 1) - len(of_leaf(sample.pods, name, "done")), 0)
        return set(of_leaf(sample.pods, name, "placed")[:still])
    good = [child for child in below if meets_minimums(sample.manifest, counts(sample), child)]
    first = good[: own.get("minSubGroup") or len(below)]
    return {name for child in first for name in core_of(sample, child)}


def placed(sample: Sample) -> set[str]:
    """Every pod of the gang that is on a node and counts."""
    return {name for leaf in leaves(sample.manifest) for name in of_leaf(sample.pods, leaf, "placed")}


def below(sample: Sample) -> dict[str, set[str]]:
    """For every SubGroup the pods placed at or below it."""
    groups: list[Any] = sample.manifest["spec"].get("subGroups") or []
    return {
        raw["name"]: {
            name for leaf in leaves(sample.manifest, raw["name"]) for name in of_leaf(sample.pods, leaf, "placed")
        }
        for raw in groups
    }

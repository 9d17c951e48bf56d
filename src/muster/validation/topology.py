"""Rules of a Topology, and of the levels that constraints name (T4, T6)."""

import re
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from itertools import pairwise

from muster.api import names
from muster.api.core import Node
from muster.api.topology import LABEL_KEY, MOST_LEVELS, Topology
from muster.validation.problem import Problem

_KEY = re.compile(LABEL_KEY)


def judge(topology: Topology, nodes: Iterable[Node] = ()) -> Iterator[Problem]:
    """Every problem of a Topology; with nodes, also whether its levels nest on them."""
    if not topology.metadata.name:
        yield Problem("metadata.name", "is missing", hint="every Topology has a name")
    labels = [level.node_label for level in topology.spec.levels]
    yield from _count(labels)
    yield from _unique(labels)
    yield from _keys(labels)
    yield from _known_order(labels)
    yield from _nested(labels, list(nodes))


def find_level(topology: Topology, word: str) -> int | None:
    """A level by its node label, or by the last part of that label where this is unambiguous (T4)."""
    return _find(tuple(level.node_label for level in topology.spec.levels), word)


@lru_cache(maxsize=4096)  # groups name few different levels
def _find(labels: tuple[str, ...], word: str) -> int | None:
    if word in labels:
        return labels.index(word)
    matches = [i for i, label in enumerate(labels) if label.rsplit("/", 1)[-1] == word]
    return matches[0] if len(matches) == 1 else None


def unknown_topology(name: str, known: Collection[str]) -> str:
    """Why a constraint resolves to no Topology (T4, T6)."""
    if name:
        return f"topology `{name[:80]}` does not exist"
    return f"no topology is named, and there {f'are {len(known)}' if known else 'is none'}"


def unknown_level(topology: Topology, word: str) -> str:
    """Why a word is not a level of a Topology: no label matches, or several end in it (T4, T6)."""
    labels = [level.node_label for level in topology.spec.levels]
    alike = [f"`{label}`" for label in labels if label.rsplit("/", 1)[-1] == word]
    if len(alike) > 1:
        return f"level `{word[:80]}` of topology `{topology.metadata.name}` may be {' or '.join(alike)}"
    return f"topology `{topology.metadata.name}` has no level `{word[:80]}`"


def _count(labels: list[str]) -> Iterator[Problem]:
    if not 1 <= len(labels) <= MOST_LEVELS:
        yield Problem("spec.levels", f"has {len(labels)} levels", hint=f"between 1 and {MOST_LEVELS}", rule="T4")


def _unique(labels: list[str]) -> Iterator[Problem]:
    first: dict[str, int] = {}
    for i, label in enumerate(labels):
        if first.setdefault(label, i) < i:
            yield Problem(
                f"spec.levels[{i}].nodeLabel",
                f"`{label[:80]}` is already level {first[label]}",
                hint="each level has a label of its own",
                rule="T4",
            )


def _keys(labels: list[str]) -> Iterator[Problem]:
    for i, label in enumerate(labels):
        if len(label) > 317 or not _KEY.fullmatch(label):
            yield Problem(
                f"spec.levels[{i}].nodeLabel",
                f"`{label[:80]}` is not a label key" if label else "is missing",
                hint="such as `topology.kubernetes.io/zone`",
                rule="T4",
            )


def _known_order(labels: list[str]) -> Iterator[Problem]:
    """Well-known labels go from coarse to fine: region, zone, …, hostname."""
    if names.HOSTNAME in labels[:-1]:
        yield Problem(
            f"spec.levels[{labels.index(names.HOSTNAME)}].nodeLabel",
            f"`{names.HOSTNAME}` is the finest level there is, but others follow",
            hint="levels go from coarse to fine: put it last",
            rule="T4",
        )
    if names.ZONE in labels and names.REGION in labels[labels.index(names.ZONE) :]:
        yield Problem(
            f"spec.levels[{labels.index(names.REGION)}].nodeLabel",
            f"`{names.REGION}` is coarser than `{names.ZONE}`, but comes after it",
            hint="levels go from coarse to fine: put it first",
            rule="T4",
        )


def _nested(labels: list[str], nodes: list[Node]) -> Iterator[Problem]:
    """Warn where the nodes show the reverse order: each value of the upper label lies inside one of the lower."""
    for i, (upper, lower) in enumerate(pairwise(labels)):
        pairs = {
            (node.metadata.labels[upper], node.metadata.labels[lower])
            for node in nodes
            if upper in node.metadata.labels and lower in node.metadata.labels
        }
        above, below = len({a for a, _ in pairs}), len({b for _, b in pairs})
        if above == len(pairs) > below:
            yield Problem(
                f"spec.levels[{i + 1}].nodeLabel",
                f"`{lower}` looks coarser than `{upper}` on these nodes: {below} values hold {above}",
                hint="levels go from coarse to fine: swap the two",
                severity="warning",
                rule="T4",
            )

"""Gangs that follow another one into its domain (R3): of the placements of that one, one after which most of them fit.

Scaled gangs of a PodCliqueSet are held to the required domain of their base, and are gated until that is chosen. An
annotation of the base says which of its SubGroups they are like, and how many there are; so a pod of theirs need not
exist yet. Rule: they only choose among placements of the base (X4), as its own extras do, and before these (G4).
"""

from collections.abc import Iterator
from itertools import islice

import msgspec
from msgspec import Struct

from muster.api.names import SCALED_GANGS
from muster.model.gang.gang import Gang
from muster.placement.requirements.tree import leaves, subtree
from muster.placement.requirements.types import Requirement, RequirementKinds
from muster.placement.search.growth import Placement

MOST_FOLLOWERS = 64  # that count: each costs steps
AROUND = "+"  # begins the names of what is added to a gang: no SubGroup can have it


class Followers(Struct, frozen=True):
    """Gangs that are like SubGroups of the gang that they follow."""

    like: tuple[str, ...]
    count: int


def followers_of(gang: Gang) -> tuple[Followers, ...]:
    """The gangs that follow this one; none where its annotation cannot be read."""
    stated = gang.source.metadata.annotations.get(SCALED_GANGS, "")
    try:
        return msgspec.json.decode(stated, type=tuple[Followers, ...]) if stated else ()
    except (msgspec.DecodeError, RecursionError):
        return ()


def with_followers(gang: Gang, core: Requirement, kinds: RequirementKinds) -> Requirement | None:
    """The core of a gang, with those that follow it as extras; None: there are none, or its domain is known."""
    level = core.required
    if level is None or level.pinned is not None:
        return None
    copies = tuple(islice(_copies(followers_of(gang), core, kinds), MOST_FOLLOWERS))
    return kinds.derive(Requirement(AROUND, 1, required=level, children=(core, *copies))) if copies else None


def without_followers(placement: Placement | None, core: Requirement) -> Placement | None:
    """The placement of the core and its own extras; None: there is none of the core."""
    own = {leaf.name for leaf in leaves(core)}
    if placement is None or not all(placed.leaf in own for placed in placement.core):
        return None
    return Placement(placement.core, tuple(placed for placed in placement.extras if placed.leaf in own))


def _copies(followers: tuple[Followers, ...], core: Requirement, kinds: RequirementKinds) -> Iterator[Requirement]:
    patterns = ((_pattern(group.like, core, kinds), group.count) for group in followers)
    wanted = (pattern for pattern, count in patterns if pattern is not None for _ in range(count))
    return (_copy(pattern, f"{AROUND}{number}", kinds) for number, pattern in enumerate(wanted))


def _pattern(like: tuple[str, ...], core: Requirement, kinds: RequirementKinds) -> Requirement | None:
    """What one of them needs: the branch that has these SubGroups, or all of these; None: one of them is not known."""
    parts = {part.name: part for part in subtree(core)}
    if not like or not all(name in parts for name in like):
        return None
    branches = (part for part in subtree(core) if part is not core)
    own = next((part for part in branches if {child.name for child in part.children} == {*like}), None)
    return own or kinds.derive(Requirement(AROUND, len(like), children=tuple(parts[name] for name in like)))


def _copy(part: Requirement, suffix: str, kinds: RequirementKinds) -> Requirement:
    """The same need under another name: without preferences, and without pods above the minimum."""
    children = tuple(_copy(child, suffix, kinds) for child in part.children)
    pods = tuple(_first(part.pods, part.need)) if part.is_leaf else ()
    return kinds.derive(Requirement(f"{part.name}{suffix}", part.need, part.required, pods=pods, children=children))


def _first(runs: tuple[tuple[int, int], ...], count: int) -> Iterator[tuple[int, int]]:
    for pod_class, length in runs:
        if count > 0:
            yield pod_class, min(length, count)
        count -= length

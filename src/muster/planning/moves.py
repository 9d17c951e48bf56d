"""Pods that have to leave and find another place: moves, not losses (P5, P6)."""

from collections.abc import Mapping
from functools import partial

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from muster.model.gang import Branch, Gang, Group, Leaf, Member, State, changed, satisfied, walk
from muster.model.neighbours import rules_of
from muster.model.roles import units
from muster.model.snapshot import Snapshot
from muster.placement.budget import OutOfSteps
from muster.placement.goal import Goal, Goals
from muster.placement.ledger import Ledger
from muster.placement.search import Seat
from muster.planning.board import Board
from muster.planning.decision import Eviction, Verdict
from muster.planning.extras import further

Ints = NDArray[np.int64]
Homes = dict[tuple[str, str], str]  # (leaf, pod) -> node
MARK = "\0"  # between the names of a gang and of its leaf


class Moves:
    """New places for those who leave, written on the board."""

    def __init__(self, board: Board) -> None:
        self.board = board
        self._ruled: set[str] | None = None
        self._whole: dict[str, frozenset[str]] = {}

    def bound_by_rules(self, gang: Gang, member: Member) -> bool:
        """Whether a running pod carries rules between pods itself."""
        if self._ruled is None:
            self._ruled = _ruled(self.board.snapshot)
        return f"{gang.namespace}/{member.name}" in self._ruled

    def whole(self, gang: Gang) -> frozenset[str]:
        """The leaves that are satisfied, with every group above them."""
        if gang.key not in self._whole:
            now = gang.standings
            found: list[Group] = [gang.root] if now[gang.root.name].satisfied else []
            for group in found:
                children = group.children if isinstance(group, Branch) else ()
                found += [child for child in children if now[child.name].satisfied]
            self._whole[gang.key] = frozenset(group.name for group in found if isinstance(group, Leaf))
        return self._whole[gang.key]

    def settle(self) -> None:
        """Every victim without a new place gets one, if there is one left once everybody else has theirs."""
        for key in sorted(self.board.turns):
            if self.board.turns[key].evictions:
                self.board.attempt(key, partial(self._settle, key))

    def _settle(self, key: str) -> None:
        turn = self.board.turns[key]
        lost = {(one.sub_group, one.pod) for one in turn.evictions if not one.move_to and one.reason != "Stale"}
        if lost and self._could(turn.gang, lost):
            homes = rehomed(self.board, self.board.later.copy(), turn.gang, lost)
            self.board.save()
            self.write(key, homes)
            self._spare(key)

    def _spare(self, key: str) -> None:
        """Whoever would come back to where it is does not leave: single pods, or all of the gang that were to go."""
        turn = self.board.turns[key]
        core = {(leaf, pod.name) for unit in units(self.board.before[key].root) if unit.core for leaf, pod in unit.pods}
        whole = any((one.sub_group, one.pod) in core for one in turn.evictions)
        back = [one for one in turn.evictions if one.move_to == one.node and one.reason != "Stale"]
        if not back or (whole and len(back) < len(turn.evictions)):
            return
        kept = {(one.sub_group, one.pod) for one in back} if whole else self._single(key, back)
        stay = tuple(one for one in turn.evictions if (one.sub_group, one.pod) not in kept)
        verdict: Verdict = "Scheduled" if satisfied(turn.gang.root) else turn.verdict
        self.board.turns[key] = replace(turn, evictions=stay, verdict=verdict)

    def _single(self, key: str, back: list[Eviction]) -> set[tuple[str, str]]:
        """Units that come back as a whole."""
        names = {(one.sub_group, one.pod) for one in back}
        found: set[tuple[str, str]] = set()
        for unit in units(self.board.before[key].root):
            mine = {(leaf, pod.name) for leaf, pod in unit.pods}
            if mine and mine <= names:
                found |= mine
        return found

    def _could(self, gang: Gang, lost: set[tuple[str, str]]) -> bool:
        """Whether any of them fits anywhere, and may be moved at all."""
        found = False
        for _, member in _members(gang, lost):
            shape = self.board.shape(gang, member.name)
            if shape in self.board.now.company.touched or self.bound_by_rules(gang, member):
                return False
            found = found or bool(self.board.later.fits(shape).any())
        return found

    def write(self, key: str, homes: Homes) -> None:
        """They are evicted from where they are, and their new places are kept for them."""
        turn = self.board.turns[key]
        if not homes:
            return
        members = {(leaf, member.name): member for leaf, member in _members(turn.gang, set(homes))}
        placed = {at: replace(members[at], state=State.PLACED, node=node) for at, node in homes.items()}
        self.board.settle(key, [(leaf, member) for (leaf, _), member in placed.items()])
        evictions = tuple(
            replace(one, move_to=homes.get((one.sub_group, one.pod), one.move_to)) for one in turn.evictions
        )
        gang = replace(turn.gang, root=changed(turn.gang.root, placed))
        self.board.turns[key] = replace(turn, gang=gang, evictions=evictions)


def rehomed(board: Board, ledger: Ledger, gang: Gang, leaving: set[tuple[str, str]]) -> Homes:
    """New places on a ledger for pods of a gang: its core whole or not at all, then extras; the ledger moves along.

    `gang` has them placed still, or terminating: here they wait, and nobody else of it does.
    """
    gang = _waiting(gang, leaving)
    homes: Homes = {}
    known = gang.queue in board.accounts.tree.nodes
    allowance = board.accounts.allowance(gang.queue, protected=False) if known else None
    try:
        while len(homes) < len(leaving):
            goals = Goals(gang, board.snapshot, board.kinds)
            found = _next(board, ledger, gang, goals, allowance)
            if found is None:
                break
            for seat in found:
                ledger.put(seat.node, seat.shape, seat.pods)
                if allowance is not None:
                    allowance = allowance - board.shapes.asks[seat.shape] * seat.pods
            gang = board.seated(gang, found)
            homes |= _homes(gang, leaving)
    except OutOfSteps:
        pass
    return homes


def _next(board: Board, ledger: Ledger, gang: Gang, goals: Goals, allowance: Ints | None) -> tuple[Seat, ...] | None:
    """Seats for the core if that is missing, else for the next further part that fits."""
    if not goals.standings[gang.root.name].satisfied:
        for goal in goals.cores():
            if isinstance(goal, Goal) and (found := board.find(ledger, goal, allowance)) is not None:
                return found
        return None
    for _, part, pods in further(gang.root, goals.standings):
        more = goals.further(part, pods)
        if isinstance(more, Goal) and (found := board.find(ledger, more, allowance)) is not None:
            return found
    return None


def together(
    board: Board, ledger: Ledger, goal: Goal, gangs: Mapping[str, Gang], leaving: Mapping[str, set[tuple[str, str]]]
) -> tuple[tuple[Seat, ...], dict[str, Homes]] | None:
    """Seats for a goal, and new places for all pods of some gangs that leave, found as one goal; None: there are none.

    Every gang is whole again: as many pods in every part, all levels kept.
    """
    parts = [_named(board, "", goal)]
    after: dict[str, Gang] = {}
    for key, gang in gangs.items():
        after[key] = _waiting(gang, leaving[key])
        part = Goals(after[key], board.snapshot, board.kinds).restored(leaving[key])
        if not isinstance(part, Goal):
            return None
        parts.append(_named(board, key, part))
    try:
        whole = board.kinds.made(Goal("*", len(parts), children=tuple(parts)))
        found = board.find(ledger, whole)
    except OutOfSteps:
        return None
    if found is None:
        return None
    seats: dict[str, list[Seat]] = {}
    for seat in found:
        key, _, leaf = seat.leaf.partition(MARK)
        seats.setdefault(key, []).append(replace(seat, leaf=leaf))
    homes = {key: _homes(board.seated(gang, seats.get(key, [])), leaving[key]) for key, gang in after.items()}
    return tuple(seats.get("", ())), homes


def _named(board: Board, key: str, goal: Goal) -> Goal:
    """The goal with names that no other gang has."""
    children = tuple(_named(board, key, child) for child in goal.children)
    return board.kinds.made(goal, name=f"{key}{MARK}{goal.name}", children=children)


def _waiting(gang: Gang, leaving: set[tuple[str, str]]) -> Gang:
    """The gang with those who leave waiting for a place, and nobody else of it."""
    back = {(leaf, one.name): replace(one, state=State.PENDING, node="") for leaf, one in _members(gang, leaving)}
    aside = {
        (leaf.name, one.name): replace(one, state=State.GATED)
        for leaf in walk(gang.root)
        if isinstance(leaf, Leaf)
        for one in leaf.those(State.PENDING)
    }
    return replace(gang, root=changed(gang.root, aside | back))


def _homes(gang: Gang, leaving: set[tuple[str, str]]) -> Homes:
    return {
        (leaf.name, one.name): one.node
        for leaf in walk(gang.root)
        if isinstance(leaf, Leaf)
        for one in leaf.placed
        if (leaf.name, one.name) in leaving
    }


def _members(gang: Gang, wanted: set[tuple[str, str]]) -> list[tuple[str, Member]]:
    leaves = {name for name, _ in wanted}
    return [
        (leaf.name, one)
        for leaf in walk(gang.root)
        if isinstance(leaf, Leaf) and leaf.name in leaves
        for one in leaf.members
        if (leaf.name, one.name) in wanted
    ]


def _ruled(snapshot: Snapshot) -> set[str]:
    return {
        f"{pod.metadata.namespace or 'default'}/{pod.metadata.name}"
        for pod in snapshot.objects.pods
        if pod.spec.node_name
        and (pod.spec.affinity is not None or pod.spec.topology_spread_constraints)
        and any(rule.firm for rule in rules_of(pod))
    }

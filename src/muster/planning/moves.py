"""Pods that have to leave and find another place: moves, not losses (P5, P6)."""

from msgspec.structs import replace

from muster.model.gang import Gang, Leaf, Member, State, changed, walk
from muster.model.neighbours import rules_of
from muster.model.snapshot import Snapshot
from muster.placement.goal import Goal, Goals
from muster.placement.ledger import Ledger
from muster.placement.packing import OutOfSteps
from muster.placement.search import Seat
from muster.planning.board import Board
from muster.planning.extras import further

Homes = dict[tuple[str, str], str]  # (leaf, pod) -> node


class Moves:
    """New places for those who leave, written on the board."""

    def __init__(self, board: Board) -> None:
        self.board = board
        self._ruled: set[str] | None = None

    def bound_by_rules(self, gang: Gang, member: Member) -> bool:
        """Whether a running pod carries rules between pods itself."""
        if self._ruled is None:
            self._ruled = _ruled(self.board.snapshot)
        return f"{gang.namespace}/{member.name}" in self._ruled

    def settle(self) -> None:
        """Every victim without a new place gets one, if there is one left once everybody else has theirs."""
        for key in sorted(self.board.turns):
            turn = self.board.turns[key]
            lost = {(one.sub_group, one.pod) for one in turn.evictions if not one.move_to and one.reason != "Stale"}
            if lost and self._could(turn.gang, lost):
                homes = rehomed(self.board, self.board.later.copy(), turn.gang, lost)
                self.write(key, homes)

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
    back = {(leaf, one.name): replace(one, state=State.PENDING, node="") for leaf, one in _members(gang, leaving)}
    aside = {
        (leaf.name, one.name): replace(one, state=State.GATED)
        for leaf in walk(gang.root)
        if isinstance(leaf, Leaf)
        for one in leaf.those(State.PENDING)
    }
    gang = replace(gang, root=changed(gang.root, aside | back))
    homes: Homes = {}
    try:
        while len(homes) < len(leaving):
            goals = Goals(gang, board.snapshot, board.kinds)
            found = _next(board, ledger, gang, goals)
            if found is None:
                break
            for seat in found:
                ledger.put(seat.node, seat.shape, seat.pods)
            after = board.seated(gang, found)
            homes |= {
                (leaf.name, one.name): one.node
                for leaf in walk(after.root)
                if isinstance(leaf, Leaf)
                for one in leaf.placed
                if (leaf.name, one.name) in leaving
            }
            gang = after
    except OutOfSteps:
        pass
    return homes


def _next(board: Board, ledger: Ledger, gang: Gang, goals: Goals) -> tuple[Seat, ...] | None:
    """Seats for the core if that is missing, else for the next further part that fits."""
    allowance = (
        board.accounts.allowance(gang.queue, protected=False) if gang.queue in board.accounts.tree.nodes else None
    )
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

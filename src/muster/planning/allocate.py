"""Seat every gang that fits without disturbing anyone, most deserving first (G1-G4)."""

from collections.abc import Iterator
from fractions import Fraction
from heapq import heapify, heappop, heappush

from msgspec import Struct
from msgspec.structs import replace

from muster.model.gang import Branch, Gang, Group, Leaf, State, seated, standings, walk
from muster.model.snapshot import Snapshot
from muster.placement.goal import Goal, Goals, Impossible, Kinds
from muster.placement.ledger import Ledger, Shapes
from muster.placement.packing import Budget, OutOfSteps
from muster.placement.preferences import find
from muster.placement.search import Search, Seat
from muster.planning.decision import Binding, Refusal, Role, Verdict
from muster.planning.diagnose import Diagnosis


class Turn(Struct, frozen=True, eq=False):
    """A gang as it stands in this cycle."""

    gang: Gang  # with what was placed in this cycle
    verdict: Verdict
    refusals: tuple[Refusal, ...] = ()
    bindings: tuple[Binding, ...] = ()
    hopeless: frozenset[str] = frozenset()  # parts that do not fit any more


class Allocation:
    """One pass over all gangs; the ledger moves with every grant."""

    def __init__(self, snapshot: Snapshot, steps: int) -> None:
        self.snapshot = snapshot
        self.steps = steps
        self.ledger = Ledger(Shapes(snapshot), snapshot.free)

    def run(self) -> list[Turn]:
        """Grant after grant in the order of G4: after each, a gang goes back into that order, so extras take turns."""
        turns = {gang.key: Turn(gang, "Waiting") for gang in self.snapshot.gangs}
        grants = dict.fromkeys(turns, 0)
        order = [(self._rank(turn.gang, 0), key) for key, turn in turns.items()]
        heapify(order)
        while order:
            _, key = heappop(order)
            after = self._grant(turns[key])
            granted = len(after.bindings) > len(turns[key].bindings) or after.hopeless != turns[key].hopeless
            turns[key] = after
            grants[key] += 1
            if granted and after.verdict == "Scheduled" and standings(after.gang.root)[after.gang.root.name].pending:
                heappush(order, (self._rank(after.gang, grants[key]), key))
        return [turns[key] for key in sorted(turns)]

    def _rank(self, gang: Gang, grants: int) -> tuple[int, bool, int, float, str]:
        """Priority, gangs below their minimum first, fewest grants, age, name."""
        return (-gang.priority, standings(gang.root)[gang.root.name].satisfied, grants, gang.created, gang.key)

    def _grant(self, turn: Turn) -> Turn:
        goals = Goals(turn.gang, self.snapshot)
        if invalid := goals.invalid():
            return self._refused(turn, goals, invalid)
        if not goals.standings[turn.gang.root.name].satisfied:
            return self._core(turn, goals)
        return self._extra(replace(turn, verdict="Scheduled"), goals)

    def _core(self, turn: Turn, goals: Goals) -> Turn:
        """The whole core, or nothing and the reason (G1)."""
        first: Goal | Impossible | None = None
        try:
            for goal in goals.cores():
                first = first or goal
                found = self._find(goal, goals.kinds) if isinstance(goal, Goal) else None
                if found is not None:
                    return self._bind(replace(turn, verdict="Scheduled"), found, "core")
        except OutOfSteps:
            return replace(turn, verdict="Unknown", refusals=(Refusal("SearchCutShort"),))
        return self._refused(turn, goals, first)

    def _refused(self, turn: Turn, goals: Goals, goal: Goal | Impossible | None) -> Turn:
        if isinstance(goal, Goal):
            refusal = Diagnosis(self.ledger, goals, goal, self.steps // 10).refusal()
            return replace(turn, verdict="Infeasible", refusals=(refusal,))
        assert goal is not None
        verdict: Verdict = "Invalid" if goal.reason == "InvalidSpec" else "Waiting"
        return replace(turn, verdict=verdict, refusals=(Refusal(goal.reason, goal.group, {"detail": goal.detail}),))

    def _extra(self, turn: Turn, goals: Goals) -> Turn:
        """The next further part that fits; those that do not are not asked again in this cycle (G3)."""
        hopeless = set(turn.hopeless)
        for name, part, pods in _further(turn.gang.root, goals):
            if name in hopeless:
                continue
            goal = goals.further(part, pods)
            found = self._try(goal, goals.kinds) if isinstance(goal, Goal) else None
            if found is not None:
                return self._bind(replace(turn, hopeless=frozenset(hopeless)), found, "extra")
            hopeless.add(name)
        return replace(turn, hopeless=turn.hopeless)

    def _try(self, goal: Goal, kinds: Kinds) -> tuple[Seat, ...] | None:
        """An extra is never worth an `unknown`: it waits for the next cycle."""
        try:
            return self._find(goal, kinds)
        except OutOfSteps:
            return None

    def _find(self, goal: Goal, kinds: Kinds) -> tuple[Seat, ...] | None:
        return find(Search(self.ledger, self.snapshot.topologies, kinds, Budget(self.steps)), goal)

    def _bind(self, turn: Turn, seats: tuple[Seat, ...], role: Role) -> Turn:
        """Classes back to pods, first come first (M4)."""
        gang = turn.gang
        waiting: dict[tuple[str, int], list[str]] = {}
        for leaf in walk(gang.root):
            for member in leaf.those(State.PENDING) if isinstance(leaf, Leaf) else ():
                shape = self.snapshot.class_of[f"{gang.namespace}/{member.name}"]
                waiting.setdefault((leaf.name, shape), []).append(member.name)
        bindings, nodes = [], {}
        for seat in seats:
            self.ledger.put(seat.node, seat.shape, seat.pods)
            node = self.snapshot.nodes[seat.node].metadata.name
            for _ in range(seat.pods):
                pod = waiting[seat.leaf, seat.shape].pop(0)
                bindings.append(Binding(gang.namespace, pod, node, gang.name, seat.leaf, role))
                nodes[seat.leaf, pod] = node
        return replace(
            turn,
            gang=replace(gang, root=seated(gang.root, nodes)),
            bindings=(*turn.bindings, *bindings),
        )


def _further(root: Group, goals: Goals) -> Iterator[tuple[str, Group, int]]:
    """Further SubGroups in spec order, then further pods of satisfied leaves, the emptiest first (G3)."""
    now = goals.standings
    present: list[Group] = [root]
    absent: list[Group] = []
    for group in present:
        for child in group.children if isinstance(group, Branch) else ():
            (present if now[child.name].satisfied else absent).append(child)
    for group in sorted(absent, key=lambda group: group.order):
        yield group.name, group, 0
    leaves = [leaf for leaf in present if isinstance(leaf, Leaf) and now[leaf.name].pending]
    for leaf in sorted(leaves, key=lambda leaf: (Fraction(now[leaf.name].counted, leaf.need), leaf.order)):
        yield f"{leaf.name}/", leaf, 1

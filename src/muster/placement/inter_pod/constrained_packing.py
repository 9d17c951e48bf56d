"""Exact packing under inter-pod rules (decision 0007): finds an assignment that keeps them all or proves there is none.

Nodes that no rule distinguishes form a cell. The search decides cell by cell how many pods of each kind go there;
`packing` decides whether they fit. A rule keeps a tally per domain: a violation that no later pod can mend prunes the
search at once, all others are checked with the last cell of the domain. Failed states are remembered.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from muster.model.inter_pod_rules import Rule
from muster.placement.budget import Budget
from muster.placement.capacity import Capacity
from muster.placement.inter_pod.cells import Cells
from muster.placement.packing.packing import Assignments, Demand, NodeSet, group_demands, pack, share_out

Ints = NDArray[np.int64]
Vector = tuple[int, ...]  # pods by kind


class PlaceTally(Struct, frozen=True):
    """New pods in one domain, as one rule counts them."""

    carriers: int = 0
    selected: int = 0
    both: int = 0  # carriers that the rule selects


EMPTY_TALLY = PlaceTally()


class Summary(Struct, frozen=True):
    """What a rule keeps of complete domains."""

    least: int = -1  # spread: the smallest count; -1: none yet
    most: int = -1  # spread: the largest count of a domain with a carrier
    started: bool = False  # affinity: carriers have started a domain


class RuleOverCells:
    """One rule over the cells of one packing."""

    def __init__(self, rule: Rule, cells: Cells, number: int, items: Sequence[Demand]) -> None:
        inter_pod = cells.capacity.inter_pod
        self.rule = rule
        self.carriers = tuple(number in inter_pod.classes[item.pod_class].carries for item in items)
        self.chosen = tuple(number in inter_pod.classes[item.pod_class].selected_by for item in items)
        places = inter_pod.places(rule)
        counting = inter_pod.counting(rule) if rule.kind == "spread" else places >= 0
        self.place = [int(places[nodes[0]]) for nodes in cells.nodes]
        self.counts = [bool(counting[nodes[0]]) for nodes in cells.nodes]
        self.last = {place: i for i, place in enumerate(self.place)}
        known = np.unique(places[counting])
        held = inter_pod.selected.row(number)
        sums = np.bincount(places[counting], weights=held[counting]) if len(known) else np.zeros(0)
        self.before: dict[int, int] = dict(zip(known.tolist(), sums[known].astype(np.int64).tolist(), strict=True))
        self.level = -1
        self.single = False

    def _is_single(self, coming: Vector) -> bool:
        """Affinity: whether all carriers must share one domain: there is one pod to join, or one domain to start."""
        if self.rule.kind != "affinity" or any(self.before.values()):
            return False
        kinds = list(zip(coming, self.chosen, self.carriers, strict=True))
        seeds = sum(count for count, chosen, carries in kinds if chosen and not carries)
        starters = any(count and chosen and carries for count, chosen, carries in kinds)
        return seeds + starters <= 1

    def most(self, kind: int) -> int | None:
        """The most pods of a kind in one domain; None: any number."""
        return 1 if self.rule.kind == "anti_affinity" and self.carriers[kind] and self.chosen[kind] else None

    def plan(self, coming: Vector) -> None:
        """Derive bounds from the pods of each kind. Spread: the highest count that the emptiest domain can reach."""
        self.single = self._is_single(coming)
        if self.rule.kind != "spread" or not self.before:
            return
        more = sum(count for count, chosen in zip(coming, self.chosen, strict=True) if chosen)
        counts = sorted(self.before.values())
        level, filled = counts[0], 0
        for i, count in enumerate([*counts[1:], counts[-1] + more + 1], 1):
            step = min((more - filled) // i, count - level)
            level, filled = level + step, filled + step * i
            if level < count:
                break
        self.level = 0 if len(counts) < self.rule.places else level
        self.even = filled == more

    def start(self) -> Summary:
        """The initial summary: of the domains that no cell is in."""
        outside = [count for place, count in self.before.items() if place not in self.last]
        if self.rule.kind != "spread":
            return Summary()
        return Summary(least=min(outside, default=-1))

    def add(self, cell: int, tally: PlaceTally, vector: Vector) -> PlaceTally:
        """The tally of the cell's domain with more pods; those on nodes that do not count are not selected."""
        carriers = selected = both = 0
        for count, carries, chosen in zip(vector, self.carriers, self.chosen, strict=False):
            chosen = chosen and self.counts[cell]
            carriers += count * carries
            selected += count * chosen
            both += count * (carries and chosen)
        return PlaceTally(tally.carriers + carriers, tally.selected + selected, tally.both + both)

    def bearable(self, place: int, tally: PlaceTally) -> bool:
        """False: the rule is broken, wherever later pods go."""
        if place < 0 or not tally.carriers:
            return True
        match self.rule.kind:
            case "anti_affinity":
                return tally.selected == 0 or (tally.carriers == tally.selected == tally.both == 1)
            case "spread":
                return self.before.get(place, 0) + tally.selected <= self.level + self.rule.skew
            case "affinity":
                return True

    def close(self, place: int, tally: PlaceTally, summary: Summary) -> Summary | None:
        """The summary with one more complete domain; None: the rule is broken."""
        match self.rule.kind:
            case "affinity":
                return self._near(place, tally, summary)
            case "spread" if place in self.before:
                return self._spread(self.before[place] + tally.selected, tally.carriers > 0, summary)
            case _:
                return summary

    def _near(self, place: int, tally: PlaceTally, summary: Summary) -> Summary | None:
        if not tally.carriers or self.before.get(place, 0) or tally.selected > tally.both:
            return summary
        if summary.started or not tally.both or any(self.before.values()):
            return None
        return Summary(started=True)

    def _spread(self, count: int, carried: bool, summary: Summary) -> Summary | None:
        least = count if summary.least < 0 else min(summary.least, count)
        most = max(summary.most, count) if carried else summary.most
        floor = 0 if len(self.before) < self.rule.places else least
        return Summary(least, most) if most < 0 or most - floor <= self.rule.skew else None

    def all_or_none(self, cell: int, tally: PlaceTally, kind: int) -> tuple[bool, bool] | None:
        """Affinity with one domain for all: whether a domain that ends here may get all pods left, or none of them."""
        if not self.single or not self.carriers[kind] or self.last.get(self.place[cell]) != cell:
            return None
        return True, tally.carriers == 0

    def target_count(self, cell: int, tally: PlaceTally, kind: int) -> int | None:
        """How many pods of a kind a cell should get for an even spread; None: any number."""
        if self.rule.kind != "spread" or not self.chosen[kind] or not self.counts[cell]:
            return None
        requirement = self.level + (not self.even)
        return max(requirement - self.before.get(self.place[cell], 0) - tally.selected, 0)


def _suffix(rows: Sequence[Vector], width: int) -> list[Vector]:
    """Sums over each row and all that follow it, then zeros."""
    sums = [(0,) * width]
    for row in reversed(rows):
        sums.append(tuple(a + b for a, b in zip(row, sums[-1], strict=True)))
    return sums[::-1]


class PackingState(Struct, frozen=True, eq=False):
    """Decisions for the cells so far."""

    left: Vector
    tallies: dict[tuple[int, int], PlaceTally]  # by rule and domain, of domains that are not complete
    summaries: tuple[Summary, ...]

    def look(self, cell: int) -> object:
        """A key: states with equal keys fail alike."""
        return cell, self.left, frozenset(self.tallies.items()), self.summaries


class ConstrainedPacking:
    """One packing of some demands under some rules."""

    def __init__(
        self, capacity: Capacity, demands: Sequence[Demand], rules: Mapping[int, Rule], budget: Budget
    ) -> None:
        self.capacity, self.demands, self.budget = capacity, demands, budget
        budget.spend(len(capacity.free) // 4 + len(demands))
        self.kinds = group_demands(demands)
        self.items = [demands[members[0]] for members in self.kinds]
        self.counts = tuple(sum(demands[i].count for i in members) for members in self.kinds)
        self.cells = Cells(capacity, demands, self.items, list(rules))
        self.watches = [RuleOverCells(rule, self.cells, number, self.items) for number, rule in rules.items()]
        for watch in self.watches:
            watch.plan(self.counts)
        cells, kinds = len(self.cells.nodes), len(self.items)
        budget.spend(len(rules) * (8 + len(capacity.free) // 256) + cells * kinds * (1 + len(rules)) // 8)
        self._usable_places: dict[RuleOverCells, set[tuple[int, int]]] = {}  # by rule: domains where a kind fits
        self.high = [self._most(cell) for cell in range(len(self.cells.nodes))]
        self.after = _suffix([self._more(cell) for cell in range(len(self.cells.nodes))], len(self.items))
        self._packed: dict[tuple[int, Vector], Assignments | None] = {}
        self._step = 1 + len(self.watches) // 4  # the cost of one check of all rules

    def _most(self, cell: int) -> Vector:
        """The most pods of each kind that a cell can take by itself."""
        counts = []
        for kind, available in enumerate(self.cells.solo[cell]):
            limits = [most for watch in self.watches if watch.place[cell] >= 0 and (most := watch.most(kind))]
            counts.append(min([available, *limits]))
        return tuple(counts)

    def _more(self, cell: int) -> Vector:
        """`_most`, such that sums over cells are bounds: a pod that a domain can have once counts in its last cell."""
        counts = list(self.high[cell])
        for kind in range(len(counts)):
            for watch in self.watches:
                place = watch.place[cell]
                if place >= 0 and watch.most(kind):
                    counts[kind] = int(watch.last[place] == cell and self._has_capacity(watch, place, kind))
                    break
        return tuple(counts)

    def _has_capacity(self, watch: RuleOverCells, place: int, kind: int) -> bool:
        if watch not in self._usable_places:
            pairs = zip(watch.place, self.cells.solo, strict=True)
            self._usable_places[watch] = {
                (where, i) for where, solo in pairs for i, available in enumerate(solo) if available
            }
        return (place, kind) in self._usable_places[watch]

    def assign_nodes(self) -> Assignments | None:
        """An assignment of all demands that keeps the rules; None: none exists. OutOfSteps: unknown."""
        vectors = self._solve()
        if vectors is None:
            return None
        placed: list[tuple[int, int, int]] = []
        for cell, vector in enumerate(vectors):
            packed = self._pack(cell, vector)
            assert packed is not None
            present = [kind for kind, count in enumerate(vector) if count]
            placed += [(node, kind, n) for i, kind in enumerate(present) for node, n in packed[i]]
        return share_out(placed, self.kinds, self.demands)

    def _solve(self) -> list[Vector] | None:
        start = PackingState(self.counts, {}, tuple(watch.start() for watch in self.watches))
        if any(want > available for want, available in zip(self.counts, self.after[0], strict=True)):
            return None
        failed: set[object] = set()
        states, path = [start], list[Vector]()
        ahead = [self._vectors(0, start)]
        while ahead:
            cell = len(ahead) - 1
            vector = next(ahead[-1], None)
            if vector is None:
                ahead.pop()
                failed.add(states.pop().look(cell))
                if path:
                    path.pop()
                continue
            self.budget.spend(self._step)
            state = self._after(cell, states[-1], vector)
            if state is None:
                continue
            if not any(state.left):
                if self._complete(cell + 1, state):
                    return [*path, vector]
            elif cell + 1 < len(self.cells.nodes) and state.look(cell + 1) not in failed:
                path.append(vector)
                states.append(state)
                ahead.append(self._vectors(cell + 1, state))
        return None

    def _after(self, cell: int, state: PackingState, vector: Vector) -> PackingState | None:
        """The state with a cell decided; None: a rule is broken."""
        tallies, summaries = dict(state.tallies), list(state.summaries)
        for i, watch in enumerate(self.watches):
            place = watch.place[cell]
            if place < 0:
                continue
            tally = watch.add(cell, tallies.pop((i, place), EMPTY_TALLY), vector)
            if watch.last[place] > cell:
                tallies[i, place] = tally
                continue
            closed = watch.close(place, tally, summaries[i])
            if closed is None:
                return None
            summaries[i] = closed
        left = tuple(have - gone for have, gone in zip(state.left, vector, strict=True))
        return PackingState(left, tallies, tuple(summaries))

    def _complete(self, cell: int, state: PackingState) -> bool:
        """Whether every rule holds with no new pod in the cells from here on."""
        for i, watch in enumerate(self.watches):
            summary: Summary | None = state.summaries[i]
            for place in sorted(place for place, last in watch.last.items() if last >= cell and place >= 0):
                if summary is not None:
                    summary = watch.close(place, state.tallies.get((i, place), EMPTY_TALLY), summary)
            if summary is None:
                return False
        return True

    def _vectors(self, cell: int, state: PackingState) -> Iterator[Vector]:
        """Every combination of pods by kind that could go to a cell, likely ones first."""
        after, solo = self.after[cell + 1], self.high[cell]
        low = [max(want - available, 0) for want, available in zip(state.left, after, strict=True)]
        high = [min(want, available) for want, available in zip(state.left, solo, strict=True)]

        def choose(kind: int, taken: Vector) -> Iterator[Vector]:
            if kind == len(high):
                if self._pack(cell, taken) is not None:
                    yield taken
                return
            for count in self._options(cell, state, kind, low[kind], high[kind]):
                self.budget.spend()
                more = (*taken, count)
                if not count or self._bearable(cell, state, more):
                    yield from choose(kind + 1, more)

        return choose(0, ())

    def _options(self, cell: int, state: PackingState, kind: int, low: int, high: int) -> Sequence[int]:
        falling = range(high, low - 1, -1)
        for i, watch in enumerate(self.watches):
            tally = state.tallies.get((i, watch.place[cell]), EMPTY_TALLY)
            if together := watch.all_or_none(cell, tally, kind):
                whole = state.left[kind]
                return [*([whole] if low <= whole <= high else []), *([0] if together[1] and low <= 0 < whole else [])]
            requirement = watch.target_count(cell, tally, kind)
            if requirement is not None:
                return sorted(falling, key=lambda count: (abs(count - requirement), count))
        return falling

    def _bearable(self, cell: int, state: PackingState, taken: Vector) -> bool:
        self.budget.spend(self._step)
        for i, watch in enumerate(self.watches):
            place = watch.place[cell]
            tally = watch.add(cell, state.tallies.get((i, place), EMPTY_TALLY), taken)
            if not watch.bearable(place, tally):
                return False
        return True

    def _pack(self, cell: int, vector: Vector) -> Assignments | None:
        """An assignment inside a cell, by the kinds that are present, cached; None: they do not fit together."""
        if (cell, vector) not in self._packed:
            self._packed[cell, vector] = self._pack_uncached(cell, vector)
        return self._packed[cell, vector]

    def _pack_uncached(self, cell: int, vector: Vector) -> Assignments | None:
        demands = []
        self.budget.spend(8 + 4 * len(vector))
        for kind, count in enumerate(vector):
            if count:
                item, nodes = self.items[kind], self.cells.nodes[cell]
                inside = np.intersect1d(nodes, item.node_set.nodes, assume_unique=True)
                demands.append(
                    Demand(item.leaf, item.pod_class, count, NodeSet((-2, cell, *item.node_set.key), inside))
                )
        return pack(self.capacity, demands, self.budget) if demands else {}

"""Promises that outlive a cycle, judged from plain manifests and plans as JSON; shares no code with the engine.

Each promise has a name, the rule it comes from, and a finder. A finder that cannot know whether an exception of the
rule applies (the gang, its queue, its nodes or the order of priorities changed) finds nothing: it never blames falsely.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from tests.oracles.checker import broken
from tests.oracles.gang_puzzle import gang_puzzle
from tests.oracles.objects import Raw, key_of, leaf_of, name, owner, terminating
from tests.oracles.placement import Puzzle, feasible
from tests.oracles.view import View
from tests.support.random_cluster import Cycle, is_foreign

GRACE = timedelta(seconds=60)  # S2
MOST_MOVED, MOST_PERCENT = 16, 5  # P8
EVERY = ("promised", "kept", "moved", "limit", "idle", "foreign", "plan", "bounded")
Finding = tuple[str, str]  # the promise, and how it was broken


class Move(NamedTuple):
    """Pods of a gang that were promised other places, and what the gang had before."""

    since: datetime
    places: tuple[tuple[str, str, int], ...]  # leaf, node, GPUs
    before: Mapping[str, int]  # placed pods by leaf
    old: frozenset[str]  # pods that the gang had


class Promises:
    """Looks at one cycle after the other, and remembers what was promised."""

    def __init__(self) -> None:
        self.last: View | None = None
        self.moves: dict[str, Move] = {}
        self.foreign: list[str] = []
        self.waited: set[str] = set()  # nominees that could have been bound in the last cycle

    def look(self, cycle: Cycle) -> list[Finding]:
        """Every promise that this cycle breaks."""
        self._forget(cycle)
        view = View(cycle)
        self.foreign += _foreign(view)
        if self.foreign:
            return [("foreign", text) for text in self.foreign]  # of what follows from that, nothing more is judged
        findings = [
            *(("limit", text) for text in _over_limit(view)),
            *((view.blames, text) for text in _wrong(view)),
            *(("bounded", text) for text in _unbounded(view)),
            *(("idle", text) for text in self._idle(view)),
            *(("moved", text) for text in self._moved(view)),
            *self._promised(view),
        ]
        self._remember(view)
        self.last = view
        return findings

    # P7: a place that was promised ------------------------------------------------------------------------------------

    def _promised(self, view: View) -> Iterator[Finding]:
        """Bound as soon as the place is free. Where several wait for one node and not all fit yet, one of them is.

        A gang that loses a part of what the places were to complete has changed.
        """
        for gang in sorted(self._nominees()):
            assert self.last is not None
            places = self.last.places(gang, self.last.nominated)
            if self._is_excused(view, gang, places) or view.is_met(gang):
                continue
            if self._is_free(view, places) and not self._others_bound(view, places):
                yield "promised", f"{gang} was promised {places}; that is free now, and it is not bound"
            elif not view.places(gang, view.nominated) and view.is_whole_with(gang, places):
                yield "kept", f"{gang} was promised {places}, and the promise is gone"

    def _others_bound(self, view: View, places: Mapping[str, str]) -> bool:
        """Whether another nominee got what is free on one of these nodes, while not all promises there can be kept."""
        assert self.last is not None
        shared = {pod: node for pod, node in self.last.nominated.items() if node in set(places.values())}
        return not self._is_free(view, shared) and any(pod in view.bound for pod in shared)

    def _nominees(self) -> set[str]:
        return {owner(self.last.index.pods[pod]) for pod in self.last.nominated} if self.last else set()

    def _is_excused(self, view: View, gang: str, places: Mapping[str, str]) -> bool:
        """It or its queue changed, a node did, or one of higher priority came: the rule allows another order then."""
        checked = view.gangs.get(gang)
        if checked is None or gang in view.cycle.touched or any(pod not in view.index.pods for pod in places):
            return True
        mine = {f"queue/{queue}" for queue in view.index.queues.path(checked.queue)}
        if any(key in mine or key.startswith("node/") for key in view.cycle.touched) or not mine:
            return True
        higher = (view.gangs[other].priority > checked.priority for other in view.cycle.arrived if other in view.gangs)
        return any(higher) or not self._is_allowed(view, gang, places)

    def _is_allowed(self, view: View, gang: str, places: Iterable[str]) -> bool:
        """Whether limits (with terminating pods) and quotas of protected pods leave free for it at all (Q4)."""
        if view.gangs[gang].kind != "preemptible":
            return False  # what is protected in its queue is not counted here
        requested, used = sum(view.gpus(pod) for pod in places), view.usage()
        path = view.index.queues.path(view.gangs[gang].queue)
        mine = sum(view.gpus(pod) for pod in view.places(gang, view.bound))
        return all((limit := view.limit(queue)) is None or used[queue] - mine + requested <= limit for queue in path)

    def _is_free(self, view: View, places: Mapping[str, str]) -> bool:
        free = view.free()
        for pod, node in places.items():
            free[node] -= view.gpus(pod) if pod in view.index.pods else 0
        return all(free[node] >= 0 for node in places.values())

    # P7: a pod that moves ---------------------------------------------------------------------------------------------

    def _moved(self, view: View) -> Iterator[str]:
        """The places of moved pods stay open for their gang, and it runs there as soon as its new pods exist."""
        for gang, move in sorted(self.moves.items()):
            checked = view.gangs[gang]
            missing = _missing(view, gang, move)
            wanted: Counter[str] = Counter()
            for _, node, gpus in missing:
                wanted[node] += gpus
            later, now = view.freed(), view.free()
            open_capacity = _open_capacity(view, gang, missing)
            if taken := {node: later[node] for node in open_capacity if later[node] < open_capacity[node]}:
                yield f"{gang}: places that its moved pods were promised are taken: {dict(open_capacity)}, left {taken}"
                continue
            exist = Counter(leaf for leaf in checked.waiting for _ in checked.waiting[leaf])
            ready = all(exist[leaf] >= count for leaf, count in Counter(leaf for leaf, _, _ in missing).items())
            for pod, node in view.bound.items():  # where not all promises can be kept yet, some are
                now[node] -= view.gpus(pod) if owner(view.index.pods[pod]) != gang else 0
            open_ = all(now[node] >= gpus for node, gpus in wanted.items())
            if ready and open_ and not view.is_met(gang) and not view.has_limit(gang):
                yield f"{gang}: was moved, its pods exist and its places are free, and it does not run again"

    # P8: idle free ----------------------------------------------------------------------------------------------------

    def _idle(self, view: View) -> Iterator[str]:
        """A nominee that fits on free free is bound, at the latest in the cycle after."""
        could = set()
        for gang in sorted({owner(view.index.pods[pod]) for pod in view.nominated}):
            if not view.has_limit(gang) and view.gangs[gang].kind == "preemptible" and self._would_fit(view, gang):
                could.add(gang)
                if gang in self.waited and gang not in view.cycle.touched:
                    yield f"{gang} waits for a promised place for two cycles while it fits on what is free"
        self.waited = could

    def _would_fit(self, view: View, gang: str) -> bool:
        """Whether what the gang needs fits on free free that was promised to no other, nor to pods that move."""
        if not set(view.gangs[gang].pods().values()) <= view.index.nodes.keys():
            return False
        promised: Counter[str] = Counter()
        for other, move in self.moves.items():
            for _, node, gpus in _missing(view, other, move) if other != gang else ():
                promised[node] += gpus
        return feasible(_leftover(view, gang, promised))

    # memory -----------------------------------------------------------------------------------------------------------

    def _remember(self, view: View) -> None:
        for gang in list(self.moves):
            if self._is_over(view, gang):
                del self.moves[gang]
        moves: dict[str, list[Raw]] = defaultdict(list)
        for one in view.cycle.plan["evictions"]:
            if one.get("moveTo"):
                moves[owner(view.index.pods[key_of(one)])].append(one)
        for gang, some in moves.items():
            checked = view.gangs[gang]
            if checked.met() and gang not in self.moves:
                self.moves[gang] = Move(
                    view.cycle.now,
                    tuple((one["subGroup"], one["moveTo"], view.gpus(key_of(one))) for one in some),
                    {leaf: len(pods) for leaf, pods in checked.placed.items()},
                    frozenset(name(pod) for pod in view.index.members[gang]),
                )

    def _is_over(self, view: View, gang: str) -> bool:
        """It is whole again, or lost pods of other causes."""
        return not _missing(view, gang, self.moves[gang]) or any(
            one["podGroup"] == gang.partition("/")[2] for one in view.cycle.plan["evictions"]
        )

    def _forget(self, cycle: Cycle) -> None:
        """Gangs whose world changed, and promises that ran out (S2), are promised nothing any more."""
        gangs = {name(raw) for raw in cycle.manifests if raw["kind"] == "PodGroup"}
        for gang, move in list(self.moves.items()):
            changed = gang not in gangs or gang in cycle.touched or _is_another_schedulers(cycle, gang)
            others = any(key.startswith(("node/", "queue/")) for key in cycle.touched)
            if changed or others or cycle.now - move.since >= GRACE:
                del self.moves[gang]


def _missing(view: View, gang: str, move: Move) -> list[tuple[str, str, int]]:
    """Promised places that no new pod of the gang has taken yet, and that it still needs to be as it was."""
    checked = view.gangs.get(gang)
    if checked is None:
        return []
    placed = {
        (leaf_of(pod), name(pod))
        for pod in view.index.members[gang]
        if name(pod) in view.bound or (pod["spec"].get("nodeName") and not terminating(pod))
    }
    have = Counter(leaf for leaf, _ in placed)
    if all(have[leaf] >= count for leaf, count in move.before.items()):
        return []
    new = Counter(
        (leaf, view.bound.get(pod) or view.index.pods[pod]["spec"]["nodeName"])
        for leaf, pod in placed - _old(placed, move)
    )
    back = Counter(leaf for leaf, _ in new.elements())
    missing = []
    for leaf, node, gpus in move.places:
        if new[leaf, node]:
            new[leaf, node] -= 1
        else:
            missing.append((leaf, node, gpus))
    total = Counter(leaf for leaf, _, _ in move.places)
    return [one for one in missing if back[one[0]] < total[one[0]]]


def _open_capacity(view: View, gang: str, missing: list[tuple[str, str, int]]) -> Counter[str]:
    """GPUs by node that must be left for places after this plan.

    What was there before it; and the gang's own pods may have it, of whichever leaf they are. A place in which too
    little is left for a pod is none any more.
    """
    left, held = _fitting(missing, view.promisable()), view.held()
    for pod, node in {**view.places(gang, view.bound), **view.places(gang, view.nominated)}.items():
        left[node] -= view.gpus(pod) if held.get(pod) != node else 0
    return _fitting(missing, left)


def _fitting(places: list[tuple[str, str, int]], free: Counter[str]) -> Counter[str]:
    """GPUs by node of places that fit there; of several, the smallest can be kept together."""
    fitting = Counter[str]()
    for _, node, gpus in sorted(places, key=lambda place: place[2]):
        if fitting[node] + gpus <= free[node]:
            fitting[node] += gpus
    return fitting


def _is_another_schedulers(cycle: Cycle, gang: str) -> bool:
    """N6: all pods that name the gang ask for another scheduler."""
    mine = [raw for raw in cycle.manifests if raw["kind"] == "Pod" and owner(raw) == gang]
    return bool(mine) and all(map(is_foreign, mine))


def _old(placed: set[tuple[str, str]], move: Move) -> set[tuple[str, str]]:
    return {(leaf, pod) for leaf, pod in placed if pod in move.old}


def _wrong(view: View) -> list[str]:
    """Every promise of a single plan, P6 among them; but the checker does not know of leftovers (N4) in queues."""
    trees = {gang: checked.tree.keys() - checked.children.keys() for gang, checked in view.gangs.items()}
    running = [pod for pod in view.index.pods.values() if pod["spec"].get("nodeName") and owner(pod) in trees]
    if any(leaf_of(pod) not in trees[owner(pod)] for pod in running):
        return []
    return broken(view.manifests, view.cycle.plan, view.cycle.now)


# within one cycle ---------------------------------------------------------------------------------------------------


def _foreign(view: View) -> Iterator[str]:
    """N6: pods of other schedulers only take free."""
    for what in ("bindings", "nominations", "evictions"):
        for one in view.cycle.plan[what]:
            if is_foreign(view.index.pods[key_of(one)]):
                yield f"{key_of(one)} asks for another scheduler, and is among the {what}"


def _over_limit(view: View) -> Iterator[str]:
    """Q4: a bound pod leaves its queues within their limits, terminating pods included."""
    used = view.usage()
    taking = {
        view.gangs[owner(view.index.pods[pod])].queue for pod in view.bound if owner(view.index.pods[pod]) in view.gangs
    }
    for queue in sorted({one for leaf in taking for one in view.index.queues.path(leaf)}):
        limit = view.limit(queue)
        if limit is not None and used[queue] > limit:
            yield f"queue `{queue}` holds {used[queue]} GPUs with its terminating pods, its limit is {limit}"


def _unbounded(view: View) -> Iterator[str]:
    """P8: how many pods move for a gang, of what size, and how many are disturbed in one cycle."""
    disturbed = [one for one in view.cycle.plan["evictions"] if one["reason"] != "Stale"]
    by_gang: dict[str, list[str]] = defaultdict(list)
    for one in disturbed:
        by_gang[one["for"]].append(key_of(one))
    for gang in sorted({one["for"] for one in disturbed if one["reason"] == "Consolidate"}):
        moved = [key_of(one) for one in disturbed if (one["for"], one["reason"]) == (gang, "Consolidate")]
        requested = sum(view.gpus(pod) for pod in (*view.places(gang, view.bound), *view.places(gang, view.nominated)))
        if len(moved) > MOST_MOVED:
            yield f"{len(moved)} pods move for {gang}"
        if (size := sum(map(view.gpus, moved))) > requested:
            yield f"{size} GPUs move for {gang}, which asks for {requested}"
    running = sum(bool(pod["spec"].get("nodeName")) and not terminating(pod) for pod in view.index.pods.values())
    allowed = max([running * MOST_PERCENT // 100, *map(len, by_gang.values())])
    if len(disturbed) > allowed:
        yield f"{len(disturbed)} of {running} pods are disturbed for {sorted(by_gang)}, allowed are {allowed}"


def _leftover(view: View, gang: str, kept: Counter[str]) -> Puzzle:
    """What is free now, less what this plan binds and promises to others; and what the gang still needs."""
    free = view.free()
    for pod, node in (*view.bound.items(), *view.nominated.items()):
        if owner(view.index.pods[pod]) != gang:
            free[node] -= view.gpus(pod)
    return gang_puzzle(
        view.index, view.gangs[gang], {key: free[key] - kept[key] for key in view.index.nodes}, view.gpus
    )

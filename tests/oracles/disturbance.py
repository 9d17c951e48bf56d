"""Evictions and moves, and whether they are allowed: P1-P7, S2, S3 and Q4 of a plan, read as decision 0008 says.

Lenient where a plan does not tell the order of its steps: with several gangs that are placed, who held how much before
whom is not known, and every order will do.

Long because: every promise about evictions shares one reading of a plan.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from fractions import Fraction
from math import ceil
from typing import NamedTuple

from tests.oracles.fair_shares import base_units
from tests.oracles.objects import (
    CheckedGang,
    ObjectIndex,
    Outcome,
    Raw,
    Unit,
    apart,
    asks,
    closure,
    key_of,
    labels,
    matches,
    namespace,
    overfull,
    owner,
    phase,
    quantity,
    terminating,
)

LOSSES = ("Preempt", "Reclaim")
MOST_MOVED, MOST_PERCENT = 16, 5  # the defaults of P8
Held = dict[str, dict[str, int]]  # by queue and resource


class Leaver(NamedTuple):
    """A unit of a gang that is evicted."""

    gang: CheckedGang
    at: int  # its index among the units of the gang
    unit: Unit
    pods: frozenset[str]  # with everything inside it
    outermost: bool


def outcomes(index: ObjectIndex, plan: Raw) -> tuple[Outcome, Outcome]:
    """The moment of the bindings, when every victim still runs; and the end, when all victims are gone."""
    bound = {key_of(one): one["node"] for one in plan["bindings"]}
    nominated = {key_of(one): one["node"] for one in plan.get("nominations") or ()}
    evicted = {key_of(one): one.get("moveTo", "") for one in plan.get("evictions") or ()}
    if not nominated and not evicted:
        return Outcome(bound), Outcome(bound)
    stopping = {key for key, pod in index.pods.items() if terminating(pod)}
    gone = stopping | {pod for pod, to in evicted.items() if not to}
    return Outcome(bound), Outcome(bound | nominated | {pod: to for pod, to in evicted.items() if to}, frozenset(gone))


def disturbed(index: ObjectIndex, plan: Raw, now: datetime | None) -> list[str]:
    """Every promise about victims, queues and stale gangs that the plan does not keep."""
    wrong = list(_not_there(index, plan))
    if wrong:
        return wrong
    case = Case(index, plan, now)
    return [
        *_not_in_units(case),
        *_half_left(case),
        *_for_nothing(case),
        *_over_budget(case),
        *_not_evictable(case),
        *_closed(case),
        *_over_limit(case, case.after),
        *_over_limit_at_once(case),
        *_moved_too_much(case),
        *_disturbed_too_much(case),
        *_over_quota(case),
        *_not_lower(case),
        *_not_reclaimable(case),
        *_too_soon(case),
        *_needless(case),
        *_released_early(case),
        *_not_released(case),
    ]


def _not_there(index: ObjectIndex, plan: Raw) -> Iterator[str]:
    """An eviction is about a placed pod, once, as it stands; and it has a reason and a gang that it is for."""
    entries = plan.get("evictions") or []
    for twice, count in Counter(map(key_of, entries)).items():
        if count > 1:
            yield f"{twice} is evicted {count} times"
    for one in entries:
        pod = index.pods.get(key_of(one))
        if pod is None or terminating(pod) or phase(pod) in ("Succeeded", "Failed") or not pod["spec"].get("nodeName"):
            yield f"{key_of(one)} is evicted, but is not placed"
        elif (pod["spec"]["nodeName"], owner(pod)) != (one["node"], f"{one['namespace']}/{one['podGroup']}"):
            yield f"{key_of(one)} is not what its eviction says: {one}"
        elif one["for"] not in index.gangs or one["reason"] not in (*LOSSES, "Consolidate", "Stale"):
            yield f"{key_of(one)}: it is evicted without a reason: {one}"
        elif one["reason"] == "Consolidate" and not one.get("moveTo"):
            yield f"{key_of(one)}: is moved, but nowhere: {one}"


class Case:
    """A plan and what it is about."""

    def __init__(self, index: ObjectIndex, plan: Raw, now: datetime | None) -> None:
        self.index, self.plan, self.now, self.queues = index, plan, now, index.queues
        self.at_once, self.after = outcomes(index, plan)
        self.before = {key: CheckedGang(index, key) for key in index.gangs}
        self.final = {key: CheckedGang(index, key, self.after) for key in index.gangs}
        self.evictions: dict[str, Raw] = {key_of(one): one for one in plan.get("evictions") or ()}
        self._asks: dict[str, Mapping[str, int]] = {}  # by pod, in base units
        self.shares = self.queues.shares(self._requested(), self._pool())

    def evicted(self, *reasons: str) -> set[str]:
        return {pod for pod, one in self.evictions.items() if one["reason"] in reasons}

    def helped(self, *reasons: str) -> list[str]:
        """Gangs that pods are evicted for."""
        return sorted({one["for"] for one in self.evictions.values() if one["reason"] in reasons})

    def victims(self, gang: str, *reasons: str) -> set[str]:
        return {pod for pod in self.evicted(*reasons) if self.evictions[pod]["for"] == gang}

    def gained(self, gang: str) -> set[str]:
        """Pods of a gang that this plan binds or nominates."""
        return {pod for pod in self.final[gang].new() if pod not in self.evictions}

    def amounts(self, pods: Iterable[str]) -> dict[str, int]:
        totals: dict[str, int] = defaultdict(int)
        for pod in pods:
            if pod not in self._asks:
                self._asks[pod] = base_units(asks(self.index.pods[pod]))
            for resource, amount in self._asks[pod].items():
                if resource in self.queues.resources:
                    totals[resource] += amount
        return totals

    def held(self, gangs: Mapping[str, CheckedGang]) -> Held:
        """What every queue holds."""
        totals: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        for checked in gangs.values():
            for resource, amount in self.amounts(checked.pods()).items():
                totals[checked.queue][resource] += amount
        return self.queues.summed(totals)

    def _requested(self) -> dict[str, dict[str, int]]:
        """Q3, demand: what is placed or could be."""
        totals: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        for checked in self.before.values():
            waiting = [
                pod for leaf in checked.inside("") if not checked.children.get(leaf) for pod in checked.waiting[leaf]
            ]
            for resource, amount in self.amounts([*checked.pods(), *waiting]).items():
                totals[checked.queue][resource] += amount
        return totals

    def _pool(self) -> dict[str, int]:
        """All that ready nodes have, without what pods outside every gang hold there."""
        totals: dict[str, int] = defaultdict(int)
        for key, node in self.index.nodes.items():
            if not all(c["status"] == "True" for c in node["status"].get("conditions") or () if c["type"] == "Ready"):
                continue
            raw = {resource: quantity(amount) for resource, amount in node["status"]["allocatable"].items()}
            strangers = [pod for pod, raw in self.index.pods.items() if self._stranger(raw, key)]
            taken = self.amounts(strangers)
            for resource, amount in base_units(raw).items():
                totals[resource] += max(amount - taken.get(resource, 0), 0)
        return totals

    def _stranger(self, pod: Raw, node: str) -> bool:
        holds = pod["spec"].get("nodeName") == node and phase(pod) not in ("Succeeded", "Failed")
        return holds and owner(pod) not in self.index.gangs

    def leavers(self, gang: str, *reasons: str) -> list[Leaver]:
        """Units that are gone for a gang, as they leave: lower priorities first, then the youngest, then P4."""
        victims, leavers = self.victims(gang, *reasons), []
        gangs = [checked for checked in self.before.values() if checked.pods().keys() & victims]
        for checked in sorted(gangs, key=lambda checked: checked.created, reverse=True):
            units = checked.units()
            for i in checked.eviction_order():
                around = units[i].around
                if (pods := closure(units, i)) and pods <= victims:
                    outermost = around is None or not (closure(units, around) <= victims)
                    leavers.append(Leaver(checked, i, units[i], pods, outermost))
        return sorted(leavers, key=lambda leaver: leaver.gang.priority)

    @property
    def alone(self) -> bool:
        """Whether only one gang is placed and has victims: then what was held before is known."""
        return sum(bool(self.gained(key)) for key in self.final) == 1


# who leaves ---------------------------------------------------------------------------------------------------------


def _not_in_units(case: Case) -> Iterator[str]:
    """I5, P2-P4: protected pods stay; what leaves, leaves in whole units with everything inside them."""
    for key, checked in case.before.items():
        gone = checked.pods().keys() & case.evicted(*LOSSES, "Consolidate")
        for pod in sorted(gone & checked.protected()):
            yield f"{pod} is protected, and evicted"
        units = [] if checked.totals else checked.units()
        for i, unit in enumerate(units):
            whole = closure(units, i)
            if unit.own & gone and not whole <= gone:
                yield f"{key}: {sorted(unit.own & gone)} of a {unit.kind} leave without {sorted(whole - gone)}"


def _half_left(case: Case) -> Iterator[str]:
    """A group that was satisfied is so in the end, or nothing of it is left; and moved pods keep their levels."""
    for key, checked in case.before.items():
        after = case.final[key]
        if not checked.pods().keys() & case.evictions.keys():
            continue
        for group in checked.tree:
            if checked.met(group) and not after.met(group) and after.pods(group):
                yield f"{key}: of `{group}` only {sorted(after.pods(group))} are left"
            yield from apart(case.index, after, group) if after.new(group) else ()


def _for_nothing(case: Case) -> Iterator[str]:
    """I6: a gang that pods are evicted for has a place for its whole core in this plan, and was below its minimum."""
    for gang in case.helped(*LOSSES, "Consolidate"):
        if not case.gained(gang) or not case.final[gang].met():
            yield f"{gang}: others are evicted for it, but it has no complete place"
        if case.before[gang].met():
            yield f"{gang}: others are evicted for it, though it has all it needs"
        if case.victims(gang, *LOSSES, "Consolidate") & case.before[gang].pods().keys():
            yield f"{gang}: evicts its own pods"


def _over_budget(case: Case) -> Iterator[str]:
    """Budgets hold back all but the release of stale pods."""
    evicted = [case.index.pods[pod] for pod in case.evicted(*LOSSES, "Consolidate")]
    for key, budget in case.index.budgets.items():
        used = sum(_in_budget(pod, budget) for pod in evicted)
        if used > (allowed := allowance(case.index, budget)):
            yield f"budget {key} allows {allowed} disruptions, not {used}"


def _not_evictable(case: Case) -> Iterator[str]:
    """The eviction subresource refuses every pod that has started and is under several budgets, whatever they allow."""
    for pod in case.evictions:
        if stuck(case.index, case.index.pods[pod]):
            yield f"{pod} is evicted, but no eviction of a pod under several budgets is let through"


def stuck(index: ObjectIndex, pod: Raw) -> bool:
    return phase(pod) != "Pending" and sum(_in_budget(pod, budget) for budget in index.budgets.values()) > 1


def _in_budget(pod: Raw, budget: Raw) -> bool:
    selector = budget["spec"].get("selector")
    return selector is not None and namespace(pod) == namespace(budget) and matches(selector, labels(pod))


def allowance(index: ObjectIndex, budget: Raw) -> int:
    """`status.disruptionsAllowed`, or what the spec says of the pods that are healthy."""
    if "status" in budget:
        return int(budget["status"].get("disruptionsAllowed", 0))
    pods = [pod for pod in index.pods.values() if _in_budget(pod, budget) and phase(pod) not in ("Succeeded", "Failed")]
    healthy = sum(bool(pod["spec"].get("nodeName")) and not terminating(pod) for pod in pods)
    spec = budget["spec"]
    if "minAvailable" in spec:
        return max(healthy - _part(spec["minAvailable"], len(pods)), 0)
    return max(healthy - (len(pods) - _part(spec["maxUnavailable"], len(pods))), 0)


def _part(value: int | str, whole: int) -> int:
    return ceil(Fraction(value[:-1]) * whole / 100) if isinstance(value, str) else value


def _too_soon(case: Case) -> Iterator[str]:
    """The core of a gang that has not run for its minimum run time is no victim."""
    fields = {"Preempt": ("preemptMinRuntime",), "Reclaim": ("reclaimMinRuntime",)}
    for reason in (*LOSSES, "Consolidate"):
        for gang in case.helped(reason):
            for leaver in case.leavers(gang, reason):
                started = leaver.gang.notes.get("kai.scheduler/last-start-timestamp")
                stated = fields.get(reason, ("preemptMinRuntime", "reclaimMinRuntime"))
                runtime = max(_runtime(case, leaver.gang.queue, field) for field in stated)
                if leaver.unit.kind == "core" and started and case.now and case.now < moment(started) + runtime:
                    yield f"{leaver.gang.key}: runs since {started} only, and its core is evicted"


def _runtime(case: Case, queue: str, field: str) -> timedelta:
    for one in case.queues.path(queue):
        if stated := case.queues.raws[one]["spec"].get(field):
            return duration(stated)
    return timedelta()


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def duration(text: str) -> timedelta:
    """Go's form, whole numbers only."""
    units = {"h": 3600, "m": 60, "s": 1}
    seconds = sum(int(number) * units[unit] for number, unit in re.findall(r"(\d+)([hms])", text))
    return timedelta(seconds=-seconds if text.startswith("-") else seconds)


# queues -------------------------------------------------------------------------------------------------------------


def _closed(case: Case) -> Iterator[str]:
    """Q2: nothing is placed from a queue that does not exist, or is no leaf."""
    for key, checked in case.final.items():
        if case.gained(key) and not case.queues.is_open(checked.queue):
            yield f"{key}: is placed from `{checked.queue}`, which is not open"


def _over_limit(case: Case, outcome: Outcome, promised: Iterable[tuple[str, str, int]] = ()) -> Iterator[str]:
    """I7, Q4: no queue that a gang with new pods is in, nor any above it, is over a limit in the end.

    `promised`: what queues hold beside that, as resource and amount.
    """
    final = {key: CheckedGang(case.index, key, outcome) for key in case.index.gangs}
    held = case.held(final)
    for leaf, resource, amount in promised:
        for queue in case.queues.path(leaf):
            held[queue][resource] += amount
    for key, checked in final.items():
        for queue in case.queues.path(checked.queue):
            for resource, more in case.amounts(case.gained(key)).items():
                limit = case.queues.says(queue, resource).limit
                if more and limit is not None and held[queue][resource] > limit:
                    yield f"{key}: queue `{queue}` has {held[queue][resource]} {resource}, its limit is {limit}"


def _over_limit_at_once(case: Case) -> Iterator[str]:
    """Q4 at the moment of the bindings: pods that are terminating or about to be evicted still hold what they hold."""
    bound = {key_of(one) for one in case.plan["bindings"]}
    held: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for key, pod in case.index.pods.items():
        there = pod["spec"].get("nodeName") and phase(pod) not in ("Succeeded", "Failed")
        if (there or key in bound) and owner(pod) in case.before:
            for resource, amount in case.amounts([key]).items():
                held[case.before[owner(pod)].queue][resource] += amount
    summed = case.queues.summed(held)
    for gang in sorted({owner(case.index.pods[pod]) for pod in bound}):
        mine = case.amounts(pod for pod in bound if owner(case.index.pods[pod]) == gang)
        for queue in case.queues.path(case.before[gang].queue):
            for resource, more in mine.items():
                limit, have = case.queues.says(queue, resource).limit, summed[queue][resource]
                if more and limit is not None and have > limit:
                    yield f"{gang}: queue `{queue}` holds {have} {resource} in between, its limit is {limit}"


def _moved_too_much(case: Case) -> Iterator[str]:
    """P8: consolidation moves few pods for a gang, and no more resources than the gang asks for."""
    for gang in case.helped("Consolidate"):
        victims = case.victims(gang, "Consolidate")
        if len(victims) > MOST_MOVED:
            yield f"{gang}: {len(victims)} pods move for it"
        requested = case.amounts(case.gained(gang))
        for resource, amount in case.amounts(victims).items():
            is_bounded = resource not in ("cpu", "memory") or requested.get(resource)
            if is_bounded and amount > requested.get(resource, 0):
                yield f"{gang}: asks for {requested.get(resource, 0)} {resource}, and {amount} move for it"


def _disturbed_too_much(case: Case) -> Iterator[str]:
    """P8: all moves and evictions of a cycle stay within a share of what runs, or are for one gang."""
    gone = case.evicted(*LOSSES, "Consolidate")
    running = [pod for key, pod in case.index.pods.items() if owner(pod) in case.before and _is_there(case.index, pod)]
    if len(case.helped(*LOSSES, "Consolidate")) > 1 and len(gone) > len(running) * MOST_PERCENT // 100:
        yield f"{len(gone)} of {len(running)} running pods are disturbed"


def _is_there(index: ObjectIndex, pod: Raw) -> bool:
    return pod["spec"].get("nodeName") in index.nodes and phase(pod) not in ("Succeeded", "Failed")


def _over_quota(case: Case) -> Iterator[str]:
    """Q4: what is never evicted is within the quota of every queue above, if this plan adds to it."""
    protected: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for checked in case.final.values():
        for resource, amount in case.amounts(checked.protected()).items():
            protected[checked.queue][resource] += amount
    held = case.queues.summed(protected)
    for key, checked in case.final.items():
        before = case.amounts(case.before[key].protected())
        for resource, amount in case.amounts(checked.protected()).items():
            for queue in (
                case.queues.path(checked.queue) if case.gained(key) and amount > before.get(resource, 0) else ()
            ):
                quota = case.queues.says(queue, resource).quota
                binds = quota is not None and case.queues.governs(queue, resource)
                if binds and held[queue][resource] > (quota or 0):
                    yield f"{key}: `{queue}` holds {held[queue][resource]} protected {resource}, its quota is {quota}"


def _not_lower(case: Case) -> Iterator[str]:
    """Preempt: the same leaf queue, and a lower priority."""
    for gang in case.helped("Preempt"):
        checked = case.before[gang]
        for leaver in case.leavers(gang, "Preempt"):
            if leaver.gang.queue != checked.queue or leaver.gang.priority >= checked.priority:
                yield f"{gang}: preempts {leaver.gang.key}, of `{leaver.gang.queue}` and {leaver.gang.priority}"


class Reclaim:
    """One gang that reclaims, and what queues hold then: at least and at most, where the order is not known."""

    def __init__(self, case: Case, gang: str, leavers: list[Leaver]) -> None:
        self.case, self.gang, self.leavers, self.queues = case, gang, leavers, case.queues
        self.path = case.queues.path(case.before[gang].queue)
        self.asks = case.amounts(case.gained(gang))
        self.least, self.most = case.held(case.before), case.held(case.before)
        for key in case.final:
            self._add(self.most, key, case.gained(key) if key != gang else set(), 1)
        for queue, resource, amount in _promised_amounts(case):  # held by its queue as if it ran (P7)
            for one in self.queues.path(queue):
                self.most[one][resource] += amount
        for other in case.evictions.keys() - case.victims(gang, "Reclaim"):
            self._add(self.least, owner(case.index.pods[other]), {other}, -1)
        self.after: Held = {queue: defaultdict(int, held) for queue, held in self.least.items()}
        for leaver in leavers:
            self._add(self.after, leaver.gang.key, set(leaver.pods) if leaver.outermost else set(), -1)
        self._add(self.after, gang, case.gained(gang), 1)

    def _add(self, held: Held, gang: str, pods: set[str], sign: int) -> None:
        for queue in self.queues.path(self.case.before[gang].queue):
            for resource, amount in self.case.amounts(pods).items():
                held[queue][resource] += sign * amount

    def ways(self, leaver: Leaver) -> tuple[list[str], list[str]]:
        """The queues of the victim and of the gang below where their ways meet."""
        theirs = self.queues.path(leaver.gang.queue)
        return [one for one in theirs if one not in self.path], [one for one in self.path if one not in theirs]

    def wrong(self) -> Iterator[str]:
        for leaver in self.leavers:
            theirs, ours = self.ways(leaver)
            if not theirs or not ours:
                yield f"{self.gang}: reclaims from {leaver.gang.key}, which is in the same queue"
                return
            yield from self._not_entitled(ours)
            yield from self._below_quota(theirs, ours[-1]) if self.case.alone else ()
            for queue in theirs:
                if not any(self._above_share(queue, resource) for resource in self.asks):
                    yield f"{self.gang}: reclaims from `{queue}`, which is not above its fair share or quota any more"

    def _not_entitled(self, ours: list[str]) -> Iterator[str]:
        for queue in ours:
            for resource in self.asks:
                have, share = self.after[queue][resource], self.case.shares[queue][resource]
                if have > share:
                    yield f"{self.gang}: reclaims {resource}, but then `{queue}` has {have}, more than its {share}"

    def _below_quota(self, theirs: list[str], ours: str) -> Iterator[str]:
        for resource in self.asks:
            own = self.queues.says(ours, resource).quota
            for queue in theirs if own is not None and self.after[ours][resource] > own else ():
                quota, had = self.queues.says(queue, resource).quota, self.least[queue][resource]
                floor = had if quota is None else min(quota, had)
                if (have := self.after[queue][resource]) < floor:
                    yield f"{self.gang}: is above its quota, and leaves `{queue}` {have} {resource} of {floor}"

    def _above_share(self, queue: str, resource: str) -> bool:
        """With all its victims but the largest unit gone, a queue still holds more than its share and its quota."""
        inside = [one for one in self.leavers if one.outermost and queue in self.queues.path(one.gang.queue)]
        sizes = [self.case.amounts(one.pods).get(resource, 0) for one in inside]
        quota = self.queues.says(queue, resource).quota
        if quota is None:
            return False
        most = max(self.case.shares[queue][resource], quota)
        return self.most[queue][resource] - sum(sizes) + max(sizes) > most


def _not_reclaimable(case: Case) -> Iterator[str]:
    """Reclaim: which queue is entitled, from which queues, and how far down."""
    for gang in case.helped("Reclaim"):
        yield from Reclaim(case, gang, case.leavers(gang, "Reclaim")).wrong()


# enough, and no more ------------------------------------------------------------------------------------------------


def _needless(case: Case) -> Iterator[str]:
    """P6: for the places that were found, no unit could have stayed, as far as the order of steps is known."""
    helped = case.helped(*LOSSES, "Consolidate")
    for gang in helped:
        leavers = case.leavers(gang, *LOSSES, "Consolidate")
        for leaver in (one for one in leavers if one.outermost):
            others = [one for one in leavers if not one.pods <= leaver.pods]
            if all(case.evictions[pod].get("moveTo") == node for pod, node in _stays(leaver).items()):
                yield f"{gang}: {sorted(leaver.pods)} are evicted only to come back where they are"
            elif helped == [gang] and not _awaited(case, leaver) and _would_do(case, gang, leaver, others):
                yield f"{gang}: {sorted(leaver.pods)} could have stayed"


def _awaited(case: Case, leaver: Leaver) -> bool:
    """Whether a gang may wait for room beside these pods: what terminating pods leave is for it, not for later ones.

    The plan does not show where it is: that one of its pods could be there is enough.
    """
    stopping = frozenset(key for key, pod in case.index.pods.items() if terminating(pod))
    waiting = (pod for gang in _gangs_that_fit_soon(case) for pods in gang.waiting.values() for pod in pods)
    nodes = case.index.nodes.keys() & _stays(leaver).values()
    return any(not overfull(case.index, Outcome({pod: node}, stopping)) for pod in waiting for node in nodes)


def _gangs_that_fit_soon(case: Case) -> Iterator[CheckedGang]:
    """Gangs that wait for terminating pods alone."""
    for gang in case.plan.get("podGroups") or ():
        if any((reason.get("details") or {}).get("soon") for reason in gang.get("reasons") or ()):
            yield case.before[f"{gang['namespace']}/{gang['name']}"]


def _stays(leaver: Leaver) -> dict[str, str]:
    return {pod: node for pod, node in leaver.gang.pods().items() if pod in leaver.pods}


def _would_do(case: Case, gang: str, leaver: Leaver, others: list[Leaver]) -> bool:
    """Whether everything holds if this unit stays where it is; stale gangs are released last, and are still there."""
    stale = case.evicted("Stale")
    if leaver.gang.pods().keys() & stale:
        return False  # it would have to leave anyway
    places = {**_kept(case.index), **case.after.places, **_stays(leaver)}
    outcome = Outcome(places, case.after.gone - leaver.pods - stale)
    checked = CheckedGang(case.index, leaver.gang.key, outcome)
    if overfull(case.index, outcome) or any(apart(case.index, checked, group) for group in checked.tree):
        return False
    if list(_over_limit(case, outcome, _promised_amounts(case))) or _picky(case):
        return False
    if _promised_to_moves(case) & set(_stays(leaver).values()):
        return False
    reclaims = [one for one in others if one.pods <= case.evicted("Reclaim")]
    return not list(Reclaim(case, gang, reclaims).wrong())


def _kept(index: ObjectIndex) -> dict[str, str]:
    """P7: places that were promised before; if one is given up now, others could not know."""
    promised = {key: str((pod.get("status") or {}).get("nominatedNodeName")) for key, pod in index.pods.items()}
    return {key: node for key, node in promised.items() if node in index.nodes}


def _promised_places(case: Case) -> Iterator[tuple[CheckedGang, Raw]]:
    """P7: what is kept for pods that moved, and come back under other names: for the grace of S2."""
    for checked in case.before.values():
        text = checked.notes.get("muster.dev/moved-to")
        grace = duration(checked.spec.get("stalenessGracePeriod", "60s"))
        for place in json.loads(text)["places"] if text else ():
            if case.now is None or grace < timedelta() or case.now - moment(place["since"]) < grace:
                yield checked, place


def _promised_to_moves(case: Case) -> set[str]:
    """Nodes on which room is kept for pods that moved."""
    return {place["node"] for _, place in _promised_places(case)}


def _promised_amounts(case: Case) -> Iterator[tuple[str, str, int]]:
    """What queues hold for pods that moved: queue, resource and amount in base units."""
    for checked, place in _promised_places(case):
        for resource, amount in place["requests"].items():
            yield checked.queue, resource, amount * place["pods"]


def _picky(case: Case) -> bool:
    """Whether some new pod has inter-pod rules: then pods may have been evicted for them."""
    specs = [case.index.pods[pod]["spec"] for pod in case.after.places]
    return any(spec.get("affinity") or spec.get("topologySpreadConstraints") for spec in specs)


# stale --------------------------------------------------------------------------------------------------------------


class Short(NamedTuple):
    """A group that is placed in part while everything above it is satisfied."""

    group: str
    pods: frozenset[str]
    since: datetime | None  # None: not written yet


def shorts(checked: CheckedGang) -> list[Short]:
    """S2, S3: the root, or the topmost SubGroups that are not satisfied."""
    since: dict[str, str] = json.loads(checked.notes.get("muster.dev/stale-subgroups") or "{}")
    since[""] = checked.notes.get("kai.scheduler/stale-podgroup-timestamp") or ""
    return [
        Short(group, frozenset(checked.pods(group)), moment(since[group]) if since.get(group) else None)
        for group in checked.tree
        if not checked.met(group) and checked.pods(group) and all(checked.met(one) for one in checked.above(group))
    ]


def _due(checked: CheckedGang, short: Short, now: datetime) -> bool | None:
    """Whether its grace has passed; None: just now."""
    grace = duration(checked.spec.get("stalenessGracePeriod", "60s"))
    if grace < timedelta():
        return False
    at = (short.since or now) + grace
    return None if at == now else at < now


def _able(case: Case, pods: Collection[str]) -> set[str]:
    """Those that can be evicted at all."""
    return {pod for pod in pods if not stuck(case.index, case.index.pods[pod])}


def _released_early(case: Case) -> Iterator[str]:
    """Only what is short, whole, for itself, and after its grace."""
    for key, checked in case.before.items():
        gone = checked.pods().keys() & case.evicted("Stale")
        known = shorts(checked)
        if gone - {pod for short in known for pod in short.pods}:
            yield f"{key}: is not short, and released: {sorted(gone)}"
        for short in known if gone else ():
            if short.pods & gone and not _able(case, short.pods) <= case.evictions.keys():
                yield f"{key}: `{short.group}` is released only in part"
            if short.pods & gone and case.now and _due(checked, short, case.now) is False:
                yield f"{key}: `{short.group}` is released before its grace has passed"
        if any(case.evictions[pod]["for"] != key for pod in gone):
            yield f"{key}: is evicted as stale for another gang"


def _not_released(case: Case) -> Iterator[str]:
    """After the grace, what is short is made whole, or gone."""
    for key, checked in case.before.items():
        after = case.final[key]
        for short in shorts(checked) if case.now else ():
            assert case.now
            left = _able(case, after.pods(short.group).keys())
            if _due(checked, short, case.now) and not after.met(short.group) and left:
                yield f"{key}: `{short.group}` is short since {short.since}, and still there"

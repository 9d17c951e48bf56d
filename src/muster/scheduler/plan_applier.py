"""A plan carried out: bindings gang by gang, concurrent and bounded, evictions, nominations (G5).

Rule 1: whatever fails is left to the next turn: the plan is made anew from what is there then, so nothing has to be
replayed or undone here. Rule 2: a turn does not wait for what is not answered; a binding that was sent counts as done
until it is settled, so the next plan builds on it. Rule 3: nobody is evicted for a gang before everybody who has to go
for it is known to be able to (I6).
"""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager

from msgspec.structs import replace

from muster.api.core import Pod
from muster.model.snapshot import member_names
from muster.planning.decision import Binding, CyclePlan, Eviction, GangPlan
from muster.planning.refusal import BindingFailed
from muster.scheduler.binder import Alone, ApplyTally, Bind, Done, Evict, NominatedPlace, Trouble, Writer
from muster.scheduler.leadership import leads_in
from muster.scheduler.write_pool import PendingWrite, WritePool

SETTLE_SECONDS = 1.0  # without a single answer, before a turn ends without those that are missing


class Applier:
    """Carries out plans, one turn after the other."""

    def __init__(self, writer: Writer, at_once: int = 64, late: Callable[[bool], None] = lambda _: None) -> None:
        self.writer = writer
        self.write_pool = WritePool(at_once, late)  # `late`: something was settled after its turn: well or not

    @asynccontextmanager
    async def at_work(self, pods: Mapping[str, Pod], term: int | None = None) -> AsyncIterator["PlanExecution"]:
        """A plan is carried out while it is made; `pods` as it knows them, and the term in which it knew them.

        On leaving, everything has been answered, but for what is behind: `at_rest` tells.
        """
        self.write_pool.open()
        work = PlanExecution(self, pods, self.writer.leadership.term if term is None else term)
        try:
            yield work
            unsent = await self.write_pool.settle(SETTLE_SECONDS)
            work.close(unsent - self.write_pool.unsettled)
        except BaseException:
            await self.write_pool.stop()
            raise
        finally:
            work.open = False

    async def carry_out(self, plan: CyclePlan, pods: Mapping[str, Pod]) -> Done:
        """The same for a plan that is there."""
        async with self.at_work(pods) as work:
            work.finish(plan, pods)
        return work.done


class PlanExecution:
    """One plan being carried out. Bindings come gang by gang as they are decided: each is final in its plan."""

    def __init__(self, applier: Applier, pods: Mapping[str, Pod], term: int) -> None:
        self._applier, self._pods, self._term = applier, pods, term
        self._tally = ApplyTally()
        self._given: set[Binding] = set()
        self.open = True
        self.done = Done()  # what came of it, once it is over
        self.plan = CyclePlan()  # as it turned out, once it is over

    def bind(self, bindings: Sequence[Binding]) -> None:
        """These are decided."""
        if self.open:
            self._given.update(bindings)
            writer, tally = self._applier.writer, self._tally
            self._applier.write_pool.add([Bind(writer, one, self._uid(one), tally, self._term) for one in bindings])

    def finish(self, plan: CyclePlan, pods: Mapping[str, Pod]) -> None:
        """All is decided: evictions, notes, and what was not given before; `pods` are those that it is about.

        Nothing of it is sent in another term than the one in which it was decided.
        """
        write_pool, self.plan = self._applier.write_pool, plan
        if not leads_in(self._applier.writer.leadership, self._term):
            return
        write_pool.add(self._free(self._evict(plan.evictions)), urgent=True)  # it takes time until there is room
        self.bind([one for one in plan.bindings if one not in self._given])
        write_pool.add(self._free(map(self._note, places(plan, pods))))

    def close(self, unsent: Iterable[str]) -> None:
        """It is over; some gangs were not sent, or not whole."""
        cores = {one.gang for one in self.plan.bindings if one.role == "core"}
        for whose in sorted(unsent):
            self._tally.unsent(whose, core=whose in cores)
        self.done = self._tally.done()
        self.plan = as_it_went(self.plan, self._tally)

    def _free(self, orders: Iterable[PendingWrite]) -> list[PendingWrite]:
        """Those of whom nothing is on its way since another turn."""
        return [one for one in orders if one.whose not in self._applier.write_pool]

    def _evict(self, evictions: Iterable[Eviction]) -> Iterator[PendingWrite]:
        """For one gang all or none (I6); those of a stale gang leave one by one."""
        writer = self._applier.writer
        together: dict[str, list[Eviction]] = {}
        for one in evictions:
            together.setdefault(one.key if one.reason == "Stale" else f"for {one.preemptor}", []).append(one)
        for whom, found in together.items():
            whose, several = f"evict {whom}", len(found) > 1
            yield from (self._probe(one, whose) for one in found if several)
            for one in found:
                yield Evict(writer, one, self._uid(one), self._tally, self._term, whose, not several)

    def _probe(self, one: Eviction, whose: str) -> Alone:
        return Alone(whose, lambda: self._applier.writer.probe(one, self._uid(one), self._tally, self._term))

    def _note(self, one: NominatedPlace) -> Alone:
        writer, uid = self._applier.writer, self._uid_of(one.pod)
        return Alone(f"note {one.pod}", lambda: writer.note(one, uid, self._tally, self._term))

    def _uid(self, one: Binding | Eviction) -> str:
        return self._uid_of(one.key)

    def _uid_of(self, pod: str) -> str:
        found = self._pods.get(pod)
        return found.metadata.uid if found else ""


def as_it_went(plan: CyclePlan, tally: ApplyTally) -> CyclePlan:
    """A plan without the bindings that did not work: whose they were waits, and is told why (E1)."""
    if not tally.troubles:
        return plan
    lost = {one for one in plan.bindings if one.gang in tally.troubles and one.key not in tally.bound}
    gangs = tuple(_troubled(found, tally.troubles.get(found.gang.key)) for found in plan.gangs)
    return replace(plan, bindings=tuple(one for one in plan.bindings if one not in lost), gangs=gangs)


def _troubled(found: GangPlan, trouble: Trouble | None) -> GangPlan:
    if trouble is None:
        return found
    refusals = (BindingFailed(trouble.what), *found.refusals)
    return replace(found, verdict="Waiting" if trouble.core else found.verdict, refusals=refusals)


def concerned(plan: CyclePlan, pods: Mapping[str, Pod]) -> dict[str, Pod]:
    """The pods that a plan does something to, and those that wait with a place noted on them, by `namespace/name`."""
    named = {one.key for one in (*plan.nominations, *plan.bindings)} | {one.key for one in plan.evictions}
    found = {name: pod for name, pod in pods.items() if _noted(pod)}
    return found | {name: pods[name] for name in named if name in pods}


def _noted(pod: Pod) -> bool:
    return bool(pod.status.nominated_node_name) and not pod.spec.node_name


def places(plan: CyclePlan, pods: Mapping[str, Pod]) -> Iterator[NominatedPlace]:
    """What has to be noted on pods (P7): only what differs from what stands there.

    A note that the plan does not repeat is taken away: its gang changed or goes elsewhere, and others, schedulers
    among them, would keep the room free. Not so where the plan says nothing about it: the search was cut short, or the
    gang has just lost pods and is planned anew when they are gone.
    """
    wanted = {one.key: one for one in plan.nominations}
    for name, one in wanted.items():
        if name not in pods or pods[name].status.nominated_node_name != one.node:
            yield NominatedPlace(name, one.node, one.gang)
    noted = {name for name, pod in pods.items() if _noted(pod)}
    if not noted - wanted.keys():
        return
    silent = {one.gang for one in plan.evictions}
    bound = {one.key for one in plan.bindings}
    known: set[str] = set()
    for found in plan.gangs:
        own = noted.intersection(f"{found.gang.namespace}/{name}" for name in member_names(found.gang))
        known |= own
        if found.verdict != "Unknown" and found.gang.key not in silent:
            yield from (NominatedPlace(name, "", found.gang.key) for name in sorted(own - wanted.keys() - bound))
    yield from (
        NominatedPlace(name, "", "") for name in sorted(noted - known - wanted.keys())
    )  # their PodGroup is gone

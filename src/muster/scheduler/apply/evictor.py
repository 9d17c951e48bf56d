"""Performs evictions, and dry runs of them (I6, I9).

Rule 1: `write_state` decides; here is the I/O. Rule 2: leadership is checked right before every request. Rule 3: an
eviction is never sent again: the next plan may not want it.
"""

import asyncio

from msgspec import Struct

from muster.planning.decision import Eviction
from muster.scheduler.apply.apply_result import ANOTHER_LEADER, ApplyTally, Record
from muster.scheduler.apply.eviction_backoff import EvictionBackoff
from muster.scheduler.apply.pod_api import NOT_FOUND, PodApi, settle_backoff
from muster.scheduler.apply.write_state import (
    Accepted,
    Answer,
    Confirmed,
    Denied,
    Event,
    EvictRequest,
    NoAnswer,
    Rejected,
    Sent,
    Unconfirmed,
    Write,
    WriteResult,
    result_of,
    step,
)
from muster.scheduler.assumed_pods import AssumedPods


class EvictionWrite(Struct, eq=False):
    """One eviction, from the plan to its final state; see PendingWrite."""

    evictor: "Evictor"
    eviction: Eviction
    uid: str
    term: int  # of the leadership in which it was decided
    tally: ApplyTally
    owner: str
    is_first: bool
    state: Write | None = None  # None: not sent yet

    async def send(self) -> WriteResult:
        """Posts the eviction."""
        return await self.evictor.send(self)

    async def settle(self) -> WriteResult:
        """Follows an unconfirmed eviction to its end."""
        return await self.evictor.settle(self)


class EvictionProbe(Struct, frozen=True, eq=False):
    """A dry run of one eviction; see PendingWrite."""

    evictor: "Evictor"
    eviction: Eviction
    uid: str
    term: int
    tally: ApplyTally
    owner: str
    is_first: bool = True

    async def send(self) -> WriteResult:
        """Posts the eviction as a dry run."""
        return await self.evictor.probe(self)

    async def settle(self) -> WriteResult:
        """A dry run is never unconfirmed."""
        return WriteResult.REJECTED


class Evictor:
    """Evicts pods in one cluster."""

    def __init__(
        self, api: PodApi, assumed_pods: AssumedPods, backoff: EvictionBackoff, record: Record = lambda *_: None
    ) -> None:
        self.api, self.assumed_pods, self.backoff, self._record = api, assumed_pods, backoff, record

    async def send(self, write: EvictionWrite) -> WriteResult:
        """Posts an eviction; where the answer is not clear, reads the pod at once."""
        eviction = write.eviction
        if not self.api.leads_in(write.term):
            write.tally.add_failure(eviction.gang, f"{eviction.key}: not evicted: {ANOTHER_LEADER}")
            return WriteResult.REJECTED
        write.state = Sent(EvictRequest(write.uid), self.api.clock())
        answer = await self.api.evict(eviction.namespace, eviction.pod, write.uid)
        self._advance(write, answer)
        if not isinstance(answer, Accepted) and not _is_gone(answer):
            self.api.observer.eviction_failed(answer.reason)
            write.tally.add_failure(eviction.gang, f"{eviction.key}: not evicted: {answer.message}")
            if isinstance(write.state, Unconfirmed):
                self._advance(write, await self.api.read(eviction.namespace, eviction.pod))
            if isinstance(write.state, Rejected):
                self.backoff.refused(eviction.key, write.uid)
        return result_of(write.state)

    async def settle(self, write: EvictionWrite) -> WriteResult:
        """Reads the pod until it is known what became of the eviction."""
        backoff, eviction = settle_backoff(), write.eviction
        while isinstance(write.state, Unconfirmed):
            await asyncio.sleep(backoff.next_seconds())
            async with self.api.settling:
                self._advance(write, await self.api.read(eviction.namespace, eviction.pod))
        return result_of(write.state)

    async def probe(self, probe: EvictionProbe) -> WriteResult:
        """Whether a pod could be evicted now; where that is not known, it is not tried."""
        eviction, tally = probe.eviction, probe.tally
        if not self.api.leads_in(probe.term):
            return WriteResult.REJECTED
        answer = await self.api.probe_eviction(eviction.namespace, eviction.pod, probe.uid)
        if isinstance(answer, Accepted) or _is_gone(answer):
            return WriteResult.CONFIRMED
        self.api.observer.eviction_failed(answer.reason)
        why = f"{eviction.key}: cannot be evicted, so no pod is evicted for {eviction.preemptor}: {answer.message}"
        tally.add_failure(eviction.gang, why)
        if not isinstance(answer, NoAnswer):
            self.backoff.refused(eviction.key, probe.uid)
        return WriteResult.REJECTED

    def _advance(self, write: EvictionWrite, event: Event) -> None:
        """Moves an eviction to its next state; what follows from a final state is done here."""
        before, eviction = write.state, write.eviction
        if not isinstance(before, Sent | Unconfirmed):
            return
        write.state = step(before, event)
        if isinstance(write.state, Confirmed):
            self.assumed_pods.assume_evicted(eviction.key, write.uid)
            self.backoff.evicted(eviction.key)
            self.api.observer.evicted(eviction.reason, eviction.gang)
            write.tally.evicted += 1
            self._record(eviction, write.uid, write.term)


def _is_gone(answer: Answer) -> bool:
    return isinstance(answer, Denied) and answer.status == NOT_FOUND

"""One leader at a time: a Lease, renewed in time by a clock that never goes back (I9).

The leader stops acting `margin_seconds` before its lease could be taken by another, whatever it hears or does not hear,
and goes on as a candidate. `seconds_left` bounds every single request: none is under way when leadership ends.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import structlog
from msgspec import Struct

from muster.api.resources import LEASES
from muster.kube.cluster import Cluster, Raw
from muster.kube.errors import ApiError

log = structlog.get_logger()
CONFLICT = 409  # another replica was faster


async def _at_rest() -> bool:
    return True


class LeaseTerms(Struct, frozen=True):
    """What a lease is about."""

    name: str = "muster"
    namespace: str = "muster-system"
    duration_seconds: float = 15.0  # after this without a renewal, another may take it
    renew_seconds: float = 5.0  # how often it is renewed
    margin_seconds: float = 3.0  # how long before the end the leader stops acting

    @property
    def deadline_seconds(self) -> float:
        """How long a leader acts without a renewal."""
        return self.duration_seconds - self.margin_seconds

    @property
    def rest_seconds(self) -> float:
        """How long who gave the lease up stands back: any other replica has taken it by then."""
        return 2 * self.duration_seconds

    @property
    def attempt_seconds(self) -> float:
        """How long one attempt to renew may take, so that a second one fits before leadership ends."""
        return max((self.deadline_seconds - 2 * self.renew_seconds) / 2, self.deadline_seconds / 10)


class Leader:
    """One candidate. `leading` is checked before every single write."""

    def __init__(
        self,
        cluster: Cluster,
        identity: str,
        terms: LeaseTerms,
        clock: Callable[[], float],
        wall: Callable[[], datetime],
    ) -> None:
        self.cluster, self.identity, self.terms, self.clock, self.wall = cluster, identity, terms, clock, wall
        self._until = -1.0  # of our clock
        self._seen: tuple[str, float] | None = None  # the lease's version that another holds, and since when we see it
        self._requested: tuple[str, float] | None = None  # the renewal that we sent last, and when
        self.term = 0  # how often leadership began
        self._rests_until = -math.inf  # of our clock
        self.refused: ApiError | None = None  # why the last try to look at the lease, or to hold it, failed

    @property
    def leading(self) -> bool:
        """Whether we may act right now."""
        return self.clock() < self._until

    @property
    def seconds_left(self) -> float:
        """How long we may act without another renewal."""
        return max(self._until - self.clock(), 0.0)

    @property
    def resting_seconds(self) -> float:
        """How much longer we stand back, as we led and got nowhere."""
        return max(self._rests_until - self.clock(), 0.0)

    async def run(
        self,
        elected: Callable[[], None] = lambda: None,
        able: Callable[[], bool] = lambda: True,
        is_stuck: Callable[[], bool] = lambda: False,
        abandon: "Callable[[], Awaitable[bool]]" = _at_rest,
    ) -> None:
        """Compete and renew, without end; `elected` is called whenever leadership begins.

        Who is not `able` to lead does not compete. Who leads and `is_stuck` gives the lease up: see `step_down`.
        """
        led, leads = 0, False  # terms, and now
        while True:
            if self.leading and is_stuck():
                await self.step_down(abandon)
            elif self.leading or (able() and not self.resting_seconds):
                await self._try()
            if self.leading and self.term > led:
                log.info("leads", identity=self.identity)
                elected()
            elif leads and not self.leading:
                log.warning("leads no more", identity=self.identity)
            led, leads = self.term, self.leading
            await asyncio.sleep(self.terms.renew_seconds)

    async def _try(self) -> None:
        """One attempt. Where it fails, the lease runs out by itself, and the next attempt may succeed."""
        try:
            async with asyncio.timeout(self.terms.attempt_seconds):
                await self.acquire_or_renew()
        except TimeoutError:
            self._failed(ApiError(504, "Timeout", "no answer in time"))
        except ApiError as error:
            self._failed(error)
        else:
            self.refused = None

    def _failed(self, error: ApiError) -> None:
        before, self.refused = self.refused, error
        if error.status != CONFLICT and (before is None or before.reason != error.reason):
            lease = f"{self.terms.namespace}/{self.terms.name}"
            log.warning("lease is not held", lease=lease, reason=error.reason, what=error.message)

    async def acquire_or_renew(self) -> None:
        """Take the lease if it is free, keep it if it is ours."""
        requested_at = self.clock()
        try:
            lease = await self.cluster.get(LEASES, self.terms.namespace, self.terms.name)
        except ApiError as error:
            if error.status != 404:
                raise
            if not self._free():
                return
            await self.cluster.create(LEASES, self._renewed({}, 0, requested_at))
            self._hold(requested_at)
            return
        spec = lease.get("spec") or {}
        holder = spec.get("holderIdentity")
        if holder not in (None, "", self.identity) and not self._expired(lease):
            self._until = -1.0
            return
        if holder == self.identity and self._requested and self._requested[0] == spec.get("renewTime"):
            self._hold(self._requested[1])  # the API server accepted the last renewal, even if its answer was lost
        changes = int(spec.get("leaseTransitions") or 0) + (holder != self.identity)
        await self.cluster.replace(LEASES, self._renewed(lease, changes, requested_at))  # 409: another was faster
        self._hold(requested_at)

    async def step_down(self, abandon: "Callable[[], Awaitable[bool]]") -> None:
        """We lead and get nowhere: act no more, give the work up, let another go on, and stand back for a while.

        First leadership ends: nothing is written after that. `abandon` tells whether nothing is on its way; else the
        lease runs out by itself, as what is on its way may still arrive.
        """
        self.stop()
        self._rests_until = self.clock() + self.terms.rest_seconds
        log.error("gives the lease up, as it got nowhere", identity=self.identity, rests=self.terms.rest_seconds)
        if await abandon():
            await self.resign()

    def stop(self) -> None:
        """Act no more; the lease is still ours."""
        self._until = -1.0

    async def resign(self) -> None:
        """Act no more and let another go on at once. Without an answer, the lease runs out by itself."""
        self.stop()
        with suppress(ApiError, TimeoutError):
            async with asyncio.timeout(self.terms.margin_seconds):
                await self._give_back()

    async def _give_back(self) -> None:
        lease = await self.cluster.get(LEASES, self.terms.namespace, self.terms.name)
        if (lease.get("spec") or {}).get("holderIdentity") == self.identity:
            await self.cluster.replace(LEASES, lease | {"spec": lease["spec"] | {"holderIdentity": ""}})

    def _hold(self, requested_at: float) -> None:
        """Counted from the request, not from its answer."""
        self.term += not self.leading
        self._until = requested_at + self.terms.deadline_seconds
        self._seen = None

    def _expired(self, lease: Raw) -> bool:
        """Another's lease that has not changed for its whole duration, by our own clock: clocks of hosts may differ."""
        duration = float((lease.get("spec") or {}).get("leaseDurationSeconds") or self.terms.duration_seconds)
        return self._unchanged(str(lease["metadata"].get("resourceVersion", ""))) >= duration

    def _free(self) -> bool:
        """There is no lease. One that another held, and that was deleted, still counts: its holder may not know."""
        return self._seen is None or self._unchanged("") >= self.terms.duration_seconds

    def _unchanged(self, version: str) -> float:
        """Seconds for which we have seen this."""
        if self._seen is None or self._seen[0] != version:
            self._seen = (version, self.clock())
        return self.clock() - self._seen[1]

    def _renewed(self, old: Raw, changes: int, requested_at: float) -> Raw:
        lease = self._lease(old, changes)
        self._requested = lease["spec"]["renewTime"], requested_at
        return lease

    def _lease(self, old: Raw, changes: int) -> Raw:
        now = self.wall().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        before: dict[str, Any] = dict(old.get("spec") or {})
        acquired = before.get("acquireTime") if before.get("holderIdentity") == self.identity else now
        return {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": old.get("metadata") or {"name": self.terms.name, "namespace": self.terms.namespace},
            "spec": {
                "holderIdentity": self.identity,
                "leaseDurationSeconds": max(int(self.terms.duration_seconds), 1),
                "acquireTime": acquired or now,
                "renewTime": now,
                "leaseTransitions": changes,
            },
        }

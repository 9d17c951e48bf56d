"""One leader at a time: a Lease, renewed in time by a clock that never goes back (I9).

The leader stops writing `margin_seconds` before another replica could acquire its lease, whatever it is answered, and
goes on as a candidate. `seconds_left` bounds every request: none is in flight when leadership ends.
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


async def _nothing_in_flight() -> bool:
    return True


class LeaseSettings(Struct, frozen=True):
    """Name and timing of the Lease."""

    name: str = "muster"
    namespace: str = "muster-system"
    duration_seconds: float = 15.0  # after this without a renewal, another replica may acquire it
    renew_seconds: float = 5.0  # how often it is renewed
    margin_seconds: float = 3.0  # how long before the end the leader stops writing

    @property
    def deadline_seconds(self) -> float:
        """How long a leader may write without a renewal."""
        return self.duration_seconds - self.margin_seconds

    @property
    def cooldown_seconds(self) -> float:
        """How long a replica that stepped down does not compete: another one has acquired the lease by then."""
        return 2 * self.duration_seconds

    @property
    def attempt_seconds(self) -> float:
        """How long one attempt to renew may take, so that a second one fits before leadership ends."""
        return max((self.deadline_seconds - 2 * self.renew_seconds) / 2, self.deadline_seconds / 10)


class Leader:
    """One candidate. Every write checks `leading` first."""

    def __init__(
        self,
        cluster: Cluster,
        identity: str,
        settings: LeaseSettings,
        clock: Callable[[], float],
        wall: Callable[[], datetime],
    ) -> None:
        self.cluster, self.identity, self.settings, self.clock, self.wall = cluster, identity, settings, clock, wall
        self._until = -1.0  # by our clock
        self._seen: tuple[str, float] | None = None  # the resourceVersion of another's lease, and since when
        self._requested: tuple[str, float] | None = None  # the renewal that we sent last, and when
        self.term = 0  # how many times leadership began
        self._cooldown_until = -math.inf  # by our clock
        self.refused: ApiError | None = None  # why the last attempt to read or to hold the lease failed

    @property
    def leading(self) -> bool:
        """Whether we may write right now."""
        return self.clock() < self._until

    @property
    def seconds_left(self) -> float:
        """How long we may write without another renewal."""
        return max(self._until - self.clock(), 0.0)

    @property
    def cooldown_seconds_left(self) -> float:
        """How much longer we do not compete, as we stepped down."""
        return max(self._cooldown_until - self.clock(), 0.0)

    async def run(
        self,
        elected: Callable[[], None] = lambda: None,
        able: Callable[[], bool] = lambda: True,
        is_stuck: Callable[[], bool] = lambda: False,
        abandon: "Callable[[], Awaitable[bool]]" = _nothing_in_flight,
    ) -> None:
        """Compete and renew, without end; `elected` is called whenever leadership begins.

        A replica that is not `able` to lead does not compete. A leader that `is_stuck` steps down.
        """
        led, leads = 0, False  # the last term, and whether we led at the last look
        while True:
            if self.leading and is_stuck():
                await self.step_down(abandon)
            elif self.leading or (able() and not self.cooldown_seconds_left):
                await self._try()
            if self.leading and self.term > led:
                log.info("leads", identity=self.identity)
                elected()
            elif leads and not self.leading:
                log.warning("leads no more", identity=self.identity)
            led, leads = self.term, self.leading
            await asyncio.sleep(self.settings.renew_seconds)

    async def _try(self) -> None:
        """One attempt. Where it fails, the lease expires by itself, and the next attempt may succeed."""
        try:
            async with asyncio.timeout(self.settings.attempt_seconds):
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
            lease = f"{self.settings.namespace}/{self.settings.name}"
            log.warning("lease is not held", lease=lease, reason=error.reason, what=error.message)

    async def acquire_or_renew(self) -> None:
        """Acquire the lease if it is free, renew it if it is ours."""
        requested_at = self.clock()
        try:
            lease = await self.cluster.get(LEASES, self.settings.namespace, self.settings.name)
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
        await self.cluster.replace(
            LEASES, self._renewed(lease, changes, requested_at)
        )  # 409: another replica was faster
        self._hold(requested_at)

    async def step_down(self, abandon: "Callable[[], Awaitable[bool]]") -> None:
        """Lead no more, for lack of progress: abandon the work, release the lease, and do not compete for a while.

        Leadership ends first: nothing is written after that. `abandon` returns whether no write is in flight; otherwise
        the lease expires by itself, as the API server may still apply such a write.
        """
        self.stop()
        self._cooldown_until = self.clock() + self.settings.cooldown_seconds
        log.error("steps down, as it makes no progress", identity=self.identity, rests=self.settings.cooldown_seconds)
        if await abandon():
            await self.resign()

    def stop(self) -> None:
        """Write no more; the lease is still ours."""
        self._until = -1.0

    async def resign(self) -> None:
        """Write no more and release the lease. Without an answer, it expires by itself."""
        self.stop()
        with suppress(ApiError, TimeoutError):
            async with asyncio.timeout(self.settings.margin_seconds):
                await self._release()

    async def _release(self) -> None:
        lease = await self.cluster.get(LEASES, self.settings.namespace, self.settings.name)
        if (lease.get("spec") or {}).get("holderIdentity") == self.identity:
            await self.cluster.replace(LEASES, lease | {"spec": lease["spec"] | {"holderIdentity": ""}})

    def _hold(self, requested_at: float) -> None:
        """Lead until the deadline, counted from the request and not from its answer."""
        self.term += not self.leading
        self._until = requested_at + self.settings.deadline_seconds
        self._seen = None

    def _expired(self, lease: Raw) -> bool:
        """Whether another's lease has not changed for its duration, by our own clock: clocks of hosts may differ."""
        duration = float((lease.get("spec") or {}).get("leaseDurationSeconds") or self.settings.duration_seconds)
        return self._unchanged(str(lease["metadata"].get("resourceVersion", ""))) >= duration

    def _free(self) -> bool:
        """Whether a missing lease may be created. A deleted one counts for its duration: its holder may still write."""
        return self._seen is None or self._unchanged("") >= self.settings.duration_seconds

    def _unchanged(self, version: str) -> float:
        """Seconds for which we have seen this resourceVersion."""
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
            "metadata": old.get("metadata") or {"name": self.settings.name, "namespace": self.settings.namespace},
            "spec": {
                "holderIdentity": self.identity,
                "leaseDurationSeconds": max(int(self.settings.duration_seconds), 1),
                "acquireTime": acquired or now,
                "renewTime": now,
                "leaseTransitions": changes,
            },
        }

"""One leader at a time: a Lease, renewed in time by a clock that never goes back (I9).

The leader stops writing `margin_seconds` before another replica could acquire its lease, whatever it is answered, and
goes on as a candidate. `seconds_left` bounds every request: none is in flight when leadership ends. A leader that has
a problem gives the lease up, and competes again once the problem is over and its cooldown has passed.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Literal

import structlog
from msgspec import Struct

from muster.api.meta import ObjectMeta
from muster.api.resources import LEASES
from muster.kube.backoff import Backoff
from muster.kube.cluster import Cluster, Raw
from muster.kube.errors import ApiError
from muster.kube.event_recorder import EventRecorder, event

log = structlog.get_logger()
CONFLICT = 409  # another replica was faster
GIVEN_UP = "LeaseGivenUp"  # the reason of the Event on the Lease


class LeaderProblem(Struct, frozen=True):
    """Why a replica must not lead, as a stable word and as a sentence."""

    reason: Literal["WatchDead", "CycleStuck", "WritesUnanswered"]
    message: str


Abandon = Callable[[LeaderProblem], Awaitable[bool]]


async def _nothing_in_flight(_: LeaderProblem) -> bool:
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
        """How long a replica that gave the lease up does not compete: another one has acquired it by then."""
        return 2 * self.duration_seconds

    @property
    def longest_cooldown_seconds(self) -> float:
        """The same, after it gave the lease up again and again."""
        return 20 * self.duration_seconds

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
        self._led_since = -math.inf  # by our clock
        self._cooldown = Backoff(settings.cooldown_seconds, settings.longest_cooldown_seconds)
        self._cooldown_until = -math.inf  # by our clock
        self._uid = ""  # of the lease
        self._events = EventRecorder(cluster, clock)
        self.given_up: LeaderProblem | None = None  # why the lease was given up last
        self.problem: LeaderProblem | None = None  # why this replica must not lead
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
        """How much longer we do not compete, as we gave the lease up."""
        return max(self._cooldown_until - self.clock(), 0.0)

    @property
    def abstention(self) -> str:
        """Why we do not compete; empty: we do, or lead."""
        if self.given_up is not None and (cooldown := self.cooldown_seconds_left):
            return f"was given up: {self.given_up.message}; competes again in {math.ceil(cooldown)} s"
        return f"is not competed for: {self.problem.message}" if self.problem is not None and not self.leading else ""

    async def run(
        self,
        elected: Callable[[], None] = lambda: None,
        able: Callable[[], bool] = lambda: True,
        find_problem: Callable[[], LeaderProblem | None] = lambda: None,
        abandon: Abandon = _nothing_in_flight,
    ) -> None:
        """Compete and renew, without end; `elected` is called whenever leadership begins.

        A replica that has a problem, or is not `able` to lead, does not compete. A leader that has one steps down.
        """
        led, leads = 0, False  # the last term, and whether we led at the last look
        while True:
            self.problem = find_problem()
            if self.leading and self.problem is not None:
                await self.step_down(self.problem, abandon)
            elif self.leading or self._may_compete(able):
                await self._try()
            if self.leading and self.term > led:
                log.info("leads", identity=self.identity)
                elected()
            elif leads and not self.leading:
                log.warning("leads no more", identity=self.identity)
            led, leads = self.term, self.leading
            await asyncio.sleep(self.settings.renew_seconds)

    def _may_compete(self, able: Callable[[], bool]) -> bool:
        return self.problem is None and not self.cooldown_seconds_left and able()

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
        self._uid = lease["metadata"].get("uid", "")
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

    async def step_down(self, problem: LeaderProblem, abandon: Abandon = _nothing_in_flight) -> None:
        """Lead no more: abandon the work, release the lease, say why, and do not compete for a while.

        Leadership ends first: nothing is written after that, but an Event. `abandon` returns whether no write is in
        flight; otherwise the lease expires by itself, as the API server may still apply such a write. The cooldown
        doubles with each term that ends like this, until one has lasted longer than the longest cooldown.
        """
        self.stop()
        if self.clock() - self._led_since > self.settings.longest_cooldown_seconds:
            self._cooldown.reset()
        seconds = self._cooldown.next_seconds()
        self.given_up, self._cooldown_until = problem, self.clock() + seconds
        log.error(
            "gives the lease up", identity=self.identity, reason=problem.reason, why=problem.message, rests=seconds
        )
        if await abandon(problem):
            await self.resign()
        await self._report(problem)

    async def _report(self, problem: LeaderProblem) -> None:
        """An Event on the Lease, in one attempt; the log has it in any case."""
        meta = ObjectMeta(name=self.settings.name, namespace=self.settings.namespace, uid=self._uid)
        message = f"{self.identity} gave the lease up: {problem.message}"
        with suppress(ApiError, TimeoutError):
            async with asyncio.timeout(self.settings.margin_seconds):
                await self._events.record(event(LEASES, meta, GIVEN_UP, message, self.wall()))

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
        if not self.leading:
            self.term += 1
            self._led_since = requested_at
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

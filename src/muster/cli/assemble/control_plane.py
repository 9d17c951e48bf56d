"""The control plane of `muster run`: scheduler, leader election and servers, on one client.

Rule: it ends in order. No new writes, then answers to those that were sent, then the lease, then the connections.
"""

import asyncio
import os
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import uuid4

from msgspec import Struct

from muster.cli import tasks
from muster.cli.assemble.clients import ClusterAccess
from muster.cli.assemble.grove_operator import attach_operator
from muster.cli.assemble.pod_grouper import build_grouper, reports_orphan
from muster.cli.assemble.process import configure_service
from muster.cli.assemble.servers import build_servers
from muster.cli.shutdown import stop_on
from muster.cli.tasks import Loop, Task
from muster.config.settings import Config
from muster.kube.client.http import Limits
from muster.kube.cluster import Cluster
from muster.observability.api_requests import count_requests
from muster.observability.event_loop_lag import measure_lag
from muster.observability.logging import logger
from muster.observability.metrics import Metrics
from muster.observability.tracing import FLUSH_SECONDS, CycleTracer, connect_tracer
from muster.scheduler.daemon_threads import in_daemon_thread
from muster.scheduler.leader_election import Leader, LeaderProblem, LeaseSettings
from muster.scheduler.leader_health import LeaderHealth
from muster.scheduler.loop import Scheduler

WATCH_SHARE = 0.75  # of the silence after which a watch is dead: it is reopened before
DRAIN_SECONDS = 3.0  # at the end, for answers to writes; without them the lease expires by itself


class ControlPlane(Struct, frozen=True):
    """What `muster run` consists of."""

    cluster: Cluster
    scheduler: Scheduler
    leader: Leader | None  # None: this replica leads without an election
    election: Mapping[str, Loop]  # ends first: a replica that ends does not compete
    loops: Mapping[str, Loop]  # the scheduler and the servers
    writers: Sequence[Callable[[], bool]] = ()  # whether others than the scheduler have requests in flight


def run_control_plane(settings: Config, kubeconfig: str | None, context: str | None) -> None:
    """Run the control plane against a cluster, until SIGTERM or SIGINT."""
    configure_service(settings.log)
    measured = Metrics(settings.observability.max_queues)
    limits = Limits(watch_silence_seconds=WATCH_SHARE * settings.observability.silent_watch_seconds)
    access = ClusterAccess(kubeconfig, context)
    asyncio.run(run(settings, access.connect(limits, count_requests(measured.requested)), access, measured))


async def run(
    settings: Config,
    cluster: Cluster,
    access: ClusterAccess = ClusterAccess(),  # noqa: B008 - frozen
    measured: Metrics | None = None,
) -> None:
    """Run every loop until SIGTERM or SIGINT, or until one fails; then end in order. Cancels a plan in progress.

    `access`: where other processes find the cluster.
    """
    tracer = connect_tracer(settings.tracing, identity := replica_identity())
    stop, log = stop_on((signal.SIGTERM, signal.SIGINT)), logger("run")
    plane = build_control_plane(settings, cluster, identity, measured or Metrics(), access)
    if tracer is not None:
        plane.scheduler.runner.tracers.append(tracer.export)
    election, loops = tasks.start(plane.election), tasks.start(plane.loops)
    stopping = asyncio.create_task(stop.wait(), name="stop")
    log.info("muster runs", identity=identity, lease=settings.lease_name, dry_run=settings.scheduling.dry_run)
    try:
        done, _ = await asyncio.wait([stopping, *election, *loops], return_when=asyncio.FIRST_COMPLETED)
        for task in done - {stopping}:
            task.result()  # a loop that ends by itself has failed, and raises why
    finally:
        await _end(plane, election, [stopping, *loops])
        if tracer is not None:
            await _flush(tracer)
        log.info("muster has stopped")


async def _flush(tracer: CycleTracer) -> None:
    """Export the traces that wait; a collector that does not answer holds up nothing."""
    with suppress(TimeoutError):
        async with asyncio.timeout(FLUSH_SECONDS):
            await in_daemon_thread("flush traces", tracer.flush)


def build_control_plane(
    settings: Config, cluster: Cluster, identity: str, measured: Metrics, access: ClusterAccess
) -> ControlPlane:
    """Tie scheduler, election and servers together; nothing runs yet, but the servers' sockets are open."""
    takes_part = settings.leader_election.enabled and not settings.scheduling.dry_run
    leader = build_leader(settings, cluster, identity) if takes_part else None
    groups = settings.grouping.enabled and not settings.scheduling.dry_run
    scheduler = Scheduler(
        cluster,
        settings.scheduling,
        leader,
        observer=measured,
        policy=settings.policy,
        reports_orphan=reports_orphan if groups else (lambda _: True),
    )
    grouper = build_grouper(settings, cluster, scheduler, measured) if groups else None
    operator = attach_operator(settings.grove, cluster, scheduler)
    servers = build_servers(settings, cluster, scheduler, leader, measured, access)
    leader_health = LeaderHealth(
        scheduler,
        settings.leader_election.progress_seconds,
        settings.observability.silent_watch_seconds,
        time.monotonic,
    )
    begin = [part.lead for part in (grouper, operator) if part is not None]
    writers = [
        *([lambda: grouper.is_writing] if grouper else []),
        *([lambda: operator.has_requests] if operator else []),
    ]
    election = {"leader election": partial(compete, leader, scheduler, leader_health, begin, writers)} if leader else {}
    controllers: dict[str, Loop] = {"grouper": grouper.run} if grouper else {}
    controllers |= {"grove operator": operator.run} if operator else {}
    lag = partial(measure_lag, measured.loop_lagged)
    shown = _build_dashboard_loops(settings, cluster, scheduler) if settings.dashboard.enabled else {}
    loops: dict[str, Loop] = {"scheduler": scheduler.run, **controllers, **servers, **shown, "event loop lag": lag}
    return ControlPlane(cluster, scheduler, leader, election, loops, writers)


def _build_dashboard_loops(settings: Config, cluster: Cluster, scheduler: Scheduler) -> Mapping[str, Loop]:
    """Imported here, as most replicas have none."""
    from muster.cli.assemble.dashboard import build_dashboard

    return build_dashboard(settings, cluster, scheduler).loops


def build_leader(settings: Config, cluster: Cluster, identity: str) -> Leader:
    """A candidate for the lease of these settings."""
    election = settings.leader_election
    terms = LeaseSettings(
        name=settings.lease_name,
        namespace=election.lease_namespace,
        duration_seconds=float(election.lease_seconds),
        renew_seconds=float(election.retry_seconds),
        margin_seconds=float(election.lease_seconds - election.renew_deadline_seconds),
    )
    return Leader(cluster, identity, terms, time.monotonic, lambda: datetime.now(UTC))


def replica_identity() -> str:
    """The name of this replica in the lease; a new one after every start."""
    return f"{os.environ.get('MUSTER_IDENTITY') or socket.gethostname()}_{uuid4().hex[:8]}"


async def compete(
    leader: Leader,
    scheduler: Scheduler,
    leader_health: LeaderHealth,
    on_leading: Sequence[Callable[[], None]] = (),
    writers: Sequence[Callable[[], bool]] = (),
) -> None:
    """Compete for the lease once the cache is synced; step down where this replica must not lead."""
    while not scheduler.synced:
        await asyncio.sleep(0.05)

    async def abandon(problem: LeaderProblem) -> bool:
        scheduler.observer.lease_given_up(problem.reason)
        scheduler.cancel_plan()
        await _drain(scheduler, writers)
        return scheduler.applier.write_pool.at_rest and not _are_writing(writers)

    def begin() -> None:
        scheduler.wake()
        for lead in on_leading:
            lead()

    await leader.run(begin, lambda: scheduler.ready, leader_health.poll, abandon)


async def _end(plane: ControlPlane, election: list[Task], loops: list[asyncio.Task[Any]]) -> None:
    plane.scheduler.stop()
    await tasks.cancel(election)
    if plane.leader:
        plane.leader.stop()
    await _drain(plane.scheduler, plane.writers)
    drained = plane.scheduler.at_rest and not _are_writing(plane.writers)
    await tasks.cancel(loops)
    if plane.leader and drained:  # else the lease expires: the API server may still apply a write
        await plane.leader.resign()
    await plane.cluster.close()


def _are_writing(writers: Sequence[Callable[[], bool]]) -> bool:
    return any(is_writing() for is_writing in writers)


async def _drain(scheduler: Scheduler, writers: Sequence[Callable[[], bool]]) -> None:
    """Wait for answers to what was sent, up to a limit: the next leader must not race with a write of ours."""
    end = scheduler.clock() + min(scheduler.settings.bind_timeout_seconds, DRAIN_SECONDS)
    while (not scheduler.at_rest or _are_writing(writers)) and scheduler.clock() < end:
        await asyncio.sleep(0.01)

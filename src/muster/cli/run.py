"""`muster run`: the control plane against a Kubernetes cluster."""

import asyncio
import gc
import os
import resource
import signal
import socket
import time
from collections.abc import Coroutine, Iterable
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import click
from msgspec.structs import replace
from starlette.applications import Starlette

from muster.cli.shutdown import stop_on
from muster.config import loading
from muster.config.settings import Config, LeaderElection, Observability, Webhook
from muster.kube.client.client import connect
from muster.kube.cluster import Cluster
from muster.observability import health, metrics
from muster.observability.asgi_server import listening
from muster.observability.logging import configure, logger
from muster.scheduler.leader_election import Leader, LeaseTerms
from muster.scheduler.loop import Scheduler
from muster.scheduler.progress import Progress
from muster.validation.context import ValidationContext
from muster.webhook import handlers
from muster.webhook.certificates import certificate_rotation, certificate_sources

FINISH_SECONDS = 3.0  # at the end, for answers to what was sent; without them the lease runs out by itself


@click.command("run")
@click.option("--config", "path", type=click.Path(path_type=Path, dir_okay=False), help="One file with every setting.")
@click.option("--kubeconfig", type=click.Path(), help="Which cluster; unset: $KUBECONFIG, or the one it runs in.")
@click.option("--context", help="A context of the kubeconfig; unset: the current one.")
@click.option("--dry-run", is_flag=True, help="Plan and tell in the log, but write nothing.")
def command(path: Path | None, kubeconfig: str | None, context: str | None, dry_run: bool) -> int:
    """The control plane against a Kubernetes cluster, until it is told to stop.

    \b
    Examples:
      muster run --kubeconfig ~/.kube/config --dry-run
      muster run --config /etc/muster/config.yaml
    """
    settings = loading.load(path) if path else Config()
    if dry_run:
        settings = replace(settings, scheduling=replace(settings.scheduling, dry_run=True))
    configure(settings.log)
    tune()
    asyncio.run(_run(settings, connect(kubeconfig, context)))
    return 0


def tune() -> None:
    """This process, for plans that are made while others are answered, and for many connections."""
    gc.set_threshold(50_000, 20, 50)  # fewer pauses: nearly everything that we hold stays, and has no cycles to find
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # every binding under way has a connection


async def _run(settings: Config, cluster: Cluster) -> None:
    """Every loop, until SIGTERM or SIGINT; then what is under way ends, the lease is given back, connections go.

    A plan that is being made is given up.
    """
    stop = stop_on((signal.SIGTERM, signal.SIGINT))
    measured = metrics.Metrics()
    leader = Leader(cluster, identity(), terms(settings.leader_election), time.monotonic, lambda: datetime.now(UTC))
    elected = settings.leader_election.enabled and not settings.scheduling.dry_run
    scheduler = Scheduler(
        cluster, settings.scheduling, leader if elected else None, observer=measured, policy=settings.policy
    )
    lease = [health.Election(lambda: leader.refused, lambda: leader.resting_seconds)] if elected else []
    servers = _servers(settings, cluster, scheduler, measured, lease)  # first: without an address nothing begins
    progress = Progress(settings.leader_election.progress_seconds, time.monotonic)
    election = [_task("leader election", _elected(leader, scheduler, progress))] if elected else []
    tasks = [*election, _task("scheduler", scheduler.run()), *servers]
    waiting = asyncio.create_task(stop.wait(), name="stop")
    log = logger("run")
    log.info("muster runs", identity=leader.identity, dry_run=settings.scheduling.dry_run)
    try:
        done, _ = await asyncio.wait([waiting, *tasks], return_when=asyncio.FIRST_COMPLETED)
        for task in done - {waiting}:
            task.result()  # whatever ends by itself has failed, and says why
    finally:
        scheduler.stop()
        await _end({*election})
        leader.stop()
        await _finished(scheduler)
        at_rest = scheduler.at_rest
        await _end({waiting, *tasks})
        if elected and at_rest:  # else the lease runs out: what is on its way may still arrive
            await leader.resign()
        await cluster.close()
        log.info("muster has stopped")


async def _elected(leader: Leader, scheduler: Scheduler, progress: Progress) -> None:
    """Who does not know the cluster yet does not compete with those who do; who gets nowhere lets another lead."""
    while not scheduler.synced:
        await asyncio.sleep(0.05)

    def is_stuck() -> bool:
        return progress.is_stuck(scheduler.began is not None, scheduler.results)

    async def abandon() -> bool:
        scheduler.observer.gave_up_the_lease()
        scheduler.cancel_plan()
        await _finished(scheduler)
        return scheduler.applier.write_pool.at_rest

    await leader.run(scheduler.wake, lambda: scheduler.ready, is_stuck, abandon)


async def _finished(scheduler: Scheduler) -> None:
    """What was sent is answered, or was given up: a leader that comes after us must not meet it on its way."""
    end = scheduler.clock() + min(scheduler.settings.bind_timeout_seconds, FINISH_SECONDS)
    while not scheduler.at_rest and scheduler.clock() < end:
        await asyncio.sleep(0.01)


async def _end(left: set[asyncio.Task[Any]]) -> None:
    while left:  # a loop that is just busy with something else may miss it once
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=1.0)


def _servers(
    settings: Config, cluster: Cluster, scheduler: Scheduler, measured: metrics.Metrics, more: list[health.Election]
) -> list[asyncio.Task[None]]:
    seen, served_certificate = settings.observability, certificate_rotation.ServedCertificate()
    guarded = settings.webhook.enabled and not settings.scheduling.dry_run
    taken = _addresses(settings, ("observability", "webhook") if guarded else ("observability",))
    live = [health.WorkCheck("cycle", lambda: scheduler.began, seen.stuck_cycle_seconds, scheduler.clock)]
    ready: list[health.Check] = [
        health.WatchCheck(resource.plural, state, seen.silent_watch_seconds)
        for resource, state in scheduler.health.items()
    ]
    ready += [*more, served_certificate] if guarded else more
    routes = [*health.routes(live, ready), metrics.route(measured)]
    looked_at = handlers.listener(Starlette(routes=routes), seen.host, seen.port)
    found = [_task("observability", looked_at.serve(taken[:1]))]
    if guarded:
        source = certificate_sources.source(settings.webhook.certificates, cluster)
        rotation = certificate_rotation.CertificateRotation(
            served_certificate, source, cluster, settings.webhook, measured
        )
        app = handlers.app(settings.webhook, partial(_around, scheduler), measured)
        server = handlers.listener(app, settings.webhook.host, settings.webhook.port, served_certificate)
        found += [_task("certificates", rotation.run()), _task("webhook", server.serve(taken[1:]))]
    return found


def _addresses(settings: Config, sections: Iterable[str]) -> list[socket.socket]:
    """Where the servers listen; InputError where one of them cannot, and then none of them does."""
    with ExitStack() as taken:
        found = []
        for section in sections:
            told: Webhook | Observability = getattr(settings, section)
            hint = f"`{section}.host` and `{section}.port` of the configuration say where"
            found.append(taken.enter_context(listening(told.host, told.port, hint)))
        taken.pop_all()
        return found


def _around(scheduler: Scheduler) -> ValidationContext:
    """What lies around an object that is judged: all there is, once everything has been listed."""
    cache = scheduler.cache
    return ValidationContext(cache.objects, cache.pods_of, whole=scheduler.synced)


def _task(name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    return asyncio.create_task(work, name=name)


def identity() -> str:
    """Who we are among the replicas; another after every start."""
    return f"{os.environ.get('MUSTER_IDENTITY') or socket.gethostname()}_{uuid4().hex[:8]}"


def terms(settings: LeaderElection) -> LeaseTerms:
    """The lease, as the settings say."""
    return LeaseTerms(
        name=settings.lease_name,
        namespace=settings.lease_namespace,
        duration_seconds=float(settings.lease_seconds),
        renew_seconds=float(settings.retry_seconds),
        margin_seconds=float(settings.lease_seconds - settings.renew_deadline_seconds),
    )

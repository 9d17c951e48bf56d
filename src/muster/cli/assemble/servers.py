"""The servers of the control plane: health and metrics on one address, the admission webhook on another."""

import socket
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

from starlette.applications import Starlette
from starlette.routing import Route

from muster.cli.assemble.clients import ClusterAccess
from muster.cli.tasks import Loop
from muster.config.settings import Config, Observability, Webhook
from muster.errors import InputError
from muster.kube.cluster import Cluster
from muster.observability import health, metrics
from muster.observability.access_reviews import Reviewer
from muster.observability.metrics_access import Authorize, TokenFile, TokenReviews
from muster.observability.serving.asgi_server import AsgiServer, listen
from muster.observability.serving.connection_table import ConnectionLimits
from muster.scheduler.leader_election import Leader
from muster.scheduler.loop import Scheduler
from muster.scheduler.progress import Progress
from muster.webhook.process.gang_demands import DemandFeed
from muster.webhook.process.messages import WebhookStart
from muster.webhook.process.supervisor import WebhookProcess

# not imported here: what it needs takes a tenth of the time that all imports do
WEBHOOK_COMMAND = (sys.executable, "-P", "-m", "muster.cli.assemble.webhook_process")

# Kubelet, Prometheus, and a user now and then: each request for metrics takes time from the planner.
PROBE_LIMITS = ConnectionLimits(connections=64, per_peer=8)


def build_servers(
    settings: Config,
    cluster: Cluster,
    scheduler: Scheduler,
    leader: Leader | None,
    measured: metrics.Metrics,
    access: ClusterAccess,
) -> dict[str, Loop]:
    """The loops that answer requests. Opens their sockets: InputError where an address is not available."""
    scheduling = settings.scheduling
    has_webhook = settings.webhook.enabled and not scheduling.dry_run and scheduling.shard.serves_cluster
    authorize = build_metrics_access(settings.observability, cluster, scheduler.clock)
    sections = (settings.observability, settings.webhook) if has_webhook else (settings.observability,)
    first, *others = open_sockets(*sections)
    ready = build_readiness_checks(settings.observability, scheduler, leader)
    webhook: dict[str, Loop] = {}
    if has_webhook:
        process = _build_webhook(settings, scheduler, measured, access, others[0])
        ready += process.checks
        webhook = {"webhook": process.run}
    served = metrics.route(measured, authorize)
    return {**_observability_loops(settings.observability, scheduler, ready, served, first), **webhook}


def build_metrics_access(settings: Observability, cluster: Cluster, clock: Callable[[], float]) -> Authorize | None:
    """Who may read metrics; None: any client. InputError where a token file cannot be used."""
    match settings.metrics_access:
        case "kubernetes" if isinstance(cluster, Reviewer):
            return TokenReviews(cluster, clock).authorize
        case "kubernetes":
            raise InputError("`observability.metricsAccess: kubernetes` needs an API server that reviews tokens")
        case "token-file":
            return TokenFile(settings.metrics_token_file, clock).authorize
        case _:
            return None


def open_sockets(*sections: Webhook | Observability) -> list[socket.socket]:
    """One listening socket for each section of the configuration; InputError where one fails, and then none is open."""
    with ExitStack() as opened:
        sockets = []
        for section in sections:
            name = type(section).__name__.lower()
            hint = f"`{name}.host` and `{name}.port` of the configuration say where"
            sockets.append(opened.enter_context(listen(section.host, section.port, hint)))
        opened.pop_all()
        return sockets


def build_readiness_checks(settings: Observability, scheduler: Scheduler, leader: Leader | None) -> list[health.Check]:
    """One check for each watch, and one for the election if this replica takes part in it."""
    checks: list[health.Check] = [
        health.WatchCheck(resource.plural, state, settings.silent_watch_seconds)
        for resource, state in scheduler.watched.health.items()
    ]
    if leader is not None:
        checks.append(health.LeaseCheck(lambda: leader.refused, lambda: leader.abstention))
    return checks


def build_cycle_check(settings: Observability, scheduler: Scheduler) -> health.Check:
    """A cycle without a result; one that waits for a slow API server has results."""
    longest, clock = float(settings.stuck_cycle_seconds), scheduler.clock
    progress = Progress(longest, clock)

    def since() -> float | None:
        return progress.without_result_since(scheduler.began is not None, scheduler.results)

    return health.WorkCheck("cycle", since, longest, clock)


def _observability_loops(
    settings: Observability,
    scheduler: Scheduler,
    ready: list[health.Check],
    served_metrics: Route,
    listener: socket.socket,
) -> dict[str, Loop]:
    live = [build_cycle_check(settings, scheduler)]
    app = Starlette(routes=[*health.routes(live, ready), served_metrics])
    server = AsgiServer(app, PROBE_LIMITS)
    return {"observability": partial(server.serve, [listener])}


def _build_webhook(
    settings: Config, scheduler: Scheduler, measured: metrics.Metrics, access: ClusterAccess, listener: socket.socket
) -> WebhookProcess:
    """The webhook in a process of its own; it hears here what pods of gangs request."""
    cache = scheduler.watched.cache
    feed = DemandFeed(cache.pods_of)
    cache.pod_listeners.append(feed.pod_changed)
    start = WebhookStart(settings, access.kubeconfig, access.context)
    return WebhookProcess(WEBHOOK_COMMAND, listener, start, feed, lambda: cache.gangs, measured)

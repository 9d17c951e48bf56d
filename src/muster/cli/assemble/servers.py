"""The servers of the control plane: health and metrics on one address, the admission webhook on another."""

import socket
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

from starlette.applications import Starlette
from starlette.routing import Route

from muster.cli.assemble.grove_operator import reader_of
from muster.cli.tasks import Loop
from muster.config.settings import Config, Observability, Webhook
from muster.errors import InputError
from muster.kube.cluster import Cluster
from muster.kube.controller.controller_runtime import ControllerRuntime
from muster.observability import health, metrics
from muster.observability.asgi_server import AsgiServer, listen
from muster.observability.connection_table import ConnectionLimits
from muster.observability.metrics_access import Authorize, Reviewer, TokenFile, TokenReviews
from muster.scheduler.leader_election import Leader
from muster.scheduler.loop import Scheduler
from muster.scheduler.progress import Progress
from muster.validation.context import ValidationContext
from muster.webhook import handlers
from muster.webhook.certificates.certificate_rotation import CertificateRotation, ServedCertificate
from muster.webhook.certificates.certificate_sources import build_source
from muster.webhook.cluster_context import ContextProvider
from muster.webhook.pod_review import GroupPod, leave_ungrouped

PROBE_LIMITS = ConnectionLimits(connections=100, per_peer=50)  # kubelet, Prometheus, and a user now and then


def build_servers(
    settings: Config,
    cluster: Cluster,
    scheduler: Scheduler,
    leader: Leader | None,
    measured: metrics.Metrics,
    group_pod: GroupPod = leave_ungrouped,
    operator: ControllerRuntime | None = None,
) -> dict[str, Loop]:
    """The loops that answer requests. Opens their sockets: InputError where an address is not available."""
    has_webhook = settings.webhook.enabled and not settings.scheduling.dry_run
    authorize = build_metrics_access(settings.observability, cluster, scheduler.clock)
    sections = (settings.observability, settings.webhook) if has_webhook else (settings.observability,)
    first, *others = open_sockets(*sections)
    ready = build_readiness_checks(settings.observability, scheduler, leader)
    webhook: dict[str, Loop] = {}
    if has_webhook:
        certificate = ServedCertificate()
        ready.append(certificate)
        context = partial(_validation_context, scheduler, operator)
        webhook = _webhook_loops(settings.webhook, cluster, context, certificate, measured, others, group_pod)
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


def _webhook_loops(
    settings: Webhook,
    cluster: Cluster,
    context: ContextProvider,
    certificate: ServedCertificate,
    measured: metrics.Metrics,
    listeners: list[socket.socket],
    group_pod: GroupPod,
) -> dict[str, Loop]:
    rotation = CertificateRotation(
        certificate, build_source(settings.certificates, cluster), cluster, settings, measured
    )
    app = handlers.build_app(settings, context, measured, group_pod)
    server = AsgiServer(app, tls=certificate.context)
    return {"certificates": rotation.run, "webhook": partial(server.serve, listeners)}


def _validation_context(scheduler: Scheduler, operator: ControllerRuntime | None) -> ValidationContext:
    """The scheduler's cache, as the context of an admission review; whole once every kind is listed."""
    cache, synced = scheduler.watched.cache, scheduler.synced
    names = scheduler.settings.scheduler_names if operator is not None else ()
    read = reader_of(operator)
    return ValidationContext(cache.objects, cache.pods_of, whole=synced, read_others=read, schedulers=names)

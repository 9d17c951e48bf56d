"""The dashboard of a scheduler: its model, its server, and who may view it."""

from collections.abc import Collection
from functools import partial

from msgspec import Struct

from muster.api.objects import Objects
from muster.cli.tasks import Loop
from muster.config.settings import Config, Dashboard
from muster.dashboard.access import Authorize, PodGroupReaders, allow_all
from muster.dashboard.gang_events import GangEvents
from muster.dashboard.guard import LOOPBACK_NAMES
from muster.dashboard.messages import Messages
from muster.dashboard.model import DashboardModel
from muster.dashboard.pages import Pages
from muster.dashboard.server import DashboardParts, DashboardServer
from muster.dashboard.streams import DashboardStreams
from muster.dashboard.what_if_answers import WhatIfAnswers
from muster.errors import InputError
from muster.kube.cluster import Cluster
from muster.observability.access_reviews import Reviewer
from muster.observability.serving.asgi_server import AsgiServer, listen
from muster.observability.serving.connection_table import ConnectionLimits
from muster.scheduler.loop import Scheduler

SPARE_CONNECTIONS = 32  # for requests beside the streams
CONFIGURED = "`dashboard.host` and `dashboard.port` of the configuration say where"


class RunningDashboard(Struct, frozen=True):
    """Where it listens, and the loops that it needs."""

    address: str
    loops: dict[str, Loop]
    model: DashboardModel


def build_dashboard(
    settings: Config, cluster: Cluster, scheduler: Scheduler, address_hint: str = CONFIGURED
) -> RunningDashboard:
    """Attach a dashboard to a scheduler, and open its socket.

    InputError where the address is not available, with this hint, or nothing says who may view.
    """
    chosen = settings.dashboard
    listener = listen(chosen.host, chosen.port, address_hint)
    model = DashboardModel(
        scheduler.watched.cache,
        settings.policy,
        chosen.history_bytes,
        lambda: scheduler.leadership.leading,
        scheduler.wall,
    )
    scheduler.watched.cache.pod_listeners.append(model.pod_changed)
    scheduler.watched.listeners.append(model.object_changed)
    scheduler.runner.listeners.append(model.cycle_finished)
    messages = Messages(model)
    parts = DashboardParts(
        model=model,
        messages=messages,
        streams=DashboardStreams(model, messages, chosen.max_viewers, scheduler.clock),
        pages=Pages(model, messages, GangEvents(cluster, scheduler.clock)),
        what_if=WhatIfAnswers(lambda: _objects(scheduler), settings.policy, scheduler.wall),
    )
    authorize = _build_access(chosen, cluster, scheduler, model)
    app = DashboardServer(parts, chosen.access, authorize).app(_hosts(chosen))
    most = chosen.max_viewers + SPARE_CONNECTIONS
    server = AsgiServer(app, ConnectionLimits(connections=2 * most, per_peer=most))
    host, port = listener.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    loops: dict[str, Loop] = {"dashboard model": model.run, "dashboard": partial(server.serve, [listener])}
    return RunningDashboard(f"http://{shown}:{port}", loops, model)


def _objects(scheduler: Scheduler) -> Objects:
    """What the last plan was made of; where this replica made none, what it watches."""
    is_planned = scheduler.leadership.leading and scheduler.last is not None
    return scheduler.last[0].objects if is_planned and scheduler.last else scheduler.watched.cache.objects


def _build_access(chosen: Dashboard, cluster: Cluster, scheduler: Scheduler, model: DashboardModel) -> Authorize:
    if chosen.access == "loopback":
        return allow_all
    if not isinstance(cluster, Reviewer):
        raise InputError("`dashboard.access: kubernetes` needs an API server that reviews tokens")
    return PodGroupReaders(cluster, scheduler.clock, lambda: _namespaces(model)).authorize


def _namespaces(model: DashboardModel) -> set[str]:
    """The namespaces that have gangs."""
    return {key.partition("/")[0] for key in model.gangs}


def _hosts(chosen: Dashboard) -> Collection[str] | None:
    """The names that it answers to. Tokens keep other sites out where they are needed, so that any name will do."""
    if chosen.access == "kubernetes" and not chosen.allowed_hosts:
        return None
    return (*LOOPBACK_NAMES, *chosen.allowed_hosts)

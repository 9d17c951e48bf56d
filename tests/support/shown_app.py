"""The HTTP API of a dashboard over a model of a test, without sockets."""

from collections.abc import Collection
from typing import Any

from starlette.types import ASGIApp

from muster.api.objects import Objects
from muster.dashboard.access import Authorize, allow_all
from muster.dashboard.gang_events import GangEvents
from muster.dashboard.guard import LOOPBACK_NAMES
from muster.dashboard.pages import Pages
from muster.dashboard.rights import ViewerRights
from muster.dashboard.server import DashboardParts, DashboardServer
from muster.dashboard.streams import DashboardStreams
from muster.dashboard.what_if_answers import WhatIfAnswers
from muster.embedded.memory_cluster import MemoryCluster
from muster.observability.access_reviews import NO_TOKEN, UNKNOWN_TOKEN, AccessRefusal
from tests.support.asgi import Answered, ask
from tests.support.shown_cluster import NAMESPACES, ShownCluster

HOST = {"host": "localhost:8090"}
RIGHTS: dict[str, ViewerRights | AccessRefusal] = {  # by token
    "": NO_TOKEN,
    "unknown": UNKNOWN_TOKEN,
    "none": AccessRefusal(403, "`visitor` may list podgroups in no namespace"),
    "some": ViewerRights("someone", frozenset(NAMESPACES[:1])),
    "all": ViewerRights("admin"),
}


async def by_token(token: str) -> ViewerRights | AccessRefusal:
    """As the API server would say."""
    return RIGHTS.get(token, UNKNOWN_TOKEN)


def build_app(
    shown: ShownCluster,
    authorize: Authorize = allow_all,
    hosts: Collection[str] | None = LOOPBACK_NAMES,
    cluster: Any = None,
) -> ASGIApp:
    """The app that `muster up` serves, or with other rights that of `muster run`."""
    clock = lambda: 0.0  # noqa: E731
    parts = DashboardParts(
        model=shown.model,
        messages=shown.messages,
        streams=DashboardStreams(shown.model, shown.messages, 4, clock),
        pages=Pages(shown.model, shown.messages, GangEvents(cluster or MemoryCluster(), clock)),
        what_if=WhatIfAnswers(lambda: objects_of(shown), shown.policy, shown.now),
    )
    return DashboardServer(parts, "loopback" if authorize is allow_all else "kubernetes", authorize).app(hosts)


def objects_of(shown: ShownCluster) -> Objects:
    return shown.cache.objects


async def fetch(
    app: ASGIApp,
    target: str,
    method: str = "GET",
    token: str = "",
    body: Any = b"",
    stays_seconds: float = 10.0,
    **headers: str,
) -> Answered:
    """One request, as a browser or a program makes it; `_` in a header stands for `-`."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    bearer = {"authorization": f"Bearer {token}"} if token else {}
    return await ask(app, method, target, body, {**HOST, **bearer, **named}, stays_seconds=stays_seconds)

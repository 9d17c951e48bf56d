"""What every request has to pass, and what every answer carries: against DNS rebinding, other sites, and frames.

Rule: a browser that shows another site gets nothing from here. It may open the page itself by a link: that holds no
data, and asks for it from its own address.
"""

from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from muster.dashboard.answers import refuse

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
SECURITY_HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}
WHAT_IF = "/api/what-if"
FOREIGN_SITES = ("cross-site", "same-site")


class RequestGuard:
    """Refuses requests before the app gets them; `hosts`: names that it answers to, None: any."""

    def __init__(self, app: ASGIApp, hosts: Collection[str] | None) -> None:
        self._app, self._hosts = app, None if hosts is None else frozenset(map(str.lower, hosts))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(SECURITY_HEADERS)
            await send(message)

        refused = self._refusal(scope)
        await (refused or self._app)(scope, receive, send_guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        headers, path = Headers(scope=scope), scope["path"]
        if self._hosts is not None and host_name(headers.get("host", "")) not in self._hosts:
            shown = headers.get("host", "")[:100]
            return refuse(
                421,
                f"this dashboard does not answer to `{shown}`",
                "open it as http://localhost with its port, or name the host in `dashboard.allowedHosts`",
            )
        if scope["method"] not in ("GET", "HEAD") and (scope["method"], path) != ("POST", WHAT_IF):
            return refuse(405, "the dashboard only reads", f"GET, HEAD, and POST {WHAT_IF} are answered")
        if is_foreign(headers) and not (path == "/" and _is_navigation(headers)):
            return refuse(403, "this request was made by a page of another site", "open the dashboard itself")
        return None


def host_name(host: str) -> str:
    """The name in a Host header, without the port; empty: it holds none."""
    try:
        return (urlsplit(f"//{host}").hostname or "") if "@" not in host and "/" not in host else ""
    except ValueError:
        return ""


def is_foreign(headers: Headers) -> bool:
    """Whether a browser says that another site makes this request."""
    origin = headers.get("origin")
    return headers.get("sec-fetch-site") in FOREIGN_SITES or (
        origin is not None and origin_host(origin) != headers.get("host", "").lower()
    )


def origin_host(origin: str) -> str:
    """Host and port of an Origin header; empty: it is of no page that this server could have served."""
    scheme, _, rest = origin.partition("://")
    return rest.lower() if scheme in ("http", "https") else ""


def _is_navigation(headers: Headers) -> bool:
    """A link that opens the page; no script of another site reads what comes of it."""
    return headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"

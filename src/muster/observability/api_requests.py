"""Which verb a request to an API server is, for metrics: a bounded number, as paths hold names of objects."""

from collections.abc import Callable

from muster.kube.client.http import Request

VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
SUBRESOURCES = {"binding": "bind", "eviction": "evict"}
NO_ANSWER = "none"


def verb_of(request: Request) -> str:
    """As the audit log has it; bindings and evictions are verbs of their own, as most writes are one of them."""
    if request.is_read:
        return "watch" if "watch" in request.query else "list" if "limit" in request.query else "get"
    if request.method == "POST":
        return SUBRESOURCES.get(request.path.rpartition("/")[2], "create")
    return VERBS.get(request.method, "other")


def count_requests(requested: Callable[[str, str, float], None]) -> Callable[[Request, int, float], None]:
    """What an Http calls with every answer; a status of 0 is none."""
    return lambda request, status, seconds: requested(verb_of(request), str(status) if status else NO_ANSWER, seconds)

"""Bindings: never sent again blindly. Where nobody said how one ended, the pod itself is asked first."""

import itertools
from collections.abc import Awaitable

import msgspec

from muster.cluster.kubernetes_answers import PASSING, Unanswered, pause_seconds, worth_another_try
from muster.cluster.kubernetes_http import Http, Request
from muster.cluster.kubernetes_paths import item
from muster.cluster.store import ApiError, Raw, Resource

PODS = Resource("", "v1", "pods", "Pod")


async def bind(http: Http, namespace: str, pod: str, uid: str, node: str) -> None:
    """Bound to this node, whoever's answer got lost; 409 `Conflict` where it is another pod or on another node."""
    request = Request("POST", item(PODS, namespace, pod, "binding"), body=_binding(namespace, pod, uid, node))
    in_doubt = False  # an earlier try may have been carried out
    for failures in itertools.count(1):
        try:
            await http.once(request)
            return
        except ApiError as error:
            in_doubt = in_doubt or _unsure(error)
            if in_doubt and await _surely(_is_bound(http, namespace, pod, uid, node)):
                return
            again = _unsure(error) or worth_another_try(error, repeatable=False)
            if failures >= http.limits.attempts or not again:
                raise
            seconds = pause_seconds(failures, error, http.chance())
        await http.pause(seconds)


async def _surely(question: Awaitable[bool]) -> bool:
    """An answer about the pod; where nobody answers that either, the binding stays in doubt, whatever was said."""
    try:
        return await question
    except ApiError as error:
        if error.status in (404, 409):
            raise
        raise Unanswered(504, f"nobody knows whether it was bound: {error.message}", sent=True) from None


def _unsure(error: ApiError) -> bool:
    return error.sent if isinstance(error, Unanswered) else error.status in PASSING


async def _is_bound(http: Http, namespace: str, pod: str, uid: str, node: str) -> bool:
    """False: it is ours and still waits for a node."""
    found = msgspec.json.decode(await http.call(Request("GET", item(PODS, namespace, pod))), type=Raw)
    if found["metadata"]["uid"] != uid:
        raise ApiError(409, "Conflict", f"pod `{namespace}/{pod}` is another one by now", {"uid": uid})
    seat = found.get("spec", {}).get("nodeName", "")
    if seat not in ("", node):
        raise ApiError(409, "Conflict", f"pod `{namespace}/{pod}` is on node `{seat}` already")
    return bool(seat)


def _binding(namespace: str, pod: str, uid: str, node: str) -> bytes:
    meta = {"namespace": namespace, "name": pod, "uid": uid}
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    return msgspec.json.encode({"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target})

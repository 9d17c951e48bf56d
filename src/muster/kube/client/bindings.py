"""Bindings: never sent again blindly. Where nobody said how one ended, the pod itself is asked first.

A clear no (4xx) is certain: nothing that was sent can still bind the pod. So it is told only where no try is open, or
where the pod is gone or on another node. A pod that has no node yet says nothing about a try that is open: that may
be carried out a moment later, so whatever failed last, the binding stays in doubt (5xx).
"""

import msgspec

from muster.api.resources import BINDINGS, NODES, PODS
from muster.kube.client.http import Http, Request
from muster.kube.client.paths import item
from muster.kube.client.responses import confirmed, decoded, is_object, nonsense, worth_another_try
from muster.kube.cluster import Raw
from muster.kube.errors import ApiError, Unanswered, may_have_been_applied

_decode = msgspec.json.Decoder(Raw).decode


async def bind(http: Http, namespace: str, pod: str, uid: str, node: str) -> None:
    """Bound to this node, whoever's answer got lost; 409 `Conflict` where it is another pod or on another node."""
    request = Request("POST", item(PODS, namespace, pod, "binding"), body=_binding(namespace, pod, uid, node))
    backoff = http.backoff(request)
    unconfirmed = False  # a try may have been carried out, or may yet be
    while True:
        try:
            confirmed(await http.once(request), request.path)
            return
        except ApiError as error:
            unconfirmed = unconfirmed or may_have_been_applied(error)
            if not unconfirmed and not worth_another_try(error, repeatable=False):
                raise
            if unconfirmed and await _surely(http, namespace, pod, uid, node):
                return
            await backoff.rest(error if may_have_been_applied(error) or not unconfirmed else _open(error))


async def _surely(http: Http, namespace: str, pod: str, uid: str, node: str) -> bool:
    """An answer about the pod; where nobody answers that either, the binding stays in doubt, whatever was said."""
    try:
        return await _is_bound(http, namespace, pod, uid, node)
    except ApiError as error:
        if error.status in (404, 409):
            raise
        raise _open(error) from None


def _open(error: ApiError) -> ApiError:
    """Nobody knows how it ends, although somebody may have said no to the last try, or to the question."""
    return Unanswered(504, f"nobody knows whether it was bound: {error.message}", sent=True)


async def _is_bound(http: Http, namespace: str, pod: str, uid: str, node: str) -> bool:
    """False: it is ours and still waits for a node."""
    request = Request("GET", item(PODS, namespace, pod))
    found = decoded(_decode, await http.call(request), request.path)
    if not is_object(found):
        raise nonsense(request.path)
    meta, seat = found["metadata"], (found.get("spec") or {}).get("nodeName") or ""
    if meta["name"] != pod or not isinstance(meta.get("uid"), str) or not isinstance(seat, str):
        raise nonsense(request.path)
    if meta["uid"] != uid:
        raise ApiError(409, "Conflict", f"pod `{namespace}/{pod}` is another one by now", {"uid": uid})
    if seat not in ("", node):
        raise ApiError(409, "Conflict", f"pod `{namespace}/{pod}` is on node `{seat}` already")
    return bool(seat)


def _binding(namespace: str, pod: str, uid: str, node: str) -> bytes:
    meta = {"namespace": namespace, "name": pod, "uid": uid}
    target = {"apiVersion": NODES.api_version, "kind": NODES.kind, "name": node}
    kind = {"apiVersion": BINDINGS.api_version, "kind": BINDINGS.kind}
    return msgspec.json.encode({**kind, "metadata": meta, "target": target})

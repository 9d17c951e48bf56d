"""The embedded API server answers every request: never 500, in bounded time, always JSON with a reason."""

import asyncio
import gc
import tracemalloc
from collections.abc import Sequence
from itertools import cycle, islice
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.embedded.cluster_store import ClusterStore
from muster.embedded.rest.api_server import application, server_context
from tests.property.values import NASTY, with_each_value
from tests.support.asgi import Answered, ask

CI = settings().max_examples <= 1000
LONGEST_SECONDS = 5.0
REQUESTS = 300 if CI else 10_000
fuzz = settings(max_examples=REQUESTS)

# path segments that exist, so that most requests pass routing and admission
NAMES = ("a", "b", "default", "x.y", "A_", "..", "%", "ä", "")
PLURALS: tuple[str, ...] = (
    "pods",
    "nodes",
    "namespaces",
    "events",
    "secrets",
    "podgroups",
    "queues",
    "topologies",
    "leases",
    "deployments",
)
PLURALS += ("poddisruptionbudgets", "customresourcedefinitions", "selfsubjectaccessreviews", "things")
SUBS = ("", "status", "scale", "binding", "eviction", "finalize", "log")
ROOTS: tuple[str, ...] = (
    "/api/v1",
    "/apis/scheduling.run.ai/v2alpha2",
    "/apis/scheduling.run.ai/v2",
    "/apis/kai.scheduler/v1alpha1",
)
ROOTS += ("/apis/apps/v1", "/apis/policy/v1", "/apis/coordination.k8s.io/v1", "/apis/apiextensions.k8s.io/v1")
ROOTS += (
    "/apis/authorization.k8s.io/v1",
    "/apis",
    "/api",
    "/openapi/v3",
    "/openapi",
    "/version",
    "/livez",
    "",
    "/apis/x/y",
)
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "GET", "POST", "PATCH", "HEAD", "OPTIONS", "BREW")
MEDIA = (
    "",
    "*/*",
    "application/json",
    "application/yaml",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
    "application/merge-patch+json",
    "application/json-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
    "text/html;q=x",
    ";;=,",
)
QUERIES: dict[str, tuple[str, ...]] = {
    "watch": ("true", "0", "yes"),
    "limit": ("1", "0", "-1", "9" * 30),
    "continue": ("x", "eyJ9"),
    "labelSelector": ("a=b", "a in (b,c)", "!a", "a,,b", "(", "a=b,c!=d"),
    "fieldSelector": ("metadata.name=a", "spec.nodeName=", "status.phase!=Running", "=", "x=y"),
    "resourceVersion": ("0", "1", "99999", "x", "-1"),
    "sendInitialEvents": ("true", "x"),
    "allowWatchBookmarks": ("true",),
    "timeoutSeconds": ("1", "x"),
    "dryRun": ("All", "None"),
    "fieldManager": ("me", "\n", "m" * 200),
    "fieldValidation": ("Strict", "Warn", "No"),
    "force": ("true", "false", "2"),
    "includeObject": ("Object", "None", "Half"),
    "propagationPolicy": ("Foreground", "Orphan", "Up"),
    "gracePeriodSeconds": ("0", "30", "-5"),
}
KEYS: tuple[str, ...] = (
    "metadata",
    "name",
    "namespace",
    "labels",
    "annotations",
    "spec",
    "status",
    "kind",
    "apiVersion",
    "op",
    "path",
)
KEYS += ("value", "containers", "replicas", "minMember", "subGroups", "target", "deleteOptions", "finalizers", "uid")
KEYS += ("ownerReferences", "resourceVersion", "managedFields", "generateName", "conditions", "type", "names", "group")
KEYS += ("versions", "scope", "schema", "plural", "from", "$patch", "deletionTimestamp", "selector", "minAvailable")

words = st.sampled_from(
    (*NAMES, "Pod", "Node", "PodGroup", "v1", "add", "remove", "test", "/metadata/labels/a", "/spec/-", "Namespaced")
)
leaves = (
    st.none() | st.booleans() | st.integers(-(2**65), 2**65) | st.floats(allow_nan=False) | words | st.text(max_size=5)
)
values: st.SearchStrategy[Any] = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS) | words, inner, max_size=4),
    max_leaves=12,
)


SIMPLE = {"containers": [{"name": "main", "image": "x"}]}
SELECTED = {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": SIMPLE}}
BOATS = {"group": "sea.io", "scope": "Namespaced", "names": {"plural": "boats", "kind": "Boat"}}
SCHEMA = {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object"}}}}
VERSIONS = [{"name": "v1", "served": True, "storage": True, "schema": SCHEMA, "subresources": {"status": {}}}]
# the collection of a kind, and a valid object without its name
PLACES: dict[str, dict[str, Any]] = {
    "/api/v1/namespaces/default/pods": {"spec": SIMPLE},
    "/api/v1/nodes": {"spec": {}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}},
    "/api/v1/namespaces": {},
    "/api/v1/namespaces/default/events": {"involvedObject": {"kind": "Pod", "name": "a", "namespace": "default"}},
    "/api/v1/namespaces/default/configmaps": {"data": {"a": "b"}},
    "/apis/apps/v1/namespaces/default/deployments": {"spec": {"replicas": 1, **SELECTED}},
    "/apis/policy/v1/namespaces/default/poddisruptionbudgets": {"spec": {"minAvailable": 1, "selector": {}}},
    "/apis/scheduling.k8s.io/v1/priorityclasses": {"value": 5},
    "/apis/coordination.k8s.io/v1/namespaces/default/leases": {"spec": {"holderIdentity": "me"}},
    "/apis/scheduling.run.ai/v2alpha2/namespaces/default/podgroups": {"spec": {"queue": "default", "minMember": 2}},
    "/apis/scheduling.run.ai/v2/queues": {"spec": {"resources": {"gpu": {"quota": 1}}}},
    "/apis/kai.scheduler/v1alpha1/topologies": {"spec": {"levels": [{"nodeLabel": "zone"}]}},
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions": {"spec": {**BOATS, "versions": VERSIONS}},
    "/apis/sea.io/v1/namespaces/default/boats": {"spec": {}},
}
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NAMED = ("GET", "PUT", "PATCH", "DELETE")
PATCHES = [media for media in MEDIA if "patch" in media]
seldom = st.integers(0, 7).map(lambda n: n == 0)


def changed(draw: st.DrawFn, raw: Any) -> Any:
    """The value with another value at one place."""
    if not isinstance(raw, dict) or draw(seldom):
        return draw(values)
    key = draw(st.sampled_from(sorted(raw)) | st.sampled_from(KEYS)) if raw else draw(st.sampled_from(KEYS))
    return {**raw, key: changed(draw, raw.get(key, {}))}


@st.composite
def objects(draw: st.DrawFn, place: str, name: str = "") -> Any:
    """A value like an object, often with an invalid part."""
    name = name or ("boats.sea.io" if place == DEFINITIONS else draw(st.sampled_from(("a", "b", "c"))))
    raw: Any = {"metadata": {"name": name}, **PLACES[place]}
    for _ in range(draw(st.integers(0, 3))):
        raw = changed(draw, raw)
    return raw


def encoded(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value)
    except (OverflowError, msgspec.MsgspecError, UnicodeEncodeError):
        return repr(value).encode("utf-8", "replace")


class Call(NamedTuple):
    """One request."""

    method: str
    target: str
    body: bytes
    headers: dict[str, str]


@st.composite
def paths(draw: st.DrawFn) -> str:
    """Known path segments in any order."""
    parts = [draw(st.sampled_from(ROOTS) | st.sampled_from(ROOTS[:4]))]
    parts += ["namespaces", draw(st.sampled_from(NAMES))] if draw(st.booleans()) else []
    parts += [draw(st.sampled_from(PLURALS))] if draw(st.integers(0, 9)) else []
    parts += [draw(st.sampled_from(NAMES))] if draw(st.booleans()) else []
    parts += [draw(st.sampled_from(SUBS))] if draw(st.booleans()) else []
    return "/".join(quote(part, safe="/") for part in parts) or "/"


def queries(draw: st.DrawFn) -> str:
    named = draw(st.lists(st.sampled_from(sorted(QUERIES)), max_size=3, unique=True))
    return urlencode(
        {key: draw(st.sampled_from(QUERIES[key]) | st.text(max_size=3)) for key in named}, errors="replace"
    )


@st.composite
def wild(draw: st.DrawFn) -> Call:
    """Any request to any path."""
    headers = {"Accept": draw(st.sampled_from(MEDIA)), "Content-Type": draw(st.sampled_from(MEDIA))}
    body = draw(st.just(b"") | values.map(encoded) | st.binary(max_size=30))
    return Call(draw(st.sampled_from(METHODS)), f"{draw(paths())}?{queries(draw)}", body, headers)


def patches(draw: st.DrawFn, media: str, place: str, name: str) -> Any:
    """A patch of the type that the media type names."""
    if "json-patch" not in media:
        return draw(objects(place, name))
    pointers = st.sampled_from(
        ("/metadata/labels", "/metadata/name", "/spec", "/status", "/spec/replicas", "", "/x/-", "a")
    )
    step = {"op": st.sampled_from(("add", "remove", "replace", "test", "move", "copy", "x")), "path": pointers}
    return draw(st.lists(st.fixed_dictionaries(step, optional={"value": values, "from": pointers}), max_size=4))


@st.composite
def likely(draw: st.DrawFn) -> Call:
    """A request that a client could send."""
    place = draw(st.sampled_from(sorted(PLACES)))
    name = "boats.sea.io" if place == DEFINITIONS else draw(st.sampled_from(("a", "a", "b")))
    served = ("binding", "eviction") if place.endswith("pods") else ("scale",) if place.endswith("deployments") else ()
    sub = draw(st.sampled_from(SUBS)) if draw(seldom) else draw(st.sampled_from(("", "", "status", *served)))
    method = draw(st.sampled_from(("POST", "POST", "POST", "GET", "DELETE", *NAMED, *NAMED)))
    acts = sub in ("binding", "eviction") and method == "POST"
    target = f"{place}/{name}" if (method in NAMED and not draw(seldom)) or acts else place
    target += f"/{sub}" if sub and target != place else ""
    media = draw(st.sampled_from(PATCHES)) if method == "PATCH" else "application/json"
    body = encoded(patches(draw, media, place, "" if method == "POST" else name))
    if acts:
        body = encoded(changed(draw, {"metadata": {"name": name}, "target": {"name": "a"}, "deleteOptions": {}}))
    if method in ("GET", "DELETE") and not draw(seldom):
        body = b""
    query = queries(draw) if draw(seldom) else "fieldManager=me&force=true" if "apply" in media else ""
    return Call(method, f"{target}?{query}", body, {"Accept": draw(st.sampled_from(MEDIA[:6])), "Content-Type": media})


calls = st.one_of(likely(), likely(), likely(), likely(), wild())


# one object of each kind: most requests are about an existing object
BEGIN = [
    Call("POST", place, encoded({"metadata": {"name": "boats.sea.io" if place == DEFINITIONS else "a"}, **raw}), {})
    for place, raw in PLACES.items()
]


async def answers(sent: list[Call], begin: Sequence[Call] = ()) -> list[Answered]:
    app = application(server_context(ClusterStore()))
    async with asyncio.timeout(LONGEST_SECONDS * len(sent)):
        for call in begin:
            assert (await ask(app, *call)).status == 201, call
        return [await ask(app, *call, stays_seconds=0.005) for call in sent]


@fuzz
@given(st.lists(calls, min_size=1, max_size=12))
def test_every_request_is_answered(sent: list[Call]) -> None:
    """Several requests to one store: the state that one leaves may break the next."""
    for call, reply in zip(sent, asyncio.run(answers(sent, BEGIN)), strict=True):
        from_the_future = reply.status == 504 and b"ResourceVersionTooLarge" in reply.body  # as Kubernetes says it
        assert 200 <= reply.status < 500 or from_the_future, (call, reply)
        if reply.status >= 400:
            assert reply.json["kind"] == "Status", call
            assert reply.json["code"] == reply.status, call
            assert reply.json["message"], call


SHOWN = (
    "/api/v1/namespaces/default/pods",
    "/api/v1/nodes",
    "/apis/scheduling.run.ai/v2alpha2/namespaces/default/podgroups",
)
stores = st.sampled_from(SHOWN).flatmap(lambda place: st.tuples(st.just(place), objects(place)))


@fuzz
@given(st.lists(stores, min_size=1, max_size=4))
def test_every_stored_object_can_be_read_in_every_format(sent: list[tuple[str, Any]]) -> None:
    """Tables, metadata, YAML and watches work with every object that was admitted."""
    merge = {"Content-Type": "application/merge-patch+json"}
    stored = [Call("POST", place, encoded(raw), {}) for place, raw in sent]
    stored += [Call("PATCH", f"{place}/a/status", encoded(raw), merge) for place, raw in sent]
    forms = [{"Accept": media} for media in MEDIA[:6]]
    shown = [Call("GET", place, b"", form) for place in SHOWN for form in forms]
    watched = [Call("GET", f"{place}?watch=1", b"", forms[4]) for place in SHOWN]
    replies = asyncio.run(answers([*stored, *shown, *watched]))
    assert all(reply.status < 500 for reply in replies), replies
    assert all(reply.status == 200 for reply in replies[len(stored) :]), replies


# memory -------------------------------------------------------------------------------------------------------------

KEPT_EVENTS = 20  # of each kind, for those who watch
LEFT_BYTES = 512 * 2**10  # after any number of requests: what the kept events hold
IN_HAND_BYTES = 8 * 2**20  # for one of them, and for the objects that are there


def odd_calls(place: str, number: int) -> list[Call]:
    """Create an object, update it in many ways, read it and delete it."""
    name = "boats.sea.io" if place == DEFINITIONS else "a"
    raw: dict[str, Any] = {"metadata": {"name": name}, **PLACES[place]}
    merge, table = {"Content-Type": "application/merge-patch+json"}, {"Accept": MEDIA[4]}
    odd = [encoded(broken) for broken in islice(with_each_value(raw, NASTY), number)]
    changes = [Call("PATCH", f"{place}/{name}", body, merge) for body in odd]
    posts = [Call("POST", place, body, {}) for body in odd]
    ends = [Call("GET", place, b"", table), Call("DELETE", f"{place}/{name}?gracePeriodSeconds=0", b"", {})]
    return [Call("POST", place, encoded(raw), {}), *changes, *posts, *ends]


def test_requests_leak_no_memory() -> None:
    """Created and deleted objects and a thousand rejected requests leave no memory behind: only stored objects do.

    Without the places where anything of any name may be made and stays: namespaces and definitions.
    """
    places = [place for place in PLACES if "/namespaces/default/" in place and "sea.io" not in place]
    app = application(server_context(ClusterStore(history=KEPT_EVENTS)))
    calls_each = [call for place in places for call in odd_calls(place, REQUESTS // len(places) // 2 + 1)]

    async def send_all() -> None:
        for call in islice(cycle(calls_each), max(REQUESTS, len(calls_each))):
            assert (await ask(app, *call, stays_seconds=0.0)).status < 500, call

    asyncio.run(send_all())
    tracemalloc.start()
    try:
        asyncio.run(send_all())
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        asyncio.run(send_all())
        gc.collect()
        after, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < LEFT_BYTES
    assert peak - before < IN_HAND_BYTES

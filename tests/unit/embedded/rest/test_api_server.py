"""The REST API responds as an API server does: status codes, tables, watches, discovery, messages."""

import asyncio
import itertools
import ssl
import string
from base64 import b64decode
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from starlette.types import ASGIApp
from structlog.testing import capture_logs

from muster.embedded import tls
from muster.embedded.cluster_store import ClusterStore
from muster.embedded.memory_cluster import MemoryCluster
from muster.embedded.rest import discovery, verbs
from muster.embedded.rest.api_server import application, server_context
from muster.embedded.rest.negotiation import MAX_BODY_BYTES
from muster.embedded.rest.watch_stream import OpenWatches
from muster.embedded.server import serve
from muster.embedded.store.kinds import BUILT_IN
from muster.errors import InputError
from tests.support.asgi import ask
from tests.support.factories import pod

T0 = datetime(2026, 1, 1, tzinfo=UTC)
PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"
GROUPS = "/apis/scheduling.run.ai/v2alpha2/namespaces/default/podgroups"
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}
PARTIAL = {"Accept": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"}
PARTIAL_LIST = {"Accept": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"}
MERGE = {"Content-Type": "application/merge-patch+json"}
PROTOBUF = {"Content-Type": "application/vnd.kubernetes.protobuf"}
APPLY = {"Content-Type": "application/apply-patch+yaml"}


def plain_pod(name: str, **metadata: Any) -> dict[str, Any]:
    """A pod outside any gang, in the namespace of the request; keyword arguments are fields of its metadata."""
    raw = pod(name, gang="", namespace="", image="x")
    raw["metadata"] |= metadata
    return raw


def podgroup(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"queue": "default", "minMember": 2, **spec},
    }


class ServerFixture:
    """A store, its API server, and a manual clock."""

    def __init__(self, token: str = "") -> None:
        self.now = T0
        numbers = itertools.count()
        self.store = ClusterStore(clock=lambda: self.now, new_uid=lambda: f"uid-{next(numbers)}")
        self.server_context = server_context(self.store, token, lambda: self.now)
        self.app: ASGIApp = application(self.server_context)


@pytest.fixture
def server() -> ServerFixture:
    return ServerFixture()


@pytest.fixture
def app(server: ServerFixture) -> ASGIApp:
    return server.app


# every failure is a Status ------------------------------------------------------------------------------------------

DEEP = b'{"a":' * 300 + b"1" + b"}" * 300
FAILURES: list[tuple[str, str, Any, dict[str, str], int, str]] = [
    ("GET", "/nothing", b"", {}, 404, "NotFound"),
    ("GET", "/api/v2", b"", {}, 404, "NotFound"),
    ("GET", "/api/v1/things", b"", {}, 404, "NotFound"),
    ("GET", "/apis/missing.io", b"", {}, 404, "NotFound"),
    ("GET", "/apis/missing.io/v1", b"", {}, 404, "NotFound"),
    ("GET", "/apis/missing.io/v1/things", b"", {}, 404, "NotFound"),
    ("GET", f"{PODS}/a", b"", {}, 404, "NotFound"),
    ("GET", "/api/v1/pods/a", b"", {}, 404, "NotFound"),
    ("GET", "/api/v1/namespaces/default/nodes", b"", {}, 404, "NotFound"),
    ("GET", f"{PODS}/a/log", b"", {}, 404, "NotFound"),
    ("GET", f"{PODS}/a/b/c", b"", {}, 404, "NotFound"),
    ("GET", "/api/v1/namespaces//pods", b"", {}, 404, "NotFound"),
    ("GET", "/openapi/v3/apis/missing.io/v1", b"", {}, 404, "NotFound"),
    ("PUT", PODS, b"{}", {}, 405, "MethodNotAllowed"),
    ("HEAD", PODS, b"", {}, 405, "MethodNotAllowed"),
    ("BREW", PODS, b"", {}, 405, "MethodNotAllowed"),
    ("POST", "/api/v1/pods", plain_pod("a"), {}, 405, "MethodNotAllowed"),
    ("DELETE", "/api/v1/pods", b"", {}, 405, "MethodNotAllowed"),
    ("DELETE", "/apis/scheduling.run.ai/v2alpha2/podgroups", b"", {}, 405, "MethodNotAllowed"),
    ("DELETE", "/api/v1/namespaces", b"", {}, 405, "MethodNotAllowed"),
    ("POST", f"{PODS}/a", plain_pod("a"), {}, 405, "MethodNotAllowed"),
    ("GET", f"{PODS}/a/eviction", b"", {}, 405, "MethodNotAllowed"),
    ("POST", "/version", b"", {}, 405, "MethodNotAllowed"),
    ("GET", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", b"", {}, 405, "MethodNotAllowed"),
    ("GET", PODS, b"", {"Accept": "text/html"}, 406, "NotAcceptable"),
    ("GET", PODS, b"", {"Accept": "application/json;as=Chair;v=v1;g=meta.k8s.io"}, 406, "NotAcceptable"),
    ("GET", PODS, b"", {"Accept": "application/vnd.kubernetes.protobuf"}, 406, "NotAcceptable"),
    ("GET", f"{PODS}?watch=true", b"", {"Accept": "application/yaml"}, 406, "NotAcceptable"),
    ("POST", PODS, b"x", {"Content-Type": "application/cbor"}, 415, "UnsupportedMediaType"),
    ("POST", PODS, b"x", PROTOBUF, 400, "BadRequest"),
    ("POST", PODS, b"k8s\0\x0a\xff", PROTOBUF, 400, "BadRequest"),
    ("POST", PODS, b"k8s\0\x0a\x09\x0a\x02v1\x12\x03Pod", PROTOBUF, 415, "UnsupportedMediaType"),
    ("PATCH", f"{PODS}/a", b"{}", {}, 415, "UnsupportedMediaType"),
    ("PATCH", f"{PODS}/a", b"{}", {"Content-Type": "application/json"}, 415, "UnsupportedMediaType"),
    ("POST", PODS, b" " * (MAX_BODY_BYTES + 1), {}, 413, "RequestEntityTooLarge"),
    ("POST", PODS, b"", {}, 400, "BadRequest"),
    ("POST", PODS, b"{", {}, 400, "BadRequest"),
    ("POST", PODS, b"\xff\xfe", {}, 400, "BadRequest"),
    ("POST", PODS, b"[]", {}, 400, "BadRequest"),
    ("POST", PODS, b'{"a": 1, "a": 2}', {}, 400, "BadRequest"),
    ("POST", PODS, b'{"a": "\\ud800"}', {}, 400, "BadRequest"),
    ("POST", PODS, b'{"a": NaN}', {}, 400, "BadRequest"),
    ("POST", PODS, b'{"a": 1} {"b": 2}', {}, 400, "BadRequest"),
    ("POST", PODS, DEEP, {}, 400, "BadRequest"),
    ("POST", PODS, {"kind": "Node"}, {}, 400, "BadRequest"),
    ("POST", PODS, {**plain_pod("a"), "apiVersion": "v2"}, {}, 400, "BadRequest"),
    ("POST", PODS, {**plain_pod("a"), "metadata": []}, {}, 400, "BadRequest"),
    ("POST", PODS, plain_pod("a", namespace="other"), {}, 400, "BadRequest"),
    ("PUT", f"{PODS}/a", plain_pod("b"), {}, 400, "BadRequest"),
    ("DELETE", f"{PODS}/a", {"kind": "Pod"}, {}, 400, "BadRequest"),
    ("DELETE", f"{PODS}/a", {"preconditions": 5}, {}, 400, "BadRequest"),
    ("DELETE", f"{PODS}/a", {"propagationPolicy": "Sideways"}, {}, 422, "Invalid"),
    ("DELETE", f"{PODS}/a", {"gracePeriodSeconds": "soon"}, {}, 400, "BadRequest"),
    ("DELETE", f"{PODS}/a?dryRun=Some", b"", {}, 400, "BadRequest"),
    ("GET", f"{PODS}?limit=many", b"", {}, 400, "BadRequest"),
    ("GET", f"{PODS}?watch=perhaps", b"", {}, 400, "BadRequest"),
    ("GET", f"{PODS}?resourceVersion=abc", b"", {}, 400, "BadRequest"),
    ("GET", f"{PODS}?resourceVersion=-1", b"", {}, 400, "BadRequest"),
    ("GET", f"{PODS}?resourceVersion=99999999", b"", {}, 504, "Timeout"),
    ("GET", f"{PODS}/a?resourceVersion=abc", b"", {}, 400, "BadRequest"),
    ("GET", f"{PODS}/a?resourceVersion=99999999", b"", {}, 504, "Timeout"),
    ("GET", f"{PODS}?continue=x&resourceVersion=1", b"", {}, 400, "BadRequest"),
    ("GET", f"{PODS}?resourceVersionMatch=Exact", b"", {}, 422, "Invalid"),
    ("GET", f"{PODS}?resourceVersionMatch=Exact&resourceVersion=0", b"", {}, 422, "Invalid"),
    ("GET", f"{PODS}?resourceVersionMatch=Roughly&resourceVersion=1", b"", {}, 422, "Invalid"),
    ("GET", f"{PODS}?resourceVersionMatch=Exact&resourceVersion=1&continue=x", b"", {}, 422, "Invalid"),
    ("GET", f"{PODS}?sendInitialEvents=true", b"", {}, 422, "Invalid"),
    ("GET", f"{PODS}?watch=1&sendInitialEvents=true", b"", {}, 422, "Invalid"),
    ("GET", f"{PODS}?watch=1&resourceVersionMatch=NotOlderThan", b"", {}, 422, "Invalid"),
    ("GET", f"{PODS}?watch=1&sendInitialEvents=true&resourceVersionMatch=Exact", b"", {}, 422, "Invalid"),
    ("GET", f"{PODS}?watch=1&continue=x", b"", {}, 422, "Invalid"),
    ("GET", f"{PODS}?labelSelector=a%3D%3D%3Db", b"", {}, 400, "BadRequest"),
    ("GET", f"{PODS}?fieldSelector=spec.colour%3Dred", b"", {}, 400, "BadRequest"),
    ("GET", f"{PODS}?includeObject=Half", b"", TABLE, 400, "BadRequest"),
    ("PATCH", f"{PODS}/a", plain_pod("a"), APPLY, 422, "Invalid"),
    ("PATCH", f"{PODS}/a?force=true", {}, MERGE, 422, "Invalid"),
    ("PATCH", f"{PODS}/a", {}, MERGE, 404, "NotFound"),
    ("POST", f"{PODS}?fieldValidation=Maybe", plain_pod("a"), {}, 422, "Invalid"),
    ("POST", f"{PODS}?fieldManager={'m' * 129}", plain_pod("a"), {}, 422, "Invalid"),
    ("POST", f"{PODS}/a/binding", {"metadata": {"name": "a"}}, {}, 422, "Invalid"),
    ("POST", f"{PODS}/a/binding", {"kind": "Pod"}, {}, 400, "BadRequest"),
    ("POST", f"{PODS}/a/eviction", {"metadata": {"name": "a"}}, {}, 404, "NotFound"),
]


@pytest.mark.parametrize(("method", "path", "body", "headers", "status", "reason"), FAILURES)
async def test_every_failure_is_a_status_with_a_message(
    app: ASGIApp, method: str, path: str, body: Any, headers: dict[str, str], status: int, reason: str
) -> None:
    """kubectl prints the message; programs read the reason and the code."""
    reply = await ask(app, method, path, body, headers)
    failure = reply.json
    assert (reply.status, failure["reason"]) == (status, reason), failure
    assert (failure["kind"], failure["apiVersion"], failure["status"], failure["code"]) == (
        "Status",
        "v1",
        "Failure",
        status,
    )
    assert len(failure["message"]) > 5
    assert "Traceback" not in failure["message"]


async def test_an_internal_error_is_a_500_without_details(
    server: ServerFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The details are in the log."""

    async def broken(*_: object) -> Any:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(verbs, "COLLECTION", {"GET": broken})
    with capture_logs() as logged:
        reply = await ask(server.app, "GET", PODS)
    assert (reply.status, reply.json["reason"]) == (500, "InternalError")
    assert b"secret" not in reply.body
    assert ["ZeroDivisionError" in entry["trace"] for entry in logged] == [True]


# the token ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("authorization", "status"),
    [("", 401), ("Bearer wrong", 401), ("Basic dG9rZW4=", 401), ("Bearer tökén", 401), ("Bearer token", 200)],
)
async def test_requests_need_the_token(authorization: str, status: int) -> None:
    """All paths but health and version."""
    reply = await ask(ServerFixture("token").app, "GET", PODS, headers={"Authorization": authorization})
    assert reply.status == status
    assert (reply.headers.get("www-authenticate") == "Bearer") is (status == 401)


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/healthz", "/livez/ping", "/version"])
async def test_health_and_version_need_no_token(path: str) -> None:
    """Probes have no token."""
    assert (await ask(ServerFixture("token").app, "GET", path)).status == 200


def test_secrets_are_not_in_representations() -> None:
    """A repr may end up in a log."""
    assert "token" not in repr(ServerFixture("token").server_context)
    assert "PRIVATE" not in repr(tls.generate(["localhost"], T0))


# writing and reading ------------------------------------------------------------------------------------------------


async def test_an_object_is_created_read_updated_and_deleted(app: ASGIApp) -> None:
    """201, 200, 200, 200, 404: the status codes of Kubernetes."""
    created = await ask(app, "POST", PODS, plain_pod("a"))
    assert (created.status, created.json["metadata"]["namespace"]) == (201, "default")
    raw = (await ask(app, "GET", f"{PODS}/a")).json
    raw["metadata"]["labels"] = {"x": "1"}
    assert (await ask(app, "PUT", f"{PODS}/a", raw)).json["metadata"]["labels"] == {"x": "1"}
    assert (await ask(app, "PUT", f"{PODS}/a", raw)).json["reason"] == "Conflict"
    patched = await ask(app, "PATCH", f"{PODS}/a", {"metadata": {"labels": {"y": "2"}}}, MERGE)
    assert patched.json["metadata"]["labels"] == {"x": "1", "y": "2"}
    assert (await ask(app, "POST", PODS, plain_pod("a"))).json["reason"] == "AlreadyExists"
    gone = await ask(app, "DELETE", f"{PODS}/a", {"gracePeriodSeconds": 0})
    assert (gone.status, gone.json["status"], gone.json["details"]["uid"]) == (200, "Success", raw["metadata"]["uid"])
    assert (await ask(app, "GET", f"{PODS}/a")).status == 404


async def test_yaml_is_read_and_written(app: ASGIApp) -> None:
    """Tables as well."""
    sent = yaml.safe_dump(podgroup("g")).encode()
    created = await ask(app, "POST", GROUPS, sent, {"Content-Type": "application/yaml", "Accept": "application/yaml"})
    assert created.status == 201
    assert yaml.safe_load(created.body)["spec"]["minMember"] == 2
    assert created.headers["content-type"].startswith("application/yaml")


async def test_apply_creates_with_201_and_changes_with_200(app: ASGIApp) -> None:
    """Clients distinguish `created` and `configured` by the status code."""
    target = f"{GROUPS}/g?fieldManager=me"
    assert (await ask(app, "PATCH", target, podgroup("g"), APPLY)).status == 201
    assert (await ask(app, "PATCH", target, podgroup("g", minMember=3), APPLY)).json["spec"]["minMember"] == 3
    other = await ask(app, "PATCH", f"{GROUPS}/g?fieldManager=you", podgroup("g", minMember=4), APPLY)
    assert (other.status, other.json["reason"]) == (409, "Conflict")
    forced = await ask(app, "PATCH", f"{GROUPS}/g?fieldManager=you&force=true", podgroup("g", minMember=4), APPLY)
    assert (forced.status, forced.json["spec"]["minMember"]) == (200, 4)


async def test_a_dry_run_stores_nothing(app: ASGIApp) -> None:
    """The response is that of the real request."""
    assert (await ask(app, "POST", f"{PODS}?dryRun=All", plain_pod("a"))).status == 201
    assert (await ask(app, "GET", f"{PODS}/a")).status == 404
    await ask(app, "POST", PODS, plain_pod("a"))
    assert (await ask(app, "DELETE", f"{PODS}/a", {"dryRun": ["All"]})).status == 200
    assert (await ask(app, "GET", f"{PODS}/a")).status == 200


async def test_strict_field_validation_rejects_unknown_fields(app: ASGIApp) -> None:
    """kubectl's default."""
    reply = await ask(app, "POST", f"{GROUPS}?fieldValidation=Strict", podgroup("g", minMembre=3))
    assert reply.status == 400
    assert "minMembre" in reply.json["message"]


@pytest.mark.parametrize(
    ("method", "path", "headers"), [("POST", GROUPS, {}), ("PATCH", f"{GROUPS}/g?dryRun=All", MERGE)]
)
async def test_unknown_fields_are_warnings_unless_ignored(
    app: ASGIApp, method: str, path: str, headers: dict[str, str]
) -> None:
    """`Warn` is the default; kubectl prints each warning."""
    if method == "PATCH":
        await ask(app, "POST", GROUPS, podgroup("g"))
    sent = {**podgroup("g", wings=2), "metadata": {"name": "g", "mood": "good"}}
    reply = await ask(app, method, path, sent, headers)
    assert reply.status in (200, 201)
    assert "wings" not in reply.json["spec"]
    assert "mood" not in reply.json["metadata"]
    warning = reply.headers["warning"]
    assert r"unknown field \"spec.wings\"" in warning or r"unknown field \"metadata.mood\"" in warning
    ignored = await ask(app, "PATCH", f"{GROUPS}/g?fieldValidation=Ignore", {"spec": {"wings": 2}}, MERGE)
    assert "warning" not in ignored.headers


async def test_a_collection_is_deleted_in_one_request(app: ASGIApp) -> None:
    """The objects that the selector matches."""
    for name in "abc":
        await ask(app, "POST", PODS, plain_pod(name, labels={"keep": "yes" if name == "b" else "no"}))
    gone = await ask(app, "DELETE", f"{PODS}?labelSelector=keep%3Dno", {"gracePeriodSeconds": 0})
    assert [item["metadata"]["name"] for item in gone.json["items"]] == ["a", "c"]
    left = await ask(app, "GET", PODS)
    assert [item["metadata"]["name"] for item in left.json["items"]] == ["b"]


async def test_a_page_has_the_remaining_item_count(app: ASGIApp) -> None:
    """Only without selectors, as in Kubernetes; a negative limit is no limit."""
    for name in "abc":
        await ask(app, "POST", PODS, plain_pod(name))
    first = (await ask(app, "GET", f"{PODS}?limit=1")).json["metadata"]
    assert first["remainingItemCount"] == 2
    assert "remainingItemCount" not in (await ask(app, "GET", f"{PODS}?limit=1&labelSelector=!x")).json["metadata"]
    whole = (await ask(app, "GET", f"{PODS}?limit=-1")).json
    assert len(whole["items"]) == 3
    assert sorted(whole["metadata"]) == ["resourceVersion"]


async def test_a_list_can_be_at_an_earlier_version(app: ASGIApp) -> None:
    """`Exact`: at this version; otherwise not older than it."""
    await ask(app, "POST", PODS, plain_pod("a"))
    version = (await ask(app, "GET", PODS)).json["metadata"]["resourceVersion"]
    await ask(app, "POST", PODS, plain_pod("b"))
    exact = (await ask(app, "GET", f"{PODS}?resourceVersion={version}&resourceVersionMatch=Exact")).json
    assert [item["metadata"]["name"] for item in exact["items"]] == ["a"]
    assert exact["metadata"]["resourceVersion"] == version
    assert len((await ask(app, "GET", f"{PODS}?resourceVersion={version}")).json["items"]) == 2


async def test_pages_continue_by_token(app: ASGIApp) -> None:
    """kubectl requests 500 items at a time."""
    for name in "abc":
        await ask(app, "POST", PODS, plain_pod(name))
    first = (await ask(app, "GET", f"{PODS}?limit=2")).json
    assert [item["metadata"]["name"] for item in first["items"]] == ["a", "b"]
    second = (await ask(app, "GET", f"{PODS}?limit=2&continue={first['metadata']['continue']}")).json
    assert [item["metadata"]["name"] for item in second["items"]] == ["c"]
    assert "continue" not in second["metadata"]


async def test_pods_are_bound_and_evicted(app: ASGIApp) -> None:
    """The two subresources that a scheduler writes."""
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
    await ask(app, "POST", NODES, node)
    await ask(app, "POST", PODS, plain_pod("a"))
    binding = {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n1"}}
    bound = await ask(app, "POST", f"{PODS}/a/binding", binding)
    assert (bound.status, bound.json["status"]) == (201, "Success")
    assert (await ask(app, "POST", f"{PODS}/a/binding", binding)).json["reason"] == "Conflict"
    other = {"metadata": {"name": "a"}, "deleteOptions": {"preconditions": {"uid": "another"}}}
    assert (await ask(app, "POST", f"{PODS}/a/eviction", other)).json["reason"] == "Conflict"
    gone = await ask(app, "POST", f"{PODS}/a/eviction", {"metadata": {"name": "a"}})
    assert (gone.status, gone.json["status"]) == (201, "Success")


# tables -------------------------------------------------------------------------------------------------------------


def grid(shown: Any, wide: bool = False) -> list[list[Any]]:
    """A table as kubectl prints it."""
    visible = [i for i, column in enumerate(shown["columnDefinitions"]) if wide or not column["priority"]]
    heads = [shown["columnDefinitions"][i]["name"] for i in visible]
    return [heads, *([row["cells"][i] for i in visible] for row in shown["rows"])]


async def test_the_table_of_pods_shows_their_state(server: ServerFixture) -> None:
    """READY, STATUS, RESTARTS, AGE; the node with -o wide."""
    await ask(server.app, "POST", PODS, plain_pod("a"))
    status = {
        "phase": "Running",
        "podIP": "10.0.0.1",
        "containerStatuses": [{"name": "main", "ready": True, "restartCount": 2, "state": {"running": {}}}],
    }
    await ask(server.app, "PATCH", f"{PODS}/a/status", {"status": status}, MERGE)
    server.now = T0 + timedelta(minutes=5, seconds=7)
    shown = (await ask(server.app, "GET", PODS, headers=TABLE)).json
    assert (shown["kind"], shown["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert grid(shown) == [
        ["Name", "Ready", "Status", "Restarts", "Age"],
        ["a", "1/1", "Running", "2", "5m7s"],
    ]
    assert grid(shown, wide=True)[1][5:7] == ["10.0.0.1", "<none>"]
    row = shown["rows"][0]["object"]
    assert (row["kind"], row["metadata"]["name"]) == ("PartialObjectMetadata", "a")
    whole = (await ask(server.app, "GET", f"{PODS}?includeObject=Object", headers=TABLE)).json
    assert whole["rows"][0]["object"]["kind"] == "Pod"
    bare = (await ask(server.app, "GET", f"{PODS}?includeObject=None", headers=TABLE)).json
    assert "object" not in bare["rows"][0]


async def test_the_table_of_podgroups_has_the_columns_of_their_crd(app: ASGIApp) -> None:
    """`additionalPrinterColumns`."""
    await ask(app, "POST", GROUPS, podgroup("g"))
    status = {"phase": "Pending", "conditions": [{"type": "Scheduled", "status": "False", "reason": "NoDomain"}]}
    patched = await ask(app, "PATCH", f"{GROUPS}/g/status", {"status": status}, MERGE)
    assert patched.status == 200, patched.json
    shown = (await ask(app, "GET", f"{GROUPS}/g", headers=TABLE)).json
    assert grid(shown) == [
        ["Name", "Queue", "Min-Pods", "Min-Groups", "Satisfied", "Phase", "Reason", "Age"],
        ["g", "default", 2, None, None, "Pending", "NoDomain", "0s"],
    ]


async def test_a_scale_has_its_own_table(app: ASGIApp) -> None:
    """`kubectl get deploy x --subresource=scale`."""
    deployments = "/apis/apps/v1/namespaces/default/deployments"
    await ask(app, "POST", deployments, {"metadata": {"name": "d"}, "spec": {"replicas": 3}})
    shown = (await ask(app, "GET", f"{deployments}/d/scale", headers=TABLE)).json
    assert [column["name"] for column in shown["columnDefinitions"]] == ["Name", "Desired", "Available", "Age"]
    assert shown["rows"][0]["cells"][:3] == ["d", 3, 0]


async def test_malformed_objects_do_not_break_a_table(app: ASGIApp) -> None:
    """Built-in kinds have no complete schema."""
    await ask(app, "POST", NODES, {"metadata": {"name": "odd", "labels": {"a": "b"}}, "spec": {}})
    await ask(app, "PATCH", f"{NODES}/odd/status", {"status": {"conditions": "none", "addresses": 5}}, MERGE)
    shown = await ask(app, "GET", NODES, headers=TABLE)
    assert (shown.status, shown.json["rows"][0]["cells"][0]) == (200, "odd")


async def test_partial_object_metadata_is_served(app: ASGIApp) -> None:
    """Garbage collectors and caches request it."""
    await ask(app, "POST", PODS, plain_pod("a"))
    one = (await ask(app, "GET", f"{PODS}/a", headers=PARTIAL)).json
    many = (await ask(app, "GET", PODS, headers=PARTIAL_LIST)).json
    assert sorted(one) == ["apiVersion", "kind", "metadata"]
    assert (many["kind"], many["items"][0]["metadata"]["name"]) == ("PartialObjectMetadataList", "a")


# watches ------------------------------------------------------------------------------------------------------------


async def test_a_watch_sends_existing_objects_and_ends_at_its_timeout(app: ASGIApp) -> None:
    """The stream ends in order after `timeoutSeconds`."""
    await ask(app, "POST", PODS, plain_pod("a"))
    reply = await ask(app, "GET", f"{PODS}?watch=1&timeoutSeconds=1")
    assert [(line["type"], line["object"]["metadata"]["name"]) for line in reply.lines] == [("ADDED", "a")]


async def test_a_watch_continues_from_a_version(app: ASGIApp) -> None:
    """Changes in order, as the selector shows them."""
    version = (await ask(app, "GET", PODS)).json["metadata"]["resourceVersion"]
    watch = asyncio.create_task(
        ask(app, "GET", f"{PODS}?watch=true&resourceVersion={version}&labelSelector=x&timeoutSeconds=1")
    )
    await asyncio.sleep(0.05)
    await ask(app, "POST", PODS, plain_pod("unseen"))
    await ask(app, "POST", PODS, plain_pod("a", labels={"x": "1"}))
    await ask(app, "PATCH", f"{PODS}/a", {"metadata": {"labels": {"x": "2"}}}, MERGE)
    await ask(app, "DELETE", f"{PODS}/a", {"gracePeriodSeconds": 0})
    assert [line["type"] for line in (await watch).lines] == ["ADDED", "MODIFIED", "DELETED"]


async def test_a_watched_table_has_its_column_definitions_once(app: ASGIApp) -> None:
    """`kubectl get -w` prints the header once."""
    for name in "ab":
        await ask(app, "POST", PODS, plain_pod(name))
    lines = (await ask(app, "GET", f"{PODS}?watch=1&timeoutSeconds=1", headers=TABLE)).lines
    assert [bool(line["object"]["columnDefinitions"]) for line in lines] == [True, False]
    assert [line["object"]["rows"][0]["cells"][0] for line in lines] == ["a", "b"]


async def test_one_object_is_watched_by_its_name_in_a_field_selector(app: ASGIApp) -> None:
    """The path of an object does not support watch."""
    for name in "ab":
        await ask(app, "POST", PODS, plain_pod(name))
    path = f"{PODS}?watch=1&timeoutSeconds=1&fieldSelector=metadata.name%3Db"
    lines = (await ask(app, "GET", path, headers=PARTIAL)).lines
    assert [line["object"]["metadata"]["name"] for line in lines] == ["b"]
    assert (await ask(app, "GET", f"{PODS}/b?watch=1")).json["kind"] == "Pod"


async def test_bookmarks_are_sent_where_allowed(app: ASGIApp, monkeypatch: pytest.MonkeyPatch) -> None:
    """Initial events end with a bookmark as well."""
    monkeypatch.setattr("muster.embedded.rest.watch_stream.BOOKMARK_SECONDS", 0.2)
    await ask(app, "POST", PODS, plain_pod("a"))
    path = f"{PODS}?watch=1&timeoutSeconds=1&resourceVersionMatch=NotOlderThan&sendInitialEvents=true"
    lines = (await ask(app, "GET", f"{path}&allowWatchBookmarks=true")).lines
    assert [line["type"] for line in lines[:3]] == ["ADDED", "BOOKMARK", "BOOKMARK"]
    assert lines[1]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    for silent in (path, f"{PODS}?watch=1&timeoutSeconds=1"):
        assert [line["type"] for line in (await ask(app, "GET", silent)).lines] == ["ADDED"]


async def test_a_watch_can_leave_out_initial_events(app: ASGIApp) -> None:
    """`sendInitialEvents=false`: only changes from now on, also without a version."""
    await ask(app, "POST", PODS, plain_pod("a"))
    path = f"{PODS}?watch=1&timeoutSeconds=1&resourceVersionMatch=NotOlderThan&sendInitialEvents=false"
    watch = asyncio.create_task(ask(app, "GET", path))
    await asyncio.sleep(0.05)
    await ask(app, "POST", PODS, plain_pod("b"))
    assert [line["object"]["metadata"]["name"] for line in (await watch).lines] == ["b"]


async def test_a_future_resource_version_is_rejected(app: ASGIApp) -> None:
    """It may be of another store, and never come."""
    reply = await ask(app, "GET", f"{PODS}?watch=1&resourceVersion=never&timeoutSeconds=1")
    assert (reply.status, reply.json["kind"]) == (400, "Status")


async def test_a_compacted_version_is_an_error_event(server: ServerFixture) -> None:
    """The client must relist."""
    server.store = ClusterStore(history=2)
    app = application(server_context(server.store))
    for name in string.ascii_lowercase:
        await ask(app, "POST", PODS, plain_pod(name))
    reply = await ask(app, "GET", f"{PODS}?watch=1&resourceVersion=1&timeoutSeconds=1")
    assert reply.status == 200
    assert [(line["type"], line["object"]["code"]) for line in reply.lines] == [("ERROR", 410)]


async def test_a_disconnect_closes_the_watch(server: ServerFixture) -> None:
    """No state stays for a client that is gone."""
    watch = asyncio.create_task(ask(server.app, "GET", f"{PODS}?watch=1", stays_seconds=0.1))
    await asyncio.sleep(0.05)
    assert len(server.server_context.watches) == 1
    await watch
    assert len(server.server_context.watches) == 0


async def test_no_watch_stays_open_after_the_server_stops(server: ServerFixture) -> None:
    """A watch that is opened later is closed at once."""
    watches: OpenWatches = server.server_context.watches
    early = asyncio.create_task(ask(server.app, "GET", f"{PODS}?watch=1"))
    await asyncio.sleep(0.05)
    async with asyncio.timeout(1):
        watches.close_all()
        await early
        await ask(server.app, "GET", f"{PODS}?watch=1")


# discovery ----------------------------------------------------------------------------------------------------------

AGGREGATED = {"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"}


async def test_both_forms_of_discovery_list_the_same_resources(app: ASGIApp) -> None:
    """Older clients request each group, newer ones the aggregated form."""
    core = (await ask(app, "GET", "/api", headers=AGGREGATED)).json
    others = (await ask(app, "GET", "/apis", headers=AGGREGATED)).json
    aggregated: set[tuple[str, str]] = set()
    for group in (*core["items"], *others["items"]):
        for version in group["versions"]:
            name = group["metadata"].get("name", "")
            place = f"{name}/{version['version']}" if name else version["version"]
            for resource in version["resources"]:
                subs = [f"{resource['resource']}/{sub['subresource']}" for sub in resource.get("subresources", ())]
                aggregated |= {(place, each) for each in (resource["resource"], *subs)}
    listed: set[tuple[str, str]] = set()
    groups = (await ask(app, "GET", "/apis")).json["groups"]
    for place in ["v1", *(v["groupVersion"] for group in groups for v in group["versions"])]:
        resources = (await ask(app, "GET", f"/apis/{place}" if "/" in place else f"/api/{place}")).json
        listed |= {(place, resource["name"]) for resource in resources["resources"]}
    assert aggregated == listed
    assert ("v1", "pods/eviction") in aggregated
    assert ("scheduling.run.ai/v2alpha2", "podgroups/status") in aggregated


async def test_a_new_crd_is_discovered_and_served_at_once(app: ASGIApp) -> None:
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "boats.sea.io"},
        "spec": {
            "group": "sea.io",
            "scope": "Cluster",
            "names": {"plural": "boats", "kind": "Boat"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                }
            ],
        },
    }
    created = await ask(app, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
    assert created.status == 201, created.json
    assert (await ask(app, "GET", "/apis/sea.io/v1")).json["resources"][0]["name"] == "boats"
    assert (await ask(app, "POST", "/apis/sea.io/v1/boats", {"metadata": {"name": "b"}})).status == 201


def test_versions_have_the_order_of_kubernetes() -> None:
    """Stable before beta before alpha, newer before older."""
    versions = ["foo10", "v1alpha1", "v10beta3", "v1", "v2", "v11beta2", "v10"]
    ordered = sorted(versions, key=discovery._version_rank)
    assert ordered == ["v10", "v2", "v1", "v11beta2", "v10beta3", "v1alpha1", "foo10"]


async def test_aggregated_discovery_has_its_own_media_type(app: ASGIApp) -> None:
    """client-go decodes the response by its content type."""
    assert "as=APIGroupDiscoveryList" in (await ask(app, "GET", "/apis", headers=AGGREGATED)).headers["content-type"]
    assert (await ask(app, "GET", "/apis", headers={"Accept": "*/*"})).json["kind"] == "APIGroupList"
    assert (await ask(app, "GET", "/api")).json["versions"] == ["v1"]


async def test_openapi_declares_server_side_field_validation(app: ASGIApp) -> None:
    """Otherwise kubectl validates by itself with OpenAPI v2, which has no custom kinds."""
    places = (await ask(app, "GET", "/openapi/v3")).json["paths"]
    assert "apis/scheduling.run.ai/v2alpha2" in places
    for place in places.values():
        document = (await ask(app, "GET", place["serverRelativeURL"])).json
        patches = [item["patch"] for item in document["paths"].values() if "patch" in item]
        assert all("fieldValidation" in {p["name"] for p in patch["parameters"]} for patch in patches)
        assert all(schema["x-kubernetes-group-version-kind"] for schema in document["components"]["schemas"].values())


@pytest.mark.parametrize(
    ("place", "component", "path"),
    [
        ("api/v1", "io.k8s.api.core.v1.Pod", "spec containers image"),
        ("api/v1", "io.k8s.api.core.v1.Pod", "spec containers resources limits"),
        ("api/v1", "io.k8s.api.core.v1.Pod", "metadata labels"),
        ("apis/apps/v1", "apps.v1.Deployment", "spec template spec containers name"),
        ("apis/apps/v1", "apps.v1.Deployment", "kind"),
        ("apis/scheduling.run.ai/v2alpha2", "ai.run.scheduling.v2alpha2.PodGroup", "metadata ownerReferences uid"),
    ],
)
async def test_openapi_has_the_fields_that_kubectl_explains(
    app: ASGIApp, place: str, component: str, path: str
) -> None:
    """`kubectl explain pod.spec.containers.image`."""
    schema = (await ask(app, "GET", f"/openapi/v3/{place}")).json["components"]["schemas"][component]
    for name in path.split():
        schema = schema.get("items", schema)["properties"][name]
    assert schema["type"]


async def test_openapi_v2_is_empty_as_json_and_protobuf(app: ASGIApp) -> None:
    """kubectl requests protobuf."""
    media = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    binary = await ask(app, "GET", "/openapi/v2", headers={"Accept": media})
    assert binary.body.startswith(b"\x0a\x032.0")
    assert (await ask(app, "GET", "/openapi/v2")).json["paths"] == {}


async def test_access_reviews_allow_everything(app: ASGIApp) -> None:
    """`kubectl auth can-i`, `kubectl auth whoami`."""
    review = {"kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
    can = await ask(app, "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
    assert (can.status, can.json["status"]["allowed"], can.json["spec"]) == (201, True, review["spec"])
    who = await ask(app, "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
    assert who.json["status"]["userInfo"]["username"] == "muster-admin"
    wrong = await ask(app, "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {"kind": "Pod"})
    assert wrong.status == 400


def test_every_subresource_that_is_served_has_verbs() -> None:
    """A new subresource needs its verbs and its response kind."""
    assert {name for kind in BUILT_IN for name in kind.subresources} <= set(discovery.SUBRESOURCES)


# on a socket --------------------------------------------------------------------------------------------------------


async def test_the_server_needs_tls_and_a_token(tmp_path: Path) -> None:
    """The kubeconfig is all that a client needs; only its owner may read it."""
    path = tmp_path / "kubeconfig"
    async with serve(MemoryCluster(), kubeconfig_path=path) as serving:
        assert serving.address.startswith("https://127.0.0.1:")
        assert path.stat().st_mode & 0o777 == 0o600
        config = yaml.safe_load(path.read_text())
        assert config["clusters"][0]["cluster"]["server"] == serving.address
        authority = config["clusters"][0]["cluster"]["certificate-authority-data"]
        token = config["users"][0]["user"]["token"]
        trust = ssl.create_default_context(cadata=b64decode(authority).decode())
        async with aiohttp.ClientSession() as session:
            async with session.get(f"{serving.address}/api/v1/pods", ssl=trust) as reply:
                assert reply.status == 401
            headers = {"Authorization": f"Bearer {token}"}
            async with session.get(f"{serving.address}/api/v1/pods", ssl=trust, headers=headers) as reply:
                assert (reply.status, (await reply.json())["kind"]) == (200, "PodList")


async def test_the_server_stops_at_once_with_open_watches() -> None:
    """The stream of a watch ends in order."""
    loop = asyncio.get_running_loop()
    async with aiohttp.ClientSession() as session:
        async with serve(MemoryCluster(), token="t") as serving:
            url = f"{serving.address}/api/v1/pods?watch=1"
            reply = await session.get(url, ssl=False, headers={"Authorization": "Bearer t"})
            begun = loop.time()
        assert loop.time() - begun < 2
        assert await reply.read() == b""


async def test_a_port_in_use_is_an_input_error() -> None:
    """With a hint."""
    async with serve(MemoryCluster()) as serving:
        port = int(serving.address.rpartition(":")[2])
        with pytest.raises(InputError, match="cannot listen on"):
            async with serve(MemoryCluster(), port=port):
                pass

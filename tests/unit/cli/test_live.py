"""Reading verbs on a live cluster: what they hold of it, and what they say where it does not let itself be read."""

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from click.testing import CliRunner, Result

from muster.api.codec import Document
from muster.api.core import Node, Pod
from muster.api.objects import WATCHED_KINDS
from muster.api.podgroup import PodGroup
from muster.api.resources import NODES, POD_GROUPS, PODS, Resource
from muster.cli import live
from muster.cli.assemble import clients
from muster.cli.main import cli
from muster.embedded.memory_cluster import MemoryCluster
from muster.errors import InputError
from muster.kube.cluster import Listing, Raw
from muster.kube.errors import ApiError
from muster.kube.listed_pod import ListedPod
from muster.kube.stored_object import EncodedObject, StoredObject, encode_object
from muster.validation.crds import own_crds

SERVER = "https://cluster.example.com/prefix"
NOT_FOUND = ApiError(404, "NotFound", "GET /api/v1/pods: HTTP status 404")
Verb = Callable[..., Result]


class Served(MemoryCluster):
    """A cluster that counts list calls, and answers as scripted."""

    server = SERVER

    def __init__(self, fails: Callable[[Resource, dict[str, Any]], ApiError | None] = lambda *_: None) -> None:
        super().__init__()
        self.fails, self.lists = fails, list[str]()

    async def list(self, resource: Resource, *words: Any, **page: Any) -> Listing:
        self.lists.append(resource.plural)
        if error := self.fails(resource, page):
            raise error
        return await super().list(resource, *words, **page)

    def put(self, struct: type, *names: str, **spec: Any) -> "Served":
        resource = next(resource for resource, known in WATCHED_KINDS.items() if known is struct)
        for name in names:
            namespace = {"namespace": "default"} if resource.namespaced else {}
            kind = {"apiVersion": resource.api_version, "kind": resource.kind}
            self.store.create(resource, {**kind, "metadata": {"name": name, **namespace}, **spec})
        return self


def always(error: ApiError) -> Served:
    return Served(lambda *_: error)


def without_crds() -> Served:
    return Served(lambda resource, _: NOT_FOUND if "." in resource.group and "k8s" not in resource.group else None)


def names(page: list[Document]) -> list[str]:
    return [document.where for document in page]


async def read(cluster: Served) -> tuple[dict[Resource, list[list[str]]], list[Resource]]:
    return await live._read(cluster, SERVER, live.of_documents(names))


@pytest.fixture
def verb(monkeypatch: pytest.MonkeyPatch) -> Verb:
    """A verb on this cluster, from its words to its exit."""

    def run(cluster: Served, *words: str) -> Result:
        monkeypatch.setattr(live, "connect_reader", lambda *_: cluster)
        return CliRunner().invoke(cli, [*words, "--kubeconfig", "my config"], standalone_mode=False)

    return run


def pod_spec() -> Raw:
    return {"schedulerName": "muster", "containers": [{"name": "c", "image": "x"}]}


# a cluster that cannot be read ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (ApiError(401, "Unauthorized", "Unauthorized"), "log in again"),
        (ApiError(403, "Forbidden", "you may not"), "ask for the right to list podgroups.scheduling.run.ai"),
        (ApiError(503, "ServiceUnavailable", "x: its certificate is not trusted"), "`certificate-authority`"),
        (ApiError(503, "ServiceUnavailable", "x: cannot be reached"), "kubectl cluster-info"),
        (ApiError(504, "Timeout", "x: no answer in time"), "kubectl cluster-info"),
        (ApiError(500, "InternalError", "etcd has no leader"), "kubectl get"),
    ],
)
async def test_a_cluster_that_cannot_be_read_is_reported_with_a_hint(error: ApiError, hint: str) -> None:
    with pytest.raises(InputError, match="cannot list podgroups") as caught:
        await read(always(error))
    assert error.message in caught.value.message
    assert SERVER in caught.value.message
    assert hint in caught.value.hint


async def test_a_server_that_does_not_serve_pods_is_not_kubernetes() -> None:
    """A wrong path, or a load balancer's default backend, says 404 to everything: that is no empty cluster."""
    with pytest.raises(InputError, match="is not a Kubernetes API server") as caught:
        await read(always(NOT_FOUND))
    assert SERVER in caught.value.message
    assert "`server:`" in caught.value.hint


@pytest.mark.parametrize(
    "kind", [kind for kind in WATCHED_KINDS if kind.kind not in live.INSTALLED], ids=lambda k: k.plural
)
async def test_a_kind_that_every_kubernetes_has_must_be_there(kind: Resource) -> None:
    cluster = Served(lambda resource, _: NOT_FOUND if resource == kind else None)
    with pytest.raises(InputError, match=kind.plural) as caught:
        await read(cluster)
    assert caught.value.exit_code == 2
    assert caught.value.hint


async def test_kinds_of_crds_may_be_missing_and_all_others_are_read() -> None:
    """An API server says of a group that is not installed only `404 page not found`, which is no Status."""
    pages, missing = await read(without_crds().put(Node, "a"))
    assert [resource.kind for resource in missing] == ["PodGroup", "Queue", "Topology"]
    assert pages[NODES] == [["nodes/a"]]
    assert len(pages) + len(missing) == len(WATCHED_KINDS)


def test_what_may_be_missing_is_what_muster_installs() -> None:
    assert set(live.INSTALLED) == {crd["spec"]["names"]["kind"] for crd in own_crds()}


@pytest.mark.parametrize("words", [("plan",), ("topology",), ("queues",), ("tree",)])
def test_missing_kinds_are_noted_beside_the_data_with_a_hint(verb: Verb, words: tuple[str, ...]) -> None:
    """Else `0 gangs: nothing to do` hides that nothing is installed."""
    result = verb(without_crds(), *words, "-o", "json")
    assert result.exit_code == 0
    json.loads(result.stdout)
    (note,) = [line for line in result.stderr.splitlines() if "does not know" in line]
    assert note.startswith("note: this cluster does not know PodGroups, Queues, Topologies: ")
    assert "`muster crds | kubectl --kubeconfig 'my config' apply --server-side -f -`" in note


def test_a_cluster_that_serves_every_kind_is_read_without_a_note(verb: Verb) -> None:
    result = verb(Served(), "plan", "-o", "json")
    assert (result.exit_code, result.stderr) == (0, "")


# pages ------------------------------------------------------------------------------------------------------------


async def test_a_list_whose_token_expires_is_read_again_in_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """And what was seen before counts no more: a pod that left in between is not in the cluster."""
    monkeypatch.setattr(live, "PAGE", 2)

    def expires(resource: Resource, page: dict[str, Any]) -> ApiError | None:
        if resource != PODS or not page.get("after"):
            return None
        cluster.store.delete(PODS, "default", "p0", grace_seconds=0)
        return ApiError(410, "Expired", "the continue parameter is too old")

    cluster = Served(expires).put(Pod, "p0", "p1", "p2", spec=pod_spec())
    pages, _ = await read(cluster)
    assert pages[PODS] == [["pods/p1", "pods/p2"]]


async def test_a_list_that_is_too_old_from_the_start_is_an_error() -> None:
    with pytest.raises(InputError, match="too old"):
        await read(always(ApiError(410, "Expired", "too old")))


async def test_a_page_is_reduced_before_the_next_is_requested(monkeypatch: pytest.MonkeyPatch) -> None:
    """100,000 pods as they travel take gigabytes."""
    monkeypatch.setattr(live, "PAGE", 2)
    cluster = Served().put(Pod, *(f"p{i}" for i in range(5)), spec=pod_spec())

    def keep(page: list[Document]) -> tuple[int, int]:
        return cluster.lists.count("pods"), len(page)

    pages, _ = await live._read(cluster, SERVER, live.of_documents(keep))
    assert pages[PODS] == [(1, 2), (2, 2), (3, 1)]


def test_equal_parts_of_pods_are_held_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "PAGE", 1)
    cluster = Served().put(Pod, "p0", "p1", spec=pod_spec()).put(Pod, "p2", spec=pod_spec() | {"nodeName": "a"})
    monkeypatch.setattr(live, "connect_reader", lambda *_: cluster)
    first, second, third = live.objects(None, None).pods
    assert (first.metadata.name, second.metadata.name, third.spec.node_name) == ("p0", "p1", "a")
    assert first.spec.containers is second.spec.containers


def encoded(raw: Raw) -> EncodedObject:
    """As an API server sends it."""
    return encode_object(msgspec.json.encode(raw), ("v1", "Pod"), ListedPod)


def test_pods_are_the_same_however_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """Encoded ones are decoded in one pass."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": True}
    raw = {"metadata": {"name": "x", "namespace": "d", "ownerReferences": [owner]}, "spec": pod_spec()}
    cluster, page = Served(), dict[str, Any]()

    async def listing(resource: Resource, **_: Any) -> Listing:
        return Listing((page["pod"],) if resource == PODS else (), "1")

    monkeypatch.setattr(cluster, "list", listing)
    monkeypatch.setattr(live, "connect_reader", lambda *_: cluster)
    results = []
    for page["pod"] in (raw, encoded(raw)):
        results.append(live.objects(None, None).pods)
    assert results[0] == results[1]
    assert results[0][0].metadata.owner_references[0].kind == "ReplicaSet"


@pytest.mark.parametrize("form", [dict, encoded], ids=["plain", "encoded"])
def test_values_of_a_wrong_type_are_reported_by_object_and_field(
    verb: Verb, monkeypatch: pytest.MonkeyPatch, form: Callable[[Raw], StoredObject]
) -> None:
    cluster = Served()
    junk = {"metadata": {"name": "x", "namespace": "d"}, "spec": {"containers": "no"}}

    async def listing(resource: Resource, **_: Any) -> Listing:
        return Listing((form(junk),) if resource == PODS else (), "1")

    monkeypatch.setattr(cluster, "list", listing)
    result = verb(cluster, "plan")
    assert isinstance(result.exception, InputError)
    assert "pods/x: pod `d/x` cannot be read\n  spec.containers: expected a list" in result.exception.message


# beside files -----------------------------------------------------------------------------------------------------


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    """The PodGroup `default/g`."""
    path = tmp_path / "g.yaml"
    metadata = {"name": "g", "namespace": "default"}
    resource = POD_GROUPS
    raw = {"apiVersion": resource.api_version, "kind": "PodGroup", "metadata": metadata, "spec": {"minMember": 3}}
    path.write_text(yaml.safe_dump(raw))
    return path


def test_files_are_added_to_the_cluster(verb: Verb, manifest: Path) -> None:
    planned = json.loads(
        verb(Served().put(PodGroup, "there", spec={"minMember": 1}), "plan", "-o", "json", str(manifest)).stdout
    )
    assert {gang["name"] for gang in planned["podGroups"]} == {"there", "g"}


def test_an_object_of_a_file_that_the_cluster_has_is_given_twice(verb: Verb, manifest: Path) -> None:
    result = verb(Served().put(PodGroup, "g", spec={"minMember": 1}), "plan", str(manifest))
    assert isinstance(result.exception, InputError)
    assert result.exception.message == f"{manifest}: podgroup `default/g` is given twice"
    assert "the live cluster" in result.exception.hint


def test_what_if_adds_only_what_is_in_the_files(verb: Verb, manifest: Path) -> None:
    """The cluster is read once, and its own objects are not said to be replaced by themselves."""
    cluster = Served().put(PodGroup, "g", "other", spec={"minMember": 1}).put(Node, "a")
    result = verb(cluster, "plan", "-o", "json", "--with", str(manifest))
    assert result.exception is None
    assert cluster.lists.count("pods") == 1
    (added,) = json.loads(result.stdout)["changes"]
    assert "1 PodGroup" in json.dumps(added)
    assert "Node" not in json.dumps(added)


# patience ---------------------------------------------------------------------------------------------------------


def slowly(cluster: Served, kind: Resource, seconds: float) -> Served:
    original = cluster.list

    async def listing(resource: Resource, *words: Any, **page: Any) -> Listing:
        if resource == kind:
            await asyncio.sleep(seconds)
        return await original(resource, *words, **page)

    cluster.list = listing  # type: ignore[method-assign]
    return cluster


async def test_a_note_says_what_a_slow_verb_waits_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(live, "QUIET_SECONDS", 0.1)
    await read(slowly(Served(), PODS, 0.5))
    assert capsys.readouterr().err == f"note: waiting for {SERVER} to list pods\n"


@pytest.fixture
def silent(tmp_path: Path) -> Iterator[tuple[Path, list[bytes]]]:
    """The kubeconfig of a server that accepts, reads and never answers, and the requests it got."""
    served_certificate, requests, held = socket.create_server(("127.0.0.1", 0)), list[bytes](), list[socket.socket]()

    def accept() -> None:
        while True:
            try:
                line, _ = served_certificate.accept()
            except OSError:
                return
            held.append(line)
            requests.append(line.recv(100))

    thread = threading.Thread(target=accept)
    thread.start()
    path = tmp_path / "kubeconfig"
    cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{served_certificate.getsockname()[1]}"}}
    context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
    whole = {"clusters": [cluster], "users": [{"name": "u", "user": {}}], "contexts": [context], "current-context": "x"}
    path.write_bytes(msgspec.json.encode(whole))
    yield path, requests
    served_certificate.shutdown(socket.SHUT_RDWR)
    served_certificate.close()
    thread.join()
    for line in held:
        line.close()


def test_a_server_that_never_answers_is_given_up_and_named(
    silent: tuple[Path, list[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user waits: about a minute, not five."""
    assert clients.ANSWER_SECONDS * clients.ATTEMPTS <= 60
    monkeypatch.setattr(clients, "ANSWER_SECONDS", 0.2)
    path, requests = silent
    with pytest.raises(InputError, match=r"cannot list podgroups of http://127\.0\.0\.1:\d+: .*no answer in time"):
        live.objects(str(path), None)
    assert len(requests) == clients.ATTEMPTS

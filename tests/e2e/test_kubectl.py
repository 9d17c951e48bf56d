"""What people type works against the embedded cluster as it does against Kubernetes."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from muster.api.resources import EVENTS, NODES, PODS
from muster.embedded.memory_cluster import MemoryCluster
from muster.embedded.server import serve
from muster.kube.cluster import Raw
from tests.e2e.kubectl import KUBECTL, MISSING, Kubectl, Refused
from tests.support.factories import node, pod

pytestmark = pytest.mark.skipif(KUBECTL is None, reason=MISSING)


def plain_pod(name: str, **spec: Any) -> Raw:
    """A pod outside any gang, in the namespace of the command; keyword arguments are fields of its spec."""
    raw = pod(name, gang="", namespace="", image="x", labels={"app": name})
    raw["spec"] |= spec
    return raw


def ready_node(name: str) -> Raw:
    raw = node(name, allocatable={"cpu": "8"}, labels={"node-role.kubernetes.io/gpu": ""})
    raw["status"] |= {
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        "capacity": {"cpu": "8"},
        "nodeInfo": {"kubeletVersion": "v1.33.0"},
    }
    return raw


def podgroup(name: str, minimum: int = 2) -> Raw:
    return {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"queue": "default", "minMember": minimum},
    }


def deployment(name: str) -> Raw:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "x"}]},
            },
        },
    }


class Cluster:
    """A store that is served, and kubectl at its door."""

    def __init__(self, memory: MemoryCluster, kubectl: Kubectl, address: str) -> None:
        self.memory, self.store, self.kubectl, self.address = memory, memory.store, kubectl, address

    def place(self, name: str, on: str) -> None:
        """A pod that runs: what a scheduler and a kubelet would have done."""
        self.store.bind("default", name, "", on)
        running = {
            "phase": "Running",
            "podIP": "10.0.0.1",
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [
                {
                    "name": "main",
                    "ready": True,
                    "restartCount": 0,
                    "image": "x",
                    "imageID": "",
                    "state": {"running": {}},
                }
            ],
        }
        self.store.patch(PODS, "default", name, {"status": running}, subresource="status")

    def nodes(self, *names: str) -> None:
        for name in names:
            self.store.create(NODES, ready_node(name))
            self.store.patch(NODES, "", name, {"status": ready_node(name)["status"]}, subresource="status")


@asynccontextmanager
async def running(home: Path) -> AsyncIterator[Cluster]:
    memory = MemoryCluster()
    async with serve(memory) as serving:
        yield Cluster(memory, Kubectl(serving.kubeconfig, home), serving.address)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with running(tmp_path) as kubectl:
        yield kubectl


# get ------------------------------------------------------------------------------------------------------------------


async def test_get_shows_columns(cluster: Cluster) -> None:
    """As the server makes them; more of them with -o wide."""
    kubectl = cluster.kubectl
    cluster.nodes("n1")
    await kubectl("create", "-f", "-", send=[plain_pod("a"), plain_pod("b"), podgroup("g")])
    cluster.place("a", "n1")
    pods = await kubectl.table("get", "pods")
    assert [row[:4] for row in pods] == [
        ["NAME", "READY", "STATUS", "RESTARTS"],
        ["a", "1/1", "Running", "0"],
        ["b", "0/1", "Pending", "0"],
    ]
    wide = await kubectl.table("get", "po", "a", "-o", "wide")
    assert wide[1][5:7] == ["10.0.0.1", "n1"]
    nodes = await kubectl.table("get", "nodes")
    assert (nodes[0], nodes[1][:3], nodes[1][4]) == (
        ["NAME", "STATUS", "ROLES", "AGE", "VERSION"],
        ["n1", "Ready", "gpu"],
        "v1.33.0",
    )
    groups = await kubectl.table("get", "pg")
    assert groups[0] == ["NAME", "QUEUE", "MIN-PODS", "MIN-GROUPS", "SATISFIED", "PHASE", "REASON", "AGE"]
    assert groups[1][:3] == ["g", "default", "2"]


async def test_get_has_every_form(cluster: Cluster) -> None:
    """-o yaml, json, name, jsonpath, custom-columns; -A, -l, --field-selector, --sort-by."""
    kubectl = cluster.kubectl
    await kubectl("create", "namespace", "other")
    await kubectl("create", "-f", "-", send=[plain_pod("b"), plain_pod("a")])
    await kubectl("create", "-n", "other", "-f", "-", send=plain_pod("c"))
    assert "kind: Pod" in await kubectl("get", "pod", "a", "-o", "yaml")
    assert (await kubectl.json("get", "pods"))["kind"] == "List"
    assert await kubectl("get", "pods", "-o", "name") == "pod/a\npod/b\n"
    assert await kubectl("get", "pods", "-o", "jsonpath={.items[*].metadata.name}") == "a b"
    assert (await kubectl("get", "pods", "-o", "custom-columns=N:.metadata.name")).split() == ["N", "a", "b"]
    assert (await kubectl("get", "pods", "-A", "--no-headers")).split()[::6] == ["default", "default", "other"]
    assert await kubectl("get", "pods", "-l", "app in (a,c)", "-o", "name") == "pod/a\n"
    assert await kubectl("get", "pods", "-A", "--field-selector", "metadata.name=c", "-o", "name") == "pod/c\n"
    newest_first = await kubectl("get", "pods", "--sort-by", ".metadata.name", "--no-headers")
    assert [line.split()[0] for line in newest_first.splitlines()] == ["a", "b"]
    assert "pod/a" in await kubectl("get", "all")
    assert (await kubectl("get", "--raw", "/readyz")) == "ok"
    with pytest.raises(Refused, match='pods "z" not found'):
        await kubectl("get", "pod", "z")
    with pytest.raises(Refused, match="doesn't have a resource type"):
        await kubectl("get", "boats")


async def test_get_pages_through_many(cluster: Cluster) -> None:
    """--chunk-size."""
    for i in range(7):
        cluster.store.create(PODS, plain_pod(f"p{i}"), namespace="default")
    assert len((await cluster.kubectl("get", "pods", "--chunk-size", "3", "-o", "name")).splitlines()) == 7


async def test_get_watches(cluster: Cluster) -> None:
    """`-w` prints what is there, and then a line for each change."""
    kubectl = cluster.kubectl
    await kubectl("create", "-f", "-", send=plain_pod("a"))
    cluster.nodes("n1")
    async with kubectl.running("get", "pods", "-w", "--output-watch-events") as process, asyncio.timeout(30):
        assert process.stdout
        heads, first = (await process.stdout.readline()).split(), (await process.stdout.readline()).split()
        cluster.place("a", "n1")
        lines = [(await process.stdout.readline()).split() for _ in range(2)]
        cluster.store.delete(PODS, "default", "a", grace_seconds=0)
        lines.append((await process.stdout.readline()).split())
    assert heads[:3] == [b"EVENT", b"NAME", b"READY"]
    assert first[:4] == [b"ADDED", b"a", b"0/1", b"Pending"]
    assert [(line[0], line[3]) for line in lines[:2]] == [(b"MODIFIED", b"Pending"), (b"MODIFIED", b"Running")]
    assert lines[2][0] in (b"DELETED", b"MODIFIED")


# describe, explain, discovery -----------------------------------------------------------------------------------------


async def test_describe_prints_an_object_and_its_events(cluster: Cluster) -> None:
    """Built-in kinds and ours; nodes with their pods."""
    kubectl = cluster.kubectl
    cluster.nodes("n1")
    await kubectl("create", "-f", "-", send=[plain_pod("a"), podgroup("g")])
    cluster.place("a", "n1")
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "g.1", "namespace": "default"},
        "involvedObject": {
            "kind": "PodGroup",
            "name": "g",
            "namespace": "default",
            "apiVersion": "scheduling.run.ai/v2alpha2",
            "uid": (await kubectl.json("get", "pg", "g"))["metadata"]["uid"],
        },
        "type": "Warning",
        "reason": "NoDomain",
        "message": "no rack holds it",
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "count": 1,
        "source": {"component": "muster"},
    }
    cluster.store.create(EVENTS, event, namespace="default")
    output = await kubectl("describe", "pg", "g")
    assert re.search(r"Min Member: +2", output)
    assert "no rack holds it" in output
    assert "Node:" in await kubectl("describe", "pod", "a")
    assert "default                     a" in await kubectl("describe", "node", "n1")
    assert "no rack holds it" in await kubectl("get", "events")
    assert "no rack holds it" in await kubectl("events")
    assert "no rack holds it" in await kubectl("events", "--for", "podgroup/g")


async def test_the_server_tells_what_it_serves(cluster: Cluster) -> None:
    """api-resources, api-versions, version, cluster-info, explain, auth."""
    kubectl = cluster.kubectl
    resources = await kubectl("api-resources")
    assert "podgroups" in resources
    assert "pg " in resources
    assert "scheduling.run.ai/v2alpha2" in (await kubectl("api-versions")).split()
    assert (await kubectl.json("version"))["serverVersion"]["gitVersion"].endswith("+muster")
    assert cluster.address in await kubectl("cluster-info")
    assert "minMember" in await kubectl("explain", "podgroup.spec")
    assert "nodeLabel" in await kubectl("explain", "topologies.spec.levels")
    assert await kubectl("auth", "can-i", "create", "pods") == "yes\n"
    assert "muster-admin" in await kubectl("auth", "whoami")
    assert "*.*" in await kubectl("auth", "can-i", "--list")


# writing --------------------------------------------------------------------------------------------------------------


async def test_apply_by_the_client(cluster: Cluster) -> None:
    """created, unchanged, configured; diff says what would change."""
    kubectl = cluster.kubectl
    assert await kubectl("apply", "-f", "-", send=podgroup("g")) == "podgroup.scheduling.run.ai/g created\n"
    assert await kubectl("apply", "-f", "-", send=podgroup("g")) == "podgroup.scheduling.run.ai/g unchanged\n"
    assert await kubectl("apply", "-f", "-", send=podgroup("g", 3)) == "podgroup.scheduling.run.ai/g configured\n"
    assert (await kubectl.json("get", "pg", "g"))["spec"]["minMember"] == 3
    assert await kubectl("apply", "-f", "-", send=deployment("d")) == "deployment.apps/d created\n"
    changed = deployment("d")
    changed["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "A", "value": "1"}]
    assert await kubectl("apply", "-f", "-", send=changed) == "deployment.apps/d configured\n"
    assert await kubectl("apply", "--dry-run=server", "-f", "-", send=podgroup("h")) == (
        "podgroup.scheduling.run.ai/h created (server dry run)\n"
    )
    assert await kubectl("get", "pg", "-o", "name") == "podgroup.scheduling.run.ai/g\n"


async def test_apply_by_the_server(cluster: Cluster) -> None:
    """Fields have owners, and owners must agree or be overruled."""
    kubectl = cluster.kubectl
    by = ("apply", "--server-side", "-f", "-", "--field-manager")
    assert "serverside-applied" in await kubectl(*by, "me", send=podgroup("g"))
    with pytest.raises(Refused, match="conflict"):
        await kubectl(*by, "you", send=podgroup("g", 3))
    assert "serverside-applied" in await kubectl(*by, "you", "--force-conflicts", send=podgroup("g", 3))
    assert (await kubectl.json("get", "pg", "g"))["spec"]["minMember"] == 3


async def test_errors_are_reported(cluster: Cluster) -> None:
    """Unknown fields, rules of ours, and objects that are not there."""
    kubectl = cluster.kubectl
    typo = podgroup("g")
    typo["spec"]["minMembre"] = 3
    with pytest.raises(Refused, match="minMembre"):
        await kubectl("apply", "-f", "-", send=typo)
    wrong = podgroup("g")
    wrong["spec"]["minMember"] = "many"
    with pytest.raises(Refused, match="minMember"):
        await kubectl("create", "-f", "-", send=wrong)
    with pytest.raises(Refused, match="AlreadyExists"):
        await kubectl("create", "namespace", "default")


async def test_edit_in_place(cluster: Cluster) -> None:
    """create, replace, three kinds of patch, label, annotate, set."""
    kubectl = cluster.kubectl
    await kubectl("create", "configmap", "c", "--from-literal=a=1")
    raw = await kubectl.json("get", "cm", "c")
    assert await kubectl("replace", "-f", "-", send={**raw, "data": {"a": "2"}}) == "configmap/c replaced\n"
    with pytest.raises(Refused, match="Conflict"):
        await kubectl("replace", "-f", "-", send={**raw, "data": {"a": "3"}})
    await kubectl("patch", "cm", "c", "--type", "merge", "-p", '{"data":{"b":"3"}}')
    await kubectl("patch", "cm", "c", "--type", "json", "-p", '[{"op":"remove","path":"/data/a"}]')
    assert (await kubectl.json("get", "cm", "c"))["data"] == {"b": "3"}
    await kubectl("create", "-f", "-", send=deployment("d"))
    container = '{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"y"}]}}}}'
    await kubectl("patch", "deploy", "d", "-p", container)
    containers = (await kubectl.json("get", "deploy", "d"))["spec"]["template"]["spec"]["containers"]
    assert sorted(one["name"] for one in containers) == ["main", "side"]
    await kubectl("label", "cm", "c", "x=1")
    await kubectl("annotate", "cm", "c", "y=2")
    metadata = (await kubectl.json("get", "cm", "c"))["metadata"]
    assert (metadata["labels"], metadata["annotations"]) == ({"x": "1"}, {"y": "2"})
    await kubectl("label", "cm", "c", "x-")
    assert not (await kubectl.json("get", "cm", "c"))["metadata"].get("labels")
    await kubectl(
        "patch", "deploy", "d", "--subresource", "status", "--type", "merge", "-p", '{"status":{"replicas":1}}'
    )
    assert (await kubectl.json("get", "deploy", "d"))["status"]["replicas"] == 1


async def test_scale(cluster: Cluster) -> None:
    """Through the scale subresource."""
    await cluster.kubectl("create", "-f", "-", send=deployment("d"))
    assert await cluster.kubectl("scale", "deploy/d", "--replicas", "5") == "deployment.apps/d scaled\n"
    assert (await cluster.kubectl.json("get", "deploy", "d"))["spec"]["replicas"] == 5
    with pytest.raises(Refused, match="Expected replicas"):
        await cluster.kubectl("scale", "deploy/d", "--current-replicas", "2", "--replicas", "3")


# letting go, and waiting ----------------------------------------------------------------------------------------------


def owned(name: str, owner: Raw) -> Raw:
    raw = plain_pod(name)
    raw["metadata"]["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
    ]
    return raw


async def test_delete_takes_what_belongs_to_it_along(cluster: Cluster) -> None:
    """--cascade=background, foreground, orphan."""
    kubectl = cluster.kubectl
    for cascade, left in (("background", ""), ("foreground", ""), ("orphan", "pod/p\n")):
        await kubectl("create", "configmap", "c")
        await kubectl("create", "-f", "-", send=owned("p", await kubectl.json("get", "cm", "c")))
        assert await kubectl("delete", "cm", "c", f"--cascade={cascade}") == 'configmap "c" deleted\n'
        assert await kubectl("get", "pods", "-o", "name") == left, cascade


async def test_delete_waits_for_finalizers(cluster: Cluster) -> None:
    """Until the finalizer is removed; `wait --for=delete` too."""
    kubectl = cluster.kubectl
    held = podgroup("g")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    await kubectl("create", "-f", "-", send=held)
    assert "deleted" in await kubectl("delete", "pg", "g", "--wait=false")
    assert (await kubectl.json("get", "pg", "g"))["metadata"]["deletionTimestamp"]
    waiting = asyncio.create_task(kubectl("wait", "--for=delete", "pg/g", "--timeout", "30s"))
    deleting = asyncio.create_task(kubectl("delete", "pg", "g"))
    await asyncio.sleep(1)
    assert not waiting.done()
    assert not deleting.done()
    await kubectl("patch", "pg", "g", "--type", "merge", "-p", '{"metadata":{"finalizers":null}}')
    assert "condition met" in await waiting
    assert "deleted" in await deleting


async def test_delete_many(cluster: Cluster) -> None:
    """--all, -l, -f, --force, --ignore-not-found; a namespace goes with all that is in it."""
    kubectl = cluster.kubectl
    await kubectl("create", "-f", "-", send=[plain_pod("a"), plain_pod("b"), plain_pod("c")])
    assert 'pod "a"' in await kubectl("delete", "pods", "-l", "app=a", "--now")
    assert 'pod "b" force deleted' in await kubectl("delete", "pod", "b", "--force", "--grace-period=0")
    assert 'pod "c"' in await kubectl("delete", "pods", "--all", "--force")
    assert await kubectl("delete", "pod", "a", "--ignore-not-found") == ""
    assert await kubectl("delete", "--raw", "/api/v1/namespaces/default/pods") != ""
    await kubectl("create", "namespace", "n")
    await kubectl("create", "configmap", "c", "-n", "n")
    assert await kubectl("delete", "namespace", "n") == 'namespace "n" deleted\n'
    assert "configmap/c" not in await kubectl("get", "cm", "-n", "n", "-o", "name")


async def test_wait_for_a_condition(cluster: Cluster) -> None:
    """It ends when the condition comes, and not before."""
    kubectl = cluster.kubectl
    cluster.nodes("n1")
    await kubectl("create", "-f", "-", send=plain_pod("a"))
    with pytest.raises(Refused, match="timed out"):
        await kubectl("wait", "--for=condition=Ready", "pod/a", "--timeout", "1s")
    waiting = asyncio.create_task(kubectl("wait", "--for=condition=Ready", "pod/a", "--timeout", "30s"))
    await asyncio.sleep(1)
    cluster.place("a", "n1")
    assert await waiting == "pod/a condition met\n"
    assert "met" in await kubectl("wait", "--for=jsonpath={.status.phase}=Running", "pod/a", "--timeout", "5s")


async def test_cordon_and_drain(cluster: Cluster) -> None:
    """Pods leave by eviction, and a budget can hold them back."""
    kubectl = cluster.kubectl
    cluster.nodes("n1", "n2")
    await kubectl("create", "-f", "-", send=[plain_pod("a", terminationGracePeriodSeconds=0), plain_pod("b")])
    cluster.place("a", "n1")
    cluster.place("b", "n2")
    assert await kubectl("cordon", "n2") == "node/n2 cordoned\n"
    assert "SchedulingDisabled" in await kubectl("get", "nodes")
    assert await kubectl("uncordon", "n2") == "node/n2 uncordoned\n"
    assert "drained" in await kubectl("drain", "n1", "--force", "--timeout", "30s", "--grace-period", "0")
    assert await kubectl("get", "pods", "-o", "name") == "pod/b\n"
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "keep"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "b"}}},
    }
    await kubectl("create", "-f", "-", send=budget)
    with pytest.raises(Refused, match="disruption budget"):
        await kubectl("drain", "n2", "--force", "--timeout", "2s", "--grace-period", "0")
    assert await kubectl("get", "pods", "-o", "name") == "pod/b\n"

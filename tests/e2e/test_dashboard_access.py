"""The dashboard of `muster run` on a real API server: each viewer sees what Kubernetes lets it list, and nothing else.

Muster asks with the rights that the chart installs.
"""

import json
import urllib.error
import urllib.request
from asyncio import to_thread
from pathlib import Path
from typing import Any

import yaml

from muster.api.resources import EVENTS, NAMESPACES, NODES, POD_GROUPS, PODS, Resource
from muster.kube.client.client import connect
from muster.kube.cluster import Cluster, Raw
from tests.e2e.installed import HOME, free_port, manifests, put, unregister, until
from tests.e2e.muster_process import installed, kubeconfig, muster_run, resource_of, token
from tests.e2e.test_metrics_access import BINDINGS, account
from tests.support.apiserver.apiserver import ApiServer
from tests.support.event_stream import event_stream
from tests.support.http import get

SCHEDULER = "dashboard-access"
ROLE_BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")
OWN, OTHER = "dash-own", "dash-other"
ENDPOINTS = ("session", "state", f"gangs/{OWN}/train", f"gangs/{OTHER}/hidden-train", "nodes/dash-node", "cycles")
SUBJECT = {"kind": "ServiceAccount", "namespace": HOME}
ROLE = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "muster-dashboard-viewer"}


def binding(resource: Resource, name: str, namespace: str = "") -> Raw:
    meta = {"name": f"dashboard-{name}"} | ({"namespace": namespace} if namespace else {})
    subjects = [{**SUBJECT, "name": name}]
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": meta,
        "roleRef": ROLE,
        "subjects": subjects,
    }


def gang(namespace: str, name: str) -> tuple[Raw, Raw]:
    meta = {"name": name, "namespace": namespace}
    group = {"apiVersion": POD_GROUPS.api_version, "kind": "PodGroup", "metadata": meta, "spec": {"minMember": 1}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"{name}-0", "namespace": namespace, "annotations": {"pod-group-name": name}},
        "spec": {"schedulerName": SCHEDULER, "containers": [{"name": "c", "image": "x"}]},
    }
    return group, pod


async def prepare(apiserver: ApiServer, cluster: Cluster) -> dict[str, str]:
    """A node, a gang in each of two namespaces, and the tokens of viewers."""
    await unregister(cluster)  # no webhook runs here
    for raw in manifests("optional/dashboard.yaml"):
        await put(cluster, resource_of(raw), raw)
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "dash-node"}}
    await put(cluster, NODES, node)
    capacity = {"status": {"allocatable": {"cpu": "8", "pods": "10"}, "capacity": {"cpu": "8", "pods": "10"}}}
    await cluster.patch(NODES, "", "dash-node", capacity, subresource="status")
    for namespace, name in ((OWN, "train"), (OTHER, "hidden-train")):
        await put(cluster, NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        await put(cluster, Resource("", "v1", "serviceaccounts", "ServiceAccount"), service_account(namespace))
        group, pod = gang(namespace, name)
        await put(cluster, POD_GROUPS, group)
        await put(cluster, PODS, pod)
    tokens = {name: await account(apiserver, cluster, f"dash-{name}") for name in ("none", "some", "all")}
    await put(cluster, ROLE_BINDINGS, binding(ROLE_BINDINGS, "dash-some", OWN))
    await put(cluster, BINDINGS, binding(BINDINGS, "dash-all"))
    return tokens


def service_account(namespace: str) -> Raw:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": namespace}}


async def test_each_viewer_sees_what_it_may_list(apiserver: ApiServer, tmp_path: Path) -> None:
    """No token, one that is made up, one without rights, one for a namespace, and one for all: on every endpoint."""
    cluster, port, probes = connect(apiserver.kubeconfig), free_port(), free_port()
    settings = {
        "scheduling": {"schedulerNames": [SCHEDULER]},
        "leaderElection": {"enabled": False},
        "grouping": {"enabled": False},
        "grove": {"enabled": False},
        "webhook": {"enabled": False},
        "observability": {"host": "127.0.0.1", "port": probes},
        "dashboard": {"enabled": True, "host": "127.0.0.1", "port": port, "access": "kubernetes"},
    }
    async with installed(cluster, free_port()):
        tokens = await prepare(apiserver, cluster)
        access, url = kubeconfig(apiserver, await token(apiserver)), f"http://127.0.0.1:{port}"
        async with muster_run(tmp_path, yaml.safe_dump(settings), access):

            async def shows_both() -> bool:
                status, text = await get(f"{url}/api/state", tokens["all"])
                return status == 200 and {f"{OWN}/train", f"{OTHER}/hidden-train"} <= json.loads(text)["gangs"].keys()

            await until(shows_both)
            await check_matrix(url, tokens)
            async with event_stream(url, token=tokens["some"]) as viewer:
                await viewer.read()
                assert f"{OWN}/train" in viewer.state["gangs"]
                assert "hidden" not in json.dumps(viewer.state)
            assert await what_if(url, tokens["some"]) == 403
            assert await what_if(url, tokens["all"]) == 200
            await check_events(cluster, url, tokens["all"])
            log = (tmp_path / "log").read_text(encoding="utf-8") if (tmp_path / "log").exists() else ""
            assert not [secret for secret in tokens.values() if secret in log]
    await cluster.close()


async def check_matrix(url: str, tokens: dict[str, str]) -> None:
    for path in ENDPOINTS:
        for who, expected in (("", 401), ("made-up", 401), ("none", 403), ("some", 200), ("all", 200)):
            status, text = await get(f"{url}/api/{path}", tokens.get(who, who))
            hidden = who == "some" and OTHER in path
            assert status == (404 if hidden else expected), (path, who, text)
            if who != "all":
                assert "hidden" not in text, (path, who)
                assert OTHER not in text, (path, who)
    assert json.loads((await get(f"{url}/api/session", tokens["some"]))[1])["namespaces"] == [OWN]


async def check_events(cluster: Cluster, url: str, secret: str) -> None:
    """Muster may list events, with the rights that the option installs."""
    about = {"apiVersion": POD_GROUPS.api_version, "kind": "PodGroup", "name": "train", "namespace": OWN}
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "dash-event", "namespace": OWN},
        "involvedObject": about,
        "type": "Normal",
        "reason": "Testing",
        "message": "seen",
        "lastTimestamp": "2026-01-01T00:00:00Z",
    }
    await put(cluster, EVENTS, event)

    async def shows_event() -> bool:
        page = json.loads((await get(f"{url}/api/gangs/{OWN}/train", secret))[1])
        return "seen" in [each["message"] for each in page["events"]]

    await until(shows_event)


async def what_if(url: str, secret: str) -> int:
    return await to_thread(_what_if, url, secret)


def _what_if(url: str, secret: str) -> int:
    headers: dict[str, Any] = {"content-type": "application/json", "authorization": f"Bearer {secret}"}
    request = urllib.request.Request(f"{url}/api/what-if", b'{"drain":["dash-node"]}', headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code

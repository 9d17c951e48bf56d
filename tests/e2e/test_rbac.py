"""muster with exactly the rights of deploy/manifests, on an API server that enforces them and writes down every call.

Rule: what a role grants is compared with what the API server was asked for, in both directions: a right that is missing
shows as a 403, and one that nothing needs is never used.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from muster.api import names
from muster.api.resources import (
    CLUSTER_TOPOLOGY_BINDINGS,
    DEFINITIONS,
    EVENTS,
    JOBS,
    NODES,
    POD_CLIQUE_SETS,
    POD_GANGS,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    QUEUES,
    SECRETS,
    STORAGE_CLASSES,
    Resource,
)
from muster.grouping.table import KINDS, RESOURCES, KindRule
from muster.kube.client.client import connect
from muster.kube.cluster import Cluster, Raw
from muster.kube.errors import ApiError
from muster.webhook.certificates.certificate_rotation import CONFIGURATIONS
from tests.e2e import grove_rights
from tests.e2e.installed import HOME, MANIFESTS, ask, free_port, gone, manifests, put, until
from tests.e2e.kubectl import KUBECTL, MISSING, Kubectl
from tests.e2e.muster_process import (
    FILES,
    OPTIONS,
    configuration,
    installed,
    kubeconfig,
    muster_run,
    resource_of,
    token,
)
from tests.support.apiserver.apiserver import ApiServer
from tests.support.factories import pod, podgroup

SPACE = "rbac"
ACCOUNT = f"system:serviceaccount:{HOME}:muster"
WORK = "work"  # a Job, and the pods that it owns


class Call(NamedTuple):
    """A verb on a kind, or on the one object that a role names."""

    group: str
    resource: str  # with its subresource
    verb: str
    name: str = ""  # empty: of any name
    home: bool = False  # only in muster's own namespace


def granted() -> set[Call]:
    """Everything that both roles allow."""
    return {
        Call(group, resource, verb, name, raw["kind"] == "Role")
        for raw in manifests("20-rbac.yaml")
        for rule in raw.get("rules", ())
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    }


def audited(apiserver: ApiServer, since: int = 0) -> list[tuple[Call, int]]:
    """Every call of muster's account, with the API server's answer; and what else such a call needs the right to.

    `since`: the size of the audit log before the first of them.
    """
    lines = [msgspec.json.decode(line) for line in apiserver.audit.read_bytes()[since:].splitlines()]
    ours = [line for line in lines if line["user"]["username"] == ACCOUNT]
    paths = {line["requestURI"] for line in ours if "objectRef" not in line}
    assert paths <= {"/version"}, "every account may read that"
    calls = [_call(line) for line in ours if "objectRef" in line]
    applied = [(call._replace(verb="create"), code) for call, code in calls if (call.verb, code) == ("patch", 201)]
    created = [call for call, code in calls if (call.verb, code) == ("create", 201)]
    return [*calls, *applied, *((owner, 201) for call in created for owner in finalized(call))]


def finalized(created: Call) -> Iterator[Call]:
    """Owners whose deletion waits for what was created: that needs the right to update their finalizers."""
    for plural in grove_rights.OWNERS.get(created.resource, ()):
        group = "scheduler.grove.io" if plural == POD_GANGS.plural else "grove.io"
        yield Call(group, f"{plural}/finalizers", "update")


def _call(line: Raw) -> tuple[Call, int]:
    about = line["objectRef"]
    sub = f"/{about['subresource']}" if about.get("subresource") else ""
    where = about.get("namespace") == HOME
    call = Call(about.get("apiGroup", ""), about["resource"] + sub, line["verb"], about.get("name", ""), where)
    return call, line["responseStatus"]["code"]


def used(right: Call, calls: list[Call]) -> bool:
    return any(
        call[:3] == right[:3] and right.name in ("", call.name) and (call.home or not right.home) for call in calls
    )


# a small scenario that brings about everything but faults -------------------------------------------------------------


def gpu_pod(name: str, gang: str) -> Raw:
    """A pod of 4 GPUs on the nodes of this test; in the gang `high` with a volume."""
    limits = {"nvidia.com/gpu": "4"}
    raw = pod(name, gang=gang, namespace=SPACE, scheduler=SPACE, image="none", limits=limits)
    raw["spec"]["nodeSelector"] = {"rbac": "yes"}
    if gang == "high":
        raw["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
    return raw


def claim(name: str) -> Raw:
    """Of a class that waits for its first consumer: muster selects the node (`scheduler.apply.volume_binder`)."""
    asks = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "rbac"}
    meta = {"name": name, "namespace": SPACE}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": asks}


def objects() -> list[Raw]:
    allocatable = {"cpu": "64", "pods": "110", "nvidia.com/gpu": "8"}
    share = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}},
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "rbac-high"}, "value": 90},
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "rbac"},
            "provisioner": "rbac.example.com",
            "volumeBindingMode": "WaitForFirstConsumer",
        },
        *(claim(f"high-{i}") for i in range(2)),
        {
            "apiVersion": "scheduling.run.ai/v2",
            "kind": "Queue",
            "metadata": {"name": "rbac"},
            "spec": {"resources": {"gpu": share, "cpu": share, "memory": share}},
        },
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "rbac-a", "labels": {"rbac": "yes"}},
            "status": {"allocatable": allocatable},
        },
    ]


async def seats(cluster: Cluster, gang: str) -> list[str]:
    pods = (await cluster.list(PODS, SPACE)).items
    return [raw["spec"].get("nodeName", "") for raw in pods if group_of(raw) == gang]


def group_of(pod: Raw) -> str:
    return str((pod["metadata"].get("annotations") or {}).get(names.POD_GROUP, ""))


async def bound(cluster: Cluster, gang: str) -> None:
    """Every pod of it."""

    async def holds() -> bool:
        return await seats(cluster, gang) == ["rbac-a", "rbac-a"]

    await until(holds)


async def scenario(apiserver: ApiServer, cluster: Cluster) -> None:
    """A gang is bound; a better one takes its place; the first waits with a reason; a queue and both gangs say so."""
    for name, more in (("low", {}), ("high", {"priorityClassName": "rbac-high"})):
        gang = podgroup(name=name, namespace=SPACE, minMember=2, queue="rbac", **more)

        async def accepted(gang: Raw = gang) -> bool:
            """The webhook of this very process is asked, and may not be there yet."""
            reply = await ask(apiserver, "POST", f"/apis/scheduling.run.ai/v2alpha2/namespaces/{SPACE}/podgroups", gang)
            assert reply.status in (201, 500), reply
            return reply.status == 201

        await until(accepted)
        for i in range(2):
            await cluster.create(PODS, gpu_pod(f"{name}-{i}", name))
        if name == "high":
            await leave(cluster)
        await bound(cluster, name)
    for i in range(2):
        await cluster.create(PODS, gpu_pod(f"low-again-{i}", "low"))
    await until(lambda: has_condition(cluster, "low", "NoRoom"))
    await until(lambda: queue_tells(cluster))
    await until(lambda: event_tells(cluster))


async def workload(cluster: Cluster) -> None:
    """A pod of a Job is grouped; the PodGroup goes after the pod; a pod whose Job is not there is reported.

    The webhook of pods gets its authority, but the API server sends it pods of the scheduler `muster` only: the loop
    groups these, which needs more rights.
    """
    template = gpu_pod(WORK, "")
    spec = {"suspend": True, "template": {"spec": {**template["spec"], "restartPolicy": "Never"}}}
    job = await cluster.create(JOBS, {"metadata": {"name": WORK, "namespace": SPACE}, "spec": spec})
    await cluster.create(PODS, owned_pod(f"{WORK}-0", job["metadata"]["uid"]))
    await until(lambda: is_grouped(cluster))
    await cluster.delete(PODS, SPACE, f"{WORK}-0", grace_seconds=0)
    await until(lambda: has_no_groups(cluster))
    await gone(cluster, JOBS, SPACE, WORK)
    await cluster.create(PODS, owned_pod(f"{WORK}-1", job["metadata"]["uid"]))
    await until(lambda: reports_missing_owner(cluster))


def owned_pod(name: str, uid: str) -> Raw:
    raw = gpu_pod(name, "")
    raw["metadata"].pop("annotations", None)
    reference = {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "name": WORK, "uid": uid, "controller": True}
    raw["metadata"]["ownerReferences"] = [reference]
    return raw


async def is_grouped(cluster: Cluster) -> bool:
    """The pod joins before its PodGroup is written."""
    group = group_of(await cluster.get(PODS, SPACE, f"{WORK}-0"))
    stored = {raw["metadata"]["name"]: raw["metadata"] for raw in (await cluster.list(POD_GROUPS, SPACE)).items}
    return group in stored and stored[group]["ownerReferences"] != []


async def has_no_groups(cluster: Cluster) -> bool:
    items = (await cluster.list(POD_GROUPS, SPACE)).items
    return not any(names.GROUPED_BY in (raw["metadata"].get("annotations") or {}) for raw in items)


async def reports_missing_owner(cluster: Cluster) -> bool:
    events = (await cluster.list(EVENTS, SPACE)).items
    return any(
        raw["involvedObject"]["name"] == f"{WORK}-1" and raw["reason"] in ("OwnerNotFound", "OwnerUidDiffers")
        for raw in events
    )


async def leave(cluster: Cluster) -> None:
    """There is no kubelet: pods that were evicted go because we say so."""

    async def evicted() -> bool:
        pods = (await cluster.list(PODS, SPACE)).items
        return sum(bool(raw["metadata"].get("deletionTimestamp")) for raw in pods) == 2

    await until(evicted)
    for i in range(2):
        await cluster.delete(PODS, SPACE, f"low-{i}", grace_seconds=0)


async def has_condition(cluster: Cluster, gang: str, reason: str) -> bool:
    conditions = ((await cluster.get(POD_GROUPS, SPACE, gang)).get("status") or {}).get("conditions") or ()
    return any(condition["type"] == "Scheduled" and condition["reason"] == reason for condition in conditions)


async def queue_tells(cluster: Cluster) -> bool:
    status = (await cluster.get(QUEUES, "", "rbac")).get("status") or {}
    return str((status.get("allocated") or {}).get("nvidia.com/gpu", "")) == "8"


async def event_tells(cluster: Cluster) -> bool:
    events = (await cluster.list(EVENTS, SPACE)).items
    return any(raw["involvedObject"]["name"] == "low" and raw["reason"] == "NoRoom" for raw in events)


async def faults(account: Cluster) -> None:
    """What only a fault brings about: the binder reads the pod of an unconfirmed binding (`scheduler.apply.binder`)."""
    assert (await account.get(PODS, SPACE, "high-0"))["spec"]["nodeName"] == "rbac-a"


async def later(account: Cluster, admin: Cluster) -> None:
    """What only time brings about: an event is repeated after some minutes (`scheduler.status`)."""
    event = (await admin.list(EVENTS, SPACE)).items[0]["metadata"]["name"]
    await account.patch(EVENTS, SPACE, event, {"count": 2})


async def read_owners(account: Cluster) -> None:
    """What only workloads of the other kinds bring about: they are read as Jobs are. Few of the kinds exist here."""
    for kind in KINDS.values():
        if kind.resource in RESOURCES:
            resource = served(kind)
            for read in (account.list(resource), account.get(resource, SPACE, "none"), watch(account, resource)):
                with suppress(ApiError):  # 404; a 403 is found in the audit log
                    await read


def served(kind: KindRule) -> Resource:
    return Resource(kind.group, "v1", kind.plural, kind.kind)


async def watch(account: Cluster, resource: Resource) -> None:
    async with asyncio.timeout(10), account.watch(resource, "0"):
        return


async def forbidden(account: Cluster) -> None:
    """What an intruder would like to do with the token."""
    for attempt in (
        account.list(SECRETS),
        account.get(SECRETS, HOME, "another"),
        account.get(SECRETS, SPACE, "muster-webhook-certificates"),
        account.delete(POD_CLIQUE_SETS, SPACE, "another"),
        account.delete(CLUSTER_TOPOLOGY_BINDINGS, "", "another"),
        account.delete(DEFINITIONS, "", "podcliquesets.grove.io"),
        account.patch(NODES, "", "rbac-a", {"metadata": {"labels": {"a": "b"}}}),
        account.create(JOBS, {"metadata": {"name": "intruder", "namespace": SPACE}}),
        account.patch(JOBS, SPACE, WORK, {"metadata": {"labels": {"a": "b"}}}),
        account.patch(CONFIGURATIONS[0], "", "another", []),
    ):
        with pytest.raises(ApiError) as raised:
            await attempt
        assert raised.value.status == 403


@pytest.fixture
async def admin(apiserver: ApiServer) -> AsyncIterator[Cluster]:
    client = connect(apiserver.kubeconfig)
    for raw in objects():
        await put(
            client,
            {"PriorityClass": PRIORITY_CLASSES, "StorageClass": STORAGE_CLASSES}.get(raw["kind"]) or resource_of(raw),
            raw,
        )
    await put(client, NODES, objects()[-1])
    status = {"status": objects()[-1]["status"]}
    await client.patch(NODES, "", "rbac-a", status, subresource="status")
    yield client
    await gone(client, JOBS, SPACE, WORK)
    for raw in (await client.list(PODS, SPACE)).items:
        await gone(client, PODS, SPACE, raw["metadata"]["name"])
    for gang in ("low", "high"):
        await gone(client, POD_GROUPS, SPACE, gang)
    for resource, name in (
        (NODES, "rbac-a"),
        (QUEUES, "rbac"),
        (PRIORITY_CLASSES, "rbac-high"),
        (STORAGE_CLASSES, "rbac"),
    ):
        await gone(client, resource, "", name)
    await client.close()


async def test_muster_has_exactly_the_rights_that_it_uses(apiserver: ApiServer, admin: Cluster, tmp_path: Path) -> None:
    """Every verb of the roles in one small scenario; no 403, no right left over, no secret in the log."""
    port = free_port()
    async with installed(admin, port):
        secret = await token(apiserver)
        access = kubeconfig(apiserver, secret)
        async with muster_run(tmp_path, configuration(port, SPACE, grove_rights.SPACE), access) as log:
            await scenario(apiserver, admin)
            await workload(admin)
            await grove_rights.live(admin, queue="rbac")
        account = connect(tmp_path / "kubeconfig")
        await faults(account)
        await grove_rights.read_after_faults(account)
        await later(account, admin)
        await read_owners(account)
        calls = audited(apiserver)
        await forbidden(account)
        await account.close()
    logged = log.read_text(encoding="utf-8")
    refused = {call for call, code in calls if code in (401, 403)}
    assert refused == set()
    assert "forbidden" not in logged.lower()
    left_over = {right for right in granted() if not used(right, [call for call, _ in calls])}
    assert left_over == set(), "granted, but nothing needs it"
    assert secret not in logged
    assert "PRIVATE" not in logged


@pytest.mark.skipif(KUBECTL is None, reason=MISSING)
async def test_kubectl_applies_the_manifests(apiserver: ApiServer, admin: Cluster, tmp_path: Path) -> None:
    """The command of the guide, checked by the API server field by field; nothing is stored."""
    await put(admin, resource_of(manifests("00-namespace.yaml")[0]), manifests("00-namespace.yaml")[0])
    applied = (*OPTIONS, "optional/priorityclasses", "optional/default-queue")
    output = await Kubectl(apiserver.kubeconfig, tmp_path)(
        *("apply", "--dry-run=server", "--validate=strict"),
        *("-f", str(MANIFESTS)),
        *(word for name in applied for word in ("-f", str(MANIFESTS / f"{name}.yaml"))),
    )
    raws = [raw for name in (*FILES, *applied) for raw in manifests(f"{name}.yaml")]
    assert output.count("(server dry run)") == len(raws)

"""Pods that are grouped at admission: the same PodGroup and leaf as the loop would choose, and no write a pod."""

import asyncio
from typing import Any

import msgspec
import pytest

from muster.api.resources import DEPLOYMENTS, JOBS, LEADER_WORKER_SETS, PODS, REPLICA_SETS
from muster.controllers.grouper import pod_admission
from muster.controllers.grouper.pod_admission import PodAdmission
from muster.kube.cluster import Raw
from muster.webhook.pod_review import PodAdmissionRequest, admit_pod, decode_pod_review
from tests.support.live.faults import Call, Fault, Faulty
from tests.support.live.grouping import GroupingWorld, LiveGrouper, reference

LWS = "leaderworkerset.sigs.k8s.io"


async def create(live: LiveGrouper, pod: Raw) -> Raw:
    """Create a pod as an API server does: through the mutating webhook first."""
    raw = {"apiVersion": "v1", "kind": "Pod", **pod}
    kind = {"group": "", "version": "v1", "kind": "Pod"}
    request = {"uid": "r", "kind": kind, "operation": "CREATE", "namespace": "default", "object": raw}
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    decoded = decode_pod_review(msgspec.json.encode(review))
    answer = await admit_pod(decoded, PodAdmission(live.grouper.assigner).mark)
    assert answer.allowed
    for change in msgspec.json.decode(answer.patch) if answer.patch else ():
        raw = apply(raw, change)
    return live.world.store.create(PODS, raw, namespace="default")


def apply(raw: Raw, change: Raw) -> Raw:
    names = [name.replace("~1", "/").replace("~0", "~") for name in change["path"].split("/")[1:]]
    raw = msgspec.json.decode(msgspec.json.encode(raw))
    place: Any = raw
    for name in names[:-1]:
        place = place[name]
    if change["op"] == "remove":
        del place[names[-1]]
    else:
        place[names[-1]] = change["value"]
    return raw


def new_pod(owner: Raw | None, labels: Raw | None = None, **meta: Any) -> Raw:
    references = {"ownerReferences": [reference(owner)]} if owner else {}
    spec = {"schedulerName": "muster", "containers": [{"name": "main", "image": "x"}]}
    return {"metadata": {"labels": labels or {}, **references, **meta}, "spec": spec}


async def test_a_pod_of_a_gang_carries_its_group_and_leaf_from_the_start() -> None:
    world = GroupingWorld()
    template = {"size": 3, "workerTemplate": {}}
    owner = world.create(LEADER_WORKER_SETS, "serve", {"replicas": 1, "leaderWorkerTemplate": template})
    cluster = Faulty(world.memory)
    async with world.grouping(cluster) as live:
        for index in range(3):
            labels = {f"{LWS}/group-index": "0", f"{LWS}/worker-index": str(index)}
            stored = await create(live, new_pod(owner, labels, name=f"serve-0-{index}"))
            assert stored["metadata"]["annotations"]["pod-group-name"] == f"pg-serve-{owner['metadata']['uid']}-group-0"
            assert stored["metadata"]["labels"]["kai.scheduler/subgroup-name"] == ("workers" if index else "leader")
        await live.until(lambda: len(world.groups()) == 1)
        await live.settle()
    assert [line for line in cluster.writes() if " pods " in line] == []
    assert len([line for line in cluster.writes() if " podgroups " in line]) == 1


@pytest.mark.parametrize("has_name", [True, False], ids=["named", "generateName"])
async def test_a_pod_with_a_group_of_its_own_keeps_the_name_of_admission(has_name: bool) -> None:
    """It has neither name nor uid at admission; the loop must not choose another name later."""
    world = GroupingWorld()
    deployment = world.create(DEPLOYMENTS, "web")
    replica_set = world.create(REPLICA_SETS, "web-1", ownerReferences=[reference(deployment)])
    meta: Raw = {"name": "web-1-a"} if has_name else {"generateName": "web-1-"}
    cluster = Faulty(world.memory)
    async with world.grouping(cluster) as live:
        stored = await create(live, new_pod(replica_set, **meta))
        name = stored["metadata"]["annotations"]["pod-group-name"]
        await live.until(lambda: name in world.groups())
        await live.settle()
        assert list(world.groups()) == [name]
        assert world.groups()[name]["metadata"]["ownerReferences"][0]["uid"] == stored["metadata"]["uid"]
    assert [line for line in cluster.writes() if " pods " in line] == []
    async with world.grouping() as live:
        await live.settle()
        assert world.membership()[stored["metadata"]["name"]][0] == name


async def test_two_pods_of_a_job_get_two_names() -> None:
    world = GroupingWorld()
    job = world.create(JOBS, "train")
    async with world.grouping() as live:
        first, second = [await create(live, new_pod(job, generateName="train-")) for _ in range(2)]
        await live.until(lambda: len(world.groups()) == 2)
    assert first["metadata"]["annotations"]["pod-group-name"] != second["metadata"]["annotations"]["pod-group-name"]


async def test_a_pod_whose_owner_the_watch_does_not_have_yet_waits_a_moment() -> None:
    world = GroupingWorld()

    def script(call: Call) -> Fault | None:
        return "late" if call.verb == "event" and call.what == "jobs train" else None

    async with world.grouping(Faulty(world.memory, script)) as live:
        world.pod("first", world.create(JOBS, "other"))
        await live.until(lambda: world.membership()["first"][0])
        job = world.create(JOBS, "train", annotations={"kai.scheduler/batch-min-member": "2"})
        stored = await create(live, new_pod(job, name="train-0"))
        assert stored["metadata"]["annotations"]["pod-group-name"] == f"pg-train-{job['metadata']['uid']}"


async def test_what_is_not_known_in_time_is_left_to_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_admission, "WAIT_SECONDS", 0.05)
    world = GroupingWorld()
    job = world.create(JOBS, "train", annotations={"kai.scheduler/batch-min-member": "2"})
    is_down = True
    cluster = Faulty(world.memory, lambda call: "broken" if "jobs" in call.what and is_down else None)
    async with world.grouping(cluster) as live:
        stored = await create(live, new_pod(job, name="train-0"))
        assert "pod-group-name" not in stored["metadata"].get("annotations", {})
        is_down = False
        await live.until(lambda: world.membership()["train-0"][0])


async def test_foreign_and_hand_grouped_pods_and_updates_are_not_patched() -> None:
    world = GroupingWorld()
    async with world.grouping() as live:
        foreign = new_pod(None, name="foreign")
        foreign["spec"]["schedulerName"] = "default-scheduler"
        hand = new_pod(None, name="hand", annotations={"pod-group-name": "mine"})
        for pod in (foreign, hand):
            stored = await create(live, pod)
            assert "muster.dev/grouped-by" not in stored["metadata"].get("annotations", {})
        update = PodAdmissionRequest(uid="u", operation="UPDATE")
        assert (await admit_pod(update, PodAdmission(live.grouper.assigner).mark)).patch == b""


async def test_a_thousand_pods_that_wait_for_one_owner_are_answered_together() -> None:
    world = GroupingWorld()
    async with world.grouping() as live:
        world.pod("first", world.create(JOBS, "other"))
        await live.until(lambda: world.membership()["first"][0])
        job = world.create(JOBS, "train", annotations={"kai.scheduler/batch-min-member": "2"})
        pods = (create(live, new_pod(job, name=f"train-{index}")) for index in range(1000))
        stored = await asyncio.wait_for(asyncio.gather(*pods), 20)
    assert all("pod-group-name" in pod["metadata"]["annotations"] for pod in stored)

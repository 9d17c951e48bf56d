"""Plain workloads start as gangs: what their PodGroups mean to the scheduler (N, M, G, S)."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import pytest

import muster
from muster.api.resources import POD_GROUPS
from muster.grouping.group import Assignment, build_pod_group
from muster.grouping.types import Owner, WorkloadPod
from tests.support.factories import Raw, node
from tests.support.factories import pod as manifest
from tests.support.owned_pods import assigned, owner, pod

LWS, JOB_SET, TRAINING = "leaderworkerset.sigs.k8s.io", "jobset.sigs.k8s.io", "training.kubeflow.org"


def lws(size: int, **spec: Any) -> Owner:
    raw = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "metadata": {"name": "lws"}}
    segment = spec.pop("segment", 0)
    policy = {"subGroupPolicy": {"subGroupSize": segment}} if segment else {}
    return owner(raw, leaderWorkerTemplate={"size": size} | policy, **spec)


def lws_pods(workers: Iterable[int], group: int = 0) -> list[WorkloadPod]:
    return [pod(f"lws-{group}-{w}", {f"{LWS}/group-index": str(group), f"{LWS}/worker-index": str(w)}) for w in workers]


def bound(workload: Owner, pods: Sequence[WorkloadPod], cpu: int, running: Sequence[str] = ()) -> Counter[str]:
    """How many pods of each leaf are bound on a node with so many CPUs, one for each pod; some may run already."""
    places = {member.metadata.name: assigned(member, workload) for member in pods}
    groups = {each.gang.name: each for each in places.values()}
    objects: list[Raw] = [node("n", cpu=cpu)]
    objects += [_pod_group(each, places.values()) for each in groups.values()]
    for name, each in places.items():
        on, phase = ("n", "Running") if name in running else ("", "")
        objects.append(manifest(name, each.gang.leaf, gang=each.gang.name, on=on, phase=phase, cpu=1))
    plan = muster.plan(muster.objects(objects))
    return Counter(binding.sub_group for binding in plan.bindings)


def _pod_group(assignment: Assignment, members: Iterable[Assignment]) -> Raw:
    present = {each.gang.leaf for each in members if each.gang.name == assignment.gang.name}
    raw: Raw = msgspec.to_builtins(build_pod_group(assignment, present))
    return {"apiVersion": POD_GROUPS.api_version, "kind": POD_GROUPS.kind} | raw


def test_workers_never_start_without_their_leader() -> None:
    """G1: three of four pods fit, and none of them starts."""
    assert bound(lws(4), lws_pods(range(4)), cpu=3) == {}
    assert bound(lws(4), lws_pods(range(4)), cpu=4) == {"leader": 1, "workers": 3}


def test_replicas_start_one_by_one() -> None:
    pods = [*lws_pods(range(3)), *lws_pods(range(3), group=1)]
    assert bound(lws(3), pods, cpu=5) == {"leader": 1, "workers": 2}


@pytest.mark.parametrize("segment", [0, 2])
def test_a_leader_that_its_workers_wait_for_starts_alone(segment: int) -> None:
    """With segments, too."""
    workload = lws(5, startupPolicy="LeaderReady", segment=segment)
    assert bound(workload, lws_pods([0]), cpu=9) == {"leader": 1}


def test_workers_that_waited_for_their_leader_start_together() -> None:
    workload = lws(5, startupPolicy="LeaderReady")
    assert bound(workload, lws_pods(range(5)), cpu=4, running=["lws-0-0"]) == {}
    assert bound(workload, lws_pods(range(5)), cpu=5, running=["lws-0-0"]) == {"workers": 4}


def test_a_leader_that_must_not_start_alone_waits() -> None:
    assert bound(lws(5), lws_pods([0]), cpu=9) == {}


def test_the_first_of_jobs_in_order_starts_before_the_next_exists_and_that_comes_whole() -> None:
    jobs = [{"name": name, "template": {"spec": {"parallelism": n}}} for name, n in (("driver", 1), ("workers", 4))]
    raw = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "js"}}
    workload = owner(raw, replicatedJobs=jobs, startupPolicy={"startupPolicyOrder": "InOrder"})
    labels = f"{JOB_SET}/replicatedjob-name", f"{JOB_SET}/job-index"
    driver = pod("driver", dict(zip(labels, ("driver", "0"), strict=True)))
    workers = [pod(f"w{i}", dict(zip(labels, ("workers", "0"), strict=True))) for i in range(4)]
    assert bound(workload, [driver], cpu=9) == {"driver-replica-0": 1}
    assert bound(workload, [driver, *workers], cpu=4, running=["driver"]) == {}
    assert bound(workload, [driver, *workers], cpu=5, running=["driver"]) == {"workers-replica-0": 4}


def test_an_elastic_job_starts_with_its_minimum_and_grows() -> None:
    """G3: master and two workers are the core, further workers are extras."""
    specs = {"Master": {"replicas": 1}, "Worker": {"replicas": 6}}
    raw = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "fit"}}
    workload = owner(raw, pytorchReplicaSpecs=specs, elasticPolicy={"minReplicas": 3})
    pods = [pod("m", {f"{TRAINING}/replica-type": "master"})]
    pods += [pod(f"w{i}", {f"{TRAINING}/replica-type": "worker"}) for i in range(6)]
    assert bound(workload, pods, cpu=2) == {}
    assert bound(workload, pods, cpu=5) == {"master": 1, "worker": 4}


def test_a_replica_of_several_hosts_is_never_bound_in_part() -> None:
    """G2: with room for the head and one and a half replicas, one replica starts."""
    workers = {"groupName": "tpu", "replicas": 2, "minReplicas": 1, "numOfHosts": 4}
    raw = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "ray"}}
    labels = "ray.io/group", "ray.io/worker-group-replica-index"
    pods = [pod("head", {"ray.io/group": "headgroup"})]
    pods += [pod(f"t{i}", dict(zip(labels, ("tpu", str(i // 4)), strict=True))) for i in range(8)]
    assert bound(owner(raw, workerGroupSpecs=[workers]), pods, cpu=7) == {"headgroup": 1, "tpu-0": 4}


def test_executors_join_their_driver_as_they_fit() -> None:
    labels = {"spark-app-name": "pi", "spark-app-selector": "spark-1"}
    driver = pod("driver", labels | {"spark-role": "driver"})
    application = owner("{apiVersion: sparkoperator.k8s.io/v1beta2, kind: SparkApplication, metadata: {name: pi}}")
    executors = [pod(f"e{i}", labels | {"spark-role": "executor"}) for i in range(5)]
    assert bound(application, [driver, *executors], cpu=3) == {"driver": 1, "executor": 2}
    assert bound(application, [driver, *executors], cpu=1) == {"driver": 1}

"""The pods that the controllers of workloads make (`workloads`) are those that the rules of their kinds expect."""

from collections import Counter, defaultdict
from typing import Any

import pytest

from muster.grouping.group import Assignment, assign, build_pod_group
from muster.grouping.owner_reader import read_owner
from muster.grouping.owners import OwnerChain
from muster.grouping.pod_reader import read_pod
from muster.workloads.expansion import expand
from tests.support.owned_pods import tree

POD = {"schedulerName": "muster", "containers": [{"name": "c", "image": "i"}]}
TEMPLATE = {"template": {"metadata": {"labels": {"app": "w"}}, "spec": POD}}


def role(replicas: int) -> dict[str, Any]:
    return {"replicas": replicas} | TEMPLATE


def job(pods: int) -> dict[str, Any]:
    return {"parallelism": pods, "completions": pods} | TEMPLATE


def workers(name: str, **numbers: int) -> dict[str, Any]:
    return {"groupName": name, "replicas": 2, "maxReplicas": 4, "rayStartParams": {}} | numbers | TEMPLATE


WORKLOADS: dict[
    str, tuple[str, dict[str, Any], dict[str, int]]
] = {  # apiVersion, spec, and how many gangs of each tree
    "Deployment": ("apps/v1", role(3) | {"selector": {"matchLabels": {"app": "w"}}}, {"1": 3}),
    "StatefulSet": ("apps/v1", role(3) | {"selector": {"matchLabels": {"app": "w"}}, "serviceName": "w"}, {"1": 1}),
    "Job": ("batch/v1", job(2), {"1": 2}),
    "LeaderWorkerSet": (
        "leaderworkerset.x-k8s.io/v1",
        {
            "replicas": 2,
            "startupPolicy": "LeaderReady",
            "leaderWorkerTemplate": {
                "size": 5,
                "subGroupPolicy": {"subGroupSize": 2},
                "workerTemplate": TEMPLATE["template"],
            },
        },
        {"2/2, segment-0: 2/2, leader: 1, workers: 2, segment-1: 2": 2},
    ),
    "JobSet": (
        "jobset.x-k8s.io/v1alpha2",
        {
            "startupPolicy": {"startupPolicyOrder": "InOrder"},
            "replicatedJobs": [
                {"name": "a", "replicas": 1, "template": {"spec": job(1)}},
                {"name": "b", "replicas": 2, "template": {"spec": job(3)}},
            ],
        },
        {"1/2, a: 1/1, a-replica-0: 1, b: 2/2, b-replica-0: 3, b-replica-1: 3": 1},
    ),
    "PyTorchJob": (
        "kubeflow.org/v1",
        {"pytorchReplicaSpecs": {"Master": role(1), "Worker": role(5)}, "elasticPolicy": {"minReplicas": 3}},
        {"2/2, master: 1, worker: 2": 1},
    ),
    "TFJob": ("kubeflow.org/v1", {"tfReplicaSpecs": {"PS": role(2), "Worker": role(3)}}, {"2/2, ps: 2, worker: 3": 1}),
    "MPIJob": (
        "kubeflow.org/v2beta1",
        {
            "launcherCreationPolicy": "WaitForWorkersReady",
            "mpiReplicaSpecs": {"Launcher": role(1), "Worker": role(3)},
        },
        {"2/2, launcher: 1, worker: 3": 1},
    ),
    "RayCluster": (
        "ray.io/v1",
        {
            "headGroupSpec": {"rayStartParams": {}} | TEMPLATE,
            "workerGroupSpecs": [workers("cpu", minReplicas=1), workers("tpu", minReplicas=2, numOfHosts=4)],
        },
        {"3/3, headgroup: 1, cpu: 1, tpu: 2/2, tpu-0: 4, tpu-1: 4": 1},
    ),
}


@pytest.mark.parametrize("kind", WORKLOADS)
def test_the_pods_that_controllers_make_find_their_gangs(kind: str) -> None:
    version, spec, expected = WORKLOADS[kind]
    metadata = {"name": "w", "namespace": "team", "uid": "u"}
    gangs: dict[str, list[Assignment]] = defaultdict(list)
    for expanded in expand([{"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}]):
        assignment = assign(read_pod(expanded.pod), OwnerChain(tuple(map(read_owner, expanded.owners))))
        assert isinstance(assignment, Assignment), assignment
        gangs[assignment.gang.name].append(assignment)
    trees = Counter[str]()
    for members in gangs.values():
        leaves = Counter(member.gang.leaf for member in members)
        group = build_pod_group(members[0], leaves.keys())
        minimums = {part.name: part.min_member or 0 for part in group.spec.sub_groups}
        assert all(count >= minimums.get(name, 1) for name, count in leaves.items())
        trees[", ".join(line.strip() for line in tree(group).splitlines())] += 1
    assert trees == expected

"""LeaderWorkerSets: the pods, labels, owners and order that their operator is known for."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.resources import LEADER_WORKER_SETS, PODS, SERVICES, STATEFUL_SETS
from muster.workloads.operators.leader_worker_pods import complete_pod, subgroup_of_worker
from muster.workloads.operators.leader_worker_sets import CONTROLLER
from muster.workloads.types import Raw
from tests.unit.workloads.operators.operator_world import OperatorWorld, condition

P = "leaderworkerset.sigs.k8s.io/"


def leader_worker_set(replicas: int = 1, size: int = 4, **changes: Any) -> Raw:
    """The operator's own sample, with `template` and `spec` changed."""
    container = {"name": "worker", "image": "nginx", "env": [{"name": "HF_HOME", "value": "/cache"}]}
    template: Raw = {
        "size": size,
        "workerTemplate": {"metadata": {"labels": {"app": "llm"}}, "spec": {"containers": [container]}},
        **changes.pop("template", {}),
    }
    metadata = {"name": "llm", **changes.pop("metadata", {})}
    spec = {"replicas": replicas, "leaderWorkerTemplate": template, **changes}
    return {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "metadata": metadata, "spec": spec}


def world(lws: Raw, *, webhooks: bool = True) -> OperatorWorld:
    cluster = OperatorWorld(webhooks=webhooks)
    cluster.add(LEADER_WORKER_SETS, lws)
    return cluster


def lws_of(cluster: OperatorWorld) -> Raw:
    return cluster.get(LEADER_WORKER_SETS, "llm")


def test_a_leader_set_then_a_service_then_leaders_then_their_workers() -> None:
    cluster = world(leader_worker_set(replicas=2, size=3))
    assert cluster.settle() == [
        "StatefulSet llm",
        "Service llm",
        "Pod llm-0",
        "Pod llm-1",
        "StatefulSet llm-0",
        "StatefulSet llm-1",
        "Pod llm-0-1",
        "Pod llm-0-2",
        "Pod llm-1-1",
        "Pod llm-1-2",
    ]


def test_workers_belong_to_their_leader_and_leaders_to_the_set() -> None:
    cluster = world(leader_worker_set(replicas=2, size=3))
    cluster.settle()
    leader = ["StatefulSet llm", "LeaderWorkerSet llm"]
    assert cluster.owners("llm-1") == leader
    assert cluster.owners("llm-1-2") == ["StatefulSet llm-1", "Pod llm-1", *leader]
    assert cluster.get(STATEFUL_SETS, "llm-1")["spec"]["ordinals"] == {"start": 1}


def test_pods_tell_their_set_their_group_and_their_place_in_it() -> None:
    """The group key is the SHA-1 of `<namespace>/<leader>`, as the operator writes it."""
    cluster = world(leader_worker_set(replicas=2, size=3))
    cluster.settle()
    leader, worker = cluster.labels("llm-1"), cluster.labels("llm-1-2")
    revision = leader[P + "template-revision-hash"]
    shared = {
        "app": "llm",
        P + "name": "llm",
        P + "group-index": "1",
        P + "group-key": "ec3a9add31a3b44f7f7b5c7e77596f1c20d1a026",
        P + "template-revision-hash": revision,
    }
    assert leader == {**shared, P + "worker-index": "0"}
    assert worker == {**shared, P + "worker-index": "2"}
    assert cluster.get(PODS, "llm-1")["metadata"]["annotations"] == {P + "size": "3"}
    assert cluster.get(PODS, "llm-1-2")["metadata"]["annotations"] == {P + "size": "3", P + "leader-name": "llm-1"}


def test_environment_variables_come_first_and_those_of_the_user_stay() -> None:
    cluster = world(leader_worker_set(size=2))
    cluster.settle()
    variables = cluster.get(PODS, "llm-0-1")["spec"]["containers"][0]["env"]
    assert [(variable["name"], variable["value"]) for variable in variables] == [
        ("LWS_LEADER_ADDRESS", "llm-0.llm.team"),
        ("LWS_GROUP_SIZE", "2"),
        ("LWS_WORKER_INDEX", "1"),
        ("HF_HOME", "/cache"),
    ]


def test_a_leader_template_is_for_leaders_only() -> None:
    leader = {"metadata": {"labels": {"role": "leader"}}, "spec": {"containers": [{"name": "leader"}]}}
    cluster = world(leader_worker_set(size=2, template={"leaderTemplate": leader}))
    cluster.settle()
    assert cluster.labels("llm-0")["role"] == "leader"
    assert "role" not in cluster.labels("llm-0-1")
    assert cluster.get(PODS, "llm-0-1")["spec"]["containers"][0]["name"] == "worker"


def test_a_group_of_one_has_no_workers_and_no_worker_set() -> None:
    cluster = world(leader_worker_set(replicas=2, size=1))
    cluster.settle(runs_pods=True)
    assert cluster.pods() == ["llm-0", "llm-1"]
    assert cluster.names(STATEFUL_SETS) == ["llm"]
    assert condition(lws_of(cluster), "Available") == "True AllGroupsReady"


def test_a_set_of_no_replicas_has_no_pods() -> None:
    cluster = world(leader_worker_set(replicas=0))
    cluster.settle()
    assert cluster.pods() == []


def test_with_leader_ready_workers_wait_for_a_ready_leader() -> None:
    cluster = world(leader_worker_set(replicas=2, size=3, startupPolicy="LeaderReady"))
    cluster.settle()
    assert cluster.pods() == ["llm-0", "llm-1"]
    cluster.set_pods("Running", "llm-0", ready=False)
    assert cluster.settle() == []
    cluster.run_pods("llm-0")
    assert cluster.settle() == ["StatefulSet llm-0", "Pod llm-0-1", "Pod llm-0-2"]


def test_with_exclusive_topology_workers_wait_for_the_node_of_their_leader() -> None:
    cluster = world(leader_worker_set(size=2, metadata={"annotations": {P + "exclusive-topology": "rack"}}))
    cluster.settle()
    assert cluster.pods() == ["llm-0"]
    leader = cluster.get(PODS, "llm-0")
    terms = leader["spec"]["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert [term["topologyKey"] for term in terms] == ["rack"]
    leader["spec"]["nodeName"] = "n1"
    assert cluster.settle() == ["StatefulSet llm-0", "Pod llm-0-1"]
    assert cluster.get(PODS, "llm-0-1")["metadata"]["annotations"][P + "exclusive-topology"] == "rack"


# subgroups


@pytest.mark.parametrize(
    ("size", "subgroup_size", "workers"),
    [
        (5, 2, [0, 0, 1, 1]),  # workers fill subgroups: the leader is extra
        (4, 2, [0, 1, 1]),  # the leader fills the first one
        (5, 4, [0, 0, 0, 0]),
        (6, 4, [0, 0, 0, 1, 1]),
        (8, 8, [0, 0, 0, 0, 0, 0, 0]),
    ],
)
def test_workers_are_dealt_to_subgroups_in_order(size: int, subgroup_size: int, workers: list[int]) -> None:
    assert [subgroup_of_worker(size, subgroup_size, worker) for worker in range(1, size)] == workers


def test_subgroups_stand_in_labels_and_their_size_in_an_annotation() -> None:
    cluster = world(leader_worker_set(size=5, template={"subGroupPolicy": {"subGroupSize": 2}}))
    cluster.settle()
    subgroups = {pod: cluster.labels(pod)[P + "subgroup-index"] for pod in cluster.pods()}
    assert subgroups == {"llm-0": "0", "llm-0-1": "0", "llm-0-2": "0", "llm-0-3": "1", "llm-0-4": "1"}
    keys = {
        index: {cluster.labels(pod)[P + "subgroup-key"] for pod, at in subgroups.items() if at == index}
        for index in "01"
    }
    assert [len(key) for key in keys.values()] == [1, 1]
    assert keys["0"] != keys["1"]
    annotations = cluster.get(PODS, "llm-0")["metadata"]["annotations"]
    assert annotations[P + "subgroup-size"] == "2"
    assert annotations[P + "subgroup-policy-type"] == "LeaderWorker"
    assert P + "subgroup-policy-type" not in cluster.get(PODS, "llm-0-1")["metadata"]["annotations"]


def test_an_excluded_leader_is_in_no_subgroup() -> None:
    policy = {"subGroupSize": 2, "subGroupPolicyType": "LeaderExcluded"}
    cluster = world(leader_worker_set(size=5, template={"subGroupPolicy": policy}))
    cluster.settle()
    assert P + "subgroup-index" not in cluster.labels("llm-0")
    assert cluster.labels("llm-0-4")[P + "subgroup-index"] == "1"


# pods made without the webhook


def test_pods_that_no_webhook_completed_get_their_labels_afterwards() -> None:
    """On a real API server kube-controller-manager makes the pods, and the operator's webhook does not run."""
    wanted = world(leader_worker_set(size=3, template={"subGroupPolicy": {"subGroupSize": 2}}))
    late = world(leader_worker_set(size=3, template={"subGroupPolicy": {"subGroupSize": 2}}), webhooks=False)
    wanted.settle()
    late.settle()
    assert {pod: late.labels(pod) for pod in late.pods()} == {pod: wanted.labels(pod) for pod in wanted.pods()}


def test_completing_a_pod_twice_changes_nothing() -> None:
    cluster = world(leader_worker_set(size=3, metadata={"annotations": {P + "exclusive-topology": "rack"}}))
    cluster.settle()
    pod = cluster.get(PODS, "llm-0")
    assert complete_pod(pod) == pod


@pytest.mark.parametrize("metadata", [{"name": "x-0"}, {"name": "x-0", "labels": {P + "name": "x"}}])
def test_other_pods_are_left_as_they_are(metadata: Raw) -> None:
    pod = {"metadata": metadata, "spec": {"containers": [{}]}}
    assert complete_pod(pod) == pod


# scale, restarts, updates


def test_scaling_down_takes_the_last_groups_with_their_workers() -> None:
    cluster = world(leader_worker_set(replicas=3, size=2))
    cluster.settle()
    cluster.merge(LEADER_WORKER_SETS, "llm", {"spec": {"replicas": 1}})
    cluster.settle()
    assert cluster.pods() == ["llm-0", "llm-0-1"]


def test_scaling_up_and_down_ends_where_it_began() -> None:
    cluster = world(leader_worker_set(replicas=2, size=3))
    cluster.settle(runs_pods=True)
    before = cluster.pods()
    for replicas in (5, 2):
        cluster.merge(LEADER_WORKER_SETS, "llm", {"spec": {"replicas": replicas}})
        cluster.settle(runs_pods=True)
    assert cluster.pods() == before
    assert lws_of(cluster)["status"]["replicas"] == 2


@pytest.mark.parametrize("pod", ["llm-0", "llm-0-1"])
def test_a_restarted_container_recreates_its_whole_group(pod: str) -> None:
    cluster = world(leader_worker_set(replicas=2, size=2))
    cluster.settle(runs_pods=True)
    uids = {name: cluster.get(PODS, name)["metadata"]["uid"] for name in cluster.pods()}
    cluster.set_pods("Running", pod, containerStatuses=[{"restartCount": 1}])
    cluster.settle(runs_pods=True)
    kept = [name for name, uid in uids.items() if cluster.get(PODS, name)["metadata"]["uid"] == uid]
    assert kept == ["llm-1", "llm-1-1"]


def test_with_restart_policy_none_a_group_outlives_a_restart() -> None:
    cluster = world(leader_worker_set(size=2, template={"restartPolicy": "None"}))
    cluster.settle(runs_pods=True)
    uid = cluster.get(PODS, "llm-0")["metadata"]["uid"]
    cluster.set_pods("Running", "llm-0-1", containerStatuses=[{"restartCount": 1}])
    assert cluster.settle() == []
    assert cluster.get(PODS, "llm-0")["metadata"]["uid"] == uid


def test_a_worker_that_is_being_deleted_recreates_its_group() -> None:
    cluster = world(leader_worker_set(size=3))
    cluster.settle(runs_pods=True)
    cluster.merge(PODS, "llm-0-2", {"metadata": {"deletionTimestamp": "2026-05-04T12:00:00Z"}})
    assert [line for line in cluster.settle() if line.startswith("Pod")] == ["Pod llm-0", "Pod llm-0-1", "Pod llm-0-2"]


def test_a_leader_that_is_being_deleted_gets_no_workers() -> None:
    cluster = world(leader_worker_set(size=3, startupPolicy="LeaderReady"))
    cluster.settle()
    cluster.run_pods("llm-0")
    cluster.merge(PODS, "llm-0", {"metadata": {"deletionTimestamp": "2026-05-04T12:00:00Z"}})
    assert cluster.settle() == []


def test_a_new_template_replaces_the_groups_one_after_the_other_last_first() -> None:
    cluster = world(leader_worker_set(replicas=3, size=2))
    cluster.settle(runs_pods=True)
    template = {"workerTemplate": {"metadata": {"labels": {"app": "llm", "version": "2"}}}}
    cluster.merge(LEADER_WORKER_SETS, "llm", {"spec": {"leaderWorkerTemplate": template}})
    created = [line for line in cluster.settle(runs_pods=True) if line.startswith("Pod")]
    assert created == ["Pod llm-2", "Pod llm-2-1", "Pod llm-1", "Pod llm-1-1", "Pod llm-0", "Pod llm-0-1"]
    assert {cluster.labels(pod)["version"] for pod in cluster.pods()} == {"2"}
    assert lws_of(cluster)["status"]["updatedReplicas"] == 3
    assert condition(lws_of(cluster), "UpdateInProgress").startswith("False")
    assert condition(lws_of(cluster), "Available").startswith("True")
    assert cluster.get(STATEFUL_SETS, "llm")["spec"]["updateStrategy"]["rollingUpdate"]["partition"] == 0


def test_surge_groups_come_before_the_update_and_go_after_it() -> None:
    strategy = {"rollingUpdateConfiguration": {"maxSurge": 1, "maxUnavailable": 0}}
    cluster = world(leader_worker_set(replicas=2, size=2, rolloutStrategy=strategy))
    cluster.settle(runs_pods=True)
    template = {"workerTemplate": {"metadata": {"labels": {"version": "2"}}}}
    cluster.merge(LEADER_WORKER_SETS, "llm", {"spec": {"leaderWorkerTemplate": template}})
    created = [line for line in cluster.settle(runs_pods=True) if line.startswith("Pod")]
    assert created[:2] == ["Pod llm-2", "Pod llm-2-1"]
    assert cluster.pods() == ["llm-0", "llm-0-1", "llm-1", "llm-1-1"]
    assert {cluster.labels(pod)["version"] for pod in cluster.pods()} == {"2"}


def test_groups_below_the_partition_keep_their_template() -> None:
    strategy = {"rollingUpdateConfiguration": {"partition": 1, "maxUnavailable": 1}}
    cluster = world(leader_worker_set(replicas=2, size=1, rolloutStrategy=strategy))
    cluster.settle(runs_pods=True)
    template = {"workerTemplate": {"metadata": {"labels": {"version": "2"}}}}
    cluster.merge(LEADER_WORKER_SETS, "llm", {"spec": {"leaderWorkerTemplate": template}})
    cluster.settle(runs_pods=True)
    assert [cluster.labels(pod).get("version") for pod in cluster.pods()] == [None, "2"]


# status


def test_status_counts_groups_whose_leader_and_workers_are_ready() -> None:
    cluster = world(leader_worker_set(replicas=2, size=2))
    cluster.settle()
    assert condition(lws_of(cluster), "Progressing") == "True GroupsProgressing"
    cluster.run_pods("llm-0", "llm-0-1", "llm-1")
    cluster.settle()
    status = lws_of(cluster)["status"]
    assert (status["replicas"], status["readyReplicas"], status["updatedReplicas"]) == (2, 1, 2)
    cluster.run_pods()
    cluster.settle()
    assert lws_of(cluster)["status"]["readyReplicas"] == 2
    assert condition(lws_of(cluster), "Available") == "True AllGroupsReady"
    assert condition(lws_of(cluster), "Progressing").startswith("False")
    assert lws_of(cluster)["status"]["hpaPodSelector"] == f"{P}name=llm,{P}worker-index=0"


def test_each_replica_has_a_service_of_its_own_where_the_policy_asks() -> None:
    cluster = world(leader_worker_set(replicas=2, size=2, networkConfig={"subdomainPolicy": "UniquePerReplica"}))
    cluster.settle()
    assert cluster.names(SERVICES) == ["llm-0", "llm-1"]
    assert cluster.get(PODS, "llm-1")["spec"]["subdomain"] == "llm-1"
    assert cluster.get(PODS, "llm-1-1")["spec"]["subdomain"] == "llm-1"


def test_a_set_that_is_being_deleted_is_left_to_the_garbage_collector() -> None:
    lws = leader_worker_set(metadata={"deletionTimestamp": "2026-05-04T12:00:00Z"})
    cluster = world(lws)
    assert cluster.settle() == []


@given(
    spec=st.recursive(
        st.none() | st.booleans() | st.sampled_from((-1, 0, 1, 3, 10**12)) | st.text(),
        lambda inner: st.dictionaries(
            st.sampled_from(
                (
                    "replicas",
                    "leaderWorkerTemplate",
                    "size",
                    "workerTemplate",
                    "metadata",
                    "labels",
                    "spec",
                    "subGroupPolicy",
                    "subGroupSize",
                    "rolloutStrategy",
                )
            ),
            inner,
        ),
        max_leaves=8,
    )
)
def test_garbage_in_the_spec_never_raises(spec: Any) -> None:
    cluster = OperatorWorld()
    raw = cluster.add(LEADER_WORKER_SETS, {**leader_worker_set(), "spec": spec})
    CONTROLLER.reconcile(raw, cluster, cluster.now)

"""RayCluster, and RayJob and RayService above it: the head and every group of workers."""

from typing import Any

import pytest

from muster.grouping.types import Owner, WorkloadPod
from tests.support.owned_pods import assigned, grouped, labelled, leaf, owner, picture, pod, tree, ungrouped


def workers(name: str = "gpu", replicas: int | None = 2, least: int | None = None, **more: Any) -> dict[str, Any]:
    group = {"groupName": name, "template": {"spec": {}}} | ({} if replicas is None else {"replicas": replicas})
    return group | ({} if least is None else {"minReplicas": least}) | more


def cluster(*groups: dict[str, Any], head: dict[str, Any] | None = None, **spec: Any) -> Owner:
    raw = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "ray"}}
    return owner(raw, headGroupSpec={"template": head or {}}, workerGroupSpecs=list(groups), **spec)


def member(group: str = "headgroup", replica: int | None = None, host: int = 0) -> WorkloadPod:
    labels = {"ray.io/cluster": "ray", "ray.io/group": group}
    indexes = {"ray.io/worker-group-replica-index": str(replica), "ray.io/replica-host-index": str(host)}
    return pod(f"ray-{group}-{replica}-{host}", labels | ({} if replica is None else indexes))


def test_a_cluster_is_its_head_and_its_groups() -> None:
    group = grouped(member(), cluster(workers("gpu", 3), workers("cpu", 5, 2)))
    assert group.metadata.name == "pg-ray-uid-ray"
    assert tree(group) == picture("""
        3/3
          headgroup: 1
          gpu: 3
          cpu: 2
    """)
    assert leaf(member("gpu"), cluster(workers("gpu"))) == "gpu"


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        (workers(replicas=4, least=0), "4"),  # a minimum of 0 counts as none
        (workers(replicas=2, least=3), "3"),  # the operator makes at least the minimum
        (workers(replicas=None, least=3), "3"),
        (workers(replicas=9, maxReplicas=5), "5"),
        (workers(replicas=5, least=5), "5"),
    ],
)
def test_a_group_needs_its_minimum_else_what_the_operator_makes(group: dict[str, Any], expected: str) -> None:
    assert f"gpu: {expected}" in tree(grouped(member(), cluster(group)))


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ((workers(replicas=4),), "1/2 headgroup: 1 gpu: 1"),  # the autoscaler asked for 4: they join one by one
        ((workers(replicas=4, least=0),), "1/2 headgroup: 1 gpu: 1"),
        ((workers(replicas=4, least=2),), "2/2 headgroup: 1 gpu: 2"),
        ((workers(replicas=0, least=2),), "2/2 headgroup: 1 gpu: 2"),
        ((workers("a", 3), workers("b", 2, 2)), "2/3 headgroup: 1 b: 2 a: 1"),  # extras come last
        ((workers(replicas=3, numOfHosts=2),), "1/2 headgroup: 1 gpu: 1/3 gpu-0: 2 gpu-1: 2 gpu-2: 2"),
    ],
)
def test_an_autoscaled_group_needs_its_minimum_and_no_more(groups: tuple[dict[str, Any], ...], expected: str) -> None:
    """A cluster that runs would be stale, and evicted after a minute, whenever its autoscaler asks for more (S2)."""
    group = grouped(member(), cluster(*groups, enableInTreeAutoscaling=True))
    assert " ".join(tree(group).split()) == expected


def test_workers_that_an_autoscaler_does_not_want_any_more_keep_their_leaf_until_they_are_gone() -> None:
    """KubeRay removes only those that the autoscaler names; without its leaf, one would count for no group (N4)."""
    workload = cluster(workers(replicas=0), enableInTreeAutoscaling=True)
    assert leaf(member("gpu"), workload) == "gpu"
    assert (
        " ".join(tree(grouped(member(), workload, present={"headgroup", "gpu"})).split()) == "1/2 headgroup: 1 gpu: 1"
    )
    assert tree(grouped(member(), workload, present={"headgroup"})) == "1/1\n  headgroup: 1"
    suspended = cluster(workers(replicas=0, suspend=True), enableInTreeAutoscaling=True)
    assert ungrouped(member("gpu"), suspended).reason == "NoSuchGroup"


def test_an_autoscaler_raises_no_minimum() -> None:
    before, after = (
        grouped(member(), cluster(workers(replicas=count), enableInTreeAutoscaling=True)) for count in (1, 9)
    )
    assert before == after


@pytest.mark.parametrize("empty", [workers(replicas=0), workers(replicas=None), workers(least=1, suspend=True)])
def test_empty_and_suspended_groups_are_left_out(empty: dict[str, Any]) -> None:
    assert tree(grouped(member(), cluster(empty))) == "1/1\n  headgroup: 1"


def test_replicas_of_several_hosts_come_whole_or_not_at_all() -> None:
    workload = cluster(workers("tpu", 3, 2, numOfHosts=4))
    assert tree(grouped(member(), workload)) == picture("""
        2/2
          headgroup: 1
          tpu: 2/3
            tpu-0: 4
            tpu-1: 4
            tpu-2: 4
    """)
    assert leaf(member("tpu", 2, 3), workload) == "tpu-2"


@pytest.mark.parametrize("is_autoscaled", [True, False])
def test_a_replica_keeps_its_leaf_when_one_before_it_is_removed(is_autoscaled: bool) -> None:
    """Indexes are not shifted, and KubeRay removes replicas in no order: of 8, replicas 5 and 7 may remain."""
    workload = cluster(workers("tpu", 2, 2, numOfHosts=4, maxReplicas=2), enableInTreeAutoscaling=is_autoscaled)
    assert leaf(member("tpu", 7), workload) == "tpu-7"
    assert tree(grouped(member(), workload, present={"headgroup", "tpu-5", "tpu-7"})) == picture("""
        2/2
          headgroup: 1
          tpu: 2/4
            tpu-0: 4
            tpu-1: 4
            tpu-5: 4
            tpu-7: 4
    """)
    assert tree(grouped(member(), workload, present={"headgroup"})).endswith("tpu: 2/2\n    tpu-0: 4\n    tpu-1: 4")


def test_indexes_far_beyond_the_replicas_are_said() -> None:
    assert ungrouped(member("tpu", 10**6), cluster(workers("tpu", 2, numOfHosts=4))).reason == "NoSuchGroup"


def test_spare_leaves_do_not_make_a_cluster_too_large() -> None:
    largest = cluster(workers("a", 4_998, numOfHosts=2), workers("b", 4_998, numOfHosts=2))
    assert leaf(member("b", 4_997), largest) == "b-4997"
    assert len(grouped(member(), largest, present={"headgroup"}).spec.sub_groups) == 9_999


def test_pods_without_an_index_make_a_group_of_hosts_one_leaf() -> None:
    """An operator without multi-host indexing leaves open which replica a pod belongs to."""
    workload = cluster(workers("tpu", 3, 2, numOfHosts=4), workers("cpu", 1))
    assert leaf(member("tpu"), workload) == "tpu"
    group = grouped(member("tpu"), workload, present={"headgroup", "tpu"})
    assert tree(group) == "3/3\n  headgroup: 1\n  tpu: 8\n  cpu: 1"


def test_pods_with_an_index_find_their_replicas_beside_pods_that_are_older_than_indexes() -> None:
    """KubeRay 1.6 indexes by default: after an upgrade it makes whole replicas beside the workers that run."""
    workload = cluster(workers("tpu", 2, 2, numOfHosts=4))
    group = grouped(member("tpu", 1), workload, present={"headgroup", "tpu", "tpu-0", "tpu-1"})
    assert " ".join(tree(group).split()) == "2/2 headgroup: 1 tpu: 2/2 tpu-0: 4 tpu-1: 4"


def test_an_index_of_single_hosts_changes_nothing() -> None:
    assert leaf(member("gpu", 1), cluster(workers("gpu", 2))) == "gpu"


def test_templates_may_state_the_topology_of_a_group() -> None:
    template = {"metadata": {"annotations": {"kai.scheduler/topology-required-placement": "rack"}}}
    workload = cluster(workers(replicas=2, template=template, numOfHosts=2), head=template)
    assert tree(grouped(member(), workload)).splitlines()[1:3] == ["  headgroup: 1 @rack", "  gpu: 2/2 @rack"]


@pytest.mark.parametrize("kind", ["RayJob", "RayService"])
def test_what_owns_a_cluster_adds_labels_and_the_cluster_has_the_podgroup(kind: str) -> None:
    """A RayService replaces its cluster by another: each is a gang of its own."""
    top = labelled(owner({"apiVersion": "ray.io/v1", "kind": kind, "metadata": {"name": "top"}}), queue="blue")
    group = grouped(member(), cluster(workers()), top)
    assert group.metadata.name == "pg-ray-uid-ray"
    assert group.metadata.owner_references[0].kind == "RayCluster"
    assert group.spec.queue == "blue"
    assert assigned(member(), cluster(workers()), top).rule == "RayCluster"


def test_the_submitter_of_a_ray_job_is_a_job_by_itself() -> None:
    """It waits for the cluster: as a part of its gang, both would wait."""
    top = owner("{apiVersion: ray.io/v1, kind: RayJob, metadata: {name: top}}")
    submitter = owner("{apiVersion: batch/v1, kind: Job, metadata: {name: top}}")
    assert grouped(pod("top-x"), submitter, top).metadata.name == "pg-top-x-uid-top"


def test_what_cleans_up_after_a_cluster_starts_alone() -> None:
    """Its pod looks like the head's; as a part of the gang it would wait for workers that are gone."""
    job = owner("{apiVersion: batch/v1, kind: Job, metadata: {name: ray-redis-cleanup}}")
    cleanup = pod("ray-x", {"ray.io/group": "headgroup", "ray.io/node-type": "redis-cleanup"})
    group = grouped(cleanup, job, cluster(workers()))
    assert (group.metadata.name, tree(group)) == ("pg-ray-x-uid-ray-x", "1")


def test_the_label_of_ray_names_the_priority_class() -> None:
    top = owner("{apiVersion: ray.io/v1, kind: RayJob, metadata: {name: top}}")
    named = labelled(top, **{"ray.io/priority-class-name": "high"})
    assert grouped(member(), cluster(workers()), named).spec.priority_class_name == "high"


def test_a_pod_without_its_group_is_said() -> None:
    assert ungrouped(pod(), cluster(workers())).reason == "LabelMissing"
    assert ungrouped(member("gone"), cluster(workers())).reason == "NoSuchGroup"


def test_a_billion_replicas_are_said() -> None:
    assert ungrouped(member(), cluster(workers(replicas=10**9, numOfHosts=2))).reason == "TooLarge"

"""Objects in files with the pods and PodGroups that their workloads will have."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import muster
from muster.api import names
from muster.api.decoding import encode
from muster.grouping.manifests.group_objects import group_objects
from muster.grouping.manifests.settings import GroupingSettings
from muster.grouping.manifests.types import GroupedObjects
from muster.validation.check import check, errors
from tests.unit.grouping.manifests.manifest_examples import (
    EXAMPLES,
    Raw,
    as_cluster,
    deployment,
    example,
    job,
    lws,
    manifest,
    pod,
    pytorch_job,
    reference,
    template,
)


def grouped(*raws: Raw, **settings: object) -> GroupedObjects:
    return group_objects(muster.objects(raws), GroupingSettings(**settings))  # type: ignore[arg-type]


def summary(answer: GroupedObjects) -> dict[str, dict[str, int]]:
    return {gang.key: dict(gang.pods) for gang in answer.gangs}


POD_GROUP = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup"}
each_example = pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)


# what a manifest becomes --------------------------------------------------------------------------------------------


def test_a_leader_worker_set_becomes_one_pod_group_a_replica() -> None:
    assert summary(grouped(lws(replicas=2, size=4))) == {
        "default/pg-llm-leaderworkerset-group-0": {"leader": 1, "workers": 3},
        "default/pg-llm-leaderworkerset-group-1": {"leader": 1, "workers": 3},
    }


def test_every_minimum_names_its_source() -> None:
    (gang,) = grouped(pytorch_job(workers=3)).gangs
    assert {(each.group, each.value, each.source) for each in gang.minimums} == {
        ("", 2, "all of them"),
        ("master", 1, "spec.pytorchReplicaSpecs.Master.replicas"),
        ("worker", 3, "spec.pytorchReplicaSpecs.Worker.replicas"),
    }


def test_future_pods_carry_what_the_live_loop_writes() -> None:
    """So that planning reads them as pods of a cluster (N3)."""
    pods = grouped(pytorch_job(workers=1)).objects.pods
    assert [(each.metadata.annotations[names.POD_GROUP], each.metadata.labels[names.SUBGROUP]) for each in pods] == [
        ("pg-mnist-pytorchjob", "master"),
        ("pg-mnist-pytorchjob", "worker"),
    ]
    assert {each.metadata.annotations[names.GROUPED_BY] for each in pods} == {"PyTorchJob"}


def test_what_does_not_exist_has_no_uid_and_owns_nothing() -> None:
    """A PodGroup with an owner that the cluster does not have would be collected at once."""
    answer = grouped(lws(), deployment(), job())
    assert all(not gang.pod_group.metadata.owner_references for gang in answer.gangs)
    assert all(not each.metadata.uid for each in answer.objects.pods)


def test_a_workload_of_a_cluster_keeps_its_uid() -> None:
    (gang,) = grouped(lws(replicas=1, uid="7f3a")).gangs
    assert gang.key == "default/pg-llm-7f3a-group-0"
    assert [owner.uid for owner in gang.pod_group.metadata.owner_references] == ["7f3a"]


@pytest.mark.parametrize(("classes", "expected"), [((), ""), (("inference",), "inference")])
def test_the_class_of_a_kind_counts_where_it_exists(classes: tuple[str, ...], expected: str) -> None:
    existing = [
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": 125}
        for name in classes
    ]
    (gang,) = grouped(deployment(replicas=1), *existing).gangs
    assert gang.pod_group.spec.priority_class_name == expected


@each_example
def test_every_pod_of_an_example_is_in_exactly_one_leaf(path: Path) -> None:
    answer = grouped(*example(path))
    assert not answer.ungrouped
    assert sum(sum(gang.pods.values()) for gang in answer.gangs) == len(answer.objects.pods)


@each_example
def test_the_pod_groups_of_an_example_are_valid(path: Path) -> None:
    for gang in grouped(*example(path)).gangs:
        assert not list(errors(check({**POD_GROUP, **encode(gang.pod_group)})))


# pods that exist ----------------------------------------------------------------------------------------------------


@each_example
def test_pods_that_exist_count_instead_of_future_ones(path: Path) -> None:
    """A capture with workloads and their pods does not get the pods twice, though it lacks what is between them."""
    manifests = [raw for raw in example(path) if raw["kind"] != "Pod"]
    first = grouped(*example(path))
    second = grouped(*manifests, *as_cluster(first.objects))
    assert len(second.objects.pods) == len(first.objects.pods)
    assert summary(second) == summary(first)


@each_example
def test_objects_that_are_grouped_stay_as_they_are(path: Path) -> None:
    once = grouped(*example(path)).objects
    assert group_objects(once).objects is once


def test_a_manifest_without_uid_is_the_one_that_pods_name() -> None:
    """`kubectl get pods` beside the manifest in a repository."""
    owner = reference("Job", "batch/v1", "train", "4711")
    answer = grouped(job(pods=3, uid=""), pod("train-a", owner), pod("train-b", owner))
    assert len(answer.objects.pods) == 3
    assert all(gang.key.endswith("-4711") for gang in answer.gangs)


def test_a_deployment_counts_pods_whose_replica_set_is_not_given() -> None:
    owner = reference("ReplicaSet", "apps/v1", "web-5d4f", "rs")
    existing = [pod(f"web-5d4f-{i}", owner) for i in range(2)]
    for raw in existing:
        raw["metadata"]["labels"] = {"app": "main", "pod-template-hash": "5d4f"}
    answer = grouped(deployment(replicas=3), *existing)
    assert len(answer.objects.pods) == 3
    assert {gang.workload.kind for gang in answer.gangs} == {"Deployment"}


def test_a_deployment_counts_pods_of_a_template_that_an_api_server_filled_in() -> None:
    """The manifest of a repository beside the ReplicaSet and the pods of a cluster."""
    filled = template(dnsPolicy="ClusterFirst", restartPolicy="Always", terminationGracePeriodSeconds=30)
    filled["metadata"]["labels"]["pod-template-hash"] = "5d4f"
    metadata = {
        "uid": "rs",
        "labels": {"app": "main", "pod-template-hash": "5d4f"},
        "ownerReferences": [{**reference("Deployment", "apps/v1", "web", "d"), "controller": True}],
    }
    replica_set = manifest("ReplicaSet", "apps/v1", "web-5d4f", {"replicas": 3, "template": filled}, **metadata)
    existing = [pod(f"web-5d4f-{i}", reference("ReplicaSet", "apps/v1", "web-5d4f", "rs")) for i in range(3)]
    answer = grouped(deployment(replicas=4), replica_set, *existing)
    assert len(answer.objects.pods) == 4
    assert {gang.workload.kind for gang in answer.gangs} == {"Deployment"}


@pytest.mark.parametrize("name", ["stateful-set", "leader-worker-set", "leader-worker-set-segments"])
def test_pods_of_another_revision_are_not_planned_twice(name: str) -> None:
    """Hashes are those of the cluster: controllers here would replace the pods by others of the same names."""
    raws = example(EXAMPLES / f"{name}.yaml")
    first = grouped(*raws)
    captured = as_cluster(first.objects)
    for raw in captured:
        labels = raw["metadata"]["labels"]
        labels |= {label: "7c9f" for label in labels if label.endswith("revision-hash")}
    second = grouped(*raws, *captured)
    assert sorted(each.metadata.name for each in second.objects.pods) == sorted(
        each.metadata.name for each in first.objects.pods
    )
    assert summary(second) == summary(first)


def test_a_pod_whose_owner_is_not_given_is_reported_with_the_way_out() -> None:
    answer = grouped(pod("lost", reference("Job", "batch/v1", "gone", "1")))
    assert [(each.pods, each.why.reason) for each in answer.ungrouped] == [(("default/lost",), "OwnerNotFound")]
    assert "add its manifest" in answer.ungrouped[0].why.hint


def test_a_pod_of_an_unlisted_kind_is_grouped_with_a_note() -> None:
    answer = grouped(pod("a", reference("Rollout", "argoproj.io/v1alpha1", "web", "1")))
    assert len(answer.gangs) == 1
    assert [note.why.reason for note in answer.notes] == ["OwnerNotListed"]


def test_owner_references_in_a_circle_are_reported() -> None:
    first = job("a", ownerReferences=[{**reference("Job", "batch/v1", "b", "B"), "controller": True}], uid="A")
    second = job("b", ownerReferences=[{**reference("Job", "batch/v1", "a", "A"), "controller": True}], uid="B")
    answer = grouped(first, second)
    assert {each.why.reason for each in answer.ungrouped} == {"OwnersWithoutEnd"}


# what is left alone -------------------------------------------------------------------------------------------------


def test_hand_written_pod_groups_are_left_alone() -> None:
    group = {**POD_GROUP, "metadata": {"name": "mine", "namespace": "default"}, "spec": {"minMember": 1}}
    member = pod("a")
    member["metadata"]["annotations"] = {names.POD_GROUP: "mine"}
    objects = muster.objects([group, member])
    assert group_objects(objects).objects is objects


def test_a_template_that_names_a_pod_group_joins_it() -> None:
    raw = job(pods=2)
    raw["spec"]["template"]["metadata"]["annotations"] = {names.POD_GROUP: "mine"}
    answer = grouped(raw)
    assert not answer.gangs
    assert {each.metadata.annotations[names.POD_GROUP] for each in answer.objects.pods} == {"mine"}


def test_pods_of_other_schedulers_are_not_grouped() -> None:
    answer = grouped(manifest("Job", "batch/v1", "other", {"template": template(schedulerName="volcano")}))
    assert not answer.gangs
    assert not answer.ungrouped
    assert dict(answer.expanded[0].schedulers) == {"volcano": 1}


def test_a_pod_that_runs_and_names_no_scheduler_is_anyones() -> None:
    """In files such pods only use their nodes, as before there was a grouper."""
    objects = muster.objects([pod("busy", schedulerName="", nodeName="n1")])
    assert group_objects(objects).objects is objects


def test_a_suspended_job_has_no_pods() -> None:
    raw = job()
    raw["spec"]["suspend"] = True
    answer = grouped(raw)
    assert [(each.pods, each.has_controller) for each in answer.expanded] == [(0, True)]


def test_a_kind_whose_pods_are_not_made_here_is_named() -> None:
    answer = grouped(manifest("SparkApplication", "sparkoperator.k8s.io/v1beta2", "pi", {}))
    assert [(each.workload.kind, each.has_controller) for each in answer.expanded] == [("SparkApplication", False)]


def test_kinds_that_are_no_workloads_are_counted() -> None:
    answer = grouped(job(), manifest("Gadget", "example.com/v1", "g", {}))
    assert answer.others == {"Gadget (example.com/v1)": 1}


def test_only_listed_owners_are_read() -> None:
    answer = grouped(job(), listed=frozenset({"deployments.apps"}))
    assert not answer.gangs
    assert answer.others == {"Job (batch/v1)": 1}


# existing PodGroups -------------------------------------------------------------------------------------------------


def test_a_pod_group_that_exists_stays_as_a_user_changed_it() -> None:
    first = grouped(pytorch_job(workers=2)).objects
    changed = changed_group(first, queue="night")
    answer = grouped(pytorch_job(workers=2), changed, *as_marked(first))
    assert [gang.pod_group.spec.queue for gang in answer.gangs] == ["night"]
    assert [gang.is_existing for gang in answer.gangs] == [True]


def test_a_scaled_workload_changes_its_pod_group_but_not_the_queue() -> None:
    first = grouped(pytorch_job(workers=2)).objects
    changed = changed_group(first, queue="night")
    (gang,) = grouped(pytorch_job(workers=5), changed, *as_marked(first)).gangs
    assert dict(gang.pods) == {"master": 1, "worker": 5}
    assert {group.name: group.min_member for group in gang.pod_group.spec.sub_groups} == {"master": 1, "worker": 5}
    assert gang.pod_group.spec.queue == "night"


def changed_group(objects: muster.Objects, **spec: str) -> Raw:
    raw = encode(objects.pod_groups[0])
    return {**POD_GROUP, **raw, "spec": {**raw["spec"], **spec}}


def as_marked(objects: muster.Objects) -> list[Raw]:
    return [{"apiVersion": "v1", "kind": "Pod", **encode(each)} for each in objects.pods]


# properties ---------------------------------------------------------------------------------------------------------


@given(st.integers(0, 6), st.integers(1, 5), st.integers(0, 4), st.integers(0, 3))
def test_the_order_of_objects_does_not_matter(replicas: int, size: int, workers: int, pods: int) -> None:
    raws = [lws(replicas=replicas, size=size), pytorch_job(workers=workers), job(pods=pods)]
    assert summary(grouped(*raws)) == summary(grouped(*reversed(raws)))


@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 16))
def test_any_part_of_the_pods_may_exist_already(replicas: int, size: int, existing: int) -> None:
    """Whatever controllers have made so far, the rest is made, and the PodGroups are the same."""
    first = grouped(lws(replicas=replicas, size=size))
    some = as_cluster(first.objects)[:existing]
    second = grouped(lws(replicas=replicas, size=size), *some)
    assert summary(second) == summary(first)
    assert len(second.objects.pods) == replicas * size

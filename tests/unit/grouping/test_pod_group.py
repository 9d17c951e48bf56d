"""What is the same for all kinds: queue, priority, preemptibility, topology, labels and annotations."""

import pytest
from msgspec.structs import replace

from tests.support.owned_pods import annotated, grouped, labelled, owner, pod

SET = owner("{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db}}")
QUEUE, PREEMPTIBILITY = "kai.scheduler/queue", "kai.scheduler/preemptibility"


@pytest.mark.parametrize(
    ("of_owner", "of_pod", "expected"),
    [
        ({QUEUE: "a", "project": "b"}, {QUEUE: "c"}, "a"),
        ({"project": "b"}, {QUEUE: "c"}, "c"),
        ({"project": "b"}, {"project": "d"}, "b"),
        ({}, {"project": "d"}, "d"),
        ({QUEUE: ""}, {}, "default"),
        ({}, {}, "default"),
    ],
)
def test_the_queue_is_the_owners_else_the_pods_else_a_projects_else_the_default(
    of_owner: dict[str, str], of_pod: dict[str, str], expected: str
) -> None:
    assert grouped(pod(labels=of_pod), labelled(SET, **of_owner)).spec.queue == expected


def test_the_priority_class_is_the_owners_else_the_pods_else_the_kinds() -> None:
    named, labels = labelled(SET, priorityClassName="a"), {"priorityClassName": "b"}
    assert grouped(pod(labels=labels, priority_class="c"), named).spec.priority_class_name == "a"
    assert grouped(pod(labels=labels, priority_class="c"), SET).spec.priority_class_name == "b"
    assert grouped(pod(priority_class="c"), SET).spec.priority_class_name == "c"
    assert grouped(pod(), SET).spec.priority_class_name == "train"


def test_the_class_of_a_kind_is_used_only_where_it_exists() -> None:
    """A gang whose class does not exist waits (P1)."""
    assert grouped(pod(), SET, classes=()).spec.priority_class_name == ""
    assert grouped(pod(priority_class="gone"), SET, classes=()).spec.priority_class_name == "gone"


def test_preemptibility_is_the_owners_else_the_pods() -> None:
    semi = {PREEMPTIBILITY: "semi-preemptible"}
    assert grouped(pod(), labelled(SET, preemptibility="non-preemptible")).spec.preemptibility == "non-preemptible"
    assert grouped(pod(labels=semi), SET).spec.preemptibility == "semi-preemptible"
    assert grouped(pod(), SET).spec.preemptibility == ""


def test_a_preemptibility_that_is_none_leaves_the_podgroup_valid() -> None:
    assert grouped(pod(), labelled(SET, preemptibility="perhaps")).spec.preemptibility == ""


def test_annotations_of_the_owner_state_the_topology() -> None:
    workload = annotated(SET, topology="dc", topology_required_placement="zone", topology_preferred_placement="rack")
    constraint = grouped(pod(), workload).spec.topology_constraint
    assert constraint is not None
    assert (constraint.topology, constraint.required_topology_level) == ("dc", "zone")
    assert constraint.preferred_topology_level == "rack"
    assert grouped(pod(), annotated(SET, topology="dc")).spec.topology_constraint is None


def test_labels_and_annotations_of_the_owner_are_copied() -> None:
    metadata = grouped(pod(labels={"mine": "x"}), labelled(annotated(SET, note="n"), team="a")).metadata
    assert metadata.labels == {"team": "a"}
    assert metadata.annotations == {"kai.scheduler/note": "n", "muster.dev/grouped-by": "StatefulSet"}


def test_what_belongs_to_one_object_is_not_copied() -> None:
    """The manifest that kubectl keeps is that of the owner: an apply to the PodGroup would be merged with it."""
    labels = {"pod-template-hash": "5d", "controller-revision-hash": "1", "statefulset.kubernetes.io/pod-name": "a"}
    labels |= {"kai.scheduler/subgroup-name": "x", "app": "a"}
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": "{}", "deployment.kubernetes.io/revision": "3"}
    annotations |= {"muster.dev/grouped-by": "Job", "kai.scheduler/stale-podgroup-timestamp": "2026-01-01T00:00:00Z"}
    metadata = replace(SET.metadata, labels=labels, annotations=annotations)
    copied = grouped(pod(), replace(SET, metadata=metadata)).metadata
    assert copied.labels == {"app": "a"}
    assert copied.annotations == {"muster.dev/grouped-by": "StatefulSet"}


def test_the_podgroup_lives_in_the_namespace_of_the_pod() -> None:
    assert grouped(pod(), SET).metadata.namespace == "team"


def test_of_annotations_that_are_too_long_in_all_the_longest_are_not_copied() -> None:
    """Every replica of a LeaderWorkerSet has a PodGroup: 1,000 copies of 256 KiB fill a quarter of an etcd."""
    long = {f"a/{name}": name * 25_000 for name in "abc"}
    workload = replace(SET, metadata=replace(SET.metadata, annotations={"a/z": "z" * 100_000, **long, "a/short": "s"}))
    copied = grouped(pod(), annotated(workload, topology_required_placement="rack")).metadata.annotations
    assert {"a/short", "kai.scheduler/topology-required-placement"} < set(copied)
    assert sorted(name for name in copied if name in long) == ["a/a", "a/b"]
    assert "a/z" not in copied

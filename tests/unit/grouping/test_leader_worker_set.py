"""LeaderWorkerSet: the pods as its controller and webhook label them."""

from collections import Counter
from itertools import chain
from typing import Any

import msgspec
import pytest

from muster.grouping.kinds.leader_worker_set import EXCLUSIVE
from muster.grouping.types import Owner, WorkloadPod
from muster.validation.check import check, errors
from tests.support.owned_pods import annotated, grouped, labelled, leaf, minimums, owner, picture, pod, tree, ungrouped

LWS = """
    apiVersion: leaderworkerset.x-k8s.io/v1
    kind: LeaderWorkerSet
    metadata: {name: vllm}
    spec:
      replicas: 2
      leaderWorkerTemplate:
        size: 4
        leaderTemplate: {metadata: {labels: {role: leader}}, spec: {containers: []}}
        workerTemplate: {spec: {containers: []}}
"""


def lws(size: int = 4, segment: int = 0, policy: str = "", startup: str = "", **template: Any) -> Owner:
    sub_groups = {"subGroupSize": segment} | ({"subGroupPolicyType": policy} if policy else {})
    leader_worker = {"size": size} | ({"subGroupPolicy": sub_groups} if segment else {}) | template
    return owner(LWS, leaderWorkerTemplate=leader_worker, **({"startupPolicy": startup} if startup else {}))


def member(worker: int, group: int = 0, size: int | None = None) -> WorkloadPod:
    labels = {
        "leaderworkerset.sigs.k8s.io/name": "vllm",
        "leaderworkerset.sigs.k8s.io/group-index": str(group),
        "leaderworkerset.sigs.k8s.io/worker-index": str(worker),
    }
    name = f"vllm-{group}-{worker}" if worker else f"vllm-{group}"
    return pod(name, labels, {"leaderworkerset.sigs.k8s.io/size": str(size)} if size else {})


def leaves(workload: Owner, size: int) -> list[str]:
    return [leaf(member(worker), workload) for worker in range(size)]


def test_every_replica_is_a_gang_of_a_leader_and_its_workers() -> None:
    group = grouped(member(0), owner(LWS))
    assert group.metadata.name == "pg-vllm-uid-vllm-group-0"
    assert grouped(member(3, group=1), owner(LWS)).metadata.name == "pg-vllm-uid-vllm-group-1"
    assert tree(group) == picture("""
        2/2
          leader: 1
          workers: 3
    """)
    assert leaves(owner(LWS), 4) == ["leader", "workers", "workers", "workers"]


def test_the_podgroup_of_a_replica_is_the_same_for_its_leader_and_its_workers() -> None:
    """A worker belongs to its leader's pod, that to a StatefulSet, and that to the LeaderWorkerSet."""
    stateful = owner("{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: vllm}}")
    leader = owner("{apiVersion: v1, kind: Pod, metadata: {name: vllm-0}}")
    workers = owner("{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: vllm-0}}")
    top = owner(LWS)
    assert grouped(member(0), stateful, top) == grouped(member(2), workers, leader, stateful, top)


def test_replicas_without_an_index_differ_by_their_keys() -> None:
    """`groupIdentity: Hash`: a Deployment makes the leaders, and the webhook writes the key as the index, too."""
    replica_set = owner("{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: vllm-6d4f}}")
    deployment = owner("{apiVersion: apps/v1, kind: Deployment, metadata: {name: vllm}}")
    leader = owner("{apiVersion: v1, kind: Pod, metadata: {name: vllm-6d4f-x2kkp}}")
    workers = owner("{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: vllm-6d4f-x2kkp}}")
    top = (replica_set, deployment, owner(LWS))
    first, second = "356a192b7913b04c54574d18c28d46e6395428ab", "1" * 40  # all digits: no index either
    group = grouped(keyed(0, first), *top)
    assert group.metadata.name == f"pg-vllm-uid-vllm-group-{first}"
    assert group == grouped(keyed(3, first), workers, leader, *top)
    assert tree(group) == tree(grouped(member(0), owner(LWS)))
    assert grouped(keyed(0, second), *top).metadata.name == f"pg-vllm-uid-vllm-group-{second}"


def keyed(worker: int, key: str) -> WorkloadPod:
    labels = {f"leaderworkerset.sigs.k8s.io/group-{name}": key for name in ("index", "key")}
    return pod(f"vllm-{key[:5]}-{worker}", member(worker).metadata.labels | labels)


def test_a_replica_of_one_pod_has_no_workers() -> None:
    assert tree(grouped(member(0), lws(size=1))) == "1/1\n  leader: 1"


def test_the_minimum_of_workers_says_where_it_comes_from() -> None:
    assert minimums(member(0), owner(LWS)) == {
        "": (2, "all of them"),
        "leader": (1, "one leader a replica"),
        "workers": (3, "spec.leaderWorkerTemplate.size - 1"),
    }


def test_a_group_that_an_update_has_not_reached_keeps_its_size() -> None:
    """Pods carry the size of their own revision; the rolling update changes one group after the other."""
    assert "workers: 7" in tree(grouped(member(0, size=8), lws(size=4)))


@pytest.mark.parametrize("segment", [0, 2])
def test_workers_that_wait_for_their_leader_count_once_they_exist(segment: int) -> None:
    """A leader that loads a model for ten minutes would be evicted as stale (S2), if its workers counted."""
    workload = lws(size=5, segment=segment, startup="LeaderReady")
    alone = grouped(member(0), workload, present={"leader"})
    assert alone.spec.min_sub_group == 1
    together = grouped(member(0), workload, present={"leader", "workers", "segment-1"})
    assert together.spec.min_sub_group is None
    assert [part.name for part in alone.spec.sub_groups] == [part.name for part in together.spec.sub_groups]


def test_workers_that_wait_for_the_node_of_their_leader_count_once_they_exist() -> None:
    """With an exclusive topology the controller creates no worker before the leader is scheduled."""
    workload = owner(LWS.replace("{name: vllm}", "{name: vllm, annotations: {" + EXCLUSIVE + ": rack}}"))
    assert grouped(member(0), workload, present={"leader"}).spec.min_sub_group == 1
    assert grouped(member(0), workload, present={"leader", "workers"}).spec.min_sub_group is None


def test_a_leader_of_a_segment_may_start_before_the_workers_of_its_segment() -> None:
    workload = lws(size=5, segment=2, startup="LeaderReady")
    assert tree(grouped(member(0), workload, present={"leader"})) == picture("""
        1/2
          segment-0: 1/2
            leader: 1
            workers: 2
          segment-1: 2
    """)


@pytest.mark.parametrize("segment", [0, 2])
def test_the_minimum_of_a_running_semi_preemptible_gang_never_rises(segment: int) -> None:
    """V5 refuses that, and allows groups that are added: late ones are left out until they have pods."""
    workload = labelled(lws(size=5, segment=segment, startup="LeaderReady"), preemptibility="semi-preemptible")
    before, after = (
        grouped(member(0), workload, present=names) for names in ({"leader"}, {"leader", "workers", "segment-1"})
    )
    assert "workers" not in tree(before)
    assert "workers" in tree(after)
    running = msgspec.to_builtins(before) | {"status": {"phase": "Running", "running": 1}}
    assert errors(check(msgspec.to_builtins(after), running)) == ()
    assert errors(check(running, msgspec.to_builtins(after))) == ()


def test_with_the_default_startup_a_leader_never_starts_alone() -> None:
    assert grouped(member(0), lws(startup="LeaderCreated"), present={"leader"}).spec.min_sub_group is None


# segments ------------------------------------------------------------------------------------------------------------


def test_a_leader_is_one_more_than_full_segments() -> None:
    """S = 9, g = 4: the leader belongs to the first segment, beside its four workers."""
    workload = lws(size=9, segment=4)
    assert tree(grouped(member(0), workload)) == picture("""
        2/2
          segment-0: 2/2
            leader: 1
            workers: 4
          segment-1: 4
    """)
    assert leaves(workload, 9) == ["leader", *["workers"] * 4, *["segment-1"] * 4]


@pytest.mark.parametrize("policy", ["LeaderWorker", "LeaderExcluded"])
@pytest.mark.parametrize(("size", "segment"), [(s, g) for s in range(2, 12) for g in range(2, s + 1)])
def test_every_segment_needs_the_pods_that_the_webhook_gives_its_index(size: int, segment: int, policy: str) -> None:
    """The index is (worker - 1) / g where g divides the workers, else worker / g."""
    workload = lws(size=size, segment=segment, policy=policy)
    names = leaves(workload, size)
    for worker, name in enumerate(names[1:], 1):
        index = (worker - 1) // segment if (size - 1) % segment == 0 else worker // segment
        is_beside_the_leader = index == 0 and policy == "LeaderWorker"
        assert name == ("workers" if is_beside_the_leader else f"segment-{index}")
    parts = grouped(member(0), workload).spec.sub_groups
    assert {part.name: part.min_member for part in parts if part.min_member} == Counter(names)


def test_the_only_segment_has_no_worker_too_many() -> None:
    """S − 1 = g."""
    workload = lws(size=5, segment=4)
    assert tree(grouped(member(0), workload)) == "1/1\n  segment-0: 2/2\n    leader: 1\n    workers: 4"


def test_a_leader_takes_the_place_of_a_worker_where_segments_divide_all_pods() -> None:
    """S = 8, g = 4: index i belongs to segment i // 4."""
    workload = lws(size=8, segment=4)
    assert tree(grouped(member(0), workload)) == picture("""
        2/2
          segment-0: 2/2
            leader: 1
            workers: 3
          segment-1: 4
    """)
    assert leaves(workload, 8) == ["leader", *["workers"] * 3, *["segment-1"] * 4]


def test_the_last_segment_needs_what_it_really_has() -> None:
    """S = 7, g = 4: indexes 4, 5 and 6."""
    workload = lws(size=7, segment=4)
    assert "segment-1: 3" in tree(grouped(member(0), workload))
    assert leaves(workload, 7)[4:] == ["segment-1"] * 3


def test_a_leader_that_is_excluded_is_a_leaf_of_its_own() -> None:
    workload = lws(size=5, segment=2, policy="LeaderExcluded")
    assert tree(grouped(member(0), workload)) == picture("""
        3/3
          leader: 1
          segment-0: 2
          segment-1: 2
    """)
    assert leaves(workload, 5) == ["leader", "segment-0", "segment-0", "segment-1", "segment-1"]


@pytest.mark.parametrize("policy", ["LeaderWorker", "LeaderExcluded"])
@pytest.mark.parametrize("size", range(2, 14))
def test_every_leaf_needs_as_many_pods_as_there_are(size: int, policy: str) -> None:
    for segment in range(2, size + 1):
        workload = lws(size=size, segment=segment, policy=policy)
        named = leaves(workload, size)
        wanted = {
            part.name: part.min_member for part in grouped(member(0), workload).spec.sub_groups if part.min_member
        }
        assert wanted == {name: named.count(name) for name in named}
        assert sum(wanted.values()) == size


def test_an_annotation_may_state_the_segments() -> None:
    on_workers = {"metadata": {"annotations": {"kai.scheduler/segment-size": "2"}}}
    for workload in (annotated(lws(size=5), segment_size="2"), lws(size=5, workerTemplate=on_workers)):
        assert leaves(workload, 5) == leaves(lws(size=5, segment=2), 5)


@pytest.mark.parametrize("segment", [1, 5])
def test_segments_that_cannot_be_are_said(segment: int) -> None:
    problem = ungrouped(member(0), lws(size=4, segment=segment))
    assert problem.reason == "InvalidSegments"
    assert "between 2 and 4" in problem.hint


def test_the_topology_of_segments_comes_from_segment_annotations() -> None:
    annotations = {
        "kai.scheduler/topology": "dc",
        "kai.scheduler/segment-topology-required-placement": "rack",
        "kai.scheduler/segment-topology-preferred-placement": "host",
    }
    workload = annotated(lws(size=5, segment=2, workerTemplate={"metadata": {"annotations": annotations}}),
                         topology_required_placement="zone")  # fmt: skip
    group = grouped(member(0), workload)
    assert tree(group) == picture("""
        2/2 @zone
          segment-0: 2/2 @rack ~host
            leader: 1
            workers: 2
          segment-1: 2 @rack ~host
    """)
    constraints = [part.topology_constraint for part in group.spec.sub_groups]
    assert [each.topology for each in chain(constraints) if each] == ["dc", "dc"]


def test_templates_may_state_the_topology_of_a_role() -> None:
    workers = {"metadata": {"annotations": {"kai.scheduler/topology-required-placement": "rack"}}}
    assert "workers: 3 @rack" in tree(grouped(member(0), lws(workerTemplate=workers)))


# what is wrong -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("label", ["group-index", "worker-index"])
def test_a_pod_without_its_index_is_said(label: str) -> None:
    """The webhook of LeaderWorkerSets did not run."""
    labels = {name: value for name, value in member(1).metadata.labels.items() if not name.endswith(label)}
    problem = ungrouped(pod("x", labels), owner(LWS))
    assert problem.reason == "LabelMissing"
    assert label in problem.message


@pytest.mark.parametrize("key", ["", "another"])
def test_an_index_that_is_neither_a_number_nor_the_key_is_said(key: str) -> None:
    names = {"leaderworkerset.sigs.k8s.io/group-index": "first", "leaderworkerset.sigs.k8s.io/group-key": key}
    assert ungrouped(pod("x", member(1).metadata.labels | names), owner(LWS)).reason == "LabelMissing"


def test_a_worker_beyond_its_segments_is_said() -> None:
    assert ungrouped(member(9), lws(size=5, segment=2)).reason == "NoSuchGroup"


def test_a_size_beyond_reason_is_said() -> None:
    assert ungrouped(member(0), lws(size=10**12)).reason == "TooLarge"
    assert ungrouped(member(0), lws(size=10**9, segment=2)).reason == "TooLarge"

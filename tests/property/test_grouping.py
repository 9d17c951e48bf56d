"""Whatever a workload is: its pods find one leaf, its PodGroup is valid, and its own pods can meet its minimum."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from muster.api.podgroup import PodGroup, SubGroup
from muster.grouping.custom_kinds import CustomKind, RolePaths, custom_rule
from muster.grouping.group import Assignment, assign, build_pod_group
from muster.grouping.owners import OwnerChain
from muster.grouping.table import KINDS
from muster.grouping.types import Owner, Ungrouped, WorkloadPod
from muster.validation.check import check, errors
from tests.property.random_workloads import SMALL, WORKLOADS, Workload, job_sets, leader_worker_sets
from tests.support.owned_pods import labelled, owner, pod

Gangs = dict[str, list[tuple[WorkloadPod, Assignment]]]


def gangs(workload: Owner, pods: Iterable[WorkloadPod]) -> Gangs:
    """The pods of a workload by PodGroup; every one of them is grouped."""
    by_name: Gangs = defaultdict(list)
    for member in pods:
        assignment = assign(member, OwnerChain((workload,)))
        assert isinstance(assignment, Assignment), assignment
        by_name[assignment.gang.name].append((member, assignment))
    return by_name


def built(assignment: Assignment, present: Collection[str]) -> PodGroup:
    group = build_pod_group(assignment, present, ("train",))
    problems = errors(check(msgspec.to_builtins(group)))
    assert not problems, (problems, group)
    return group


def fresh(workload: Owner) -> Owner:
    """An equal owner without what was computed of it."""
    return Owner(workload.api_version, workload.kind, workload.metadata, workload.spec)


def is_satisfied(group: PodGroup, pods: Counter[str]) -> bool:
    """M2, with every pod placed."""
    children: dict[str, list[SubGroup]] = defaultdict(list)
    for part in group.spec.sub_groups:
        children[part.parent].append(part)

    def holds(name: str, need: int | None) -> bool:
        below = children[name]
        satisfied = sum(holds(part.name, part.min_sub_group) if children[part.name] else
                        pods[part.name] >= (part.min_member or 1) for part in below)  # fmt: skip
        return satisfied >= (need or len(below))

    return holds("", group.spec.min_sub_group)


# what operators make -------------------------------------------------------------------------------------------------


@given(WORKLOADS)
def test_every_pod_is_in_one_leaf_of_its_podgroup(workload: Workload) -> None:
    """N3, N4: a pod that names a branch, or nothing that exists, would never run."""
    for members in gangs(*workload).values():
        leaves = {assignment.gang.leaf for _, assignment in members}
        group = built(members[0][1], leaves)
        branches = {part.parent for part in group.spec.sub_groups}
        assert leaves <= {part.name for part in group.spec.sub_groups} - branches


@given(WORKLOADS)
def test_the_pods_of_a_workload_meet_its_minimum(workload: Workload) -> None:
    """A gang whose minimum its own operator never reaches would wait for ever."""
    for members in gangs(*workload).values():
        count = Counter(assignment.gang.leaf for _, assignment in members)
        assert is_satisfied(built(members[0][1], count.keys()), count)


@given(WORKLOADS)
def test_what_exists_before_late_pods_meets_the_minimum_of_that_time(workload: Workload) -> None:
    """Late pods are created once the others run: a minimum that counts them would wait for ever."""
    for members in gangs(*workload).values():
        early = Counter(each.gang.leaf for _, each in members if each.gang.leaf not in each.gang.late)
        assert not early or is_satisfied(built(members[0][1], early.keys()), early)


@given(WORKLOADS)
def test_every_pod_of_a_gang_gives_it_the_same_podgroup(workload: Workload) -> None:
    for members in gangs(*workload).values():
        leaves = {assignment.gang.leaf for _, assignment in members}
        groups = [built(assignment, leaves) for _, assignment in members]
        assert groups.count(groups[0]) == len(groups)


@given(WORKLOADS)
def test_grouping_is_deterministic_and_remembers_nothing_wrong(workload: Workload) -> None:
    top, pods = workload
    for member in pods:
        again = assign(member, OwnerChain((fresh(top),)))
        assert assign(member, OwnerChain((top,))) == again == assign(member, OwnerChain((top,)))


@given(WORKLOADS, st.sampled_from(("", "semi-preemptible")), st.data())
def test_every_presence_of_pods_leaves_a_valid_podgroup(workload: Workload, word: str, data: st.DataObject) -> None:
    top, pods = workload
    for members in gangs(labelled(top, preemptibility=word), pods).values():
        names = sorted({part.name for part in members[0][1].gang.sub_groups})
        built(members[0][1], data.draw(st.sets(st.sampled_from(names)) if names else st.just(set())))


@given(WORKLOADS)
def test_a_pod_that_joined_is_grouped_as_before(workload: Workload) -> None:
    """The grouper's own annotation and label change nothing."""
    for members in gangs(*workload).values():
        for member, assignment in members:
            meta = member.metadata
            labels = meta.labels | {"kai.scheduler/subgroup-name": assignment.gang.leaf}
            annotations = meta.annotations | {
                "pod-group-name": assignment.gang.name,
                "muster.dev/grouped-by": assignment.rule,
            }
            joined = replace(member, metadata=replace(meta, labels=labels, annotations=annotations))
            again = assign(joined, OwnerChain((assignment.request.owner,)))
            assert isinstance(again, Assignment)
            assert again.gang == assignment.gang


@given(st.one_of(leader_worker_sets(), job_sets()), st.one_of(leader_worker_sets(), job_sets()))
def test_scaling_up_and_down_ends_where_it_began(first: Workload, other: Workload) -> None:
    """The PodGroup follows the owner as it is, whatever it was before."""
    before, between = first[0], other[0]
    names = {member.metadata.name: assign(member, OwnerChain((before,))) for member in first[1]}
    for member in other[1]:
        assign(member, OwnerChain((between,)))
    after = fresh(before)
    assert names == {member.metadata.name: assign(member, OwnerChain((after,))) for member in first[1]}


# what nobody should write --------------------------------------------------------------------------------------------

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**12), 10**12) | st.text(max_size=80) | st.floats(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)
KNOWN_FIELDS = (
    "replicas", "size", "leaderWorkerTemplate", "subGroupPolicy", "subGroupSize", "replicatedJobs", "name", "template",
    "spec", "parallelism", "completions", "pytorchReplicaSpecs", "mpiReplicaSpecs", "tfReplicaSpecs", "Worker",
    "Master", "runPolicy", "schedulingPolicy", "minAvailable", "elasticPolicy", "minReplicas", "workerGroupSpecs",
    "groupName", "numOfHosts", "maxReplicas", "suspend", "metadata", "annotations", "dependsOn", "startupPolicy",
    "headGroupSpec",
)  # fmt: skip
SPECS: st.SearchStrategy[Any] = st.recursive(
    VALUES,
    lambda inner: st.dictionaries(st.sampled_from(KNOWN_FIELDS), inner, max_size=5) | st.lists(inner, max_size=3),
    max_leaves=25,
)
LABELS = st.dictionaries(
    st.sampled_from((
        "leaderworkerset.sigs.k8s.io/group-index", "leaderworkerset.sigs.k8s.io/worker-index", "ray.io/group",
        "jobset.sigs.k8s.io/replicatedjob-name", "jobset.sigs.k8s.io/job-index", "training.kubeflow.org/replica-type",
        "training.kubeflow.org/replica-index", "ray.io/worker-group-replica-index", "spark-app-name",
        "spark-app-selector", "kai.scheduler/queue", "kai.scheduler/preemptibility", "priorityClassName", "role",
    )),
    st.sampled_from(("0", "1", "99999999999", "worker", "Worker", "headgroup", "a", "٣", "")) | st.text(max_size=70),
)  # fmt: skip
ANNOTATIONS = st.dictionaries(
    st.sampled_from((
        "kai.scheduler/segment-size", "kai.scheduler/batch-min-member", "leaderworkerset.sigs.k8s.io/size",
        "kai.scheduler/topology-required-placement", "autoscaling.knative.dev/min-scale", "muster.dev/grouped-by",
        "pod-group-name", "kai.scheduler/segment-topology-required-placement",
    )),
    st.sampled_from(("1", "2", "0", "-3", "9" * 30, "rack")) | st.text(max_size=70),
)  # fmt: skip
OWN = custom_rule(
    CustomKind(
        "example.com/v1",
        "Own",
        "owns",
        roles=RolePaths(".spec.replicatedJobs", minimum=".completions", template=".template"),
        role_label="role",
    )
)


@st.composite
def garbage(draw: st.DrawFn) -> tuple[WorkloadPod, tuple[Owner, ...]]:
    """A pod and its owners, of which nothing has been validated."""
    owners = []
    for group, kind in draw(st.lists(st.sampled_from([*KINDS, ("example.com", "Own")]), max_size=3)):
        metadata = {"name": draw(st.text(max_size=300)), "annotations": draw(ANNOTATIONS), "labels": draw(LABELS)}
        raw = {"apiVersion": f"{group}/v1".lstrip("/"), "kind": kind, "metadata": metadata}
        spec = draw(SPECS)
        owners.append(replace(owner(raw), spec=spec if isinstance(spec, dict) else {}))
    return pod(draw(st.text(max_size=300)), draw(LABELS), draw(ANNOTATIONS)), tuple(owners)


@given(garbage(), st.sets(st.sampled_from(("leader", "workers", "a", "worker", "headgroup"))))
def test_garbage_is_grouped_validly_or_said(given_: tuple[WorkloadPod, tuple[Owner, ...]], present: set[str]) -> None:
    """Never a traceback: one workload must not hold up the others."""
    member, owners = given_
    assignment = assign(member, OwnerChain(owners), [OWN])
    if isinstance(assignment, Ungrouped):
        assert assignment.reason
        assert assignment.message
        assert assignment.hint
        return
    group = built(assignment, {*present, assignment.gang.leaf})
    assert assignment.gang.leaf in ({part.name for part in group.spec.sub_groups} or {""})


@settings(max_examples=60)  # trees of 10,000 SubGroups
@given(st.integers(0, 10**30), SMALL)
def test_a_replica_count_of_any_size_costs_little(count: int, index: int) -> None:
    jobs = [{"name": "a", "replicas": count, "template": {"spec": {"parallelism": 1}}}]
    raw = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "js"}}
    labels = {"jobset.sigs.k8s.io/replicatedjob-name": "a", "jobset.sigs.k8s.io/job-index": str(index)}
    answer = assign(pod("p", labels), OwnerChain((owner(raw, replicatedJobs=jobs),)))
    if isinstance(answer, Ungrouped):
        assert answer.reason == ("TooLarge" if count > index else "NoSuchGroup")
    else:
        assert index < count < 10_000

"""Workloads, the pods that their controllers make, and the PodGroups that they get, as pictures."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from textwrap import dedent
from typing import Any

import msgspec
import yaml
from msgspec.structs import replace

from muster.api.meta import ObjectMeta, OwnerReference
from muster.api.podgroup import PodGroup, SubGroup, TopologyConstraint
from muster.grouping.group import Assignment, assign, build_pod_group
from muster.grouping.owners import OwnerChain
from muster.grouping.table import KindRule
from muster.grouping.types import Owner, Ungrouped, WorkloadPod, WorkloadPodSpec, WorkloadPodStatus
from muster.validation.check import check, errors

NONE: Mapping[str, str] = {}


def owner(manifest: str | dict[str, Any], **spec: Any) -> Owner:
    """A workload from its manifest, with a uid as the API server gives one; keywords replace fields of its spec."""
    raw = yaml.safe_load(dedent(manifest)) if isinstance(manifest, str) else manifest
    metadata = msgspec.convert(
        {"uid": f"uid-{raw['metadata']['name']}", "namespace": "team", **raw["metadata"]}, ObjectMeta
    )
    return Owner(raw["apiVersion"], raw["kind"], metadata, {**raw.get("spec", {}), **spec})


def annotated(workload: Owner, **annotations: str) -> Owner:
    """The workload with annotations of `kai.scheduler`, in snake case."""
    added = {f"kai.scheduler/{name.replace('_', '-')}": value for name, value in annotations.items()}
    metadata = workload.metadata
    return replace(workload, metadata=replace(metadata, annotations={**metadata.annotations, **added}))


def labelled(workload: Owner, **labels: str) -> Owner:
    """The workload with labels; `queue`, `preemptibility` and the like are those of `kai.scheduler`."""
    ours = ("queue", "preemptibility")
    added = {f"kai.scheduler/{name}" if name in ours else name: value for name, value in labels.items()}
    return replace(workload, metadata=replace(workload.metadata, labels={**workload.metadata.labels, **added}))


def pod(
    name: str = "p",
    labels: Mapping[str, str] = NONE,
    annotations: Mapping[str, str] = NONE,
    *,
    generate_name: str = "",
    scheduler: str = "muster",
    priority_class: str = "",
    phase: str = "",
) -> WorkloadPod:
    """A pod; owners are given beside it."""
    metadata = ObjectMeta(
        name, generate_name, "team", f"uid-{name}" if name else "", labels=dict(labels), annotations=dict(annotations)
    )
    return WorkloadPod(metadata, WorkloadPodSpec(scheduler, priority_class), WorkloadPodStatus(phase))


def assigned(member: WorkloadPod, *owners: Owner, kinds: Collection[KindRule] = ()) -> Assignment:
    """The assignment of a pod, owners from the pod upwards."""
    assignment = assign(member, OwnerChain(owners), kinds)
    assert isinstance(assignment, Assignment), assignment
    return assignment


def ungrouped(member: WorkloadPod, *owners: Owner, kinds: Collection[KindRule] = ()) -> Ungrouped:
    """Why a pod gets no PodGroup."""
    assignment = assign(member, OwnerChain(owners), kinds)
    assert isinstance(assignment, Ungrouped), assignment
    assert assignment.message
    assert assignment.hint
    return assignment


def grouped(
    member: WorkloadPod,
    *owners: Owner,
    present: Collection[str] | None = None,
    classes: Collection[str] = ("train", "build", "inference"),
    kinds: Collection[KindRule] = (),
) -> PodGroup:
    """The PodGroup of a pod, which is valid; `present`: leaves with pods, None: all of them."""
    assignment = assigned(member, *owners, kinds=kinds)
    leaves = present if present is not None else assignment.gang.late | {assignment.gang.leaf}
    group = build_pod_group(assignment, leaves, classes)
    problems = errors(check(msgspec.to_builtins(group)))
    assert not problems, problems
    return group


def leaf(member: WorkloadPod, *owners: Owner) -> str:
    """The leaf of a pod."""
    return assigned(member, *owners).gang.leaf


def minimums(member: WorkloadPod, *owners: Owner) -> dict[str, tuple[int, str]]:
    """Every minimum of the gang by group, with where it comes from."""
    return {each.group: (each.value, each.source) for each in assigned(member, *owners).gang.minimums}


def tree(group: PodGroup) -> str:
    """The tree as a picture: `name: 3` needs 3 pods, `name: 1/2` one of two children; `@` requires, `~` prefers."""
    children: dict[str, list[SubGroup]] = defaultdict(list)
    for part in group.spec.sub_groups:
        children[part.parent].append(part)

    def lines(parent: str, depth: int) -> Iterator[str]:
        for part in children[parent]:
            below = len(children[part.name])
            minimum = f"{part.min_sub_group or below}/{below}" if below else str(part.min_member)
            yield f"{'  ' * depth}{part.name}: {minimum}{_level(part.topology_constraint)}"
            yield from lines(part.name, depth + 1)

    top = len(children[""])
    minimum = f"{group.spec.min_sub_group or top}/{top}" if top else str(group.spec.min_member)
    return "\n".join((f"{minimum}{_level(group.spec.topology_constraint)}", *lines("", 1)))


def picture(text: str) -> str:
    """A picture as a test writes it."""
    return dedent(text).strip()


def _level(constraint: TopologyConstraint | None) -> str:
    if constraint is None:
        return ""
    required = f" @{constraint.required_topology_level}" if constraint.required_topology_level else ""
    preferred = f" ~{constraint.preferred_topology_level}" if constraint.preferred_topology_level else ""
    return required + preferred


def owned_by(reference: Owner, *, is_controller: bool = True) -> OwnerReference:
    """A reference to an owner."""
    return replace(reference.reference, controller=is_controller)

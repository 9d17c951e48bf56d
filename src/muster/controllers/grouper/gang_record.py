"""What the grouper remembers of one gang within a term of leadership: what it wrote, and so does not write again."""

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from muster.api import names
from muster.api.podgroup import PodGroup
from muster.controllers.grouper.members import GroupedPod
from muster.grouping.group import Assignment
from muster.grouping.types import WorkloadPod
from muster.kube.cluster import Raw

MARKED_ANNOTATIONS = (names.POD_GROUP, names.GROUPED_BY)


class GangRecord(Struct):
    """The writes of one gang, and since when it has no pods."""

    applied: PodGroup | None = None  # the last PodGroup that the API server accepted from us; None: none, or it is gone
    version: tuple[str, int] = ("", 0)  # uid and generation of the PodGroup after that
    yielded: frozenset[str] = frozenset()  # fields that other managers keep
    refused: PodGroup | None = None  # the last PodGroup that the API server refused
    joined: dict[str, tuple[str, "Mark"]] = {}  # by pod: its uid and the mark that it got, until the cache has it
    empty_since: float | None = None  # by the clock of the grouper

    def is_applied(self, desired: PodGroup, existing: PodGroup | None) -> bool:
        """Whether nothing has to be written. `existing` is what the cache has, which may be behind our own write."""
        if existing is None:
            return self.applied == desired
        meta = existing.metadata
        if meta.annotations.get(names.GROUPING) == desired.metadata.annotations[names.GROUPING]:
            self.applied = desired
            return True
        is_behind = meta.uid == self.version[0] and meta.generation <= self.version[1]
        return is_behind and self.applied == desired


class Mark(Struct, frozen=True):
    """What a pod carries of its grouping."""

    annotations: Raw
    labels: Raw


def mark_of(member: GroupedPod) -> Mark:
    """The annotations and labels by which a pod joins its gang (N3)."""
    assignment = member.placing
    assert isinstance(assignment, Assignment)
    annotations: Raw = {names.POD_GROUP: assignment.gang.name, names.GROUPED_BY: assignment.rule}
    has_label = names.SUBGROUP in member.pod.metadata.labels
    labels: Raw = {names.SUBGROUP: assignment.gang.leaf or None} if assignment.gang.leaf or has_label else {}
    return Mark(annotations, labels)


def has_mark(member: GroupedPod, mark: Mark) -> bool:
    """Whether the pod carries it, as far as the cache knows."""
    meta = member.pod.metadata
    return all(meta.annotations.get(name) == text for name, text in mark.annotations.items()) and all(
        meta.labels.get(name) == text for name, text in mark.labels.items()
    )


def has_only_joined(before: GroupedPod, after: GroupedPod) -> bool:
    """Whether nothing but the mark of its gang is new on a pod: the echo of our own write."""
    if not isinstance(after.placing, Assignment) or not has_mark(after, mark_of(after)):
        return False
    return _unmarked(before.pod) == _unmarked(after.pod)


def _unmarked(pod: WorkloadPod) -> WorkloadPod:
    meta = pod.metadata
    annotations = {name: text for name, text in meta.annotations.items() if name not in MARKED_ANNOTATIONS}
    labels = {name: text for name, text in meta.labels.items() if name != names.SUBGROUP}
    return replace(pod, metadata=replace(meta, annotations=annotations, labels=labels))


def representative(members: Sequence[GroupedPod]) -> Assignment:
    """The pod that speaks for a gang where its owner is silent: the first by name, whichever came first."""
    first = min(members, key=lambda member: member.pod.metadata.name).placing
    assert isinstance(first, Assignment)
    return first


def leaves_of(members: Sequence[GroupedPod]) -> Iterator[str]:
    """Leaves that have pods."""
    for member in members:
        if isinstance(member.placing, Assignment):
            yield member.placing.gang.leaf

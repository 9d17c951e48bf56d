"""What the grouper remembers of one gang within a term of leadership: what it wrote, and so does not write again."""

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from muster.api import names
from muster.api.podgroup import PodGroup
from muster.controllers.grouper.members import GroupedPod
from muster.grouping.group import Assignment
from muster.grouping.types import WorkloadPod
from muster.kube.pod_mark import PodMark

CONFIRM_SECONDS = 60.0  # a PodGroup that the cache does not have so long after its apply is applied again
GONE_SECONDS = 1.0  # a deleted PodGroup does not come back before: its owner may be gone, too, and its watch behind
GONE_FACTORS = (1, 4, 16, 64)  # how much longer it waits whenever it is deleted again soon
MARKED_ANNOTATIONS = (names.POD_GROUP, names.GROUPED_BY)


class GangRecord(Struct):
    """The writes of one gang, and since when it has no pods."""

    applied: PodGroup | None = None  # the last PodGroup that the API server accepted from us; None: none, or it is gone
    version: tuple[str, int] = ("", 0)  # uid and generation of the PodGroup after that
    applied_at: float = 0.0  # by the clock of the grouper
    deleted_uid: str = ""  # of the PodGroup that a watch showed as deleted, maybe before the answer to its apply came
    deleted_at: float | None = None  # by the clock of the grouper; None: it was not deleted
    deletions: int = 0  # of PodGroups that had come back a moment before, in a row
    yielded: frozenset[str] = frozenset()  # fields that other managers keep
    refused: PodGroup | None = None  # the last PodGroup that the API server refused
    refused_pods: set[str] = set()  # uids of pods that say so
    joined: dict[str, tuple[str, PodMark]] = {}  # by pod: its uid and the mark that it got, until the cache has it
    size: int = 0  # pods, when it was last written
    empty_since: float | None = None  # by the clock of the grouper

    def is_applied(self, desired: PodGroup, existing: PodGroup | None, now: float) -> bool:
        """Whether nothing has to be written. `existing` is what the cache has, which may be behind our own write."""
        if existing is None:
            return self.applied == desired and now - self.applied_at < CONFIRM_SECONDS
        meta = existing.metadata
        if meta.annotations.get(names.GROUPING) == desired.metadata.annotations[names.GROUPING]:
            self.applied = desired
            return True
        is_behind = meta.uid == self.version[0] and meta.generation <= self.version[1]
        return is_behind and self.applied == desired

    def set_applied(self, desired: PodGroup, version: tuple[str, int], yielded: frozenset[str], now: float) -> None:
        """The API server accepted it; where the watch showed its deletion before that, it is gone already."""
        self.applied = desired if version[0] != self.deleted_uid else None
        self.version, self.yielded, self.applied_at, self.refused = version, yielded, now, None

    def set_refused(self, desired: PodGroup) -> bool:
        """The API server refused it; returns whether it did so for the first time."""
        is_first = self.refused != desired
        if is_first:
            self.refused, self.refused_pods = desired, set()
        return is_first

    def set_deleted(self, uid: str, now: float) -> None:
        """A watch showed that the PodGroup is gone."""
        is_soon = self.deleted_at is not None and now - self.applied_at < CONFIRM_SECONDS
        self.deletions = min(self.deletions + 1, len(GONE_FACTORS) - 1) if is_soon else 0
        self.applied, self.deleted_uid, self.deleted_at = None, uid, now

    def gone_seconds_left(self, now: float) -> float:
        """How long a PodGroup that was deleted stays so; not above 0: it may come back."""
        if self.deleted_at is None:
            return 0.0
        return self.deleted_at + GONE_SECONDS * GONE_FACTORS[self.deletions] - now

    def confirm(self, member: GroupedPod, is_bound: bool) -> None:
        """Forget the mark that a pod got once the cache has it: where it is removed later, the pod is marked again.

        Or has it bound: a binding that was sent before the patch may have come after it, with another mark.
        """
        meta = member.pod.metadata
        uid, mark = self.joined.get(meta.name, ("", None))
        if mark is not None and uid == meta.uid and (is_bound or mark.is_on(meta)):
            del self.joined[meta.name]


def mark_of(member: GroupedPod) -> PodMark:
    """The annotations and labels by which a pod joins its gang (N3)."""
    assignment = member.placing
    assert isinstance(assignment, Assignment)
    annotations = {names.POD_GROUP: assignment.gang.name, names.GROUPED_BY: assignment.rule}
    has_label = names.SUBGROUP in member.pod.metadata.labels
    labels = {names.SUBGROUP: assignment.gang.leaf or None} if assignment.gang.leaf or has_label else {}
    return PodMark(annotations, labels)


def is_marked(member: GroupedPod) -> bool:
    """Whether the pod carries the mark of its gang: quicker than to make one, as a gang may have 50,000 pods."""
    assignment, meta = member.placing, member.pod.metadata
    return (
        isinstance(assignment, Assignment)
        and meta.annotations.get(names.POD_GROUP) == assignment.gang.name
        and meta.annotations.get(names.GROUPED_BY) == assignment.rule
        and meta.labels.get(names.SUBGROUP) == (assignment.gang.leaf or None)
    )


def has_only_joined(before: GroupedPod, after: GroupedPod) -> bool:
    """Whether nothing but the mark of its gang is new on a pod: the echo of our own write."""
    if not is_marked(after):
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
    """Leaves that have pods: of a pod whose owners are not known yet, the one it joined."""
    for member in members:
        match member.placing:
            case Assignment(gang=gang):
                yield gang.leaf
            case None:
                yield member.pod.metadata.labels.get(names.SUBGROUP, "")
            case _:
                continue

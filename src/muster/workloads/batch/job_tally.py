"""How the pods of a Job ended, each counted exactly once.

A pod carries a finalizer until it is counted: its uid enters the status, then the finalizer goes, then the counter
goes up. Each step reads only what the one before has stored: a crash between them neither loses nor doubles a pod.
"""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from muster.api.fields import at, integer, text
from muster.workloads.batch.job_indexes import completion_index, index_failures, parse_indexes
from muster.workloads.pod_templates import is_active, is_terminating, phase
from muster.workloads.types import Raw

TRACKING_FINALIZER = "batch.kubernetes.io/job-tracking"
MOST_UNCOUNTED = 500  # uids in the status at a time


class JobTally(Struct, frozen=True):
    """What a Job has counted, and which of its pods need their finalizer no longer."""

    succeeded: int  # counters of the status
    failed: int
    uncounted_succeeded: tuple[str, ...]  # uids
    uncounted_failed: tuple[str, ...]
    completed: frozenset[int] = frozenset()  # of an Indexed Job
    failed_indexes: frozenset[int] | None = None  # None: the Job has no backoffLimitPerIndex
    settled: tuple[Raw, ...] = ()  # pods that the stored status has counted
    awaited: dict[int, Raw] = {}  # the last failed pod of each index that is to get a new one
    all_succeeded: int = 0  # those included that are still to be counted
    all_failed: int = 0

    @property
    def is_full(self) -> bool:
        """Whether further pods have to wait until these are counted."""
        return max(len(self.uncounted_succeeded), len(self.uncounted_failed)) == MOST_UNCOUNTED

    @property
    def is_settled(self) -> bool:
        """Whether no pod is still to be counted."""
        return not self.uncounted_succeeded and not self.uncounted_failed


def is_tracked(pod: Raw) -> bool:
    """Whether a pod is still to be counted."""
    finalizers = at(pod, "metadata.finalizers")
    return isinstance(finalizers, list) and TRACKING_FINALIZER in finalizers


def without_tracking(pod: Raw) -> Raw:
    """The patch that removes the finalizer."""
    rest = [name for name in at(pod, "metadata.finalizers") or () if name != TRACKING_FINALIZER]
    return {"metadata": {"finalizers": rest or None}}


def release(pod: Raw) -> Raw | None:
    """What frees a pod whose Job is gone."""
    return without_tracking(pod) if is_tracked(pod) else None


def is_indexed(job: Raw) -> bool:
    """Whether each pod has a completion index."""
    return text(job, "spec.completionMode") == "Indexed"


def is_failed(job: Raw, pod: Raw) -> bool:
    """Whether a pod counts as failed: a deleted one does, unless the Job waits until it has really ended."""
    if phase(pod) == "Failed":
        return True
    waits = text(job, "spec.podReplacementPolicy") == "Failed"
    return not waits and is_terminating(pod) and phase(pod) != "Succeeded"


def count_pods(job: Raw, pods: Sequence[Raw]) -> JobTally:
    """The next tally of a Job."""
    tracked = TrackedPods(job, pods)
    stored_succeeded, stored_failed = tracked.stored("succeeded"), tracked.stored("failed")
    kept_succeeded, kept_failed = (tracked.still_there(uids) for uids in (stored_succeeded, stored_failed))
    failed_indexes = tracked.failed_indexes()
    awaited = {} if failed_indexes is None else tracked.awaited(tracked.completed | failed_indexes)
    succeeded = integer(job, "status.succeeded") + len(stored_succeeded) - len(kept_succeeded)
    failed = integer(job, "status.failed") + len(stored_failed) - len(kept_failed)
    all_uncounted = (
        _uids(kept_succeeded, () if tracked.is_indexed else tracked.succeeded),
        _uids(kept_failed, tracked.countable_failures(awaited)),
    )
    return JobTally(
        len(tracked.completed) if tracked.is_indexed else succeeded,
        failed,
        all_uncounted[0][:MOST_UNCOUNTED],
        all_uncounted[1][:MOST_UNCOUNTED],
        tracked.completed,
        failed_indexes,
        tuple(tracked.settled({*stored_succeeded, *stored_failed})),
        awaited,
        len(tracked.completed) if tracked.is_indexed else succeeded + len(all_uncounted[0]),
        failed + len(all_uncounted[1]) + len(awaited),
    )


def _uids(kept: Sequence[str], pods: Iterable[Raw]) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*kept, *(pod["metadata"]["uid"] for pod in pods)]))


class TrackedPods:
    """The pods of a Job that are still to be counted."""

    def __init__(self, job: Raw, pods: Sequence[Raw]) -> None:
        self.job, self.is_indexed, self.completions = job, is_indexed(job), integer(job, "spec.completions")
        self._pods = pods
        self._tracked = {pod["metadata"]["uid"]: pod for pod in pods if is_tracked(pod)}
        self.succeeded = [pod for pod in self._tracked.values() if phase(pod) == "Succeeded"]
        self.failed = [pod for pod in self._tracked.values() if is_failed(job, pod)]
        stored = text(job, "status.completedIndexes")
        self._stored_completed = parse_indexes(stored, self.completions) if self.is_indexed else set()
        self.completed = frozenset(self._stored_completed.union(self._indexes(self.succeeded)))

    def stored(self, outcome: str) -> list[str]:
        """Uids that the status has as ended, and not counted yet."""
        uids = at(self.job, f"status.uncountedTerminatedPods.{outcome}")
        return [uid for uid in uids if isinstance(uid, str)] if isinstance(uids, list) else []

    def still_there(self, uids: Iterable[str]) -> list[str]:
        """Those whose pods exist and have their finalizer."""
        return [uid for uid in uids if uid in self._tracked]

    def _index(self, pod: Raw) -> int | None:
        """The index of a pod, where the Job has it."""
        index = completion_index(pod) if self.is_indexed else None
        return index if index is not None and index < self.completions else None

    def _indexes(self, pods: Iterable[Raw]) -> Iterator[int]:
        return (index for pod in pods if (index := self._index(pod)) is not None)

    def failed_indexes(self) -> frozenset[int] | None:
        """Indexes that get no further pod; None: failures are not counted for each index."""
        limit = at(self.job, "spec.backoffLimitPerIndex")
        if not self.is_indexed or not isinstance(limit, int):
            return None
        stored = parse_indexes(text(self.job, "status.failedIndexes"), self.completions)
        return frozenset(stored.union(self._indexes(pod for pod in self.failed if index_failures(pod) >= limit)))

    def awaited(self, ended: frozenset[int]) -> dict[int, Raw]:
        """The last failed pod of each index without an active one: the pod after it takes over its count."""
        active = set(self._indexes(filter(is_active, self._pods)))
        awaited: dict[int, Raw] = {}
        for pod in self.failed:
            index = self._index(pod)
            if index is None or index in active or index in ended:
                continue
            if index not in awaited or index_failures(awaited[index]) <= index_failures(pod):
                awaited[index] = pod
        return awaited

    def countable_failures(self, awaited: dict[int, Raw]) -> list[Raw]:
        """Failed pods to count now; those with an index that the Job does not have never count."""
        if not self.is_indexed:
            return self.failed
        uids = {pod["metadata"]["uid"] for pod in awaited.values()}
        return [pod for pod in self.failed if self._index(pod) is not None and pod["metadata"]["uid"] not in uids]

    def settled(self, stored: set[str]) -> Iterator[Raw]:
        """Pods whose finalizer may go: the stored status has counted them, or they do not count."""
        for uid, pod in self._tracked.items():
            if uid in stored or (self.is_indexed and self._is_settled_index(pod)):
                yield pod

    def _is_settled_index(self, pod: Raw) -> bool:
        has_ended = phase(pod) == "Succeeded" or is_failed(self.job, pod)
        index = self._index(pod)
        return has_ended and (index is None or (phase(pod) == "Succeeded" and index in self._stored_completed))

"""Reports on pods about their grouping: an Event, and `PodScheduled=False` where they get no PodGroup (N4).

Rule 1: reports come behind PodGroups and pods, few at a time; the queue is bounded, and what does not fit is counted.
Rule 2: the same report on the same pod is not repeated for a while.
"""

from collections.abc import Callable
from datetime import datetime

from msgspec import Struct

from muster.api.decoding import encode
from muster.api.meta import Condition, ObjectMeta
from muster.api.moment import format_time
from muster.api.resources import PODS
from muster.grouping.types import Ungrouped
from muster.kube.cluster import Cluster
from muster.kube.errors import ApiError
from muster.kube.event_recorder import EventRecorder, event
from muster.kube.leadership import Leadership, leads_in, within_leadership
from muster.kube.work_queue import WorkQueue

MOST_WAITING = 4096
MOST_REMEMBERED = 50_000
AGAIN_SECONDS = 300.0  # the same report on the same pod is not written more often
AT_ONCE = 4  # requests: few, as PodGroups come first
GOING = ("OwnerNotFound", "OwnerUidDiffers", "NoSuchGroup")  # Kubernetes, or a controller, deletes such pods soon
Series = tuple[str, str]  # uid of the pod, and the reason


class GroupingReport(Struct, frozen=True):
    """A sentence about one pod."""

    pod: ObjectMeta
    text: Ungrouped
    is_final: bool  # the pod gets no PodGroup
    term: int


def refusal(pod_group: str, why: str) -> Ungrouped:
    """What pods say whose PodGroup the API server refuses."""
    return Ungrouped(
        "PodGroupRefused",
        f"podgroup `{pod_group}` is refused: {why}",
        "correct the workload; muster tries again when it changes, and from time to time",
    )


def unmarked(pod_group: str, why: str) -> Ungrouped:
    """What a pod says that may not be changed, and so cannot join its PodGroup."""
    return Ungrouped(
        "PodNotMarked",
        f"the pod cannot join podgroup `{pod_group}`, as it may not be changed: {why}",
        "let muster patch the pod: a policy or a webhook denies it, or its annotations have no room for two more",
    )


def kept_gang(why: Ungrouped, pod_group: str) -> Ungrouped:
    """What a pod says that keeps its PodGroup, though it would get none, or another one, by what is known now."""
    problem = why.message.partition(": the pod is ")[0]  # `not grouped`, or `grouped by` another owner: it is neither
    return Ungrouped(why.reason, f"the pod keeps podgroup `{pod_group}` as it was: {problem}", why.hint)


class GroupingReports:
    """Writes reports on pods."""

    def __init__(
        self,
        cluster: Cluster,
        leadership: Leadership,
        clock: Callable[[], float],
        wall: Callable[[], datetime],
        seconds: float,
        dropped: Callable[[], None],
    ) -> None:
        self._cluster, self._leadership, self._clock, self._wall = cluster, leadership, clock, wall
        self._seconds, self._dropped = seconds, dropped
        self._recorder = EventRecorder(cluster, clock)
        self._queue: WorkQueue[Series] = WorkQueue()
        self._reports: dict[Series, GroupingReport] = {}
        self._written: dict[Series, tuple[str, float]] = {}  # the sentence, and when; the oldest comes first

    def __len__(self) -> int:
        return len(self._reports)

    def add(self, pod: ObjectMeta, text: Ungrouped, is_final: bool, term: int) -> None:
        """Say this on a pod, soon."""
        series = (pod.uid, text.reason)
        said, at = self._written.get(series, ("", 0.0))
        if said == text.message and self._clock() - at < AGAIN_SECONDS:
            return
        if series not in self._reports and len(self._reports) >= MOST_WAITING:
            self._dropped()
            return
        self._reports[series] = GroupingReport(pod, text, is_final, term)
        self._queue.add(series)

    def forget(self) -> None:
        """Drops what is not written yet: another replica leads."""
        self._reports.clear()
        self._written.clear()

    async def run(self) -> None:
        """Writes without end."""
        await self._queue.run(self._write, AT_ONCE)

    async def _write(self, series: Series) -> bool:
        report = self._reports.get(series)
        if report is None or not leads_in(self._leadership, report.term):
            self._reports.pop(series, None)
            return True
        try:
            with within_leadership(self._leadership, self._seconds):
                await self._request(report)
        except ApiError as error:
            if error.status >= 500 or error.status in (408, 409, 429):
                return False
        if self._reports.get(series) is report:
            del self._reports[series]
        if len(self._written) >= MOST_REMEMBERED:
            del self._written[next(iter(self._written))]
        self._written[series] = report.text.message, self._clock()
        return True

    async def _request(self, report: GroupingReport) -> None:
        now, text = self._wall(), report.text
        sentence = f"{text.message}; hint: {text.hint}"
        await self._recorder.record(event(PODS, report.pod, text.reason, sentence, now))
        if report.is_final:
            condition = encode(Condition("PodScheduled", "False", text.reason, sentence))
            condition["lastTransitionTime"] = format_time(now.replace(microsecond=0))
            body = {"metadata": {"uid": report.pod.uid}, "status": {"conditions": [condition]}}
            await self._cluster.patch(
                PODS,
                report.pod.namespace,
                report.pod.name,
                body,
                "application/strategic-merge-patch+json",
                "status",
            )

"""When pods of a PodClique that failed are replaced: at once, and later and later where the next ones fail as well.

Rule 1: a pod says how many before it have failed, in the annotation `muster.dev/failures`: a restart of the operator
forgets nothing. Rule 2: a failed pod keeps its index until it is replaced. Rule 3: a pod that ran for long begins anew,
and so does one of another template.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime

from msgspec import Struct

from muster.api.fields import items, number, text, texts
from muster.api.moment import parse_time
from muster.api.names import FAILURES, POD_INDEX, TEMPLATE_HASH
from muster.workloads.types import Raw

FIRST_SECONDS, LONGEST_SECONDS = 10.0, 300.0  # as kubelets wait before they start a container that crashes again
LONG_SECONDS = 600.0  # after a pod ran for so long, its failure is the first


class FailedPods(Struct, frozen=True):
    """The failed pods of a clique."""

    due: Sequence[Raw]  # to be replaced now
    waiting: Sequence[Raw]
    seconds: float | None = None  # until the next one is to be replaced

    @property
    def failures(self) -> dict[int, int]:
        """How many pods with an index have failed, of those that are replaced now."""
        return {index: _failures(pod) + 1 for pod in self.due if (index := index_of(pod)) is not None}


def judge_failed(clique: Raw, pods: Iterable[Raw], now: datetime) -> FailedPods:
    """Which failed pods are replaced now, and when the others are."""
    current = texts(clique, "metadata.labels").get(TEMPLATE_HASH, "")
    left = [(_seconds_left(pod, current, now), pod) for pod in pods]
    return FailedPods(
        due=[pod for seconds, pod in left if seconds <= 0],
        waiting=[pod for seconds, pod in left if seconds > 0],
        seconds=min((seconds for seconds, _ in left if seconds > 0), default=None),
    )


def index_of(pod: Raw) -> int | None:
    """The index of a pod; None: its label states none."""
    return number(texts(pod, "metadata.labels").get(POD_INDEX, ""))


def _failures(pod: Raw) -> int:
    """How many pods in place of this one failed before it."""
    return 0 if _ran_for(pod) >= LONG_SECONDS else number(texts(pod, "metadata.annotations").get(FAILURES, "")) or 0


def _seconds_left(pod: Raw, current_hash: str, now: datetime) -> float:
    before, ended = _failures(pod), parse_time(_ended_at(pod))
    if not before or ended is None or texts(pod, "metadata.labels").get(TEMPLATE_HASH, "") != current_hash:
        return 0.0
    wait = min(LONGEST_SECONDS, FIRST_SECONDS * (1 << min(before - 1, 10)))
    return min(wait, wait - (now - ended).total_seconds())


def _ran_for(pod: Raw) -> float:
    began, ended = parse_time(text(pod, "status.startTime")), parse_time(_ended_at(pod))
    return (ended - began).total_seconds() if began and ended else 0.0


def _ended_at(pod: Raw) -> str:
    """When the last container ended; without one, when the pod was seen to have failed, or when it was made."""
    containers = (text(one, "state.terminated.finishedAt") for one in items(pod, "status.containerStatuses"))
    conditions = (text(one, "lastTransitionTime") for one in items(pod, "status.conditions"))
    return max(containers, default="") or max(conditions, default="") or text(pod, "metadata.creationTimestamp")

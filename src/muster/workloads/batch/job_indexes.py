"""Completion indexes of Indexed Jobs: the form of `status.completedIndexes`, and the index of a pod."""

from collections.abc import Iterable, Iterator

from muster.api.fields import number, texts
from muster.workloads.types import Raw

COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"  # annotation and label
MOST_INDEXES = 1_000_000  # in one range that is read
INDEX_FAILURES = "batch.kubernetes.io/job-index-failure-count"  # annotation: failures of the index before this pod


def format_indexes(indexes: Iterable[int]) -> str:
    """Sorted indexes with runs of three and more as ranges, two as a pair: `1,3-5,7,8`."""
    return ",".join(_format_run(first, last) for first, last in _runs(sorted(indexes)))


def _runs(ordered: list[int]) -> Iterator[tuple[int, int]]:
    first: int | None = None
    for i, index in enumerate(ordered):
        first = index if first is None else first
        if i + 1 == len(ordered) or ordered[i + 1] != index + 1:
            yield first, index
            first = None


def _format_run(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}{',' if last == first + 1 else '-'}{last}"


def parse_indexes(text: str, completions: int) -> set[int]:
    """The indexes below `completions`; what cannot be read is left out."""
    indexes: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        low, high = number(first), number(last or first)
        if low is not None and high is not None:
            indexes.update(range(low, min(high + 1, completions, low + MOST_INDEXES)))
    return indexes


def completion_index(pod: Raw) -> int | None:
    """The index of a pod; None: it has none."""
    return number(texts(pod, "metadata.annotations").get(COMPLETION_INDEX, ""))


def index_failures(pod: Raw) -> int:
    """How often the index of this pod had failed before it."""
    return number(texts(pod, "metadata.annotations").get(INDEX_FAILURES, "")) or 0

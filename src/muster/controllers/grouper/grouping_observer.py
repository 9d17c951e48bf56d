"""What the grouper reports while it works. Metrics implement it; by default nothing is counted."""

# ruff: noqa: ARG002 - the methods do nothing here, so that NoGroupingObserver inherits them

from typing import Protocol


class GroupingObserver(Protocol):
    """Its methods are called from the loop: they must be quick and never fail."""

    def pod_grouped(self, seconds: float) -> None:
        """A pod joined its gang this long after it was first seen."""
        return

    def grouping_written(self, resource: str) -> None:
        """The API server accepted a write of this kind of object."""
        return

    def pod_ungrouped(self, reason: str) -> None:
        """A pod gets no PodGroup."""
        return

    def grouping_failed(self, reason: str) -> None:
        """A write failed, or the API server refused a PodGroup."""
        return

    def grouping_report_dropped(self) -> None:
        """A report on a pod was dropped, as too many wait."""
        return


class NoGroupingObserver(GroupingObserver):
    """Counts nothing."""

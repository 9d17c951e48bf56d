"""What the scheduler reports while it works. Metrics implement it; by default nothing is counted."""

# ruff: noqa: ARG002 - the methods do nothing here, so that NoObserver inherits them

from collections.abc import Callable
from typing import Protocol

from muster.observability.cycle_trace import CycleTrace
from muster.planning.decision import CyclePlan, Role
from muster.planning.disturbance import EvictionReason

Seconds = Callable[[], float]


class Observer(Protocol):
    """Its methods are called from the loops: they must be quick and never fail."""

    def watch(self, resource: str, lag: Seconds) -> None:
        """A resource is watched; `lag` returns the seconds since its last event, below zero if there was none."""
        return

    def watch_restarted(self, resource: str) -> None:
        """A watch was lost or ended, and a new one starts."""
        return

    def leads(self, now: Callable[[], bool]) -> None:
        """`now` returns at any time whether this replica leads."""
        return

    def leadership_lost(self) -> None:
        """Another replica leads: this one does not report the last plan any more."""
        return

    def cycle(self, plan: CyclePlan, seconds: float) -> None:
        """A cycle ended with this plan after this many seconds."""
        return

    def traced(self, trace: CycleTrace) -> None:
        """A cycle, also one that was cancelled, had these phases."""
        return

    def backlog(self, name: str, length: Seconds) -> None:
        """`length` returns at any time how much waits: `writes_in_flight`, `unconfirmed_bindings` and so on."""
        return

    def cancelled(self) -> None:
        """A plan was cancelled."""
        return

    def failed(self, error: str) -> None:
        """The work for one gang ended with an error of this type."""
        return

    def longer_search_ended(self, outcome: str) -> None:
        """A longer search beside the cycles has ended: found, infeasible or unknown."""
        return

    def lease_given_up(self, reason: str) -> None:
        """This replica led, and gave the lease up for this reason."""
        return

    def decided(self, seconds: float) -> None:
        """A plan took its earliest new change into account this long after it."""
        return

    def bound(self, role: Role, seconds: float) -> None:
        """The API server accepted a binding."""
        return

    def bind_failed(self, reason: str, seconds: float) -> None:
        """The API server rejected a binding, or did not answer."""
        return

    def evicted(self, reason: EvictionReason, gang: str) -> None:
        """The API server accepted an eviction of a pod of this gang."""
        return

    def eviction_failed(self, reason: str) -> None:
        """The API server rejected an eviction, for a budget or another reason, or did not answer."""
        return

    def nominated(self) -> None:
        """A nominated node was written on a pod."""
        return

    def conflict(self, resource: str) -> None:
        """The API server rejected a write because the object had changed."""
        return

    def event_dropped(self, reason: str) -> None:
        """An Event was not sent, or the API server rejected it."""
        return


class NoObserver(Observer):
    """Counts nothing."""

"""What the scheduler reports while it works. Metrics implement it; by default nothing is counted."""

# ruff: noqa: ARG002 - the methods do nothing here, so that NoObserver inherits them

from collections.abc import Callable
from typing import Protocol

from muster.planning.decision import CyclePlan, Role
from muster.planning.disturbance import EvictionReason

Seconds = Callable[[], float]


class Observer(Protocol):
    """Receives what happens. It must be quick and never fail."""

    def watch(self, resource: str, lag: Seconds) -> None:
        """A kind is watched; `lag` is the time since its last event, below zero: there was none."""
        return

    def watch_restarted(self, resource: str) -> None:
        """A watch was lost or ended, and another one begins."""
        return

    def leads(self, now: Callable[[], bool]) -> None:
        """`now` tells at any time whether this replica acts."""
        return

    def stands_by(self) -> None:
        """Another replica acts: what the last plan found is not ours to tell any more."""
        return

    def cycle(self, plan: CyclePlan, seconds: float) -> None:
        """A plan was made in so much time."""
        return

    def cancelled(self) -> None:
        """A plan was given up before it was made."""
        return

    def failed(self, error: str) -> None:
        """The work for one gang ended with an error of this type."""
        return

    def searched_longer(self, outcome: str) -> None:
        """A longer search beside the cycles has ended: found, infeasible or unknown."""
        return

    def gave_up_the_lease(self) -> None:
        """This replica led and got nowhere."""
        return

    def decided(self, seconds: float) -> None:
        """A plan answered the first change that it knows of this long after it."""
        return

    def bound(self, role: Role, seconds: float) -> None:
        """The API server took a binding."""
        return

    def bind_failed(self, reason: str, seconds: float) -> None:
        """The API server refused a binding, or did not answer."""
        return

    def evicted(self, reason: EvictionReason) -> None:
        """A pod is on its way out."""
        return

    def eviction_failed(self, reason: str) -> None:
        """A budget or the API server refused an eviction, or the API server did not answer."""
        return

    def nominated(self) -> None:
        """A nominated node was written on a pod."""
        return

    def conflict(self, resource: str) -> None:
        """A write was refused because the object had changed meanwhile."""
        return

    def event_dropped(self, reason: str) -> None:
        """An Event was not sent, or not taken."""
        return


class NoObserver(Observer):
    """Counts nothing."""

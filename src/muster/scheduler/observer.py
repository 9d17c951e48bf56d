"""What the loop tells while it works. Whoever counts is passed in; by default nobody does."""

from collections.abc import Callable
from typing import Protocol

from muster.planning.decision import CyclePlan, EvictionReason, Role

Seconds = Callable[[], float]


class Observer(Protocol):
    """Is told what happens. It must be quick and never fail."""

    def watch(self, resource: str, lag: Seconds) -> None:
        """A kind will be followed; `lag` is the time since it was last heard of, below zero: never."""

    def watch_restarted(self, resource: str) -> None:
        """A watch was lost or ended, and another one begins."""

    def leads(self, now: Callable[[], bool]) -> None:
        """`now` tells at any time whether this replica acts."""

    def stands_by(self) -> None:
        """Another replica acts: what the last plan found is not ours to tell any more."""

    def cycle(self, plan: CyclePlan, seconds: float) -> None:
        """A plan was made in so much time."""

    def cancelled(self) -> None:
        """A plan was given up before it was made."""

    def failed(self, error: str) -> None:
        """The work for one gang ended with an error of this type."""

    def searched_longer(self, outcome: str) -> None:
        """A longer search beside the cycles has ended: found, infeasible or unknown."""

    def gave_up_the_lease(self) -> None:
        """This replica led and got nowhere."""

    def decided(self, seconds: float) -> None:
        """A plan answered the first change that it knows of this long after it."""

    def bound(self, role: Role, seconds: float) -> None:
        """The API server took a binding."""

    def bind_failed(self, reason: str, seconds: float) -> None:
        """The API server refused a binding, or did not answer."""

    def evicted(self, reason: EvictionReason) -> None:
        """A pod is on its way out."""

    def eviction_failed(self, reason: str) -> None:
        """A budget or the API server said no, or nobody answered."""

    def nominated(self) -> None:
        """A place was noted on a pod."""

    def conflict(self, resource: str) -> None:
        """A write was refused because the object had changed meanwhile."""

    def event_dropped(self, reason: str) -> None:
        """An Event was not sent, or not taken."""


class Nobody:
    """Does not count."""

    def watch(self, resource: str, lag: Seconds) -> None:
        """See Observer."""

    def watch_restarted(self, resource: str) -> None:
        """See Observer."""

    def leads(self, now: Callable[[], bool]) -> None:
        """See Observer."""

    def stands_by(self) -> None:
        """See Observer."""

    def cycle(self, plan: CyclePlan, seconds: float) -> None:
        """See Observer."""

    def cancelled(self) -> None:
        """See Observer."""

    def failed(self, error: str) -> None:
        """See Observer."""

    def searched_longer(self, outcome: str) -> None:
        """See Observer."""

    def gave_up_the_lease(self) -> None:
        """See Observer."""

    def decided(self, seconds: float) -> None:
        """See Observer."""

    def bound(self, role: Role, seconds: float) -> None:
        """See Observer."""

    def bind_failed(self, reason: str, seconds: float) -> None:
        """See Observer."""

    def evicted(self, reason: EvictionReason) -> None:
        """See Observer."""

    def eviction_failed(self, reason: str) -> None:
        """See Observer."""

    def nominated(self) -> None:
        """See Observer."""

    def conflict(self, resource: str) -> None:
        """See Observer."""

    def event_dropped(self, reason: str) -> None:
        """See Observer."""

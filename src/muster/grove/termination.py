"""Gang termination: what has been below its minimum for too long is recreated, as pods alone would not recover it.

Rule 1: never what was never healthy: it would only wait once more. Rule 2: never what is being updated, and never for
being scaled below its minimum: that is what its owner asked for. Rule 3: once for each breach: what was recreated
counts as new, and has to be healthy before it can be terminated again. Rule 4: what is below its minimum goes last: its
status is all that says why, and by it a termination that was interrupted goes on. Rule 5: of the others, those that
start first go first: a clique that was recreated must not start while an older one is ready that is about to go.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from muster.api.duration import parse_nanoseconds
from muster.api.fields import text
from muster.api.grove.pod_clique_set import PodCliqueSet
from muster.api.moment import parse_time
from muster.grove.health import breached_since, is_scaled_below_minimum, was_healthy
from muster.grove.startup_order import first_to_start
from muster.workloads.pod_templates import is_terminating
from muster.workloads.types import Raw

DEFAULT_DELAY = timedelta(hours=4)
LATE_SECONDS = 10.0  # how long a status is waited for that does not say yet that pods are back
LONGEST_DELAY = timedelta(days=36_500)  # of what dates can express


class BreachWait(Struct, frozen=True):
    """How long it is until something is terminated. None: nothing is below its minimum."""

    seconds: float | None = None

    @property
    def is_over(self) -> bool:
        """Whether it is time."""
        return self.seconds is not None and self.seconds <= 0


def termination_delay(pcs: PodCliqueSet) -> timedelta:
    """How long a gang may be below its minimum; 4 hours where the set says nothing that can be read."""
    try:
        nanoseconds = parse_nanoseconds(pcs.spec.template.termination_delay or "")
    except ValueError:
        return DEFAULT_DELAY
    if nanoseconds <= 0:
        return DEFAULT_DELAY
    seconds = min(nanoseconds / 10**9, LONGEST_DELAY.total_seconds())
    return timedelta(seconds=seconds)


def wait_for(raws: Iterable[Raw | None], delay: timedelta, now: datetime) -> BreachWait:
    """How long it is until one of these cliques and groups has been below its minimum for too long."""
    times = [since for raw in raws if raw is not None and (since := _regressed_since(raw))]
    return BreachWait((min(times) + delay - now).total_seconds()) if times else BreachWait()


def wait_for_status(raws: Iterable[Raw], delay: timedelta, now: datetime) -> BreachWait:
    """The same of what its pods say is back: they may be gone again before the status says so, and nothing changes."""
    seconds = wait_for(raws, delay, now).seconds
    return BreachWait(None if seconds is None else max(seconds, LATE_SECONDS))


def _regressed_since(raw: Raw) -> datetime | None:
    """Since when something that was healthy has not been so."""
    since = breached_since(raw)
    if since is None or is_terminating(raw) or not was_healthy(raw) or is_scaled_below_minimum(raw):
        return None
    return since


def longer(first: BreachWait, second: BreachWait) -> BreachWait:
    """How long it is until both are over."""
    if first.seconds is None or second.seconds is None:
        return BreachWait()
    return BreachWait(max(first.seconds, second.seconds))


def shortest(waits: Iterable[BreachWait]) -> float | None:
    """Seconds until the first of these that is not over yet; None: there is none."""
    return min((wait.seconds for wait in waits if wait.seconds is not None and wait.seconds > 0), default=None)


def next_removals(cliques: Iterable[Raw], reasons: Sequence[Raw]) -> list[Raw]:
    """What goes now of cliques that are terminated together; those that are younger than the breach stay."""
    return removals_before(cliques, reasons, max(filter(None, map(breached_since, reasons))))


def removals_before(cliques: Iterable[Raw], reasons: Iterable[Raw], time: datetime) -> list[Raw]:
    """What goes now of cliques that are recreated together: first those that are healthy or were; `reasons` at the end.

    Those that are younger than this were recreated already, and stay. Where clocks differ, they may look older: as they
    were not healthy yet, they do not keep the others from going. A clique goes when those that it starts after have
    gone: any deletion may fail, and another controller recreates it at once.
    """
    last = {text(clique, "metadata.uid") for clique in reasons}
    old = [clique for clique in cliques if text(clique, "metadata.uid") in last or _existed_at(clique, time)]
    healthy = [clique for clique in old if was_healthy(clique) and text(clique, "metadata.uid") not in last]
    return first_to_start(healthy) or old


def _existed_at(clique: Raw, time: datetime) -> bool:
    created = parse_time(text(clique, "metadata.creationTimestamp"))
    return created is not None and created <= time

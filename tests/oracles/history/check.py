"""Every promise that a recorded run did not keep. Pure: a history in, findings out; shares no code with the engine.

Decisions are made from what a replica has seen, and that is a little older than what is stored. A finder that judges a
decision therefore finds nothing where some state between the decision and its effect allows it: it never blames
falsely. I10 (same snapshot, same plan) is about a pure function and is no matter of histories.
"""

from collections.abc import Callable, Iterator

from tests.oracles.history.bindings import bound_twice, over_limit, overfull_nodes, scattered
from tests.oracles.history.convergence import gangs_that_fit, highest_priority_waits, unsettled
from tests.oracles.history.evictions import evicted_core, evicted_in_vain
from tests.oracles.history.leaders import stale_writes
from tests.oracles.history.records import RunHistory
from tests.oracles.history.starts import hopeless_starts, partial_gangs
from tests.oracles.history.timeline import Timeline

Finder = Callable[[Timeline], Iterator[str]]
FINDERS: tuple[tuple[str, Finder], ...] = (
    ("I1", bound_twice),
    ("I2", overfull_nodes),
    ("I3", hopeless_starts),
    ("I3", partial_gangs),
    ("I4", scattered),
    ("I5", evicted_core),
    ("I6", evicted_in_vain),
    ("I7", over_limit),
    ("I9", stale_writes),
)
AT_THE_END: tuple[tuple[str, Finder], ...] = (  # a fixpoint, once no more faults happen
    ("I8", unsettled),
    ("I8", gangs_that_fit),
    ("I11", highest_priority_waits),
)


def broken(history: RunHistory) -> list[str]:
    """Every finding, with the promise that it is about."""
    timeline = Timeline(history)
    if not timeline.moments:
        return ["nothing was recorded"]
    return list(_findings(timeline, (*FINDERS, *AT_THE_END)))


def not_at_rest(history: RunHistory) -> list[str]:
    """What is still to do at the end; empty: the run has converged."""
    timeline = Timeline(history)
    return list(_findings(timeline, AT_THE_END)) if timeline.moments else []


def _findings(timeline: Timeline, finders: tuple[tuple[str, Finder], ...]) -> Iterator[str]:
    return (f"{promise}: {text}" for promise, finder in finders for text in finder(timeline))

"""Failures and drains of a scenario as events: those at given times, and those by chance.

Rule 1: every node has a random stream of its own, so that one more node changes nothing for the others. Rule 2: every
change lasts a millisecond at least: at one moment, the end of one comes before the begin of another.
"""

import heapq
from collections.abc import Iterator
from itertools import count

from muster.api.objects import Objects
from muster.errors import InputError
from muster.simulator.engine.events import DrainBegun, DrainEnded, Event, NodeBack, NodeLost
from muster.simulator.scenario.cluster_objects import nodes_of_domain
from muster.simulator.scenario.durations import draw_ms, stream, to_ms
from muster.simulator.scenario.types import Duration, NodeDrain, NodeFailure, Scenario
from muster.validation.problem import listed

NodeChange = tuple[int, Event]  # when, and what
SHORTEST_MS = 1  # of a failure or a drain


def node_changes(scenario: Scenario, objects: Objects) -> Iterator[NodeChange]:
    """Every change of a node in the order of time, one at a time; InputError: a node or a domain does not exist."""
    sources = [iter(sorted(_stated_changes(scenario, objects), key=_when))]
    if scenario.random_failures.interval.kind:
        names = sorted(node.metadata.name for node in objects.nodes)
        sources += [_random_failures(scenario, node) for node in names]
    return heapq.merge(*sources, key=_when)


def _when(change: NodeChange) -> int:
    return change[0]


def _stated_changes(scenario: Scenario, objects: Objects) -> Iterator[NodeChange]:
    for i, failure in enumerate(scenario.failures):
        for node in _nodes(failure, objects, f"failures[{i}]"):
            yield to_ms(failure.at), NodeLost(node)
            if failure.lasts is not None:
                yield _end_ms(failure.at, failure.lasts), NodeBack(node)
    for i, drain in enumerate(scenario.drains):
        for node in _nodes(drain, objects, f"drains[{i}]"):
            yield to_ms(drain.at), DrainBegun(node)
            if drain.lasts is not None:
                yield _end_ms(drain.at, drain.lasts), DrainEnded(node)


def _end_ms(at: Duration, lasts: Duration) -> int:
    return to_ms(at) + max(to_ms(lasts), SHORTEST_MS)


def _nodes(change: NodeFailure | NodeDrain, objects: Objects, at: str) -> tuple[str, ...]:
    if change.domain:
        return nodes_of_domain(objects, change.domain, f"{at}.domain")
    known = {node.metadata.name for node in objects.nodes}
    if missing := [name for name in change.nodes if name not in known]:
        raise InputError(f"{at}.nodes: there is no node `{missing[0]}`", hint=f"known: {listed(known, 6)}")
    return change.nodes


def _random_failures(scenario: Scenario, node: str) -> Iterator[NodeChange]:
    """The failures of one node until the horizon, each at least a millisecond after the last repair."""
    horizon_ms, at_ms, failures = to_ms(scenario.horizon or 0), 0, scenario.random_failures
    for number in count():
        at_ms += 1 + draw_ms(failures.interval, stream(scenario.seed, "node", node, number, "interval"))
        if at_ms >= horizon_ms:
            return
        yield at_ms, NodeLost(node)
        if not failures.repair.kind:
            return
        at_ms += max(draw_ms(failures.repair, stream(scenario.seed, "node", node, number, "repair")), SHORTEST_MS)
        yield at_ms, NodeBack(node)

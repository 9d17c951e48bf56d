"""Queues as people see them: a tree for each resource, hints, and data for programs. CLI and dashboard share these."""

from collections.abc import Iterator
from typing import Any

from muster.api.quantity import format_amount
from muster.api.queue import UNLIMITED
from muster.fairness.shares import Division
from muster.model.queues import QueueNode
from muster.reporting.text import Line, Role, Span, bar, guides, rough, table

HEAD = ("QUEUE", "QUOTA", "LIMIT", "FAIR SHARE", "ALLOCATED", "PROTECTED", "REQUESTED")


def lines(division: Division) -> Iterator[Line]:
    """For every resource the tree of queues: quota, limit, fair share, allocated and requested; then hints."""
    before = guides((node.name, node.children) for node in division.tree.nodes.values())
    for i, resource in enumerate(shown_resources(division)):
        yield from [[]] if i else []
        yield [Span(resource, "name"), Span(f"  {rough(resource, division.pool[resource])} to share", "dim")]
        rows = [[Span(text, "dim") for text in HEAD]]
        rows += [_row(division, node, resource, before[node.name]) for node in division.tree.nodes.values()]
        yield from table(rows)
    attention = list(hints(division))
    yield from [[], *attention] if attention else []


def shown_resources(division: Division) -> list[str]:
    """Resources that the cluster has, or that a queue states or a gang requests."""
    nodes = division.tree.nodes.values()
    requested = {name for node in nodes for name, amount in division.uses.requested[node.name].items() if amount}
    stated = {name for node in nodes for name in node.stated}
    return [name for name in division.tree.resources if division.pool[name] or name in requested | stated]


def _row(division: Division, node: QueueNode, resource: str, before: str) -> list[Span]:
    share = node.share(resource)
    fair = division.shares[node.name].get(resource, 0)
    requested, held, protected = _used(division, node.name, resource)
    return [
        Span(before + node.name, "name"),
        Span(_stated(resource, share.quota)),
        Span(_stated(resource, share.limit), "dim" if share.limit == UNLIMITED else "plain"),
        Span(rough(resource, fair)),
        Span(f"{bar(held, fair)} {rough(resource, held)}", _standing(held, fair, share.limit)),
        Span(rough(resource, protected)),
        Span(rough(resource, requested), "warn" if requested > held else "plain"),
    ]


def _used(division: Division, queue: str, resource: str) -> tuple[int, int, int]:
    """Requested, allocated with what is still terminating (Q4), and of that what is non-preemptible."""
    uses = division.uses
    held = uses.allocated[queue].get(resource, 0) + uses.terminating[queue].get(resource, 0)
    return uses.requested[queue].get(resource, 0), held, uses.non_preemptible[queue].get(resource, 0)


def _stated(resource: str, value: int) -> str:
    return "unlimited" if value == UNLIMITED else rough(resource, value)


def _standing(held: int, fair: int, limit: int) -> Role:
    if limit != UNLIMITED and held > limit:
        return "bad"
    return "warn" if held > fair else "good" if held else "plain"


# hints --------------------------------------------------------------------------------------------------------------


def hints(division: Division) -> Iterator[Line]:
    """What deserves attention: queues above what they were given, and queues that are in no tree."""
    for node in division.tree.nodes.values():
        for resource in division.tree.resources:
            yield from _excesses(division, node, resource)
    for name in division.tree.outside:
        yield [Span(f"! queue `{name}` is in no tree: a queue above it is missing, or they go round (Q1)", "bad")]


def _excesses(division: Division, node: QueueNode, resource: str) -> Iterator[Line]:
    """Only of what the queue states; an omitted quota needs no word."""
    share = node.stated.get(resource)
    if share is None:
        return
    _, held, protected = _used(division, node.name, resource)
    if UNLIMITED != share.limit < held:
        yield [Span(f"! queue `{node.name}` is over its limit: {_of(resource, held, share.limit)} (Q4)", "bad")]
    if UNLIMITED != share.quota < protected:
        words = f"exceeds its quota with non-preemptible pods: {_of(resource, protected, share.quota)} (Q4)"
        yield [Span(f"! queue `{node.name}` {words}", "bad")]
    elif UNLIMITED != share.quota < held:
        fair = division.shares[node.name].get(resource, 0)
        words = f"is over its quota: {_of(resource, held, share.quota)}, {_beside(resource, held, fair)}"
        yield [Span(f"hint: queue `{node.name}` {words}", "warn" if held > fair else "dim")]


def _beside(resource: str, held: int, fair: int) -> str:
    """How usage compares to the fair share: only what is above it can be reclaimed (P5)."""
    if held <= fair:
        return f"within its fair share of {rough(resource, fair)}"
    return f"and over its fair share of {rough(resource, fair)}: queues below theirs may reclaim the rest"


def _of(resource: str, held: int, allowed: int) -> str:
    return f"{rough(resource, held)} of {rough(resource, allowed)} {resource}"


# data ---------------------------------------------------------------------------------------------------------------


def data(division: Division) -> dict[str, Any]:
    """For programs: exact amounts; a queue's `resources` are those that are shown."""
    names = shown_resources(division)
    return {
        "capacity": {name: format_amount(name, division.pool[name]) for name in names},
        "queues": [_queue(division, node, names) for node in division.tree.nodes.values()],
        "outside": list(division.tree.outside),
    }


def _queue(division: Division, node: QueueNode, names: list[str]) -> dict[str, Any]:
    return {
        "name": node.name,
        "parent": node.parent,
        "priority": node.priority,
        "leaf": not node.children,
        "resources": {name: _resource(division, node, name) for name in names},
    }


def _resource(division: Division, node: QueueNode, resource: str) -> dict[str, Any]:
    share = node.share(resource)
    weight = share.weight
    requested, held, protected = _used(division, node.name, resource)
    return {
        "quota": _exact(resource, share.quota),
        "limit": _exact(resource, share.limit),
        "overQuotaWeight": int(weight) if weight.denominator == 1 else float(weight),
        "fairShare": format_amount(resource, division.shares[node.name].get(resource, 0)),
        "allocated": format_amount(resource, held),
        "allocatedNonPreemptible": format_amount(resource, protected),
        "requested": format_amount(resource, requested),
    }


def _exact(resource: str, value: int) -> str:
    return "unlimited" if value == UNLIMITED else format_amount(resource, value)

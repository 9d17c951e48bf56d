"""The queues of a cluster as a tree, and what the gangs in them request and hold (Q1, Q2, E2).

Rule 1: amounts are whole numbers in base units (X6): millicores, bytes, devices. Rule 2: an invalid value counts as
omitted and never blocks other objects.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import NamedTuple

from msgspec import Struct

from muster.api import names
from muster.api.quantity import Resources
from muster.api.queue import UNLIMITED, Queue, QueueResource
from muster.model.gang.gang import Gang
from muster.model.gang.pod_state import PENDING, PLACED
from muster.model.roles import non_preemptible, resources

USUAL = ("cpu", "memory", names.GPU)  # every queue shares these, stated or not
COLUMNS = {"cpu": "cpu", "memory": "memory", "gpu": names.GPU}  # the names in a Queue, and those in pods
MEGABYTE = 10**6

Amounts = Mapping[str, Resources]  # by queue


class Share(Struct, frozen=True):
    """What a queue states about one resource, in base units."""

    quota: int = 0  # UNLIMITED: as much as it requests
    limit: int = UNLIMITED
    weight: Fraction = Fraction(1)  # 0: no part of the surplus


class QueueNode(Struct, frozen=True, eq=False):
    """A queue and its position in the tree."""

    name: str
    parent: str = ""  # empty: a top queue
    children: tuple[str, ...] = ()
    priority: int = 100
    created: float = 0.0  # seconds; a queue without a creation time counts as the oldest
    stated: Mapping[str, Share] = {}
    unstated: Share = Share()  # its share of every other resource

    def share(self, resource: str) -> Share:
        """What it states about a resource, or the default (Q1)."""
        return self.stated.get(resource, self.unstated)

    def governs(self, resource: str) -> bool:
        """Whether its quota binds: always for cpu, memory and gpu, else where it names the resource itself."""
        return resource in self.stated or resource in USUAL


class QueueTree(Struct, frozen=True, eq=False):
    """Every queue whose ancestors lead to a top queue."""

    nodes: dict[str, QueueNode]  # parents before children, siblings by name
    outside: tuple[str, ...] = ()  # other queues: an ancestor is missing, or they form a cycle
    resources: tuple[str, ...] = USUAL  # what queues share: these, and others that a queue names

    def path(self, queue: str) -> tuple[QueueNode, ...]:
        """The queue and its ancestors, from the top down; KeyError where it is not in the tree."""
        path = [self.nodes[queue]]
        while path[-1].parent:
            path.append(self.nodes[path[-1].parent])
        return tuple(reversed(path))

    def siblings(self, parent: str = "") -> tuple[QueueNode, ...]:
        """The children of a queue, or the top queues."""
        if parent:
            return tuple(self.nodes[name] for name in self.nodes[parent].children)
        return tuple(node for node in self.nodes.values() if not node.parent)

    @property
    def leaves(self) -> tuple[QueueNode, ...]:
        """The queues that workloads may use (Q1)."""
        return tuple(node for node in self.nodes.values() if not node.children)


class Uses(Struct, frozen=True, eq=False):
    """What queues request and hold, each with everything below it (E2).

    Fair shares and the order between queues use `allocated`. A limit holds for `holding`, so at every moment (Q4). A
    nomination is for the time after terminating pods are gone, so it is checked without `terminating`.
    """

    requested: Amounts  # of pods that are placed or could be
    allocated: Amounts  # of placed pods, leftovers included (N4)
    non_preemptible: Amounts  # of placed pods that are non-preemptible
    terminating: Amounts  # of terminating pods that still hold resources on their nodes
    terminating_non_preemptible: Amounts  # the part of it that pods of non-preemptible gangs hold

    @property
    def holding(self) -> dict[str, Resources]:
        """All that pods hold on nodes now."""
        return {name: plus(amount, self.terminating[name]) for name, amount in self.allocated.items()}


# the tree -----------------------------------------------------------------------------------------------------------


def arrange(queues: Iterable[Queue]) -> QueueTree:
    """The tree of these queues; without any, `default` exists implicitly and is unlimited (Q2).

    The order of the queues makes no difference (X3). A queue without a name is left out.
    """
    known = {queue.metadata.name: queue for queue in sorted(queues, key=_name) if _name(queue)}
    if not known:
        free = QueueNode(names.DEFAULT_QUEUE, unstated=Share(quota=UNLIMITED))
        return QueueTree({free.name: free})
    below: dict[str, list[str]] = defaultdict(list)
    for name, queue in known.items():
        below[queue.spec.parent_queue].append(name)
    nodes = {name: _node(known[name], below.get(name, [])) for name in _from_the_top(below)}
    named = {resource for node in nodes.values() for resource in node.stated}
    return QueueTree(
        nodes=nodes,
        outside=tuple(name for name in known if name not in nodes),
        resources=(*USUAL, *sorted(named.difference(USUAL))),
    )


def _from_the_top(below: Mapping[str, list[str]]) -> Iterator[str]:
    ahead = below.get("", [])[::-1]
    while ahead:
        name = ahead.pop()
        yield name
        ahead += reversed(below.get(name, []))


def _node(queue: Queue, children: list[str]) -> QueueNode:
    return QueueNode(
        name=queue.metadata.name,
        parent=queue.spec.parent_queue,
        children=tuple(children),
        priority=queue.spec.priority,
        created=_created(queue),
        stated=_stated(queue.spec.resources),
    )


def _name(queue: Queue) -> str:
    return queue.metadata.name


def _created(queue: Queue) -> float:
    moment = queue.metadata.creation_timestamp
    return moment.timestamp() if moment else 0.0


def _stated(stated: Mapping[str, QueueResource]) -> dict[str, Share]:
    """Shares by the resource names of pods; `nvidia.com/gpu` goes before `gpu`. Unknown names are left out."""
    short = {COLUMNS[name]: _share(name, resource) for name, resource in stated.items() if name in COLUMNS}
    return short | {name: _share(name, resource) for name, resource in stated.items() if "/" in name}


def _share(name: str, stated: QueueResource) -> Share:
    unit = MEGABYTE if name == "memory" else 1
    return Share(
        quota=_amount(stated.quota, unit, silence=0),
        limit=_amount(stated.limit, unit, silence=UNLIMITED),
        weight=_weight(stated.over_quota_weight),
    )


def _amount(value: float, unit: int, silence: int) -> int:
    """The amount in base units, from whole units, rounded down; an invalid value counts as `silence`."""
    if not math.isfinite(value) or value < UNLIMITED:
        return silence
    whole = math.floor(value)
    return UNLIMITED if whole == UNLIMITED else whole * unit


def _weight(value: float) -> Fraction:
    """The weight exactly as written: 0.1 is a tenth."""
    if not math.isfinite(value) or value < 0:
        return Share().weight
    return Fraction(value) if isinstance(value, int) else Fraction(str(value))


# what is used -------------------------------------------------------------------------------------------------------


def uses(tree: QueueTree, gangs: Iterable[Gang]) -> Uses:
    """What the gangs in these queues request and hold, summed up to the top.

    A gang in a queue outside the tree does not count. Pending pods of a gang in a queue with children, or of a gang
    without a valid tree of its own, request nothing: they cannot be placed.

    Of a semi-preemptible gang no terminating pod is protected: its core is what is placed (P2).
    """
    totals = tuple({name: Resources() for name in tree.nodes} for _ in range(5))
    requested, allocated, protected, terminating, terminating_protected = totals
    alike = Counter((gang.queue, bool(gang.broken), footprint(gang)) for gang in gangs if gang.queue in tree.nodes)
    for (queue, is_broken, amounts_of), count in alike.items():
        _add(allocated[queue], amounts_of.held, count)
        _add(requested[queue], amounts_of.held, count)
        if not (is_broken or tree.nodes[queue].children):
            _add(requested[queue], amounts_of.wanted, count)
        _add(protected[queue], amounts_of.protected, count)
        _add(terminating[queue], amounts_of.terminating, count)
        _add(terminating_protected[queue], amounts_of.terminating_protected, count)
    return Uses(*(_summed(tree, amounts) for amounts in totals))


Items = tuple[tuple[str, int], ...]


class Footprint(NamedTuple):
    """The amounts that one gang adds to its queue: most gangs of a cluster have one of a few footprints."""

    held: Items
    wanted: Items
    protected: Items
    terminating: Items
    terminating_protected: Items


def footprint(gang: Gang) -> Footprint:
    """The footprint of a gang, computed once."""
    known: Footprint | None = gang.__dict__.get("footprint")
    if known is None:
        known = gang.__dict__["footprint"] = _uniform_footprint(gang) or any_footprint(gang)
    return known


def any_footprint(gang: Gang) -> Footprint:
    """The definition of a footprint, for every gang."""
    protected: Mapping[str, int] = {}
    if gang.preemptibility == names.NON_PREEMPTIBLE:
        protected = gang.protected
    elif gang.preemptibility == names.SEMI_PREEMPTIBLE:
        protected = resources(non_preemptible(gang))
    terminating_protected = gang.terminating_members if gang.preemptibility == names.NON_PREEMPTIBLE else {}
    amounts = (gang.held, gang.pending_requests, protected, gang.terminating, terminating_protected)
    return Footprint(*(tuple(sorted(amount.items())) for amount in amounts))


def _uniform_footprint(gang: Gang) -> Footprint | None:
    """The footprint of a gang of one leaf whose pods are all placed or all pending, as most are. None: of another."""
    if gang.uniform is None or gang.preemptibility == names.SEMI_PREEMPTIBLE:
        return None
    state, items = gang.uniform
    if state is PENDING:
        return Footprint((), items, (), (), ())
    if state is not PLACED:
        return None
    return Footprint(items, (), items if gang.preemptibility == names.NON_PREEMPTIBLE else (), (), ())


def _add(total: Resources, more: Items, count: int) -> None:
    for name, amount in more:
        total[name] = total.get(name, 0) + amount * count


def _summed(tree: QueueTree, amounts: dict[str, Resources]) -> dict[str, Resources]:
    """Amounts with those of all queues below, added from the bottom up."""
    for node in reversed(tree.nodes.values()):
        if node.parent:
            amounts[node.parent] = plus(amounts[node.parent], amounts[node.name])
    return amounts


def plus(first: Mapping[str, int], extra: Mapping[str, int]) -> Resources:
    """The sum of two amounts."""
    total = Resources(first)
    for name, amount in extra.items():
        total[name] = total.get(name, 0) + amount
    return total


def charged(tree: QueueTree, amounts: Amounts, queue: str, extra: Mapping[str, int]) -> dict[str, Resources]:
    """The amounts with `extra` added to a queue and to each of its ancestors."""
    return {**amounts, **{node.name: plus(amounts[node.name], extra) for node in tree.path(queue)}}

"""Nodes as the map shows them: what each has, and which gangs use it.

`node_rows` is the definition; the live model keeps equal rows up to date at the cost of what changes.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile

import msgspec
from msgspec import Raw, Struct

from muster.api import names
from muster.api.core import Node, Pod, Taint
from muster.api.objects import key
from muster.api.quantity import format_amount, is_in_bytes
from muster.api.topology import Topology
from muster.model.gang.gang import Gang
from muster.model.gang.pod_state import holds_resources
from muster.model.roles import leftovers, roles_of
from muster.model.snapshot import MAX_AMOUNT, Snapshot, node_requests
from muster.planning.decision import Binding, CyclePlan
from muster.reporting.dashboard.rows import (
    ConditionRow,
    Flag,
    NodePage,
    NodePod,
    NodeRow,
    ResourceUnit,
    Unit,
    UseState,
)
from muster.reporting.plans import headline
from muster.validation.pods.membership import gang_of, is_ours

Levels = Mapping[str, Sequence[str]]  # by topology: the labels of its levels, coarse to fine
FIRST = ("cpu", "memory")  # after accelerators


class PodUse(Struct, frozen=True, gc=False):
    """A pod that uses resources of a node, or is nominated to it."""

    pod: str  # namespace/name
    node: str
    gang: str  # namespace/name; empty: it is in none
    sub_group: str
    is_terminating: bool
    requests: Mapping[str, int]


class NodeFacts(Struct, frozen=True):
    """What a node says of itself."""

    domains: dict[str, str]
    allocatable: dict[str, int]
    flags: tuple[Flag, ...]
    labels: dict[str, str]  # those of topologies
    taints: tuple[str, ...]
    conditions: tuple[ConditionRow, ...]


class RecordedNode(Struct, frozen=True):
    """A node at one moment: its row as it travels, and what its page is made of."""

    row: Raw
    facts: NodeFacts
    uses: tuple[tuple[PodUse, UseState], ...]

    @property
    def cost(self) -> int:
        """About how many bytes an earlier record takes: most of its parts are shared."""
        return 400 + len(memoryview(self.row)) + 80 * len(self.uses)


# one node -----------------------------------------------------------------------------------------------------------


def levels_of(topologies: Iterable[Topology]) -> dict[str, tuple[str, ...]]:
    """The levels of every topology."""
    return {each.metadata.name: tuple(level.node_label for level in each.spec.levels) for each in topologies}


def node_facts(node: Node, levels: Levels) -> NodeFacts:
    """What a node says of itself."""
    labels, stated = node.metadata.labels, node.status.allocatable or node.status.capacity
    return NodeFacts(
        domains={name: _path(labels, level_labels) for name, level_labels in levels.items()},
        allocatable={name: min(amount, MAX_AMOUNT - 1) for name, amount in sorted(stated.items())},
        flags=tuple(_flags(node)),
        labels={label: labels[label] for level in levels.values() for label in level if label in labels},
        taints=tuple(map(_taint, node.spec.taints)),
        conditions=tuple(ConditionRow(each.type, each.status) for each in node.status.conditions),
    )


def _path(labels: Mapping[str, str], level_labels: Sequence[str]) -> str:
    """As deep as the node is labelled (T5)."""
    return "/".join(labels[label] for label in takewhile(labels.__contains__, level_labels))


def _flags(node: Node) -> Iterator[Flag]:
    if node.spec.unschedulable:
        yield "cordoned"
    if any(each.type == "Ready" and each.status != "True" for each in node.status.conditions):
        yield "lost"
    if node.spec.taints:
        yield "tainted"


def _taint(taint: Taint) -> str:
    return f"{taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}"


def node_record(facts: NodeFacts, uses: Iterable[tuple[PodUse, UseState]]) -> RecordedNode:
    """A node with the pods on it."""
    ordered = tuple(sorted(uses, key=lambda use: use[0].pod))
    return RecordedNode(Raw(msgspec.json.encode(node_row(facts, ordered))), facts, ordered)


def node_row(facts: NodeFacts, uses: Iterable[tuple[PodUse, UseState]]) -> NodeRow:
    """A node with what the pods of each gang use on it."""
    totals: dict[tuple[str, UseState], dict[str, int]] = {}
    for use, state in uses:
        total = totals.setdefault((use.gang, state), {})
        for name, amount in use.requests.items():
            total[name] = total.get(name, 0) + amount
    used = tuple((gang, state, totals[gang, state]) for gang, state in sorted(totals))
    return NodeRow(facts.domains, facts.allocatable, facts.flags, used)


def node_page(name: str, cycle: int, record: RecordedNode) -> NodePage:
    """All about one node."""
    facts = record.facts
    return NodePage(
        name=name,
        cycle=cycle,
        row=msgspec.json.decode(record.row, type=NodeRow),
        labels=facts.labels,
        taints=facts.taints,
        conditions=facts.conditions,
        pods=tuple(_pod_line(use, state) for use, state in record.uses),
    )


def _pod_line(use: PodUse, state: UseState) -> NodePod:
    namespace, _, name = use.pod.partition("/")
    requests = {each: format_amount(each, amount) for each, amount in sorted(use.requests.items()) if each != "pods"}
    return NodePod(namespace, name, use.gang, use.sub_group, state, requests)


# what uses it -------------------------------------------------------------------------------------------------------


def pod_use(
    pod: Pod,
    node: str,
    gangs: Collection[str],
    schedulers: Collection[str],
    share: Callable[[Mapping[str, int]], Mapping[str, int]] = lambda requests: requests,
) -> PodUse:
    """The pod on this node; of a gang only if it is ours (N6). `share`: the one value for equal requests."""
    gang = gang_of(pod)
    is_member = gang is not None and gang in gangs and is_ours(pod, schedulers)
    return PodUse(
        pod=key(pod.metadata),
        node=node,
        gang=gang if is_member and gang is not None else "",
        sub_group=pod.metadata.labels.get(names.SUBGROUP, "") if is_member else "",
        is_terminating=pod.metadata.deletion_timestamp is not None,
        requests=share(node_requests(pod.spec)),
    )


def use_state(use: PodUse, roles_by_pod: Mapping[str, UseState]) -> UseState:
    """What a placed pod is: one that a plan does not know yet counts as an extra."""
    if use.is_terminating:
        return "terminating"
    return roles_by_pod.get(use.pod, "extra") if use.gang else "foreign"


def gang_roles(gang: Gang) -> dict[str, UseState]:
    """Core or extra, for every placed pod of a gang; leftovers are extras, as they leave first (N4)."""
    known = roles_of(gang)
    extras = (*leftovers(gang), *(pod for unit in known.surplus for pod in unit))
    shown: dict[str, UseState] = {f"{gang.namespace}/{pod.name}": "core" for pod in known.core}
    return shown | {f"{gang.namespace}/{pod.name}": "extra" for pod in extras}


# all of them --------------------------------------------------------------------------------------------------------


def node_rows(snapshot: Snapshot, plan: CyclePlan, is_carried_out: bool = False) -> dict[str, NodeRow]:
    """Every node of a snapshot, with the roles and nominations of a plan; and with what it binds, if it is carried out.

    Pods that it evicts are terminating then.
    """
    levels = levels_of(snapshot.objects.topologies)
    uses = _uses_by_node(snapshot, plan, is_carried_out)
    return {node.metadata.name: node_row(node_facts(node, levels), uses[node.metadata.name]) for node in snapshot.nodes}


def _uses_by_node(
    snapshot: Snapshot, plan: CyclePlan, is_carried_out: bool
) -> Mapping[str, list[tuple[PodUse, UseState]]]:
    gangs = {gang_plan.gang.key: gang_plan.gang for gang_plan in plan.gangs}
    roles_by_pod = {pod: role for gang in gangs.values() for pod, role in gang_roles(gang).items()}
    bound = {binding.key: binding.node for binding in plan.bindings} if is_carried_out else {}
    evicted = {eviction.key for eviction in plan.evictions} if is_carried_out else set()
    uses: dict[str, list[tuple[PodUse, UseState]]] = defaultdict(list)
    for name, pod in snapshot.pods.items():
        node = pod.spec.node_name or bound.get(name, "")
        if node and holds_resources(pod):
            use = pod_use(pod, node, gangs, snapshot.schedulers)
            uses[node].append((use, "terminating" if name in evicted else use_state(use, roles_by_pod)))
    for use in nominated_uses(plan.nominations, snapshot.pods, gangs, snapshot.schedulers):
        uses[use.node].append((use, "nominated"))
    return uses


def nominated_uses(
    nominations: Iterable[Binding], pods: Mapping[str, Pod], gangs: Collection[str], schedulers: Collection[str]
) -> Iterator[PodUse]:
    """Pods that wait for a node whose resources are still being freed."""
    for nomination in nominations:
        pod = pods.get(nomination.key)
        if pod is not None and not pod.spec.node_name:
            yield pod_use(pod, nomination.node, gangs, schedulers)


def shown_resources(amounts: Iterable[Mapping[str, int]]) -> tuple[ResourceUnit, ...]:
    """The resources that nodes offer, the one that a map shows first."""
    offered = sorted({name for each in amounts for name, amount in each.items() if amount})
    first = headline(offered)
    ordered = sorted(offered, key=lambda name: (name != first, "/" not in name, name not in FIRST, name))
    return tuple(ResourceUnit(name, unit_of(name)) for name in ordered)


def unit_of(resource: str) -> Unit:
    """What whole numbers of a resource count."""
    return "milli" if resource == "cpu" else "bytes" if is_in_bytes(resource) else ""

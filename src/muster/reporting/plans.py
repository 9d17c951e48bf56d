"""A plan as data (the contract of `plan -o json`) and as pictures: gangs as trees, the cluster as a map of domains."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from muster.api.names import OURS
from muster.model.gang.types import Branch, Leaf, walk
from muster.model.snapshot import EXCLUSIVE, Snapshot
from muster.planning.decision import Binding, CyclePlan, Eviction, GangPlan
from muster.planning.disturbance import CycleDisturbance
from muster.reporting.explain import helps, reasons, sentence
from muster.reporting.minimums import minimums_of
from muster.reporting.text import Line, Role, Span, bar, many, table
from muster.reporting.views import draw_tree, inspect_gang

MANY_GANGS, MANY_NODES = 20, 64  # above these, trees and nodes are too many to look at
VERDICT_ROLES: dict[str, Role] = {"Scheduled": "good", "Waiting": "warn", "Infeasible": "bad", "Unknown": "warn"}


def data(plan: CyclePlan) -> dict[str, Any]:
    """The contract; lists are sorted."""
    return {
        "apiVersion": OURS,
        "kind": "Plan",
        "bindings": [_binding(binding) for binding in plan.bindings],
        "nominations": [_binding(binding) for binding in plan.nominations],
        "evictions": [_eviction(eviction) for eviction in plan.evictions],
        "disturbance": _disturbance(plan.disturbance),
        "podGroups": [
            {
                "namespace": found.gang.namespace,
                "name": found.gang.name,
                "verdict": found.verdict,
                "reasons": reasons(found),
                "queue": found.gang.queue,
                "position": found.position,
                "ahead": list(found.ahead),
                "tree": _tree(found),
                "strays": [
                    {"pod": stray.pod, "reason": stray.why, "message": stray.says} for stray in found.gang.strays
                ],
            }
            for found in plan.gangs
        ],
    }


def _binding(binding: Binding) -> dict[str, str]:
    return {
        "namespace": binding.namespace,
        "pod": binding.pod,
        "node": binding.node,
        "podGroup": binding.pod_group,
        "subGroup": binding.sub_group,
        "role": binding.role,
    }


def _disturbance(found: CycleDisturbance) -> dict[str, Any]:
    return {
        "evicted": found.evicted,
        "moved": found.moved,
        "running": found.running,
        "allowed": found.allowed,
        "for": [
            {"podGroup": one.gang, "evicted": one.evicted, "moved": one.moved, "proof": one.proof}
            for one in found.gangs
        ],
    }


def _eviction(eviction: Eviction) -> dict[str, Any]:
    found: dict[str, Any] = {
        "namespace": eviction.namespace,
        "pod": eviction.pod,
        "node": eviction.node,
        "podGroup": eviction.pod_group,
        "subGroup": eviction.sub_group,
        "reason": eviction.reason,
        "for": eviction.preemptor,
    }
    found |= {"moveTo": eviction.move_to} if eviction.move_to else {}
    return found | ({"details": {"proof": eviction.proof}} if eviction.proof else {})


def _tree(found: GangPlan) -> dict[str, Any]:
    now, domains = found.gang.standings, found.domains
    made: dict[str, dict[str, Any]] = {}
    for group in reversed(list(walk(found.gang.root))):
        made[group.name] = {
            "name": group.name,
            "need": group.need,
            **minimums_of(group, now).plain(),
            "satisfied": now[group.name].satisfied,
            "placed": now[group.name].placed,
            "pending": now[group.name].pending,
            "domain": domains.get(group.name, ""),
            "children": [made.pop(child.name) for child in group.children] if isinstance(group, Branch) else [],
        }
    return made[found.gang.root.name]


# pictures -----------------------------------------------------------------------------------------------------------


def lines(plan: CyclePlan, snapshot: Snapshot) -> Iterator[Line]:
    """What was decided in one line, every gang with its verdict and its tree, and the cluster with who sits where.

    Where there are many gangs or nodes, each gang is a line and each domain a row.
    """
    counts = Counter(found.verdict for found in plan.gangs)
    said = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items())) or "nothing to do"
    gangs, pods = many(len(plan.gangs), "gang"), many(len(plan.bindings), "pod")
    yield [Span(f"{gangs}: {said}; {pods} to bind{_more(plan)}", "name")]
    yield []
    if len(plan.gangs) > MANY_GANGS:
        yield from gang_table(plan)
        yield []
    else:
        for found in plan.gangs:
            yield from gang_lines(found)
            yield []
    yield from eviction_lines(plan)
    yield from cluster_map(plan, snapshot) if len(snapshot.nodes) <= MANY_NODES else domain_map(plan, snapshot)


def _more(plan: CyclePlan) -> str:
    """Places that are kept and pods that leave, where there are any."""
    said = f", {many(len(plan.nominations), 'place')} kept" if plan.nominations else ""
    moves = sum(bool(eviction.move_to) for eviction in plan.evictions)
    said += f", {many(len(plan.evictions), 'pod')} to evict" if plan.evictions else ""
    return said + (f" ({moves} of them move)" if moves else "")


def eviction_lines(plan: CyclePlan) -> Iterator[Line]:
    """Who has to leave, why, for preemptor, and where to."""
    if not plan.evictions:
        return
    yield from _disturbance_line(plan.disturbance)
    rows = [[Span(text, "dim") for text in ("LEAVES", "NODE", "WHY", "FOR", "MOVES TO", "PROOF")]]
    for one in plan.evictions[:MANY_NODES]:
        pod = Span(one.key, "name")
        told = (Span(one.node), Span(one.reason, "warn"), Span(one.preemptor), Span(one.move_to), Span(one.proof))
        rows.append([pod, *told])
    yield from table(rows)
    if len(plan.evictions) > MANY_NODES:
        yield [Span(f"and {many(len(plan.evictions) - MANY_NODES, 'pod')} more (all of them: -o json)", "dim")]
    yield []


def _disturbance_line(found: CycleDisturbance) -> Iterator[Line]:
    """How much is disturbed for preemptor, and how much may be (P8)."""
    if not found.gangs:
        return
    gangs = many(len(found.gangs), "gang")
    said = f"{many(found.evicted, 'pod')} leave and {found.moved} move for {gangs}, of {found.running} that run"
    yield [Span(f"{said}; a cycle may disturb {found.allowed}, or what one gang needs", "dim")]


def gang_table(plan: CyclePlan) -> Iterator[Line]:
    """One line for every gang, those that wait first, and the reason below."""
    rows = [[Span(text, "dim") for text in ("VERDICT", "GANG", "PLACED", "PENDING", "WHY")]]
    for found in sorted(plan.gangs, key=lambda found: (found.verdict == "Scheduled", found.verdict, found.gang.key)):
        now = found.gang.standing
        why = "; ".join(sentence(refusal) for refusal in found.refusals)
        verdict = Span(found.verdict, VERDICT_ROLES.get(found.verdict, "bad"))
        rows.append([verdict, Span(found.gang.key, "name"), Span(str(now.placed)), Span(str(now.pending)), Span(why)])
    yield from table(rows)
    yield [Span("hint: `muster explain NAMESPACE/NAME FILE…` shows one of them with its tree", "dim")]


def gang_lines(found: GangPlan) -> Iterator[Line]:
    """One gang: verdict, reasons, tree with domains."""
    yield [Span(f"{found.verdict}  ", VERDICT_ROLES.get(found.verdict, "bad")), Span(found.gang.key, "name")]
    if found.position:
        behind = f", behind {', '.join(found.ahead)}" if found.ahead else ", next in line"
        yield [Span(f"  place {found.position} in queue `{found.gang.queue}`{behind}", "dim")]
    for refusal in found.refusals:
        yield [Span(f"  {sentence(refusal)}", "warn" if found.verdict == "Scheduled" else "bad")]
        for help_ in helps(refusal):
            yield [Span(f"  hint: {help_}")]
    yield from draw_tree(inspect_gang(found.gang), found.domains)


def cluster_map(plan: CyclePlan, snapshot: Snapshot) -> Iterator[Line]:
    """Nodes by their finest shared domain: what is used, and the gangs that sit there."""
    seats: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for found in plan.gangs:
        for leaf in walk(found.gang.root):
            for member in leaf.placed if isinstance(leaf, Leaf) else ():
                seats[member.node][found.gang.key] += 1
    column = _headline(snapshot)
    rows = [[Span(text, "dim") for text in ("DOMAIN", "NODE", column.upper(), "GANGS")]]
    used = _used(plan, snapshot)
    last = ""
    for i in _by_domain(snapshot):
        node, domain = snapshot.nodes[i].metadata.name, _domain(snapshot, i)
        room, taken = (
            int(snapshot.allocatable[i, snapshot.columns.index(column)]),
            int(used[i, snapshot.columns.index(column)]),
        )
        who = ", ".join(f"{key} ×{pods}" for key, pods in sorted(seats[node].items()))
        rows.append(
            [
                Span(domain if domain != last else ""),
                Span(node, "name"),
                Span(f"{bar(taken, room)} {taken}/{room}"),
                Span(who),
            ]
        )
        last = domain
    yield from table(rows)


def domain_map(plan: CyclePlan, snapshot: Snapshot) -> Iterator[Line]:
    """Domains of the finest level that can be looked at: what is used, and how many gangs sit there."""
    used, column = _used(plan, snapshot), _headline(snapshot)
    at = snapshot.columns.index(column)
    level = next(
        (
            level
            for tree in snapshot.topologies.values()
            for level in reversed(tree.levels)
            if 0 < len(level.paths) <= MANY_NODES
        ),
        None,
    )
    if level is None:
        room, taken = int(snapshot.allocatable[:, at].sum()), int(used[:, at].sum())
        yield [Span(f"{many(len(snapshot.nodes), 'node')}: {bar(taken, room)} {taken}/{room} {column}")]
        return
    seats: dict[int, set[str]] = defaultdict(set)
    for found in plan.gangs:
        for leaf in walk(found.gang.root):
            for member in leaf.placed if isinstance(leaf, Leaf) else ():
                if member.node in snapshot.node_index:
                    seats[int(level.domain[snapshot.node_index[member.node]])].add(found.gang.key)
    rows = [[Span(text, "dim") for text in (level.label.upper(), "NODES", column.upper(), "GANGS")]]
    for domain, path in enumerate(level.paths):
        nodes = level.nodes(domain)
        room, taken = int(snapshot.allocatable[nodes, at].sum()), int(used[nodes, at].sum())
        part = Span(f"{bar(taken, room)} {taken}/{room}")
        rows.append([Span(path, "name"), Span(str(len(nodes))), part, Span(str(len(seats[domain])))])
    yield from table(rows)


def _used(plan: CyclePlan, snapshot: Snapshot) -> Any:
    used = snapshot.used.copy()
    for binding in plan.bindings:
        pod_class = snapshot.class_of[binding.key]
        used[snapshot.node_index[binding.node]] += snapshot.classes[pod_class].requests
    return used


def _headline(snapshot: Snapshot) -> str:
    """The resource that a map shows: an accelerator if there is one, else cpu, else pods."""
    offered = snapshot.allocatable.sum(axis=0)
    extended = [c for i, c in enumerate(snapshot.columns) if "/" in c and offered[i] and not c.startswith(EXCLUSIVE)]
    return extended[0] if extended else "cpu" if "cpu" in snapshot.columns else "pods"


def _by_domain(snapshot: Snapshot) -> list[int]:
    return sorted(range(len(snapshot.nodes)), key=lambda i: (_domain(snapshot, i), snapshot.nodes[i].metadata.name))


def _domain(snapshot: Snapshot, node: int) -> str:
    for tree in snapshot.topologies.values():
        for level in reversed(tree.levels):
            domain = int(level.domain[node])
            if domain >= 0 and len(level.nodes(domain)) > 1:
                return level.paths[domain]
    return ""

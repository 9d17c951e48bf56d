"""A plan as data (the contract of `plan -o json`) and as pictures: gangs as trees, the cluster as a map of domains."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from muster.api.names import OURS
from muster.model.gang.types import Branch, Leaf, walk
from muster.model.snapshot import EXCLUSIVE, Snapshot
from muster.planning.decision import Binding, CyclePlan, Eviction, GangPlan
from muster.planning.disturbance import CycleDisturbance
from muster.planning.grove.scaled_gangs import ScaledGang
from muster.reporting.explain import helps, reasons, sentence
from muster.reporting.grove.hints import refusals_of
from muster.reporting.grove.scaled import NONE_SCALED, after_base, scaled_data
from muster.reporting.minimums import minimums_of
from muster.reporting.text import Line, Role, Span, bar, many, table
from muster.reporting.views import draw_tree, inspect_gang

MANY_GANGS, MANY_NODES = 20, 64  # above these, trees and nodes are summarised
VERDICT_ROLES: dict[str, Role] = {"Scheduled": "good", "Waiting": "warn", "Infeasible": "bad", "Unknown": "warn"}


def data(plan: CyclePlan, scaled: Mapping[str, ScaledGang] = NONE_SCALED) -> dict[str, Any]:
    """The contract; lists are sorted. `scaled`: gangs that start after another one."""
    return {
        "apiVersion": OURS,
        "kind": "Plan",
        "bindings": [_binding(binding) for binding in plan.bindings],
        "nominations": [_binding(binding) for binding in plan.nominations],
        "evictions": [_eviction(eviction) for eviction in plan.evictions],
        "disturbance": _disturbance(plan.disturbance),
        "podGroups": [
            {
                "namespace": gang_plan.gang.namespace,
                "name": gang_plan.gang.name,
                "verdict": gang_plan.verdict,
                "reasons": reasons(gang_plan),
                "queue": gang_plan.gang.queue,
                "position": gang_plan.position,
                "ahead": list(gang_plan.ahead),
                **scaled_data(scaled.get(gang_plan.gang.key)),
                "tree": _tree(gang_plan),
                "strays": [
                    {"pod": stray.pod, "reason": stray.why, "message": stray.says} for stray in gang_plan.gang.strays
                ],
            }
            for gang_plan in plan.gangs
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


def _disturbance(disturbance: CycleDisturbance) -> dict[str, Any]:
    return {
        "evicted": disturbance.evicted,
        "moved": disturbance.moved,
        "running": disturbance.running,
        "allowed": disturbance.allowed,
        "for": [
            {"podGroup": gang.gang, "evicted": gang.evicted, "moved": gang.moved, "proof": gang.proof}
            for gang in disturbance.gangs
        ],
    }


def _eviction(eviction: Eviction) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "namespace": eviction.namespace,
        "pod": eviction.pod,
        "node": eviction.node,
        "podGroup": eviction.pod_group,
        "subGroup": eviction.sub_group,
        "reason": eviction.reason,
        "for": eviction.preemptor,
    }
    shown |= {"moveTo": eviction.move_to} if eviction.move_to else {}
    return shown | ({"details": {"proof": eviction.proof}} if eviction.proof else {})


def _tree(plan: GangPlan) -> dict[str, Any]:
    now, domains = plan.gang.standings, plan.domains
    made: dict[str, dict[str, Any]] = {}
    for group in reversed(list(walk(plan.gang.root))):
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
    return made[plan.gang.root.name]


# pictures -----------------------------------------------------------------------------------------------------------


def lines(plan: CyclePlan, snapshot: Snapshot, scaled: Mapping[str, ScaledGang] = NONE_SCALED) -> Iterator[Line]:
    """A summary line, every gang with its verdict and its tree, and the nodes with the gangs on them.

    Where there are many gangs or nodes, each gang is a line and each domain a row.
    """
    counts = Counter(gang_plan.verdict for gang_plan in plan.gangs)
    verdicts = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items())) or "nothing to do"
    gangs, pods = many(len(plan.gangs), "gang"), many(len(plan.bindings), "pod")
    yield [Span(f"{gangs}: {verdicts}; {pods} to bind{_more(plan)}", "name")]
    yield []
    if len(plan.gangs) > MANY_GANGS:
        yield from gang_table(plan)
        yield []
    else:
        for gang_plan in plan.gangs:
            yield from gang_lines(gang_plan, scaled.get(gang_plan.gang.key))
            yield []
    yield from eviction_lines(plan)
    yield from cluster_map(plan, snapshot) if len(snapshot.nodes) <= MANY_NODES else domain_map(plan, snapshot)


def _more(plan: CyclePlan) -> str:
    """Nominated places and evictions, where there are any."""
    words = f", {many(len(plan.nominations), 'place')} kept" if plan.nominations else ""
    moves = sum(bool(eviction.move_to) for eviction in plan.evictions)
    words += f", {many(len(plan.evictions), 'pod')} to evict" if plan.evictions else ""
    return words + (f" ({moves} of them move)" if moves else "")


def eviction_lines(plan: CyclePlan) -> Iterator[Line]:
    """Every victim with its node, reason, preemptor and new place."""
    if not plan.evictions:
        return
    yield from _disturbance_line(plan.disturbance)
    rows = [[Span(text, "dim") for text in ("LEAVES", "NODE", "WHY", "FOR", "MOVES TO", "PROOF")]]
    for eviction in plan.evictions[:MANY_NODES]:
        pod = Span(eviction.key, "name")
        cells = (
            Span(eviction.node),
            Span(eviction.reason, "warn"),
            Span(eviction.preemptor),
            Span(eviction.move_to),
            Span(eviction.proof),
        )
        rows.append([pod, *cells])
    yield from table(rows)
    if len(plan.evictions) > MANY_NODES:
        yield [Span(f"and {many(len(plan.evictions) - MANY_NODES, 'pod')} more (all of them: -o json)", "dim")]
    yield []


def _disturbance_line(disturbance: CycleDisturbance) -> Iterator[Line]:
    """How much is disturbed for preemptor, and how much may be (P8)."""
    if not disturbance.gangs:
        return
    gangs = many(len(disturbance.gangs), "gang")
    disturbed = f"{many(disturbance.evicted, 'pod')} leave and {disturbance.moved} move for {gangs}"
    allowed = f"a cycle may disturb {disturbance.allowed}, or what one gang needs"
    yield [Span(f"{disturbed}, of {disturbance.running} that run; {allowed}", "dim")]


def gang_table(plan: CyclePlan) -> Iterator[Line]:
    """One line for every gang, those that wait first, and the reason below."""
    rows = [[Span(text, "dim") for text in ("VERDICT", "GANG", "PLACED", "PENDING", "WHY")]]
    for gang_plan in sorted(
        plan.gangs, key=lambda gang_plan: (gang_plan.verdict == "Scheduled", gang_plan.verdict, gang_plan.gang.key)
    ):
        now = gang_plan.gang.standing
        why = "; ".join(sentence(refusal) for refusal in gang_plan.refusals)
        verdict = Span(gang_plan.verdict, VERDICT_ROLES.get(gang_plan.verdict, "bad"))
        rows.append(
            [verdict, Span(gang_plan.gang.key, "name"), Span(str(now.placed)), Span(str(now.pending)), Span(why)]
        )
    yield from table(rows)
    yield [Span("hint: `muster explain NAMESPACE/NAME FILE…` shows one of them with its tree", "dim")]


def gang_lines(
    plan: GangPlan, scaled: ScaledGang | None = None, domains: Mapping[str, str] | None = None
) -> Iterator[Line]:
    """One gang: verdict, reasons, tree with domains. `scaled`: it starts after another one.

    `domains`: as they were, where the snapshot of the plan is gone.
    """
    yield [Span(f"{plan.verdict}  ", VERDICT_ROLES.get(plan.verdict, "bad")), Span(plan.gang.key, "name")]
    if scaled is not None:
        yield [Span(f"  {after_base(scaled)}", "dim" if scaled.is_lifted else "warn")]
    if plan.position:
        behind = f", behind {', '.join(plan.ahead)}" if plan.ahead else ", next in line"
        yield [Span(f"  place {plan.position} in queue `{plan.gang.queue}`{behind}", "dim")]
    for refusal in refusals_of(plan):
        yield [Span(f"  {sentence(refusal)}", "warn" if plan.verdict == "Scheduled" else "bad")]
        for help_ in helps(refusal):
            yield [Span(f"  hint: {help_}")]
    yield from draw_tree(inspect_gang(plan.gang), plan.domains if domains is None else domains)


def cluster_map(plan: CyclePlan, snapshot: Snapshot) -> Iterator[Line]:
    """Nodes by their finest shared domain: what is used, and the gangs there."""
    gangs_on: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for gang_plan in plan.gangs:
        for leaf in walk(gang_plan.gang.root):
            for member in leaf.placed if isinstance(leaf, Leaf) else ():
                gangs_on[member.node][gang_plan.gang.key] += 1
    column = _headline(snapshot)
    rows = [[Span(text, "dim") for text in ("DOMAIN", "NODE", column.upper(), "GANGS")]]
    used = _used(plan, snapshot)
    last = ""
    for i in _by_domain(snapshot):
        node, domain = snapshot.nodes[i].metadata.name, _domain(snapshot, i)
        allocatable, taken = (
            int(snapshot.allocatable[i, snapshot.columns.index(column)]),
            int(used[i, snapshot.columns.index(column)]),
        )
        who = ", ".join(f"{key} ×{pods}" for key, pods in sorted(gangs_on[node].items()))
        rows.append(
            [
                Span(domain if domain != last else ""),
                Span(node, "name"),
                Span(f"{bar(taken, allocatable)} {taken}/{allocatable}"),
                Span(who),
            ]
        )
        last = domain
    yield from table(rows)


def domain_map(plan: CyclePlan, snapshot: Snapshot) -> Iterator[Line]:
    """Domains of the finest level that fits on a page: what is used, and how many gangs are there."""
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
        allocatable, taken = int(snapshot.allocatable[:, at].sum()), int(used[:, at].sum())
        yield [Span(f"{many(len(snapshot.nodes), 'node')}: {bar(taken, allocatable)} {taken}/{allocatable} {column}")]
        return
    gangs_in: dict[int, set[str]] = defaultdict(set)
    for gang_plan in plan.gangs:
        for leaf in walk(gang_plan.gang.root):
            for member in leaf.placed if isinstance(leaf, Leaf) else ():
                if member.node in snapshot.node_index:
                    gangs_in[int(level.domain[snapshot.node_index[member.node]])].add(gang_plan.gang.key)
    rows = [[Span(text, "dim") for text in (level.label.upper(), "NODES", column.upper(), "GANGS")]]
    for domain, path in enumerate(level.paths):
        nodes = level.nodes(domain)
        allocatable, taken = int(snapshot.allocatable[nodes, at].sum()), int(used[nodes, at].sum())
        part = Span(f"{bar(taken, allocatable)} {taken}/{allocatable}")
        rows.append([Span(path, "name"), Span(str(len(nodes))), part, Span(str(len(gangs_in[domain])))])
    yield from table(rows)


def _used(plan: CyclePlan, snapshot: Snapshot) -> Any:
    used = snapshot.used.copy()
    for binding in plan.bindings:
        if snapshot.pods[binding.key].spec.node_name:  # of an earlier stage: counted already
            continue
        pod_class = snapshot.class_of[binding.key]
        used[snapshot.node_index[binding.node]] += snapshot.classes[pod_class].requests
    return used


def _headline(snapshot: Snapshot) -> str:
    amounts = snapshot.allocatable.sum(axis=0)
    return headline([name for i, name in enumerate(snapshot.columns) if amounts[i] or "/" not in name])


def headline(offered: Sequence[str]) -> str:
    """The resource that a map shows: an accelerator if there is one, else cpu, else pods."""
    extended = (name for name in offered if "/" in name and not name.startswith(EXCLUSIVE))
    return next(extended, "cpu" if "cpu" in offered else "pods")


def _by_domain(snapshot: Snapshot) -> list[int]:
    return sorted(range(len(snapshot.nodes)), key=lambda i: (_domain(snapshot, i), snapshot.nodes[i].metadata.name))


def _domain(snapshot: Snapshot, node: int) -> str:
    for tree in snapshot.topologies.values():
        for level in reversed(tree.levels):
            domain = int(level.domain[node])
            if domain >= 0 and len(level.nodes(domain)) > 1:
                return level.paths[domain]
    return ""

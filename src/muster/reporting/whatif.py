"""What if, in words: the hypothesis, both plans side by side, and the reasons of gangs that are worse off."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final, Generic, TypeVar

from msgspec import Struct

from muster.api.names import OURS
from muster.api.objects import Objects
from muster.errors import Refused
from muster.planning.decision import CyclePlan
from muster.planning.whatif import (
    AddedObjects,
    ChangedField,
    ChangedQueue,
    CheckedObject,
    DrainedNode,
    Effect,
    Hypothesis,
    HypotheticalObjects,
    RemovedGang,
    apply_hypothesis,
)
from muster.reporting import plans, problems
from muster.reporting.plan_diff import ChangeKind, Differences, GangChange, PodChange, compare
from muster.reporting.plan_diff import data as differences_data
from muster.reporting.plans import MANY_GANGS, VERDICT_ROLES
from muster.reporting.text import Line, Role, Span, many, plain, table
from muster.validation.fields import Value

P = TypeVar("P")  # a plan
MANY_PODS, MANY_DOMAINS, MANY_WARNINGS = 8, 3, 12  # above these, `-o json` has the rest
CHANGE_ROLES: Final[dict[ChangeKind, Role]] = {"Worse": "bad", "Leaves": "dim", "Comes": "name", "Better": "good"}
VERDICTS: Final = ("Scheduled", "Waiting", "Infeasible", "Unknown", "Invalid")
ACTION_WORDS: Final = {"bound": "to bind", "nominated": "to nominate", "evicted": "to evict", "moved": "to move"}


def words(effect: Effect) -> str:
    """What is supposed, in one sentence."""
    match effect:
        case AddedObjects(new, replaced):
            parts = [f"{verb} {_counted(kinds)}" for verb, kinds in (("adds", new), ("replaces", replaced)) if kinds]
            return "; ".join(parts) or "adds nothing"
        case RemovedGang(gang, pods):
            return f"podgroup `{gang}` leaves with its {many(pods, 'pod')}"
        case DrainedNode(node, again, gone):
            waits = [f"{many(again, 'pod')} of {'a gang waits' if again == 1 else 'gangs wait'} again"] if again else []
            leaves = [f"{many(gone, 'other pod')} {'leaves' if gone == 1 else 'leave'}"] if gone else []
            return f"node `{node}` is drained: {', '.join(waits + leaves) or 'no pod is on it'}"
        case ChangedField(gang, field, was, now):
            return f"podgroup `{gang}`: `{field}` {_said(was)} → {_said(now)}"
        case ChangedQueue(queue, field, was, now):
            return f"queue `{queue}`: `{field}` {_said(was)} → {_said(now)}"


def _counted(kinds: Mapping[str, int]) -> str:
    return ", ".join(many(count, kind) for kind, count in kinds.items())


def _said(value: Value) -> str:
    return "unset" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


class SupposedPlans(Struct, Generic[P], frozen=True):
    """The plans before and after a supposition."""

    supposed: HypotheticalObjects
    before: P
    after: P


def plan_both(
    before: Objects, base: Objects, changes: Hypothesis, schedulers: Collection[str], plan: Callable[[Objects], P]
) -> SupposedPlans[P]:
    """Plan the objects as they are, and under a hypothesis about `base`, what a changed workload leaves of them.

    InputError: a change names what does not exist. Refused: a rule forbids the result.
    """
    supposed = apply_hypothesis(base, changes, schedulers)
    if refused := refusal(supposed.checked):
        raise Refused(refused)
    return SupposedPlans(supposed, plan(before), plan(supposed.objects))


def data(hypothetical: HypotheticalObjects, before: CyclePlan, after: CyclePlan) -> dict[str, Any]:
    """What `plan -o json` prints under a supposition."""
    return {
        "apiVersion": OURS,
        "kind": "WhatIf",
        "changes": [words(effect) for effect in hypothetical.effects],
        "before": plans.data(before),
        "after": plans.data(after),
        "differences": differences_data(compare(before, after)),
    }


def refusal(checked: Iterable[CheckedObject]) -> str:
    """Every object that would be refused, with its problems; empty: none would."""
    refused = [item for item in checked if any(problem.severity == "error" for problem in item.problems)]
    return "\n".join(plain(_refused(item)) for item in refused)


def _refused(item: CheckedObject) -> Iterator[Line]:
    yield [Span(f"{item.title} would be {'refused' if _only_as_update(item) else 'invalid'}")]
    yield from problems.lines(item.problems)


def _only_as_update(item: CheckedObject) -> bool:
    return all(problem.rule == "V5" for problem in item.problems if problem.severity == "error")


def warnings(checked: Iterable[CheckedObject]) -> Iterator[str]:
    """The warnings about objects that are valid."""
    texts = [
        f"{item.title}: {problem.at}: {problem.says}{f'; {problem.hint}' if problem.hint else ''}"
        for item in checked
        for problem in item.problems
    ]
    yield from texts[:MANY_WARNINGS]
    if len(texts) > MANY_WARNINGS:
        yield f"and {len(texts) - MANY_WARNINGS} more of them; `muster validate` tells all"


# pictures -----------------------------------------------------------------------------------------------------------


def lines(hypothetical: HypotheticalObjects, before: CyclePlan, after: CyclePlan) -> Iterator[Line]:
    """The supposition, both plans in figures, the gangs and pods that differ, and why some are worse off."""
    differences = compare(before, after)
    for effect in hypothetical.effects:
        yield [Span("what if: ", "dim"), Span(words(effect), "name")]
    yield []
    yield from table(list(_figures(before, after)))
    yield []
    yield from _gangs(differences)
    yield from _pods(differences)
    yield from _reasons(differences, hypothetical.touched, after)


def _figures(before: CyclePlan, after: CyclePlan) -> Iterator[list[Span]]:
    was, will = _counts(before), _counts(after)
    yield [Span(text, "dim") for text in ("", "BEFORE", "AFTER")]
    for name in was:
        if was[name] or will[name]:
            role: Role = "plain" if was[name] == will[name] else "warn"
            yield [Span(name), Span(str(was[name])), Span(str(will[name]), role)]


def _counts(plan: CyclePlan) -> dict[str, int]:
    verdicts = Counter(gang_plan.verdict for gang_plan in plan.gangs)
    moved = sum(bool(eviction.move_to) for eviction in plan.evictions)
    return {f"gangs {verdict}": verdicts[verdict] for verdict in VERDICTS} | {
        "pods to bind": len(plan.bindings),
        "pods to nominate": len(plan.nominations),
        "pods to evict": len(plan.evictions) - moved,
        "pods to move": moved,
    }


def _gangs(differences: Differences) -> Iterator[Line]:
    if differences.gangs:
        elsewhere = any(gang.elsewhere for gang in differences.gangs)
        titles = ("GANG", "VERDICT", "PLACED", "PENDING", *(["ELSEWHERE"] * elsewhere), "DOMAIN")
        yield from table(
            [[Span(text, "dim") for text in titles], *(_row(gang, elsewhere) for gang in differences.gangs)]
        )
    stay = "gang stays as it is" if differences.unchanged == 1 else "gangs stay as they are"
    yield [Span(f"{differences.unchanged} {stay}", "dim")]


def _row(gang: GangChange, elsewhere: bool) -> list[Span]:
    before, after = gang.before, gang.after
    verdict = _arrow(before.verdict if before else "", after.verdict if after else "gone")
    role = CHANGE_ROLES.get(gang.kind) or VERDICT_ROLES.get(after.verdict if after else "", "plain")
    return [
        Span(gang.key, "name"),
        Span(verdict, role),
        Span(_arrow(str(before.placed) if before else "", str(after.placed) if after else "")),
        Span(_arrow(str(before.pending) if before else "", str(after.pending) if after else "")),
        *([Span(many(gang.elsewhere, "pod") if gang.elsewhere else "-")] * elsewhere),
        Span(_domains(gang)),
    ]


def _arrow(before: str, after: str) -> str:
    return (before or "-") if before == after else f"{before or '-'} → {after or '-'}"


def _domains(gang: GangChange) -> str:
    """The groups whose domain differs; where none does, the gang's own domain."""
    both = gang.before is not None and gang.after is not None
    pairs = {group: _arrow(*pair) if both else max(pair) for group, pair in gang.domains.items()}
    moved = [f"{group} {words}".strip() for group, words in pairs.items()]
    if len(moved) > MANY_DOMAINS:
        moved[MANY_DOMAINS:] = [f"{len(moved) - MANY_DOMAINS} more"]
    here = gang.after or gang.before
    return ", ".join(moved) or (here.domains.get("", "") if here else "") or "-"


def _pods(differences: Differences) -> Iterator[Line]:
    for action, pods in differences.pods.items():
        for when, some in (
            ("only before", pods.only_before),
            ("only after", pods.only_after),
            ("both times, on different nodes", pods.elsewhere),
        ):
            if some:
                yield []
                yield [Span(f"{many(len(some), 'pod')} {ACTION_WORDS[action]} {when}", "name")]
                yield from table([[Span(f"  {pod.key}"), Span(_arrow_to(pod), "dim")] for pod in some[:MANY_PODS]])
                if len(some) > MANY_PODS:
                    yield [Span(f"  and {len(some) - MANY_PODS} more; `-o json` lists all", "dim")]


def _arrow_to(pod: PodChange) -> str:
    if pod.before and pod.after:
        return _arrow(pod.before, pod.after)
    return f"{pod.before or pod.after}{f', for {pod.preemptor}' if pod.preemptor else ''}"


def _reasons(differences: Differences, touched: frozenset[str], after: CyclePlan) -> Iterator[Line]:
    """Of every gang that is worse off, and of those that the supposition is about and that still do not run."""
    worse = {gang.key for gang in differences.gangs if gang.kind == "Worse"}
    shown = [
        gang_plan
        for gang_plan in after.gangs
        if gang_plan.gang.key in worse or _waits(gang_plan.gang.key, gang_plan.verdict, touched)
    ]
    for gang_plan in shown[:MANY_GANGS]:
        yield []
        yield from plans.gang_lines(gang_plan)
    if len(shown) > MANY_GANGS:
        yield []
        yield [Span(f"and {len(shown) - MANY_GANGS} more gangs; `-o json` has the reasons of all", "dim")]


def _waits(key: str, verdict: str, touched: frozenset[str]) -> bool:
    return key in touched and verdict != "Scheduled"

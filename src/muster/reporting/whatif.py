"""What if, in words: what is supposed, both plans side by side, and why whoever is worse off is."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from muster.api.names import OURS
from muster.planning.decision import CyclePlan
from muster.planning.whatif import Added, Altered, Drained, Effect, Judged, Left, SupposedObjects
from muster.reporting import plans, problems
from muster.reporting.plan_diff import Differences, GangChange, How, PodChange, compare
from muster.reporting.plan_diff import data as differences_data
from muster.reporting.plans import MANY_GANGS, VERDICT_ROLES
from muster.reporting.text import Line, Role, Span, many, plain, table
from muster.validation.fields import Value

MANY_PODS, MANY_DOMAINS, MANY_WARNINGS = 8, 3, 12  # above these, `-o json` tells the rest
HOW_ROLES: Final[dict[How, Role]] = {"Worse": "bad", "Leaves": "dim", "Comes": "name", "Better": "good"}
VERDICTS: Final = ("Scheduled", "Waiting", "Infeasible", "Unknown", "Invalid")
DEEDS: Final = {"bound": "to bind", "nominated": "to nominate", "evicted": "to evict", "moved": "to move"}


def words(effect: Effect) -> str:
    """What is supposed, in one sentence."""
    match effect:
        case Added(new, replaced):
            said = [f"{verb} {_counted(kinds)}" for verb, kinds in (("adds", new), ("replaces", replaced)) if kinds]
            return "; ".join(said) or "adds nothing"
        case Left(gang, pods):
            return f"podgroup `{gang}` leaves with its {many(pods, 'pod')}"
        case Drained(node, again, gone):
            waits = [f"{many(again, 'pod')} of {'a gang waits' if again == 1 else 'gangs wait'} again"] if again else []
            leaves = [f"{many(gone, 'other pod')} {'leaves' if gone == 1 else 'leave'}"] if gone else []
            return f"node `{node}` is drained: {', '.join(waits + leaves) or 'no pod is on it'}"
        case Altered(gang, field, was, now):
            return f"podgroup `{gang}`: `{field}` {_said(was)} → {_said(now)}"


def _counted(kinds: Mapping[str, int]) -> str:
    return ", ".join(many(count, kind) for kind, count in kinds.items())


def _said(value: Value) -> str:
    return "unset" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def data(supposed: SupposedObjects, before: CyclePlan, after: CyclePlan) -> dict[str, Any]:
    """What `plan -o json` prints under a supposition."""
    return {
        "apiVersion": OURS,
        "kind": "WhatIf",
        "changes": [words(effect) for effect in supposed.effects],
        "before": plans.data(before),
        "after": plans.data(after),
        "differences": differences_data(compare(before, after)),
    }


def refusal(judged: Iterable[Judged]) -> str:
    """Every object that would be refused, with its problems; empty: none would."""
    refused = [one for one in judged if any(problem.severity == "error" for problem in one.problems)]
    return "\n".join(plain(_refused(one)) for one in refused)


def _refused(one: Judged) -> Iterator[Line]:
    yield [Span(f"{one.title} would be {'refused' if _only_as_update(one) else 'invalid'}")]
    yield from problems.lines(one.problems)


def _only_as_update(one: Judged) -> bool:
    return all(problem.rule == "V5" for problem in one.problems if problem.severity == "error")


def warnings(judged: Iterable[Judged]) -> Iterator[str]:
    """What the rules say about objects that they let pass."""
    found = [
        f"{one.title}: {problem.at}: {problem.says}{f'; {problem.hint}' if problem.hint else ''}"
        for one in judged
        for problem in one.problems
    ]
    yield from found[:MANY_WARNINGS]
    if len(found) > MANY_WARNINGS:
        yield f"and {len(found) - MANY_WARNINGS} more of them; `muster validate` tells all"


# pictures -----------------------------------------------------------------------------------------------------------


def lines(supposed: SupposedObjects, before: CyclePlan, after: CyclePlan) -> Iterator[Line]:
    """The supposition, both plans in figures, the gangs and pods that differ, and why some are worse off."""
    found = compare(before, after)
    for effect in supposed.effects:
        yield [Span("what if: ", "dim"), Span(words(effect), "name")]
    yield []
    yield from table(list(_figures(before, after)))
    yield []
    yield from _gangs(found)
    yield from _pods(found)
    yield from _reasons(found, supposed.touched, after)


def _figures(before: CyclePlan, after: CyclePlan) -> Iterator[list[Span]]:
    was, will = _counts(before), _counts(after)
    yield [Span(text, "dim") for text in ("", "BEFORE", "AFTER")]
    for name in was:
        if was[name] or will[name]:
            role: Role = "plain" if was[name] == will[name] else "warn"
            yield [Span(name), Span(str(was[name])), Span(str(will[name]), role)]


def _counts(plan: CyclePlan) -> dict[str, int]:
    verdicts = Counter(found.verdict for found in plan.gangs)
    moved = sum(bool(eviction.move_to) for eviction in plan.evictions)
    return {f"gangs {verdict}": verdicts[verdict] for verdict in VERDICTS} | {
        "pods to bind": len(plan.bindings),
        "pods to nominate": len(plan.nominations),
        "pods to evict": len(plan.evictions) - moved,
        "pods to move": moved,
    }


def _gangs(found: Differences) -> Iterator[Line]:
    if found.gangs:
        elsewhere = any(gang.elsewhere for gang in found.gangs)
        titles = ("GANG", "VERDICT", "PLACED", "PENDING", *(["ELSEWHERE"] * elsewhere), "DOMAIN")
        yield from table([[Span(text, "dim") for text in titles], *(_row(gang, elsewhere) for gang in found.gangs)])
    stay = "gang stays as it is" if found.unchanged == 1 else "gangs stay as they are"
    yield [Span(f"{found.unchanged} {stay}", "dim")]


def _row(gang: GangChange, elsewhere: bool) -> list[Span]:
    before, after = gang.before, gang.after
    verdict = _arrow(before.verdict if before else "", after.verdict if after else "gone")
    role = HOW_ROLES.get(gang.how) or VERDICT_ROLES.get(after.verdict if after else "", "plain")
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
    """The groups that sit together elsewhere; where none does, the gang's own domain."""
    both = gang.before is not None and gang.after is not None
    pairs = {group: _arrow(*pair) if both else max(pair) for group, pair in gang.domains.items()}
    moved = [f"{group} {words}".strip() for group, words in pairs.items()]
    if len(moved) > MANY_DOMAINS:
        moved[MANY_DOMAINS:] = [f"{len(moved) - MANY_DOMAINS} more"]
    here = gang.after or gang.before
    return ", ".join(moved) or (here.domains.get("", "") if here else "") or "-"


def _pods(found: Differences) -> Iterator[Line]:
    for deed, pods in found.pods.items():
        for when, some in (
            ("only before", pods.only_before),
            ("only after", pods.only_after),
            ("both times, on different nodes", pods.elsewhere),
        ):
            if some:
                yield []
                yield [Span(f"{many(len(some), 'pod')} {DEEDS[deed]} {when}", "name")]
                yield from table([[Span(f"  {pod.key}"), Span(_arrow_to(pod), "dim")] for pod in some[:MANY_PODS]])
                if len(some) > MANY_PODS:
                    yield [Span(f"  and {len(some) - MANY_PODS} more; `-o json` lists all", "dim")]


def _arrow_to(pod: PodChange) -> str:
    if pod.before and pod.after:
        return _arrow(pod.before, pod.after)
    return f"{pod.before or pod.after}{f', for {pod.preemptor}' if pod.preemptor else ''}"


def _reasons(found: Differences, touched: frozenset[str], after: CyclePlan) -> Iterator[Line]:
    """Of every gang that is worse off, and of those that the supposition is about and that still do not run."""
    worse = {gang.key for gang in found.gangs if gang.how == "Worse"}
    told = [one for one in after.gangs if one.gang.key in worse or _waits(one.gang.key, one.verdict, touched)]
    for one in told[:MANY_GANGS]:
        yield []
        yield from plans.gang_lines(one)
    if len(told) > MANY_GANGS:
        yield []
        yield [Span(f"and {len(told) - MANY_GANGS} more gangs; `-o json` has the reasons of all", "dim")]


def _waits(key: str, verdict: str, touched: frozenset[str]) -> bool:
    return key in touched and verdict != "Scheduled"

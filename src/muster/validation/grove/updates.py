"""What an update of a PodCliqueSet may not change (R6): what gangs consist of, and what they need.

Replicas, pod specs, labels, annotations, priority, delays, the update strategy and autoscaling may change.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import TypeVar

from msgspec.structs import replace

from muster.api.grove.pod_clique_set import ANY_ORDER, PodCliqueTemplate, ScalingGroupTemplate
from muster.validation.grove.places import CLIQUES, GROUPS, TEMPLATE, SetOutline
from muster.validation.grove.pod_specs import scheduler_of
from muster.validation.grove.topology import ConstrainedPart, constrained_parts
from muster.validation.problem import Problem

Part = TypeVar("Part", PodCliqueTemplate, ScalingGroupTemplate)
_WAY_OUT = "create a new PodCliqueSet, and delete this one when the new one runs"


def judge(old: SetOutline, new: SetOutline, own: str) -> Iterator[Problem]:
    """Every change that an update may not make. `own`: the scheduler of pods that name none."""
    if old.pcs.spec == new.pcs.spec:
        return
    was, now = old.template.clique_startup_type, new.template.clique_startup_type
    yield from _changed(f"{TEMPLATE}.cliqueStartupType", was, now)
    yield from _members("clique", CLIQUES, old.by_name, new.by_name)
    yield from _order(old, new)
    for at, before, clique in _kept(old.placed_cliques(), new.placed_cliques()):
        yield from _clique(at, before, clique, own)
    names = ({group.name for group in outline.groups} for outline in (old, new))
    yield from _members("scaling group", GROUPS, *names)
    for at, stored, group in _kept(old.placed_groups(), new.placed_groups()):
        yield from _group(at, stored, group)
    yield from _constraints(old, new)


def _kept(old: Iterable[tuple[str, Part]], new: Iterable[tuple[str, Part]]) -> Iterator[tuple[str, Part, Part]]:
    """Parts that both have, each with its new path; of several with one name, the first counts in both."""
    stored = {part.name: part for _, part in reversed(list(old))}
    for at, part in {part.name: (at, part) for at, part in reversed(list(new))}.values():
        if part.name in stored:
            yield at, stored[part.name], part


def ratchet(problems: Collection[Problem], stored: Collection[Problem]) -> Iterator[Problem]:
    """What the stored set has already is only a warning: it must stay possible to scale it."""
    known = {(problem.at, problem.says) for problem in stored}
    for problem in problems:
        if problem.severity == "error" and (problem.at, problem.says) in known:
            yield replace(problem, severity="warning", says=f"{problem.says} (as the stored one already does)")
        else:
            yield problem


def _changed(at: str, was: object, now: object) -> Iterator[Problem]:
    if was != now:
        yield Problem(at, f"cannot change from {_shown(was)} to {_shown(now)}", hint=_WAY_OUT, rule="R6")


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(str, value))[:120]}]"
    return f"`{str(value)[:80]}`" if value not in (None, "") else "nothing"


def _members(called: str, at: str, old: Collection[str], new: Collection[str]) -> Iterator[Problem]:
    for verb, names in (("added", [name for name in new if name not in old]), ("removed", set(old) - set(new))):
        for name in sorted(names):
            says = f"{called} `{name[:63]}` cannot be {verb}: gangs of this set exist"
            yield Problem(at, says, hint=_WAY_OUT, rule="R6")


def _order(old: SetOutline, new: SetOutline) -> Iterator[Problem]:
    """Cliques that start in an order keep their places; where they start together, order means nothing."""
    was, now = [clique.name for clique in old.cliques], [clique.name for clique in new.cliques]
    if new.template.clique_startup_type != ANY_ORDER and was != now and sorted(was) == sorted(now):
        says = f"the order of cliques cannot change from {_shown(tuple(was))} to {_shown(tuple(now))}"
        yield Problem(CLIQUES, says, hint="cliques of this set start in that order", rule="R6")


def _clique(at: str, old: PodCliqueTemplate, new: PodCliqueTemplate, own: str) -> Iterator[Problem]:
    yield from _changed(f"{at}.spec.roleName", old.spec.role_name, new.spec.role_name)
    yield from _changed(f"{at}.spec.minAvailable", old.spec.min_available, new.spec.min_available)
    was, now = (tuple(sorted(set(clique.spec.starts_after))) for clique in (old, new))
    yield from _changed(f"{at}.spec.startsAfter", was, now)
    yield from _changed(f"{at}.spec.podSpec.schedulerName", scheduler_of(old, own), scheduler_of(new, own))


def _group(at: str, old: ScalingGroupTemplate, new: ScalingGroupTemplate) -> Iterator[Problem]:
    yield from _changed(f"{at}.cliqueNames", old.clique_names, new.clique_names)
    yield from _changed(f"{at}.minAvailable", old.min_available, new.min_available)


def _constraints(old: SetOutline, new: SetOutline) -> Iterator[Problem]:
    """By what they mean: `packDomain` may become `pack.required`, and a stored one may get the name it lacked."""
    before = {part.called: part for part in constrained_parts(old)}
    after = {part.called: part for part in constrained_parts(new)}
    for called, part in after.items():
        yield from _constraint(before.get(called), part)
    remaining = _called(new)
    for called, part in before.items():
        if called not in after and called in remaining:
            says = f"the constraint of {called} cannot be removed"
            yield Problem(part.at, says, hint=_WAY_OUT, rule="R6")


def _called(outline: SetOutline) -> set[str]:
    """All parts as sentences call them: a part that is gone is a problem of its own."""
    cliques = {f"clique `{clique.name}`" for clique in outline.cliques}
    return {"the set"} | cliques | {f"group `{group.name}`" for group in outline.groups}


def _constraint(old: ConstrainedPart | None, new: ConstrainedPart) -> Iterator[Problem]:
    if old is None:
        yield Problem(new.at, f"{new.called} cannot get a constraint after creation", hint=_WAY_OUT, rule="R6")
        return
    if old.topology_name:
        yield from _changed(f"{new.at}.topologyName", old.topology_name, new.topology_name)
    yield from _changed(f"{new.at}.pack.required", old.required, new.required)
    yield from _changed(f"{new.at}.pack.preferred", old.preferred, new.preferred)

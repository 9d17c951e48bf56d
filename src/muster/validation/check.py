"""The only entry of validation: takes any JSON value, returns every problem, never raises."""

import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from itertools import accumulate
from typing import Any

from muster.api.codec import validated_kind_of
from muster.api.core import Pod
from muster.api.decoding import Misfit, decode, sanitize
from muster.api.grove.pod_clique import PodClique
from muster.api.grove.pod_clique_scaling_group import PodCliqueScalingGroup
from muster.api.grove.pod_clique_set import PodCliqueSet
from muster.api.grove.pod_gang import PodGang
from muster.api.grove.topology_binding import ClusterTopologyBinding
from muster.api.meta import Wire
from muster.api.objects import VALIDATED_KINDS
from muster.api.podgroup import PodGroup, PodGroupSpec, SubGroup, TopologyConstraint
from muster.api.queue import Queue
from muster.api.topology import Topology
from muster.validation import capacity_warnings, podgroup, queue, topology, update, warnings
from muster.validation.context import ValidationContext
from muster.validation.defaults import constraints
from muster.validation.grove import children, misspellings, pod_clique_set, topology_bindings, updates
from muster.validation.grove.defaults import with_set_defaults
from muster.validation.pods import pod
from muster.validation.problem import Problem, listed

_SPELT: tuple[type[Wire], ...] = (PodGroupSpec, SubGroup, TopologyConstraint)
_FIELDS = {kind: frozenset(kind.__struct_encode_fields__) for kind in _SPELT}


def check(raw: Any, old: Any = None, context: ValidationContext | None = None) -> tuple[Problem, ...]:
    """Every problem of an object, as a new one or as an update of `old`; `context` holds the objects around it.

    An object without `kind` counts as a PodGroup: lists and typed clients leave it out.
    """
    try:
        return _check(raw, old, context or ValidationContext())
    except (UnicodeError, ValueError, OverflowError):  # lone surrogates, huge numbers: JSON, but not text
        return _check(sanitize(raw), sanitize(old), context or ValidationContext())


def _check(raw: Any, old: Any, context: ValidationContext) -> tuple[Problem, ...]:
    kind = PodGroup if _unmarked(raw) else validated_kind_of(raw)
    if kind is None:
        return (_unknown(raw),)
    value, misfits = decode(with_set_defaults(raw, old) if kind is PodCliqueSet else raw, kind)
    problems = [*map(_misfit, misfits), *_judge(value, raw, old, context)]
    wrong = frozenset(misfit.at for misfit in misfits)
    return tuple(problem for i, problem in enumerate(problems) if i < len(misfits) or not _inside(problem.at, wrong))


def errors(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Only the errors."""
    return tuple(problem for problem in problems if problem.severity == "error")


def _judge(value: Wire, raw: Any, old: Any, context: ValidationContext) -> Iterator[Problem]:
    match value:
        case PodGroup():
            yield from _pod_group(value, raw, old, context)
        case Queue():
            yield from queue.judge(value, context)
        case Topology():
            yield from topology.judge(value, context.objects.nodes)
        case Pod():
            yield from pod.judge(value, context)
        case _:
            yield from _grove(value, raw, old, context)


def _grove(value: Wire, raw: Any, old: Any, context: ValidationContext) -> Iterator[Problem]:
    match value:
        case PodCliqueSet():
            yield from misspellings.judge(raw, PodCliqueSet)
            yield from pod_clique_set.judge(value, raw, old, context)
        case PodClique() | PodCliqueScalingGroup() | PodGang():
            stored = children.judge(decode(old, type(value))[0]) if isinstance(old, dict) else ()
            yield from updates.ratchet(tuple(children.judge(value)), tuple(stored))
        case ClusterTopologyBinding():
            yield from misspellings.judge(raw, ClusterTopologyBinding)
            yield from topology_bindings.judge(value)
        case _:
            pass


def _pod_group(group: PodGroup, raw: Any, old: Any, context: ValidationContext) -> Iterator[Problem]:
    yield from podgroup.judge_metadata(group)
    yield from _misspelt_fields(raw)
    outlined, resolved = podgroup.outline(group.spec), constraints(group)
    judged = podgroup.judge_outline(outlined)
    if old is None:
        yield from judged
    else:
        stored, _ = decode(old, PodGroup)
        yield from update.ratchet(judged, podgroup.judge(stored.spec))
        yield from update.raised_minimums(stored, group)
    yield from warnings.judge(group, resolved, context)
    yield from capacity_warnings.judge(group, outlined, resolved, context)


def _misspelt_fields(raw: Any) -> Iterator[Problem]:
    """Warn of fields that look misspelt: Kubernetes ignores them."""
    spec = raw.get("spec") if isinstance(raw, dict) else None
    if not isinstance(spec, dict):
        return
    yield from _misspelt(spec, PodGroupSpec, "spec")
    groups = spec.get("subGroups")
    for i, part in enumerate(groups if isinstance(groups, list | tuple) else ()):
        if not _all_known(part, SubGroup):
            yield from _misspelt(part, SubGroup, f"spec.subGroups[{i}]")


def _all_known(raw: Any, kind: type[Wire]) -> bool:
    """A fast test: no field here, nor in the constraint inside, is unknown."""
    if not isinstance(raw, dict):
        return True
    inner = raw.get("topologyConstraint")
    return raw.keys() <= _FIELDS[kind] and (not inner or _all_known(inner, TopologyConstraint))


def _misspelt(raw: Any, kind: type[Wire], at: str) -> Iterator[Problem]:
    if not isinstance(raw, dict):
        return
    known = kind.__struct_encode_fields__
    for field in raw:
        if field in known or not isinstance(field, str):
            continue
        close = get_close_matches(field[:80], known, n=1, cutoff=0.85)
        if close:
            yield Problem(
                f"{at}.{field[:80]}",
                "is not a field here, and is ignored",
                hint=f"did you mean `{close[0]}`?",
                severity="warning",
            )
    yield from _misspelt(raw.get("topologyConstraint"), TopologyConstraint, f"{at}.topologyConstraint")


def _misfit(misfit: Misfit) -> Problem:
    return Problem(misfit.at, misfit.says, key="type")


def _inside(at: str, places: frozenset[str]) -> bool:
    """Whether a path is at or below one of these places."""
    return bool(places) and not places.isdisjoint(accumulate(re.findall(r"^|[.\[]?[^.\[]+", at)))


def _unmarked(raw: Any) -> bool:
    return not isinstance(raw, dict) or (raw.get("kind") is None and raw.get("apiVersion") is None)


def _unknown(raw: dict[str, Any]) -> Problem:
    """A warning for a foreign kind; an error for one of ours in another version, or for no kind at all."""
    version, kind = raw.get("apiVersion"), raw.get("kind")
    if not isinstance(kind, str) or not isinstance(version, str):
        wrong, value = ("kind", kind) if not isinstance(kind, str) else ("apiVersion", version)
        return Problem(wrong, f"expected text, got `{str(value)[:60]}`", hint=f"known: {listed(_known())}")
    for known, name in VALIDATED_KINDS:
        if name == kind and known.split("/")[0] == version.split("/")[0]:
            return Problem("apiVersion", f"muster does not know {kind} in `{version[:80]}`", hint=f"it knows `{known}`")
    return Problem("kind", f"muster does not know {kind[:60]} ({version[:80]})", severity="warning")


def _known() -> Iterator[str]:
    return (f"{kind} ({version})" for version, kind in VALIDATED_KINDS)

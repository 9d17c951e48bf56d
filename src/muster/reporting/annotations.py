"""Annotations on PodGroups: what is remembered of them from cycle to cycle (S2, S3, S4, P7), and their last start."""

import json
from collections.abc import Mapping
from datetime import datetime

from muster.api import names
from muster.api.moment import format_time, parse_time
from muster.api.podgroup import PodGroup
from muster.model.gang.state import is_satisfied
from muster.planning import backoff
from muster.planning.preemption.relocation import moved_places
from muster.planning.refusal import BackedOff
from muster.reporting.explain import sentence
from muster.reporting.outcome import Outcome


def stale_annotations(outcome: Outcome, old: PodGroup, now: datetime) -> dict[str, str | None]:
    """Annotations to set, or with None to remove: since when a gang or its SubGroups are short, and its last start.

    A spec that is not a tree changes nothing: whether such a gang is short is unknown.
    """
    if outcome.gang.broken:
        return {}
    have = old.metadata.annotations
    wanted = {
        names.STALE_SINCE: _since(have.get(names.STALE_SINCE), now) if outcome.is_short else None,
        names.STALE_SUBGROUPS: _subgroup_annotations(outcome.short_subgroups, have.get(names.STALE_SUBGROUPS, ""), now),
        names.LAST_START: format_time(now) if _starts(outcome, old, now) else have.get(names.LAST_START),
        names.BACKED_OFF: _backed_off(outcome, old),
        names.MOVED_TO: moved_places.annotation(outcome.gang, outcome.evictions, now),
    }
    return {name: mark for name, mark in wanted.items() if mark != have.get(name)}


def _backed_off(outcome: Outcome, old: PodGroup) -> str | None:
    """The annotation of a failed attempt (S4); None: the gang may be tried."""
    if old.spec.scheduling_backoff != 1 or outcome.plan.snapshot is None:
        return None
    if any(isinstance(refusal, BackedOff) for refusal in outcome.plan.refusals):
        return old.metadata.annotations.get(names.BACKED_OFF)
    if outcome.plan.verdict not in ("Infeasible", "Unknown") or not outcome.plan.refusals:
        return None
    why = outcome.plan.refusals[0]
    return backoff.mark(outcome.gang, outcome.plan.snapshot, why.reason, sentence(why))


def _since(mark: object, now: datetime) -> str:
    """A mark that is there stays; one that cannot be read, or is of a time to come, is as good as none."""
    return mark if isinstance(mark, str) and _is_past(mark, now) else format_time(now)


def _is_past(mark: str, now: datetime) -> bool:
    since = parse_time(mark)
    return since is not None and since <= now


def _subgroup_annotations(parts: tuple[str, ...], mark: str, now: datetime) -> str | None:
    known = _annotations(mark)
    since = {name: _since(known.get(name), now) for name in parts}
    return json.dumps(since, sort_keys=True, separators=(",", ":")) if since else None


def _annotations(mark: str) -> Mapping[str, object]:
    try:
        known = json.loads(mark or "{}")
    except (ValueError, RecursionError):
        return {}
    return known if isinstance(known, dict) else {}


def _starts(outcome: Outcome, old: PodGroup, now: datetime) -> bool:
    """Whether this plan satisfies the root and the status does not show it yet, or its last start is unknown."""
    if not outcome.satisfied:
        return False
    if not _is_past(old.metadata.annotations.get(names.LAST_START, ""), now):
        return True
    is_reported = old.status is not None and bool(old.status.satisfied)
    return not is_satisfied(outcome.before.root) and not is_reported

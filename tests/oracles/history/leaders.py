"""I9: once a newer leader has its lease, no write of the one before it is accepted.

The Lease is stored beside pods, so one order of revisions says who led when; no clock is involved.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from tests.oracles.history.records import RunHistory, SentWrite
from tests.oracles.history.timeline import Timeline
from tests.oracles.objects import name


class HeldTerm(NamedTuple):
    """From this revision on the replica holds the lease."""

    revision: int
    replica: str  # empty: no replica does


def stale_writes(timeline: Timeline) -> Iterator[str]:
    """Bindings and evictions by the revision at which pods show them, other writes by that of their answer."""
    terms = lease_terms(timeline.history)
    for moment in (*timeline.bindings, *timeline.evictions):
        sent = timeline.requests_behind(moment)
        if sent and all(_is_stale(terms, one.replica, moment.change.revision) for one in sent):
            what = "binding" if moment.is_binding else "eviction"
            replicas = sorted({one.replica for one in sent})
            where = f"{what} of {name(moment.pod)} at revision {moment.change.revision}"
            yield f"{where} is of {replicas}, which led before"
    for write in _other_writes(timeline.history):
        if _is_stale(terms, write.replica, write.revision):
            what = f"{write.method} {write.resource} {write.namespace}/{write.name}"
            yield f"{what} at revision {write.revision} is of {write.replica}, which led before"


def lease_terms(history: RunHistory) -> list[HeldTerm]:
    """Who holds the lease, from revision to revision."""
    replicas = {  # a replica says its identity in the leases that it writes
        identity: write.replica
        for write in history.writes
        if write.resource == "leases" and (identity := (write.body.get("spec") or {}).get("holderIdentity"))
    }
    terms: list[HeldTerm] = []
    for change in history.changes:
        if change.object["kind"] != "Lease":
            continue
        holder = "" if change.is_deleted else change.object["spec"].get("holderIdentity") or ""
        replica = replicas.get(holder, holder)
        if not terms or terms[-1].replica != replica:
            terms.append(HeldTerm(change.revision, replica))
    return terms


def _is_stale(terms: list[HeldTerm], replica: str, revision: int) -> bool:
    """Whether another replica holds the lease at a revision, and this one held it before."""
    at = bisect_right([term.revision for term in terms], revision) - 1
    if at < 0 or terms[at].replica in ("", replica):
        return False
    return any(term.replica == replica for term in terms[:at])


def _other_writes(history: RunHistory) -> Iterator[SentWrite]:
    """Accepted writes that changed something: a patch without effect is answered with an older revision."""
    seen_at = {change.revision: change.at for change in history.changes}
    counts = Counter(write.revision for write in history.writes)
    for write in history.writes:
        is_plain = write.resource != "leases" and not write.subresource.startswith(("binding", "eviction"))
        is_new = counts[write.revision] == 1 and seen_at.get(write.revision, -1.0) >= write.started
        if write.is_accepted and is_plain and not write.is_dry_run and is_new:
            yield write

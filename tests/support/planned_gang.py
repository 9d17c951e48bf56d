"""A gang with a plan made by hand, and the status that muster would write and read again."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

import muster
from muster.api.decoding import decode, encode
from muster.api.podgroup import PodGroup, PodGroupStatus
from muster.model.gang.gang import Gang
from muster.model.gang.types import Leaf, walk
from muster.model.gang.updates import place_members
from muster.model.snapshot import Snapshot, take
from muster.planning.decision import Binding, CyclePlan, Eviction, GangPlan, Verdict
from muster.planning.refusal import Refusal
from muster.reporting.annotations import stale_annotations
from muster.reporting.outcome import Outcome, outcomes
from muster.reporting.status import pod_group_status
from tests.support.factories import Raw

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
LATER = NOW + timedelta(minutes=5)
EARLIER = "2026-05-01T11:58:00Z"
Places = Mapping[str, str]  # pod -> node


class PlannedGang(msgspec.Struct, frozen=True, eq=False):
    """A snapshot and what was decided about its one gang."""

    snapshot: Snapshot
    plan: CyclePlan

    @property
    def stored(self) -> PodGroup:
        return self.snapshot.objects.pod_groups[0]

    @property
    def outcome(self) -> Outcome:
        (only,) = outcomes(self.snapshot, self.plan).values()
        return only

    def status(self, now: datetime = NOW) -> PodGroupStatus:
        return pod_group_status(self.outcome, self.stored, now)

    def annotations(self, now: datetime = NOW) -> dict[str, str | None]:
        return stale_annotations(self.outcome, self.stored, now)


def decided(
    *raws: Raw,
    bind: Places | None = None,
    nominate: Places | None = None,
    evict: Sequence[str] = (),
    verdict: Verdict = "Waiting",
    refusals: Sequence[Refusal] = (),
) -> PlannedGang:
    """One PodGroup among these objects, and a plan for it."""
    snapshot = take(muster.objects(raws), NOW)
    (gang,) = snapshot.gangs
    leaf_of = {pod.name: leaf.name for leaf in walk(gang.root) if isinstance(leaf, Leaf) for pod in leaf.members}
    bindings, nominations = (
        tuple(sorted(Binding(gang.namespace, pod, node, gang.name, leaf_of[pod], "core") for pod, node in some.items()))
        for some in (bind or {}, nominate or {})
    )
    evictions = tuple(
        Eviction(gang.namespace, pod, "n", gang.name, leaf_of[pod], "Preempt", "team/other") for pod in evict
    )
    after = _seated(gang, (*bindings, *nominations))
    plan = CyclePlan(bindings, nominations, evictions, (GangPlan(after, verdict, tuple(refusals), snapshot),))
    return PlannedGang(snapshot, plan)


def _seated(gang: Gang, bindings: Sequence[Binding]) -> Gang:
    nodes = {(one.sub_group, one.pod): one.node for one in bindings}
    return msgspec.structs.replace(gang, root=place_members(gang.root, nodes))


def planned(*raws: Raw) -> PlannedGang:
    """One PodGroup among these objects, and what muster decides about it."""
    made = muster.plan(muster.objects(raws), now=NOW)
    return PlannedGang(made.snapshot, made.decided)


def written(manifest: Raw, gang: PlannedGang, now: datetime = NOW) -> Raw:
    """The PodGroup with its status and its marks stored, by way of the wire."""
    meta = dict(manifest["metadata"])
    notes: dict[str, Any] = {**meta.get("annotations", {}), **gang.annotations(now)}
    meta["annotations"] = {name: mark for name, mark in notes.items() if mark is not None}
    return manifest | {"metadata": meta, "status": encode(gang.status(now))}


def stored(status: PodGroupStatus) -> PodGroupStatus:
    """A status after a visit to the API server."""
    decoded, wrong = decode(encode(status), PodGroupStatus)
    assert not wrong, wrong
    return decoded

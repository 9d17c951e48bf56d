"""Promises that are on their way to the API server hold as if they were there (P7)."""

from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

import muster
from muster.api.names import MOVED_TO
from muster.api.podgroup import PodGroup
from muster.planning.cycle import plan
from muster.scheduler.promises import UnseenPromises
from tests.support.factories import Raw, node, pod, podgroup, topology

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
RACK = {"requiredTopologyLevel": "rack"}


def scene(*more: Raw) -> list[Raw]:
    """A pod in the only rack, which a gang needs; it can move to n2."""
    hosts = [topology("topology/rack"), node("n1", cpu=1, rack="r1"), node("n2", cpu=1)]
    gangs = [podgroup(name="v", minMember=1), podgroup(name="new", minMember=1, topologyConstraint=RACK)]
    return [*hosts, *gangs, pod("v", gang="v", on="n1", phase="Running", cpu=1), pod("new", gang="new", cpu=1), *more]


def group_of(objects: list[Raw], name: str) -> PodGroup:
    return next(one for one in muster.objects(objects).pod_groups if one.metadata.name == name)


def test_a_cycle_that_runs_before_the_annotation_is_seen_keeps_the_place() -> None:
    made = muster.plan(muster.objects(scene()), now=NOW)
    assert [one.move_to for one in made.evictions] == ["n2"]
    promises = UnseenPromises()
    promises.note(made.snapshot, made.decided, NOW)
    stored = {"team/v": group_of(scene(), "v")}
    late = [podgroup(name="late", minMember=1), pod("late", gang="late", cpu=1)]
    without = muster.plan(muster.objects(scene(*late)[:3] + late), now=NOW)
    assert [one.pod for one in without.bindings] == ["late"]
    kept = muster.Policy(moved=promises.unseen(stored.get))
    hosts = [raw for raw in scene(*late) if raw["metadata"]["name"] not in ("new", "n1") and raw["kind"] != "Pod"]
    after = muster.plan(muster.objects([*hosts, late[1]]), kept, NOW + timedelta(seconds=1))
    assert after.bindings == ()


def test_a_promise_that_is_seen_or_whose_podgroup_is_gone_is_forgotten() -> None:
    made = muster.plan(muster.objects(scene()), now=NOW)
    promises = UnseenPromises()
    promises.note(made.snapshot, plan(made.snapshot), NOW)
    (text,) = promises.unseen({"team/v": group_of(scene(), "v")}.get).values()
    bare = group_of(scene(), "v")
    carrying = replace(bare, metadata=replace(bare.metadata, annotations={MOVED_TO: text}))
    assert promises.unseen({"team/v": carrying}.get) == {}
    promises.note(made.snapshot, made.decided, NOW)
    assert promises.unseen(lambda _: None) == {}

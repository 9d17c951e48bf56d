"""Shards partition a cluster: every object is in one of them, and a plan of one knows nothing of the others."""

from datetime import UTC, datetime
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import muster
from muster.api.names import NODE_POOL
from muster.fairness.shares import divide_cluster
from muster.model.snapshot import Snapshot, take
from muster.planning.cycle import plan
from muster.planning.decision import CyclePlan
from muster.validation.shard import Shard, select
from tests.support.factories import Raw, node, pod, podgroup, priority_class, queue

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
POOLS = ("", "a", "b")
CLASSES = [priority_class("low", 10), priority_class("high", 90)]


def in_pool(raw: Raw, pool: str) -> Raw:
    raw["metadata"].setdefault("labels", {}).update({NODE_POOL: pool} if pool else {})
    return raw


@st.composite
def clusters(draw: Any) -> list[Raw]:
    """A few nodes, queues and gangs, each of some pool; running pods may be anywhere, as nodes move."""
    pools, raws = st.sampled_from(POOLS), list(CLASSES)
    raws += [in_pool(node(name, cpu=draw(st.integers(1, 4))), draw(pools)) for name in "klmn"]
    limits = st.sampled_from([-1, 1000, 3000])
    raws += [in_pool(queue(name, cpu={"quota": 1000, "limit": draw(limits)}), draw(pools)) for name in ("q", "r")]
    for name in "ghij":
        least, priority = draw(st.integers(1, 2)), draw(st.sampled_from(["low", "high"]))
        group = podgroup(
            name=name, minMember=least, priorityClassName=priority, queue=draw(st.sampled_from(["q", "r"]))
        )
        raws += [in_pool(group, draw(pools))] if draw(st.integers(0, 5)) else []
        for i in range(draw(st.integers(0, 3))):
            on = draw(st.sampled_from(["", "k", "l", "m", "n"]))
            placed = {"on": on, "phase": "Running"} if on else {}
            raws.append(in_pool(pod(f"{name}-{i}", gang=name, scheduler="muster", cpu=1, **placed), draw(pools)))
    return raws


def decided(snapshot: Snapshot) -> tuple[CyclePlan, Any]:
    return plan(snapshot), divide_cluster(snapshot).uses


@settings(max_examples=150)
@given(clusters())
def test_every_object_is_in_exactly_one_shard(raws: list[Raw]) -> None:
    """A pod is in the shard of its gang, and where it uses resources of a node of another one, there as well."""
    objects = muster.objects(raws)
    taken = [take(objects, NOW, shard=Shard(pool)).objects for pool in POOLS]
    for kind in ("nodes", "queues", "pod_groups"):
        united = [each.metadata.name for part in taken for each in getattr(part, kind)]
        assert sorted(united) == sorted(each.metadata.name for each in getattr(objects, kind)), kind
    assert {each.metadata.name for part in taken for each in part.pods} == {p.metadata.name for p in objects.pods}
    unbound = [each.metadata.name for part in taken for each in part.pods if not each.spec.node_name]
    assert len(unbound) == len(set(unbound))


@settings(max_examples=150)
@given(clusters())
def test_a_plan_of_a_shard_uses_its_own_nodes_and_pods_only(raws: list[Raw]) -> None:
    objects = muster.objects(raws)
    for shard in map(Shard, POOLS):
        own = select(objects, shard)
        nodes, gangs = ({each.metadata.name for each in kind} for kind in (own.nodes, own.pod_groups))
        made = plan(take(objects, NOW, shard=shard))
        assert {binding.node for binding in (*made.bindings, *made.nominations)} <= nodes
        assert {each.pod_group for each in (*made.bindings, *made.nominations, *made.evictions)} <= gangs


@settings(max_examples=150)
@given(clusters())
def test_the_rest_of_the_cluster_is_foreign(raws: list[Raw]) -> None:
    """As a cluster without the others' objects, where their pods are for another scheduler: the same plan and usage."""
    for shard in map(Shard, POOLS):
        groups = {raw["metadata"]["name"]: raw for raw in raws if raw["kind"] == "PodGroup"}
        alone: list[Raw] = []
        for raw in raws:
            decides = groups.get(raw["metadata"].get("annotations", {}).get("pod-group-name", ""), raw)
            if raw["kind"] == "PriorityClass" or shard.has(decides["metadata"].get("labels", {})):
                alone.append(raw)
            elif raw["kind"] == "Pod" and raw["spec"].get("nodeName"):
                alone.append({**raw, "spec": {**raw["spec"], "schedulerName": "another"}})
        (mine, uses), (same, same_uses) = (
            decided(take(muster.objects(raws), NOW, shard=shard)),
            decided(take(muster.objects(alone), NOW)),
        )
        assert (mine.bindings, mine.nominations, mine.evictions) == (same.bindings, same.nominations, same.evictions)
        assert [(g.gang.key, g.verdict) for g in mine.gangs] == [(g.gang.key, g.verdict) for g in same.gangs]
        assert repr(uses) == repr(same_uses)

"""Stamps on PodGroups that are later than now: clocks of machines differ, and no stamp holds for ever (S2, S3, P5)."""

import json
from datetime import timedelta
from typing import Any

import pytest

from muster.api.moment import format_time
from muster.api.names import LAST_START, STALE_SINCE, STALE_SUBGROUPS
from tests.support.cycles import Cluster
from tests.support.factories import Raw, node, pod, podgroup, priority_class, queue

AHEAD = (1, 30, 400, 10**6, 10**9)  # seconds


def annotations(cluster: Cluster, gang: str) -> dict[str, str]:
    (gang_raw,) = (raw for raw in cluster.of("PodGroup") if raw["metadata"]["name"] == gang)
    notes: dict[str, str] = gang_raw["metadata"].setdefault("annotations", {})
    return notes


def is_evicted(cluster: Cluster, name: str) -> bool:
    return any(one["pod"] == name for one in cluster.plan["evictions"])


@pytest.mark.parametrize("seconds", AHEAD)
def test_a_stale_gang_is_released_after_its_grace_whatever_its_stamp_says(seconds: int) -> None:
    """S2: a stamp from the future counts as now, once; it is not put off with every cycle."""
    short = [podgroup(name="v", minMember=2), pod("v-0", gang="v", on="n1", phase="Running", cpu=1)]
    cluster = Cluster(node("n1", cpu=1), *short)
    annotations(cluster, "v")[STALE_SINCE] = format_time(cluster.now + timedelta(seconds=seconds))
    cluster.cycle(0)
    assert not is_evicted(cluster, "v-0")
    assert annotations(cluster, "v")[STALE_SINCE] == format_time(cluster.now)
    cluster.cycle(59)
    assert not is_evicted(cluster, "v-0")
    cluster.cycle(1)
    assert is_evicted(cluster, "v-0")


def test_a_stale_subgroup_is_released_after_its_grace_whatever_its_stamp_says() -> None:
    """S3: the same for one SubGroup."""
    groups: list[Raw] = [{"name": "a", "minMember": 1}, {"name": "b", "minMember": 2}]
    cluster = Cluster(node("n1", cpu=2), podgroup(name="v", minSubGroup=1, subGroups=groups))
    cluster.add(*(pod(f"v-{leaf}", leaf, gang="v", on="n1", phase="Running", cpu=1) for leaf in "ab"))
    late = format_time(cluster.now + timedelta(days=9))
    annotations(cluster, "v")[STALE_SUBGROUPS] = json.dumps({"b": late})
    cluster.cycle(0)
    cluster.cycle(60)
    assert (is_evicted(cluster, "v-a"), is_evicted(cluster, "v-b")) == (False, True)


def scene(ahead: int) -> Cluster:
    """A running gang whose queue promises it a minute, and one of a higher priority that needs its node."""
    spec: dict[str, Any] = {"minMember": 1, "queue": "q"}
    one = queue("q", cpu={"quota": 1000})
    one["spec"]["preemptMinRuntime"] = "1m"
    classes = (priority_class("low", 10), priority_class("high", 90))
    cluster = Cluster(*classes, one, node("n1", cpu=1), podgroup(name="v", priorityClassName="low", **spec))
    cluster.add(pod("v", gang="v", on="n1", phase="Running", cpu=1))
    cluster.add(podgroup(name="new", priorityClassName="high", **spec), pod("new", gang="new", cpu=1))
    annotations(cluster, "v")[LAST_START] = format_time(cluster.now + timedelta(seconds=ahead))
    return cluster


def test_a_start_that_is_a_little_ahead_counts_from_now() -> None:
    """Clocks differ by seconds: the gang has its minute."""
    cluster = scene(ahead=30)
    cluster.cycle(0)
    assert not is_evicted(cluster, "v")
    assert annotations(cluster, "v")[LAST_START] == format_time(cluster.now)
    cluster.cycle(59)
    assert not is_evicted(cluster, "v")
    cluster.cycle(1)
    assert is_evicted(cluster, "v")


def test_a_start_in_another_year_protects_no_gang() -> None:
    """It says nothing, as one that cannot be read."""
    cluster = scene(ahead=10**8)
    cluster.cycle(0)
    assert is_evicted(cluster, "v")

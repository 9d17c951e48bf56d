"""Whose eviction is certain to be refused (P6): under two budgets, or refused lately. No plan relies on it."""

from datetime import datetime
from typing import Any

import muster
from muster.reporting.explain import reasons
from tests.support.factories import Raw, group, node, pod, podgroup, pods, priority_class, queue, topology

NOW = datetime.fromisoformat("2026-06-01T12:02:00+00:00")
CLASSES = (priority_class("low", 10), priority_class("high", 90))
PLENTY = {"disruptionsAllowed": 9}


def budget(name: str, **labels: str) -> Raw:
    """A budget that lets nine pods with these labels go."""
    meta = {"name": name, "namespace": "team"}
    spec = {"selector": {"matchLabels": labels}, "minAvailable": 1}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta, "spec": spec, "status": PLENTY}


def running(name: str, gang: str, on: str, leaf: str = "", **labels: str) -> Raw:
    """A pod that runs and asks for one cpu."""
    raw = pod(name, leaf, gang=gang, on=on, phase="Running", cpu=1)
    raw["metadata"]["labels"] |= labels
    return raw


def low(name: str, minimum: int = 1, **spec: Any) -> Raw:
    return podgroup(name=name, minMember=minimum, priorityClassName="low", **spec)


def newcomer(cpu: int = 1, number: int = 1, **spec: Any) -> list[Raw]:
    """A gang of a higher priority that waits."""
    group = podgroup(name="new", minMember=number, **({"priorityClassName": "high"} | spec))
    return [group, *pods(number, gang="new", cpu=cpu)]


def evicted(*objects: Raw, untouchable: tuple[str, ...] = ()) -> list[str]:
    """Who leaves, as `pod reason`."""
    policy = muster.Policy(untouchable=frozenset(untouchable))
    plan = muster.plan(muster.objects(objects), policy, NOW)
    return [f"{one.pod} {one.reason}" for one in plan.evictions]


TWICE = (budget("by-app", app="x"), budget("by-tier", tier="y"))
BOTH = {"app": "x", "tier": "y"}


def test_a_pod_under_two_budgets_is_not_preempted() -> None:
    """The eviction subresource answers 500, however much both budgets allow: the other pod leaves."""
    scene = [node("n1", cpu=2), *CLASSES, *newcomer(), low("v"), low("w"), running("w", "w", "n1")]
    assert evicted(*scene, running("v", "v", "n1"), *TWICE) == ["v Preempt"]
    assert evicted(*scene, running("v", "v", "n1", app="x"), *TWICE) == ["v Preempt"]
    assert evicted(*scene, running("v", "v", "n1", **BOTH), *TWICE) == ["w Preempt"]


def test_no_pod_is_evicted_where_all_are_under_two_budgets() -> None:
    scene = [node("n1", cpu=1), *CLASSES, *newcomer(), low("v"), *TWICE]
    assert evicted(*scene, running("v", "v", "n1", **BOTH)) == []


def test_a_pod_that_has_not_started_may_go_whatever_selects_it() -> None:
    """Kubernetes asks no budget about a pod in phase Pending."""
    victim = running("v", "v", "n1", **BOTH)
    victim["status"]["phase"] = "Pending"
    assert evicted(node("n1", cpu=1), *CLASSES, *newcomer(), low("v"), *TWICE, victim) == ["v Preempt"]


def test_a_pod_under_two_budgets_is_not_reclaimed() -> None:
    share = {"quota": 1000, "limit": -1}
    queues = [queue("a", cpu=share), queue("b", cpu=share)]
    scene = [node("n1", cpu=2), *queues, *newcomer(queue="a", priorityClassName="")]
    scene += [podgroup(name=name, minMember=1, queue="b") for name in ("v", "w")]
    assert evicted(*scene, running("v", "v", "n1"), running("w", "w", "n1"), *TWICE) == ["v Reclaim"]
    assert evicted(*scene, running("v", "v", "n1", **BOTH), running("w", "w", "n1"), *TWICE) == ["w Reclaim"]
    assert evicted(*scene, running("v", "v", "n1", **BOTH), running("w", "w", "n1", **BOTH), *TWICE) == []


def test_a_pod_under_two_budgets_is_not_moved() -> None:
    """Either of two pods could make way for a pod of two cpus, by a move to the other node."""
    scene = [node("n1", cpu=2), node("n2", cpu=2), *CLASSES, *newcomer(cpu=2), podgroup(name="v"), podgroup(name="w")]
    assert evicted(*scene, running("v", "v", "n1"), running("w", "w", "n2"), *TWICE) == ["v Consolidate"]
    assert evicted(*scene, running("v", "v", "n1", **BOTH), running("w", "w", "n2"), *TWICE) == ["w Consolidate"]
    assert evicted(*scene, running("v", "v", "n1", **BOTH), running("w", "w", "n2", **BOTH), *TWICE) == []


def test_a_core_stays_whole_with_the_one_that_cannot_leave_and_its_extras_still_go() -> None:
    """P3: a core leaves as a whole or not at all."""
    scene = [node("n1", cpu=3), *CLASSES, low("v", 2), *TWICE]
    scene += [running("v0", "v", "n1"), running("v1", "v", "n1", **BOTH), running("v2", "v", "n1")]
    assert evicted(*scene, *newcomer()) == ["v2 Preempt"]
    assert evicted(*scene, *newcomer(cpu=2)) == []


def test_a_surplus_subgroup_stays_with_the_spare_pod_inside_it() -> None:
    """0008: a unit that contains others is evicted only together with them."""
    parts = (group("a", 1), group("b", 2))
    gang = podgroup(*parts, name="v", minSubGroup=1, priorityClassName="low")
    scene = [node("n1", cpu=4), *CLASSES, gang, running("a0", "v", "n1", "a")]
    scene += [running(f"b{i}", "v", "n1", "b", **(BOTH if i == 2 else {})) for i in range(3)]
    assert evicted(*scene, *newcomer(cpu=3)) == ["b0 Preempt", "b1 Preempt", "b2 Preempt"]
    assert evicted(*scene, *newcomer(cpu=3), *TWICE) == []


def stale(*members: Raw) -> list[Raw]:
    """A gang of three that has been short for two minutes."""
    gang = low("v", 3)
    gang["metadata"]["annotations"] = {"kai.scheduler/stale-podgroup-timestamp": "2026-06-01T12:00:00Z"}
    return [node("n1", cpu=3), *CLASSES, gang, *members]


def test_of_a_stale_gang_those_pods_are_evicted_that_can_be() -> None:
    """S2: a budget does not hold back the release; a pod that nothing can evict stays, and holds back no other."""
    both = [running("v0", "v", "n1", **BOTH), running("v1", "v", "n1", app="x")]
    assert evicted(*stale(*both)) == ["v0 Stale", "v1 Stale"]
    assert evicted(*stale(*both), *TWICE) == ["v1 Stale"]
    assert evicted(*stale(both[0]), *TWICE) == []


def sentences_of(*objects: Raw, untouchable: tuple[str, ...] = ()) -> str:
    """The reasons of the newcomer."""
    policy = muster.Policy(untouchable=frozenset(untouchable))
    plan = muster.plan(muster.objects(objects), policy, NOW)
    return " ".join(
        one["message"]
        for gang_plan in plan.decided.gangs
        if gang_plan.gang.key == "team/new"
        for one in reasons(gang_plan)
    )


def test_the_reason_names_pods_that_cannot_be_evicted() -> None:
    """E1: that no pod was evicted is not the same as that none could have been."""
    scene = [node("n1", cpu=2), *CLASSES, *newcomer(cpu=2), low("v"), low("w"), *TWICE]
    scene += [running("v", "v", "n1", **BOTH), running("w", "w", "n1")]
    assert "1 pod (`team/v`) cannot be evicted for it, as budgets or the API server keep them" in sentences_of(*scene)
    assert "2 pods (`team/v`, `team/w`) cannot be evicted for it" in sentences_of(*scene, untouchable=("team/w",))


def test_a_reason_does_not_mention_pods_that_could_not_be_victims_anyway() -> None:
    scene = [node("n1", cpu=2), *CLASSES, low("v"), *TWICE, running("v", "v", "n1", **BOTH)]
    assert "evicted" not in sentences_of(*scene, *newcomer(cpu=2, priorityClassName="low"))
    assert "evicted" not in sentences_of(*scene[:-1], running("v", "v", "n1"), *newcomer(cpu=3))


def test_of_many_that_cannot_be_evicted_a_few_are_named_and_the_others_counted() -> None:
    victims = [part for i in range(5) for part in (low(f"v{i}"), running(f"v{i}", f"v{i}", "n1", **BOTH))]
    sentences = sentences_of(node("n1", cpu=5), *CLASSES, *newcomer(), *TWICE, *victims)
    assert "5 pods (`team/v0`, `team/v1`, `team/v2` and 2 more) cannot be evicted for it" in sentences


# refused lately -------------------------------------------------------------------------------------------------------


def test_an_untouchable_pod_is_no_victim() -> None:
    scene = [node("n1", cpu=2), *CLASSES, *newcomer(), low("v"), low("w")]
    scene += [running("v", "v", "n1"), running("w", "w", "n1")]
    assert evicted(*scene) == ["v Preempt"]
    assert evicted(*scene, untouchable=("team/v",)) == ["w Preempt"]
    assert evicted(*scene, untouchable=("other/v", "team/gone")) == ["v Preempt"]
    assert evicted(*scene, untouchable=("team/v", "team/w")) == []


def test_an_untouchable_pod_is_not_released_and_the_others_of_its_gang_are() -> None:
    both = [running("v0", "v", "n1"), running("v1", "v", "n1")]
    assert evicted(*stale(*both), untouchable=("team/v0",)) == ["v1 Stale"]


def test_room_is_found_around_an_untouchable_pod_among_many() -> None:
    """X1 for victims: with more units than sets can be tried, a single one that stays does not hide the others."""
    hosts = [node(f"n{i:02}", cpu=1, rack=f"r{i // 10}") for i in range(80)]
    victims = [part for i in range(80) for part in (low(f"v{i:02}"), running(f"v{i:02}", f"v{i:02}", f"n{i:02}"))]
    rack = {"requiredTopologyLevel": "rack"}
    scene = [topology("topology/rack"), *hosts, *CLASSES, *victims, *newcomer(number=10, topologyConstraint=rack)]
    one_in_each_other_rack = tuple(f"team/v{i}5" for i in range(8) if i != 6)
    assert evicted(*scene, untouchable=one_in_each_other_rack) == [f"v6{i} Preempt" for i in range(10)]


def test_the_plan_without_the_setting_is_the_plan_with_an_empty_one() -> None:
    scene = muster.objects([node("n1"), *newcomer()])
    assert muster.plan(scene, now=NOW).to_dict() == muster.plan(scene, muster.Policy(), NOW).to_dict()

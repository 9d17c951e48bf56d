"""What an answer depends on is in its key (0016): each thing changed alone, where it turns or rewords the answer."""

import copy
import gc
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from weakref import ref

import pytest

import muster
from muster.model.snapshot import take
from muster.planning.cycle import plan
from muster.planning.memory.answer_cache import AnswerCache
from muster.planning.policy import Policy
from muster.reporting import plans
from tests.support.factories import Raw, group, node, pod, podgroup, priority_class, queue, topology

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
LAST_START = "kai.scheduler/last-start-timestamp"
Change = Callable[[dict[str, Raw]], object]


def gang(name: str, *, on: str = "", pods: int = 2, cpu: int = 2, rack: bool = False, **spec: Any) -> list[Raw]:
    where: dict[str, Any] = {"topologyConstraint": {"requiredTopologyLevel": "rack"}} if rack else {}
    members = [pod(f"{name}-{i}", f"{name}-leaf", gang=name, on=on, cpu=str(cpu)) for i in range(pods)]
    return [podgroup(group(f"{name}-leaf", pods, **where), name=name, **spec), *members]


def cluster() -> dict[str, Raw]:
    """`new` waits: for a rack with room, or for `old`, which may not be preempted. By kind and name."""
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "budget", "namespace": "team"},
        "spec": {"maxUnavailable": 9, "selector": {"matchLabels": {"app": "old"}}},
    }
    objects = [
        topology("topology/rack"),
        priority_class("low", 10),
        priority_class("middle", 50),
        priority_class("high", 90),
        priority_class("highest", 95),
        queue("default", cpu={"quota": -1}),
        node("a", cpu=4, rack="r1"),
        node("b", cpu=2, rack="r2"),
        node("c", cpu=2, rack="r3"),
        *gang("old", on="a", rack=True, priorityClassName="high", preemptibility="preemptible"),
        *gang("new", rack=True, priorityClassName="middle"),
        budget,
    ]
    for raw in objects:
        if raw["metadata"]["name"].startswith("old-"):
            raw["metadata"]["labels"]["app"] = "old"
    return {f"{raw['kind']} {raw['metadata']['name']}": raw for raw in objects}


def preempting() -> dict[str, Raw]:
    """The same, but `old` is in the way only for one reason, which a test adds."""
    objects = cluster()
    objects["PodGroup old"]["spec"]["priorityClassName"] = "low"
    objects["PodGroup new"]["spec"]["priorityClassName"] = "high"
    return objects


def planned(objects: dict[str, Raw], memory: AnswerCache | None, now: datetime, policy: Policy) -> Raw:
    return plans.data(plan(take(muster.objects(list(objects.values())), now), policy, memory=memory))


def turned(
    before: dict[str, Raw],
    after: dict[str, Raw],
    now: datetime = NOW,
    policies: tuple[Policy, Policy] = (Policy(), Policy()),
) -> tuple[Raw, Raw]:
    """Two cycles with one memory: the second plans as if there were none, and differs from the first."""
    memory = AnswerCache()
    first = planned(before, memory, NOW, policies[0])
    assert len(memory) > 0, "else this tests nothing"
    second = planned(after, memory, now, policies[1])
    assert second == planned(after, None, now, policies[1])
    assert second != first, "else this tests nothing"
    return first, second


def at(path: str, value: object) -> Change:
    """Set a field: `PodGroup new/spec/queue`."""
    name, *keys, last = path.split("/")

    def change(objects: dict[str, Raw]) -> None:
        holder = objects[name]
        for key in keys:
            holder = holder.setdefault(key, {})
        holder[last] = value

    return change


CHANGES: dict[str, Change] = {
    "who is in the way is worth less": at("PodGroup old/spec/priorityClassName", "low"),
    "the gang is worth more": at("PodGroup new/spec/priorityClassName", "highest"),
    "a pod that was there is gone": lambda objects: objects.pop("Pod old-0"),
    "a node is bigger": lambda objects: objects["Node b"]["status"]["allocatable"].update(cpu="4"),
    "a node is in another rack": lambda objects: objects["Node c"]["metadata"]["labels"].update(
        {"topology/rack": "r2"}
    ),
    "a level is named otherwise": lambda objects: objects["Node b"]["metadata"]["labels"].update(
        {"topology/rack": "r9"}
    ),
    "the gang asks for less": lambda objects: [
        objects[f"Pod new-{i}"]["spec"]["containers"][0]["resources"]["requests"].update(cpu="1") for i in range(2)
    ],
    "a node takes no pods": at("Node b/spec", {"unschedulable": True}),
    "the gang may be anywhere": lambda objects: objects["PodGroup new"]["spec"]["subGroups"][0].pop(
        "topologyConstraint"
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_an_answer_is_another_one_when(name: str) -> None:
    after = copy.deepcopy(cluster())
    CHANGES[name](after)
    turned(cluster(), after)


def test_names_of_groups_are_part_of_a_diagnosis_alone() -> None:
    """The search is not paid for again, the words are new."""
    after = copy.deepcopy(cluster())
    after["PodGroup new"]["spec"]["subGroups"][0]["name"] = "other"
    for i in range(2):
        after[f"Pod new-{i}"]["metadata"]["labels"]["kai.scheduler/subgroup-name"] = "other"
    turned(cluster(), after)


def test_a_budget_that_is_used_up_changes_the_candidates() -> None:
    before = preempting()
    before["PodDisruptionBudget budget"]["spec"]["maxUnavailable"] = 0
    first, second = turned(before, preempting())
    assert (len(first["evictions"]), len(second["evictions"])) == (0, 2)


def test_pods_that_cannot_be_evicted_now_change_the_candidates() -> None:
    kept = Policy(untouchable=frozenset({"team/old-0"}))
    first, second = turned(preempting(), preempting(), policies=(kept, Policy()))
    assert (len(first["evictions"]), len(second["evictions"])) == (0, 2)


def test_time_that_passes_changes_the_candidates() -> None:
    """A minimum run time: nothing else has changed."""
    young = preempting()
    young["Queue default"]["spec"]["preemptMinRuntime"] = "1h"
    young["PodGroup old"]["metadata"]["annotations"] = {LAST_START: "2026-05-01T11:30:00Z"}
    later = NOW + timedelta(hours=1)
    first, second = turned(young, young, later)
    assert (len(first["evictions"]), len(second["evictions"])) == (0, 2)


def test_the_limit_of_the_queue_is_part_of_the_answer() -> None:
    """Q4."""
    limited = preempting()
    limited["Node b"]["status"]["allocatable"]["cpu"] = "4"
    limited["Queue default"]["spec"]["resources"]["cpu"]["limit"] = 7_000
    unlimited = copy.deepcopy(limited)
    unlimited["Queue default"]["spec"]["resources"]["cpu"]["limit"] = 8_000
    memory = AnswerCache()
    planned(limited, memory, NOW, Policy())
    assert planned(unlimited, memory, NOW, Policy()) == planned(unlimited, None, NOW, Policy())


def test_what_an_earlier_gang_was_granted_changes_the_candidates() -> None:
    """A victim that was evicted for another gang is gone; one that was granted something is no victim."""
    before = preempting()
    first_in_line = gang("aaa", priorityClassName="high", rack=True)
    after = preempting() | {f"{raw['kind']} {raw['metadata']['name']}": raw for raw in first_in_line}
    memory = AnswerCache()
    for objects in (before, after, before, after):
        assert planned(objects, memory, NOW, Policy()) == planned(objects, None, NOW, Policy())


@pytest.mark.parametrize("make", [cluster, preempting])
def test_a_snapshot_is_freed_with_its_plan(make: Callable[[], dict[str, Raw]]) -> None:
    """Not by the garbage collector, which comes after dozens of cycles: each leaves a copy of all pods until then."""
    objects, memory = muster.objects([*make().values()]), AnswerCache()
    gc.collect()
    gc.disable()
    try:
        snapshot = take(objects, NOW)
        used = ref(snapshot.used)
        made = plan(snapshot, Policy(), memory=memory)
        assert made.gangs
        del snapshot, made
        assert used() is None
    finally:
        gc.enable()

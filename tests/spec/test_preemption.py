"""P5, P6: which pods may be evicted for which gang, and none of them in vain; drawn."""

from typing import Any

import muster
from tests.support.drawing import GPU, draw
from tests.support.factories import Raw, pod, podgroup, priority_class, queue

CLASSES = [priority_class("low", 10), priority_class("high", 90)]
LONG_AGO = "2026-01-01T00:00:00Z"


def gang(name: str, number: int = 1, on: str = "", gpus: int = 1, **spec: Any) -> list[Raw]:
    """A gang of pods that all have to run, and run on a node where one is given."""
    requests: Any = {GPU: gpus}
    made = podgroup(name=name, **({"minMember": number} | spec))
    made["metadata"]["creationTimestamp"] = LONG_AGO
    phase = "Running" if on else ""
    return [made, *(pod(f"{name}-{i}", gang=name, on=on, phase=phase, **requests) for i in range(number))]


def evictions(*objects: list[Raw]) -> dict[str, str]:
    """Why each victim leaves."""
    plan = muster.plan(muster.objects([*CLASSES, *(raw for some in objects for raw in some)]))
    return {eviction.pod: eviction.reason for eviction in plan.evictions}


def test_a_higher_priority_preempts_in_its_own_queue() -> None:
    """P5: of two equal victims one is enough, and a gang of the same priority is none."""
    cluster = draw("r1 a:1")
    low, high = gang("low", on="a", priorityClassName="low"), gang("high", priorityClassName="high")
    assert evictions(cluster, low, high) == {"low-0": "Preempt"}
    assert evictions(cluster, low, gang("equal", priorityClassName="low")) == {}


def test_a_higher_priority_does_not_preempt_in_another_queue() -> None:
    """P5: both queues are within their quota, so nothing can be reclaimed either."""
    queues = [queue("red", gpu={"quota": 1}), queue("blue", gpu={"quota": 1})]
    low = gang("low", on="a", priorityClassName="low", queue="red")
    assert evictions(draw("r1 a:1"), queues, low, gang("high", priorityClassName="high", queue="blue")) == {}


def test_a_queue_below_its_fair_share_reclaims_from_one_above_its_own() -> None:
    """P5: `red` has both GPUs and a quota of one; `blue` takes back what its quota promises, whatever the priority."""
    queues = [queue("red", gpu={"quota": 1}), queue("blue", gpu={"quota": 1})]
    high = [gang(f"high{i}", on="a", priorityClassName="high", queue="red") for i in range(2)]
    victims = evictions(draw("r1 a:2"), queues, *high, gang("low", priorityClassName="low", queue="blue"))
    assert list(victims.values()) == ["Reclaim"]


def test_a_pod_moves_where_it_has_a_proven_new_place() -> None:
    """P5: the gang needs a whole node; the pod on `a` fits on `b`, and without `b` it stays."""
    small, large = gang("small", on="a", priorityClassName="low"), gang("large", gpus=2, priorityClassName="low")
    assert evictions(draw("r1 a:2 b:1"), small, large) == {"small-0": "Consolidate"}
    assert evictions(draw("r1 a:2"), small, large) == {}


def test_no_pod_leaves_where_the_gang_would_not_fit_without_it_either() -> None:
    """P6: three GPUs in one node do not exist, however many leave."""
    low = [gang(f"low{i}", on="a", priorityClassName="low") for i in range(2)]
    assert evictions(draw("r1 a:2"), *low, gang("high", gpus=3, priorityClassName="high")) == {}


def test_no_victim_could_be_left_out() -> None:
    """P6: one GPU of four is free; of three victims that may leave two do."""
    low = [gang(f"low{i}", on="a", priorityClassName="low") for i in range(3)]
    assert len(evictions(draw("r1 a:4"), *low, gang("high", 3, priorityClassName="high"))) == 2


def test_a_pod_disruption_budget_is_honoured() -> None:
    """P6: the victim that its budget holds back stays, and another one leaves."""
    low = [gang(f"low{i}", on="a", priorityClassName="low") for i in range(2)]
    low[0][1]["metadata"]["labels"]["app"] = "held"
    selector = {"matchLabels": {"app": "held"}}
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "held", "namespace": "team"},
        "spec": {"minAvailable": 1, "selector": selector},
        "status": {"disruptionsAllowed": 0},
    }
    assert evictions(draw("r1 a:2"), *low, [budget], gang("high", priorityClassName="high")) == {"low1-0": "Preempt"}

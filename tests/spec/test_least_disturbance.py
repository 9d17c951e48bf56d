"""P5 and P8: how little is disturbed, for which gang first, and which queues are never taken from."""

import random
from datetime import datetime
from typing import Any

import muster
from muster.api.decoding import encode
from muster.api.podgroup import DisturbanceStatus, PodGroupStatus
from muster.model.snapshot import take
from muster.planning.cycle import plan as make_plan
from muster.reporting.outcome import outcomes
from muster.reporting.status import pod_group_status
from tests.support.busy import busy_cluster
from tests.support.factories import Raw, node, pod, podgroup, pods, priority_class, queue, topology

NOW = datetime.fromisoformat("2026-06-01T12:02:00+00:00")
CLASSES = (priority_class("low", 10), priority_class("mid", 40), priority_class("high", 90))


def running(gang: str, on: str, cpu: int = 1, **spec: Any) -> list[Raw]:
    """A gang of one running pod."""
    member = pod(gang, gang=gang, on=on, phase="Running", cpu=cpu)
    fields: dict[str, Any] = {"minMember": 1, "priorityClassName": "low"} | spec
    return [podgroup(name=gang, **fields), member]


def waiting(gang: str, number: int, cpu: int = 1, **spec: Any) -> list[Raw]:
    """A gang that waits, of so many pods."""
    members = [pod(f"{gang}-{i}", gang=gang, cpu=cpu) for i in range(number)]
    return [podgroup(name=gang, **({"minMember": number} | spec)), *members]


def planned(*objects: Raw, **policy: Any) -> Raw:
    return muster.plan(muster.objects(objects), muster.Policy(**policy), NOW).to_dict()


def evicted(plan: Raw) -> list[str]:
    """As `pod reason for`."""
    return [f"{one['pod']} {one['reason']} {one['for']}" for one in plan["evictions"]]


def reasons(plan: Raw, gang: str) -> list[str]:
    (decision,) = (one for one in plan["podGroups"] if one["name"] == gang)
    return [decision["verdict"], *(one["reason"] for one in decision["reasons"])]


# consolidation --------------------------------------------------------------------------------------------------------


def fragmented(nodes: int, cpu: int) -> list[Raw]:
    """Every node is half full of pods of one cpu each; all gangs are one pod."""
    hosts = [node(f"n{i}", cpu=2 * cpu) for i in range(nodes)]
    return [*hosts, *(raw for i in range(nodes) for j in range(cpu) for raw in running(f"v{i}x{j}", f"n{i}"))]


def test_at_most_so_many_pods_move_for_a_gang() -> None:
    """P8: three pods would have to move; where two are allowed, the gang waits."""
    scene = [*CLASSES, *fragmented(2, 3), *waiting("new", 1, cpu=6, priorityClassName="low")]
    assert len(planned(*scene)["evictions"]) == 3
    assert len(planned(*scene, max_moved_pods=3)["evictions"]) == 3
    assert planned(*scene, max_moved_pods=2)["evictions"] == []
    assert reasons(planned(*scene, max_moved_pods=2), "new") == ["Infeasible", "NoRoom"]


def test_pods_without_another_place_cost_nothing() -> None:
    """X7: two hundred pods, each of which would make room, and none of which fits anywhere else: no search for each."""
    hosts = [node(f"n{i}", cpu=5) for i in range(100)]
    there = [raw for i in range(100) for j in range(2) for raw in running(f"v{i}x{j}", f"n{i}", cpu=2)]
    scene = [*CLASSES, *hosts, *there, *waiting("new", 1, cpu=3, priorityClassName="low")]
    plan = make_plan(take(muster.objects(scene), NOW))
    assert not plan.evictions
    assert sum(plan.searches) < 200


def test_zero_moved_pods_switches_consolidation_off() -> None:
    scene = [*CLASSES, *fragmented(2, 1), *waiting("new", 1, cpu=2, priorityClassName="low")]
    assert len(planned(*scene)["evictions"]) == 1
    assert planned(*scene, max_moved_pods=0)["evictions"] == []


def test_no_more_resources_move_than_the_gang_asks_for() -> None:
    """P8: a pod of five cpus does not move for one of four, though it has a place to go to; one of four does."""
    for large, leave in ((5, []), (4, ["v Consolidate team/new"])):
        scene = [node("n1", cpu=7), node("n2", cpu=5), *running("v", "n1", cpu=large), *running("w", "n2", cpu=0)]
        scene += [*CLASSES, *waiting("new", 1, cpu=4, priorityClassName="low", topologyConstraint=RACK)]
        scene[0]["metadata"]["labels"] = {"topology/rack": "r1"}
        assert evicted(planned(topology("topology/rack"), *scene)) == leave


RACK = {"requiredTopologyLevel": "rack"}


def movable_pod(**spec: Any) -> list[Raw]:
    """A pod that holds the only rack, a node that it could move to, and a gang that needs the rack."""
    spots = [topology("topology/rack"), node("n1", cpu=1, rack="r1"), node("n2", cpu=1)]
    new = waiting("new", 1, priorityClassName="low", topologyConstraint=RACK, queue="q2")
    return [*CLASSES, *spots, *running("v", "n1", **spec), *new, queue("q2", cpu={"quota": 1000})]


def test_a_pod_moves_only_where_it_could_be_scheduled_again() -> None:
    """P5: its new pod must pass its queue; an administrator lowered the limit, or removed the queue or its class."""
    small, lowered = (queue("q", cpu={"quota": 0, "limit": limit}) for limit in (1000, 500))
    assert moved(*movable_pod(queue="q"), small) == ["v"]
    assert moved(*movable_pod(queue="q"), lowered) == []
    assert moved(*movable_pod(queue="gone")) == []
    assert moved(*movable_pod(queue="q", priorityClassName="gone"), small) == []


def moved(*objects: Raw) -> list[str]:
    return [one["pod"] for one in planned(*objects)["evictions"] if one["reason"] == "Consolidate"]


def test_the_sum_of_what_moves_stays_within_what_the_gang_asks_for() -> None:
    """Two pods of two cpus move for one of four; they do not for one of three."""
    for asks, number in ((4, 2), (3, 0)):
        scene = [node("n1", cpu=4, rack="r1"), node("n2", cpu=2), node("n3", cpu=2)]
        scene += [*running("v", "n1", cpu=2), *running("w", "n1", cpu=2)]
        scene += [*CLASSES, *waiting("new", 1, cpu=asks, priorityClassName="low", topologyConstraint=RACK)]
        assert len(planned(topology("topology/rack"), *scene)["evictions"]) == number


# the share of a cycle -------------------------------------------------------------------------------------------------


def two_preemptors(nodes: int = 3, **more: Any) -> list[Raw]:
    """Full nodes, and two gangs that need a victim each."""
    hosts = [node(f"n{i}", cpu=1) for i in range(nodes)]
    victims = [raw for i in range(nodes) for raw in running(f"v{i:02}", f"n{i}")]
    gangs = [raw for name in ("a", "b") for raw in waiting(name, 1, priorityClassName="high", **more)]
    return [*CLASSES, *hosts, *victims, *gangs]


def test_one_gangs_worth_is_always_allowed_and_no_more_than_the_share() -> None:
    """P8: five percent of three pods is none; the first gang has its victim all the same, the second waits a cycle."""
    plan = planned(*two_preemptors())
    assert [one["for"] for one in plan["evictions"]] == ["team/a"]
    assert reasons(plan, "b") == ["Waiting", "DisturbanceLimit", "NoRoom"]


def test_within_the_share_every_gang_has_its_victims() -> None:
    assert len(planned(*two_preemptors(), max_disturbed_percent=67)["evictions"]) == 2
    assert len(planned(*two_preemptors(40))["evictions"]) == 2
    assert len(planned(*two_preemptors(39))["evictions"]) == 1


def test_a_gang_for_which_no_set_exists_does_not_wait_for_the_share() -> None:
    """P8, E1: one of three pods is left of the share; a gang too large for any node would not fit with all of it."""
    scene = [*two_preemptors(60), *waiting("huge", 1, cpu=2, priorityClassName="high")]
    assert reasons(planned(*scene), "huge") == ["Infeasible", "NoRoom"]
    scene = [*two_preemptors(60), *waiting("wide", 3, priorityClassName="high")]
    assert reasons(planned(*scene), "wide")[:2] == ["Waiting", "DisturbanceLimit"]


def test_the_share_goes_to_higher_priorities_first_whatever_the_order_of_queues() -> None:
    """P8: queue `a` is asked first (G4), the gang of queue `b` has the higher priority, and the share is for one."""
    queues = [queue(name, cpu={"quota": -1}) for name in ("a", "b")]
    hosts = [node(f"n{i}", cpu=1) for i in range(2)]
    victims = [raw for i, name in enumerate(("a", "b")) for raw in running(f"v{name}", f"n{i}", queue=name)]
    scene = [*CLASSES, *queues, *hosts, *victims]
    scene += waiting("mid", 1, priorityClassName="mid", queue="a")
    scene += waiting("top", 1, priorityClassName="high", queue="b")
    plan = planned(*scene)
    assert evicted(plan) == ["vb Preempt team/top"]
    assert reasons(plan, "mid")[:2] == ["Waiting", "DisturbanceLimit"]
    assert len(planned(*scene, max_disturbed_percent=100)["evictions"]) == 2


def test_what_fits_on_free_room_is_bound_though_a_gang_waits_for_pods_that_leave() -> None:
    """P8: the large gang fits once `gone` has left; the small one takes what is free now."""
    scene = [*CLASSES, node("n1", cpu=4), podgroup(name="gone", minMember=1)]
    scene += [pod("gone", gang="gone", on="n1", phase="Running", cpu=2, terminating=True)]
    scene += [*waiting("large", 1, cpu=4, priorityClassName="high"), *waiting("small", 2, priorityClassName="low")]
    plan = planned(*scene)
    assert {one["podGroup"] for one in plan["bindings"]} == {"small"}
    assert reasons(plan, "large")[0] == "Infeasible"


def test_a_nominee_keeps_only_what_it_was_promised() -> None:
    """P8: of four cpus two are free now, and one is left beside the promise: what fits there is bound now."""
    scene = [*CLASSES, node("n1", cpu=4), *running("v", "n1", cpu=2)]
    scene += waiting("large", 1, cpu=3, priorityClassName="high")
    plan = planned(*scene, *waiting("small", 1, priorityClassName="low"))
    assert [one["podGroup"] for one in plan["nominations"]] == ["large"]
    assert [one["podGroup"] for one in plan["bindings"]] == ["small"]
    assert planned(*scene, *waiting("small", 2, priorityClassName="low"))["bindings"] == []


def test_a_busy_cluster_is_disturbed_little_and_as_much_is_bound_as_without_consolidation() -> None:
    """The figures of P8 on 100 nodes with 500 running pods; steps, not seconds (X7)."""
    for seed in range(3):
        objects = muster.objects(busy_cluster(seed))
        plan = muster.plan(objects, now=NOW).decided
        without = muster.plan(objects, muster.Policy(max_moved_pods=0), NOW).decided
        gangs = {one.preemptor for one in plan.evictions}
        assert len(plan.evictions) <= 25 or len(gangs) == 1
        assert sum(one.reason == "Consolidate" for one in plan.evictions) <= 16
        assert len(plan.bindings) >= len(without.bindings)
        assert sum(plan.searches) <= 60_000


def many_victims(seed: int, gangs: int = 37, nodes: int = 16) -> list[Raw]:
    """Full nodes of eight GPUs, running gangs with disruption budgets over them, and a gang that wants half of it."""
    rng = random.Random(seed)
    free = {f"n{i:02}": 8 for i in range(nodes)}
    scene: list[Raw] = [*CLASSES, topology("topology/rack")]
    scene += [node(name, cpu=8, rack=f"r{i // 4}") for i, name in enumerate(free)]
    for i in range(gangs):
        cpu, hosts = rng.choice((1, 1, 2)), []
        for _ in range(rng.randint(2, 4)):
            able = [name for name, left in free.items() if left >= cpu]
            if able:
                hosts.append(rng.choice(able))
                free[hosts[-1]] -= cpu
        scene.append(podgroup(name=f"v{i:02}", minMember=max(len(hosts) - 1, 1), priorityClassName="low"))
        members = [
            pod(f"v{i:02}-{j}", gang=f"v{i:02}", on=host, phase="Running", cpu=cpu) for j, host in enumerate(hosts)
        ]
        for member in members:
            member["metadata"]["labels"] |= {"app": f"app{i % 5}"}
        scene += members
    scene += [budget(f"app{i}", rng.randint(4, 20)) for i in range(5)]
    return [*scene, *waiting("new", 6, cpu=7, priorityClassName="high")]


def budget(app: str, allowed: int) -> Raw:
    spec = {"selector": {"matchLabels": {"app": app}}, "minAvailable": 1}
    raw = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": app, "namespace": "team"}}
    return raw | {"spec": spec, "status": {"disruptionsAllowed": allowed}}


def test_thirty_seven_gangs_with_budgets_are_decided_within_the_steps() -> None:
    """X7: on 16 nodes; a set of victims, or none, is proved, and the verdict is never a guess."""
    proofs = set()
    for seed in range(6):
        plan = muster.plan(muster.objects(many_victims(seed)), muster.Policy(max_moved_pods=0), NOW)
        assert plan.verdict("team/new") in ("Scheduled", "Infeasible"), seed
        proofs |= {(seed, one.proof) for one in plan.evictions}
        assert max(plan.decided.searches) <= 102_000, seed
    assert sum(proof == "exact" for _, proof in proofs) >= 5


def test_an_exhausted_budget_is_unknown_and_disturbs_nothing() -> None:
    """X2, X7: where the steps do not even prove that it could help, the verdict is `Unknown`, never `Infeasible`."""
    plan = muster.plan(muster.objects(many_victims(0)), muster.Policy(steps=5), NOW)
    assert plan.verdict("team/new") == "Unknown"
    assert plan.evictions == ()


# figures --------------------------------------------------------------------------------------------------------------


def test_a_plan_says_how_much_it_disturbs_for_whom_and_what_was_allowed() -> None:
    """P8, and P6's proof on every eviction."""
    plan = planned(*two_preemptors(40))
    assert plan["disturbance"] == {
        "evicted": 2,
        "moved": 0,
        "running": 40,
        "allowed": 2,
        "for": [{"podGroup": f"team/{name}", "evicted": 1, "moved": 0, "proof": "exact"} for name in ("a", "b")],
    }
    assert [one["details"] for one in plan["evictions"]] == [{"proof": "exact"}] * 2


def test_moves_count_as_moves_and_stale_pods_not_at_all() -> None:
    scene = [*CLASSES, *fragmented(2, 1), *waiting("new", 1, cpu=2, priorityClassName="low")]
    short = podgroup(name="short", minMember=2, priorityClassName="high")
    short["metadata"]["annotations"] = {"kai.scheduler/stale-podgroup-timestamp": "2026-06-01T11:00:00Z"}
    scene += [node("n9", cpu=1), short, pod("short", gang="short", on="n9", phase="Running", cpu=1)]
    plan = planned(*scene)
    assert sorted(one["reason"] for one in plan["evictions"]) == ["Consolidate", "Stale"]
    assert [plan["disturbance"][name] for name in ("evicted", "moved", "running")] == [0, 1, 3]


# reclaim --------------------------------------------------------------------------------------------------------------


def test_nothing_is_taken_from_a_queue_that_stands_at_its_quota() -> None:
    """P5: quotas promise six of four cpus; who came first keeps what its quota promises."""
    queues = [queue("a", cpu={"quota": 3000}), queue("b", cpu={"quota": 3000})]
    scene = [*CLASSES, *queues, node("n1", cpu=4), *waiting("new", 1, queue="a", priorityClassName="low")]
    three = [raw for i in range(3) for raw in running(f"v{i}", "n1", queue="b")]
    assert evicted(planned(*scene, *three, *running("s", "n1", queue="a"))) == []
    four = [raw for i in range(4) for raw in running(f"v{i}", "n1", queue="b")]
    assert len(planned(*scene, *four)["evictions"]) == 1


def test_the_quota_holds_at_every_level_below_the_common_ancestor() -> None:
    """P5: the leaf is above its quota, its parent is not: the promise to the parent holds."""
    share = {"quota": 2000}
    queues = [queue("mine", cpu={"quota": 4000}), queue("top", cpu={"quota": 4000}), queue("leaf", "top", cpu=share)]
    victims = [raw for i in range(4) for raw in running(f"v{i}", "n1", queue="leaf")]
    scene = [*CLASSES, *queues, node("n1", cpu=4), *waiting("new", 1, queue="mine", priorityClassName="low")]
    assert evicted(planned(*scene, *victims)) == []
    queues[1]["spec"]["resources"]["cpu"]["quota"] = 3000
    assert len(planned(*scene, *victims)["evictions"]) == 1


def test_no_unit_leaves_after_its_queue_has_come_down_to_its_quota() -> None:
    """P5: with a quota of two the second pod of two cpus stays; with a quota of one it may take the queue below it."""
    for quota, number in ((2, 0), (1, 2)):
        queues = [queue("a", cpu={"quota": 4000}), queue("b", cpu={"quota": quota * 1000})]
        scene = [*CLASSES, *queues, topology("topology/rack"), node("n1", cpu=4, rack="r1"), node("n2", cpu=quota)]
        scene += [*running("v", "n1", cpu=2, queue="b"), *running("w", "n1", cpu=2, queue="b")]
        scene += waiting("new", 1, 4, queue="a", priorityClassName="low", topologyConstraint=RACK)
        assert len(planned(*scene, max_moved_pods=0)["evictions"]) == number


def test_extras_count_one_by_one_before_the_core_goes() -> None:
    """P5, P3: two extras bring the queue down to its quota; the core behind them stays, and two places are too few."""
    queues = [queue("q", cpu={"quota": 4000}), queue("r", cpu={"quota": 4000})]
    elastic = [podgroup(name="v", minMember=1, queue="q"), *pods(6, gang="v", on="n", phase="Running", cpu=1)]
    for number, leave in ((2, 2), (3, 0)):
        scene = [*queues, node("n", cpu=6), *elastic, *waiting("new", number, queue="r")]
        assert len(planned(*scene)["evictions"]) == leave


def test_pods_without_cpu_requests_may_be_made_room_for() -> None:
    """P8: of cpu and memory it counts only what the gang asks for, as many pods state neither."""
    scene = [node("n1", cpu=1, rack="r1"), node("n2", cpu=1)]
    scene[0]["status"]["allocatable"]["pods"] = "1"
    scene += [*CLASSES, *running("v", "n1"), podgroup(name="new", topologyConstraint=RACK, priorityClassName="low")]
    assert evicted(planned(topology("topology/rack"), *scene, *pods(1, gang="new"))) == ["v Consolidate team/new"]


# figures --------------------------------------------------------------------------------------------------------------


def status_of(gang: str, raws: list[Raw]) -> PodGroupStatus:
    """What is written on a PodGroup after one cycle."""
    snapshot = take(muster.objects(raws), NOW)
    outcome = outcomes(snapshot, make_plan(snapshot))[f"team/{gang}"]
    return pod_group_status(outcome, outcome.before.source, NOW)


def test_a_gang_says_what_its_places_cost_until_it_has_them() -> None:
    """P8: three pods move for it; its status says so while they leave, and no longer."""
    scene = [*CLASSES, *fragmented(2, 3), *waiting("new", 1, cpu=6, priorityClassName="low")]
    first = status_of("new", scene)
    assert first.disturbance == DisturbanceStatus(evicted=0, moved=3, allowed=0, proof="exact")
    (message,) = [one.message for one in first.conditions if one.type == "Scheduled"]
    assert "0 pods evicted, 3 moved for it" in message
    terminating_too = [
        node("n", cpu=6),
        *waiting("new", 1, cpu=6),
        pod("old", on="n", cpu=6, phase="Running", terminating=True),
    ]
    terminating_too[1]["status"] = encode(first)
    terminating_too[2]["status"] |= {"nominatedNodeName": "n"}
    assert status_of("new", terminating_too).disturbance == first.disturbance, "the victim is still terminating"
    assert status_of("new", terminating_too[:-1]).disturbance is None, "it is bound"


# verdicts and steps on large clusters ---------------------------------------------------------------------------------


def test_moves_that_were_not_all_tried_are_no_proof() -> None:
    """X2: above 64 units only moves of half of what the gang asks for are tried; the verdict says so."""
    new = waiting("new", 1, cpu=6, priorityClassName="low")
    assert len(planned(*CLASSES, *fragmented(70, 3), *new)["evictions"]) == 3
    fuller = [raw for i in range(70) for raw in running(f"w{i}", f"n{i}")]
    plan = planned(*CLASSES, *fragmented(70, 3), *fuller, *new)
    assert plan["evictions"] == []
    assert reasons(plan, "new") == ["Unknown", "SearchCutShort", "NoRoom"]


def test_totals_prove_that_no_moves_help() -> None:
    """What is free lies on a node that neither the gang nor a pod that could move may use: no search is needed."""
    scene = [*CLASSES, *fragmented(70, 1)]
    for raw in scene:
        if raw["kind"] == "Node":
            raw["status"]["allocatable"]["cpu"] = "1"
    closed_node = node("closed", cpu=64)
    closed_node["spec"] = {"unschedulable": True}
    made = muster.plan(
        muster.objects([*scene, closed_node, *waiting("new", 2, cpu=1, priorityClassName="low")]), now=NOW
    )
    assert made.verdict("team/new") == "Infeasible"
    assert sum(made.decided.searches) < 100


def test_moves_have_a_part_of_the_steps_of_a_cycle() -> None:
    """X7: on a large cluster moves for one gang after the other cost no more than their part."""
    fuller = [raw for i in range(70) for raw in running(f"w{i}", f"n{i}")]
    gangs = [raw for i in range(12) for raw in waiting(f"new{i:02}", 1, cpu=6, queue=f"q{i}")]
    queues = [queue(f"q{i}", cpu={"quota": -1}) for i in range(12)] + [queue("default", cpu={"quota": -1})]
    scene = [*CLASSES, *queues, *fragmented(70, 3), *fuller, *gangs]
    spent = [
        sum(muster.plan(muster.objects(scene), muster.Policy(cycle_steps=steps), NOW).decided.searches)
        for steps in (2_000, 2_000_000)
    ]
    assert spent[0] < spent[1] // 2

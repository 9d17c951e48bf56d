"""The instruments themselves: a virtual cluster does what its names say, and every promise that is broken is found."""

from datetime import timedelta
from typing import Any

import pytest

from muster.planning.cycle import plan as make_plan
from muster.reporting.plans import data
from tests.oracles.promises import Promises
from tests.support.factories import node, priority_class, queue
from tests.support.random_cluster import GPU, Cycle, RandomCluster
from tests.support.virtual import LeafTemplate, Raw, VirtualCluster, Workload, is_terminating, key_of

NOTHING: dict[str, list[Raw]] = {"bindings": [], "nominations": [], "evictions": []}


def gpu_node(name: str, gpus: int) -> Raw:
    return node(name, allocatable={GPU: str(gpus), "pods": "110"}, zone="z", rack="r")


def workload(name: str, pods: int, gpus: int = 1, is_eager: bool = True, **spec: Any) -> Workload:
    stated = {"minMember": pods, "queue": "q", "priorityClassName": "p60", **spec}
    group = {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "team"},
        "spec": stated,
    }
    return Workload(group, {"": LeafTemplate(pods, {GPU: str(gpus)})}, is_eager)


def cluster(*gpus: int, **gpu: Any) -> VirtualCluster:
    """Nodes `n0`, `n1`, … and one queue."""
    nodes = [gpu_node(f"n{i}", number) for i, number in enumerate(gpus)]
    return VirtualCluster([*nodes, priority_class("p60", 60), queue("q", gpu={"quota": 100, **gpu})])


def run(given: VirtualCluster, gang: str, at: str) -> None:
    """All pods of a gang run on a node."""
    for pod in tuple(given.pods(f"team/{gang}")):
        given.put(pod | {"spec": {**pod["spec"], "nodeName": at}, "status": {"phase": "Running"}})


def entry(pod: Raw, at: str, **more: str) -> Raw:
    meta = pod["metadata"]
    group = meta["annotations"]["pod-group-name"]
    return {"namespace": "team", "pod": meta["name"], "node": at, "podGroup": group, "subGroup": "", **more}


def cycle(given: VirtualCluster, number: int = 1, **parts: list[Raw]) -> Cycle:
    """A cycle that decided this, whatever an engine would."""
    gang_verdicts = [
        {"namespace": "team", "name": key.partition("/")[2], "verdict": "Waiting"} for key in given.raws["PodGroup"]
    ]
    plan = {**NOTHING, **parts, "podGroups": gang_verdicts}
    return Cycle(number, given.now + timedelta(seconds=number), given.manifests(), plan, frozenset(), frozenset())


def broken_promises(*cycles: Cycle) -> set[str]:
    """The promises that are broken in the last of these cycles, but for those of the plan by itself."""
    promises = Promises()
    findings = [promises.look(one) for one in cycles]
    return {name for name, _ in findings[-1]} - {"plan"}


# the cluster ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_an_incremental_snapshot_plans_as_one_taken_from_scratch(seed: int) -> None:
    """The bench plans on incremental snapshots, the properties on the definition: both are the same cluster."""
    world = RandomCluster(seed)
    for _ in range(3):
        world.cycle()
        incremental, taken = (data(make_plan(world.cluster.snapshot(way))) for way in (True, False))
        assert incremental == taken


def test_worlds_are_the_same_from_the_same_seed() -> None:
    first, again = ([RandomCluster(5).cycle().plan for _ in range(1)] for _ in range(2))
    assert first == again


@pytest.mark.parametrize("is_eager", [True, False], ids=["as a Job", "as a StatefulSet"])
def test_an_evicted_pod_holds_its_place_for_its_grace_and_comes_back_under_a_new_name(is_eager: bool) -> None:
    given = cluster(4)
    given.submit(workload("a", 1, is_eager=is_eager))
    run(given, "a", "n0")
    (old,) = given.pods("team/a")
    given.evict(key_of(old), grace_seconds=15)
    given.advance(10)
    assert [is_terminating(pod) for pod in given.pods("team/a")] == ([True, False] if is_eager else [True])
    assert given.advance(10) == [key_of(old)]
    (new,) = given.pods("team/a")
    assert new["metadata"]["name"] != old["metadata"]["name"]
    assert "nodeName" not in new["spec"]


def test_a_plan_is_carried_out_and_a_finished_gang_is_gone() -> None:
    given = cluster(4)
    given.submit(workload("a", 2))
    snapshot = given.snapshot()
    given.apply(snapshot, make_plan(snapshot))
    assert [pod["spec"]["nodeName"] for pod in given.pods("team/a")] == ["n0", "n0"]
    assert given.raws["PodGroup"]["team/a"]["status"]["satisfied"] is True
    given.finish("team/a")
    assert not given.raws["PodGroup"]
    assert not given.raws["Pod"]


# the promises ---------------------------------------------------------------------------------------------------------


def waiting(gpus: int = 4, **gpu: Any) -> tuple[VirtualCluster, Raw]:
    """A gang of one pod that waits."""
    given = cluster(gpus, **gpu)
    given.submit(workload("a", 1))
    (pod,) = given.pods("team/a")
    return given, pod


def test_a_promised_place_that_is_free_and_not_bound_is_found() -> None:
    given, pod = waiting()
    promise = [entry(pod, "n0", role="core")]
    assert "promised" in broken_promises(cycle(given, 1, nominations=promise), cycle(given, 2, nominations=promise))
    assert "promised" not in broken_promises(cycle(given, 1, nominations=promise), cycle(given, 2, bindings=promise))


def test_a_promise_that_is_dropped_while_its_place_is_taken_is_found() -> None:
    given, pod = waiting(gpus=1)
    given.submit(workload("b", 1))
    run(given, "b", "n0")
    promise = [entry(pod, "n0", role="core")]
    assert broken_promises(cycle(given, 1, nominations=promise), cycle(given, 2)) == {"kept"}
    assert broken_promises(cycle(given, 1, nominations=promise), cycle(given, 2, nominations=promise)) == set()


@pytest.mark.parametrize(("groups", "broken"), [("x", {"kept"}), ("xy", set())], ids=["a leftover", "its core"])
def test_a_promise_that_is_dropped_with_a_pod_that_it_does_without_is_found(groups: str, broken: set[str]) -> None:
    """P7: a nominee that loses a leftover keeps its promise; one that loses a part of its core has changed."""
    given = cluster(2)
    spec = {"subGroups": [{"name": leaf, "minMember": 1} for leaf in groups], "queue": "q", "priorityClassName": "p60"}
    leaves = {leaf: LeafTemplate(1, {GPU: "1"}) for leaf in "xy"}
    given.submit(Workload(workload("a", 1).group | {"spec": spec}, leaves))
    waits, runs = given.pods("team/a")
    given.put(runs | {"spec": {**runs["spec"], "nodeName": "n0"}, "status": {"phase": "Running"}})
    given.submit(workload("b", 1))
    run(given, "b", "n0")
    first = cycle(given, 1, nominations=[entry(waits, "n0", role="core", subGroup="x")])
    lost = entry(runs, "n0", reason="Preempt", subGroup="y", **{"for": "team/b"})
    assert broken_promises(first, cycle(given, 2, evictions=[lost])) == broken


def test_a_nominee_that_fits_elsewhere_for_two_cycles_is_found() -> None:
    given = cluster(1, 1)
    for name in ("a", "b"):
        given.submit(workload(name, 1))
    run(given, "b", "n0")
    (pod,) = given.pods("team/a")
    promise = [entry(pod, "n0", role="core")]
    assert broken_promises(cycle(given, 1, nominations=promise)) == set()
    assert broken_promises(cycle(given, 1, nominations=promise), cycle(given, 2, nominations=promise)) == {"idle"}


def moved() -> tuple[VirtualCluster, Cycle]:
    """`a` moves from `n0` to `n1`, its old pod is gone, and `b` waits."""
    given = cluster(2, 1)
    given.submit(workload("a", 1))
    run(given, "a", "n0")
    (old,) = given.pods("team/a")
    given.submit(workload("b", 1))
    more = {"reason": "Consolidate", "for": "team/b", "moveTo": "n1"}
    first = cycle(given, 1, evictions=[entry(old, "n0", **more)])
    given.remove("Pod", key_of(old))
    given.reconcile()
    return given, first


def test_the_place_of_a_moved_pod_that_another_gang_takes_is_found() -> None:
    given, first = moved()
    (new,), (other,) = given.pods("team/a"), given.pods("team/b")
    assert broken_promises(first, cycle(given, 2, bindings=[entry(other, "n1", role="core")])) == {"moved"}
    bound = [entry(new, "n1", role="core"), entry(other, "n0", role="core")]
    assert broken_promises(first, cycle(given, 2, bindings=bound)) == set()


def test_what_the_gang_itself_took_earlier_excuses_no_other_that_takes_a_place() -> None:
    """P7: a pod of another leaf sits beside the two places; that was so before the gang `b` took one of them."""
    groups = [{"name": "x", "minMember": 2}, {"name": "y", "minMember": 1}]
    leaves = {leaf: LeafTemplate(pods, {GPU: "1"}) for leaf, pods in (("x", 2), ("y", 1))}
    spec = {"minSubGroup": 1, "subGroups": groups, "queue": "q", "priorityClassName": "p60"}
    given = cluster(2, 3)
    given.submit(Workload(workload("a", 1).group | {"spec": spec}, leaves))
    *olds, own = given.pods("team/a")
    for pod in olds:
        given.put(pod | {"spec": {**pod["spec"], "nodeName": "n0"}, "status": {"phase": "Running"}})
    given.submit(workload("b", 1))
    (other,) = given.pods("team/b")
    more = {"reason": "Consolidate", "for": "team/b", "moveTo": "n1", "subGroup": "x"}
    first = cycle(given, 1, evictions=[entry(pod, "n0", **more) for pod in olds])
    for pod in olds:
        given.remove("Pod", key_of(pod))
    given.reconcile()
    second = cycle(given, 2, bindings=[entry(own, "n1", role="extra", subGroup="y")])
    given.put(own | {"spec": {**own["spec"], "nodeName": "n1"}, "status": {"phase": "Running"}})
    third = cycle(given, 3, bindings=[entry(other, "n1", role="core")])
    assert (broken_promises(first, second), broken_promises(first, second, third)) == (set(), {"moved"})


def test_a_moved_gang_that_does_not_run_again_is_found() -> None:
    given, first = moved()
    assert broken_promises(first, cycle(given, 2)) == {"moved"}


def test_terminating_pods_count_against_a_limit() -> None:
    given, pod = waiting(gpus=4, limit=1)
    bound = [entry(pod, "n0", role="core")]
    assert broken_promises(cycle(given, bindings=bound)) == set()
    given.submit(workload("b", 1))
    run(given, "b", "n0")
    (stopping,) = given.pods("team/b")
    given.evict(key_of(stopping), grace_seconds=30)
    assert broken_promises(cycle(given, bindings=bound)) == {"limit"}


def test_a_pod_of_another_scheduler_that_is_touched_is_found() -> None:
    given, pod = waiting()
    given.put(pod | {"spec": {**pod["spec"], "schedulerName": "default-scheduler"}})
    assert broken_promises(cycle(given, bindings=[entry(pod, "n0", role="core")])) == {"foreign"}


@pytest.mark.parametrize(("pods", "size", "wrong"), [(16, 16, set()), (17, 17, {"bounded"}), (2, 1, {"bounded"})])
def test_moves_beyond_what_is_allowed_for_a_gang_are_found(pods: int, size: int, wrong: set[str]) -> None:
    """P8: more than 16 pods, or more GPUs than the gang asks for."""
    given = cluster(40, 40)
    given.submit(workload("a", pods))
    run(given, "a", "n0")
    given.submit(workload("b", 1, gpus=size))
    (big,) = given.pods("team/b")
    more = {"reason": "Consolidate", "for": "team/b", "moveTo": "n1"}
    moves = [entry(pod, "n0", **more) for pod in given.pods("team/a")]
    assert broken_promises(cycle(given, nominations=[entry(big, "n0", role="core")], evictions=moves)) == wrong


def test_disturbance_for_two_gangs_beyond_the_share_is_found() -> None:
    given = cluster(8)
    for name in ("a", "b"):
        given.submit(workload(name, 1))
        run(given, name, "n0")
    for name in ("c", "d"):
        given.submit(workload(name, 1))
    (one,), (other,) = given.pods("team/a"), given.pods("team/b")
    both = [
        entry(one, "n0", reason="Preempt", **{"for": "team/c"}),
        entry(other, "n0", reason="Preempt", **{"for": "team/d"}),
    ]
    assert broken_promises(cycle(given, evictions=both)) == {"bounded"}
    assert broken_promises(cycle(given, evictions=both[:1])) == set()

"""The order in which cliques start."""

from typing import Any

from muster.api import names
from muster.api.resources import POD_CLIQUES, PODS
from muster.grove.cliques.clique_controller import related
from muster.grove.startup import START, is_waiting
from muster.grove.startup_order import dependents_of, first_to_start, has_started, may_start
from muster.workloads.types import Raw, Update
from tests.unit.grove.given_cliques import Cliques, a_clique, a_set

IN_ORDER = "CliqueStartupTypeInOrder"


def ordered(replicas: int = 2, minimum: int = 2, **template: Any) -> Cliques:
    """`b` starts after `a`."""
    cliques = [{"name": "a", "spec": {}}, {"name": "b", "spec": {}}]
    pcs = a_set(cliqueStartupType=IN_ORDER, **{"cliques": cliques, **template})
    parent, child = a_clique(replicas=replicas, minAvailable=minimum), a_clique("w-0-b", startsAfter=["w-0-a"])
    scene = Cliques(parent, child, pcs=pcs)
    scene.settle_cliques()
    return scene


def pods(scene: Cliques, clique: str) -> list[str]:
    return [pod["metadata"]["name"] for pod in scene.pods_of(clique)]


def startup(scene: Cliques, clique: str = "w-0-b") -> set[str]:
    return {pod["metadata"]["annotations"][names.STARTUP] for pod in scene.pods_of(clique)}


def test_pods_wait_until_as_many_pods_of_the_parent_are_ready_as_it_needs() -> None:
    scene = ordered(3, 2)
    scene.bind()
    first, second, _ = pods(scene, "w-0-a")
    scene.ready(first)
    scene.settle_cliques()
    assert startup(scene) == {"after w-0-a"}
    scene.ready(second)
    scene.settle_cliques()
    assert startup(scene) == {START}


def test_a_pod_that_is_not_bound_is_not_let_go() -> None:
    """The whole gang is bound first; what is ready now may not be when the pod is bound."""
    scene = ordered()
    scene.ready(*pods(scene, "w-0-a"))
    scene.settle_cliques()
    assert startup(scene) == {"after w-0-a"}
    scene.bind()
    scene.settle_cliques()
    assert startup(scene) == {START}


def test_a_pod_that_may_start_always_may() -> None:
    scene = ordered()
    scene.bind()
    scene.ready(*pods(scene, "w-0-a"))
    scene.settle_cliques()
    scene.unready(pods(scene, "w-0-a")[0])
    scene.settle_cliques()
    assert startup(scene) == {START}


def test_a_parent_that_is_scaled_to_zero_is_not_waited_for() -> None:
    scene = ordered()
    scene.bind()
    scene.change(POD_CLIQUES, "w-0-a", replicas=0)
    scene.settle_cliques()
    assert startup(scene) == {START}


def test_a_parent_that_is_being_deleted_is_waited_for() -> None:
    """Another one comes in its place; its ready pods are about to go."""
    scene = ordered()
    scene.ready(*pods(scene, "w-0-a"))
    scene.settle_cliques()
    assert may_start(scene.clique("w-0-b"), a_set(), scene)
    scene.objects[POD_CLIQUES, "w-0-a"]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert not may_start(scene.clique("w-0-b"), a_set(), scene)


def test_cliques_that_start_after_none_of_the_others_are_the_first_to_start() -> None:
    replica, other = member(0, "m", startsAfter=["w-0-a"]), member(1, "m", startsAfter=["w-0-a"])
    last = a_clique("w-0-z", startsAfter=["w-0-sg-*-m"])
    assert first_to_start([last, other, a_clique(), replica]) == [a_clique()]
    assert first_to_start([last, other, replica]) == [other, replica]
    assert first_to_start([last, a_clique("w-0-sg-x-m")]) == [last, a_clique("w-0-sg-x-m")]


def test_cliques_that_start_after_each_other_are_all_first() -> None:
    """A set is refused for it; one that is stored is still deleted."""
    circle = [a_clique(startsAfter=["w-0-b"]), a_clique("w-0-b", startsAfter=["w-0-a"])]
    assert first_to_start(circle) == circle


def test_a_parent_that_does_not_exist_yet_is_waited_for() -> None:
    scene = ordered()
    scene.bind()
    scene.objects.pop((POD_CLIQUES, "w-0-a"))
    assert not may_start(scene.clique("w-0-b"), a_set(), scene)


def test_a_parent_whose_scaling_group_has_no_such_replica_is_not_waited_for() -> None:
    """A group that is scaled to zero would else hold up all that starts after it."""
    groups = [{"name": "sg", "cliqueNames": ["m"], "minAvailable": 2}]
    child = a_clique("w-0-b", startsAfter=["w-0-sg-0-m", "w-0-sg-1-m"])
    member = a_clique(
        "w-0-sg-0-m", labels={names.SCALING_GROUP: "w-0-sg", names.SCALING_GROUP_REPLICA: "0"}, replicas=1
    )
    scene = Cliques(child, member, pcs=a_set(cliqueStartupType=IN_ORDER, podCliqueScalingGroups=groups))
    scene.group("w-0-sg", 1)
    scene.settle_cliques()
    scene.bind()
    scene.ready(*pods(scene, "w-0-sg-0-m"))
    scene.settle_cliques()
    assert startup(scene) == {START}
    scene.group("w-0-sg", 2)
    assert not may_start(scene.clique("w-0-b"), scene.get_set(), scene)


def test_a_parent_that_has_started_concerns_those_that_wait_for_it() -> None:
    """No clique polls."""
    scene = ordered()
    assert list(related(POD_CLIQUES, scene.clique("w-0-a"), scene)) == []
    scene.ready(*pods(scene, "w-0-a"))
    scene.settle_cliques()
    assert has_started(scene.clique("w-0-a"))
    assert list(related(POD_CLIQUES, scene.clique("w-0-a"), scene)) == [("default", "w-0-b")]
    assert list(related(POD_CLIQUES, scene.clique("w-0-b"), scene)) == []


def member(index: int, clique: str, **spec: Any) -> Raw:
    labels = {names.SCALING_GROUP: "w-0-sg", names.SCALING_GROUP_REPLICA: str(index)}
    return a_clique(f"w-0-sg-{index}-{clique}", labels=labels, replicas=0, **spec)


def test_in_a_scaled_replica_only_its_own_cliques_are_concerned() -> None:
    """A change costs as much as the base gang and one replica, however many there are."""
    cliques: list[Raw] = [{"name": name, "spec": {}} for name in ("m", "n")]
    groups = [{"name": "sg", "cliqueNames": ["m", "n"], "minAvailable": 2}]
    pcs = a_set(cliqueStartupType=IN_ORDER, cliques=cliques, podCliqueScalingGroups=groups)
    base = ["w-0-sg-0-m", "w-0-sg-1-m"]
    children = [member(index, "n", startsAfter=base if index < 2 else [f"w-0-sg-{index}-m"]) for index in range(4)]
    scene = Cliques(*(member(index, "m") for index in range(4)), *children, pcs=pcs)
    assert list(dependents_of(scene.clique("w-0-sg-1-m"), scene)) == [
        ("default", "w-0-sg-0-n"),
        ("default", "w-0-sg-1-n"),
    ]
    assert list(dependents_of(scene.clique("w-0-sg-3-m"), scene)) == [("default", "w-0-sg-3-n")]


def test_a_name_with_a_star_stands_for_the_replicas_in_the_base_gang() -> None:
    """All of them are waited for, but for those that a scale-in took away."""
    groups = [{"name": "sg", "cliqueNames": ["m"], "minAvailable": 300}]
    child = a_clique("w-0-b", startsAfter=["w-0-sg-*-m"])
    scene = Cliques(
        child,
        *(member(index, "m") for index in range(299)),
        pcs=a_set(cliqueStartupType=IN_ORDER, podCliqueScalingGroups=groups),
    )
    assert not may_start(scene.clique("w-0-b"), scene.get_set(), scene)
    scene.group("w-0-sg", 299)
    assert may_start(scene.clique("w-0-b"), scene.get_set(), scene)


def test_cliques_that_wait_are_concerned_by_the_last_of_their_parents() -> None:
    """Two groups of many replicas, one after the other: each is looked at once and not once a parent."""
    count = 100
    cliques: list[Raw] = [{"name": name, "spec": {}} for name in ("m", "n")]
    groups = [
        {"name": name, "cliqueNames": [clique], "minAvailable": count} for name, clique in (("s", "m"), ("t", "n"))
    ]
    scene = Cliques(pcs=a_set(cliqueStartupType=IN_ORDER, cliques=cliques, podCliqueScalingGroups=groups))
    for group, clique in (("w-0-s", "m"), ("w-0-t", "n")):
        for index in range(count):
            labels = {names.SCALING_GROUP: group, names.SCALING_GROUP_REPLICA: str(index)}
            scene.create(POD_CLIQUES, a_clique(f"{group}-{index}-{clique}", labels=labels, replicas=1))
    concerned = []
    for index in (*range(count - 1, 10, -1), *range(11)):
        name = f"w-0-s-{index}-m"
        scene.objects[POD_CLIQUES, name] = {**scene.clique(name), "status": {"readyReplicas": 1}}
        concerned.append(len(list(dependents_of(scene.clique(name), scene))))
    assert concerned == [0] * (count - 1) + [count]


def test_a_clique_whose_pods_are_ready_waits_for_nothing() -> None:
    scene = ordered()
    scene.ready()
    scene.settle_cliques()
    assert list(dependents_of(scene.clique("w-0-a"), scene)) == []


def test_without_an_order_no_change_of_a_clique_concerns_another() -> None:
    scene = Cliques(a_clique(replicas=0), a_clique("w-0-b", startsAfter=["w-0-a"]))
    assert list(dependents_of(scene.clique("w-0-a"), scene)) == []


def test_a_pod_without_parents_never_waits() -> None:
    scene = Cliques()
    scene.settle_cliques()
    assert not is_waiting(scene.pods_of()[0])


def test_the_patch_that_lets_a_pod_start_changes_nothing_else() -> None:
    scene = ordered()
    scene.ready(*pods(scene, "w-0-a"))
    scene.bind()
    scene.reconcile(POD_CLIQUES, "w-0-a")
    actions = scene.reconcile(POD_CLIQUES, "w-0-b").actions
    patch = {"metadata": {"annotations": {names.STARTUP: START}}}
    assert list(actions) == [Update(PODS, "default", name, patch) for name in pods(scene, "w-0-b")]

"""PodGangs of a PodCliqueSet: when gates are lifted (R1), and what each gang is to the scheduler (R2, R3)."""

import copy
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import muster
from muster.api import names
from muster.api.resources import POD_CLIQUES, POD_GANGS, PODS
from muster.grove.gangs.cliques import is_live, is_scheduled
from tests.support.factories import Raw, node
from tests.support.gang_scene import RACK, ZONE, GangScene, packed


@pytest.fixture
def scene() -> GangScene:
    scene = GangScene()
    scene.podcliqueset({"sg": (3, 1)})
    scene.topology()
    for name in ("n1", "n2"):
        scene.node(name, rack=f"r{name[1]}")
    return scene


def base(scene: GangScene, **spec: Any) -> None:
    """The gang `w-0`: two pods of `a`, and one of the first replica of the group."""
    scene.gang("w-0", cliques={"w-0-a": 2, "w-0-sg-0-b": 1}, **spec)


def start(scene: GangScene, on: str = "n1", first: int = 0) -> list[str]:
    """The pods of the base gang: made, freed, and then bound; returns their names."""
    made = [*scene.pods("w-0-a", first, first + 1), *scene.pods("w-0-sg-0-b", first)]
    scene.settle()
    scene.bind(made, on)
    return made


def scaled(scene: GangScene, number: int, **spec: Any) -> None:
    """The gang of a further replica of the group: two pods."""
    scene.gang(f"w-0-sg-{number}", base="w-0", cliques={f"w-0-sg-{number + 1}-b": 2}, **spec)


# R1 -----------------------------------------------------------------------------------------------------------------


def test_gates_of_a_base_gang_are_lifted_when_every_clique_references_its_minimum(scene: GangScene) -> None:
    """R1: one pod short, and no pod of any clique is free; then all are."""
    base(scene)
    scene.pods("w-0-a", 0, 1)
    scene.settle()
    assert scene.gated() == ["w-0-a-0", "w-0-a-1"]
    scene.pods("w-0-sg-0-b", 0)
    scene.settle()
    assert scene.gated() == []
    references = [entry["podReferences"] for entry in scene.named(POD_GANGS, "w-0")["spec"]["podgroups"]]
    assert references == [
        [{"namespace": "team", "name": "w-0-a-0"}, {"namespace": "team", "name": "w-0-a-1"}],
        [{"namespace": "team", "name": "w-0-sg-0-b-0"}],
    ]


def test_pods_above_the_minimum_are_freed_with_the_gang(scene: GangScene) -> None:
    """R1: the minimum counts, extras are lifted too."""
    base(scene)
    scene.change(POD_CLIQUES, "w-0-a", {"spec": {"replicas": 5}})
    scene.pods("w-0-sg-0-b", 0)
    scene.pods("w-0-a", 0, 1, 2)
    scene.settle()
    assert scene.gated() == []
    scene.pods("w-0-a", 3, 4)
    scene.settle()
    assert scene.gated() == []


@pytest.mark.parametrize("end", ["terminating", "failed"])
def test_a_pod_that_terminates_or_failed_counts_for_no_minimum(scene: GangScene, end: str) -> None:
    """R1: pods that exist, and not those that are about to go."""
    base(scene)
    scene.pods("w-0-a", 0, 1)
    if end == "terminating":
        scene.terminate("w-0-a-0")
    else:
        scene.change(PODS, "w-0-a-0", {"status": {"phase": "Failed"}})
    scene.pods("w-0-sg-0-b", 0)
    scene.settle()
    assert "w-0-a-1" in scene.gated()
    scene.pods("w-0-a", 2)
    scene.settle()
    assert not {"w-0-a-1", "w-0-a-2"} & set(scene.gated())


def test_gates_of_a_scaled_gang_wait_until_the_base_is_scheduled(scene: GangScene) -> None:
    """R1: not until the last pod of the base's minimum has a node; whether it is ready does not matter."""
    base(scene)
    scaled(scene, 0)
    first = [*scene.pods("w-0-a", 0, 1), *scene.pods("w-0-sg-0-b", 0)]
    scene.pods("w-0-sg-1-b", 0, 1)
    scene.settle()
    assert scene.gated() == ["w-0-sg-1-b-0", "w-0-sg-1-b-1"]
    scene.bind(first[:2])
    scene.settle()
    assert scene.gated() == ["w-0-sg-1-b-0", "w-0-sg-1-b-1"]
    scene.bind(first[2:])
    scene.settle()
    assert scene.gated() == []


def test_a_lifted_gate_never_returns(scene: GangScene) -> None:
    """R1: the base falls below its minimum, and the pods of scaled gangs stay free; new ones wait again."""
    base(scene)
    scaled(scene, 0)
    start(scene)
    scene.pods("w-0-sg-1-b", 0, 1)
    scene.settle()
    scene.terminate("w-0-a-0")
    scene.pods("w-0-sg-1-b", 2)
    scene.settle()
    assert scene.gated() == ["w-0-sg-1-b-2"]


def test_gates_of_others_are_kept(scene: GangScene) -> None:
    """R1: only the gate of the gang is lifted."""
    base(scene)
    other = {"name": "example.com/quota"}
    scene.pods("w-0-a", 0, 1)
    scene.pods("w-0-sg-0-b", 0, schedulingGates=[other, {"name": names.GANG_GATE}])
    scene.settle()
    assert scene.gated() == []
    assert scene.named(PODS, "w-0-sg-0-b-0")["spec"]["schedulingGates"] == [other]


def test_pods_of_a_deleted_clique_lift_no_gate(scene: GangScene) -> None:
    """R1: they run until they are collected; neither their own gang nor a scaled one counts them."""
    base(scene)
    scaled(scene, 0)
    old = start(scene)
    scene.remove(POD_CLIQUES, "w-0-sg-0-b")
    scene.clique("w-0-sg-0-b", "w-0", 1)
    new = [*scene.pods("w-0-sg-1-b", 0, 1), *scene.pods("w-0-sg-0-b", 1)]
    scene.settle()
    assert scene.gated() == sorted(new)
    scene.terminate(old[2])
    scene.settle()
    assert scene.gated() == sorted(new[:2])
    scene.bind(new[2:])
    scene.settle()
    assert scene.gated() == []


@given(data=st.data())
def test_no_pod_is_freed_early_whatever_happens(data: st.DataObject) -> None:
    """R1, at every write: a pod loses its gate only while its gang has its pods, and a scaled one a scheduled base."""
    scene = GangScene()
    scene.podcliqueset({"sg": (3, 1)})
    base(scene)
    scaled(scene, 0)
    scaled(scene, 1)
    cliques = ["w-0-a", "w-0-sg-0-b", "w-0-sg-1-b", "w-0-sg-2-b"]
    free: set[str] = set()

    def check() -> None:
        now_free = {pod["metadata"]["name"] for pod in scene.all_of(PODS)} - set(scene.gated())
        for name in now_free - free:
            assert _may_be_free(scene, scene.named(PODS, name)["metadata"]["labels"])
        free.update(now_free)

    scene.observer.append(check)
    numbers = iter(range(1000))
    for _ in range(data.draw(st.integers(1, 25))):
        living = [pod["metadata"]["name"] for pod in scene.all_of(PODS)]
        match data.draw(st.sampled_from(["create", "create", "create", "bind", "bind", "end"])):
            case "create":
                scene.pods(data.draw(st.sampled_from(cliques)), next(numbers))
            case "bind" if free & set(living):
                scene.bind([data.draw(st.sampled_from(sorted(free & set(living))))])
            case "end" if living:
                scene.remove(PODS, data.draw(st.sampled_from(living)))
            case _:
                continue
        if data.draw(st.booleans()):
            scene.settle()
    scene.settle()
    assert scene.gated() == sorted(
        pod["metadata"]["name"]
        for pod in scene.all_of(PODS)
        if pod["metadata"]["name"] not in free and not _may_be_free(scene, pod["metadata"]["labels"])
    )


def _may_be_free(scene: GangScene, labels: dict[str, str]) -> bool:
    """The rule, by counting everything."""
    gangs = {names.POD_GANG: is_live, names.BASE_POD_GANG: is_scheduled}
    for label, counts in gangs.items():
        if label not in labels:
            continue
        pods = Counter(
            pod["metadata"]["labels"][names.POD_CLIQUE] for pod in scene.all_of(PODS) if is_live(pod) and counts(pod)
        )
        entries = scene.named(POD_GANGS, labels[label])["spec"]["podgroups"]
        if any(pods[entry["name"]] < entry["minReplicas"] for entry in entries):
            return False
    return True


# R2 -----------------------------------------------------------------------------------------------------------------


def placed(scene: GangScene, *nodes: Raw) -> set[str]:
    """Pods that the scheduler binds now."""
    pods = [_with_request(pod) for pod in scene.all_of(PODS)]
    groups = [raw for name in ("w-0", "w-0-sg-0", "w-0-sg-1") if (raw := scene.pod_group(name))]
    plan = muster.plan(muster.objects([*nodes, *pods, *groups, _topology()]))
    return {binding.pod for binding in plan.bindings}


def _with_request(pod: Raw) -> Raw:
    whole = copy.deepcopy(pod)
    whole["spec"]["containers"] = [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]
    return whole


def _topology() -> Raw:
    levels = [{"nodeLabel": ZONE}, {"nodeLabel": RACK}]
    return {"apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology"} | {
        "metadata": {"name": "topo"},
        "spec": {"levels": levels},
    }


def racked(name: str, rack: str, cpu: int) -> Raw:
    raw = node(name, cpu=cpu)
    raw["metadata"]["labels"] = {ZONE: "z1", RACK: rack}
    return raw


def test_scaled_gangs_are_scheduled_independently_of_each_other(scene: GangScene) -> None:
    """R2: there is space for one of two, and it starts; neither lacks pods of the other."""
    base(scene)
    scaled(scene, 0)
    scaled(scene, 1)
    start(scene)
    scene.pods("w-0-sg-1-b", 0, 1)
    scene.settle()
    assert placed(scene, racked("n1", "r1", cpu=5)) == {"w-0-sg-1-b-0", "w-0-sg-1-b-1"}
    scene.pods("w-0-sg-2-b", 0, 1)
    scene.settle()
    assert len(placed(scene, racked("n1", "r1", cpu=5))) == 2
    assert len(placed(scene, racked("n1", "r1", cpu=7))) == 4


# R3 -----------------------------------------------------------------------------------------------------------------


def test_a_gang_becomes_one_podgroup_whose_leaves_are_its_cliques(scene: GangScene) -> None:
    """R3: minimums are those of the cliques, and all cliques are needed."""
    base(scene)
    scene.pods("w-0-a", 0, 1)
    scene.pods("w-0-sg-0-b", 0)
    scene.settle()
    group = scene.pod_group("w-0")
    assert group is not None
    assert group["spec"] == {
        "subGroups": [{"name": "w-0-a", "minMember": 2}, {"name": "w-0-sg-0-b", "minMember": 1}],
    }
    assert placed(scene, racked("n1", "r1", cpu=2)) == set()
    assert len(placed(scene, racked("n1", "r1", cpu=3))) == 3


def test_a_constrained_replica_of_a_scaling_group_is_a_branch(scene: GangScene) -> None:
    """R3: its cliques sit together in one domain of the replica's level."""
    config = {"name": "w-0-sg-0", "podGroupNames": ["w-0-sg-0-b", "w-0-sg-0-c"], **packed(required=RACK)}
    cliques = {"w-0-a": 1, "w-0-sg-0-b": 1, "w-0-sg-0-c": 1}
    scene.gang("w-0", cliques=cliques, topologyConstraintGroupConfigs=[config])
    for clique in cliques:
        scene.pods(clique, 0)
    scene.settle()
    group = scene.pod_group("w-0")
    assert group is not None
    constraint = {"topology": "topo", "requiredTopologyLevel": RACK}
    assert group["spec"]["subGroups"] == [
        {"name": "w-0-sg-0", "minSubGroup": 2, "topologyConstraint": constraint},
        {"name": "w-0-a", "minMember": 1},
        {"name": "w-0-sg-0-b", "parent": "w-0-sg-0", "minMember": 1},
        {"name": "w-0-sg-0-c", "parent": "w-0-sg-0", "minMember": 1},
    ]
    assert placed(scene, racked("n1", "r1", cpu=1), racked("n2", "r2", cpu=1), racked("n3", "r3", cpu=1)) == set()
    assert len(placed(scene, racked("n1", "r1", cpu=1), racked("n2", "r2", cpu=2))) == 3


def test_a_required_level_of_the_set_holds_across_its_gangs(scene: GangScene) -> None:
    """R3: the base is in rack r2, and the scaled gang waits for space there although another rack is free."""
    base(scene, **packed(required=RACK))
    scaled(scene, 0)
    start(scene, on="n2")
    scene.pods("w-0-sg-1-b", 0, 1)
    scene.settle()
    assert scene.gated() == []
    assert scene.named(PODS, "w-0-sg-1-b-0")["spec"]["nodeSelector"] == {ZONE: "z1", RACK: "r2"}
    assert placed(scene, racked("n1", "r1", cpu=9), racked("n2", "r2", cpu=4)) == set()
    assert len(placed(scene, racked("n1", "r1", cpu=9), racked("n2", "r2", cpu=5))) == 2


def test_the_pin_comes_with_the_patch_that_lifts_the_gate(scene: GangScene) -> None:
    """R3: there is no moment at which a pod is free and not pinned."""
    base(scene, **packed(required=RACK))
    scaled(scene, 0)
    scene.pods("w-0-sg-1-b", 0, 1)

    def check() -> None:
        for pod in scene.all_of(PODS):
            name = pod["metadata"]["name"]
            assert name in scene.gated() or not name.startswith("w-0-sg-1") or "nodeSelector" in pod["spec"]

    scene.observer.append(check)
    start(scene, on="n2")
    scene.settle()
    assert scene.gated() == []


def test_a_scaled_gang_moves_after_its_base_gang(scene: GangScene) -> None:
    """R3: the base is scheduled into another domain later; pods that are pinned to the old one are replaced."""
    base(scene, **packed(required=RACK))
    scaled(scene, 0)
    old = start(scene)
    scene.pods("w-0-sg-1-b", 0, 1)
    scene.settle()
    scene.bind(["w-0-sg-1-b-0", "w-0-sg-1-b-1"])
    scene.settle()
    for pod in old:
        scene.remove(PODS, pod)
    scene.settle()
    assert "w-0-sg-1-b-0" in {pod["metadata"]["name"] for pod in scene.all_of(PODS)}
    start(scene, on="n2", first=2)
    scene.settle()
    assert not [pod for pod in scene.all_of(PODS) if pod["metadata"]["name"].startswith("w-0-sg-1")]
    scene.pods("w-0-sg-1-b", 2, 3)
    scene.settle()
    assert scene.named(PODS, "w-0-sg-1-b-2")["spec"]["nodeSelector"][RACK] == "r2"


def test_without_a_required_level_scaled_gangs_are_free_to_be_anywhere(scene: GangScene) -> None:
    """R3 is about required levels: a preferred one pins nothing."""
    base(scene, **packed(preferred=RACK))
    scaled(scene, 0)
    start(scene, on="n2")
    scene.pods("w-0-sg-1-b", 0, 1)
    scene.settle()
    assert scene.gated() == []
    assert "nodeSelector" not in scene.named(PODS, "w-0-sg-1-b-0")["spec"]

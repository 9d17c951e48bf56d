"""An operator that stops after any write, or before any status, ends in the same place as one that never stops."""

from collections.abc import Callable

import pytest

from muster.api.resources import POD_CLIQUE_SCALING_GROUPS, POD_CLIQUE_SETS, POD_CLIQUES, POD_GANGS, POD_GROUPS, PODS
from muster.workloads.types import Action
from tests.support.grove import GroveCluster, clique, group, pod_clique_set

MOST_WRITES = 400


class Stopped(Exception):
    """The operator stops."""


def running() -> GroveCluster:
    grove = GroveCluster()
    cliques = clique("a", 2, 1), clique("b"), clique("c")
    grove.apply(pod_clique_set(*cliques, groups=[group("sg", "b", "c", replicas=2)], replicas=2))
    grove.run_pods()
    return grove


def create(grove: GroveCluster) -> None:
    cliques = clique("a", 2), clique("b")
    grove.apply(pod_clique_set(*cliques, groups=[group("sg", "b", replicas=2)], name="v"))


def scale(grove: GroveCluster) -> None:
    grove.scale(POD_CLIQUE_SETS, "w", 1)
    grove.scale(POD_CLIQUE_SCALING_GROUPS, "w-0-sg", 3)


def update(grove: GroveCluster) -> None:
    grove.update_image("image:2")


def terminate(grove: GroveCluster) -> None:
    for pod in grove.pods("w-0-a"):
        grove.delete(PODS, pod)
    grove.advance(4 * 3600)


def outcome(grove: GroveCluster) -> dict[str, object]:
    """What is there in the end, but for the names of pods."""
    pods = {
        raw["metadata"]["name"]: sorted(
            (pod["spec"]["hostname"], pod["spec"]["containers"][0]["image"]) for pod in grove.of(raw, PODS)
        )
        for raw in grove.every(POD_CLIQUES)
    }
    kinds = (POD_CLIQUE_SETS, POD_CLIQUE_SCALING_GROUPS, POD_GANGS, POD_GROUPS)
    return {"pods": pods, **{kind.kind: grove.names(kind) for kind in kinds}}


def run_to_the_end(grove: GroveCluster) -> None:
    for _ in range(60):
        before = grove.pods()
        grove.run_pods()
        grove.advance(1)
        if grove.pods() == before and not grove.gated():
            return
    raise AssertionError("the sets do not settle")


def stops_after(grove: GroveCluster, writes: int, scenario: Callable[[GroveCluster], None]) -> bool:
    """Whether the operator stopped: it lost what it had not written, and looked at everything again."""
    left = [writes]

    def count(_action: Action) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise Stopped

    grove.observers.append(count)
    try:
        scenario(grove)
        run_to_the_end(grove)
    except Stopped:
        grove.restart()
        grove.settle()
        if scenario is not create:
            scenario(grove)
        return True
    finally:
        grove.observers.clear()
    return False


@pytest.mark.parametrize("scenario", [create, scale, update, terminate])
def test_a_stop_after_any_write_changes_nothing_in_the_end(scenario: Callable[[GroveCluster], None]) -> None:
    begin = GroveCluster if scenario is create else running
    straight = begin()
    scenario(straight)
    run_to_the_end(straight)
    for writes in range(1, MOST_WRITES):
        grove = begin()
        has_stopped = stops_after(grove, writes, scenario)
        run_to_the_end(grove)
        assert outcome(grove) == outcome(straight), f"stopped after {writes} writes"
        if not has_stopped:
            return
    raise AssertionError("the scenario writes without end")

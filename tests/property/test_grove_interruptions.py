"""A replica that is being recreated is recreated as a whole and once, wherever the operator stops meanwhile."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.api.resources import POD_CLIQUE_SETS, POD_CLIQUES, PODS
from muster.grove.table import GROVE
from muster.workloads.types import Action, Remove
from tests.support.grove import GroveCluster, clique, created_names, group, pod_clique_set

DELAY_SECONDS = 4 * 3600.0
MOST_WRITES = 100
SET_REPLICA = ["w-0-a", "w-0-b", *(f"w-0-sg-{index}-{name}" for index in range(3) for name in "cd")]


class OperatorStopped(Exception):
    """The operator stops in the middle of its writes."""


def running() -> GroveCluster:
    """Two replicas of two standalone cliques and of a group of three replicas, of which it needs two."""
    grove = GroveCluster()
    cliques = clique("a", 2, 1), clique("b"), clique("c"), clique("d")
    groups = [group("sg", "c", "d", replicas=3, minimum=2)]
    grove.apply(pod_clique_set(*cliques, groups=groups, replicas=2))
    grove.run_pods()
    grove.advance(60)
    return grove


def breach(grove: GroveCluster, cliques: Sequence[str]) -> None:
    """Pods of these cliques are gone, and no node is there for others, until just before the delay is over."""
    for name in cliques:
        for pod in grove.pods(f"{name}-"):
            grove.delete(PODS, pod)
    grove.advance(DELAY_SECONDS - 1)


def uids(grove: GroveCluster) -> dict[str, str]:
    return {raw["metadata"]["name"]: raw["metadata"]["uid"] for raw in grove.every(POD_CLIQUES)}


def stops_after(grove: GroveCluster, writes: int, happening: Callable[[], None]) -> bool:
    """Whether the operator had so many writes to make of what happens, and stopped; another one goes on."""
    left = [writes]

    def stop(_action: Action) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise OperatorStopped

    grove.observers.append(stop)
    try:
        happening()
    except OperatorStopped:
        return True
    finally:
        grove.observers.clear()
        grove.now += timedelta(seconds=1)
        grove.restart()
        grove.settle()
    return False


@pytest.mark.parametrize(
    ("breached", "replica"),
    [
        (["w-0-a"], SET_REPLICA),
        (["w-0-b"], SET_REPLICA),
        (["w-0-a", "w-0-b"], SET_REPLICA),
        (["w-0-sg-0-c", "w-0-sg-2-d"], SET_REPLICA),
        (["w-0-sg-1-c", "w-0-sg-1-d", "w-0-sg-2-c"], SET_REPLICA),
        (["w-0-b", "w-0-sg-0-c", "w-0-sg-1-c", "w-0-sg-2-c"], SET_REPLICA),
        (["w-0-sg-2-c"], ["w-0-sg-2-c", "w-0-sg-2-d"]),
        (["w-0-sg-0-d"], ["w-0-sg-0-c", "w-0-sg-0-d"]),
    ],
)
def test_a_termination_that_stops_after_any_write_goes_on_and_recreates_each_clique_once(
    breached: list[str], replica: list[str]
) -> None:
    """What was recreated first must not hide why: the pods that are left would wait for those that are new."""
    for writes in range(1, MOST_WRITES):
        grove = running()
        before = uids(grove)
        breach(grove, breached)
        grove.changes()
        has_stopped = stops_after(grove, writes, partial(grove.advance, 1))
        recreated = sorted(created_names(grove.changes(), POD_CLIQUES))
        assert recreated == sorted(replica), f"stopped after {writes} writes"
        assert {name for name, uid in uids(grove).items() if before[name] != uid} == set(replica)
        grove.run_pods()
        grove.advance(DELAY_SECONDS)
        assert grove.gated() == []
        assert created_names(grove.changes(), POD_CLIQUES) == []
        if not has_stopped:
            return
    raise AssertionError("the termination writes without end")


@settings(max_examples=60, deadline=None)
@given(st.sets(st.sampled_from(SET_REPLICA), min_size=1), st.lists(st.sets(st.integers(0, 7)), max_size=4))
def test_a_termination_of_which_any_deletions_fail_goes_on_and_recreates_each_clique_once(
    breached: set[str], carried_out: list[set[int]]
) -> None:
    """Deletions are sent together: an API server that stops may have carried out any of them."""
    grove = running()
    before = uids(grove)
    breach(grove, sorted(breached | {"w-0-b"}))
    grove.changes()
    grove.now += timedelta(seconds=1)
    for numbers in carried_out:
        decided = GROVE[POD_CLIQUE_SETS].reconcile(grove.named(POD_CLIQUE_SETS), grove, grove.now).actions
        removals = [action for action in decided if isinstance(action, Remove)]
        for action in (action for number, action in enumerate(removals) if number in numbers):
            grove._perform(action)
    grove.now += timedelta(seconds=1)
    grove.restart()
    grove.settle()
    assert sorted(created_names(grove.changes(), POD_CLIQUES)) == sorted(SET_REPLICA)
    assert {name for name, uid in uids(grove).items() if before[name] != uid} == set(SET_REPLICA)


def update(grove: GroveCluster, clique_name: str) -> None:
    """A clique, or all of them, get another image, and pods are bound and ready as they come."""
    if clique_name != "none":
        grove.update_image("image:2", clique_name)
    for _ in range(20):
        grove.run_pods()
        grove.advance(1)


@pytest.mark.parametrize("clique_name", ["c", "d", ""])
def test_an_update_that_stops_after_any_write_recreates_whole_replicas_of_groups_once(clique_name: str) -> None:
    """A clique that keeps its template is recreated with those of its replica that get another one."""
    for writes in range(1, MOST_WRITES):
        grove = running()
        members = [name for name in uids(grove) if "-sg-" in name]
        grove.changes()
        has_stopped = stops_after(grove, writes, partial(update, grove, clique_name))
        update(grove, "none")
        recreated = sorted(created_names(grove.changes(), POD_CLIQUES))
        assert recreated == sorted(members), f"stopped after {writes} writes"
        if not has_stopped:
            return
    raise AssertionError("the update writes without end")

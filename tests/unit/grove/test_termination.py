"""Gang termination: of a replica of a group, and of a replica of a set."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.decoding import decode
from muster.api.grove.pod_clique_set import PodCliqueSet
from muster.api.resources import POD_CLIQUE_SCALING_GROUPS, POD_CLIQUE_SETS, POD_CLIQUES, PODS
from muster.grove.termination import termination_delay
from muster.workloads.conditions import timestamp
from muster.workloads.types import Raw
from tests.support.grove import NAMESPACE, STRUCTURE, GroveCluster, clique, group, pod_clique_set, removed_names
from tests.support.late_grove import LateCluster

HOURS = 3600.0
GROUP = "w-0-sg"


def the_set(replicas: int = 3, minimum: int = 1, **fields: Any) -> Raw:
    """A standalone clique and a group."""
    cliques = clique("a", 2, 1), clique("b", 2, 1)
    sg = group("sg", "b", replicas=replicas, minimum=minimum)
    return pod_clique_set(*cliques, groups=[sg], **fields)


def running(raw: Raw) -> GroveCluster:
    grove = GroveCluster(STRUCTURE)
    grove.apply(raw)
    grove.report_all()
    grove.advance(60)
    grove.changes()
    return grove


def terminated(grove: GroveCluster) -> list[str]:
    return sorted(removed_names(grove.changes(), POD_CLIQUES))


def recycling(grove: GroveCluster) -> str:
    return grove.condition(POD_CLIQUE_SCALING_GROUPS, GROUP, "GangTerminationInProgress")[0]


# a replica of a group -----------------------------------------------------------------------------------------------


def test_a_replica_of_a_group_that_is_breached_for_longer_than_the_delay_is_recreated_if_the_others_are_enough() -> (
    None
):
    grove = running(the_set())
    grove.report(f"{GROUP}-2-b", scheduled=0)
    grove.advance(4 * HOURS - 1)
    assert terminated(grove) == []
    grove.advance(1)
    assert terminated(grove) == [f"{GROUP}-2-b"]
    assert grove.has(POD_CLIQUES, f"{GROUP}-2-b")


def test_a_replica_that_recovers_in_time_is_left_alone() -> None:
    grove = running(the_set())
    grove.report(f"{GROUP}-2-b", scheduled=0)
    grove.advance(3 * HOURS)
    grove.report(f"{GROUP}-2-b", scheduled=2)
    grove.advance(2 * HOURS)
    assert terminated(grove) == []


def test_all_cliques_of_the_replica_go_and_none_of_another() -> None:
    cliques = clique("b"), clique("c")
    grove = running(pod_clique_set(*cliques, groups=[group("sg", "b", "c", replicas=2)]))
    grove.report(f"{GROUP}-1-c", scheduled=1, ready=0)
    grove.advance(4 * HOURS)
    assert terminated(grove) == [f"{GROUP}-1-b", f"{GROUP}-1-c"]


def test_a_recreated_replica_is_not_recreated_again_before_it_was_healthy() -> None:
    grove = running(the_set())
    grove.report(f"{GROUP}-2-b", scheduled=0)
    grove.advance(4 * HOURS)
    terminated(grove)
    grove.report(f"{GROUP}-2-b", scheduled=0)
    grove.advance(100 * HOURS)
    assert terminated(grove) == []


# a replica of a set -------------------------------------------------------------------------------------------------


def test_a_standalone_clique_takes_the_whole_replica_of_the_set_along() -> None:
    grove = running(pod_clique_set(clique("a"), clique("b"), replicas=2))
    grove.report("w-1-a", scheduled=0)
    grove.advance(4 * HOURS)
    assert terminated(grove) == ["w-1-a", "w-1-b"]


def test_a_group_below_its_minimum_takes_the_whole_replica_of_the_set_along_cliques_of_groups_included() -> None:
    grove = running(the_set(3, minimum=2))
    grove.report(f"{GROUP}-1-b", f"{GROUP}-2-b", scheduled=0)
    grove.advance(4 * HOURS)
    assert terminated(grove) == ["w-0-a", f"{GROUP}-0-b", f"{GROUP}-1-b", f"{GROUP}-2-b"]


def test_the_set_terminates_once_for_each_breach_and_the_group_says_so_meanwhile() -> None:
    grove = running(the_set(1))
    grove.report(f"{GROUP}-0-b", scheduled=0)
    assert recycling(grove) == ""
    grove.advance(4 * HOURS)
    assert terminated(grove) == ["w-0-a", f"{GROUP}-0-b"]
    assert recycling(grove) == "True"
    grove.report("w-0-a", scheduled=2)
    grove.advance(100 * HOURS)
    assert terminated(grove) == []
    grove.report_all()
    assert recycling(grove) == "False"
    grove.report(f"{GROUP}-0-b", scheduled=0)
    grove.advance(4 * HOURS)
    assert terminated(grove) == ["w-0-a", f"{GROUP}-0-b"]


def terminated_now(grove: GroveCluster) -> list[str]:
    """What the set terminates when it is reconciled, without anything being done."""
    result = STRUCTURE[POD_CLIQUE_SETS].reconcile(grove.named(POD_CLIQUE_SETS), grove, grove.now)
    return sorted(removed_names(result.actions, POD_CLIQUES))


def test_a_replica_is_not_terminated_again_while_the_status_of_its_group_is_older_than_the_termination() -> None:
    """The statuses of groups are written late, and may say for long that nothing was done."""
    grove = running(the_set(1))
    grove.report(f"{GROUP}-0-b", scheduled=0)
    before = grove.status(POD_CLIQUE_SCALING_GROUPS, GROUP)
    grove.advance(4 * HOURS)
    assert terminated(grove) == ["w-0-a", f"{GROUP}-0-b"]
    key = POD_CLIQUE_SCALING_GROUPS, NAMESPACE, GROUP
    grove.objects[key] = {**grove.objects[key], "status": before}
    grove.advance(HOURS)
    assert terminated_now(grove) == []


@given(st.lists(st.integers(0, 40), min_size=1, max_size=6), st.integers(1, 3))
def test_a_replica_is_terminated_once_for_each_breach_however_late_statuses_are(lags: list[int], minimum: int) -> None:
    grove = LateCluster(lags, controllers=STRUCTURE)
    grove.apply(the_set(minimum, minimum))
    for _ in range(2):
        grove.report_all()
        grove.advance(60)
        grove.changes()
        grove.report(f"{GROUP}-0-b", scheduled=0)
        grove.advance(4 * HOURS)
        assert terminated(grove) == ["w-0-a", *(f"{GROUP}-{i}-b" for i in range(minimum))]
        grove.advance(100 * HOURS)
        assert terminated(grove) == []


def test_a_group_that_was_recreated_with_its_replica_and_waits_terminates_nothing() -> None:
    """It was healthy, and falls below its minimum only now: its cliques are new, and have not been healthy yet."""
    grove = running(the_set(2, minimum=2))
    grove.report("w-0-a", scheduled=0)
    grove.advance(4 * HOURS)
    everything = ["w-0-a", f"{GROUP}-0-b", f"{GROUP}-1-b"]
    assert terminated(grove) == everything
    grove.advance(1)
    grove.report("w-0-a", f"{GROUP}-0-b", f"{GROUP}-1-b", scheduled=0)
    grove.advance(100 * HOURS)
    assert terminated(grove) == []
    grove.report("w-0-a", f"{GROUP}-0-b", scheduled=2)
    grove.advance(100 * HOURS)
    assert terminated(grove) == []
    grove.report_all()
    grove.report(f"{GROUP}-1-b", scheduled=0)
    grove.advance(4 * HOURS)
    assert terminated(grove) == everything


@pytest.mark.parametrize("reason", ["w-0-a", f"{GROUP}-0-b"])
def test_a_clique_that_regresses_before_its_recreated_group_is_back_has_the_whole_delay_and_no_more(
    reason: str,
) -> None:
    """The group is below its minimum for as long as its replicas were not healthy at the same time."""
    grove = running(the_set(2, minimum=2))
    grove.report(reason, scheduled=0)
    grove.advance(4 * HOURS)
    everything = ["w-0-a", f"{GROUP}-0-b", f"{GROUP}-1-b"]
    assert terminated(grove) == everything
    grove.advance(1)
    grove.report(f"{GROUP}-1-b", scheduled=0)
    grove.report("w-0-a", f"{GROUP}-0-b", scheduled=2)
    grove.advance(10 * HOURS)
    grove.report(f"{GROUP}-0-b", scheduled=0)
    grove.report(f"{GROUP}-1-b", scheduled=2)
    grove.advance(4 * HOURS - 1)
    assert terminated(grove) == []
    grove.advance(1)
    assert terminated(grove) == everything


@pytest.mark.parametrize(("name", "minimum"), [("w-0-a", 1), (f"{GROUP}-0-b", 2), (f"{GROUP}-1-b", 1)])
def test_nothing_is_terminated_whose_pods_are_back_though_its_status_does_not_say_so_yet(
    name: str, minimum: int
) -> None:
    """Statuses are written behind actions: one may still be on its way when the delay is over."""
    grove = running(the_set(2, minimum=minimum))
    grove.report(name, scheduled=0)
    grove.advance(4 * HOURS - 1)
    grove.now += timedelta(seconds=1)
    assert decided(grove) != []
    for i in range(2):
        grove._put(PODS, running_pod(grove, grove.named(POD_CLIQUES, name), f"{name}-{i}"))
    assert decided(grove) == []
    assert 0 < seconds_to_next_look(grove) <= 60  # they may be gone again before any status has changed
    for i in range(2):
        grove._put(PODS, {**grove.objects[PODS, NAMESPACE, f"{name}-{i}"], "status": {"phase": "Failed"}})
    assert decided(grove) != []


def seconds_to_next_look(grove: GroveCluster) -> float:
    """Of the one that terminates: set or group."""
    controllers = (POD_CLIQUE_SETS, "w"), (POD_CLIQUE_SCALING_GROUPS, GROUP)
    results = [STRUCTURE[kind].reconcile(grove.named(kind, name), grove, grove.now) for kind, name in controllers]
    return min((each.again_after_seconds for each in results if each.again_after_seconds is not None), default=0.0)


def decided(grove: GroveCluster) -> list[str]:
    """What set and group terminate when they are reconciled, without anything being done."""
    group_raw = grove.named(POD_CLIQUE_SCALING_GROUPS, GROUP)
    result = STRUCTURE[POD_CLIQUE_SCALING_GROUPS].reconcile(group_raw, grove, grove.now)
    return terminated_now(grove) + removed_names(result.actions, POD_CLIQUES)


def running_pod(grove: GroveCluster, owner: Raw, name: str) -> Raw:
    kind = {"apiVersion": POD_CLIQUES.api_version, "kind": POD_CLIQUES.kind, "controller": True}
    reference = {**kind, "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
    metadata = {"name": name, "namespace": NAMESPACE, "uid": name, "creationTimestamp": timestamp(grove.now)}
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    return {
        "metadata": {**metadata, "ownerReferences": [reference]},
        "spec": {"nodeName": "n"},
        "status": status,
    }


def test_a_termination_that_was_interrupted_goes_on_with_what_is_left_and_spares_what_is_new() -> None:
    grove = running(the_set(1))
    grove.report(f"{GROUP}-0-b", scheduled=0)
    grove.advance(4 * HOURS - 1)
    grove.delete(POD_CLIQUES, "w-0-a")
    grove.changes()
    assert grove.has(POD_CLIQUES, "w-0-a")
    grove.advance(1)
    assert terminated(grove) == [f"{GROUP}-0-b"]


@pytest.mark.parametrize("name", ["w-0-a", f"{GROUP}-0-b"])
def test_a_termination_ends_where_clocks_differ_by_more_than_the_delay(name: str) -> None:
    """The API server says when cliques were made, the operator when they were breached: new ones may look older."""
    grove = running(the_set(2, minimum=2, terminationDelay="30s"))
    grove.report(name, scheduled=0)
    grove.advance(30)
    recreated = terminated(grove)
    assert set(recreated) == {"w-0-a", f"{GROUP}-0-b", f"{GROUP}-1-b"}
    assert recreated.count(name) == 1
    grove.report_all()
    grove.advance(100 * HOURS)
    assert terminated(grove) == []


def test_a_clique_is_terminated_though_it_looks_younger_than_its_breach() -> None:
    grove = running(the_set(2, minimum=2))
    grove.patch(POD_CLIQUES, "w-0-a", {"metadata": {"creationTimestamp": timestamp(grove.now + timedelta(seconds=30))}})
    grove.report("w-0-a", scheduled=0)
    grove.advance(4 * HOURS)
    assert terminated(grove) == ["w-0-a", f"{GROUP}-0-b", f"{GROUP}-1-b"]


def test_what_was_never_healthy_is_never_terminated() -> None:
    grove = GroveCluster(STRUCTURE)
    grove.apply(the_set())
    grove.report("w-0-a", f"{GROUP}-0-b", scheduled=0)
    grove.changes()
    grove.advance(100 * HOURS)
    assert terminated(grove) == []


def test_what_was_scheduled_and_never_ready_is_never_terminated() -> None:
    grove = GroveCluster(STRUCTURE)
    grove.apply(the_set())
    grove.report("w-0-a", *(f"{GROUP}-{i}-b" for i in range(3)), scheduled=2, ready=0)
    grove.changes()
    grove.advance(100 * HOURS)
    assert terminated(grove) == []


def test_a_group_that_was_never_available_does_not_terminate_a_replica_of_the_set() -> None:
    grove = GroveCluster(STRUCTURE)
    grove.apply(the_set(1))
    grove.report("w-0-a", scheduled=2)
    grove.advance(100 * HOURS)
    assert terminated(grove) == []


def test_a_replica_that_is_being_updated_is_not_terminated() -> None:
    grove = running(pod_clique_set(clique("a", 2, 1), replicas=2))
    grove.update_image("image:2")
    grove.report("w-0-a", scheduled=0, updated=False)
    grove.advance(100 * HOURS)
    assert terminated(grove) == []


def test_another_replica_is_terminated_while_one_is_being_updated() -> None:
    grove = running(pod_clique_set(clique("a", 2, 1), replicas=2))
    grove.update_image("image:2")
    grove.report("w-1-a", scheduled=0)
    grove.advance(4 * HOURS)
    assert terminated(grove) == ["w-1-a"]


def test_what_is_scaled_below_its_minimum_is_not_terminated_for_it() -> None:
    """Nothing would be better afterwards; the condition says the way out."""
    grove = running(the_set(2, minimum=2))
    grove.scale(POD_CLIQUE_SCALING_GROUPS, GROUP, 1)
    grove.advance(100 * HOURS)
    assert terminated(grove) == [f"{GROUP}-1-b"]


def test_groups_and_sets_below_their_minimums_wait_without_polling() -> None:
    grove = running(the_set(1))
    grove.report("w-0-a", scheduled=0)
    result = STRUCTURE[POD_CLIQUE_SETS].reconcile(grove.named(POD_CLIQUE_SETS), grove, grove.now)
    assert result.again_after_seconds == 4 * HOURS


# the delay ----------------------------------------------------------------------------------------------------------


def test_the_delay_is_that_of_the_set() -> None:
    grove = running(the_set(terminationDelay="30s"))
    grove.report("w-0-a", scheduled=0)
    grove.advance(30)
    assert "w-0-a" in terminated(grove)


def test_a_shorter_delay_counts_from_when_the_breach_began() -> None:
    grove = running(the_set())
    grove.report("w-0-a", scheduled=0)
    grove.advance(60)
    grove.apply(the_set(terminationDelay="30s"))
    assert "w-0-a" in terminated(grove)


@pytest.mark.parametrize(
    ("text", "delay"),
    [
        ("", timedelta(hours=4)),
        ("90m", timedelta(minutes=90)),
        ("250ms", timedelta(milliseconds=250)),
        ("0s", timedelta(hours=4)),
        ("-1h", timedelta(hours=4)),
        ("soon", timedelta(hours=4)),
        ("9" * 18 + "h", timedelta(days=36_500)),
    ],
)
def test_a_delay_that_cannot_be_read_is_four_hours(text: str, delay: timedelta) -> None:
    pcs = decode(pod_clique_set(clique("a"), terminationDelay=text), PodCliqueSet)[0]
    assert termination_delay(pcs) == delay


def test_a_group_that_comes_back_from_zero_and_waits_for_capacity_terminates_nothing() -> None:
    """What was scaled to zero has never run since: the other cliques of its replica stay."""
    grove = GroveCluster()
    groups = [group("sg", "b", replicas=1)]
    grove.apply(pod_clique_set(clique("fe"), clique("b"), groups=groups, terminationDelay="10m"))
    grove.run_pods()
    before = grove.pods("w-0-fe")
    grove.scale(POD_CLIQUE_SCALING_GROUPS, "w-0-sg", 0)
    grove.advance(3600)
    grove.scale(POD_CLIQUE_SCALING_GROUPS, "w-0-sg", 1)
    for _ in range(4):
        grove.advance(400)
    assert grove.pods("w-0-fe") == before

"""Replicas of scaling groups: how many there are, how they fare, and how they are updated."""

from typing import Any

from muster.api import names
from muster.api.resources import POD_CLIQUE_SCALING_GROUPS, POD_CLIQUE_SETS, POD_CLIQUES
from muster.workloads.types import Raw
from tests.support.grove import STRUCTURE, GroveCluster, clique, created_names, group, pod_clique_set, removed_names

GROUP = "w-0-sg"
NEW = "image:2"


def the_set(replicas: int = 3, minimum: int = 1, **fields: Any) -> Raw:
    cliques = clique("b", 2, 1), clique("c")
    return pod_clique_set(*cliques, groups=[group("sg", "b", "c", replicas=replicas, minimum=minimum)], **fields)


def cluster(raw: Raw) -> GroveCluster:
    new = GroveCluster(STRUCTURE)
    new.apply(raw)
    return new


def running(raw: Raw) -> GroveCluster:
    new = cluster(raw)
    new.report_all()
    new.changes()
    return new


def members(*replicas: int) -> list[str]:
    return [f"{GROUP}-{replica}-{name}" for replica in replicas for name in "bc"]


def status(grove: GroveCluster) -> Raw:
    return grove.status(POD_CLIQUE_SCALING_GROUPS, GROUP)


def breached(grove: GroveCluster) -> tuple[str, str]:
    return grove.condition(POD_CLIQUE_SCALING_GROUPS, GROUP, "MinAvailableBreached")


# replicas and status ------------------------------------------------------------------------------------------------


def test_each_replica_has_all_cliques_of_the_group() -> None:
    assert cluster(the_set()).names(POD_CLIQUES) == members(0, 1, 2)


def test_scaling_in_removes_the_highest_replica_first() -> None:
    grove = running(the_set())
    grove.scale(POD_CLIQUE_SCALING_GROUPS, GROUP, 1)
    assert removed_names(grove.changes(), POD_CLIQUES) == [*reversed(members(2)), *reversed(members(1))]


def test_a_replica_is_scheduled_when_all_of_its_cliques_exist_and_are() -> None:
    grove = cluster(the_set())
    grove.report(f"{GROUP}-0-b", scheduled=2, ready=0)
    assert status(grove).get("scheduledReplicas") == 0
    grove.report(f"{GROUP}-0-c", scheduled=1, ready=0)
    assert status(grove)["scheduledReplicas"] == 1


def test_a_replica_is_available_when_each_clique_has_its_minimum_ready() -> None:
    grove = cluster(the_set())
    grove.report(*members(0), scheduled=1, ready=0)
    assert (status(grove)["scheduledReplicas"], status(grove)["availableReplicas"]) == (1, 0)
    grove.report(*members(0), scheduled=1, ready=1)
    assert status(grove)["availableReplicas"] == 1
    assert status(grove)["updatedReplicas"] == 1


def test_an_autoscaler_of_a_group_selects_the_pods_of_the_group() -> None:
    assert status(cluster(the_set()))["selector"].endswith(f",{names.SCALING_GROUP}={GROUP}")


def test_a_group_with_too_few_scheduled_replicas_is_below_its_minimum() -> None:
    grove = cluster(the_set(minimum=2))
    grove.report(*members(0), scheduled=1)
    assert breached(grove) == ("True", "ScheduledReplicasBelowMinAvailable")


def test_a_group_with_enough_replicas_that_hold_their_minimum_is_not() -> None:
    grove = running(the_set(minimum=2))
    assert breached(grove) == ("False", "SufficientAvailablePodCliqueScalingGroupReplicas")
    grove.report(f"{GROUP}-0-c", scheduled=1, ready=0)
    assert breached(grove)[0] == "False"
    grove.report(f"{GROUP}-1-c", scheduled=1, ready=0)
    assert breached(grove) == ("True", "InsufficientAvailablePodCliqueScalingGroupReplicas")


def test_a_group_that_is_scaled_to_zero_needs_nothing() -> None:
    grove = running(the_set())
    grove.scale(POD_CLIQUE_SCALING_GROUPS, GROUP, 0)
    assert breached(grove)[0] == "False"
    assert status(grove)["replicas"] == 0


def test_a_group_that_is_scaled_below_its_minimum_says_the_way_out() -> None:
    grove = running(the_set(minimum=2))
    grove.scale(POD_CLIQUE_SCALING_GROUPS, GROUP, 1)
    (message,) = [one["message"] for one in status(grove)["conditions"] if one["type"] == "MinAvailableBreached"]
    assert message == "scaled to 1, and 2 are needed: scale to 2 or more, or to 0"


def test_a_group_without_its_set_makes_nothing() -> None:
    grove = running(the_set(metadata={"finalizers": ["other/one"]}))
    grove.delete(POD_CLIQUE_SETS, "w")
    assert created_names(grove.changes(), POD_CLIQUES) == []


# updates ------------------------------------------------------------------------------------------------------------


def selected(grove: GroveCluster) -> int | None:
    progress = status(grove)["updateProgress"]
    current: int | None = progress.get("readyReplicaIndicesSelectedToUpdate", {}).get("current")
    return current


def test_available_replicas_are_recreated_one_at_a_time() -> None:
    grove = running(the_set())
    grove.update_image(NEW)
    assert removed_names(grove.changes(), POD_CLIQUES) == members(0)
    grove.report(*members(0), scheduled=2)
    assert removed_names(grove.changes(), POD_CLIQUES) == members(1)
    grove.report(*members(1), scheduled=2)
    assert removed_names(grove.changes(), POD_CLIQUES) == members(2)


def test_the_next_replica_waits_until_this_one_is_available_again() -> None:
    grove = running(the_set())
    grove.update_image(NEW)
    grove.report(*members(0), scheduled=2, ready=0)
    assert selected(grove) == 0
    assert removed_names(grove.changes(), POD_CLIQUES) == members(0)


def test_replicas_that_are_not_available_are_recreated_at_once() -> None:
    grove = running(the_set())
    grove.report(f"{GROUP}-1-b", scheduled=2, ready=0)
    grove.report(f"{GROUP}-2-b", scheduled=0)
    grove.update_image(NEW)
    assert set(removed_names(grove.changes(), POD_CLIQUES)) == set(members(0, 1, 2))
    assert selected(grove) == 0


def test_no_available_replica_is_recreated_while_fewer_than_the_minimum_are_available() -> None:
    grove = running(the_set(3, minimum=2))
    grove.report(f"{GROUP}-1-b", f"{GROUP}-2-b", scheduled=2, ready=0)
    grove.update_image(NEW)
    assert set(removed_names(grove.changes(), POD_CLIQUES)) == set(members(1, 2))
    grove.report(*members(1), scheduled=2)
    assert removed_names(grove.changes(), POD_CLIQUES) == members(0)


def test_a_choice_of_replica_zero_is_written_though_it_is_the_only_change_and_all_zeros() -> None:
    """The status is compared without zeros; this one has to differ."""
    grove = running(the_set(2, minimum=2))
    grove.report(f"{GROUP}-1-b", scheduled=2, ready=0)
    grove.update_image(NEW)
    assert selected(grove) is None
    grove.report(*members(1), scheduled=2)
    assert selected(grove) == 0


def test_a_group_being_updated_is_neither_below_nor_above_its_minimum() -> None:
    grove = running(the_set())
    grove.update_image(NEW)
    assert breached(grove) == ("Unknown", "UpdateInProgress")


def test_an_update_that_is_done_says_so() -> None:
    grove = running(the_set())
    grove.update_image(NEW)
    grove.advance(5)
    grove.report_all()
    progress = status(grove)["updateProgress"]
    assert progress == {
        "updateStartedAt": "2026-01-01T00:00:00Z",
        "updateEndedAt": "2026-01-01T00:00:05Z",
        "podCliqueSetGenerationHash": status(grove)["currentPodCliqueSetGenerationHash"],
        "updatedPodCliquesCount": 6,
        "totalPodCliquesCount": 6,
    }
    assert status(grove)["updatedReplicas"] == 3
    assert breached(grove)[0] == "False"


def test_completed_replicas_are_listed_while_the_update_is_under_way() -> None:
    grove = running(the_set())
    grove.update_image(NEW)
    grove.report(*members(0), scheduled=2)
    chosen = status(grove)["updateProgress"]["readyReplicaIndicesSelectedToUpdate"]
    assert chosen == {"current": 1, "completed": [0]}


def test_a_change_of_one_clique_recreates_whole_replicas() -> None:
    grove = running(the_set(1))
    grove.update_image(NEW, "c")
    assert removed_names(grove.changes(), POD_CLIQUES) == members(0)


def test_a_group_whose_cliques_did_not_change_is_left_alone() -> None:
    cliques = clique("a"), clique("b")
    grove = running(pod_clique_set(*cliques, groups=[group("sg", "b", replicas=2)]))
    grove.update_image(NEW, "a")
    grove.report_all()
    actions = grove.changes()
    assert removed_names(actions, POD_CLIQUES) == []
    generation = grove.status(POD_CLIQUE_SETS)["currentGenerationHash"]
    assert status(grove)["currentPodCliqueSetGenerationHash"] == generation
    assert grove.labels(POD_CLIQUES, "w-0-sg-0-b")[names.GENERATION_HASH] == generation


def test_a_second_change_goes_on_with_the_replica_that_is_being_replaced() -> None:
    grove = running(the_set())
    grove.update_image(NEW)
    grove.report(*members(0), scheduled=2)
    assert selected(grove) == 1
    grove.update_image("image:3")
    assert selected(grove) == 1
    grove.report_all()
    assert status(grove)["updatedReplicas"] == 3


def test_a_replica_that_is_scaled_in_while_it_is_replaced_does_not_hold_up_the_others() -> None:
    grove = running(the_set(2))
    grove.update_image(NEW)
    grove.report(*members(0), scheduled=2)
    assert selected(grove) == 1
    grove.scale(POD_CLIQUE_SCALING_GROUPS, GROUP, 1)
    assert status(grove)["updateProgress"]["updateEndedAt"]


def test_replicas_that_come_during_an_update_have_the_latest_template() -> None:
    grove = running(the_set(2))
    grove.update_image(NEW)
    grove.scale(POD_CLIQUE_SCALING_GROUPS, GROUP, 3)
    grove.report_all()
    assert status(grove)["updatedReplicas"] == 3


def test_a_group_that_is_scaled_below_its_minimum_is_still_updated() -> None:
    grove = running(the_set(3, minimum=2))
    grove.scale(POD_CLIQUE_SCALING_GROUPS, GROUP, 1)
    grove.update_image(NEW)
    grove.report_all()
    assert status(grove)["updatedReplicas"] == 1
    assert grove.status(POD_CLIQUE_SETS)["updateProgress"]["updateEndedAt"]


def test_on_delete_cliques_are_updated_in_place() -> None:
    grove = running(the_set(update_strategy="OnDelete"))
    grove.update_image(NEW)
    images = {grove.spec(POD_CLIQUES, name)["podSpec"]["containers"][0]["image"] for name in members(0, 1, 2)}
    assert images == {NEW}
    assert removed_names(grove.changes(), POD_CLIQUES) == []
    assert breached(grove)[0] == "False"


def test_a_change_of_the_sets_status_does_not_wake_its_groups() -> None:
    """It changes with every replica: five hundred groups would each look at each."""
    related = STRUCTURE[POD_CLIQUE_SCALING_GROUPS].related
    grove = running(the_set())
    pcs = grove.named(POD_CLIQUE_SETS)
    assert related is not None
    assert list(related(POD_CLIQUE_SETS, pcs, grove)) == []
    changed = {**pcs, "metadata": {**pcs["metadata"], "generation": 9}}
    assert list(related(POD_CLIQUE_SETS, changed, grove)) == [("team", GROUP)]

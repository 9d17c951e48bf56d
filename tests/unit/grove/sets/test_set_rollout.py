"""How a new template reaches the replicas of a set."""

from typing import Any

from muster.api import names
from muster.api.resources import POD_CLIQUE_SCALING_GROUPS, POD_CLIQUE_SETS, POD_CLIQUES
from muster.workloads.types import Raw, Update
from tests.support.grove import STRUCTURE, GroveCluster, clique, group, pod_clique_set, removed_names

NEW = "image:2"


def the_set(replicas: int = 3, **fields: Any) -> Raw:
    return pod_clique_set(clique("a", 2, 1), replicas=replicas, **fields)


def running(raw: Raw) -> GroveCluster:
    """A set whose pods are all ready."""
    grove = GroveCluster(STRUCTURE)
    grove.apply(raw)
    grove.report_all()
    grove.changes()
    return grove


def image(grove: GroveCluster, name: str) -> str:
    containers = grove.spec(POD_CLIQUES, name)["podSpec"]["containers"]
    return str(containers[0]["image"])


def updated(grove: GroveCluster) -> list[str]:
    """Cliques that have the latest template."""
    return [name for name in grove.names(POD_CLIQUES) if image(grove, name) == NEW]


def progress(grove: GroveCluster) -> Raw:
    written: Raw = grove.status(POD_CLIQUE_SETS)["updateProgress"]
    return written


def current(grove: GroveCluster) -> list[int]:
    return [entry["replicaIndex"] for entry in progress(grove)["currentlyUpdating"]]


def test_a_set_is_updated_one_replica_at_a_time() -> None:
    grove = running(the_set())
    grove.update_image(NEW)
    assert (updated(grove), current(grove)) == (["w-0-a"], [0])
    grove.report("w-0-a", scheduled=2)
    assert (updated(grove), current(grove)) == (["w-0-a", "w-1-a"], [1])


def test_the_next_replica_waits_until_this_one_has_its_minimum_ready_and_all_pods_of_the_new_template() -> None:
    grove = running(the_set())
    grove.update_image(NEW)
    grove.report("w-0-a", scheduled=2, ready=1, updated=False)
    assert current(grove) == [0]
    grove.report("w-0-a", scheduled=2, ready=0)
    assert current(grove) == [0]
    grove.report("w-0-a", scheduled=2, ready=1)
    assert current(grove) == [1]


def test_replicas_without_scheduled_pods_go_first_then_those_below_their_minimum_then_by_index() -> None:
    grove = running(the_set(4))
    grove.report("w-2-a", scheduled=2, ready=0)
    grove.report("w-3-a", scheduled=0)
    grove.update_image(NEW)
    order = []
    for _ in range(4):
        order += current(grove)
        grove.report(f"w-{order[-1]}-a", scheduled=2)
    assert order == [3, 2, 0, 1]


def test_an_update_that_is_done_says_when_it_began_and_ended_and_how_much_it_was() -> None:
    grove = running(pod_clique_set(clique("a"), clique("b"), groups=[group("sg", "b", replicas=2)], replicas=2))
    grove.update_image(NEW)
    assert "updateEndedAt" not in progress(grove)
    grove.advance(60)
    grove.report_all()
    assert progress(grove) == {
        "updateStartedAt": "2026-01-01T00:00:00Z",
        "updateEndedAt": "2026-01-01T00:01:00Z",
        "currentlyUpdating": [],
        "updatedPodCliquesCount": 6,
        "totalPodCliquesCount": 6,
        "updatedPodCliqueScalingGroupsCount": 2,
        "totalPodCliqueScalingGroupsCount": 2,
    }
    status = grove.status(POD_CLIQUE_SETS)
    assert status["updatedReplicas"] == 2
    assert status["currentGenerationHash"] == grove.labels(POD_CLIQUES, "w-1-a")[names.GENERATION_HASH]


def test_replicas_that_wait_keep_their_template_and_count_as_available_and_not_as_updated() -> None:
    grove = running(the_set())
    grove.update_image(NEW)
    status = grove.status(POD_CLIQUE_SETS)
    assert image(grove, "w-2-a") == "image:1"
    assert (status["availableReplicas"], status["updatedReplicas"]) == (3, 0)


def test_what_is_made_during_an_update_has_the_latest_template() -> None:
    grove = running(the_set())
    grove.update_image(NEW)
    grove.scale(POD_CLIQUE_SETS, "w", 4)
    grove.delete(POD_CLIQUES, "w-2-a")
    assert updated(grove) == ["w-0-a", "w-2-a", "w-3-a"]


def test_a_new_replica_that_cannot_be_scheduled_does_not_hold_up_an_update() -> None:
    """It has the latest template from the start: there is nothing to update."""
    grove = running(the_set(2))
    grove.update_image(NEW)
    grove.scale(POD_CLIQUE_SETS, "w", 3)
    grove.report("w-0-a", scheduled=2)
    grove.report("w-1-a", scheduled=2)
    assert progress(grove)["updateEndedAt"]
    assert grove.status(POD_CLIQUE_SETS)["updatedReplicas"] == 2


def test_a_second_change_goes_on_with_the_replica_that_is_being_updated() -> None:
    """Two replicas are never down for updates at once."""
    grove = running(the_set())
    grove.update_image(NEW)
    grove.report("w-0-a", scheduled=2)
    assert current(grove) == [1]
    grove.update_image("image:3")
    assert current(grove) == [1]
    assert image(grove, "w-1-a") == "image:3"
    assert image(grove, "w-0-a") == NEW


def test_a_replica_that_is_scaled_in_while_it_is_updated_does_not_hold_up_the_others() -> None:
    grove = running(the_set())
    grove.report("w-2-a", scheduled=0)
    grove.update_image(NEW)
    assert current(grove) == [2]
    grove.scale(POD_CLIQUE_SETS, "w", 2)
    assert current(grove) == [0]


def test_a_replica_is_chosen_in_the_status_before_anything_of_it_changes() -> None:
    """So that an operator that stops in between chooses no second one."""
    grove = running(the_set())
    chosen: list[list[int]] = []

    def note(action: object) -> None:
        if isinstance(action, Update) and action.resource == POD_CLIQUES:
            chosen.append(current(grove))

    grove.observers.append(note)
    grove.update_image(NEW)
    grove.report_all()
    assert chosen == [[0], [1], [2]]


def test_labels_annotations_and_priority_class_are_updates_and_replicas_are_not() -> None:
    grove = running(the_set())
    cliques = [clique("a", 5, 1)]
    grove.apply(pod_clique_set(*cliques, replicas=3))
    assert grove.changes() == []
    grove.apply(pod_clique_set(clique("a", 5, 1, labels={"team": "x"}), replicas=3))
    assert current(grove) == [0]
    assert grove.labels(POD_CLIQUES, "w-0-a")["team"] == "x"
    grove.report_all()
    grove.apply(pod_clique_set(*cliques, replicas=3))
    assert "team" not in grove.labels(POD_CLIQUES, "w-0-a")


def test_a_change_of_one_clique_leaves_the_others_as_they_are() -> None:
    grove = running(pod_clique_set(clique("a"), clique("b"), replicas=2))
    grove.update_image(NEW, "b")
    grove.report_all()
    assert updated(grove) == ["w-0-b", "w-1-b"]


def test_on_delete_every_clique_has_the_new_template_at_once_and_the_update_is_over() -> None:
    sg = group("sg", "b", replicas=2)
    grove = running(pod_clique_set(clique("a"), clique("b"), groups=[sg], replicas=2, update_strategy="OnDelete"))
    grove.update_image(NEW)
    assert updated(grove) == grove.names(POD_CLIQUES)
    assert removed_names(grove.changes(), POD_CLIQUES) == []
    assert progress(grove)["updateEndedAt"]
    assert progress(grove)["currentlyUpdating"] == []


def test_on_delete_a_replica_counts_as_updated_once_all_of_its_pods_are() -> None:
    grove = running(the_set(2, update_strategy="OnDelete"))
    grove.update_image(NEW)
    assert grove.status(POD_CLIQUE_SETS)["updatedReplicas"] == 0
    grove.report("w-1-a", scheduled=2)
    assert grove.status(POD_CLIQUE_SETS)["updatedReplicas"] == 1


def test_groups_are_let_update_with_their_replica_of_the_set() -> None:
    grove = running(pod_clique_set(clique("b"), groups=[group("sg", "b", replicas=2)], replicas=2))
    old = grove.labels(POD_CLIQUE_SCALING_GROUPS, "w-1-sg")[names.GENERATION_HASH]
    grove.update_image(NEW)
    assert grove.labels(POD_CLIQUE_SCALING_GROUPS, "w-0-sg")[names.GENERATION_HASH] != old
    assert grove.labels(POD_CLIQUE_SCALING_GROUPS, "w-1-sg")[names.GENERATION_HASH] == old
    grove.report_all()
    assert updated(grove) == grove.names(POD_CLIQUES)


def test_an_update_of_a_set_that_is_scaled_to_zero_is_over_at_once() -> None:
    grove = running(the_set(0))
    grove.update_image(NEW)
    assert progress(grove)["updateEndedAt"]
    grove.scale(POD_CLIQUE_SETS, "w", 1)
    assert updated(grove) == ["w-0-a"]


def test_a_clique_that_is_scaled_below_its_minimum_does_not_hold_up_an_update() -> None:
    """It is never available; its condition says why."""
    grove = running(pod_clique_set(clique("a", 2, 2), replicas=2))
    grove.scale(POD_CLIQUES, "w-0-a", 1)
    grove.update_image(NEW)
    grove.report("w-0-a", "w-1-a", scheduled=1)
    assert current(grove) == [1]
    assert grove.status(POD_CLIQUE_SETS)["availableReplicas"] == 0

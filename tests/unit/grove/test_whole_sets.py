"""Sets with all of Grove's controllers and pods: what a user of a cluster sees."""

from typing import Any

from muster.api.resources import POD_CLIQUE_SCALING_GROUPS, POD_CLIQUE_SETS, POD_CLIQUES, POD_GANGS, POD_GROUPS, PODS
from muster.workloads.types import Raw
from tests.support.grove import GroveCluster, clique, group, pod_clique_set

HOURS = 3600.0


def the_set(**fields: Any) -> Raw:
    """A standalone clique, and a group with one replica above its minimum."""
    cliques = clique("a", 2, 1), clique("b"), clique("c")
    return pod_clique_set(*cliques, groups=[group("sg", "b", "c", replicas=2)], **fields)


def running(raw: Raw) -> GroveCluster:
    grove = GroveCluster()
    grove.apply(raw)
    grove.run_pods()
    return grove


def images(grove: GroveCluster, prefix: str = "") -> set[str]:
    return {grove.spec(PODS, name)["containers"][0]["image"] for name in grove.pods(prefix)}


def replace_pods(grove: GroveCluster) -> None:
    """Pods are bound and get ready as they are replaced."""
    for _ in range(30):
        grove.run_pods()


def test_a_set_starts_base_first_then_its_scaled_gangs_and_is_available() -> None:
    grove = GroveCluster()
    grove.apply(the_set())
    assert {name.rsplit("-", 1)[0] for name in grove.gated()} == {"w-0-sg-1-b", "w-0-sg-1-c"}
    grove.run_pods()
    assert grove.gated() == []
    assert grove.status(POD_CLIQUE_SETS)["availableReplicas"] == 1


def test_an_update_replaces_all_pods_replica_by_replica_and_keeps_the_others_running() -> None:
    grove = running(the_set(replicas=2))
    grove.update_image("image:2")
    assert images(grove, "w-1") == {"image:1"}
    replace_pods(grove)
    assert images(grove) == {"image:2"}
    assert len(grove.pods()) == 12
    assert grove.status(POD_CLIQUE_SETS)["updatedReplicas"] == 2


def test_an_update_on_a_cluster_that_takes_no_pods_stops_at_the_first_replica() -> None:
    grove = running(the_set(replicas=2))
    grove.update_image("image:2")
    for _ in range(5):
        grove.advance(60)
    assert images(grove, "w-1") == {"image:1"}
    (entry,) = grove.status(POD_CLIQUE_SETS)["updateProgress"]["currentlyUpdating"]
    assert entry["replicaIndex"] == 0
    assert grove.status(POD_CLIQUE_SETS)["updatedReplicas"] == 0


def test_a_clique_that_is_scaled_to_zero_while_it_is_updated_does_not_hold_up_the_set() -> None:
    grove = running(pod_clique_set(clique("a", 2, 1), replicas=2))
    grove.update_image("image:2")
    grove.bind()
    grove.scale(POD_CLIQUES, "w-0-a", 0)
    replace_pods(grove)
    assert images(grove) == {"image:2"}
    assert grove.status(POD_CLIQUE_SETS)["updateProgress"]["updateEndedAt"]


def test_with_on_delete_only_deleted_pods_get_the_new_template() -> None:
    grove = running(the_set(update_strategy="OnDelete"))
    before = grove.pods()
    grove.update_image("image:2")
    assert grove.pods() == before
    grove.delete(PODS, grove.pods("w-0-a")[0])
    grove.run_pods()
    assert images(grove, "w-0-a") == {"image:1", "image:2"}
    assert images(grove, "w-0-sg") == {"image:1"}


def lose(grove: GroveCluster, prefix: str) -> None:
    """A node is lost: pods are gone, and their replacements find no place."""
    for pod in grove.pods(prefix):
        grove.delete(PODS, pod)


def test_pods_that_are_lost_for_longer_than_the_delay_take_the_replica_of_the_set_along() -> None:
    grove = running(the_set(replicas=2))
    before = set(grove.pods())
    lose(grove, "w-1-a")
    grove.advance(4 * HOURS)
    assert before & set(grove.pods("w-1")) == set()
    assert set(grove.pods("w-0")) <= before
    grove.run_pods()
    assert grove.status(POD_CLIQUE_SETS)["availableReplicas"] == 2


def test_a_lost_replica_of_a_group_is_recreated_alone_where_the_other_is_enough() -> None:
    grove = running(the_set())
    before = set(grove.pods())
    lose(grove, "w-0-sg-1-b")
    grove.advance(4 * HOURS)
    assert before & set(grove.pods("w-0-sg-1")) == set()
    assert set(grove.pods("w-0-a")) | set(grove.pods("w-0-sg-0")) <= before


def test_scaling_a_group_to_zero_and_back_leaves_gangs_and_podgroups_in_step() -> None:
    grove = running(the_set())
    grove.scale(POD_CLIQUE_SCALING_GROUPS, "w-0-sg", 0)
    assert grove.names(POD_GANGS) == grove.names(POD_GROUPS) == ["w-0"]
    grove.scale(POD_CLIQUE_SCALING_GROUPS, "w-0-sg", 3)
    grove.run_pods()
    assert grove.names(POD_GANGS) == grove.names(POD_GROUPS) == ["w-0", "w-0-sg-0", "w-0-sg-1"]
    assert grove.status(POD_CLIQUE_SCALING_GROUPS, "w-0-sg")["availableReplicas"] == 3


def test_a_set_that_is_scaled_to_zero_keeps_nothing_and_one_that_is_deleted_less() -> None:
    grove = running(the_set())
    grove.scale(POD_CLIQUE_SETS, "w", 0)
    assert [key[2] for key in grove.objects] == ["w"]
    grove.scale(POD_CLIQUE_SETS, "w", 1)
    grove.run_pods()
    grove.delete(POD_CLIQUE_SETS, "w")
    assert grove.objects == {}

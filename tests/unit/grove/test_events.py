"""What Grove's controllers say as events: each change once, and nothing where nothing changed."""

from typing import Any

from muster.api.resources import (
    CLUSTER_TOPOLOGY_BINDINGS,
    POD_CLIQUE_SCALING_GROUPS,
    POD_CLIQUE_SETS,
    POD_CLIQUES,
)
from muster.grove.events import MOST_INDEXES, name_replicas
from muster.workloads.types import OwnerEvent, Raw
from tests.support.grove import STRUCTURE, GroveCluster, clique, group, pod_clique_set

HOURS = 3600.0


def the_set(replicas: int = 1, **fields: Any) -> Raw:
    """A standalone clique and a group of three replicas, of which one is needed."""
    cliques = clique("a", 2, 1), clique("b", 2, 1)
    return pod_clique_set(*cliques, groups=[group("sg", "b", replicas=3)], replicas=replicas, **fields)


def running(raw: Raw) -> GroveCluster:
    grove = GroveCluster(STRUCTURE)
    grove.apply(raw)
    grove.report_all()
    grove.advance(60)
    return grove


def said(grove: GroveCluster) -> list[tuple[str, str, str]]:
    """About what, the reason and the message, since this was called last; what is repeated at once is left out."""
    events, grove.events = grove.events, []
    latest: dict[tuple[str, str], OwnerEvent] = {}
    changes = []
    for name, event in events:
        if latest.get((name, event.reason)) != event:
            latest[name, event.reason] = event
            changes.append((name, event.reason, event.message))
    return changes


def reasons(grove: GroveCluster) -> list[tuple[str, str]]:
    return [(name, reason) for name, reason, _ in said(grove)]


def test_a_set_that_comes_up_says_nothing() -> None:
    assert said(running(the_set(2))) == []


# termination ----------------------------------------------------------------------------------------------------------


def test_a_group_says_which_replica_was_below_its_minimum_for_too_long() -> None:
    grove = running(the_set())
    grove.report("w-0-sg-2-b", scheduled=0)
    assert said(grove) == []
    grove.advance(4 * HOURS)
    message = "replica 2: below minAvailable for longer than terminationDelay; all cliques are recreated"
    assert said(grove) == [("w-0-sg", "PodCliqueScalingGroupReplicaDeleteSuccessful", message)]
    grove.advance(60)
    assert said(grove) == []


def test_a_set_says_which_replicas_were_below_their_minimum_for_too_long() -> None:
    grove = running(the_set(3))
    grove.report("w-0-a", "w-2-a", scheduled=0)
    grove.advance(4 * HOURS)
    message = "replicas 0, 2: below minAvailable for longer than terminationDelay; all cliques are recreated"
    assert said(grove) == [("w", "PodCliqueSetReplicaDeleteSuccessful", message)]
    grove.advance(60)
    assert said(grove) == []


def test_a_message_names_a_few_replicas_and_counts_the_others() -> None:
    assert name_replicas([7]) == "replica 7"
    assert name_replicas(range(MOST_INDEXES + 5)).endswith(" and 5 more")


# updates --------------------------------------------------------------------------------------------------------------


def test_a_set_says_when_its_update_begins_which_replica_is_next_and_when_it_ends() -> None:
    grove = running(the_set(2))
    grove.update_image("none:2", "a")
    template = grove.status(POD_CLIQUE_SETS)["currentGenerationHash"]
    assert said(grove) == [
        ("w", "UpdateStarted", f"update of 2 replicas to template {template}: one replica at a time"),
        ("w", "ReplicaUpdateStarted", f"replica 0 is updated to template {template}"),
    ]
    grove.report_all()
    assert said(grove) == [
        ("w", "ReplicaUpdateStarted", f"replica 1 is updated to template {template}"),
        ("w", "UpdateEnded", f"all replicas have template {template}"),
    ]
    grove.advance(60)
    assert said(grove) == []


def test_a_second_update_is_said_as_well() -> None:
    grove = running(the_set())
    grove.update_image("none:2", "a")
    grove.report_all()
    said(grove)
    grove.update_image("none:3", "a")
    grove.report_all()
    assert [reason for _, reason in reasons(grove)] == ["UpdateStarted", "ReplicaUpdateStarted", "UpdateEnded"]


def test_with_on_delete_an_update_is_said_and_its_end_is_not() -> None:
    grove = running(the_set(update_strategy="OnDelete"))
    grove.update_image("none:2", "a")
    grove.report_all()
    events = said(grove)
    assert [reason for _, reason, _ in events] == ["UpdateStarted"]
    assert events[0][2].endswith("pods get it when they are deleted")


# scales ---------------------------------------------------------------------------------------------------------------


def test_a_clique_that_is_scaled_below_its_minimum_says_the_way_out_once() -> None:
    grove = GroveCluster()
    grove.apply(pod_clique_set(clique("a", 3, 3)))
    grove.run_pods()
    grove.scale(POD_CLIQUES, "w-0-a", 2)
    message = "replicas 2 is below minAvailable 3, so that nothing can start: scale to 0, or to at least 3"
    assert said(grove) == [("w-0-a", "ScaledBelowMinAvailable", message)]
    grove.run_pods()
    grove.patch(POD_CLIQUES, "w-0-a", {"metadata": {"annotations": {"any": "change"}}})
    assert said(grove) == []
    grove.scale(POD_CLIQUES, "w-0-a", 0)
    grove.scale(POD_CLIQUES, "w-0-a", 3)
    assert said(grove) == []


def test_a_group_that_is_scaled_below_its_minimum_says_so() -> None:
    cliques = clique("a"), clique("b")
    grove = running(pod_clique_set(*cliques, groups=[group("sg", "b", replicas=3, minimum=2)]))
    grove.scale(POD_CLIQUE_SCALING_GROUPS, "w-0-sg", 1)
    assert reasons(grove) == [("w-0-sg", "ScaledBelowMinAvailable")]


# topology -------------------------------------------------------------------------------------------------------------


def bound(*domains: str) -> Raw:
    levels = [{"domain": domain, "key": f"test/{domain}"} for domain in domains]
    return {"metadata": {"name": "t"}, "spec": {"levels": levels}}


def test_a_set_says_that_its_binding_or_a_level_is_not_there() -> None:
    constraint = {"topologyName": "t", "pack": {"required": "rack"}}
    grove = GroveCluster(STRUCTURE)
    grove.apply(the_set(topologyConstraint=constraint))
    assert said(grove) == [
        (
            "w",
            "TopologyLevelsUnavailable",
            "ClusterTopologyBinding `t` does not exist; pods are placed without constraints",
        )
    ]
    grove.apply(bound("rack"), CLUSTER_TOPOLOGY_BINDINGS)
    assert said(grove) == []
    grove.apply(bound("zone"), CLUSTER_TOPOLOGY_BINDINGS)
    assert said(grove) == [
        ("w", "TopologyLevelsUnavailable", "ClusterTopologyBinding `t` has no domain rack; known: zone")
    ]

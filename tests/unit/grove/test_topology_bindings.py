"""ClusterTopologyBindings and the Topologies that come of them."""

from typing import Any

from muster.api.resources import CLUSTER_TOPOLOGY_BINDINGS, TOPOLOGIES
from muster.workloads.types import Raw
from tests.support.grove import STRUCTURE, GroveCluster

LEVELS = [{"domain": "zone", "key": "topology/zone"}, {"domain": "rack", "key": "topology/rack"}]
LABELS = [{"nodeLabel": "topology/zone"}, {"nodeLabel": "topology/rack"}]


def binding(levels: list[Raw] = LEVELS, **spec: Any) -> Raw:
    return {"metadata": {"name": "t"}, "spec": {"levels": levels, **spec}}


def topology(name: str, levels: list[Raw]) -> Raw:
    return {"metadata": {"name": name}, "spec": {"levels": levels}}


def cluster(*topologies: Raw) -> GroveCluster:
    grove = GroveCluster(STRUCTURE)
    for one in topologies:
        grove.apply(one, TOPOLOGIES)
    return grove


def drift(grove: GroveCluster) -> tuple[str, str]:
    return grove.condition(CLUSTER_TOPOLOGY_BINDINGS, "t", "SchedulerTopologyDrift")


def test_a_binding_becomes_a_topology_of_the_same_name_broadest_level_first() -> None:
    grove = cluster()
    grove.apply(binding(), CLUSTER_TOPOLOGY_BINDINGS)
    assert grove.spec(TOPOLOGIES, "t") == {"levels": LABELS}
    assert drift(grove) == ("False", "InSync")


def test_the_topology_follows_the_binding_and_comes_back_if_it_is_deleted() -> None:
    grove = cluster()
    grove.apply(binding(), CLUSTER_TOPOLOGY_BINDINGS)
    grove.apply(binding(LEVELS[:1]), CLUSTER_TOPOLOGY_BINDINGS)
    assert grove.spec(TOPOLOGIES, "t") == {"levels": LABELS[:1]}
    grove.delete(TOPOLOGIES, "t")
    assert grove.spec(TOPOLOGIES, "t") == {"levels": LABELS[:1]}


def test_a_change_of_the_topology_is_undone() -> None:
    grove = cluster()
    grove.apply(binding(), CLUSTER_TOPOLOGY_BINDINGS)
    grove.patch(TOPOLOGIES, "t", {"spec": {"levels": []}})
    assert grove.spec(TOPOLOGIES, "t") == {"levels": LABELS}


def test_the_topology_goes_with_the_binding() -> None:
    grove = cluster()
    grove.apply(binding(), CLUSTER_TOPOLOGY_BINDINGS)
    grove.delete(CLUSTER_TOPOLOGY_BINDINGS, "t")
    assert grove.names(TOPOLOGIES) == []


def test_a_topology_of_the_same_name_that_others_made_is_never_changed_and_its_drift_is_said() -> None:
    grove = cluster(topology("t", LABELS[:1]))
    grove.apply(binding(), CLUSTER_TOPOLOGY_BINDINGS)
    assert grove.spec(TOPOLOGIES, "t") == {"levels": LABELS[:1]}
    assert drift(grove) == ("True", "Drift")


REFERENCE = [{"schedulerName": "kai-scheduler", "topologyReference": "theirs"}]


def test_a_binding_to_a_topology_of_others_makes_none() -> None:
    grove = cluster(topology("theirs", LABELS))
    grove.apply(binding(schedulerTopologyBindings=REFERENCE), CLUSTER_TOPOLOGY_BINDINGS)
    assert grove.names(TOPOLOGIES) == ["theirs"]
    assert drift(grove) == ("False", "InSync")
    (status,) = grove.status(CLUSTER_TOPOLOGY_BINDINGS, "t")["schedulerTopologyStatuses"]
    assert (status["schedulerName"], status["topologyReference"], status["inSync"]) == ("kai-scheduler", "theirs", True)
    assert status["schedulerBackendTopologyObservedGeneration"] == 1


def test_a_topology_of_others_that_changes_is_said_as_drift_and_not_changed() -> None:
    grove = cluster(topology("theirs", LABELS))
    grove.apply(binding(schedulerTopologyBindings=REFERENCE), CLUSTER_TOPOLOGY_BINDINGS)
    grove.patch(TOPOLOGIES, "theirs", {"spec": {"levels": LABELS[:1]}})
    assert drift(grove) == ("True", "Drift")
    assert grove.spec(TOPOLOGIES, "theirs") == {"levels": LABELS[:1]}


def test_a_topology_of_others_that_is_missing_is_unknown_until_it_comes() -> None:
    grove = cluster()
    grove.apply(binding(schedulerTopologyBindings=REFERENCE), CLUSTER_TOPOLOGY_BINDINGS)
    assert drift(grove) == ("Unknown", "TopologyNotFound")
    grove.apply(topology("theirs", LABELS), TOPOLOGIES)
    assert drift(grove) == ("False", "InSync")

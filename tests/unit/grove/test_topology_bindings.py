"""ClusterTopologyBindings and the Topologies that come of them."""

from typing import Any

import pytest

from muster.api.fields import text
from muster.api.resources import CLUSTER_TOPOLOGY_BINDINGS, POD_GROUPS, TOPOLOGIES
from muster.grove.cliques.pod_specs import CliqueSettings
from muster.grove.table import operator
from muster.grove.topology_bindings import build_controller
from muster.workloads.types import Raw
from tests.support.grove import START, STRUCTURE, GroveCluster, clique, pod_clique_set

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


def test_a_topology_that_was_not_written_is_not_said_to_be_in_sync() -> None:
    controller = build_controller("second")
    grove = cluster()
    grove.apply(binding(), CLUSTER_TOPOLOGY_BINDINGS)
    grove.objects.pop((TOPOLOGIES, "", "t"))
    raw = {**grove.named(CLUSTER_TOPOLOGY_BINDINGS, "t"), "status": {}}
    status = controller.reconcile(raw, grove, START).status
    assert status is not None
    assert controller.failed is not None
    said = controller.failed(raw, status, "FailedCreate", "topologies are forbidden", START)
    (entry,) = said["schedulerTopologyStatuses"]
    assert (entry["schedulerName"], entry["inSync"]) == ("second", False)
    assert entry["message"] == "FailedCreate: topologies are forbidden"
    (condition,) = said["conditions"]
    assert (condition["status"], condition["reason"]) == ("Unknown", "FailedCreate")


# which Topology is meant --------------------------------------------------------------------------------------------

SEVERAL = [
    {"schedulerName": "kai-scheduler", "topologyReference": "theirs"},
    {"schedulerName": "muster", "topologyReference": "ours"},
]


def packed_set() -> Raw:
    constraint = {"topologyName": "t", "pack": {"required": "rack"}}
    return pod_clique_set(clique("a"), topologyConstraint=constraint)


def topology_read(scheduler: str, entries: list[Raw]) -> str:
    """The Topology of the PodGroup of a gang, whose pods are of this scheduler."""
    grove = GroveCluster(operator(CliqueSettings(scheduler_name=scheduler)))
    for name in ("theirs", "ours"):
        grove.apply(topology(name, LABELS), TOPOLOGIES)
    grove.apply(binding(schedulerTopologyBindings=entries), CLUSTER_TOPOLOGY_BINDINGS)
    grove.apply(packed_set())
    return text(grove.spec(POD_GROUPS, "w-0"), "topologyConstraint.topology")


@pytest.mark.parametrize(("scheduler", "name"), [("muster", "ours"), ("kai-scheduler", "theirs")])
def test_a_gang_is_placed_by_the_topology_that_its_binding_names_for_its_scheduler(scheduler: str, name: str) -> None:
    assert topology_read(scheduler, SEVERAL) == name


def test_the_scheduler_of_pods_that_name_none_is_the_configured_one() -> None:
    entries = [SEVERAL[0], {"schedulerName": "second", "topologyReference": "ours"}]
    assert topology_read("second", entries) == "ours"


def test_a_binding_that_knows_only_another_scheduler_is_followed() -> None:
    """It makes no Topology of its own, and those that it names have its levels."""
    assert topology_read("muster", SEVERAL[:1]) == "theirs"


def test_a_binding_that_names_no_topology_is_read_by_its_own_name() -> None:
    assert topology_read("muster", []) == "t"

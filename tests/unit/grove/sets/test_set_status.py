"""What the status of a set says."""

import json
from typing import Any

import pytest

from muster.api.fields import integer
from muster.api.resources import CLUSTER_TOPOLOGY_BINDINGS, POD_CLIQUE_SCALING_GROUPS, POD_CLIQUE_SETS, POD_GANGS
from muster.grove import layout
from muster.grove.last_errors import with_last_error
from muster.grove.sets.set_status import MOST_DETAILED, MOST_SUMMARIES, TOO_MANY, gang_summaries
from muster.workloads.types import Raw
from tests.support.grove import START, STRUCTURE, GroveCluster, clique, group, pod_clique_set


def cluster(raw: Raw) -> GroveCluster:
    new = GroveCluster(STRUCTURE)
    new.apply(raw)
    return new


def the_set(**fields: Any) -> Raw:
    cliques = clique("a", 2, 1), clique("b", 2, 1)
    return pod_clique_set(*cliques, groups=[group("sg", "b", replicas=2)], replicas=2, **fields)


def available(grove: GroveCluster) -> int:
    return integer(grove.status(POD_CLIQUE_SETS), "availableReplicas")


def test_a_replica_is_available_when_every_standalone_clique_and_every_group_has_its_minimum_ready() -> None:
    grove = cluster(the_set())
    assert available(grove) == 0
    grove.report("w-0-a", scheduled=1)
    assert available(grove) == 0
    grove.report("w-0-sg-0-b", scheduled=1)
    assert available(grove) == 1
    grove.report("w-0-a", scheduled=1, ready=0)
    assert available(grove) == 0


def test_replicas_are_those_that_exist_and_updated_those_of_the_latest_template() -> None:
    grove = cluster(the_set())
    grove.report_all()
    status = grove.status(POD_CLIQUE_SETS)
    assert (status["replicas"], status["availableReplicas"], status["updatedReplicas"]) == (2, 2, 2)
    assert status["observedGeneration"] == grove.named(POD_CLIQUE_SETS)["metadata"]["generation"]


def test_an_autoscaler_of_a_set_selects_all_of_its_pods() -> None:
    selector = cluster(the_set()).status(POD_CLIQUE_SETS)["hpaPodSelector"]
    assert selector == "app.kubernetes.io/managed-by=grove-operator,app.kubernetes.io/part-of=w"


def test_the_status_tells_how_each_gang_fares() -> None:
    grove = cluster(the_set())
    condition = {"type": "Scheduled", "status": "False", "reason": "NoRoom", "message": "needs 2 pods"}
    gang = grove.named(POD_GANGS, "w-0")
    grove.patch(POD_GANGS, "w-0", {"status": {"phase": "Pending", "conditions": [condition]}})
    grove.patch(POD_GANGS, "w-1", {"status": {"phase": "Running", "placementScore": 0.5}})
    summaries = {one["name"]: one for one in grove.status(POD_CLIQUE_SETS)["podGangStatuses"]}
    assert gang["metadata"]["name"] == "w-0"
    assert list(summaries) == ["w-0", "w-0-sg-0", "w-1", "w-1-sg-0"]
    assert summaries["w-0"] == {"name": "w-0", "phase": "Pending", "conditions": [condition]}
    assert summaries["w-1"] == {"name": "w-1", "phase": "Running", "placementScore": 0.5}


def gang_named(name: str, phase: str, message: str = "") -> Raw:
    conditions = [{"type": "Initialized", "status": "True"}, {"type": "Scheduled", "status": "True"}]
    conditions[1]["message"] = message
    return {"metadata": {"name": name}, "status": {"phase": phase, "conditions": conditions}}


def test_the_status_of_many_gangs_shows_first_those_that_do_not_run() -> None:
    gangs = [gang_named(f"g{i}", "Running") for i in range(MOST_SUMMARIES)]
    gangs.append(gang_named("last", "Pending"))
    summaries = gang_summaries(gangs)
    assert len(summaries) == MOST_SUMMARIES
    assert summaries[0]["name"] == "last"
    assert sum("conditions" in one for one in summaries) == MOST_DETAILED
    assert all("conditions" in one for one in gang_summaries(gangs[:MOST_DETAILED]))


def test_among_many_gangs_that_run_the_one_that_does_not_has_its_condition() -> None:
    gangs = [gang_named(f"g{i}", "Running") for i in range(2 * MOST_DETAILED)]
    gangs.append(gang_named("last", "Pending"))
    assert gang_summaries(gangs)[-1]["conditions"][0]["type"] == "Scheduled"


def test_the_status_of_a_set_whose_gangs_all_wait_stays_below_a_tenth_of_what_an_object_may_hold() -> None:
    gangs = [gang_named(f"{'n' * 60}-{i}", "Pending", "no rack holds it " * 60) for i in range(5 * MOST_SUMMARIES)]
    assert len(json.dumps(gang_summaries(gangs))) < 150_000


def test_a_summary_says_whether_a_gang_is_scheduled_and_begins_to_say_why_not() -> None:
    (summary,) = gang_summaries([gang_named("w-0", "Pending", "no rack holds it " * 60)])
    (condition,) = summary["conditions"]
    assert condition["type"] == "Scheduled"
    assert condition["message"].startswith("no rack holds it")
    assert len(condition["message"]) == 200


def test_a_failure_is_in_the_status_and_keeps_its_time_when_it_comes_again() -> None:
    """A time that changed with every attempt would make every attempt ask for the next."""
    first = with_last_error({}, {"replicas": 1}, "FailedCreate", "no", START)
    assert first == {
        "replicas": 1,
        "lastErrors": [{"code": "FailedCreate", "description": "no", "observedAt": "2026-01-01T00:00:00Z"}],
    }
    later = START.replace(year=2027)
    assert with_last_error({"status": first}, {"replicas": 1}, "FailedCreate", "no", later) == first


# topology -----------------------------------------------------------------------------------------------------------


LEVELS = [{"domain": "zone", "key": "topology/zone"}, {"domain": "rack", "key": "topology/rack"}]


def binding(*levels: Raw, **spec: Any) -> Raw:
    return {"metadata": {"name": "t"}, "spec": {"levels": list(levels or LEVELS), **spec}}


def constraint(required: str = "", preferred: str = "") -> Raw:
    pack = {"required": required, "preferred": preferred}
    return {"topologyName": "t", "pack": {kind: domain for kind, domain in pack.items() if domain}}


def constrained() -> Raw:
    cliques = clique("a", topologyConstraint=constraint("rack")), clique("b"), clique("c")
    groups = [group("sg", "b", "c", replicas=2, topologyConstraint=constraint("rack", "zone"))]
    return pod_clique_set(*cliques, groups=groups, topologyConstraint=constraint("zone"))


def on_topology() -> GroveCluster:
    grove = GroveCluster(STRUCTURE)
    grove.apply(binding(), CLUSTER_TOPOLOGY_BINDINGS)
    grove.apply(constrained())
    return grove


def packed(**levels: str) -> Raw:
    return {"packConstraint": levels}


def test_constraints_of_set_group_and_clique_are_node_labels_at_their_places_in_the_base_gang() -> None:
    spec = on_topology().spec(POD_GANGS, "w-0")
    both = packed(required="topology/rack", preferred="topology/zone")
    assert spec["topologyConstraint"] == packed(required="topology/zone")
    assert spec["topologyConstraintGroupConfigs"] == [
        {"name": "w-0-sg-0", "podGroupNames": ["w-0-sg-0-b", "w-0-sg-0-c"], "topologyConstraint": both}
    ]
    assert spec["podgroups"][0]["topologyConstraint"] == packed(required="topology/rack")


def test_the_constraint_of_a_group_is_the_top_level_of_a_scaled_gang() -> None:
    spec = on_topology().spec(POD_GANGS, "w-0-sg-0")
    assert spec["topologyConstraint"] == packed(required="topology/rack", preferred="topology/zone")
    assert "topologyConstraintGroupConfigs" not in spec


def test_gangs_name_the_binding_whatever_topologies_it_names() -> None:
    """Which of them is meant depends on the scheduler."""
    grove = on_topology()
    annotations = {"grove.io/topology-name": "t"}
    assert grove.named(POD_GANGS, "w-0")["metadata"]["annotations"] == annotations
    other = [{"schedulerName": "muster", "topologyReference": "of-others"}]
    grove.apply(binding(schedulerTopologyBindings=other), CLUSTER_TOPOLOGY_BINDINGS)
    assert grove.named(POD_GANGS, "w-0")["metadata"]["annotations"] == annotations


def levels_unavailable(grove: GroveCluster) -> tuple[str, str]:
    return grove.condition(POD_CLIQUE_SETS, "w", "TopologyLevelsUnavailable")


def test_a_set_with_all_of_its_levels_says_so() -> None:
    assert levels_unavailable(on_topology()) == ("False", "AllClusterTopologyLevelsAvailable")


def test_without_the_binding_gangs_have_no_constraint_and_the_set_says_so_until_the_binding_is_there() -> None:
    grove = GroveCluster(STRUCTURE)
    grove.apply(constrained())
    assert levels_unavailable(grove) == ("Unknown", "ClusterTopologyNotFound")
    assert "topologyConstraint" not in grove.spec(POD_GANGS, "w-0")
    assert "annotations" not in grove.named(POD_GANGS, "w-0")["metadata"]
    grove.apply(binding(), CLUSTER_TOPOLOGY_BINDINGS)
    assert levels_unavailable(grove) == ("False", "AllClusterTopologyLevelsAvailable")
    assert grove.spec(POD_GANGS, "w-0")["topologyConstraint"] == packed(required="topology/zone")


def test_a_level_that_the_binding_loses_is_no_constraint_any_more_and_said_by_name() -> None:
    grove = on_topology()
    grove.apply(binding(LEVELS[0]), CLUSTER_TOPOLOGY_BINDINGS)
    assert levels_unavailable(grove) == ("True", "ClusterTopologyLevelsUnavailable")
    (condition,) = grove.status(POD_CLIQUE_SETS)["conditions"]
    assert condition["message"] == "ClusterTopologyBinding `t` has no domain rack; known: zone"
    spec = grove.spec(POD_GANGS, "w-0")
    assert spec["topologyConstraint"] == packed(required="topology/zone")
    assert "topologyConstraint" not in spec["podgroups"][0]


def test_a_gang_keeps_the_one_level_of_its_constraint_that_the_binding_still_has() -> None:
    grove = on_topology()
    grove.apply(binding(LEVELS[0]), CLUSTER_TOPOLOGY_BINDINGS)
    assert grove.spec(POD_GANGS, "w-0-sg-0")["topologyConstraint"] == packed(preferred="topology/zone")


def test_a_binding_that_is_deleted_takes_constraints_and_annotations_along() -> None:
    grove = on_topology()
    grove.delete(CLUSTER_TOPOLOGY_BINDINGS, "t")
    assert levels_unavailable(grove) == ("Unknown", "ClusterTopologyNotFound")
    gang = grove.named(POD_GANGS, "w-0")
    assert "topologyConstraint" not in gang["spec"]
    assert not gang["metadata"].get("annotations")


def test_constraints_that_name_no_binding_are_said() -> None:
    grove = cluster(pod_clique_set(clique("a"), topologyConstraint={"pack": {"required": "rack"}}))
    assert levels_unavailable(grove) == ("Unknown", "TopologyNameMissing")


def test_a_set_without_constraints_has_no_such_condition() -> None:
    assert levels_unavailable(cluster(the_set())) == ("", "")


def test_the_older_form_of_a_constraint_is_a_requirement() -> None:
    grove = GroveCluster(STRUCTURE)
    grove.apply(binding(), CLUSTER_TOPOLOGY_BINDINGS)
    grove.apply(pod_clique_set(clique("a"), topologyConstraint={"topologyName": "t", "packDomain": "rack"}))
    assert grove.spec(POD_GANGS, "w-0")["topologyConstraint"] == packed(required="topology/rack")


def test_a_group_of_the_set_says_how_its_replicas_fare() -> None:
    grove = cluster(the_set())
    grove.report("w-0-sg-0-b", scheduled=1, ready=0)
    status = grove.status(POD_CLIQUE_SCALING_GROUPS, "w-0-sg")
    assert (status["replicas"], status["scheduledReplicas"], status["availableReplicas"]) == (2, 1, 0)


def test_a_set_that_is_scaled_beyond_its_limit_says_which_gangs_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their pods are gated for ever otherwise, without a word."""
    monkeypatch.setattr(layout, "MOST_CLIQUES", 6)
    grove = cluster(the_set())
    assert grove.condition(POD_CLIQUE_SETS, "w", TOO_MANY) == ("", "")
    grove.scale(POD_CLIQUE_SCALING_GROUPS, "w-1-sg", 9)
    assert grove.condition(POD_CLIQUE_SETS, "w", TOO_MANY) == ("True", "ScaledBeyondLimit")
    assert [event.reason for name, event in grove.events if name == "w"].count(TOO_MANY) == 1
    assert grove.names(POD_GANGS) == ["w-0", "w-0-sg-0", "w-1"]
    grove.scale(POD_CLIQUE_SCALING_GROUPS, "w-1-sg", 2)
    assert grove.condition(POD_CLIQUE_SETS, "w", TOO_MANY) == ("", "")

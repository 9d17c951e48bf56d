"""Deployments roll their template through ReplicaSets."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.resources import DEPLOYMENTS, PODS, REPLICA_SETS
from muster.kube.cluster import Raw
from muster.workloads.apps.deployments import REVISION, TEMPLATE_HASH
from tests.support.workload_objects import WorkloadObjects, pod_template, workload


def deployed(replicas: int = 4, **spec: Any) -> WorkloadObjects:
    objects = WorkloadObjects()
    objects.create(DEPLOYMENTS, workload(DEPLOYMENTS, replicas=replicas, **spec))
    objects.settle()
    return objects


def with_image(image: str) -> Raw:
    template = pod_template()
    template["spec"]["containers"][0]["image"] = image
    return template


def sizes(objects: WorkloadObjects) -> dict[str, int]:
    """Sizes of ReplicaSets that have pods, by revision."""
    sets = objects.all_of(REPLICA_SETS)
    return {
        raw["metadata"]["annotations"][REVISION]: raw["spec"]["replicas"] for raw in sets if raw["spec"]["replicas"]
    }


def condition(objects: WorkloadObjects, kind: str) -> tuple[str, str]:
    conditions = objects.get(DEPLOYMENTS)["status"]["conditions"]
    (found_condition,) = [each for each in conditions if each["type"] == kind]
    return found_condition["status"], found_condition["reason"]


def test_a_replica_set_has_the_hash_of_its_template() -> None:
    objects = deployed(annotations={"team": "a"})
    (replica_set,) = objects.all_of(REPLICA_SETS)
    digest = replica_set["metadata"]["labels"][TEMPLATE_HASH]
    assert replica_set["metadata"]["name"] == f"w-{digest}"
    assert replica_set["spec"]["selector"]["matchLabels"] == {"app": "x", TEMPLATE_HASH: digest}
    assert replica_set["spec"]["template"]["metadata"]["labels"] == {"app": "x", TEMPLATE_HASH: digest}
    assert replica_set["metadata"]["annotations"] == {
        "team": "a",
        REVISION: "1",
        "deployment.kubernetes.io/desired-replicas": "4",
        "deployment.kubernetes.io/max-replicas": "5",
    }
    assert objects.get(DEPLOYMENTS)["metadata"]["annotations"] == {"team": "a", REVISION: "1"}


def test_a_complete_rollout_says_so() -> None:
    objects = deployed()
    status = objects.get(DEPLOYMENTS)["status"]
    assert {status[field] for field in ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")} == {4}
    assert "unavailableReplicas" not in status
    assert condition(objects, "Available") == ("True", "MinimumReplicasAvailable")
    assert condition(objects, "Progressing") == ("True", "NewReplicaSetAvailable")


def test_a_rolling_update_begins_with_the_surge() -> None:
    """4 replicas, 25 % each: one more, one fewer."""
    objects = deployed()
    objects.change(DEPLOYMENTS, template=with_image("y"))
    objects.reconcile(DEPLOYMENTS)
    assert sizes(objects) == {"1": 4, "2": 1}
    objects.reconcile(DEPLOYMENTS)
    assert sizes(objects) == {"1": 3, "2": 1}
    objects.reconcile(DEPLOYMENTS)
    assert sizes(objects) == {"1": 3, "2": 2}


def test_nothing_moves_while_new_pods_are_not_available() -> None:
    objects = deployed()
    objects.change(DEPLOYMENTS, template=with_image("y"))
    objects.settle(runs=False)
    assert sizes(objects) == {"1": 3, "2": 2}
    assert condition(objects, "Available")[0] == "True"


@given(
    replicas=st.integers(1, 12),
    surge=st.sampled_from([0, 1, 3, "25%", "100%"]),
    unavailable=st.sampled_from([1, 2, "25%", "50%"]),
    later=st.integers(0, 12),
    data=st.data(),
)
def test_a_rollout_keeps_its_bounds_and_ends(
    replicas: int, surge: Any, unavailable: Any, later: int, data: st.DataObject
) -> None:
    """Whatever becomes ready when, there are never more pods than the surge allows, and the new template wins."""
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
    objects = deployed(replicas, strategy=strategy)
    objects.change(DEPLOYMENTS, template=with_image("y"))
    most = replicas + (surge if isinstance(surge, int) else -(-replicas * int(surge[:-1]) // 100))
    for _ in range(10):
        objects.settle(runs=False)
        assert sum(sizes(objects).values()) <= most
        waiting = [raw["metadata"]["name"] for raw in objects.all_of(PODS) if raw["status"]["phase"] == "Pending"]
        objects.run(data.draw(st.lists(st.sampled_from(waiting), unique=True)) if waiting else [])
    objects.change(DEPLOYMENTS, replicas=later)
    objects.settle()
    assert sizes(objects) == ({"2": later} if later else {})
    assert len(objects.names()) == later


def test_going_back_uses_the_old_replica_set_again() -> None:
    objects = deployed()
    objects.change(DEPLOYMENTS, template=with_image("y"))
    objects.settle()
    objects.change(DEPLOYMENTS, template=with_image("x"))
    objects.settle()
    assert sizes(objects) == {"3": 4}
    assert len(objects.all_of(REPLICA_SETS)) == 2
    assert objects.get(DEPLOYMENTS)["metadata"]["annotations"][REVISION] == "3"
    (again,) = [raw for raw in objects.all_of(REPLICA_SETS) if raw["spec"]["replicas"]]
    assert again["metadata"]["annotations"]["deployment.kubernetes.io/revision-history"] == "1"


def test_recreate_waits_until_old_pods_are_gone() -> None:
    objects = deployed(2, strategy={"type": "Recreate"})
    for name in objects.names():
        objects.objects[PODS, name]["metadata"]["finalizers"] = ["example.com/slow"]
    objects.change(DEPLOYMENTS, template=with_image("y"))
    objects.settle()
    assert sizes(objects) == {}
    for raw in objects.all_of(PODS):
        del objects.objects[PODS, raw["metadata"]["name"]]
    objects.settle()
    assert sizes(objects) == {"2": 2}


def test_scaling_during_a_rollout_keeps_the_proportions() -> None:
    """From the documentation of Kubernetes: 10 replicas, surge 3, unavailable 2, stuck at 8 and 5; scaled to 15."""
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}}
    objects = deployed(10, strategy=strategy)
    objects.change(DEPLOYMENTS, template=with_image("y"))
    objects.settle(runs=False)
    assert sizes(objects) == {"1": 8, "2": 5}
    objects.change(DEPLOYMENTS, replicas=15)
    objects.settle(runs=False)
    assert sizes(objects) == {"1": 11, "2": 7}


def test_a_paused_deployment_scales_but_does_not_roll() -> None:
    objects = deployed(2)
    objects.change(DEPLOYMENTS, paused=True, template=with_image("y"), replicas=3)
    objects.settle()
    assert sizes(objects) == {"1": 3}
    assert condition(objects, "Progressing") == ("Unknown", "DeploymentPaused")
    objects.change(DEPLOYMENTS, paused=False)
    objects.settle()
    assert sizes(objects) == {"2": 3}


def test_old_replica_sets_beyond_the_limit_are_deleted() -> None:
    objects = deployed(1, revisionHistoryLimit=1)
    for image in ("a", "b", "c"):
        objects.change(DEPLOYMENTS, template=with_image(image))
        objects.settle()
    assert sorted(raw["metadata"]["annotations"][REVISION] for raw in objects.all_of(REPLICA_SETS)) == ["3", "4"]


def test_a_rollout_without_progress_fails_after_its_deadline() -> None:
    objects = deployed(2, progressDeadlineSeconds=60)
    objects.change(DEPLOYMENTS, template=with_image("y"))
    objects.settle(runs=False)
    again = objects.reconcile(DEPLOYMENTS).again_after_seconds
    assert again is not None
    assert 60 <= again <= 61
    objects.advance(61)
    objects.reconcile(DEPLOYMENTS)
    assert condition(objects, "Progressing") == ("False", "ProgressDeadlineExceeded")
    objects.settle()
    assert condition(objects, "Progressing") == ("True", "NewReplicaSetAvailable")


@pytest.mark.parametrize("empty", [None, {}])
def test_what_api_servers_leave_out_makes_no_new_template(empty: Any) -> None:
    objects = deployed(1)
    template = pod_template()
    template["metadata"]["creationTimestamp"] = None
    template["spec"]["securityContext"] = empty
    objects.change(DEPLOYMENTS, template=template)
    objects.settle()
    assert len(objects.all_of(REPLICA_SETS)) == 1

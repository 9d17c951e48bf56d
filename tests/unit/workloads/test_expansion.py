"""A manifest's pods, before it is submitted."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.resources import CRON_JOBS, DEPLOYMENTS, JOBS, PODS, REPLICA_SETS, STATEFUL_SETS, Resource
from muster.errors import InputError
from muster.workloads import expansion
from muster.workloads.expansion import ExpandedPod, expand
from muster.workloads.types import Controller, Create, Reconciliation
from tests.support.workload_objects import pod_template, workload


def named(pods: tuple[ExpandedPod, ...]) -> list[str]:
    return [expanded.pod["metadata"]["name"] for expanded in pods]


def kinds(expanded: ExpandedPod) -> list[str]:
    return [f"{owner['kind']}/{owner['metadata']['name']}" for owner in expanded.owners]


def test_pods_are_pending_and_have_their_owners() -> None:
    pods = expand([workload(DEPLOYMENTS, replicas=2)])
    assert len(pods) == 2
    first = pods[0]
    assert (first.pod["status"], "nodeName" in first.pod["spec"]) == ({"phase": "Pending"}, False)
    replica_set, deployment = kinds(first)
    assert replica_set.startswith("ReplicaSet/w-")
    assert deployment == "Deployment/w"
    assert first.pod["metadata"]["ownerReferences"][0]["uid"] == first.owners[0]["metadata"]["uid"]


def test_kinds_that_start_in_an_order_get_all_pods() -> None:
    assert named(expand([workload(STATEFUL_SETS, replicas=3)])) == ["w-0", "w-1", "w-2"]


def test_the_owner_is_as_the_manifest_has_it() -> None:
    raw = workload(STATEFUL_SETS, replicas=1, podManagementPolicy="OrderedReady")
    (expanded,) = expand([raw])
    assert expanded.owners[0]["spec"] == raw["spec"]


def test_a_job_has_the_pods_that_run_together() -> None:
    assert len(expand([workload(JOBS, parallelism=2, completions=5)])) == 2


def test_a_cron_job_has_the_pods_of_its_next_job() -> None:
    """Whenever that is."""
    job = {"spec": {"parallelism": 2, "completions": 2, "template": pod_template()}}
    cron = workload(CRON_JOBS, schedule="0 0 29 2 *", jobTemplate=job)
    pods = expand([cron])
    assert len(pods) == 2
    assert kinds(pods[0])[1] == "CronJob/w"


@pytest.mark.parametrize(
    "raw",
    [
        workload(JOBS, suspend=True),
        workload(REPLICA_SETS, replicas=0),
        workload(JOBS, parallelism=0),
        workload(CRON_JOBS, schedule="@daily", suspend=True),
        workload(DEPLOYMENTS, replicas=0),
    ],
)
def test_what_is_suspended_or_empty_has_no_pods(raw: Any) -> None:
    assert expand([raw]) == ()


def test_pods_that_are_there_are_not_made_again() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "w", "uid": "u", "controller": True}
    replica_set = workload(REPLICA_SETS, replicas=3)
    replica_set["metadata"]["uid"] = "u"
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "w-1", "ownerReferences": [owner]}, "spec": {}}
    assert len(expand([replica_set, pod])) == 2


def test_equal_manifests_give_equal_names_and_uids() -> None:
    manifests = [workload(DEPLOYMENTS, replicas=3), workload(JOBS, parallelism=3, completions=3)]
    assert expand(manifests) == expand(manifests)


@given(st.integers(0, 30), st.sampled_from([DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS]))
def test_a_workload_gets_exactly_its_replicas(replicas: int, resource: Resource) -> None:
    pods = expand([workload(resource, replicas=replicas)])
    assert len(pods) == replicas
    assert (
        len({(name, expanded.pod["metadata"]["uid"]) for name, expanded in zip(named(pods), pods, strict=True)})
        == replicas
    )


def test_kinds_without_a_controller_are_left_out() -> None:
    assert expand([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}]) == ()


@pytest.mark.parametrize("raw", [{}, {"apiVersion": [], "kind": {}}, {"apiVersion": "apps/v1", "kind": "Deployment"}])
def test_a_broken_object_is_no_traceback(raw: Any) -> None:
    """A Deployment without anything has one pod without containers: validation says so."""
    assert len(expand([raw])) <= 1


def test_too_many_pods_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expansion, "MOST_PODS", 10)
    with pytest.raises(InputError, match=r"`default/w`: the manifests would have more than 10 pods"):
        expand([workload(REPLICA_SETS, replicas=11)])


def test_a_controller_that_never_settles_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expansion, "MOST_ROUNDS", 10)
    busy = Controller(JOBS, lambda *_: Reconciliation(again_after_seconds=0.0), (PODS,))
    with pytest.raises(InputError, match="does not settle"):
        expand([workload(JOBS)], {JOBS: busy})


def test_a_name_that_is_taken_does_not_end_in_a_loop() -> None:
    taken = Controller(
        JOBS, lambda job, *_: Reconciliation((Create(JOBS, {"metadata": {"name": job["metadata"]["name"]}}),)), (PODS,)
    )
    assert expand([workload(JOBS)], {JOBS: taken}) == ()

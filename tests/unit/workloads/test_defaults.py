"""Defaults as API servers set them."""

from typing import Any

import pytest

from muster.api.resources import CRON_JOBS, DEPLOYMENTS, JOBS, STATEFUL_SETS, Resource
from muster.kube.cluster import Raw
from muster.workloads.defaults import MOST_FAILURES, with_defaults
from tests.support.workload_objects import workload


def defaulted(resource: Resource, **spec: Any) -> Raw:
    raw = workload(resource, **spec)
    raw["metadata"]["uid"] = "u"
    own: Raw = with_defaults(raw)["spec"]
    return own


def test_a_deployment_rolls_by_quarters() -> None:
    spec = defaulted(DEPLOYMENTS)
    assert spec["replicas"] == 1
    assert spec["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"},
    }
    assert "rollingUpdate" not in defaulted(DEPLOYMENTS, strategy={"type": "Recreate"})["strategy"]


def test_a_stateful_set_starts_in_order() -> None:
    spec = defaulted(STATEFUL_SETS)
    assert (spec["podManagementPolicy"], spec["updateStrategy"]["rollingUpdate"]) == ("OrderedReady", {"partition": 0})


@pytest.mark.parametrize(
    ("given", "completions", "parallelism"),
    [({}, 1, 1), ({"parallelism": 3}, None, 3), ({"completions": 4}, 4, 1), ({"completions": None}, 1, 1)],
)
def test_a_job_without_counts_needs_one_pod(given: Raw, completions: int | None, parallelism: int) -> None:
    spec = defaulted(JOBS, **given)
    assert (spec.get("completions"), spec["parallelism"]) == (completions, parallelism)


def test_failures_of_an_index_do_not_count_for_the_job() -> None:
    assert defaulted(JOBS)["backoffLimit"] == 6
    assert defaulted(JOBS, backoffLimitPerIndex=1)["backoffLimit"] == MOST_FAILURES


def test_a_job_without_labels_gets_those_of_its_pods() -> None:
    """Those of the selector included: Kubernetes' own defaults share one map."""
    raw = workload(JOBS)
    raw["metadata"]["uid"] = "u"
    labels = with_defaults(raw)["metadata"]["labels"]
    assert labels == with_defaults(raw)["spec"]["template"]["metadata"]["labels"]
    assert labels["batch.kubernetes.io/controller-uid"] == "u"
    raw["metadata"]["labels"] = {"own": "label"}
    assert with_defaults(raw)["metadata"]["labels"] == {"own": "label"}


def test_a_manual_selector_stays() -> None:
    spec = defaulted(JOBS, manualSelector=True)
    assert spec["selector"] == {"matchLabels": {"app": "x"}}
    assert spec["template"]["metadata"]["labels"] == {"app": "x"}


def test_defaults_change_nothing_twice() -> None:
    for resource in (DEPLOYMENTS, STATEFUL_SETS, JOBS, CRON_JOBS):
        raw = workload(resource)
        raw["metadata"]["uid"] = "u"
        assert with_defaults(with_defaults(raw)) == with_defaults(raw)


@pytest.mark.parametrize(
    "raw", [{}, {"apiVersion": [], "kind": 3}, {"apiVersion": "batch/v1", "kind": "Job", "spec": 3}]
)
def test_what_is_no_workload_stays(raw: Any) -> None:
    assert with_defaults(raw) == raw

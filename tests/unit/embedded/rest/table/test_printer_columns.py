"""Printer columns."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from muster.api.resources import POD_GROUPS
from muster.embedded.cluster_store import ClusterStore
from muster.embedded.rest.table import printer_columns, workload_columns
from muster.embedded.rest.table.kind_columns import columns_of
from muster.embedded.store.kinds import BUILT_IN, kinds_of_crd

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0, "0s"), (119, "119s"), (120, "2m"), (125, "2m5s"), (600, "10m"), (3 * 3600, "3h"), (3 * 3600 + 420, "3h7m"),
     (9 * 3600, "9h"), (2 * 86400, "2d"), (2 * 86400 + 3600, "2d1h"), (9 * 86400, "9d"), (800 * 86400, "2y70d"),
     (730 * 86400, "2y"), (3000 * 86400, "8y")],
)  # fmt: skip
def test_ages_are_printed_as_by_kubectl(seconds: int, expected: str) -> None:
    text = (NOW - timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")
    assert printer_columns.age(text, NOW) == expected


def test_the_age_of_no_time_is_unknown() -> None:
    assert printer_columns.age(None, NOW) == "<unknown>"
    assert printer_columns.age("2027-01-01T00:00:00Z", NOW) == "<invalid>"


def _row(kind: tuple[printer_columns.Column, ...], raw: Any) -> dict[str, Any]:
    return {column.name: column.cell(raw, NOW) for column in kind}


def test_the_row_of_a_pod_shows_its_state() -> None:
    raw: Any = {
        "metadata": {"name": "a", "creationTimestamp": "2025-12-31T23:59:00Z"},
        "spec": {"containers": [{}, {}], "nodeName": "n"},
        "status": {"phase": "Running", "containerStatuses": [{"ready": True, "restartCount": 2}]},
    }
    row = _row(printer_columns.POD, raw)
    assert row["Ready"] == "1/2"
    assert (row["Status"], row["Restarts"], row["Age"], row["Node"]) == ("Running", "2", "60s", "n")
    assert _row(printer_columns.POD, {**raw, "status": {"phase": "Succeeded"}})["Status"] == "Completed"
    terminating = {**raw, "metadata": {**raw["metadata"], "deletionTimestamp": "x"}}
    assert _row(printer_columns.POD, terminating)["Status"] == "Terminating"


def test_the_row_of_a_node_shows_whether_it_is_ready() -> None:
    raw: Any = {
        "metadata": {"name": "n", "labels": {"node-role.kubernetes.io/gpu": ""}},
        "spec": {"unschedulable": True},
    }
    raw["status"] = {"conditions": [{"type": "Ready", "status": "True"}]}
    row = _row(printer_columns.NODE, raw)
    assert (row["Status"], row["Roles"]) == ("Ready,SchedulingDisabled", "gpu")


def test_the_row_of_a_workload_shows_its_containers() -> None:
    """`-o wide`: containers, images, and the selector by key."""
    selector = {"matchLabels": {"z": "1", "a": "2"}, "matchExpressions": [{"key": "b", "operator": "DoesNotExist"}]}
    pods = {"spec": {"containers": [{"name": "a", "image": "x:1"}, {"name": "b", "image": "y:2"}]}}
    raw: Any = {"metadata": {"name": "d"}, "spec": {"replicas": 2, "selector": selector, "template": pods}}
    row = _row(workload_columns.DEPLOYMENT, raw)
    assert (row["Ready"], row["Containers"], row["Images"]) == ("0/2", "a,b", "x:1,y:2")
    assert row["Selector"] == "a=2,!b,z=1"
    nested: Any = {"metadata": {"name": "c"}, "spec": {"schedule": "@daily", "jobTemplate": {"spec": raw["spec"]}}}
    row = _row(workload_columns.CRON_JOB, nested)
    assert (row["Schedule"], row["Suspend"], row["Last Schedule"], row["Images"]) == (
        "@daily",
        "False",
        "<none>",
        "x:1,y:2",
    )


@pytest.mark.parametrize(
    ("status", "metadata", "shown"),
    [
        ({}, {}, ("Running", "0/1", "")),
        ({"startTime": "2025-12-31T23:55:00Z"}, {}, ("Running", "0/1", "5m")),
        (
            {
                "startTime": "2025-12-31T23:00:00Z",
                "completionTime": "2025-12-31T23:01:00Z",
                "succeeded": 1,
                "conditions": [{"type": "Complete", "status": "True"}],
            },
            {"deletionTimestamp": "2026-01-01T00:00:00Z"},
            ("Complete", "1/1", "60s"),
        ),
        (
            {"conditions": [{"type": "Suspended", "status": "True"}]},
            {"deletionTimestamp": "2026-01-01T00:00:00Z"},
            ("Terminating", "0/1", ""),
        ),
        ({"conditions": [{"type": "Suspended", "status": "True"}]}, {}, ("Suspended", "0/1", "")),
    ],
)
def test_the_row_of_a_job_shows_its_progress(status: Any, metadata: Any, shown: Any) -> None:
    row = _row(workload_columns.JOB, {"metadata": {"name": "j", **metadata}, "spec": {}, "status": status})
    assert (row["Status"], row["Completions"], row["Duration"]) == shown


def test_every_column_can_show_an_empty_object() -> None:
    for kind in (*BUILT_IN, *ClusterStore().kinds):
        for column in columns_of(kind):
            column.cell({"metadata": {"name": "a"}}, NOW)


def test_columns_of_custom_kinds_come_from_their_crd() -> None:
    kind = ClusterStore().kind(POD_GROUPS.group, POD_GROUPS.version, POD_GROUPS.plural)
    raw: Any = {"metadata": {"name": "g"}, "spec": {"queue": "q", "minMember": 3}}
    raw["status"] = {"conditions": [{"type": "Scheduled", "reason": "Fits"}]}
    row = _row(columns_of(kind), raw)
    assert (row["Name"], row["Queue"], row["Min-Pods"], row["Reason"]) == ("g", "q", 3, "Fits")
    names = {"kind": "K", "plural": "ks"}
    spec = {"group": "g", "scope": "Cluster", "names": names, "versions": [{"name": "v1"}]}
    bare = kinds_of_crd({"spec": spec})[0]
    assert [column.name for column in columns_of(bare)] == ["Name", "Age"]

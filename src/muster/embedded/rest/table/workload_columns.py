"""Printer columns of workloads and of the scale subresource."""

from datetime import datetime
from typing import Any

from muster.api.moment import parse_time
from muster.embedded.rest.table.printer_columns import (
    AGE,
    NAME,
    Cell,
    CellFunction,
    Column,
    age,
    path_column,
    short_duration,
)
from muster.embedded.store.selectors import selector_text
from muster.kube.cluster import Raw

_JOB_TEMPLATE = "jobTemplate"
_TERMINATING = "Terminating"
# the status of a job is the first of these that is true
_JOB_STATES = ("Complete", "Failed", _TERMINATING, "Suspended", "FailureTarget", "SuccessCriteriaMet")


def _pod_owner_spec(raw: Raw) -> Any:
    """The spec with the pod template and its selector; of a CronJob, that of its job template."""
    spec = raw.get("spec", {})
    return spec.get(_JOB_TEMPLATE, {}).get("spec", {}) if _JOB_TEMPLATE in spec else spec


def _container_fields(field: str) -> CellFunction:
    def cell(raw: Raw, _: datetime) -> Cell:
        containers = _pod_owner_spec(raw).get("template", {}).get("spec", {}).get("containers") or ()
        return ",".join(str(item.get(field, "")) for item in containers)

    return cell


def _selector(empty: str) -> CellFunction:
    return lambda raw, _: selector_text(_pod_owner_spec(raw).get("selector")) or empty


def _replicas(raw: Raw, _: datetime) -> Cell:
    return f"{raw.get('status', {}).get('readyReplicas', 0)}/{raw.get('spec', {}).get('replicas', 1)}"


def _completions(raw: Raw, _: datetime) -> Cell:
    spec, done = raw.get("spec", {}), raw.get("status", {}).get("succeeded", 0)
    if "completions" in spec:
        return f"{done}/{spec['completions']}"
    parallelism = spec.get("parallelism", 0)
    return f"{done}/1 of {parallelism}" if parallelism > 1 else f"{done}/1"


def _duration(raw: Raw, now: datetime) -> Cell:
    status = raw.get("status", {})
    start, end = parse_time(status.get("startTime", "")), parse_time(status.get("completionTime", ""))
    return short_duration(int(((end or now) - start).total_seconds())) if start else ""


def _job_status(raw: Raw, _: datetime) -> Cell:
    conditions = raw.get("status", {}).get("conditions", ())
    true_conditions = [item.get("type") for item in conditions if item.get("status") == "True"]
    if raw["metadata"].get("deletionTimestamp"):
        true_conditions.append(_TERMINATING)
    return next((state for state in _JOB_STATES if state in true_conditions), "Running")


def _suspended(raw: Raw, _: datetime) -> Cell:
    return "True" if raw.get("spec", {}).get("suspend") else "False"


def _active(raw: Raw, _: datetime) -> Cell:
    return len(raw.get("status", {}).get("active") or ())


def _last_schedule(raw: Raw, now: datetime) -> Cell:
    last = raw.get("status", {}).get("lastScheduleTime")
    return age(last, now) if last else "<none>"


def _node_selector(raw: Raw, _: datetime) -> Cell:
    labels = _pod_owner_spec(raw).get("template", {}).get("spec", {}).get("nodeSelector")
    return selector_text({"matchLabels": labels}) or "<none>"


def _count_column(name: str, field: str) -> Column:
    return path_column(name, f".status.{field}", "integer", empty=0)


_CONTAINERS = (
    Column("Containers", _container_fields("name"), priority=1),
    Column("Images", _container_fields("image"), priority=1),
)
_WIDE = (*_CONTAINERS, Column("Selector", _selector("<none>"), priority=1))
DEPLOYMENT = (
    NAME,
    Column("Ready", _replicas),
    path_column("Up-to-date", ".status.updatedReplicas", empty=0),
    path_column("Available", ".status.availableReplicas", empty=0),
    AGE,
    *_CONTAINERS,
    Column("Selector", _selector(""), priority=1),
)
REPLICA_SET = (
    NAME,
    path_column("Desired", ".spec.replicas", "integer", empty=1),
    _count_column("Current", "replicas"),
    _count_column("Ready", "readyReplicas"),
    AGE,
    *_WIDE,
)
STATEFUL_SET = (NAME, Column("Ready", _replicas), AGE, *_CONTAINERS)
DAEMON_SET = (
    NAME,
    _count_column("Desired", "desiredNumberScheduled"),
    _count_column("Current", "currentNumberScheduled"),
    _count_column("Ready", "numberReady"),
    _count_column("Up-to-date", "updatedNumberScheduled"),
    _count_column("Available", "numberAvailable"),
    Column("Node Selector", _node_selector),
    AGE,
    *_WIDE,
)
JOB = (
    NAME,
    Column("Status", _job_status),
    Column("Completions", _completions),
    Column("Duration", _duration),
    AGE,
    *_WIDE,
)
CRON_JOB = (
    NAME,
    path_column("Schedule", ".spec.schedule", empty=""),
    path_column("Timezone", ".spec.timeZone"),
    Column("Suspend", _suspended, "boolean"),
    Column("Active", _active, "integer"),
    Column("Last Schedule", _last_schedule),
    AGE,
    *_WIDE,
)
SCALE = (
    Column("Name", NAME.cell),
    path_column("Desired", ".spec.replicas", "integer", empty=0),
    path_column("Available", ".status.replicas", "integer", empty=0),
    AGE,
)

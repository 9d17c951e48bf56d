"""How workloads are shown in a table: what they run, how far they are, and the Scale of those that have one."""

from datetime import datetime
from typing import Any

from muster.api.moment import moment
from muster.embedded.rest.table.printer_columns import AGE, NAME, Cell, Cells, Column, age, path, short_duration
from muster.embedded.store.selectors import selector_text
from muster.kube.cluster import Raw

_JOB_TEMPLATE = "jobTemplate"
_GOING = "Terminating"
_JOB_STATES = ("Complete", "Failed", _GOING, "Suspended", "FailureTarget", "SuccessCriteriaMet")  # the first that holds


def _work(raw: Raw) -> Any:
    """The spec that has the selector and the template of the pods."""
    spec = raw.get("spec", {})
    return spec.get(_JOB_TEMPLATE, {}).get("spec", {}) if _JOB_TEMPLATE in spec else spec


def _of_containers(field: str) -> Cells:
    def cell(raw: Raw, _: datetime) -> Cell:
        containers = _work(raw).get("template", {}).get("spec", {}).get("containers") or ()
        return ",".join(str(one.get(field, "")) for one in containers)

    return cell


def _selector(empty: str) -> Cells:
    return lambda raw, _: selector_text(_work(raw).get("selector")) or empty


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
    start, end = moment(status.get("startTime", "")), moment(status.get("completionTime", ""))
    return short_duration(int(((end or now) - start).total_seconds())) if start else ""


def _job_status(raw: Raw, _: datetime) -> Cell:
    conditions = raw.get("status", {}).get("conditions", ())
    holds = [one.get("type") for one in conditions if one.get("status") == "True"]
    if raw["metadata"].get("deletionTimestamp"):
        holds.append(_GOING)
    return next((state for state in _JOB_STATES if state in holds), "Running")


def _suspended(raw: Raw, _: datetime) -> Cell:
    return "True" if raw.get("spec", {}).get("suspend") else "False"


def _active(raw: Raw, _: datetime) -> Cell:
    return len(raw.get("status", {}).get("active") or ())


def _last_schedule(raw: Raw, now: datetime) -> Cell:
    last = raw.get("status", {}).get("lastScheduleTime")
    return age(last, now) if last else "<none>"


def _node_selector(raw: Raw, _: datetime) -> Cell:
    found = _work(raw).get("template", {}).get("spec", {}).get("nodeSelector")
    return selector_text({"matchLabels": found}) or "<none>"


def _counted(name: str, field: str) -> Column:
    return path(name, f".status.{field}", "integer", empty=0)


_RUNS = (
    Column("Containers", _of_containers("name"), priority=1),
    Column("Images", _of_containers("image"), priority=1),
)
_WIDE = (*_RUNS, Column("Selector", _selector("<none>"), priority=1))
DEPLOYMENT = (
    NAME,
    Column("Ready", _replicas),
    path("Up-to-date", ".status.updatedReplicas", empty=0),
    path("Available", ".status.availableReplicas", empty=0),
    AGE,
    *_RUNS,
    Column("Selector", _selector(""), priority=1),
)
REPLICA_SET = (
    NAME,
    path("Desired", ".spec.replicas", "integer", empty=1),
    _counted("Current", "replicas"),
    _counted("Ready", "readyReplicas"),
    AGE,
    *_WIDE,
)
STATEFUL_SET = (NAME, Column("Ready", _replicas), AGE, *_RUNS)
DAEMON_SET = (
    NAME,
    _counted("Desired", "desiredNumberScheduled"),
    _counted("Current", "currentNumberScheduled"),
    _counted("Ready", "numberReady"),
    _counted("Up-to-date", "updatedNumberScheduled"),
    _counted("Available", "numberAvailable"),
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
    path("Schedule", ".spec.schedule", empty=""),
    path("Timezone", ".spec.timeZone"),
    Column("Suspend", _suspended, "boolean"),
    Column("Active", _active, "integer"),
    Column("Last Schedule", _last_schedule),
    AGE,
    *_WIDE,
)
SCALE = (
    Column("Name", NAME.cell),
    path("Desired", ".spec.replicas", "integer", empty=0),
    path("Available", ".status.replicas", "integer", empty=0),
    AGE,
)

"""How objects are shown in a table: a column is a name and a function from an object, and the time, to a cell."""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from msgspec import Struct

from muster.api.moment import moment
from muster.embedded.rest.table.jsonpath import found
from muster.embedded.store.selectors import selector_text
from muster.kube.cluster import Raw

# fields of events, as `v1` and as `events.k8s.io` name them
_ABOUT = ("involvedObject", "regarding")
_LAST = ("lastTimestamp", "deprecatedLastTimestamp")
_BEGUN = ("firstTimestamp", "deprecatedFirstTimestamp", "eventTime")
_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}

Cell = str | int | float | bool | None
Cells = Callable[[Raw, datetime], Cell]


class Column(Struct, frozen=True, eq=False):
    """One column. `priority` above 0: only with `-o wide`."""

    name: str
    cell: Cells
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0


def path(name: str, expression: str, kind: str = "string", priority: int = 0, empty: Cell = "<none>") -> Column:
    """A column that shows what a JSONPath finds."""
    return Column(name, lambda raw, now: _shown(raw, expression, kind, now, empty), kind, priority=priority)


def from_paths(columns: Iterable[Raw]) -> tuple[Column, ...]:
    """Name and the columns that a CRD asks for; Age where it asks for none."""
    own = tuple(
        path(one["name"], one["jsonPath"], one.get("type", "string"), one.get("priority", 0), empty=None)
        for one in columns
    )
    return (NAME, *(own or (AGE,)))


def age(since: Any, now: datetime) -> str:
    """How long ago, as kubectl words it: two units below a certain size, one above."""
    start = moment(since) if isinstance(since, str) else None
    if start is None:
        return "<unknown>"
    seconds = int((now - start).total_seconds())
    return "<invalid>" if seconds < -1 else short_duration(max(seconds, 0))


def short_duration(seconds: int) -> str:
    """`119s`, `2m5s`, `3h7m`, `4d`, `6y321d`: Kubernetes' HumanDuration."""
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    table = (
        (seconds < 120, f"{seconds}s"),
        (minutes < 10, f"{minutes}m{_rest(seconds % 60, 's')}"),
        (minutes < 180, f"{minutes}m"),
        (hours < 8, f"{hours}h{_rest(minutes % 60, 'm')}"),
        (hours < 48, f"{hours}h"),
        (days < 8, f"{days}d{_rest(hours % 24, 'h')}"),
        (days < 730, f"{days}d"),
        (days < 8 * 365, f"{days // 365}y{_rest(days % 365, 'd')}"),
    )
    return next((text for fits, text in table if fits), f"{days // 365}y")


def _rest(number: int, unit: str) -> str:
    return f"{number}{unit}" if number else ""


def _shown(raw: Raw, expression: str, kind: str, now: datetime, empty: Cell) -> Cell:
    values = found(raw, expression)
    if not values:
        return empty
    if kind == "date":
        return age(values[0], now)
    if len(values) == 1 and isinstance(values[0], str | int | float | bool):
        return values[0]
    return ",".join(str(value) for value in values)


def _ready(raw: Raw, _: datetime) -> Cell:
    states = raw.get("status", {}).get("containerStatuses", ())
    return f"{sum(bool(one.get('ready')) for one in states)}/{len(raw.get('spec', {}).get('containers', ()))}"


def _pod_status(raw: Raw, _: datetime) -> Cell:
    status = raw.get("status", {})
    if raw["metadata"].get("deletionTimestamp"):
        return "Terminating"
    gated = any(
        one.get("type") == "PodScheduled" and one.get("reason") == "SchedulingGated"
        for one in status.get("conditions", ())
    )
    if gated:
        return "SchedulingGated"
    if status.get("reason"):
        return str(status["reason"])
    phase = str(status.get("phase") or "Pending")
    return {"Succeeded": "Completed", "Failed": "Error"}.get(phase, phase)


def _restarts(raw: Raw, _: datetime) -> Cell:
    return str(sum(one.get("restartCount", 0) for one in raw.get("status", {}).get("containerStatuses", ())))


def _gates(raw: Raw, _: datetime) -> Cell:
    conditions = [one for gate in raw.get("spec", {}).get("readinessGates", ()) for one in (gate["conditionType"],)]
    true = {one["type"] for one in raw.get("status", {}).get("conditions", ()) if one.get("status") == "True"}
    return f"{sum(one in true for one in conditions)}/{len(conditions)}" if conditions else "<none>"


def _node_status(raw: Raw, _: datetime) -> Cell:
    ready = [one.get("status") for one in raw.get("status", {}).get("conditions", ()) if one.get("type") == "Ready"]
    word = "Unknown" if not ready else "Ready" if ready[0] == "True" else "NotReady"
    return f"{word},SchedulingDisabled" if raw.get("spec", {}).get("unschedulable") else word


def _roles(raw: Raw, _: datetime) -> Cell:
    prefix = "node-role.kubernetes.io/"
    found_roles = sorted(
        label[len(prefix) :] for label in raw["metadata"].get("labels", {}) if label.startswith(prefix)
    )
    return ",".join(found_roles) or "<none>"


def _address(kind: str) -> Cells:
    def cell(raw: Raw, _: datetime) -> Cell:
        all_of_them = raw.get("status", {}).get("addresses", ())
        return next((one["address"] for one in all_of_them if one.get("type") == kind), "<none>")

    return cell


def _count(field: str) -> Cells:
    return lambda raw, _: len(raw.get(field) or ())


def _first(raw: Raw, *names: str) -> Any:
    """The first of some fields that says something."""
    return next((raw[name] for name in names if raw.get(name)), None)


def _last_seen(raw: Raw, now: datetime) -> Cell:
    series = (raw.get("series") or {}).get("lastObservedTime")
    return age(series, now) if series else age(_first(raw, *_LAST, *_BEGUN), now)


def _first_seen(raw: Raw, now: datetime) -> Cell:
    return age(_first(raw, *_BEGUN), now)


def _about(raw: Raw, _: datetime) -> Cell:
    what = _first(raw, *_ABOUT) or {}
    return f"{str(what.get('kind', '')).lower()}/{what.get('name', '')}"


def _part(raw: Raw, _: datetime) -> Cell:
    return str((_first(raw, *_ABOUT) or {}).get("fieldPath", ""))


def _source(raw: Raw, _: datetime) -> Cell:
    source = _first(raw, "source", "deprecatedSource") or {}
    who = source.get("component") or _first(raw, "reportingComponent", "reportingController") or ""
    where = source.get("host") or raw.get("reportingInstance") or ""
    return f"{who}, {where}" if where else who


def _times(raw: Raw, _: datetime) -> Cell:
    return (raw.get("series") or {}).get("count") or _first(raw, "count", "deprecatedCount") or 1


def _message(raw: Raw, _: datetime) -> Cell:
    return str(_first(raw, "message", "note") or "").strip()


def _ports(raw: Raw, _: datetime) -> Cell:
    return ",".join(_port(one) for one in raw.get("spec", {}).get("ports", ())) or "<none>"


def _port(one: Raw) -> str:
    node = f":{one['nodePort']}" if one.get("nodePort") else ""
    return f"{one.get('port')}{node}/{one.get('protocol', 'TCP')}"


def _external(raw: Raw, _: datetime) -> Cell:
    spec, ingress = raw.get("spec", {}), raw.get("status", {}).get("loadBalancer", {}).get("ingress", ())
    kind = spec.get("type", "ClusterIP")
    if kind == "ExternalName":
        return str(spec.get("externalName", ""))
    balanced = kind == "LoadBalancer"
    places = [one.get("ip") or one.get("hostname") for one in ingress] if balanced else []
    places += spec.get("externalIPs", ())
    return ",".join(places) or ("<pending>" if balanced else "<none>")


def _selected(raw: Raw, _: datetime) -> Cell:
    return selector_text({"matchLabels": raw.get("spec", {}).get("selector")}) or "<none>"


def _modes(part: str) -> Cells:
    return lambda raw, _: ",".join(_MODES.get(one, str(one)) for one in raw.get(part, {}).get("accessModes") or ())


def _claim(raw: Raw, _: datetime) -> Cell:
    claim = raw.get("spec", {}).get("claimRef")
    return f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else ""


NAME = Column("Name", lambda raw, _: raw["metadata"].get("name"), format="name")
AGE = Column("Age", lambda raw, now: age(raw["metadata"].get("creationTimestamp"), now))
PLAIN = (NAME, AGE)
POD = (
    NAME,
    Column("Ready", _ready),
    Column("Status", _pod_status),
    Column("Restarts", _restarts),
    AGE,
    path("IP", ".status.podIP", priority=1),
    path("Node", ".spec.nodeName", priority=1),
    path("Nominated Node", ".status.nominatedNodeName", priority=1),
    Column("Readiness Gates", _gates, priority=1),
)
NODE = (
    NAME,
    Column("Status", _node_status),
    Column("Roles", _roles),
    AGE,
    path("Version", ".status.nodeInfo.kubeletVersion", empty=""),
    Column("Internal-IP", _address("InternalIP"), priority=1),
    Column("External-IP", _address("ExternalIP"), priority=1),
    path("OS-Image", ".status.nodeInfo.osImage", priority=1, empty="<unknown>"),
    path("Kernel-Version", ".status.nodeInfo.kernelVersion", priority=1, empty="<unknown>"),
    path("Container-Runtime", ".status.nodeInfo.containerRuntimeVersion", priority=1, empty="<unknown>"),
)
NAMESPACE = (NAME, path("Status", ".status.phase"), AGE)
EVENT = (
    Column("Last Seen", _last_seen),
    path("Type", ".type"),
    path("Reason", ".reason"),
    Column("Object", _about),
    Column("Subobject", _part, priority=1),
    Column("Source", _source, priority=1),
    Column("Message", _message),
    Column("First Seen", _first_seen, priority=1),
    Column("Count", _times, priority=1),
    Column("Name", NAME.cell, format="name", priority=1),
)
SERVICE = (
    NAME,
    path("Type", ".spec.type", empty="ClusterIP"),
    path("Cluster-IP", ".spec.clusterIP"),
    Column("External-IP", _external),
    Column("Port(s)", _ports),
    AGE,
    Column("Selector", _selected, priority=1),
)
CONFIG_MAP = (NAME, Column("Data", _count("data")), AGE)
SECRET = (NAME, path("Type", ".type", empty="Opaque"), Column("Data", _count("data")), AGE)
_ATTRIBUTES = path("VolumeAttributesClass", ".spec.volumeAttributesClassName", empty="<unset>")
_VOLUME_MODE = path("VolumeMode", ".spec.volumeMode", priority=1, empty="Filesystem")
VOLUME = (
    NAME,
    path("Capacity", ".spec.capacity.storage", empty="0"),
    Column("Access Modes", _modes("spec")),
    path("Reclaim Policy", ".spec.persistentVolumeReclaimPolicy", empty="Retain"),
    path("Status", ".status.phase", empty="Available"),
    Column("Claim", _claim),
    path("StorageClass", ".spec.storageClassName", empty=""),
    _ATTRIBUTES,
    path("Reason", ".status.reason", empty=""),
    AGE,
    _VOLUME_MODE,
)
CLAIM = (
    NAME,
    path("Status", ".status.phase", empty="Pending"),
    path("Volume", ".spec.volumeName", empty=""),
    path("Capacity", ".status.capacity.storage", empty=""),
    Column("Access Modes", _modes("status")),
    path("StorageClass", ".spec.storageClassName", empty=""),
    _ATTRIBUTES,
    AGE,
    _VOLUME_MODE,
)
BUDGET = (
    NAME,
    path("Min Available", ".spec.minAvailable", empty="N/A"),
    path("Max Unavailable", ".spec.maxUnavailable", empty="N/A"),
    path("Allowed Disruptions", ".status.disruptionsAllowed", "integer", empty=0),
    AGE,
)
PRIORITY = (
    NAME,
    path("Value", ".value", "integer", empty=0),
    path("Global-Default", ".globalDefault", "boolean", empty=False),
    AGE,
    path("PreemptionPolicy", ".preemptionPolicy", empty=""),
)
STORAGE_CLASS = (
    NAME,
    path("Provisioner", ".provisioner", empty=""),
    path("ReclaimPolicy", ".reclaimPolicy", empty="Delete"),
    path("VolumeBindingMode", ".volumeBindingMode", empty="Immediate"),
    path("AllowVolumeExpansion", ".allowVolumeExpansion", "boolean", empty=False),
    AGE,
)
LEASE = (NAME, path("Holder", ".spec.holderIdentity", empty=""), AGE)
DEFINITION = (NAME, Column("Created At", lambda raw, _: raw["metadata"].get("creationTimestamp"), "date"))
WEBHOOKS = (NAME, Column("Webhooks", _count("webhooks"), "integer"), AGE)

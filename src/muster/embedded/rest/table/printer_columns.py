"""Printer columns: a column is a name and a function from an object and the time to a cell."""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from msgspec import Struct

from muster.api.jsonpath import evaluate
from muster.api.moment import parse_time
from muster.embedded.store.selectors import selector_text
from muster.kube.cluster import Raw

# fields of events, as `v1` and as `events.k8s.io` name them
_INVOLVED = ("involvedObject", "regarding")
_LAST_TIMES = ("lastTimestamp", "deprecatedLastTimestamp")
_FIRST_TIMES = ("firstTimestamp", "deprecatedFirstTimestamp", "eventTime")
_ACCESS_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}

Cell = str | int | float | bool | None
CellFunction = Callable[[Raw, datetime], Cell]


class Column(Struct, frozen=True, eq=False):
    """One column. `priority` above 0: only with `-o wide`."""

    name: str
    cell: CellFunction
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0


def path_column(name: str, expression: str, kind: str = "string", priority: int = 0, empty: Cell = "<none>") -> Column:
    """A column with the value at a JSONPath."""
    return Column(name, lambda raw, now: _path_cell(raw, expression, kind, now, empty), kind, priority=priority)


def from_paths(columns: Iterable[Raw]) -> tuple[Column, ...]:
    """Name and the additionalPrinterColumns of a CRD; Name and Age where it has none."""
    additional = tuple(
        path_column(item["name"], item["jsonPath"], item.get("type", "string"), item.get("priority", 0), empty=None)
        for item in columns
    )
    return (NAME, *(additional or (AGE,)))


def age(since: Any, now: datetime) -> str:
    """How long ago a timestamp was, as kubectl prints it."""
    start = parse_time(since) if isinstance(since, str) else None
    if start is None:
        return "<unknown>"
    seconds = int((now - start).total_seconds())
    return "<invalid>" if seconds < -1 else short_duration(max(seconds, 0))


def short_duration(seconds: int) -> str:
    """`119s`, `2m5s`, `3h7m`, `4d`, `6y321d`: Kubernetes' HumanDuration."""
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    table = (
        (seconds < 120, f"{seconds}s"),
        (minutes < 10, f"{minutes}m{_nonzero(seconds % 60, 's')}"),
        (minutes < 180, f"{minutes}m"),
        (hours < 8, f"{hours}h{_nonzero(minutes % 60, 'm')}"),
        (hours < 48, f"{hours}h"),
        (days < 8, f"{days}d{_nonzero(hours % 24, 'h')}"),
        (days < 730, f"{days}d"),
        (days < 8 * 365, f"{days // 365}y{_nonzero(days % 365, 'd')}"),
    )
    return next((text for fits, text in table if fits), f"{days // 365}y")


def _nonzero(number: int, unit: str) -> str:
    return f"{number}{unit}" if number else ""


def _path_cell(raw: Raw, expression: str, kind: str, now: datetime, empty: Cell) -> Cell:
    values = evaluate(raw, expression)
    if not values:
        return empty
    if kind == "date":
        return age(values[0], now)
    if len(values) == 1 and isinstance(values[0], str | int | float | bool):
        return values[0]
    return ",".join(str(value) for value in values)


def _ready(raw: Raw, _: datetime) -> Cell:
    states = raw.get("status", {}).get("containerStatuses", ())
    return f"{sum(bool(item.get('ready')) for item in states)}/{len(raw.get('spec', {}).get('containers', ()))}"


def _pod_status(raw: Raw, _: datetime) -> Cell:
    status = raw.get("status", {})
    if raw["metadata"].get("deletionTimestamp"):
        return "Terminating"
    gated = any(
        item.get("type") == "PodScheduled" and item.get("reason") == "SchedulingGated"
        for item in status.get("conditions", ())
    )
    if gated:
        return "SchedulingGated"
    if status.get("reason"):
        return str(status["reason"])
    phase = str(status.get("phase") or "Pending")
    return {"Succeeded": "Completed", "Failed": "Error"}.get(phase, phase)


def _restarts(raw: Raw, _: datetime) -> Cell:
    return str(sum(item.get("restartCount", 0) for item in raw.get("status", {}).get("containerStatuses", ())))


def _gates(raw: Raw, _: datetime) -> Cell:
    gates = [gate["conditionType"] for gate in raw.get("spec", {}).get("readinessGates", ())]
    conditions = raw.get("status", {}).get("conditions", ())
    ready = {condition["type"] for condition in conditions if condition.get("status") == "True"}
    return f"{sum(gate in ready for gate in gates)}/{len(gates)}" if gates else "<none>"


def _node_status(raw: Raw, _: datetime) -> Cell:
    ready = [item.get("status") for item in raw.get("status", {}).get("conditions", ()) if item.get("type") == "Ready"]
    status = "Unknown" if not ready else "Ready" if ready[0] == "True" else "NotReady"
    return f"{status},SchedulingDisabled" if raw.get("spec", {}).get("unschedulable") else status


def _roles(raw: Raw, _: datetime) -> Cell:
    prefix = "node-role.kubernetes.io/"
    roles = sorted(label[len(prefix) :] for label in raw["metadata"].get("labels", {}) if label.startswith(prefix))
    return ",".join(roles) or "<none>"


def _address(kind: str) -> CellFunction:
    def cell(raw: Raw, _: datetime) -> Cell:
        addresses = raw.get("status", {}).get("addresses", ())
        return next((item["address"] for item in addresses if item.get("type") == kind), "<none>")

    return cell


def _count(field: str) -> CellFunction:
    return lambda raw, _: len(raw.get(field) or ())


def _first(raw: Raw, *names: str) -> Any:
    """The value of the first field that is set."""
    return next((raw[name] for name in names if raw.get(name)), None)


def _last_seen(raw: Raw, now: datetime) -> Cell:
    series = (raw.get("series") or {}).get("lastObservedTime")
    return age(series, now) if series else age(_first(raw, *_LAST_TIMES, *_FIRST_TIMES), now)


def _first_seen(raw: Raw, now: datetime) -> Cell:
    return age(_first(raw, *_FIRST_TIMES), now)


def _involved_object(raw: Raw, _: datetime) -> Cell:
    reference = _first(raw, *_INVOLVED) or {}
    return f"{str(reference.get('kind', '')).lower()}/{reference.get('name', '')}"


def _field_path(raw: Raw, _: datetime) -> Cell:
    return str((_first(raw, *_INVOLVED) or {}).get("fieldPath", ""))


def _source(raw: Raw, _: datetime) -> Cell:
    source = _first(raw, "source", "deprecatedSource") or {}
    component = source.get("component") or _first(raw, "reportingComponent", "reportingController") or ""
    host = source.get("host") or raw.get("reportingInstance") or ""
    return f"{component}, {host}" if host else component


def _occurrences(raw: Raw, _: datetime) -> Cell:
    return (raw.get("series") or {}).get("count") or _first(raw, "count", "deprecatedCount") or 1


def _message(raw: Raw, _: datetime) -> Cell:
    return str(_first(raw, "message", "note") or "").strip()


def _ports(raw: Raw, _: datetime) -> Cell:
    return ",".join(_port(item) for item in raw.get("spec", {}).get("ports", ())) or "<none>"


def _port(port: Raw) -> str:
    node = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port.get('port')}{node}/{port.get('protocol', 'TCP')}"


def _external(raw: Raw, _: datetime) -> Cell:
    spec, ingress = raw.get("spec", {}), raw.get("status", {}).get("loadBalancer", {}).get("ingress", ())
    kind = spec.get("type", "ClusterIP")
    if kind == "ExternalName":
        return str(spec.get("externalName", ""))
    is_balanced = kind == "LoadBalancer"
    addresses = [item.get("ip") or item.get("hostname") for item in ingress] if is_balanced else []
    addresses += spec.get("externalIPs", ())
    return ",".join(addresses) or ("<pending>" if is_balanced else "<none>")


def _scaled_object(raw: Raw, _: datetime) -> Cell:
    target = raw.get("spec", {}).get("scaleTargetRef") or {}
    return f"{target.get('kind', '')}/{target.get('name', '')}"


def _service_selector(raw: Raw, _: datetime) -> Cell:
    return selector_text({"matchLabels": raw.get("spec", {}).get("selector")}) or "<none>"


def _access_modes(part: str) -> CellFunction:
    def cell(raw: Raw, _: datetime) -> Cell:
        modes = raw.get(part, {}).get("accessModes") or ()
        return ",".join(_ACCESS_MODES.get(mode, str(mode)) for mode in modes)

    return cell


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
    path_column("IP", ".status.podIP", priority=1),
    path_column("Node", ".spec.nodeName", priority=1),
    path_column("Nominated Node", ".status.nominatedNodeName", priority=1),
    Column("Readiness Gates", _gates, priority=1),
)
NODE = (
    NAME,
    Column("Status", _node_status),
    Column("Roles", _roles),
    AGE,
    path_column("Version", ".status.nodeInfo.kubeletVersion", empty=""),
    Column("Internal-IP", _address("InternalIP"), priority=1),
    Column("External-IP", _address("ExternalIP"), priority=1),
    path_column("OS-Image", ".status.nodeInfo.osImage", priority=1, empty="<unknown>"),
    path_column("Kernel-Version", ".status.nodeInfo.kernelVersion", priority=1, empty="<unknown>"),
    path_column("Container-Runtime", ".status.nodeInfo.containerRuntimeVersion", priority=1, empty="<unknown>"),
)
NAMESPACE = (NAME, path_column("Status", ".status.phase"), AGE)
EVENT = (
    Column("Last Seen", _last_seen),
    path_column("Type", ".type"),
    path_column("Reason", ".reason"),
    Column("Object", _involved_object),
    Column("Subobject", _field_path, priority=1),
    Column("Source", _source, priority=1),
    Column("Message", _message),
    Column("First Seen", _first_seen, priority=1),
    Column("Count", _occurrences, priority=1),
    Column("Name", NAME.cell, format="name", priority=1),
)
SERVICE = (
    NAME,
    path_column("Type", ".spec.type", empty="ClusterIP"),
    path_column("Cluster-IP", ".spec.clusterIP"),
    Column("External-IP", _external),
    Column("Port(s)", _ports),
    AGE,
    Column("Selector", _service_selector, priority=1),
)
AUTOSCALER = (
    NAME,
    Column("Reference", _scaled_object),
    path_column("MinPods", ".spec.minReplicas", empty="<unset>"),
    path_column("MaxPods", ".spec.maxReplicas"),
    path_column("Replicas", ".status.currentReplicas", empty="0"),
    AGE,
)
CONFIG_MAP = (NAME, Column("Data", _count("data")), AGE)
SECRET = (NAME, path_column("Type", ".type", empty="Opaque"), Column("Data", _count("data")), AGE)
_ATTRIBUTES_CLASS = path_column("VolumeAttributesClass", ".spec.volumeAttributesClassName", empty="<unset>")
_VOLUME_MODE = path_column("VolumeMode", ".spec.volumeMode", priority=1, empty="Filesystem")
VOLUME = (
    NAME,
    path_column("Capacity", ".spec.capacity.storage", empty="0"),
    Column("Access Modes", _access_modes("spec")),
    path_column("Reclaim Policy", ".spec.persistentVolumeReclaimPolicy", empty="Retain"),
    path_column("Status", ".status.phase", empty="Available"),
    Column("Claim", _claim),
    path_column("StorageClass", ".spec.storageClassName", empty=""),
    _ATTRIBUTES_CLASS,
    path_column("Reason", ".status.reason", empty=""),
    AGE,
    _VOLUME_MODE,
)
CLAIM = (
    NAME,
    path_column("Status", ".status.phase", empty="Pending"),
    path_column("Volume", ".spec.volumeName", empty=""),
    path_column("Capacity", ".status.capacity.storage", empty=""),
    Column("Access Modes", _access_modes("status")),
    path_column("StorageClass", ".spec.storageClassName", empty=""),
    _ATTRIBUTES_CLASS,
    AGE,
    _VOLUME_MODE,
)
BUDGET = (
    NAME,
    path_column("Min Available", ".spec.minAvailable", empty="N/A"),
    path_column("Max Unavailable", ".spec.maxUnavailable", empty="N/A"),
    path_column("Allowed Disruptions", ".status.disruptionsAllowed", "integer", empty=0),
    AGE,
)
PRIORITY = (
    NAME,
    path_column("Value", ".value", "integer", empty=0),
    path_column("Global-Default", ".globalDefault", "boolean", empty=False),
    AGE,
    path_column("PreemptionPolicy", ".preemptionPolicy", empty=""),
)
STORAGE_CLASS = (
    NAME,
    path_column("Provisioner", ".provisioner", empty=""),
    path_column("ReclaimPolicy", ".reclaimPolicy", empty="Delete"),
    path_column("VolumeBindingMode", ".volumeBindingMode", empty="Immediate"),
    path_column("AllowVolumeExpansion", ".allowVolumeExpansion", "boolean", empty=False),
    AGE,
)
LEASE = (NAME, path_column("Holder", ".spec.holderIdentity", empty=""), AGE)
DEFINITION = (NAME, Column("Created At", lambda raw, _: raw["metadata"].get("creationTimestamp"), "date"))
WEBHOOKS = (NAME, Column("Webhooks", _count("webhooks"), "integer"), AGE)

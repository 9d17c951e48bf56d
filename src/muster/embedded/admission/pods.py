"""Pods as an API server treats them: defaults, priority, validation, grace periods, binding and eviction."""

from collections.abc import Iterable, Iterator
from typing import Any

from muster.embedded.admission.validation import EFFECTS, resource_problems, unsupported_value
from muster.embedded.api_errors import Cause
from muster.kube.cluster import Raw

DEFAULT_GRACE_SECONDS = 30
_CONTAINERS = ("containers", "initContainers")
_TERMINAL_PHASES = ("Succeeded", "Failed")


def default_new_pod(raw: Raw, priority_classes: Iterable[Raw]) -> Raw:
    """A new pod with its defaults and status Pending. LookupError: its PriorityClass does not exist."""
    spec = default_spec(raw.get("spec") or {})
    conditions = {"conditions": [_gated_condition()]} if spec.get("schedulingGates") else {}
    status = {"phase": "Pending", "qosClass": qos_class(spec), **conditions}
    return {**raw, "spec": {**spec, **priority_fields(spec, priority_classes)}, "status": status}


def default_spec(spec: Raw) -> Raw:
    """A pod spec with the defaults that muster and the embedded cluster read."""
    defaulted = {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": DEFAULT_GRACE_SECONDS,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "enableServiceLinks": True,
        **{name: value for name, value in spec.items() if value is not None},
    }
    return {
        **defaulted,
        **{
            name: [_default_container(container) for container in defaulted[name]]
            for name in _CONTAINERS
            if _is_list_of_maps(defaulted.get(name))
        },
    }


def _gated_condition() -> Raw:
    return {
        "type": "PodScheduled",
        "status": "False",
        "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
    }


def _is_list_of_maps(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


def _default_container(raw: Raw) -> Raw:
    image = str(raw.get("image", ""))
    is_latest = image.endswith(":latest") or ":" not in image.rsplit("/", 1)[-1]
    resources = raw.get("resources") or {}
    requests = {**resources.get("limits", {}), **resources.get("requests", {})}
    return {
        "imagePullPolicy": "Always" if is_latest else "IfNotPresent",
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        **raw,
        "resources": {**resources, **({"requests": requests} if requests else {})},
        **(
            {"ports": [{"protocol": "TCP", **port} for port in raw["ports"]]}
            if _is_list_of_maps(raw.get("ports"))
            else {}
        ),
    }


def qos_class(spec: Raw) -> str:
    """The QoS class: Guaranteed, Burstable or BestEffort."""
    containers = [container for container in spec.get("containers") or () if isinstance(container, dict)]
    resources = [container.get("resources") or {} for container in containers]
    named = [{*amounts.get("requests", {}), *amounts.get("limits", {})} for amounts in resources]
    if not any({"cpu", "memory"} & names for names in named):
        return "BestEffort"
    is_guaranteed = all(
        {"cpu", "memory"} <= set(amounts.get("limits", {}))
        and all(amounts.get("requests", {}).get(name, value) == value for name, value in amounts["limits"].items())
        for amounts in resources
    )
    return "Guaranteed" if is_guaranteed else "Burstable"


def priority_fields(spec: Raw, priority_classes: Iterable[Raw]) -> Raw:
    """Priority, class name and preemption policy by the pod's PriorityClass, or the global default.

    LookupError: the class does not exist.
    """
    name = spec.get("priorityClassName") or ""
    by_name = {raw["metadata"]["name"]: raw for raw in priority_classes}
    if name and name not in by_name:
        raise LookupError(name)
    global_default = next((raw for raw in by_name.values() if raw.get("globalDefault")), None)
    priority_class = by_name[name] if name else global_default
    if priority_class is None:
        return {"priority": 0, "preemptionPolicy": "PreemptLowerPriority"}
    return {
        "priorityClassName": priority_class["metadata"]["name"],
        "priority": priority_class.get("value", 0),
        "preemptionPolicy": priority_class.get("preemptionPolicy", "PreemptLowerPriority"),
    }


def priority_conflict(stated: Raw, admitted: Raw) -> str:
    """Why a pod spec may not state its priority; empty: it states none, or the one that its class gives."""
    computed = "priority admission controller computed {} from the given PriorityClass name"
    for field, description in (
        ("priority", "integer value of priority"),
        ("preemptionPolicy", "string value of PreemptionPolicy"),
    ):
        if stated.get(field) not in (None, admitted[field]):
            source = computed.format(admitted[field])
            return f"the {description} ({stated[field]}) must not be provided in pod spec; {source}"
    return ""


def problems(raw: Raw) -> Iterator[Cause]:
    """What is wrong with a new pod."""
    containers = raw.get("spec", {}).get("containers")
    if not _is_list_of_maps(containers) or not containers:
        yield Cause("spec.containers", "Required value", "FieldValueRequired")
        return
    names: set[str] = set()
    for field in _CONTAINERS:
        for i, container in enumerate(raw["spec"].get(field) or ()):
            path = f"spec.{field}[{i}]"
            for part in ("name", "image"):
                if not container.get(part):
                    yield Cause(f"{path}.{part}", "Required value", "FieldValueRequired")
            if container.get("name") in names:
                yield Cause(f"{path}.name", f'Duplicate value: "{container["name"]}"', "FieldValueDuplicate")
            names.add(container.get("name", ""))
            yield from resource_problems(container, path)
    yield from _toleration_problems(raw["spec"].get("tolerations") or ())
    yield from _gate_problems(raw["spec"])


def _toleration_problems(tolerations: Iterable[Raw]) -> Iterator[Cause]:
    for i, toleration in enumerate(tolerations):
        path, operator = f"spec.tolerations[{i}]", toleration.get("operator") or "Equal"
        yield from unsupported_value(operator, ("Equal", "Exists"), f"{path}.operator")
        if operator == "Equal" and not toleration.get("key"):
            yield Cause(f"{path}.operator", f'Invalid value: "{operator}": operator must be Exists when `key` is empty')
        if operator == "Exists" and toleration.get("value"):
            reason = "value must be empty when `operator` is 'Exists'"
            yield Cause(f"{path}.operator", f'Invalid value: "{str(toleration["value"])[:63]}": {reason}')
        if toleration.get("effect"):
            yield from unsupported_value(toleration["effect"], EFFECTS, f"{path}.effect")


def _gate_problems(spec: Raw) -> Iterator[Cause]:
    names = [gate.get("name") for gate in spec.get("schedulingGates") or ()]
    if names and spec.get("nodeName"):
        reason = "Forbidden: cannot be set until all schedulingGates have been cleared"
        yield Cause("spec.nodeName", reason, "FieldValueForbidden")
    for i, name in enumerate(names):
        if name in names[:i]:
            yield Cause(f"spec.schedulingGates[{i}]", f'Duplicate value: "{name}"', "FieldValueDuplicate")


def forbidden_changes(old: Raw, new: Raw) -> Iterator[Cause]:
    """Changes of an update to immutable fields of a pod."""
    is_gated = bool(old["spec"].get("schedulingGates"))
    is_same = _immutable_part(new["spec"], is_gated) == _immutable_part(old["spec"], is_gated)
    if not is_same or not _only_narrows(old["spec"], new["spec"]):
        yield Cause(
            "spec",
            "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
            "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing"
            " tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was negative)",
            "FieldValueForbidden",
        )
    gates = [gate.get("name") for gate in old["spec"].get("schedulingGates") or ()]
    for i, gate in enumerate(new["spec"].get("schedulingGates") or ()):
        if gate.get("name") not in gates:
            path = f"spec.schedulingGates[{i}]"
            yield Cause(path, "Forbidden: only deletion is allowed, but found new gate", "FieldValueForbidden")


def _immutable_part(spec: Raw, is_gated: bool) -> Raw:
    """The fields of a spec that an update may not change."""
    mutable = {"activeDeadlineSeconds", "schedulingGates", "tolerations"}
    if is_gated:
        mutable |= {"nodeSelector", "affinity"}
    immutable = {name: value for name, value in spec.items() if name not in mutable}
    for field in _CONTAINERS:
        if _is_list_of_maps(spec.get(field)):
            immutable[field] = [
                {name: value for name, value in container.items() if name != "image"} for container in spec[field]
            ]
    return immutable


def _only_narrows(old: Raw, new: Raw) -> bool:
    """Whether an update only adds tolerations, and only adds labels to the node selector of a gated pod."""
    keeps_tolerations = all(toleration in (new.get("tolerations") or ()) for toleration in old.get("tolerations") or ())
    keeps_labels = (old.get("nodeSelector") or {}).items() <= (new.get("nodeSelector") or {}).items()
    return keeps_tolerations and keeps_labels


def grace_period(raw: Raw, requested: int | None) -> int:
    """Seconds from the deletion of a pod to its removal: 0 where it is not bound or is finished."""
    spec, status = raw.get("spec", {}), raw.get("status", {})
    if not spec.get("nodeName") or status.get("phase") in _TERMINAL_PHASES:
        return 0
    seconds = requested if requested is not None else spec.get("terminationGracePeriodSeconds", DEFAULT_GRACE_SECONDS)
    return max(int(seconds), 0 if requested is not None else 1) if int(seconds) >= 0 else 1


def binding_conflict(raw: Raw) -> str:
    """Why a pod cannot be bound; empty: it can."""
    name = raw["metadata"]["name"]
    if raw["metadata"].get("deletionTimestamp"):
        return f"pod {name} is being deleted, cannot be assigned to a host"
    if node := raw["spec"].get("nodeName"):
        return f'pod {name} is already assigned to node "{node}"'
    if raw["spec"].get("schedulingGates"):
        return f"pod {name} has non-empty .spec.schedulingGates"
    return ""


def bound_pod(raw: Raw, node: str, now: str, binding_metadata: Raw) -> Raw:
    """A pod bound to a node, with the labels and annotations of the Binding."""
    metadata = dict(raw["metadata"])
    for field in ("labels", "annotations"):
        if binding_metadata.get(field):
            metadata[field] = {**metadata.get(field, {}), **binding_metadata[field]}
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": now}
    status = {name: value for name, value in raw.get("status", {}).items() if name != "nominatedNodeName"}
    spec = {**raw["spec"], "nodeName": node}
    return {**raw, "metadata": metadata, "spec": spec, "status": with_condition(status, scheduled)}


def with_disruption_target(raw: Raw, now: str) -> Raw:
    """A pod with the condition DisruptionTarget of an eviction."""
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
        "lastTransitionTime": now,
    }
    return {**raw, "status": with_condition(raw.get("status", {}), condition)}


def with_condition(status: Raw, condition: Raw) -> Raw:
    """A status with one condition set; its transition time changes only with its status."""
    conditions = status.get("conditions") or []
    old = next((item for item in conditions if item.get("type") == condition["type"]), None)
    if old and old.get("status") == condition["status"] and old.get("lastTransitionTime"):
        condition = {**condition, "lastTransitionTime": old["lastTransitionTime"]}
    return {**status, "conditions": [item for item in conditions if item is not old] + [condition]}


def is_ready(raw: Raw) -> bool:
    """Whether the Ready condition of a pod is True."""
    conditions = raw.get("status", {}).get("conditions") or ()
    return any(condition.get("type") == "Ready" and condition.get("status") == "True" for condition in conditions)

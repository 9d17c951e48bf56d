"""What an API server does to pods: defaults, what may change, how long they may take to go, and how they are bound."""

from collections.abc import Iterable, Iterator
from typing import Any

from muster.embedded.admission.validation import EFFECTS, demands, one_of
from muster.embedded.api_errors import Cause
from muster.kube.cluster import Raw

DEFAULT_GRACE_SECONDS = 30
_CONTAINERS = ("containers", "initContainers")
_OVER = ("Succeeded", "Failed")


def defaulted(raw: Raw, classes: Iterable[Raw]) -> Raw:
    """A new pod with what an API server fills in, as far as anyone here reads it; its status is Pending."""
    spec = with_defaults(raw.get("spec") or {})
    gated = [_gated()] if spec.get("schedulingGates") else []
    status = {"phase": "Pending", "qosClass": quality(spec), **({"conditions": gated} if gated else {})}
    return {**raw, "spec": {**spec, **priority(spec, classes)}, "status": status}


def with_defaults(spec: Raw) -> Raw:
    """A spec with what it leaves out."""
    found = {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": DEFAULT_GRACE_SECONDS,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "enableServiceLinks": True,
        **{name: value for name, value in spec.items() if value is not None},
    }
    return {
        **found,
        **{name: [_container(one) for one in found[name]] for name in _CONTAINERS if _maps(found.get(name))},
    }


def _gated() -> Raw:
    return {
        "type": "PodScheduled",
        "status": "False",
        "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
    }


def _maps(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, dict) for one in value)


def _container(raw: Raw) -> Raw:
    image = str(raw.get("image", ""))
    latest = image.endswith(":latest") or ":" not in image.rsplit("/", 1)[-1]
    resources = raw.get("resources") or {}
    requests = {**resources.get("limits", {}), **resources.get("requests", {})}
    return {
        "imagePullPolicy": "Always" if latest else "IfNotPresent",
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        **raw,
        "resources": {**resources, **({"requests": requests} if requests else {})},
        **({"ports": [{"protocol": "TCP", **one} for one in raw["ports"]]} if _maps(raw.get("ports")) else {}),
    }


def quality(spec: Raw) -> str:
    """The quality of service: Guaranteed, Burstable or BestEffort."""
    containers = [one.get("resources") or {} for one in spec.get("containers") or () if isinstance(one, dict)]
    wants = [{**one.get("requests", {}), **one.get("limits", {})} for one in containers]
    if not any({"cpu", "memory"} & set(want) for want in wants):
        return "BestEffort"
    exact = all(
        {"cpu", "memory"} <= set(one.get("limits", {}))
        and all(one.get("requests", {}).get(name, value) == value for name, value in one["limits"].items())
        for one in containers
    )
    return "Guaranteed" if exact else "Burstable"


def priority(spec: Raw, classes: Iterable[Raw]) -> Raw:
    """Priority, class and policy of a pod by its PriorityClass, or the global default. LookupError: no such class."""
    name = spec.get("priorityClassName") or ""
    by_name = {one["metadata"]["name"]: one for one in classes}
    if name and name not in by_name:
        raise LookupError(name)
    found = by_name[name] if name else next((one for one in by_name.values() if one.get("globalDefault")), None)
    if found is None:
        return {"priority": 0, "preemptionPolicy": "PreemptLowerPriority"}
    return {
        "priorityClassName": found["metadata"]["name"],
        "priority": found.get("value", 0),
        "preemptionPolicy": found.get("preemptionPolicy", "PreemptLowerPriority"),
    }


def contradiction(asked: Raw, given: Raw) -> str:
    """Why a pod may not ask for the priority that it names; empty: it names none, or the one that its class gives."""
    computed = "priority admission controller computed {} from the given PriorityClass name"
    for field, words in (
        ("priority", "integer value of priority"),
        ("preemptionPolicy", "string value of PreemptionPolicy"),
    ):
        if asked.get(field) not in (None, given[field]):
            return f"the {words} ({asked[field]}) must not be provided in pod spec; {computed.format(given[field])}"
    return ""


def problems(raw: Raw) -> Iterator[Cause]:
    """What is wrong with a new pod."""
    containers = raw.get("spec", {}).get("containers")
    if not _maps(containers) or not containers:
        yield Cause("spec.containers", "Required value", "FieldValueRequired")
        return
    seen: set[str] = set()
    for field in _CONTAINERS:
        for i, one in enumerate(raw["spec"].get(field) or ()):
            for part in ("name", "image"):
                if not one.get(part):
                    yield Cause(f"spec.{field}[{i}].{part}", "Required value", "FieldValueRequired")
            if one.get("name") in seen:
                yield Cause(f"spec.{field}[{i}].name", f'Duplicate value: "{one["name"]}"', "FieldValueDuplicate")
            seen.add(one.get("name", ""))
            yield from demands(one, f"spec.{field}[{i}]")
    yield from _tolerations(raw["spec"].get("tolerations") or ())
    yield from _gates(raw["spec"])


def _tolerations(found: Iterable[Raw]) -> Iterator[Cause]:
    for i, one in enumerate(found):
        at, operator = f"spec.tolerations[{i}]", one.get("operator") or "Equal"
        yield from one_of(operator, ("Equal", "Exists"), f"{at}.operator")
        if operator == "Equal" and not one.get("key"):
            yield Cause(f"{at}.operator", f'Invalid value: "{operator}": operator must be Exists when `key` is empty')
        if operator == "Exists" and one.get("value"):
            why = "value must be empty when `operator` is 'Exists'"
            yield Cause(f"{at}.operator", f'Invalid value: "{str(one["value"])[:63]}": {why}')
        if one.get("effect"):
            yield from one_of(one["effect"], EFFECTS, f"{at}.effect")


def _gates(spec: Raw) -> Iterator[Cause]:
    names = [one.get("name") for one in spec.get("schedulingGates") or ()]
    if names and spec.get("nodeName"):
        why = "Forbidden: cannot be set until all schedulingGates have been cleared"
        yield Cause("spec.nodeName", why, "FieldValueForbidden")
    for i, name in enumerate(names):
        if name in names[:i]:
            yield Cause(f"spec.schedulingGates[{i}]", f'Duplicate value: "{name}"', "FieldValueDuplicate")


def changes(old: Raw, new: Raw) -> Iterator[Cause]:
    """What an update changes about a pod that may not change."""
    if _frozen(old["spec"], new["spec"]) != _frozen(old["spec"], old["spec"]) or not _narrowed(
        old["spec"], new["spec"]
    ):
        yield Cause(
            "spec",
            "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
            "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing"
            " tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was negative)",
            "FieldValueForbidden",
        )
    gates = [one.get("name") for one in old["spec"].get("schedulingGates") or ()]
    for i, one in enumerate(new["spec"].get("schedulingGates") or ()):
        if one.get("name") not in gates:
            where = f"spec.schedulingGates[{i}]"
            yield Cause(where, "Forbidden: only deletion is allowed, but found new gate", "FieldValueForbidden")


def _frozen(old: Raw, spec: Raw) -> Raw:
    """The part of a spec that stays as it is."""
    free = {"activeDeadlineSeconds", "schedulingGates", "tolerations"}
    if old.get("schedulingGates"):
        free |= {"nodeSelector", "affinity"}
    found = {name: value for name, value in spec.items() if name not in free}
    for field in _CONTAINERS:
        if _maps(spec.get(field)):
            found[field] = [{name: one[name] for name in one if name != "image"} for one in spec[field]]
    return found


def _narrowed(old: Raw, new: Raw) -> bool:
    """Tolerations are only added; what a gated pod asks of nodes only becomes narrower."""
    added = all(one in (new.get("tolerations") or ()) for one in old.get("tolerations") or ())
    selected = (old.get("nodeSelector") or {}).items() <= (new.get("nodeSelector") or {}).items()
    return added and selected


def grace(raw: Raw, asked: int | None) -> int:
    """Seconds that a pod may take to go: none where it runs nowhere or is over."""
    spec, status = raw.get("spec", {}), raw.get("status", {})
    if not spec.get("nodeName") or status.get("phase") in _OVER:
        return 0
    seconds = asked if asked is not None else spec.get("terminationGracePeriodSeconds", DEFAULT_GRACE_SECONDS)
    return max(int(seconds), 0 if asked is not None else 1) if int(seconds) >= 0 else 1


def refusal(raw: Raw) -> str:
    """Why a pod cannot be bound; empty: it can."""
    name = raw["metadata"]["name"]
    if raw["metadata"].get("deletionTimestamp"):
        return f"pod {name} is being deleted, cannot be assigned to a host"
    if node := raw["spec"].get("nodeName"):
        return f'pod {name} is already assigned to node "{node}"'
    if raw["spec"].get("schedulingGates"):
        return f"pod {name} has non-empty .spec.schedulingGates"
    return ""


def bound(raw: Raw, node: str, now: str, extra: Raw) -> Raw:
    """A pod on its node; the labels and annotations of the Binding are added to its own."""
    metadata = dict(raw["metadata"])
    for field in ("labels", "annotations"):
        if extra.get(field):
            metadata[field] = {**metadata.get(field, {}), **extra[field]}
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": now}
    status = {name: value for name, value in raw.get("status", {}).items() if name != "nominatedNodeName"}
    spec = {**raw["spec"], "nodeName": node}
    return {**raw, "metadata": metadata, "spec": spec, "status": with_condition(status, scheduled)}


def evicted(raw: Raw, now: str) -> Raw:
    """A pod that says why it goes."""
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
        "lastTransitionTime": now,
    }
    return {**raw, "status": with_condition(raw.get("status", {}), condition)}


def with_condition(status: Raw, condition: Raw) -> Raw:
    """A status with one condition set; where only the message is new, the time of its change stays."""
    before = status.get("conditions") or []
    same = next((one for one in before if one.get("type") == condition["type"]), None)
    if same and same.get("status") == condition["status"] and same.get("lastTransitionTime"):
        condition = {**condition, "lastTransitionTime": same["lastTransitionTime"]}
    return {**status, "conditions": [one for one in before if one is not same] + [condition]}


def ready(raw: Raw) -> bool:
    """Whether a pod says that it is Ready."""
    conditions = raw.get("status", {}).get("conditions") or ()
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)

"""The lifecycle of simulated pods and nodes: what a kubelet does next, when, and the statuses that it writes. Pure."""

from datetime import datetime, timedelta
from typing import Literal

from msgspec import Struct

from muster.api.duration import parse_nanoseconds
from muster.api.moment import parse_time
from muster.grove.startup import CONTAINER as STARTUP_CONTAINER
from muster.grove.startup import is_waiting
from muster.kube.cluster import Raw

RUN_FOR = "muster.dev/run-for"  # annotation: time from Running to Succeeded, such as `30s`
FAIL = "muster.dev/fail"  # annotation: a pod fails, a node is lost while it has it; the value is the message
DEFAULT_FAILURE = "failed on request"
NOT_READY = "node.kubernetes.io/not-ready"
Action = Literal["initialize", "start", "succeed", "fail", "remove", "collect"]


class KubeletTimings(Struct, frozen=True):
    """How long simulated kubelets take."""

    start_seconds: float = 1.0  # from bound, or from the end of its wait for other cliques, to Running and Ready
    stop_seconds: float | None = None  # from deleted to removed; None: the whole grace period


class Step(Struct, frozen=True):
    """The next action on a pod, and when it is due."""

    due: datetime
    action: Action


def next_step(pod: Raw, since: datetime, timings: KubeletTimings) -> Step | None:
    """The next action on a pod that is in its current state since `since`; None: none."""
    if not pod["spec"].get("nodeName"):
        return None
    if deadline := parse_time(pod["metadata"].get("deletionTimestamp") or ""):
        stop = timings.stop_seconds
        return Step(deadline if stop is None else min(deadline, since + timedelta(seconds=stop)), "remove")
    phase = pod.get("status", {}).get("phase", "Pending")
    if should_fail(pod) and phase in ("Pending", "Running"):
        return Step(since, "fail")
    match phase:
        case "Pending":
            return _start(pod, since + timedelta(seconds=timings.start_seconds))
        case "Running":
            return _completion(pod)
        case _:
            return None


def _start(pod: Raw, due: datetime) -> Step | None:
    """A pod that waits for other cliques is initialized only: the end of its wait is another state."""
    if not is_waiting(pod):
        return Step(due, "start")
    return None if pod.get("status", {}).get("initContainerStatuses") else Step(due, "initialize")


def _completion(pod: Raw) -> Step | None:
    text = annotations(pod).get(RUN_FOR)
    start = parse_time(pod["status"].get("startTime") or "")
    if not text or start is None:
        return None
    try:
        return Step(start + timedelta(microseconds=parse_nanoseconds(text) / 1000), "succeed")
    except (ValueError, OverflowError):
        return None


def should_fail(raw: Raw) -> bool:
    """Whether the annotation makes a pod or a node fail; not where its value is `false`."""
    return str(annotations(raw).get(FAIL, "false")).lower() != "false"


def failure_message(raw: Raw) -> str:
    """The message of a failure: the value of the annotation."""
    text = str(annotations(raw).get(FAIL) or "")
    return text if text.lower() not in ("", "true") else DEFAULT_FAILURE


def annotations(raw: Raw) -> Raw:
    """The annotations of an object."""
    return raw["metadata"].get("annotations") or {}


def initializing_status(pod: Raw, now: str, address: str) -> Raw:
    """The status of a pod whose last init container waits for other cliques; those before it are done."""
    waiting = {"waiting": {"reason": "PodInitializing"}}
    return {
        "phase": "Pending",
        "startTime": now,
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": [
            {"type": condition, "status": "False", "lastTransitionTime": now, "reason": reason}
            for condition, reason in _UNINITIALIZED.items()
        ],
        "initContainerStatuses": _init_container_statuses(pod, now, is_over=False),
        "containerStatuses": _container_statuses(pod, waiting, ready=False),
    }


_UNINITIALIZED = {
    "Initialized": "ContainersNotInitialized",
    "Ready": "ContainersNotReady",
    "ContainersReady": "ContainersNotReady",
}


def pod_conditions(ready: bool, now: str, reason: str = "") -> list[Raw]:
    """The conditions of a pod that a kubelet sets."""
    status = "True" if ready else "False"
    reason_field = {"reason": reason} if reason else {}
    return [
        {"type": condition, "status": status, "lastTransitionTime": now, **reason_field}
        for condition in ("Initialized", "Ready", "ContainersReady")
    ]


def running_status(pod: Raw, now: str, address: str) -> Raw:
    """The status of a pod that runs."""
    return {
        "phase": "Running",
        "startTime": now,
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": pod_conditions(True, now),
        **(
            {"initContainerStatuses": statuses}
            if (statuses := _init_container_statuses(pod, now, is_over=True))
            else {}
        ),
        "containerStatuses": _container_statuses(pod, {"running": {"startedAt": now}}, ready=True),
    }


def terminal_status(
    pod: Raw, now: str, phase: Literal["Succeeded", "Failed"], reason: str = "", message: str = ""
) -> Raw:
    """The status of a pod that has finished."""
    container_reason = "Completed" if phase == "Succeeded" else "Error"
    state = {"terminated": {"exitCode": int(phase == "Failed"), "reason": container_reason, "finishedAt": now}}
    condition_reason = "PodCompleted" if phase == "Succeeded" else "PodFailed"
    return {
        "phase": phase,
        **({"reason": reason} if reason else {}),
        **({"message": message} if message else {}),
        "conditions": pod_conditions(False, now, condition_reason),
        "containerStatuses": _container_statuses(pod, state, ready=False),
    }


def _container_statuses(pod: Raw, state: Raw, *, ready: bool) -> list[Raw]:
    return [_container_status(container, state, ready=ready) for container in pod["spec"]["containers"]]


def _init_container_statuses(pod: Raw, now: str, *, is_over: bool) -> list[Raw]:
    """Those of a pod that waits for other cliques, or did; other pods have none, as nothing is simulated in them."""
    containers = pod["spec"].get("initContainers") or ()
    if not any(container["name"] == STARTUP_CONTAINER for container in containers):
        return []
    done = {"terminated": {"exitCode": 0, "reason": "Completed", "finishedAt": now}}
    waiting = {"running": {"startedAt": now}}
    return [
        _container_status(container, done, ready=True)
        if is_over or container["name"] != STARTUP_CONTAINER
        else _container_status(container, waiting, ready=False)
        for container in containers
    ]


def _container_status(container: Raw, state: Raw, *, ready: bool) -> Raw:
    return {
        "name": container["name"],
        "image": container.get("image", ""),
        "imageID": "",
        "ready": ready,
        "started": ready,
        "restartCount": 0,
        "state": state,
    }


def orphaned_status(pod: Raw, now: str) -> Raw:
    """The status of a pod whose node no longer exists, as PodGC writes it."""
    message = "PodGC: node no longer exists"
    target = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByPodGC",
        "message": message,
        "lastTransitionTime": now,
    }
    status = terminal_status(pod, now, "Failed", "NodeLost", message)
    return status | {"conditions": [*status["conditions"], target]}


def is_node_ready(node: Raw) -> bool:
    """Whether the Ready condition of a node is True."""
    return _ready_status(node) == "True"


def is_node_lost(node: Raw) -> bool:
    """Whether the Ready condition of a node is False or Unknown; a new node has none."""
    return _ready_status(node) in ("False", "Unknown")


def _ready_status(node: Raw) -> str:
    conditions = node.get("status", {}).get("conditions") or ()
    return next((str(item.get("status")) for item in conditions if item.get("type") == "Ready"), "")


def ready_condition(ready: bool, now: str) -> Raw:
    """The Ready condition of a node."""
    return {
        "type": "Ready",
        "status": "True" if ready else "False",
        "reason": "KubeletReady" if ready else "NodeStatusUnknown",
        "message": "simulated" if ready else "the simulated kubelet stopped posting node status",
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }


def node_taints(node: Raw, ready: bool) -> list[Raw]:
    """The taints of a node, with the not-ready taints only where it is not ready."""
    others = [taint for taint in node.get("spec", {}).get("taints") or () if taint.get("key") != NOT_READY]
    not_ready = [] if ready else [{"key": NOT_READY, "effect": effect} for effect in ("NoSchedule", "NoExecute")]
    return others + not_ready

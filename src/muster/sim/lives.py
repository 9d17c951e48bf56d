"""The life of a simulated pod and node: what a kubelet writes next, and when. Values only."""

from datetime import datetime, timedelta
from typing import Literal

from msgspec import Struct

from muster.api.duration import nanoseconds
from muster.api.moment import moment
from muster.cluster.store import Raw

RUN_FOR = "muster.dev/run-for"  # annotation: how long a pod runs until it has succeeded, such as `30s`
NOT_READY = "node.kubernetes.io/not-ready"
Deed = Literal["start", "succeed", "vanish"]


class Habits(Struct, frozen=True):
    """How fast simulated kubelets are."""

    start_seconds: float = 1.0  # from being bound to Running and Ready
    stop_seconds: float | None = None  # from being deleted to gone; None: all of the pod's grace


class Step(Struct, frozen=True):
    """What to do with a pod, and when."""

    due: datetime
    deed: Deed


def next_step(pod: Raw, seen: datetime, habits: Habits) -> Step | None:
    """What a kubelet does next with a pod whose present state it saw first at `seen`; None: nothing."""
    if not pod["spec"].get("nodeName"):
        return None
    if gone := moment(pod["metadata"].get("deletionTimestamp") or ""):
        stop = habits.stop_seconds
        return Step(gone if stop is None else min(gone, seen + timedelta(seconds=stop)), "vanish")
    match pod.get("status", {}).get("phase", "Pending"):
        case "Pending":
            return Step(seen + timedelta(seconds=habits.start_seconds), "start")
        case "Running":
            return _end(pod)
        case _:
            return None


def _end(pod: Raw) -> Step | None:
    text = pod["metadata"].get("annotations", {}).get(RUN_FOR)
    start = moment(pod["status"].get("startTime") or "")
    if not text or start is None:
        return None
    try:
        return Step(start + timedelta(microseconds=nanoseconds(text) / 1000), "succeed")
    except (ValueError, OverflowError):
        return None


def conditions(ready: bool, now: str, reason: str = "") -> list[Raw]:
    """What a kubelet says about a pod."""
    word = "True" if ready else "False"
    why = {"reason": reason} if reason else {}
    return [
        {"type": kind, "status": word, "lastTransitionTime": now, **why}
        for kind in ("Initialized", "Ready", "ContainersReady")
    ]


def started(pod: Raw, now: str, address: str) -> Raw:
    """The status of a pod that has come up."""
    return {
        "phase": "Running",
        "startTime": now,
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": conditions(True, now),
        "containerStatuses": _containers(pod, {"running": {"startedAt": now}}, ready=True),
    }


def ended(pod: Raw, now: str, phase: Literal["Succeeded", "Failed"], reason: str = "", message: str = "") -> Raw:
    """The status of a pod that is over."""
    word = "Completed" if phase == "Succeeded" else "Error"
    state = {"terminated": {"exitCode": int(phase == "Failed"), "reason": word, "finishedAt": now}}
    why = "PodCompleted" if phase == "Succeeded" else "PodFailed"
    return {
        "phase": phase,
        **({"reason": reason} if reason else {}),
        **({"message": message} if message else {}),
        "conditions": conditions(False, now, why),
        "containerStatuses": _containers(pod, state, ready=False),
    }


def _containers(pod: Raw, state: Raw, *, ready: bool) -> list[Raw]:
    return [
        {
            "name": one["name"],
            "image": one.get("image", ""),
            "imageID": "",
            "ready": ready,
            "started": ready,
            "restartCount": 0,
            "state": state,
        }
        for one in pod["spec"]["containers"]
    ]


def is_ready(node: Raw) -> bool:
    """Whether a node says that it is Ready."""
    found = node.get("status", {}).get("conditions") or ()
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in found)


def readiness(ready: bool, now: str) -> Raw:
    """What a node says about itself, or is said about it."""
    return {
        "type": "Ready",
        "status": "True" if ready else "False",
        "reason": "KubeletReady" if ready else "NodeStatusUnknown",
        "message": "simulated" if ready else "the simulated kubelet stopped posting node status",
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }


def taints(node: Raw, ready: bool) -> list[Raw]:
    """The taints of a node, with or without those for not being ready."""
    others = [one for one in node.get("spec", {}).get("taints") or () if one.get("key") != NOT_READY]
    ours = [] if ready else [{"key": NOT_READY, "effect": effect} for effect in ("NoSchedule", "NoExecute")]
    return others + ours

"""The life of a simulated pod and node: what a kubelet writes next, and when. Values only."""

from datetime import datetime, timedelta
from typing import Literal

from msgspec import Struct

from muster.api.duration import nanoseconds
from muster.api.moment import moment
from muster.kube.cluster import Raw

RUN_FOR = "muster.dev/run-for"  # annotation: how long a pod runs until it has succeeded, such as `30s`
FAIL = "muster.dev/fail"  # annotation: a pod fails, a node is lost for as long as it has it; the value says why
NOT_READY = "node.kubernetes.io/not-ready"
Deed = Literal["start", "succeed", "fail", "vanish", "collect"]


class KubeletTimings(Struct, frozen=True):
    """How fast simulated kubelets are."""

    start_seconds: float = 1.0  # from being bound to Running and Ready
    stop_seconds: float | None = None  # from being deleted to gone; None: all of the pod's grace


class Step(Struct, frozen=True):
    """What to do with a pod, and when."""

    due: datetime
    deed: Deed


def next_step(pod: Raw, seen: datetime, habits: KubeletTimings) -> Step | None:
    """What a kubelet does next with a pod whose present state it saw first at `seen`; None: nothing."""
    if not pod["spec"].get("nodeName"):
        return None
    if gone := moment(pod["metadata"].get("deletionTimestamp") or ""):
        stop = habits.stop_seconds
        return Step(gone if stop is None else min(gone, seen + timedelta(seconds=stop)), "vanish")
    phase = pod.get("status", {}).get("phase", "Pending")
    if told_to_fail(pod) and phase in ("Pending", "Running"):
        return Step(seen, "fail")
    match phase:
        case "Pending":
            return Step(seen + timedelta(seconds=habits.start_seconds), "start")
        case "Running":
            return _end(pod)
        case _:
            return None


def _end(pod: Raw) -> Step | None:
    text = annotations(pod).get(RUN_FOR)
    start = moment(pod["status"].get("startTime") or "")
    if not text or start is None:
        return None
    try:
        return Step(start + timedelta(microseconds=nanoseconds(text) / 1000), "succeed")
    except (ValueError, OverflowError):
        return None


def told_to_fail(raw: Raw) -> bool:
    """Whether a pod or a node is to fail; `false` is a word for no."""
    return str(annotations(raw).get(FAIL, "false")).lower() != "false"


def failure(raw: Raw) -> str:
    """Why it fails, in the words of whoever wants it to."""
    said = str(annotations(raw).get(FAIL) or "")
    return said if said.lower() not in ("", "true") else "told to fail"


def annotations(raw: Raw) -> Raw:
    """Of an object that may have none."""
    return raw["metadata"].get("annotations") or {}


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


def orphaned(pod: Raw, now: str) -> Raw:
    """The status of a pod whose node exists no more, as Kubernetes' garbage collector of pods leaves it."""
    message = "PodGC: node no longer exists"
    target = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByPodGC",
        "message": message,
        "lastTransitionTime": now,
    }
    over = ended(pod, now, "Failed", "NodeLost", message)
    return over | {"conditions": [*over["conditions"], target]}


def is_ready(node: Raw) -> bool:
    """Whether a node says that it is Ready."""
    return _readiness(node) == "True"


def is_lost(node: Raw) -> bool:
    """Whether a node says that it is not Ready; a new one says nothing."""
    return _readiness(node) in ("False", "Unknown")


def _readiness(node: Raw) -> str:
    found = node.get("status", {}).get("conditions") or ()
    return next((str(one.get("status")) for one in found if one.get("type") == "Ready"), "")


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

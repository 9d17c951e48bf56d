"""Pods from templates, and how controllers read the pods that they made.

Rule: what is made here is what Kubernetes' own controllers make; kinds add their labels and names on top.
"""

from collections.abc import Iterable
from copy import deepcopy
from datetime import datetime, timedelta
from hashlib import sha256

import msgspec

from muster.api.fields import at, integer, items, mapping, number, text, texts
from muster.api.moment import parse_time
from muster.api.resources import PODS
from muster.workloads.types import Raw

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"  # annotation
LONGEST_NAME = 253
LONGEST_GENERATED = 58  # of a generateName that names pods: five random characters follow
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"  # without vowels: no words by chance
_HASH_LENGTH = 10
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


def controller_reference(owner: Raw) -> Raw:
    """The owner reference of everything that a controller makes for this object."""
    metadata = owner["metadata"]
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def new_pod(owner: Raw, template: Raw, *, name: str = "", labels: Raw | None = None) -> Raw:
    """A pod of this template: with a name, or with one that the API server generates from the owner's."""
    named: Raw = {"name": name} if name else {"generateName": f"{text(owner, 'metadata.name')}-"}
    finalizers = at(template, "metadata.finalizers")
    metadata: Raw = {
        **named,
        "namespace": text(owner, "metadata.namespace"),
        "labels": {**texts(template, "metadata.labels"), **(labels or {})},
        "annotations": texts(template, "metadata.annotations"),
        **({"finalizers": list(finalizers)} if isinstance(finalizers, list) else {}),
        "ownerReferences": [controller_reference(owner)],
    }
    metadata = {field: value for field, value in metadata.items() if value}
    spec = deepcopy(mapping(template, "spec"))
    return {"apiVersion": PODS.api_version, "kind": PODS.kind, "metadata": metadata, "spec": spec}


def template_hash(value: object) -> str:
    """A stable short hash of a template, safe in names and labels."""
    left = int.from_bytes(sha256(msgspec.json.encode(value, order="deterministic")).digest()[:8])
    characters = []
    for _ in range(_HASH_LENGTH):
        left, rest = divmod(left, len(_ALPHABET))
        characters.append(_ALPHABET[rest])
    return "".join(characters)


# pods that exist ----------------------------------------------------------------------------------------------------


def phase(pod: Raw) -> str:
    """The phase of a pod; a new one is Pending."""
    return text(pod, "status.phase") or "Pending"


def is_terminating(raw: Raw) -> bool:
    """Whether it was deleted and is not gone yet."""
    return bool(text(raw, "metadata.deletionTimestamp"))


def is_finished(pod: Raw) -> bool:
    """Whether all containers of a pod ended, for better or worse."""
    return phase(pod) in ("Succeeded", "Failed")


def is_active(pod: Raw) -> bool:
    """Whether a pod runs or may still run."""
    return not is_finished(pod) and not is_terminating(pod)


def ready_since(pod: Raw) -> datetime | None:
    """Since when a pod has been Ready; None: it is not."""
    for condition in items(pod, "status.conditions"):
        if condition.get("type") == "Ready":
            since = parse_time(text(condition, "lastTransitionTime"))
            return (since or _EPOCH) if condition.get("status") == "True" else None
    return None


_EPOCH = parse_time("1970-01-01T00:00:00+00:00")


def is_ready(pod: Raw) -> bool:
    """Whether a pod is Ready."""
    return ready_since(pod) is not None


def is_available(pod: Raw, min_ready_seconds: int, now: datetime) -> bool:
    """Whether a pod has been Ready for long enough."""
    since = ready_since(pod)
    return since is not None and (not min_ready_seconds or since + timedelta(seconds=min_ready_seconds) <= now)


def seconds_to_available(pods: Iterable[Raw], min_ready_seconds: int, now: datetime) -> float | None:
    """When the next Ready pod becomes available; None: all are, or none is Ready."""
    if not min_ready_seconds:
        return None
    ready = (since for pod in pods if (since := ready_since(pod)))
    left = [(since + timedelta(seconds=min_ready_seconds) - now).total_seconds() for since in ready]
    return min((seconds for seconds in left if seconds > 0), default=None)


def deletion_order(pods: Iterable[Raw]) -> list[Raw]:
    """Pods that a controller deletes first come first: unassigned, pending, not ready, cheap, ready for less time, new.

    Kubernetes also prefers pods that share their node; here that does not count.
    """
    return sorted(pods, key=_deletion_key)


def _deletion_key(pod: Raw) -> tuple[bool, int, bool, int, float, int, float, str]:
    since, created = ready_since(pod), parse_time(text(pod, "metadata.creationTimestamp"))
    restarts = max((integer(status, "restartCount") for status in items(pod, "status.containerStatuses")), default=0)
    return (
        bool(text(pod, "spec.nodeName")),
        _PHASES.get(phase(pod), 0),
        since is not None,
        _deletion_cost(pod),
        -since.timestamp() if since else 0.0,
        -restarts,
        -created.timestamp() if created else 0.0,
        text(pod, "metadata.name"),
    )


def _deletion_cost(pod: Raw) -> int:
    cost = texts(pod, "metadata.annotations").get(DELETION_COST, "")
    return -(number(cost[1:]) or 0) if cost.startswith("-") else number(cost) or 0


# numbers ------------------------------------------------------------------------------------------------------------


def count_or_percent(value: object, total: int, *, rounds_up: bool) -> int:
    """A number of pods, or a percentage of them, rounded up or down; 0 where it is neither."""
    if isinstance(value, int) and not isinstance(value, bool):
        return max(0, value)
    percent = number(value[:-1]) if isinstance(value, str) and value.endswith("%") else None
    if percent is None:
        return 0
    return -(-percent * total // 100) if rounds_up else percent * total // 100

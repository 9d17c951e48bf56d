"""Backoff after one failed attempt, until something changes (S4): kept on the PodGroup, not in this process.

Annotation `muster.dev/backed-off`, JSON: what the attempt was made on, and the reason why it failed.
"""

import json
from hashlib import sha256

from muster.api.names import BACKED_OFF
from muster.model.gang.gang import Gang
from muster.model.gang.pod_state import PodState
from muster.model.gang.types import Leaf, walk
from muster.model.snapshot import Snapshot
from muster.planning.refusal import BackedOff

LONGEST = 1024  # characters of a message that are stored


def mark(gang: Gang, snapshot: Snapshot, reason: str, message: str) -> str:
    """A failed attempt: the PodGroup and its pods, and what was free, with the reason."""
    attempt = {"on": _attempt_digest(gang, snapshot), "reason": reason, "message": message[:LONGEST]}
    return json.dumps(attempt, sort_keys=True, separators=(",", ":"))


def backed_off(gang: Gang, snapshot: Snapshot) -> BackedOff | None:
    """The reason of the failed attempt, where the gang allows one and neither it nor what is free has changed."""
    text = gang.source.metadata.annotations.get(BACKED_OFF)
    if gang.source.spec.scheduling_backoff != 1 or not text:
        return None
    try:
        attempt = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(attempt, dict) or attempt.get("on") != _attempt_digest(gang, snapshot):
        return None
    return BackedOff(str(attempt.get("reason", "")), str(attempt.get("message", "")))


def _attempt_digest(gang: Gang, snapshot: Snapshot) -> str:
    return f"{gang.source.metadata.generation}/{request_digest(gang)}/{free_digest(snapshot)}"


def request_digest(gang: Gang) -> str:
    """A digest of requests, queue, priority and preemptibility: labels change these without a new generation."""
    seen = sha256(repr((gang.queue, gang.priority, gang.preemptibility)).encode())
    for leaf in walk(gang.root):
        for member in leaf.members_in(PodState.PENDING) if isinstance(leaf, Leaf) else ():
            seen.update(repr((leaf.name, member.name, sorted(member.requests.items()))).encode())
    return seen.hexdigest()[:16]


def free_digest(snapshot: Snapshot) -> str:
    """A digest of the nodes, their free capacity, readiness and taints."""
    seen = sha256()
    for node in snapshot.nodes:
        seen.update(f"{node.metadata.name}\n".encode())
    seen.update(repr(snapshot.columns).encode())
    seen.update(snapshot.free.tobytes() + snapshot.ready.tobytes() + snapshot.taints_of.tobytes())
    return seen.hexdigest()[:16]

"""One attempt and no more, until something changes (S4): remembered on the PodGroup, not in this process."""

from hashlib import sha256

from muster.api.names import BACKED_OFF
from muster.model.gang import Gang
from muster.model.snapshot import Snapshot


def mark(gang: Gang, snapshot: Snapshot) -> str:
    """What a failed attempt was made on: the PodGroup's generation and the cluster's capacity."""
    return f"{gang.source.metadata.generation}/{capacity(snapshot)}"


def backed_off(gang: Gang, snapshot: Snapshot) -> bool:
    """The gang allows one attempt, has failed it, and neither it nor the cluster's capacity has changed."""
    if gang.source.spec.scheduling_backoff != 1:
        return False
    return gang.source.metadata.annotations.get(BACKED_OFF) == mark(gang, snapshot)


def capacity(snapshot: Snapshot) -> str:
    """The nodes with what they have and whether pods may come, in a few letters."""
    seen = sha256()
    for node in snapshot.nodes:
        seen.update(f"{node.metadata.name}\n".encode())
    seen.update(repr(snapshot.columns).encode())
    seen.update(snapshot.room.tobytes() + snapshot.ready.tobytes() + snapshot.taints_of.tobytes())
    return seen.hexdigest()[:16]

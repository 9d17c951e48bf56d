"""What would help a gang, in fields that its user can set: a PodGroup of a PodGang follows the PodCliqueSet."""

from collections.abc import Iterator

from msgspec.structs import replace

from muster.api.names import BRIDGED
from muster.model.gang.gang import Gang
from muster.planning.refusal import DoesNotFit, QueueExceeded, Refusal
from muster.reporting.explain import helps


def helps_gang(gang: Gang, refusal: Refusal) -> Iterator[str]:
    """Changes that would let the gang in now. Of a PodGang, not how many cliques it needs: it needs all of them."""
    if BRIDGED not in gang.source.metadata.annotations:
        yield from helps(refusal)
        return
    if isinstance(refusal, DoesNotFit | QueueExceeded) and refusal.changes:
        changes = tuple(change for change in refusal.changes if change.field != "minSubGroup")
        refusal = replace(refusal, changes=changes)
    yield from (help_.replace("`minMember:", "`minAvailable:") for help_ in helps(refusal))

"""What would help a gang, in fields that its user can set: the PodGroup of a PodGang follows its PodCliqueSet."""

from collections.abc import Iterator

from msgspec.structs import replace

from muster.api.names import BRIDGED
from muster.model.gang.gang import Gang
from muster.planning.decision import GangPlan
from muster.planning.refusal import DoesNotFit, QueueExceeded, Refusal, SmallerRequest


def refusals_of(plan: GangPlan) -> tuple[Refusal, ...]:
    """Why a gang waits, with changes that its user can make."""
    return tuple(with_own_changes(plan.gang, refusal) for refusal in plan.refusals)


def with_own_changes(gang: Gang, refusal: Refusal) -> Refusal:
    """The refusal; of a PodGang, without changes of how many cliques it needs, as it needs all of them."""
    if BRIDGED not in gang.source.metadata.annotations or not isinstance(refusal, DoesNotFit | QueueExceeded):
        return refusal
    return replace(refusal, changes=tuple(_changes(refusal.changes))) if refusal.changes else refusal


def _changes(changes: tuple[SmallerRequest, ...]) -> Iterator[SmallerRequest]:
    for change in changes:
        if change.field != "minSubGroup":
            yield replace(change, field="minAvailable") if change.field == "minMember" else change

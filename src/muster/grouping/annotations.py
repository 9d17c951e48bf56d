"""Numbers that annotations state: a value that is none is said, and never read as if it were not there."""

from collections.abc import Mapping

from muster.api import names
from muster.grouping.fields import number
from muster.grouping.types import Owner, Ungrouped

BATCH_MINIMUM = f"annotation {names.BATCH_MIN_MEMBER}"


def batch_minimum(owner: Owner) -> int | Ungrouped | None:
    """How many pods of a workload must start together; None: it does not say."""
    return stated_number(owner.metadata.annotations, names.BATCH_MIN_MEMBER, owner)


def segment_size(owner: Owner, *annotations: Mapping[str, str]) -> int | Ungrouped | None:
    """How many workers a segment has, by the first of these that says; None: there are no segments."""
    stated = next((texts for texts in annotations if texts.get(names.SEGMENT_SIZE)), {})
    return stated_number(stated, names.SEGMENT_SIZE, owner)


def stated_number(annotations: Mapping[str, str], name: str, owner: Owner) -> int | Ungrouped | None:
    """A number from 1 up; None: there is no such annotation."""
    stated = annotations.get(name, "")
    if not stated:
        return None
    return number(stated.strip()) or Ungrouped(
        "InvalidAnnotation",
        f"annotation `{name}` of {owner.kind} `{owner.metadata.name}` says `{stated[:40]}`: the pod is not grouped",
        "a whole number from 1 up, in quotes",
    )

"""What every object carries. `Wire` is the base of all that travels; fields are the user's words in snake_case."""

from datetime import datetime
from typing import Annotated, Any

import msgspec


class Wire(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """Frozen inside, camelCase outside; what muster does not read is not decoded.

    Without cycles there is nothing for the garbage collector to find, and 140,000 pods less for it to look at.
    """


def doc(description: str, *, required: bool = False, **schema: Any) -> msgspec.Meta:
    """A field's description and schema for its CRD. Decoding ignores both: `validation` judges values."""
    return msgspec.Meta(description=description, extra_json_schema=schema or None, extra={"required": required})


Time = Annotated[datetime, msgspec.Meta(tz=True)]  # RFC 3339, always with a zone


class OwnerReference(Wire, frozen=True):
    """The object that this one belongs to."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class ObjectMeta(Wire, frozen=True):
    """Identity, labels and age."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""  # empty: `default`, or cluster-scoped
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    creation_timestamp: Time | None = None  # None: not stored yet, or left out of a file
    deletion_timestamp: Time | None = None  # set: terminating
    owner_references: tuple[OwnerReference, ...] = ()


class LabelSelectorRequirement(Wire, frozen=True):
    """One expression of a label selector."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(Wire, frozen=True):
    """Labels and expressions that must all hold; empty selects everything."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class Condition(Wire, frozen=True):
    """One condition in the Kubernetes form (E3)."""

    type: Annotated[str, doc("What the condition is about, in CamelCase.", required=True, maxLength=316)] = ""
    status: Annotated[str, doc("True, False or Unknown.", required=True, enum=["True", "False", "Unknown"])] = ""
    reason: Annotated[str, doc("A stable word that programs may rely on.", maxLength=1024)] = ""
    message: Annotated[str, doc("One sentence for people.", maxLength=32768)] = ""
    observed_generation: Annotated[int, doc("The generation of the spec that this condition is about.")] = 0
    last_transition_time: Annotated[Time | None, doc("When `status` last changed.")] = None

"""AdmissionReviews: decoding of requests, encoding of responses.

Rule: only what admission reads is decoded. `managedFields`, often the larger part of an object, stays raw JSON.
"""

from collections.abc import Callable
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from muster.api.meta import Wire
from muster.api.resources import (
    ADMISSION_REVIEWS,
    CLUSTER_TOPOLOGY_BINDINGS,
    POD_CLIQUE_SETS,
    POD_GROUPS,
    QUEUES,
    TOPOLOGIES,
    Resource,
)
from muster.errors import MusterError

API_VERSION = ADMISSION_REVIEWS.api_version


def _types(*resources: Resource) -> tuple[tuple[str, str], ...]:
    return tuple((resource.api_version, resource.kind) for resource in resources)


VALIDATED_KINDS = _types(POD_GROUPS, QUEUES, TOPOLOGIES)
GROVE_KINDS = _types(POD_CLIQUE_SETS, CLUSTER_TOPOLOGY_BINDINGS)  # PodCliques and groups: CEL, which sees scales, too
LONGEST_WARNING = 250  # characters; the API server cuts longer ones

Raw = dict[str, Any]


class GroupVersionKind(Wire, frozen=True):
    """A kind, as a request names it."""

    group: str = ""
    version: str = ""
    kind: str = ""


class AdmissionRequest(Wire, frozen=True):
    """The operation under review."""

    uid: str = ""
    kind: GroupVersionKind = GroupVersionKind()
    sub_resource: str = ""
    operation: str = ""
    object: Any = None  # only the parts that admission reads
    old_object: Any = None
    managed: msgspec.Raw = msgspec.Raw()  # `metadata.managedFields` of the object, still encoded
    old_managed: msgspec.Raw = msgspec.Raw()

    @property
    def type(self) -> tuple[str, str]:
        """`apiVersion` and `kind`."""
        group = f"{self.kind.group}/" if self.kind.group else ""
        return f"{group}{self.kind.version}", self.kind.kind

    @property
    def is_validated(self) -> bool:
        """Whether muster validates it: creates and updates of our kinds, in any version."""
        ours = any(
            kind == self.kind.kind and version.split("/")[0] == self.kind.group
            for version, kind in (*VALIDATED_KINDS, *GROVE_KINDS)
        )
        return ours and self.operation in ("CREATE", "UPDATE") and not self.sub_resource

    @property
    def new(self) -> Raw:
        """The object, with apiVersion and kind of the request."""
        version, kind = self.type
        return {**self.object, "apiVersion": version, "kind": kind}


class RawAdmissionRequest(Wire, frozen=True):
    """The request before its objects are decoded, which only our kinds need."""

    uid: str = ""
    kind: GroupVersionKind = GroupVersionKind()
    sub_resource: str = ""
    operation: str = ""
    object: msgspec.Raw = msgspec.Raw()
    old_object: msgspec.Raw = msgspec.Raw()


class Review(Wire, frozen=True):
    """The AdmissionReview of the API server."""

    api_version: str = ""
    kind: str = ""
    request: RawAdmissionRequest | None = None


class AdmissionResponse(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The decision, as the API server reads it."""

    uid: str
    allowed: bool
    status: Raw = {}
    warnings: tuple[str, ...] = ()
    patch_type: Literal["", "JSONPatch"] = ""
    patch: bytes = b""  # base64 on the wire

    @property
    def result(self) -> str:
        """The label of the metrics."""
        if not self.allowed:
            return "denied"
        return "patched" if self.patch else "warned" if self.warnings else "allowed"


Admit = Callable[[AdmissionRequest], AdmissionResponse]


class ReviewError(MusterError):
    """A bad request: it gets an HTTP status and a sentence instead of a response."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def short(text: str) -> str:
    """The text cut to the length of a warning, with unprintable characters replaced."""
    shown = "".join(character if character.isprintable() else "�" for character in text)
    return shown if len(shown) <= LONGEST_WARNING else f"{shown[: LONGEST_WARNING - 1]}…"


_OPERATIONS = ("CREATE", "UPDATE", "DELETE", "CONNECT")
_REVIEWS = msgspec.json.Decoder(Review)


class ReviewedMetadata(Wire, frozen=True):
    """Metadata with values of any type; `managedFields` stays raw JSON."""

    name: Any = UNSET
    generate_name: Any = UNSET
    namespace: Any = UNSET
    uid: Any = UNSET
    labels: Any = UNSET
    annotations: Any = UNSET
    creation_timestamp: Any = UNSET
    deletion_timestamp: Any = UNSET
    owner_references: Any = UNSET
    resource_version: Any = UNSET
    generation: Any = UNSET
    managed_fields: msgspec.Raw = msgspec.Raw()


class ReviewedObject(Wire, frozen=True):
    """An object of one of our kinds; the request names the kind."""

    metadata: msgspec.Raw = msgspec.Raw()
    spec: Any = UNSET
    status: Any = UNSET


_OBJECTS = msgspec.json.Decoder(ReviewedObject)
_METAS = msgspec.json.Decoder(ReviewedMetadata)
_META = tuple(
    (name, wire)
    for name, wire in zip(ReviewedMetadata.__struct_fields__, ReviewedMetadata.__struct_encode_fields__, strict=True)
)


def decode(body: bytes) -> AdmissionRequest:
    """The request of a review; ReviewError where the review is malformed."""
    try:
        review = _REVIEWS.decode(body)
        request = _decode_objects(review.request) if review.request else None
    except (msgspec.MsgspecError, UnicodeError, ValueError) as error:
        raise ReviewError(400, f"this is not an AdmissionReview: {short(str(error))}") from None
    if (review.api_version, review.kind) != (API_VERSION, "AdmissionReview"):
        actual = short(f"`{review.kind}` of `{review.api_version}`")
        raise ReviewError(400, f"expected an AdmissionReview of `{API_VERSION}`, got {actual}")
    if request is None or not request.uid:
        raise ReviewError(400, "the review has no `request` with a `uid`")
    return _require_objects(request)


def _decode_objects(sent: RawAdmissionRequest) -> AdmissionRequest:
    admission_request = AdmissionRequest(sent.uid, sent.kind, sent.sub_resource, sent.operation)
    if not admission_request.is_validated:
        return admission_request
    new, managed = _object(sent.object)
    old, old_managed = _object(sent.old_object)
    return replace(admission_request, object=new, old_object=old, managed=managed, old_managed=old_managed)


def _object(raw: msgspec.Raw) -> tuple[Any, msgspec.Raw]:
    """The parts of an object that admission reads, and its `managedFields`; any other JSON value as it is."""
    if not bytes(raw).lstrip().startswith(b"{"):
        return (msgspec.json.decode(raw) if bytes(raw) else None), msgspec.Raw()
    reviewed = _OBJECTS.decode(raw)
    meta, managed = _metadata(reviewed.metadata)
    parts = {"metadata": meta, "spec": reviewed.spec, "status": reviewed.status}
    return {name: value for name, value in parts.items() if value is not UNSET}, managed


def _metadata(raw: msgspec.Raw) -> tuple[Any, msgspec.Raw]:
    if not bytes(raw).lstrip().startswith(b"{"):
        return (msgspec.json.decode(raw) if bytes(raw) else UNSET), msgspec.Raw()
    meta = _METAS.decode(raw)
    fields = {wire: getattr(meta, name) for name, wire in _META[:-1]}
    return {wire: value for wire, value in fields.items() if value is not UNSET}, meta.managed_fields


def _require_objects(admission_request: AdmissionRequest) -> AdmissionRequest:
    if admission_request.operation not in _OPERATIONS:
        raise ReviewError(
            400, f"`{short(admission_request.operation)}` is no operation; known: {', '.join(_OPERATIONS)}"
        )
    if admission_request.is_validated and not isinstance(admission_request.object, dict):
        raise ReviewError(400, f"the request is a {admission_request.operation} without an object")
    if (
        admission_request.is_validated
        and admission_request.operation == "UPDATE"
        and not isinstance(admission_request.old_object, dict)
    ):
        raise ReviewError(400, "the request is an UPDATE without the old object")
    return admission_request


def encode(answer: AdmissionResponse) -> bytes:
    """The AdmissionReview with this response."""
    return msgspec.json.encode({"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": answer})

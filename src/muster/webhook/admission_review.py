"""AdmissionReviews, as the API server sends them and as it is answered.

Rule: what is not looked at is not read. `managedFields`, often the larger part of an object, stay as they are.
"""

from collections.abc import Callable
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from muster.api.meta import Wire
from muster.api.resources import ADMISSION_REVIEWS, POD_GROUPS, QUEUES, TOPOLOGIES
from muster.errors import MusterError

API_VERSION = ADMISSION_REVIEWS.api_version
JUDGED = tuple((resource.api_version, resource.kind) for resource in (POD_GROUPS, QUEUES, TOPOLOGIES))
LONGEST_WARNING = 250  # characters; the API server cuts longer ones

Raw = dict[str, Any]


class GroupVersionKind(Wire, frozen=True):
    """A kind, as a request names it."""

    group: str = ""
    version: str = ""
    kind: str = ""


class AdmissionRequest(Wire, frozen=True):
    """AdmissionRequest: what is about to happen."""

    uid: str = ""
    kind: GroupVersionKind = GroupVersionKind()
    sub_resource: str = ""
    operation: str = ""
    object: Any = None  # without what nobody looks at
    old_object: Any = None
    managed: msgspec.Raw = msgspec.Raw()  # `metadata.managedFields` of the object, not decoded: few look at it
    old_managed: msgspec.Raw = msgspec.Raw()

    @property
    def type(self) -> tuple[str, str]:
        """`apiVersion` and `kind`."""
        group = f"{self.kind.group}/" if self.kind.group else ""
        return f"{group}{self.kind.version}", self.kind.kind

    @property
    def judged(self) -> bool:
        """Whether it is muster's to say anything: creates and updates of our kinds, in any version of them."""
        ours = any(kind == self.kind.kind and version.split("/")[0] == self.kind.group for version, kind in JUDGED)
        return ours and self.operation in ("CREATE", "UPDATE") and not self.sub_resource

    @property
    def new(self) -> Raw:
        """The object, as what the request says it is."""
        version, kind = self.type
        return {**self.object, "apiVersion": version, "kind": kind}


class RawAdmissionRequest(Wire, frozen=True):
    """AdmissionRequest, as it comes in: objects are decoded when it is known that they are looked at."""

    uid: str = ""
    kind: GroupVersionKind = GroupVersionKind()
    sub_resource: str = ""
    operation: str = ""
    object: msgspec.Raw = msgspec.Raw()
    old_object: msgspec.Raw = msgspec.Raw()


class Review(Wire, frozen=True):
    """AdmissionReview, as it comes in."""

    api_version: str = ""
    kind: str = ""
    request: RawAdmissionRequest | None = None


class AdmissionResponse(Struct, frozen=True, rename="camel", omit_defaults=True):
    """AdmissionResponse."""

    uid: str
    allowed: bool
    status: Raw = {}
    warnings: tuple[str, ...] = ()
    patch_type: Literal["", "JSONPatch"] = ""
    patch: bytes = b""  # base64 on the wire

    @property
    def result(self) -> str:
        """In a word, for the metrics."""
        if not self.allowed:
            return "denied"
        return "patched" if self.patch else "warned" if self.warnings else "allowed"


Judge = Callable[[AdmissionRequest], AdmissionResponse]


class Unanswerable(MusterError):
    """A request that gets an HTTP status and a sentence instead of an answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def short(text: str) -> str:
    """A text that fits into a warning, without characters that would spoil a terminal."""
    shown = "".join(character if character.isprintable() else "�" for character in text)
    return shown if len(shown) <= LONGEST_WARNING else f"{shown[: LONGEST_WARNING - 1]}…"


_OPERATIONS = ("CREATE", "UPDATE", "DELETE", "CONNECT")
_REVIEWS = msgspec.json.Decoder(Review)


class Meta(Wire, frozen=True):
    """Metadata of any shape; `managedFields`, often the larger part of an object, stays as it is."""

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


class Thing(Wire, frozen=True):
    """An object of one of our kinds; of what is in it, the request has said the kind."""

    metadata: msgspec.Raw = msgspec.Raw()
    spec: Any = UNSET
    status: Any = UNSET


_THINGS = msgspec.json.Decoder(Thing)
_METAS = msgspec.json.Decoder(Meta)
_META = tuple((name, wire) for name, wire in zip(Meta.__struct_fields__, Meta.__struct_encode_fields__, strict=True))


def read(body: bytes) -> AdmissionRequest:
    """The request of a review; Unanswerable says in a sentence what is wrong with it."""
    try:
        review = _REVIEWS.decode(body)
        request = _opened(review.request) if review.request else None
    except (msgspec.MsgspecError, UnicodeError, ValueError) as error:
        raise Unanswerable(400, f"this is not an AdmissionReview: {short(str(error))}") from None
    if (review.api_version, review.kind) != (API_VERSION, "AdmissionReview"):
        said = short(f"`{review.kind}` of `{review.api_version}`")
        raise Unanswerable(400, f"expected an AdmissionReview of `{API_VERSION}`, got {said}")
    if request is None or not request.uid:
        raise Unanswerable(400, "the review has no `request` with a `uid`")
    return _sound(request)


def _opened(sent: RawAdmissionRequest) -> AdmissionRequest:
    admission_request = AdmissionRequest(sent.uid, sent.kind, sent.sub_resource, sent.operation)
    if not admission_request.judged:
        return admission_request
    new, managed = _object(sent.object)
    old, old_managed = _object(sent.old_object)
    return replace(admission_request, object=new, old_object=old, managed=managed, old_managed=old_managed)


def _object(raw: msgspec.Raw) -> tuple[Any, msgspec.Raw]:
    """An object with what is looked at, and its `managedFields`; what is no object comes as it is."""
    if not bytes(raw).lstrip().startswith(b"{"):
        return (msgspec.json.decode(raw) if bytes(raw) else None), msgspec.Raw()
    thing = _THINGS.decode(raw)
    meta, managed = _metadata(thing.metadata)
    parts = {"metadata": meta, "spec": thing.spec, "status": thing.status}
    return {name: value for name, value in parts.items() if value is not UNSET}, managed


def _metadata(raw: msgspec.Raw) -> tuple[Any, msgspec.Raw]:
    if not bytes(raw).lstrip().startswith(b"{"):
        return (msgspec.json.decode(raw) if bytes(raw) else UNSET), msgspec.Raw()
    meta = _METAS.decode(raw)
    found = {wire: getattr(meta, name) for name, wire in _META[:-1]}
    return {wire: value for wire, value in found.items() if value is not UNSET}, meta.managed_fields


def _sound(admission_request: AdmissionRequest) -> AdmissionRequest:
    if admission_request.operation not in _OPERATIONS:
        raise Unanswerable(
            400, f"`{short(admission_request.operation)}` is no operation; known: {', '.join(_OPERATIONS)}"
        )
    if admission_request.judged and not isinstance(admission_request.object, dict):
        raise Unanswerable(400, f"the request is a {admission_request.operation} without an object")
    if (
        admission_request.judged
        and admission_request.operation == "UPDATE"
        and not isinstance(admission_request.old_object, dict)
    ):
        raise Unanswerable(400, "the request is an UPDATE without the old object")
    return admission_request


def written(answer: AdmissionResponse) -> bytes:
    """The review that goes back."""
    return msgspec.json.encode({"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": answer})

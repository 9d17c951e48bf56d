"""Objects as an API server sends them. A watch brings thousands of pods a second, of which most fields are never read.

Rule: an encoded object is decoded into one struct when it comes: what its consumers read of its kind, or only its head;
all objects of a page at once. `raw_of` decodes all of it, once, for those who need a plain value.
"""

from typing import Annotated, Any, Generic, TypeVar, cast

import msgspec
from msgspec import Meta, Struct, field

from muster.api.core import Pod
from muster.api.decoding import decode, decode_json, json_decoder
from muster.api.meta import ObjectMeta, Wire
from muster.kube.listed_pod import ListedPod

Raw = dict[str, Any]
T = TypeVar("T", bound=Wire)
Item = TypeVar("Item")


class HeadSpec(Wire, frozen=True):
    """Whose pod it is."""

    scheduler_name: Any = ""


class ObjectHead(Wire, frozen=True):
    """What identifies an object, and what tells quickly whether it concerns a consumer."""

    metadata: ObjectMeta = ObjectMeta()
    spec: HeadSpec | None = None


MENDED: dict[type[Wire], type[Wire]] = {ListedPod: Pod}  # what is decoded where an object does not fit its type


class EncodedObject(Struct, eq=False, gc=False):
    """An object as JSON, and as a struct. `encode_object`, `decode_page` and `decode_items` make them."""

    struct: Wire
    metadata: ObjectMeta  # of the struct
    source: "msgspec.Raw | bytes | EncodedPage"
    number: int = 0  # in its page
    kind: tuple[str, str] = ("", "")  # what API servers leave out in lists of built-in kinds
    is_exact: bool = True  # every field fits its type
    plain: Raw | None = None  # decoded where a consumer needs all of it

    @property
    def scheduler(self) -> object:
        """`spec.schedulerName` of a pod."""
        spec = getattr(self.struct, "spec", None)
        return getattr(spec, "scheduler_name", "")

    @property
    def raw(self) -> Raw:
        """All of it; the same value every time."""
        if self.plain is None:
            self.plain = cast("Raw", msgspec.json.decode(self._encoded))
            for name, text in zip(("apiVersion", "kind"), self.kind, strict=True):
                if text:
                    self.plain.setdefault(name, text)
        return self.plain

    @property
    def _encoded(self) -> msgspec.Raw | bytes:
        return self.source.item(self.number) if isinstance(self.source, EncodedPage) else self.source

    def read(self, struct: type[T]) -> T:
        """As a struct; fields that do not fit keep their defaults."""
        if not isinstance(self.struct, struct):
            self.struct = decode_json(self._encoded, struct)
        return self.struct


def encode_object(
    data: msgspec.Raw | bytes, kind: tuple[str, str] = ("", ""), struct: type[Wire] = ObjectHead
) -> EncodedObject:
    """One object; ValidationError where an API server cannot have stored it.

    It has a name, and a `spec` that is an object; other fields may not fit.
    """
    is_exact = True
    try:
        decoded: Wire = json_decoder(struct).decode(data)
    except msgspec.ValidationError:
        raw = msgspec.json.decode(data)
        if not is_object(raw):
            raise
        decoded, misfits = decode(raw, MENDED.get(struct, struct))
        is_exact = not misfits
    metadata: ObjectMeta = decoded.metadata  # type: ignore[attr-defined]  # every kind has it
    if not metadata.name:
        raise msgspec.ValidationError("it has no name")
    return EncodedObject(decoded, metadata, data, 0, kind, is_exact)


def is_object(raw: object) -> bool:
    """Whether an API server may have stored it: it has a name, and a `spec` is an object."""
    meta = raw.get("metadata") if isinstance(raw, dict) else None
    named = isinstance(meta, dict) and isinstance(name := meta.get("name"), str) and name != ""
    return named and isinstance(raw, dict) and isinstance(raw.get("spec") or {}, dict)


# pages of lists -------------------------------------------------------------------------------------------------------


class ListMeta(Struct, frozen=True, rename="camel"):
    """Where a watch resumes, and where the next page begins."""

    resource_version: Annotated[str, Meta(min_length=1)]
    continue_: str = field(name="continue", default="")  # empty: this is the last page


class EncodedList(Struct, Generic[Item], frozen=True):
    """Every field is required: something else must not pass for an empty list, or all objects would seem deleted."""

    metadata: ListMeta
    items: list[Item] | None


class EncodedPage:
    """The items of one page as JSON, separated only where one of them is needed whole: few ever are."""

    __slots__ = ("_body", "_items")

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._items: list[msgspec.Raw] | None = None

    def item(self, number: int) -> msgspec.Raw:
        """One of them."""
        if self._items is None:
            self._items = list(_decode_list(self._body).items or ())
        return self._items[number]


_decode_list = msgspec.json.Decoder(EncodedList[msgspec.Raw]).decode


def decode_page(body: bytes, kind: tuple[str, str], struct: type[Wire]) -> tuple[tuple[EncodedObject, ...], ListMeta]:
    """The objects of a page of a list in one pass; equal to `decode_items`, which is for pages with misfits."""
    try:
        listed: EncodedList[Any] = json_decoder(EncodedList[struct]).decode(body)  # type: ignore[valid-type]
    except msgspec.ValidationError:
        return decode_items(body, kind, struct)
    page, items = EncodedPage(body), listed.items or ()
    if not all(item.metadata.name for item in items):
        raise msgspec.ValidationError("an item has no name")
    return tuple([EncodedObject(item, item.metadata, page, i, kind) for i, item in enumerate(items)]), listed.metadata


def decode_items(body: bytes, kind: tuple[str, str], struct: type[Wire]) -> tuple[tuple[EncodedObject, ...], ListMeta]:
    """The objects of a page of a list, each by itself."""
    listed = _decode_list(body)
    return tuple([encode_object(item, kind, struct) for item in listed.items or ()]), listed.metadata


StoredObject = Raw | EncodedObject


def raw_of(stored: StoredObject) -> Raw:
    """The object as a plain value."""
    return stored.raw if isinstance(stored, EncodedObject) else stored


def read_object(stored: StoredObject, struct: type[T]) -> T:
    """The object as a struct; fields that do not fit keep their defaults."""
    return stored.read(struct) if isinstance(stored, EncodedObject) else decode(stored, struct)[0]


def received_pod(stored: StoredObject) -> Pod | ListedPod:
    """A pod as it was decoded when it came; fields that do not fit keep their defaults."""
    if isinstance(stored, EncodedObject) and isinstance(stored.struct, ListedPod):
        return stored.struct
    return read_object(stored, Pod)


def metadata_of(stored: StoredObject) -> ObjectMeta:
    """Metadata of an object; fields that do not fit keep their defaults."""
    return stored.metadata if isinstance(stored, EncodedObject) else decode(stored, ObjectHead)[0].metadata


def identity(stored: StoredObject) -> tuple[str, str]:
    """Namespace and name."""
    if isinstance(stored, EncodedObject):
        meta = stored.metadata
        return meta.namespace, meta.name
    metadata = stored["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def version_of(stored: StoredObject) -> tuple[str, str]:
    """Uid and resourceVersion."""
    if isinstance(stored, EncodedObject):
        meta = stored.metadata
        return meta.uid, meta.resource_version
    metadata = stored["metadata"]
    return metadata.get("uid", ""), metadata.get("resourceVersion", "")


def scheduler_of(stored: StoredObject) -> object:
    """`spec.schedulerName` of a pod."""
    return stored.scheduler if isinstance(stored, EncodedObject) else (stored.get("spec") or {}).get("schedulerName")

"""Objects as an API server sends them. A watch brings thousands of pods a second, of which most fields are never read.

Rule: only the head of an encoded object is decoded when it comes; consumers decode what they read, straight into their
structs. `raw_of` decodes all of it, once, for those who need a plain value.
"""

from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct

from muster.api.decoding import decode, decode_json
from muster.api.meta import Wire

Raw = dict[str, Any]
T = TypeVar("T", bound=Wire)


class HeadMeta(Struct, frozen=True, rename="camel", gc=False):
    """What identifies an object, and what tells quickly whether it concerns a consumer."""

    name: Annotated[str, Meta(min_length=1)]
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    labels: Any = None
    owner_references: Any = None


class HeadSpec(Struct, frozen=True, rename="camel", gc=False):
    """Whose pod it is."""

    scheduler_name: Any = None


class ObjectHead(Struct, frozen=True, gc=False):
    """The head of an object: an API server may have stored it, as it has a name, and a `spec` is an object."""

    metadata: HeadMeta
    spec: HeadSpec | None = None


_decode_head = msgspec.json.Decoder(ObjectHead).decode
_decode_raw = msgspec.json.Decoder(Raw).decode


class EncodedObject:
    """An object as JSON, with its head; `kind` is what API servers leave out in lists of built-in kinds."""

    __slots__ = ("_data", "_kind", "_raw", "head")

    def __init__(self, data: msgspec.Raw | bytes, kind: tuple[str, str] = ("", "")) -> None:
        self.head: ObjectHead = _decode_head(data)
        self._data, self._kind = data, kind
        self._raw: Raw | None = None

    @property
    def raw(self) -> Raw:
        """All of it; the same value every time."""
        if self._raw is None:
            self._raw = _decode_raw(self._data)
            for field, text in zip(("apiVersion", "kind"), self._kind, strict=True):
                if text:
                    self._raw.setdefault(field, text)
        return self._raw

    def read(self, struct: type[T]) -> T:
        """As a struct; fields that do not fit keep their defaults."""
        return decode_json(self._data, struct)


StoredObject = Raw | EncodedObject


def raw_of(stored: StoredObject) -> Raw:
    """The object as a plain value."""
    return stored.raw if isinstance(stored, EncodedObject) else stored


def read_object(stored: StoredObject, struct: type[T]) -> T:
    """The object as a struct; fields that do not fit keep their defaults."""
    return stored.read(struct) if isinstance(stored, EncodedObject) else decode(stored, struct)[0]


def head_of(stored: StoredObject) -> ObjectHead:
    """The head of an object."""
    return stored.head if isinstance(stored, EncodedObject) else msgspec.convert(stored, ObjectHead)


def identity(stored: StoredObject) -> tuple[str, str]:
    """Namespace and name."""
    if isinstance(stored, EncodedObject):
        meta = stored.head.metadata
        return meta.namespace or "", meta.name
    metadata = stored["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def version_of(stored: StoredObject) -> tuple[str, str]:
    """Uid and resourceVersion."""
    if isinstance(stored, EncodedObject):
        meta = stored.head.metadata
        return meta.uid or "", meta.resource_version or ""
    metadata = stored["metadata"]
    return metadata.get("uid", ""), metadata.get("resourceVersion", "")


def scheduler_of(stored: StoredObject) -> object:
    """`spec.schedulerName` of a pod."""
    if isinstance(stored, EncodedObject):
        spec = stored.head.spec
        return spec.scheduler_name if spec is not None else None
    return (stored.get("spec") or {}).get("schedulerName")

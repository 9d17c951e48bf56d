"""Objects as an API server sends them. A watch brings thousands of pods a second, of which most fields are never read.

Rule: an encoded object is decoded into one struct when it comes: what its consumers read of its kind, or only its head.
`raw_of` decodes all of it, once, for those who need a plain value.
"""

from typing import Any, Protocol, TypeVar, cast

import msgspec

from muster.api.decoding import decode, decode_json, json_decoder
from muster.api.meta import ObjectMeta, Wire

Raw = dict[str, Any]
T = TypeVar("T", bound=Wire)


class HeadSpec(Wire, frozen=True):
    """Whose pod it is."""

    scheduler_name: Any = ""


class ObjectHead(Wire, frozen=True):
    """What identifies an object, and what tells quickly whether it concerns a consumer."""

    metadata: ObjectMeta = ObjectMeta()
    spec: HeadSpec | None = None


class HeadStruct(Protocol):
    """A struct that has a head as well."""

    @property
    def metadata(self) -> ObjectMeta:
        """Of every kind."""


class EncodedObject:
    """An object as JSON, and as a struct; ValidationError where an API server cannot have stored it.

    `kind` is what API servers leave out in lists of built-in kinds.
    """

    __slots__ = ("_data", "_kind", "_raw", "_struct", "is_exact")

    def __init__(
        self, data: msgspec.Raw | bytes, kind: tuple[str, str] = ("", ""), struct: type[Wire] = ObjectHead
    ) -> None:
        self._data, self._kind = data, kind
        self._raw: Raw | None = None
        self._struct, self.is_exact = _decode_object(data, struct)  # exact: every field fits its type

    @property
    def metadata(self) -> ObjectMeta:
        """Of the object."""
        return cast("HeadStruct", self._struct).metadata

    @property
    def scheduler(self) -> object:
        """`spec.schedulerName` of a pod."""
        spec = getattr(self._struct, "spec", None)
        return getattr(spec, "scheduler_name", "")

    @property
    def raw(self) -> Raw:
        """All of it; the same value every time."""
        if self._raw is None:
            self._raw = cast("Raw", msgspec.json.decode(self._data))
            for field, text in zip(("apiVersion", "kind"), self._kind, strict=True):
                if text:
                    self._raw.setdefault(field, text)
        return self._raw

    def read(self, struct: type[T]) -> T:
        """As a struct; fields that do not fit keep their defaults."""
        if not isinstance(self._struct, struct):
            self._struct = decode_json(self._data, struct)
        return self._struct


def _decode_object(data: msgspec.Raw | bytes, struct: type[T]) -> tuple[T, bool]:
    """A struct whose object has a name, and a `spec` that is an object; and whether all other fields fit as well."""
    is_exact = True
    try:
        decoded: T = json_decoder(struct).decode(data)
    except msgspec.ValidationError:
        raw = msgspec.json.decode(data)
        if not is_object(raw):
            raise
        decoded, misfits = decode(raw, struct)
        is_exact = not misfits
    if not cast("HeadStruct", decoded).metadata.name:
        raise msgspec.ValidationError("it has no name")
    return decoded, is_exact


def is_object(raw: object) -> bool:
    """Whether an API server may have stored it: it has a name, and a `spec` is an object."""
    meta = raw.get("metadata") if isinstance(raw, dict) else None
    named = isinstance(meta, dict) and isinstance(name := meta.get("name"), str) and name != ""
    return named and isinstance(raw, dict) and isinstance(raw.get("spec") or {}, dict)


StoredObject = Raw | EncodedObject


def raw_of(stored: StoredObject) -> Raw:
    """The object as a plain value."""
    return stored.raw if isinstance(stored, EncodedObject) else stored


def read_object(stored: StoredObject, struct: type[T]) -> T:
    """The object as a struct; fields that do not fit keep their defaults."""
    return stored.read(struct) if isinstance(stored, EncodedObject) else decode(stored, struct)[0]


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

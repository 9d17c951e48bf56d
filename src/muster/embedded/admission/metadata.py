"""`metadata` as an API server treats it: names, identity, generation, finalizers, and what may not change."""

import re
from collections.abc import Iterator
from typing import Any
from zlib import crc32

from muster.embedded.api_errors import Cause
from muster.embedded.store.kinds import Kind
from muster.kube.cluster import Raw

FOREGROUND_FINALIZER, ORPHAN_FINALIZER = "foregroundDeletion", "orphan"
CRD_CLEANUP_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_QUALIFIED = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
# set by the API server alone; values in a write are ignored
_SYSTEM_FIELDS = (
    "name",
    "namespace",
    "generateName",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "selfLink",
)
FIELDS = frozenset(
    (*_SYSTEM_FIELDS, "resourceVersion", "labels", "annotations", "ownerReferences", "finalizers", "managedFields")
)


def name_suffix(seed: str) -> str:
    """The five characters that `generateName` appends."""
    number, text = crc32(seed.encode()), ""
    for _ in range(5):
        number, digit = divmod(number, len(_SUFFIX_ALPHABET))
        text += _SUFFIX_ALPHABET[digit]
    return text


def new_metadata(raw: Raw, kind: Kind, *, namespace: str, uid: str, now: str) -> Raw:
    """The metadata of a new object: the server sets its identity."""
    metadata = raw["metadata"]
    prefix = metadata.get("generateName") or ""
    name = metadata.get("name") or (f"{prefix[:58]}{name_suffix(uid)}" if prefix else "")
    user_fields = _user_fields(metadata)
    user_fields.pop("resourceVersion", None)
    return {
        "name": name,
        **({"generateName": prefix} if prefix else {}),
        **({"namespace": namespace} if kind.resource.namespaced else {}),
        "uid": uid,
        "creationTimestamp": now,
        **({"generation": 1} if kind.has_generation else {}),
        **user_fields,
    }


def _user_fields(metadata: Raw) -> Raw:
    return {name: value for name, value in metadata.items() if name not in _SYSTEM_FIELDS and value is not None}


def updated_metadata(old: Raw, new: Raw) -> Raw:
    """The metadata of an update: fields that the server sets stay as they were."""
    user_fields = _user_fields(new)
    system_fields = {name: old[name] for name in (*_SYSTEM_FIELDS, "resourceVersion") if name in old}
    managed = {"managedFields": old["managedFields"]} if "managedFields" in old and "managedFields" not in new else {}
    if user_fields.get("managedFields") in ([], [{}]):
        del user_fields["managedFields"]
    user_fields.pop("resourceVersion", None)
    return {**system_fields, **user_fields, **managed}


def with_generation(old: Raw, new: Raw, kind: Kind) -> Raw:
    """The new object with its generation incremented where anything but metadata and status changed."""
    if not kind.has_generation:
        return new
    ignored = ("metadata", "status") if "status" in kind.subresources else ("metadata",)
    is_changed = any(old.get(name) != new.get(name) for name in {*old, *new} if name not in ignored)
    generation = old["metadata"].get("generation", 1) + is_changed
    return {**new, "metadata": {**new["metadata"], "generation": generation}}


def problems(raw: Raw, kind: Kind) -> Iterator[Cause]:
    """What is wrong with the metadata of an object."""
    metadata = raw["metadata"]
    yield from _name_problems(metadata.get("name"), kind)
    yield from _map_problems(metadata.get("labels"), "metadata.labels", _LABEL_VALUE)
    yield from _map_problems(metadata.get("annotations"), "metadata.annotations", None)
    for i, name in enumerate(_list(metadata.get("finalizers"))):
        if not isinstance(name, str) or not _QUALIFIED.fullmatch(name):
            yield Cause(f"metadata.finalizers[{i}]", f'Invalid value: "{str(name)[:80]}": name is not qualified')
    for i, owner in enumerate(_list(metadata.get("ownerReferences"))):
        for field in ("apiVersion", "kind", "name", "uid"):
            if not isinstance(owner, dict) or not owner.get(field):
                path = f"metadata.ownerReferences[{i}].{field}"
                yield Cause(path, "Required value: must not be empty", "FieldValueRequired")


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _name_problems(name: Any, kind: Kind) -> Iterator[Cause]:
    path = "metadata.name"
    if not name:
        yield Cause(path, "Required value: name or generateName is required", "FieldValueRequired")
        return
    if kind.resource.plural in ("namespaces", "services") and not kind.resource.group:
        if len(name) > 63 or not _LABEL.fullmatch(name):
            yield Cause(path, f'Invalid value: "{name[:80]}": a lowercase RFC 1123 label must consist of [-a-z0-9]')
    elif len(name) > 253 or not _SUBDOMAIN.fullmatch(name):
        yield Cause(path, f'Invalid value: "{name[:80]}": a lowercase RFC 1123 subdomain must consist of [-.a-z0-9]')


def _map_problems(pairs: Any, path: str, value_pattern: re.Pattern[str] | None) -> Iterator[Cause]:
    """What is wrong with labels, or with annotations: their values have no pattern, but a total size."""
    if pairs is None:
        return
    if not isinstance(pairs, dict):
        yield Cause(path, "Invalid value: must be a map of text", "FieldValueTypeInvalid")
        return
    for name, value in pairs.items():
        if not _QUALIFIED.fullmatch(name if value_pattern else name.lower()) or len(name) > 317:
            yield Cause(path, f'Invalid value: "{name[:80]}": name part must consist of alphanumeric characters')
        if not isinstance(value, str):
            yield Cause(f"{path}.{name}", "Invalid value: must be text", "FieldValueTypeInvalid")
        elif value_pattern and (len(value) > 63 or not value_pattern.fullmatch(value)):
            yield Cause(path, f'Invalid value: "{value[:80]}": a valid label must be at most 63 of [-A-Za-z0-9_.]')
    if not value_pattern and sum(len(name) + len(str(value)) for name, value in pairs.items()) > 256 * 1024:
        yield Cause(path, "Too long: may not be more than 262144 bytes", "FieldValueTooLong")


def mark_terminating(raw: Raw, deletion_timestamp: str, grace_seconds: int, finalizers: list[str]) -> Raw:
    """An object with its deletion timestamp; it is removed once no finalizer and no grace period holds it."""
    metadata = dict(raw["metadata"])
    if "deletionTimestamp" not in metadata and "generation" in metadata:
        metadata["generation"] += 1
    metadata.update(deletionTimestamp=deletion_timestamp, deletionGracePeriodSeconds=grace_seconds)
    return {**raw, "metadata": with_finalizers(metadata, finalizers)}


def with_finalizers(metadata: Raw, finalizers: list[str]) -> Raw:
    """Metadata with these finalizers and no others."""
    rest = {name: value for name, value in metadata.items() if name != "finalizers"}
    return {**rest, **({"finalizers": finalizers} if finalizers else {})}

"""What an API server does to `metadata`: names, identity, generations, and what may not change."""

import re
from collections.abc import Iterator, Mapping
from typing import Any
from zlib import crc32

from muster.api.resources import NAMESPACES
from muster.embedded.api_errors import Cause
from muster.embedded.store.kinds import Kind
from muster.kube.cluster import Raw

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_QUALIFIED = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
# only an API server sets these; whatever a write says about them is ignored
_OURS = (
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
    (*_OURS, "resourceVersion", "labels", "annotations", "ownerReferences", "finalizers", "managedFields")
)


def suffix(seed: str) -> str:
    """Five characters for `generateName`."""
    number, text = crc32(seed.encode()), ""
    for _ in range(5):
        number, digit = divmod(number, len(_ALPHABET))
        text += _ALPHABET[digit]
    return text


def born(raw: Raw, kind: Kind, *, namespace: str, uid: str, now: str) -> Raw:
    """The metadata of a new object: identity is the server's to give."""
    given = {name: value for name, value in raw["metadata"].items() if name not in _OURS and value is not None}
    name = raw["metadata"].get("name") or (
        f"{raw['metadata']['generateName'][:58]}{suffix(uid)}" if raw["metadata"].get("generateName") else ""
    )
    generated = {"generateName": raw["metadata"]["generateName"]} if raw["metadata"].get("generateName") else {}
    given.pop("resourceVersion", None)
    return {
        "name": name,
        **generated,
        **({"namespace": namespace} if kind.resource.namespaced else {}),
        "uid": uid,
        "creationTimestamp": now,
        **({"generation": 1} if kind.counted else {}),
        **given,
    }


def kept(old: Raw, new: Raw) -> Raw:
    """The metadata of an update: what is the server's stays as it was."""
    given = {name: value for name, value in new.items() if name not in _OURS and value is not None}
    same = {name: old[name] for name in (*_OURS, "resourceVersion") if name in old}
    managed = {"managedFields": old["managedFields"]} if "managedFields" in old and "managedFields" not in new else {}
    if given.get("managedFields") in ([], [{}]):
        del given["managedFields"]
    return {**same, **{name: value for name, value in given.items() if name != "resourceVersion"}, **managed}


def raised(old: Raw, new: Raw, kind: Kind) -> Raw:
    """The new object with its generation raised where anything but metadata and status changed."""
    if not kind.counted:
        return new
    apart = ("metadata", "status") if "status" in kind.subresources else ("metadata",)
    changed = any(old.get(name) != new.get(name) for name in {*old, *new} if name not in apart)
    generation = old["metadata"].get("generation", 1) + changed
    return {**new, "metadata": {**new["metadata"], "generation": generation}}


def problems(raw: Raw, kind: Kind) -> Iterator[Cause]:
    """What is wrong with the metadata of an object."""
    metadata = raw["metadata"]
    yield from _name(metadata.get("name"), kind)
    yield from _pairs(metadata.get("labels"), "metadata.labels", _LABEL_VALUE)
    yield from _pairs(metadata.get("annotations"), "metadata.annotations", None)
    for i, name in enumerate(_list(metadata.get("finalizers"))):
        if not isinstance(name, str) or not _QUALIFIED.fullmatch(name):
            yield Cause(f"metadata.finalizers[{i}]", f'Invalid value: "{str(name)[:80]}": name is not qualified')
    for i, owner in enumerate(_list(metadata.get("ownerReferences"))):
        for field in ("apiVersion", "kind", "name", "uid"):
            if not isinstance(owner, dict) or not owner.get(field):
                where = f"metadata.ownerReferences[{i}].{field}"
                yield Cause(where, "Required value: must not be empty", "FieldValueRequired")


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _name(name: Any, kind: Kind) -> Iterator[Cause]:
    at = "metadata.name"
    if not name:
        yield Cause(at, "Required value: name or generateName is required", "FieldValueRequired")
        return
    if kind.resource.plural in ("namespaces", "services") and not kind.resource.group:
        if len(name) > 63 or not _LABEL.fullmatch(name):
            yield Cause(at, f'Invalid value: "{name[:80]}": a lowercase RFC 1123 label must consist of [-a-z0-9]')
    elif len(name) > 253 or not _SUBDOMAIN.fullmatch(name):
        yield Cause(at, f'Invalid value: "{name[:80]}": a lowercase RFC 1123 subdomain must consist of [-.a-z0-9]')


def _pairs(found: Any, at: str, value_form: re.Pattern[str] | None) -> Iterator[Cause]:
    if found is None:
        return
    if not isinstance(found, dict):
        yield Cause(at, "Invalid value: must be a map of text", "FieldValueTypeInvalid")
        return
    for name, value in found.items():
        if not _QUALIFIED.fullmatch(name if value_form else name.lower()) or len(name) > 317:
            yield Cause(at, f'Invalid value: "{name[:80]}": name part must consist of alphanumeric characters')
        if not isinstance(value, str):
            yield Cause(f"{at}.{name}", "Invalid value: must be text", "FieldValueTypeInvalid")
        elif value_form and (len(value) > 63 or not value_form.fullmatch(value)):
            yield Cause(at, f'Invalid value: "{value[:80]}": a valid label must be at most 63 of [-A-Za-z0-9_.]')
    if not value_form and sum(len(name) + len(str(value)) for name, value in found.items()) > 256 * 1024:
        yield Cause(at, "Too long: may not be more than 262144 bytes", "FieldValueTooLong")


def is_namespace(kind: Kind) -> bool:
    """Whether objects of this kind hold others."""
    return kind.resource == NAMESPACES


def owners(raw: Raw) -> Iterator[Mapping[str, Any]]:
    """The owner references of an object."""
    yield from raw["metadata"].get("ownerReferences") or ()


def marked(raw: Raw, now: str, grace_seconds: int, finalizers: list[str]) -> Raw:
    """An object on its way out: it is read-only in spirit, and goes when nothing holds it any more."""
    metadata = dict(raw["metadata"])
    if "deletionTimestamp" not in metadata and "generation" in metadata:
        metadata["generation"] += 1
    metadata.update(deletionTimestamp=now, deletionGracePeriodSeconds=grace_seconds)
    return {**raw, "metadata": with_finalizers(metadata, finalizers)}


def with_finalizers(metadata: Raw, finalizers: list[str]) -> Raw:
    """Metadata with these finalizers and no others."""
    rest = {name: value for name, value in metadata.items() if name != "finalizers"}
    return {**rest, **({"finalizers": finalizers} if finalizers else {})}

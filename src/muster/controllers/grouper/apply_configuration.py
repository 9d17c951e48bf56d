"""What the grouper applies to a PodGroup: its own fields, without those that others have set. Pure.

Rule 1: on a PodGroup that exists, queue and node pool stay as they are. Rule 2: a field that another manager owns stays
that manager's: server-side apply names such fields in its conflict, and the configuration is applied without them.
"""

import re
from collections.abc import Collection, Iterator
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec.structs import replace

from muster.api import names
from muster.api.decoding import encode
from muster.api.podgroup import PodGroup
from muster.api.resources import POD_GROUPS
from muster.kube.cluster import Raw
from muster.kube.errors import ApiError

_MAPS_OF_TEXT = ("metadata.labels", "metadata.annotations")  # their keys stand unquoted at the end of a path
ItemsByName = dict[int, dict[str, Any]]  # by the identity of their list: another manager may own 10,000 of them
_STEP = re.compile(r'\.(?P<field>[^.\[]+)|\[name="(?P<name>[^"]*)"\]')


def with_digest(desired: PodGroup) -> PodGroup:
    """The PodGroup with an annotation that says what it is."""
    annotations = {**desired.metadata.annotations, names.GROUPING: digest(desired)}
    return replace(desired, metadata=replace(desired.metadata, annotations=annotations))


def keep_existing(desired: PodGroup, existing: PodGroup | None, pool_label: str = names.NODE_POOL) -> PodGroup:
    """The PodGroup with the queue, and the labels of queue and node pool, that the existing one has."""
    if existing is None:
        return desired
    kept = (names.QUEUE, pool_label)
    labels = {name: text for name, text in desired.metadata.labels.items() if name not in kept}
    labels |= {name: existing.metadata.labels[name] for name in kept if name in existing.metadata.labels}
    return replace(
        desired,
        metadata=replace(desired.metadata, labels=labels),
        spec=replace(desired.spec, queue=existing.spec.queue),
    )


def digest(desired: PodGroup) -> str:
    """Says what is applied: a PodGroup that has it has nothing of ours to change, whatever others changed since."""
    return blake2b(msgspec.json.encode(encode(desired), order="sorted"), digest_size=8).hexdigest()


def configuration(desired: PodGroup, yielded: Collection[str] = ()) -> Raw:
    """The apply configuration, without the fields that are yielded to other managers."""
    raw = {"apiVersion": POD_GROUPS.api_version, "kind": POD_GROUPS.kind, **encode(desired)}
    by_name: ItemsByName = {}
    for path in yielded:
        _remove(raw, list(_steps(path)), by_name)
    return raw


def contested_fields(error: ApiError) -> frozenset[str]:
    """The fields that other managers own, of a conflict of server-side apply; empty: it is another error."""
    causes = error.details.get("causes") if error.status == 409 else None
    return frozenset(
        str(cause.get("field"))
        for cause in causes or ()
        if isinstance(cause, dict) and cause.get("reason") == "FieldManagerConflict"
    )


def _steps(path: str) -> Iterator[str | tuple[str, str]]:
    """`.spec.subGroups[name="a"].minMember`: fields, and items by their name."""
    for parent in _MAPS_OF_TEXT:
        if path.startswith(f".{parent}."):
            yield from parent.split(".")
            yield path.removeprefix(f".{parent}.")
            return
    for step in _STEP.finditer(path):
        yield step["field"] if step["field"] is not None else ("name", step["name"])


def _remove(raw: Any, steps: list[str | tuple[str, str]], by_name: ItemsByName) -> None:
    """Remove the field at a path, if it is there. An item of a list stays: only its fields belong to managers."""
    *parents, last = steps or [""]
    for step in parents:
        raw = _inner(raw, step, by_name)
    if isinstance(raw, dict) and isinstance(last, str):
        raw.pop(last, None)


def _inner(raw: Any, step: str | tuple[str, str], by_name: ItemsByName) -> Any:
    match raw, step:
        case dict(), str():
            return raw.get(step)
        case list(), (_, name):
            if id(raw) not in by_name:
                by_name[id(raw)] = {item["name"]: item for item in raw if isinstance(item, dict) and "name" in item}
            return by_name[id(raw)].get(name)
        case _:
            return None

"""Server-side apply: who owns which fields (`metadata.managedFields`), what conflicts, and what an apply makes of it.

Ownership is kept from the first apply on: what was there before belongs to `before-first-apply`, unless kubectl's
annotation says that it applied it.
"""

import json
from typing import Any

from muster.api.resources import Resource
from muster.embedded.api_errors import Cause, conflict
from muster.embedded.patch.managed_fields import Path, Paths, at, cleared, flat, nested, overlaid, paths
from muster.embedded.patch.merge_keys import MergeKeys
from muster.kube.cluster import Raw

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
BEFORE = "before-first-apply"


class Manager:
    """One entry of `managedFields`."""

    def __init__(self, name: str, operation: str, subresource: str, fields: Paths, time: str) -> None:
        self.name, self.operation, self.subresource = name, operation, subresource
        self.fields, self.time = fields, time

    @property
    def identity(self) -> tuple[str, str, str]:
        """Who, by which way of writing, to which part."""
        return self.name, self.operation, self.subresource

    def entry(self, api_version: str) -> Raw:
        """As it stands in the object."""
        return {
            "manager": self.name,
            "operation": self.operation,
            "apiVersion": api_version,
            "time": self.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": nested(self.fields),
            **({"subresource": self.subresource} if self.subresource else {}),
        }


def managers(raw: Raw) -> list[Manager]:
    """Those that an object knows."""
    return [
        Manager(
            one.get("manager", ""),
            one.get("operation", "Update"),
            one.get("subresource", ""),
            frozenset(flat(one.get("fieldsV1"))),
            one.get("time", ""),
        )
        for one in raw["metadata"].get("managedFields") or ()
        if isinstance(one, dict) and one
    ]


def noted(raw: Raw, all_of_them: list[Manager]) -> Raw:
    """The object with its managers written into it; those that own nothing are dropped."""
    entries = [one.entry(raw["apiVersion"]) for one in sorted(all_of_them, key=lambda one: one.identity) if one.fields]
    metadata = {name: value for name, value in raw["metadata"].items() if name != "managedFields"}
    return {**raw, "metadata": {**metadata, **({"managedFields": entries} if entries else {})}}


def applied(live: Raw, config: Raw, merge_keys: MergeKeys, manager: Manager, resource: Resource, *, force: bool) -> Raw:
    """`live` with a configuration applied: new values in, what this manager no longer names out; 409 on conflicts."""
    others = managers(live) or _first(live, merge_keys, manager)
    mine = next((one for one in others if one.identity == manager.identity), None)
    others = [one for one in others if one is not mine]
    fields = paths(config, merge_keys)
    contested = {one: _contested(one, fields, live, config) for one in others}
    causes = [
        Cause(_dotted(path), f'conflict with "{one.name}"', "FieldManagerConflict")
        for one, found in contested.items()
        for path in sorted(found)
    ]
    if causes and not force:
        plural = "conflict" if len(causes) == 1 else "conflicts"
        words = ", ".join(f"{cause.message}: {cause.field}" for cause in causes)
        problem = conflict(resource, config["metadata"].get("name", ""), "", causes)
        problem.message = f"Apply failed with {len(causes)} {plural}: {words}"
        raise problem
    for one, found in contested.items():
        one.fields = one.fields - found
    merged = overlaid(live, config, merge_keys)
    owned = frozenset(path for one in others for path in one.fields)
    for path in sorted((mine.fields if mine else frozenset()) - fields):  # an entry goes before the fields in it
        if not _under(path, fields | owned):
            merged = cleared(merged, path, fields | owned)
    manager.fields = fields
    if mine and mine.fields == fields and merged == live:
        manager.time = mine.time
    return noted(merged, [*others, manager])


def _first(live: Raw, merge_keys: MergeKeys, manager: Manager) -> list[Manager]:
    """The owner of all that was there before anyone applied anything."""
    text = live["metadata"].get("annotations", {}).get(LAST_APPLIED)
    known: Paths = frozenset()
    if text and manager.name == "kubectl":
        known = paths(json.loads(text), merge_keys) | {("f:metadata", "f:annotations", f"f:{LAST_APPLIED}")}
    fields = paths({name: value for name, value in live.items() if name != "status"}, merge_keys) - known
    return [Manager(BEFORE, "Update", "", fields, manager.time)] if "uid" in live["metadata"] else []


def _contested(other: Manager, fields: Paths, live: Raw, config: Raw) -> Paths:
    return frozenset(path for path in other.fields & fields if not _same(at(live, path), at(config, path), path))


def _same(one: Any, other: Any, path: Path) -> bool:
    """Entries of a list are the same by their keys; what is in them is owned on its own."""
    return bool(one == other) or path[-1].startswith("k:")


def _under(path: Path, fields: Paths) -> bool:
    """Whether a path, or something below it, is owned."""
    return any(other[: len(path)] == path for other in fields)


def written(old: Raw, new: Raw, merge_keys: MergeKeys, manager: Manager) -> Raw:
    """An update of an object with managers: who changed a field owns it now."""
    before, after = paths(old, merge_keys), paths(new, merge_keys)
    changed = frozenset(path for path in after if path not in before or at(old, path) != at(new, path))
    changed = frozenset(path for path in changed if not (path[-1].startswith("k:") and path in before))
    kept = []
    mine = manager
    for one in managers(old):
        if one.identity == manager.identity:
            mine = one
        else:
            one.fields = (one.fields - changed) & after
            kept.append(one)
    mine.time = manager.time if changed else mine.time
    mine.fields = (mine.fields | changed) & after
    return noted(new, [*kept, mine])


def _dotted(path: Path) -> str:
    """As conflicts name a field: `.spec.containers[name="a"].image`, `.metadata.finalizers[="x"]`."""
    return "".join(f".{step[2:]}" if step.startswith("f:") else f"[{_chosen(step)}]" for step in path)


def _chosen(step: str) -> str:
    if step.startswith("v:"):
        return f"={step[2:]}"
    return ",".join(f"{key}={json.dumps(value)}" for key, value in sorted(json.loads(step[2:]).items()))

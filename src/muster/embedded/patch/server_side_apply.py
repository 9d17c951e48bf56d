"""Server-side apply: field managers (`metadata.managedFields`), conflicts, and the merge of a configuration.

Managed fields begin with the first apply: fields set before it belong to `before-first-apply`, except those that
kubectl's last-applied annotation lists.
"""

import json
from typing import Any

from muster.api.resources import Resource
from muster.embedded.api_errors import Cause, conflict
from muster.embedded.patch.managed_fields import (
    FieldSet,
    Path,
    field_set,
    from_fields_v1,
    merge_config,
    remove_field,
    to_fields_v1,
    value_at,
)
from muster.embedded.patch.merge_keys import MergeKeys
from muster.kube.cluster import Raw

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
BEFORE_FIRST_APPLY = "before-first-apply"


class FieldManager:
    """One entry of `managedFields`."""

    def __init__(self, name: str, operation: str, subresource: str, fields: FieldSet, time: str) -> None:
        self.name, self.operation, self.subresource = name, operation, subresource
        self.fields, self.time = fields, time

    @property
    def identity(self) -> tuple[str, str, str]:
        """Name, operation and subresource: one entry each in `managedFields`."""
        return self.name, self.operation, self.subresource

    def entry(self, api_version: str) -> Raw:
        """The entry in `managedFields`."""
        return {
            "manager": self.name,
            "operation": self.operation,
            "apiVersion": api_version,
            "time": self.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": to_fields_v1(self.fields),
            **({"subresource": self.subresource} if self.subresource else {}),
        }


def managers_of(raw: Raw) -> list[FieldManager]:
    """The field managers of an object."""
    return [
        FieldManager(
            entry.get("manager", ""),
            entry.get("operation", "Update"),
            entry.get("subresource", ""),
            frozenset(from_fields_v1(entry.get("fieldsV1"))),
            entry.get("time", ""),
        )
        for entry in raw["metadata"].get("managedFields") or ()
        if isinstance(entry, dict) and entry
    ]


def _with_managers(raw: Raw, managers: list[FieldManager]) -> Raw:
    """The object with its `managedFields`; managers without fields are dropped."""
    ordered = sorted(managers, key=lambda manager: manager.identity)
    entries = [manager.entry(raw["apiVersion"]) for manager in ordered if manager.fields]
    metadata = {name: value for name, value in raw["metadata"].items() if name != "managedFields"}
    return {**raw, "metadata": {**metadata, **({"managedFields": entries} if entries else {})}}


def apply_configuration(
    live: Raw, config: Raw, merge_keys: MergeKeys, manager: FieldManager, resource: Resource, *, force: bool
) -> Raw:
    """`live` with a configuration applied: sets its fields, and removes those that the manager no longer applies.

    ApiError 409 on conflicts, unless forced.
    """
    current = managers_of(live) or _managers_before_first_apply(live, merge_keys, manager)
    previous = next((item for item in current if item.identity == manager.identity), None)
    others = [item for item in current if item is not previous]
    fields = field_set(config, merge_keys)
    conflicts = {other: _conflicting_fields(other, fields, live, config) for other in others}
    if not force:
        _raise_conflicts(conflicts, resource, config["metadata"].get("name", ""))
    for other, contested in conflicts.items():
        other.fields = other.fields - contested
    merged = merge_config(live, config, merge_keys)
    owned = frozenset(path for other in others for path in other.fields)
    for path in sorted((previous.fields if previous else frozenset()) - fields):  # a list item goes before its fields
        if not _covers(path, fields | owned):
            merged = remove_field(merged, path, fields | owned)
    manager.fields = fields
    if previous and previous.fields == fields and merged == live:
        manager.time = previous.time
    return _with_managers(merged, [*others, manager])


def _raise_conflicts(conflicts: dict[FieldManager, FieldSet], resource: Resource, name: str) -> None:
    causes = [
        Cause(_dotted_path(path), f'conflict with "{manager.name}"', "FieldManagerConflict")
        for manager, contested in conflicts.items()
        for path in sorted(contested)
    ]
    if not causes:
        return
    noun = "conflict" if len(causes) == 1 else "conflicts"
    listed = ", ".join(f"{cause.message}: {cause.field}" for cause in causes)
    error = conflict(resource, name, "", causes)
    error.message = f"Apply failed with {len(causes)} {noun}: {listed}"
    raise error


def _managers_before_first_apply(live: Raw, merge_keys: MergeKeys, manager: FieldManager) -> list[FieldManager]:
    """The manager of all fields that were set before the first apply."""
    last_applied = live["metadata"].get("annotations", {}).get(LAST_APPLIED)
    applied: FieldSet = frozenset()
    if last_applied and manager.name == "kubectl":
        annotation = ("f:metadata", "f:annotations", f"f:{LAST_APPLIED}")
        applied = field_set(json.loads(last_applied), merge_keys) | {annotation}
    fields = field_set({name: value for name, value in live.items() if name != "status"}, merge_keys) - applied
    return [FieldManager(BEFORE_FIRST_APPLY, "Update", "", fields, manager.time)] if "uid" in live["metadata"] else []


def _conflicting_fields(other: FieldManager, fields: FieldSet, live: Raw, config: Raw) -> FieldSet:
    return frozenset(
        path for path in other.fields & fields if not _is_same(value_at(live, path), value_at(config, path), path)
    )


def _is_same(live_value: Any, config_value: Any, path: Path) -> bool:
    """Items of a list map are the same by their keys; the fields in them have managers of their own."""
    return bool(live_value == config_value) or path[-1].startswith("k:")


def _covers(path: Path, fields: FieldSet) -> bool:
    """Whether a path, or one below it, is in a field set."""
    return any(field[: len(path)] == path for field in fields)


def record_update(old: Raw, new: Raw, merge_keys: MergeKeys, manager: FieldManager) -> Raw:
    """An updated object whose changed fields belong to the manager that changed them."""
    before, after = field_set(old, merge_keys), field_set(new, merge_keys)
    changed = frozenset(path for path in after if path not in before or value_at(old, path) != value_at(new, path))
    changed = frozenset(path for path in changed if not (path[-1].startswith("k:") and path in before))
    others, updater = [], manager
    for item in managers_of(old):
        if item.identity == manager.identity:
            updater = item
        else:
            item.fields = (item.fields - changed) & after
            others.append(item)
    updater.time = manager.time if changed else updater.time
    updater.fields = (updater.fields | changed) & after
    return _with_managers(new, [*others, updater])


def _dotted_path(path: Path) -> str:
    """A path as conflicts show it: `.spec.containers[name="a"].image`, `.metadata.finalizers[="x"]`."""
    return "".join(f".{step[2:]}" if step.startswith("f:") else f"[{_item_selector(step)}]" for step in path)


def _item_selector(step: str) -> str:
    if step.startswith("v:"):
        return f"={step[2:]}"
    return ",".join(f"{key}={json.dumps(value)}" for key, value in sorted(json.loads(step[2:]).items()))

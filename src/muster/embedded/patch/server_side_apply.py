"""Server-side apply: field managers (`metadata.managedFields`), conflicts, and the merge of a configuration.

Managed fields begin with the first apply: fields set before it belong to `before-first-apply`, except those that
kubectl's last-applied annotation lists.
"""

import json
from collections.abc import Iterable
from typing import Any

from muster.embedded.patch.managed_fields import (
    FieldSet,
    Path,
    field_set,
    field_values,
    from_fields_v1,
    merge_config,
    parents_of,
    remove_fields,
    to_fields_v1,
)
from muster.embedded.patch.merge_keys import MergeKeys
from muster.kube.cluster import Raw
from muster.kube.errors import ApiError

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

    def title(self, api_version: str) -> str:
        """How the message of a conflict names it."""
        subresource = f' with subresource "{self.subresource}"' if self.subresource else ""
        version = f" using {api_version}" if self.operation == "Update" else ""
        return f'"{self.name}"{subresource}{version}'

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


def apply_configuration(live: Raw, config: Raw, merge_keys: MergeKeys, manager: FieldManager, *, force: bool) -> Raw:
    """`live` with a configuration applied: sets its fields, and removes those that the manager no longer applies.

    ApiError 409 on conflicts, unless forced.
    """
    current = managers_of(live) or _managers_before_first_apply(live, merge_keys, manager)
    previous = next((item for item in current if item.identity == manager.identity), None)
    others = [item for item in current if item is not previous]
    config_values, live_values = field_values(config, merge_keys), field_values(live, merge_keys) if others else {}
    fields = frozenset(config_values)
    conflicts = {other: _conflicting_fields(other, live_values, config_values) for other in others}
    if not force:
        _raise_conflicts(conflicts, live["apiVersion"])
    for other, contested in conflicts.items():
        other.fields = other.fields - contested
    merged = merge_config(live, config, merge_keys)
    kept = fields.union(*(other.fields for other in others))
    dropped = _dropped_fields(previous.fields - fields if previous else frozenset(), kept)
    merged = remove_fields(merged, dropped, kept, merge_keys)
    for other in others:
        other.fields = frozenset(path for path in other.fields if not _is_below(path, dropped))
    manager.fields = fields
    if previous and previous.fields == fields and merged == live:
        manager.time = previous.time
    return _with_managers(merged, [*others, manager])


def _dropped_fields(candidates: FieldSet, kept: FieldSet) -> FieldSet:
    """Fields that leave the object with their last manager. A list item stays only while the item itself has one."""
    parents = parents_of(kept)
    return frozenset(path for path in candidates - kept if not (path[-1].startswith("f:") and path in parents))


def _is_below(path: Path, parents: FieldSet) -> bool:
    return any(path[:end] in parents for end in range(1, len(path) + 1))


def _raise_conflicts(conflicts: dict[FieldManager, FieldSet], api_version: str) -> None:
    contested = {manager.title(api_version): sorted(fields) for manager, fields in conflicts.items() if fields}
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {title}", "field": _dotted_path(path)}
        for title, paths in contested.items()
        for path in paths
    ]
    if causes:
        raise ApiError(409, "Conflict", _conflict_message(contested, len(causes)), {"causes": causes})


def _conflict_message(contested: dict[str, list[Path]], count: int) -> str:
    if count == 1:
        ((title, (path,)),) = contested.items()
        return f"Apply failed with 1 conflict: conflict with {title}: {_dotted_path(path)}"
    lines = [
        line
        for title in sorted(contested)
        for line in (f"conflicts with {title}:", *(f"- {_dotted_path(path)}" for path in contested[title]))
    ]
    return f"Apply failed with {count} conflicts: " + "\n".join(lines)


def _managers_before_first_apply(live: Raw, merge_keys: MergeKeys, manager: FieldManager) -> list[FieldManager]:
    """The manager of all fields that were set before the first apply."""
    last_applied = live["metadata"].get("annotations", {}).get(LAST_APPLIED)
    applied: FieldSet = frozenset()
    if last_applied and manager.name == "kubectl":
        annotation = ("f:metadata", "f:annotations", f"f:{LAST_APPLIED}")
        applied = field_set(json.loads(last_applied), merge_keys) | {annotation}
    fields = field_set({name: value for name, value in live.items() if name != "status"}, merge_keys) - applied
    return [FieldManager(BEFORE_FIRST_APPLY, "Update", "", fields, manager.time)] if "uid" in live["metadata"] else []


def _conflicting_fields(other: FieldManager, live: dict[Path, Any], config: dict[Path, Any]) -> FieldSet:
    shared = other.fields & config.keys()
    items = _items_by_key(config) if shared else frozenset()
    return frozenset(path for path in shared - items if path not in live or live[path] != config[path])


def _items_by_key(fields: Iterable[Path]) -> FieldSet:
    """Items of list maps whose fields have managers of their own: such items are the same where their keys are."""
    return frozenset(path[:-1] for path in fields if len(path) > 1 and path[-2].startswith("k:"))


def record_update(old: Raw, new: Raw, merge_keys: MergeKeys, manager: FieldManager) -> Raw:
    """An updated object whose changed fields belong to the manager that changed them."""
    before, after = field_values(old, merge_keys), field_values(new, merge_keys)
    changed = frozenset(path for path in after if path not in before or before[path] != after[path])
    changed -= _items_by_key(after) & before.keys()
    others, updater = [], manager
    for item in managers_of(old):
        if item.identity == manager.identity:
            updater = item
        else:
            item.fields = (item.fields - changed) & after.keys()
            others.append(item)
    updater.time = manager.time if changed else updater.time
    updater.fields = (updater.fields | changed) & after.keys()
    return _with_managers(new, [*others, updater])


def _dotted_path(path: Path) -> str:
    """A path as conflicts show it: `.spec.containers[name="a"].image`, `.metadata.finalizers[="x"]`."""
    return "".join(f".{step[2:]}" if step.startswith("f:") else f"[{_item_selector(step)}]" for step in path)


def _item_selector(step: str) -> str:
    if step.startswith("v:"):
        return f"={step[2:]}"
    return ",".join(f"{key}={json.dumps(value)}" for key, value in sorted(json.loads(step[2:]).items()))

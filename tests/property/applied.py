"""A small model of `kubectl apply`, client-side and server-side, with the managed fields that result."""

import copy
from typing import Any

import msgspec

from muster.conversion.update_conversion import LAST_APPLIED
from tests.support.factories import Raw


def fields(spec: Raw) -> Raw:
    """A spec as `fieldsV1`."""
    return {f"f:{name}": _inside(name, value) for name, value in spec.items()}


def _inside(name: str, value: Any) -> Raw:
    if name == "subGroups" and isinstance(value, list):
        return {f'k:{{"name":"{part["name"]}"}}': {".": {}, **fields(part)} for part in value}
    return fields(value) if isinstance(value, dict) else {}


def managed(*specs: Raw, manager: str = "kubectl") -> list[Raw]:
    """The `managedFields` with one entry for each; the first one has the named manager."""
    names = (manager, *(f"other-{i}" for i in range(len(specs))))
    return [
        {"manager": name, "operation": "Apply", "fieldsV1": {"f:spec": fields(spec)}}
        for name, spec in zip(names, specs, strict=False)
    ]


def ever_set(*specs: Raw) -> list[Raw]:
    """The entry of a manager that updates: it keeps every field that it has set."""
    merged: Raw = {}
    for spec in specs:
        merged = _merge_trees(merged, fields(spec))
    return [{"manager": "kubectl-client-side-apply", "operation": "Update", "fieldsV1": {"f:spec": merged}}]


def _merge_trees(base: Raw, addition: Raw) -> Raw:
    return base | {name: _merge_trees(base.get(name, {}), tree) for name, tree in addition.items()}


def noted(spec: Raw) -> Raw:
    """Metadata with the last-applied annotation of `kubectl`."""
    text = msgspec.json.encode({"spec": spec}).decode()
    return {"name": "gang", "namespace": "team", "annotations": {LAST_APPLIED: text}}


def server_side(live: Raw, before: Raw, now: Raw) -> Raw:
    """Server-side apply: sets the manifest's fields, removes those it no longer has; groups merge by name."""
    result = {name: value for name, value in copy.deepcopy(live).items() if name in now or name not in before}
    for name, value in copy.deepcopy(now).items():
        if name == "subGroups" and isinstance(value, list):
            result[name] = _merge_groups(result.get(name, []), before.get(name, []), value)
        elif isinstance(value, dict) and isinstance(result.get(name), dict):
            result[name] = server_side(result[name], before.get(name) or {}, value)
        else:
            result[name] = value
    return result


def _merge_groups(live: list[Raw], before: list[Raw], now: list[Raw]) -> list[Raw]:
    were, are = ({part["name"]: part for part in parts} for parts in (before, now))
    remaining = [part for part in live if part["name"] in are or part["name"] not in were]
    merged = [server_side(part, were.get(part["name"], {}), are.get(part["name"], {})) for part in remaining]
    return merged + [part for part in now if part["name"] not in {part["name"] for part in live}]


def client_side(live: Raw, before: Raw, now: Raw) -> Raw:
    """Client-side apply: a merge patch of what differs from the stored object; lists are atomic."""
    result = {name: value for name, value in copy.deepcopy(live).items() if name in now or name not in before}
    for name, value in copy.deepcopy(now).items():
        both = isinstance(value, dict) and isinstance(result.get(name), dict)
        result[name] = client_side(result[name], before.get(name) or {}, value) if both else value
    return result

"""What `kubectl apply` makes of a stored object, small: both of its ways, and who states what afterwards."""

import copy
from typing import Any

import msgspec

from muster.conversion.update_conversion import LAST_APPLIED
from tests.support.factories import Raw


def fields(spec: Raw) -> Raw:
    """A spec as `managedFields` write it."""
    return {f"f:{name}": _inside(name, value) for name, value in spec.items()}


def _inside(name: str, value: Any) -> Raw:
    if name == "subGroups" and isinstance(value, list):
        return {f'k:{{"name":"{part["name"]}"}}': {".": {}, **fields(part)} for part in value}
    return fields(value) if isinstance(value, dict) else {}


def managed(*specs: Raw, manager: str = "kubectl") -> list[Raw]:
    """One entry for each; the first is of the named manager."""
    names = (manager, *(f"other-{i}" for i in range(len(specs))))
    return [
        {"manager": name, "operation": "Apply", "fieldsV1": {"f:spec": fields(spec)}}
        for name, spec in zip(names, specs, strict=False)
    ]


def ever_set(*specs: Raw) -> list[Raw]:
    """The one entry of a manager that does not apply: it keeps what it has once set."""
    found: Raw = {}
    for spec in specs:
        found = _joined(found, fields(spec))
    return [{"manager": "kubectl-client-side-apply", "operation": "Update", "fieldsV1": {"f:spec": found}}]


def _joined(one: Raw, other: Raw) -> Raw:
    return one | {name: _joined(one.get(name, {}), inside) for name, inside in other.items()}


def noted(spec: Raw) -> Raw:
    """Metadata with what `kubectl` has applied last."""
    text = msgspec.json.encode({"spec": spec}).decode()
    return {"name": "gang", "namespace": "team", "annotations": {LAST_APPLIED: text}}


def server_side(live: Raw, before: Raw, now: Raw) -> Raw:
    """Over what is stored: what the manifest says wins, what it no longer says goes, the rest stays; groups by name."""
    found = {name: value for name, value in copy.deepcopy(live).items() if name in now or name not in before}
    for name, value in copy.deepcopy(now).items():
        if name == "subGroups" and isinstance(value, list):
            found[name] = _merged(found.get(name, []), before.get(name, []), value)
        elif isinstance(value, dict) and isinstance(found.get(name), dict):
            found[name] = server_side(found[name], before.get(name) or {}, value)
        else:
            found[name] = value
    return found


def _merged(live: list[Raw], before: list[Raw], now: list[Raw]) -> list[Raw]:
    were, are = ({part["name"]: part for part in parts} for parts in (before, now))
    kept = [part for part in live if part["name"] in are or part["name"] not in were]
    found = [server_side(part, were.get(part["name"], {}), are.get(part["name"], {})) for part in kept]
    return found + [part for part in now if part["name"] not in {part["name"] for part in live}]


def client_side(live: Raw, before: Raw, now: Raw) -> Raw:
    """A merge patch: lists as a whole, and only what differs from what is stored."""
    found = {name: value for name, value in copy.deepcopy(live).items() if name in now or name not in before}
    for name, value in copy.deepcopy(now).items():
        both = isinstance(value, dict) and isinstance(found.get(name), dict)
        found[name] = client_side(found[name], before.get(name) or {}, value) if both else value
    return found

"""Converts updates in an older dialect: separates what a manager states from what an earlier conversion left (D1-D5).

`kubectl apply` merges a manifest into the stored object, which is in the form of record by then: the older field comes
beside the newer one that the conversion made of it. Rule: a field that the webhook made has no manager in
`metadata.managedFields`. So a field without a manager that the update does not change is left over, and is removed
before the object is converted. Where two managers state fields that exclude each other, the update is refused with
both numbers.
"""

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

from muster.api.codec import Document, title
from muster.conversion.older_formats import Conversion, convert, may_be_older
from muster.errors import Refused

Raw = dict[str, Any]
Path = tuple[str, ...]  # as managedFields write it: `f:subGroups`, `k:{"name":"a"}`, `f:minMember`
CONSTRAINT = "topologyConstraint"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class Managers(Struct, frozen=True):
    """`metadata.managedFields` of the new and of the stored object; None: unknown."""

    now: Any = None
    before: Any = None


def convert_update(document: Document, old: Raw, managers: Managers, *, whole: bool = False) -> Conversion:
    """`convert` for an update of an object that is stored in the form of record.

    `whole`: the client sent the whole object, not a merge (`kubectl replace`).
    """
    new, stored = document.raw.get("spec"), old.get("spec")
    if whole or not isinstance(new, dict) or not isinstance(stored, dict):
        return convert(document)
    withdrawn = withdrawn_fields(document.raw, old, managers)
    if not withdrawn and not may_be_older(new):
        return Conversion(document.raw)
    owners = Owners(managers.now)
    spec, removed = _remove_leftovers(new, stored, owners, withdrawn)
    done = convert(Document(document.where, document.raw | {"spec": spec}))
    _refuse_conflicts(document, spec, stored, owners, done)
    where = f"{document.where}: {title(document.raw)}"
    changes = done.changes or tuple(f"{where}: {change}" for change in removed)
    return Conversion(done.raw, changes) if changes else Conversion(document.raw)


def withdrawn_fields(new: Raw, old: Raw, managers: Managers) -> frozenset[Path]:
    """Older fields that a manifest stated before and no longer does: what was made of them is still stored."""
    spec, stored = new.get("spec"), old.get("spec")
    if not isinstance(spec, dict) or not isinstance(stored, dict):
        return frozenset()
    before, now = _manifests(old, managers.before), _manifests(new, managers.now)
    older: list[Path] = [(f"f:{field}",) for field in ("subgroups", "topologyConstraints") if stored.get(field) is None]
    older += [(*place.path, "f:minMember") for place in _places(stored, {}) if place.raw.get("minMember") is None]
    return frozenset(path for path in older if before.of(path) & now.managers and not now.of(path))


def _manifests(raw: Raw, managed: Any) -> "Owners":
    """The fields of applied manifests, by server-side or client-side apply.

    Only those are complete: other managers keep a field that they set once, whether they set it again or not.
    """
    entries = managed if isinstance(managed, list) else []
    applied = [entry for entry in entries if isinstance(entry, dict) and entry.get("operation") == "Apply"]
    return Owners([*applied, {"manager": LAST_APPLIED, "fieldsV1": {"f:spec": _last_applied(raw)}}])


def _last_applied(raw: Raw) -> Raw:
    meta = raw.get("metadata")
    notes = meta.get("annotations") if isinstance(meta, dict) else None
    text = notes.get(LAST_APPLIED) if isinstance(notes, dict) else None
    try:
        manifest = msgspec.json.decode(text) if isinstance(text, str) else None
    except (msgspec.MsgspecError, UnicodeError, ValueError, RecursionError):
        return {}
    spec = manifest.get("spec") if isinstance(manifest, dict) else None
    if not isinstance(spec, dict):
        return {}
    parts: Raw = {place.path[1]: _names(place.raw) for place in _places(spec, {}) if place.path}
    return _names(spec) | ({"f:subGroups": parts} if "subGroups" in spec else {})


def _names(raw: Raw) -> Raw:
    return {f"f:{name}": {} for name in raw}


class Owners:
    """The managers of each field of a spec."""

    def __init__(self, managed: Any) -> None:
        entries = [entry for entry in managed if isinstance(entry, dict)] if isinstance(managed, list) else []
        self._sets = [(str(entry.get("manager", "")), spec) for entry in entries if (spec := _of_spec(entry))]

    @property
    def known(self) -> bool:
        """Whether any manager is known."""
        return bool(self._sets)

    @property
    def managers(self) -> set[str]:
        """All managers."""
        return {manager for manager, _ in self._sets}

    def of(self, path: Path) -> set[str]:
        """The managers that state this field."""
        return {manager for manager, fields in self._sets if _states(fields, path)}


def _of_spec(entry: Raw) -> Raw:
    fields = entry.get("fieldsV1")
    spec = fields.get("f:spec") if isinstance(fields, dict) else None
    return spec if isinstance(spec, dict) else {}


def _states(fields: Any, path: Path) -> bool:
    for step in path:
        if not fields:
            return True  # the manager owns everything inside
        if not isinstance(fields, dict) or step not in fields:
            return False
        fields = fields[step]
    return True


class UpdatedGroup(Struct, frozen=True):
    """The PodGroup or one SubGroup in an update: new, old, and its path in managedFields."""

    at: str
    raw: Raw  # a copy
    old: Raw  # empty: it did not exist
    path: Path
    became_branch: bool = False  # it was a leaf, and has children now

    def is_unchanged(self, field: str) -> bool:
        """Set, with the old value."""
        return self.raw.get(field) is not None and self.raw[field] == self.old.get(field)

    def is_added(self, field: str) -> bool:
        """Set, and unset before."""
        return self.raw.get(field) is not None and self.old.get(field) is None


def _places(spec: Raw, old: Raw) -> Iterator[UpdatedGroup]:
    """The PodGroup first; SubGroups by name."""
    before = {part.get("name"): part for part in _parts(old)}
    old_parents, parents = ({part.get("parent") or "" for part in _parts(version)} for version in (old, spec))
    yield UpdatedGroup("spec", spec, old, (), not _parts(old) and bool(_parts(spec)))
    for i, part in enumerate(_parts(spec)):
        name = part.get("name")
        key = "k:" + msgspec.json.encode({"name": name}).decode()
        became_branch = name in parents and name not in old_parents
        yield UpdatedGroup(f"spec.subGroups[{i}]", part, before.get(name, {}), ("f:subGroups", key), became_branch)


def _parts(spec: Raw) -> list[Raw]:
    """SubGroups with valid names and parents."""
    listed = spec.get("subGroups")
    objects = [part for part in listed if isinstance(part, dict)] if isinstance(listed, list) else []
    return [part for part in objects if isinstance(part.get("name"), str) and isinstance(part.get("parent") or "", str)]


def _remove_leftovers(new: Raw, old: Raw, owners: Owners, withdrawn: frozenset[Path]) -> tuple[Raw, list[str]]:
    """The spec without fields that an earlier conversion left, and those fields in words."""
    spec = dict(new)
    whole = UpdatedGroup("spec", spec, old, ())
    from_older_list = whole.is_added("subgroups") or ("f:subgroups",) in withdrawn
    removed: list[str] = []
    if from_older_list and whole.is_unchanged("subGroups") and not owners.of(("f:subGroups",)):
        del spec["subGroups"]
        removed.append("subGroups")
    if isinstance(spec.get("subGroups"), list):
        spec["subGroups"] = [dict(part) if isinstance(part, dict) else part for part in spec["subGroups"]]
    has_moved_constraints = spec.get("topologyConstraints") is not None or bool(
        withdrawn & {("f:topologyConstraints",), ("f:subgroups",)}
    )
    for place in list(_places(spec, old)):
        if (
            owners.known
            and has_moved_constraints
            and place.path
            and place.raw == place.old
            and not owners.of(place.path)
        ):
            spec["subGroups"].remove(place.raw)  # a branch that held a set of groups (D3), or a group of an older list
            removed.append(f"subGroups[{place.raw['name']}]")
            continue
        at = place.at.removeprefix("spec").removeprefix(".")
        fields = _remove_fields(
            place, owners, (*place.path, "f:minMember") in withdrawn, owners.known and has_moved_constraints
        )
        removed += [f"{at}.{field}".removeprefix(".") for field in fields]
    return spec, [
        f"`spec.{at}` is gone: it was made of an older form that no manifest states any more" for at in removed
    ]


def _remove_fields(place: UpdatedGroup, owners: Owners, is_withdrawn: bool, has_moved_constraints: bool) -> list[str]:
    """Remove leftover fields of one place; returns their names."""
    counts = (*place.path, "f:minMember")
    fields = (
        ["minSubGroup"]
        if place.is_added("minMember") or is_withdrawn or (owners.known and not owners.of(counts))
        else []
    )
    fields += ["minMember"] if owners.known and place.became_branch else []
    fields += ["parent"] if has_moved_constraints and place.path else []
    leftover = [name for name in fields if place.is_unchanged(name) and not owners.of((*place.path, f"f:{name}"))]
    for name in leftover:
        del place.raw[name]
    return leftover + (_remove_constraint(place, owners) if has_moved_constraints else [])


def _remove_constraint(place: UpdatedGroup, owners: Owners) -> list[str]:
    """Remove what D3 put on a group: constraints, and the Topology in those that would inherit another one (T4)."""
    now, was = place.raw.get(CONSTRAINT), place.old.get(CONSTRAINT)
    if not isinstance(now, dict) or not isinstance(was, dict):
        return []
    path = (*place.path, f"f:{CONSTRAINT}")
    remaining = {
        name: value for name, value in now.items() if value != was.get(name) or owners.of((*path, f"f:{name}"))
    }
    if remaining == now:
        return []
    place.raw[CONSTRAINT] = remaining
    if not remaining and not owners.of(path):
        del place.raw[CONSTRAINT]
    return [CONSTRAINT]


def _refuse_conflicts(document: Document, spec: Raw, old: Raw, owners: Owners, done: Conversion) -> None:
    """Refused where one manager states `minMember` and another `minSubGroup`, unless the second changes nothing."""
    places = list(_places(spec, old))
    counted = [place for place in places if place.is_added("minMember") and not _is_leaf(place, spec)]
    authors = {manager for place in counted for manager in owners.of((*place.path, "f:minMember"))}
    others = [
        place
        for place in places
        if place.raw.get("minSubGroup") is not None and _is_stated_by_others(place, owners, authors)
    ]
    if not authors or not others:
        return
    alone = convert(Document(document.where, document.raw | {"spec": _without(spec, others)}))
    if _without(alone.raw["spec"], others) == _without(done.raw["spec"], others) and not _differ(counted, others):
        return
    first, second = counted[0], next((place for place in others if place in counted), others[0])
    theirs = sorted(_stating(second, owners))
    raise Refused(
        f"{document.where}: {title(document.raw)} cannot be converted\n"
        f"  {first.at}.minMember: {first.raw['minMember']} of `{min(authors)}` and {second.at}.minSubGroup: "
        f"{second.raw['minSubGroup']} of `{theirs[0]}` exclude each other",
        hint="convert the manifest to the form of record with `muster convert`, or remove one of the two",
    )


def _is_leaf(place: UpdatedGroup, spec: Raw) -> bool:
    return place.raw.get("name", "") not in {part.get("parent") or "" for part in _parts(spec)}


def _is_stated_by_others(place: UpdatedGroup, owners: Owners, authors: set[str]) -> bool:
    """Whether a manager states its `minSubGroup`, but none of these authors."""
    stating = _stating(place, owners)
    return bool(stating) and not stating & authors


def _stating(place: UpdatedGroup, owners: Owners) -> set[str]:
    """The managers of its `minSubGroup`, else of the `minMember` that it was made of."""
    return owners.of((*place.path, "f:minSubGroup")) or owners.of((*place.path, "f:minMember"))


def _differ(counted: list[UpdatedGroup], others: list[UpdatedGroup]) -> bool:
    """Whether some place has both numbers, and they differ."""
    return any(place in others and place.raw["minMember"] != place.raw["minSubGroup"] for place in counted)


def _without(spec: Raw, places: list[UpdatedGroup]) -> Raw:
    """The spec with no `minSubGroup` at these places."""
    names = {place.raw.get("name", "") for place in places}
    copied = {name: value for name, value in spec.items() if name != "minSubGroup" or "" not in names}
    if isinstance(copied.get("subGroups"), list):
        copied["subGroups"] = [
            {name: value for name, value in part.items() if name != "minSubGroup" or part.get("name") not in names}
            if isinstance(part, dict)
            else part
            for part in copied["subGroups"]
        ]
    return copied

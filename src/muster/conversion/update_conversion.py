"""An update in an older dialect, read as it was meant: what is left of an earlier conversion is told from what
somebody states (D1-D5).

`kubectl apply` lays a manifest over what is stored, and what is stored is in the form of record by then: the older
field stands beside the newer one that was once made of it. Rule: what a webhook made belongs to no manager
(`metadata.managedFields`), so a field that nobody states and nobody has changed is left over, and goes before the
object is read. Where two managers state what excludes each other, nobody guesses: it is refused with both numbers.
"""

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

from muster.api.codec import Document, title
from muster.conversion.older_formats import Conversion, convert, looks_older
from muster.errors import Refused

Raw = dict[str, Any]
Path = tuple[str, ...]  # as managedFields write it: `f:subGroups`, `k:{"name":"a"}`, `f:minMember`
CONSTRAINT = "topologyConstraint"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class Managers(Struct, frozen=True):
    """`metadata.managedFields` of the object as it comes and as it is stored; None: not known."""

    now: Any = None
    before: Any = None


def convert_update(document: Document, old: Raw, managers: Managers, *, whole: bool = False) -> Conversion:
    """`convert` for an update of an object that is stored in the form of record.

    `whole`: it was written by one hand, and laid over nothing (`kubectl replace`).
    """
    new, stored = document.raw.get("spec"), old.get("spec")
    if whole or not isinstance(new, dict) or not isinstance(stored, dict):
        return convert(document)
    gone_back = taken_back(document.raw, old, managers)
    if not gone_back and not looks_older(new):
        return Conversion(document.raw)
    owners = Owners(managers.now)
    spec, gone = _stated(new, stored, owners, gone_back)
    done = convert(Document(document.where, document.raw | {"spec": spec}))
    _refuse_two_hands(document, spec, stored, owners, done)
    where = f"{document.where}: {title(document.raw)}"
    told = done.changes or tuple(f"{where}: {change}" for change in gone)
    return Conversion(done.raw, told) if told else Conversion(document.raw)


def taken_back(new: Raw, old: Raw, managers: Managers) -> frozenset[Path]:
    """Older fields that a manifest has said and no longer says: what was made of them is still stored."""
    spec, stored = new.get("spec"), old.get("spec")
    if not isinstance(spec, dict) or not isinstance(stored, dict):
        return frozenset()
    before, now = _manifests(old, managers.before), _manifests(new, managers.now)
    older: list[Path] = [(f"f:{field}",) for field in ("subgroups", "topologyConstraints") if stored.get(field) is None]
    older += [(*place.path, "f:minMember") for place in _places(stored, {}) if place.raw.get("minMember") is None]
    return frozenset(path for path in older if before.of(path) & now.managers and not now.of(path))


def _manifests(raw: Raw, managed: Any) -> "Owners":
    """What manifests say, applied by the API server or by `kubectl` itself: all of it, and nothing else.

    Other managers keep the fields that they have once set, whether they set them again or not.
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
    """Who states which field of a spec."""

    def __init__(self, managed: Any) -> None:
        entries = [entry for entry in managed if isinstance(entry, dict)] if isinstance(managed, list) else []
        self._sets = [(str(entry.get("manager", "")), spec) for entry in entries if (spec := _of_spec(entry))]

    @property
    def known(self) -> bool:
        """Whether anybody is known to state anything."""
        return bool(self._sets)

    @property
    def managers(self) -> set[str]:
        """Everybody who states anything."""
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
            return True  # all that is inside
        if not isinstance(fields, dict) or step not in fields:
            return False
        fields = fields[step]
    return True


class UpdatedGroup(Struct, frozen=True):
    """The PodGroup or one SubGroup in an update: as it is, as it was, and where managers name it."""

    at: str
    raw: Raw  # a copy of its own
    old: Raw  # empty: it was not there
    path: Path
    turned: bool = False  # it was a leaf, and has children now

    def untouched(self, field: str) -> bool:
        """Set, and as it was."""
        return self.raw.get(field) is not None and self.raw[field] == self.old.get(field)

    def comes(self, field: str) -> bool:
        """Set, and was not."""
        return self.raw.get(field) is not None and self.old.get(field) is None


def _places(spec: Raw, old: Raw) -> Iterator[UpdatedGroup]:
    """The PodGroup first; SubGroups by name."""
    before = {part.get("name"): part for part in _parts(old)}
    were, are = ({part.get("parent") or "" for part in _parts(one)} for one in (old, spec))
    yield UpdatedGroup("spec", spec, old, (), not _parts(old) and bool(_parts(spec)))
    for i, part in enumerate(_parts(spec)):
        name = part.get("name")
        key = "k:" + msgspec.json.encode({"name": name}).decode()
        turned = name in are and name not in were
        yield UpdatedGroup(f"spec.subGroups[{i}]", part, before.get(name, {}), ("f:subGroups", key), turned)


def _parts(spec: Raw) -> list[Raw]:
    """SubGroups that can be told apart by their names."""
    found = spec.get("subGroups")
    whole = [part for part in found if isinstance(part, dict)] if isinstance(found, list) else []
    return [part for part in whole if isinstance(part.get("name"), str) and isinstance(part.get("parent") or "", str)]


def _stated(new: Raw, old: Raw, owners: Owners, gone_back: frozenset[Path]) -> tuple[Raw, list[str]]:
    """The spec without what is left over, and what that was."""
    spec = dict(new)
    whole = UpdatedGroup("spec", spec, old, ())
    listed = whole.comes("subgroups") or ("f:subgroups",) in gone_back
    gone: list[str] = []
    if listed and whole.untouched("subGroups") and not owners.of(("f:subGroups",)):
        del spec["subGroups"]
        gone.append("subGroups")
    if isinstance(spec.get("subGroups"), list):
        spec["subGroups"] = [dict(part) if isinstance(part, dict) else part for part in spec["subGroups"]]
    made = spec.get("topologyConstraints") is not None or bool(
        gone_back & {("f:topologyConstraints",), ("f:subgroups",)}
    )
    for place in list(_places(spec, old)):
        if owners.known and made and place.path and place.raw == place.old and not owners.of(place.path):
            spec["subGroups"].remove(place.raw)  # a branch that held a set of groups (D3), or a group of an older list
            gone.append(f"subGroups[{place.raw['name']}]")
            continue
        at = place.at.removeprefix("spec").removeprefix(".")
        fields = _left(place, owners, (*place.path, "f:minMember") in gone_back, owners.known and made)
        gone += [f"{at}.{field}".removeprefix(".") for field in fields]
    return spec, [f"`spec.{at}` is gone: it was made of an older form that nobody states any more" for at in gone]


def _left(place: UpdatedGroup, owners: Owners, back: bool, made: bool) -> list[str]:
    """Takes what is left over out of one place; the names of the fields."""
    counts = (*place.path, "f:minMember")
    fields = ["minSubGroup"] if place.comes("minMember") or back or (owners.known and not owners.of(counts)) else []
    fields += ["minMember"] if owners.known and place.turned else []
    fields += ["parent"] if made and place.path else []
    found = [name for name in fields if place.untouched(name) and not owners.of((*place.path, f"f:{name}"))]
    for name in found:
        del place.raw[name]
    return found + (_left_of_constraint(place, owners) if made else [])


def _left_of_constraint(place: UpdatedGroup, owners: Owners) -> list[str]:
    """D3 puts constraints on groups, and names the Topology in those that would mean another one else (T4)."""
    now, was = place.raw.get(CONSTRAINT), place.old.get(CONSTRAINT)
    if not isinstance(now, dict) or not isinstance(was, dict):
        return []
    path = (*place.path, f"f:{CONSTRAINT}")
    kept = {name: value for name, value in now.items() if value != was.get(name) or owners.of((*path, f"f:{name}"))}
    if kept == now:
        return []
    place.raw[CONSTRAINT] = kept
    if not kept and not owners.of(path):
        del place.raw[CONSTRAINT]
    return [CONSTRAINT]


def _refuse_two_hands(document: Document, spec: Raw, old: Raw, owners: Owners, done: Conversion) -> None:
    """One manager counts with `minMember`, another with `minSubGroup`: fine only where the second changes nothing."""
    places = list(_places(spec, old))
    counted = [place for place in places if place.comes("minMember") and not _leaf(place, spec)]
    authors = {manager for place in counted for manager in owners.of((*place.path, "f:minMember"))}
    others = [place for place in places if place.raw.get("minSubGroup") is not None and _apart(place, owners, authors)]
    if not authors or not others:
        return
    alone = convert(Document(document.where, document.raw | {"spec": _without(spec, others)}))
    if _without(alone.raw["spec"], others) == _without(done.raw["spec"], others) and not _both(counted, others):
        return
    one, two = counted[0], next((place for place in others if place in counted), others[0])
    theirs = sorted(_stating(two, owners))
    raise Refused(
        f"{document.where}: {title(document.raw)} cannot be converted\n"
        f"  {one.at}.minMember: {one.raw['minMember']} of `{min(authors)}` and {two.at}.minSubGroup: "
        f"{two.raw['minSubGroup']} of `{theirs[0]}` exclude each other",
        hint="bring the manifest to the form of record with `muster convert`, or take one of the two back",
    )


def _leaf(place: UpdatedGroup, spec: Raw) -> bool:
    return place.raw.get("name", "") not in {part.get("parent") or "" for part in _parts(spec)}


def _apart(place: UpdatedGroup, owners: Owners, authors: set[str]) -> bool:
    """Stated, but by none of them."""
    stating = _stating(place, owners)
    return bool(stating) and not stating & authors


def _stating(place: UpdatedGroup, owners: Owners) -> set[str]:
    """Whose number of children it is: of those who state it, else of those who state what it was made of."""
    return owners.of((*place.path, "f:minSubGroup")) or owners.of((*place.path, "f:minMember"))


def _both(counted: list[UpdatedGroup], others: list[UpdatedGroup]) -> bool:
    """Some place has both numbers, and they differ."""
    return any(place in others and place.raw["minMember"] != place.raw["minSubGroup"] for place in counted)


def _without(spec: Raw, places: list[UpdatedGroup]) -> Raw:
    """The spec with no `minSubGroup` at these places."""
    names = {place.raw.get("name", "") for place in places}
    found = {name: value for name, value in spec.items() if name != "minSubGroup" or "" not in names}
    if isinstance(found.get("subGroups"), list):
        found["subGroups"] = [
            {name: value for name, value in part.items() if name != "minSubGroup" or part.get("name") not in names}
            if isinstance(part, dict)
            else part
            for part in found["subGroups"]
        ]
    return found

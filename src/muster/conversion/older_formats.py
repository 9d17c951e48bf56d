"""Converts older dialects to the form of record (D1-D5). Works on plain values, so that unknown fields survive.

Only one field is ambiguous: what `minMember` counts on a branch. Everything else has one meaning, or is refused with
the reason.
"""

import copy
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Literal

from msgspec import Struct

from muster.api.codec import Document, format_misfits, kind_of, title
from muster.api.decoding import decode
from muster.api.podgroup import PodGroup, SubGroup
from muster.control_characters import visible
from muster.conversion.constraint_sets import place_constraints
from muster.errors import InputError, Refused
from muster.validation import podgroup
from muster.validation.podgroup import GroupPlace, outline, parents_first

Reading = Literal["auto", "children", "pods"]
READINGS: tuple[Reading, ...] = ("auto", "children", "pods")
PRECONDITIONS = (
    podgroup.names_are_labels,
    podgroup.names_are_unique,
    podgroup.parents_exist,
    podgroup.parents_lead_up,
)
Raw = dict[str, Any]


class Conversion(Struct, frozen=True):
    """The object in the form of record, and the changes in words."""

    raw: Any
    changes: tuple[str, ...] = ()


def convert(document: Document, reading: Reading = "auto") -> Conversion:
    """Convert one document; other kinds pass unchanged. Refused, with the reason, where the meaning is ambiguous."""
    raw, kind = document.raw, document.raw.get("kind", "")
    if isinstance(kind, str) and kind.endswith("List") and isinstance(raw.get("items"), list):
        return _list(document, reading)
    if kind_of(raw) is not PodGroup:
        return Conversion(raw)
    try:
        return _pod_group(document, reading)
    except (UnicodeError, ValueError, OverflowError):
        raise InputError(f"{document.where}: holds text or numbers that cannot be written out") from None


def may_be_older(spec: Any) -> bool:
    """Whether a PodGroup's spec may need conversion: a cheap test, of which only False is certain."""
    if not isinstance(spec, dict):
        return spec is not None
    parts = spec.get("subGroups")
    if spec.get("subgroups") is not None or spec.get("topologyConstraints") is not None:
        return True
    if not isinstance(parts, list):
        return parts is not None or (spec.get("minMember") is not None and spec.get("minSubGroup") is not None)
    if parts and spec.get("minMember") is not None:
        return True
    try:
        parents = {part.get("parent") for part in parts}
        return any(_part_may_be_older(part, part.get("name") in parents) for part in parts)
    except (AttributeError, TypeError):  # no objects, or no names
        return True


def _part_may_be_older(part: Raw, has_children: bool) -> bool:
    """In the form of record a branch has no `minMember`; a leaf has it, and no `minSubGroup`."""
    if has_children:
        return part.get("minMember") is not None
    return not part.get("minMember") or part.get("minSubGroup") is not None


def _list(document: Document, reading: Reading) -> Conversion:
    kind = document.raw["kind"].removesuffix("List")
    type_meta = {"apiVersion": document.raw["apiVersion"], "kind": kind} if kind else {}
    items: list[Any] = []
    changes: list[str] = []
    for i, item in enumerate(document.raw["items"]):
        where = f"{document.where}, items[{i}]"
        if not isinstance(item, dict):
            raise InputError(f"{where}: expected a Kubernetes object")
        done = convert(Document(where, type_meta | item), reading)
        items.append(done.raw if done.changes else item)
        changes += done.changes
    return Conversion(document.raw | {"items": items} if changes else document.raw, tuple(changes))


def _pod_group(document: Document, reading: Reading) -> Conversion:
    raw = copy.deepcopy(document.raw)
    changes: list[str] = []
    where = f"{document.where}: {title(raw)}"
    try:
        _remove_nulls(raw.get("spec"))
        changes += _spelling(raw)
        group = _decode(Document(document.where, raw))
        _refuse_problems(group, PRECONDITIONS)
        changes += _minimums(raw, group, reading)
        changes += _constraints(raw, where)
        _refuse_problems(_decode(Document(document.where, raw)), podgroup.FORM)
    except Refused as error:
        raise Refused(f"{where} cannot be converted\n  {error.message}", hint=error.hint) from None
    return Conversion(raw if changes else document.raw, tuple(f"{where}: {change}" for change in changes))


def _constraints(raw: Raw, where: str) -> list[str]:
    """D3; an InputError names file and object."""
    try:
        return list(place_constraints(raw))
    except InputError as error:
        raise InputError(f"{where} cannot be read\n  {error.message}", hint=error.hint) from None


def _remove_nulls(spec: Any) -> None:
    """Remove null fields: they are unset, and must not clash with a field's new name."""
    if not isinstance(spec, dict):
        return
    groups = [part for name in ("subGroups", "subgroups") for part in _items(spec.get(name))]
    for raw in (spec, *groups):
        for field in (*SubGroup.__struct_encode_fields__, "subGroups", "subgroups", "topologyConstraints"):
            if isinstance(raw, dict) and field in raw and raw[field] is None:
                del raw[field]


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _decode(document: Document) -> PodGroup:
    group, misfits = decode(document.raw, PodGroup)
    if misfits:
        raise InputError(format_misfits(document, misfits))
    return group


def _refuse_problems(group: PodGroup, rules: tuple[podgroup.Rule, ...]) -> None:
    problems = [problem for problem in podgroup.judge(group.spec, rules) if problem.severity == "error"]
    if problems:
        lines = "\n  ".join(visible(f"{problem.at}: {problem.says} (hint: {problem.hint})") for problem in problems)
        raise Refused(lines, hint="fix these first, then convert")


def _spelling(raw: Raw) -> Iterator[str]:
    """D4: `subgroups` is `subGroups`."""
    spec = raw.get("spec")
    if not isinstance(spec, dict) or "subgroups" not in spec:
        return
    if "subGroups" in spec:
        raise Refused("spec: has both `subgroups` and `subGroups`", hint="keep `subGroups`, with all of them in it")
    _rename(spec, "subgroups", "subGroups")
    yield "`spec.subgroups` is now `spec.subGroups` (D4)"


def _rename(raw: Raw, old: str, new: str, value: Any = None) -> None:
    """Rename a key, and keep its position."""
    items = [(new, raw[old] if value is None else value) if key == old else (key, raw[key]) for key in raw]
    raw.clear()
    raw.update(items)


# minimums (D1, D2, D5) ----------------------------------------------------------------------------------------------


def _minimums(raw: Raw, group: PodGroup, reading: Reading) -> Iterator[str]:
    """Rewrite minimums: branches count children, leaves count pods, and each leaf states its minimum."""
    spec = raw.get("spec") or {}
    raws = {"": spec} | {part.get("name"): part for part in spec.get("subGroups") or ()}
    tree = _PlaceTree(group)
    counted = [place for place in tree.places.values() if place.children and (place.min_member or 0) > 0]
    read_as = _read_as(tree, counted) if reading == "auto" else reading
    for name in reversed(tree.order):
        place = tree.places[name]
        if place.children:
            yield from _branch(place, raws[name], tree, read_as)
        elif name and not place.min_member and place.min_sub_group is None:
            raws[name]["minMember"] = 1
            yield f"`{place.at}.minMember` is now stated: 1, as it counted before (V2)"


def _branch(place: GroupPlace, raw: Raw, tree: "_PlaceTree", reading: Reading) -> Iterator[str]:
    if raw.get("minMember") == 0:
        del raw["minMember"]
        yield f"`{place.at}.minMember: 0` is gone: it counted nothing (V1)"
    if place.min_member is None or place.min_member <= 0:
        return
    if reading == "children" and place.min_sub_group is None:
        _rename(raw, "minMember", "minSubGroup")
        yield f"`{place.at}.minMember: {place.min_member}` is now `minSubGroup`: it counts children (D1)"
        return
    guaranteed = tree.guaranteed[place.name]
    if place.min_member > guaranteed:
        raise Refused(
            f"{place.at}.minMember: {place.min_member} pods, but {_guarantee(place)} only {guaranteed}",
            hint=f"raise the children's minimums to {place.min_member} in all, or lower it to {guaranteed}",
        )
    del raw["minMember"]
    yield f"`{place.at}.minMember: {place.min_member}` is gone: {_guarantee(place)} {guaranteed} pods (D2)"


def _guarantee(place: GroupPlace) -> str:
    if place.children == 1:
        return "its one child guarantees"
    need = place.min_sub_group or place.children
    return f"{f'{need} of' if need < place.children else 'all'} {place.children} children guarantee"


def _read_as(tree: "_PlaceTree", counted: list[GroupPlace]) -> Reading:
    """D5: one reading for the whole file; Refused with both readings where it is ambiguous.

    A file that knows `minSubGroup` counts pods with `minMember`. Else a number beyond the children counts pods, one
    that no set of children adds up to counts children, and one that could be either is refused.
    """
    if any(place.min_sub_group is not None for place in tree.places.values()):
        return "pods"
    if any((place.min_member or 0) > place.children for place in counted):
        return "pods"
    if not all(_adds_up(place.min_member or 0, tree.pods_below(place.name)) for place in counted):
        return "children"
    if not counted:
        return "children"
    raise Refused(
        "can be read two ways\n  " + "\n  ".join(visible(_both_readings(place, tree)) for place in counted),
        hint="say which: `--dialect children` or `--dialect pods`",
    )


def _both_readings(place: GroupPlace, tree: "_PlaceTree") -> str:
    pods = sum(tree.pods_below(place.name))
    return (
        f"{place.at}.minMember: {place.min_member} is either {place.min_member} of {place.children} children "
        f"(`minSubGroup: {place.min_member}`), or {place.min_member} pods in all "
        f"(all {place.children} children, which already need {pods})"
    )


def _adds_up(number: int, parts: list[int]) -> bool:
    """Whether some of the parts add up to the number (subset sum; one bit for each sum)."""
    sums, mask = 1, (1 << (number + 1)) - 1
    for part in parts:
        sums |= (sums << part) & mask if part <= number else 0
    return bool(sums >> number & 1)


class _PlaceTree:
    """Places, their children, and how many pods each satisfied place has at least."""

    def __init__(self, group: PodGroup) -> None:
        self.places = {place.name: place for place in outline(group.spec).places}
        self.order = ["", *(part.name for part in parents_first(group.spec))]
        self.children: dict[str, list[str]] = defaultdict(list)
        for part in parents_first(group.spec):
            self.children[part.parent].append(part.name)
        self.guaranteed: dict[str, int] = {}
        for name in reversed(self.order):
            place, below = self.places[name], sorted(self.guaranteed[child] for child in self.children[name])
            self.guaranteed[name] = (
                sum(below[: place.min_sub_group or len(below)]) if below else max(place.min_member or 1, 1)
            )

    def pods_below(self, name: str) -> list[int]:
        """The guaranteed pods of every child."""
        return [self.guaranteed[child] for child in self.children[name]]

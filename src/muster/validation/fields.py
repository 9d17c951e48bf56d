"""A field of a PodGroup's spec by its path in the user's words, such as `subGroups.decode.minMember`.

Rule: every wrong path or value raises an InputError with a hint.
"""

import re
from collections.abc import Collection, Iterator
from difflib import get_close_matches
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import FieldInfo, fields, replace

from muster.api.decoding import decode
from muster.api.podgroup import PodGroupSpec, SubGroup, TopologyConstraint
from muster.errors import InputError
from muster.validation.problem import listed

Part = PodGroupSpec | SubGroup | TopologyConstraint
Value = str | int | float | bool | None  # None: unset

CALLED: Final[dict[type[Part], str]] = {
    PodGroupSpec: "a PodGroup",
    SubGroup: "a SubGroup",
    TopologyConstraint: "a topologyConstraint",
}
GROUPS: Final = "subGroups"
CONSTRAINT: Final = "topologyConstraint"
NOT_SET_ALONE: Final = frozenset((GROUPS, CONSTRAINT, "subgroups", "topologyConstraints", "name"))
MOST_DIGITS: Final = 18


class FieldChange(Struct, frozen=True):
    """The part with the new value, and the field's value before and after."""

    part: Any
    was: Value
    now: Value


def set_field(spec: PodGroupSpec, path: str, value: Value) -> FieldChange:
    """Copy the spec with a value at a path. Text is parsed as the type of the field; None or empty unsets it."""
    return _set(spec, tuple(path.split(".")), value, "")


def settable_paths(kind: type[Part]) -> list[str]:
    """The paths that can be set, in the order of the type; `NAME` stands for a SubGroup's name."""
    paths = [field.encode_name for field in _settable(kind)]
    if kind is not TopologyConstraint:
        paths += [f"{CONSTRAINT}.{field.encode_name}" for field in _settable(TopologyConstraint)]
    return [*paths, f"{GROUPS}.NAME.FIELD"] if kind is PodGroupSpec else paths


def suggest(word: str, words: Collection[str], most: int = 3) -> str:
    """A hint for a name that does not exist: similar names, else all known ones."""
    same = [known for known in sorted(words) if known.rpartition("/")[2] == word.rpartition("/")[2]]
    close = [*same, *(known for known in get_close_matches(word[:253], words, n=most) if known not in same)][:most]
    return f"did you mean {' or '.join(f'`{known}`' for known in close)}?" if close else f"known: {listed(words)}"


def _settable(kind: type[Part]) -> list[FieldInfo]:
    return [field for field in fields(kind) if field.encode_name not in NOT_SET_ALONE]


def _set(part: Part, path: tuple[str, ...], value: Value, at: str) -> FieldChange:
    match part, path:
        case PodGroupSpec(), (word, name, *rest) if word == GROUPS:
            return _in_group(part, name, tuple(rest), value)
        case ((PodGroupSpec() | SubGroup()), (word, *rest)) if word == CONSTRAINT and (rest or not _unset(value)):
            inner = _set(part.topology_constraint or TopologyConstraint(), tuple(rest), value, f"{at}{CONSTRAINT}.")
            return FieldChange(replace(part, topology_constraint=inner.part), inner.was, inner.now)
        case ((PodGroupSpec() | SubGroup()), (word,)) if word == CONSTRAINT:
            was = "set" if part.topology_constraint else None
            return FieldChange(replace(part, topology_constraint=None), was, None)
        case _:
            return _set_value(part, path, value, at)


def _in_group(spec: PodGroupSpec, name: str, rest: tuple[str, ...], value: Value) -> FieldChange:
    names = [group.name for group in spec.sub_groups]
    if name not in names:
        raise InputError(f"there is no SubGroup `{name}`", hint=suggest(name, names))
    place = names.index(name)
    inner = _set(spec.sub_groups[place], rest, value, f"{GROUPS}.{name}.")
    groups = (*spec.sub_groups[:place], inner.part, *spec.sub_groups[place + 1 :])
    return FieldChange(replace(spec, sub_groups=groups), inner.was, inner.now)


def _set_value(part: Part, path: tuple[str, ...], value: Value, at: str) -> FieldChange:
    """Set a field that holds one value."""
    word = ".".join(path)
    field = next((field for field in _settable(type(part)) if field.encode_name == word), None)
    if field is None:
        raise InputError(_no_field(part, word, at), hint=_known_hint(part, word, at))
    now = _fitting(type(part), field, value, at)
    was = getattr(part, field.name)
    return FieldChange(replace(part, **{field.name: now}), _stated(was, field), _stated(now, field))


def _no_field(part: Part, word: str, at: str) -> str:
    if not word:
        return f"`{at.rstrip('.')}` has fields: name one of them" if at else "no field is named"
    return f"{CALLED[type(part)]} has no field `{word[:80]}` that can be set"


def _known_hint(part: Part, word: str, at: str) -> str:
    names = settable_paths(type(part))
    close = get_close_matches(word[:80], names, n=1, cutoff=0.7)
    first = f"did you mean `{at}{close[0]}`? " if close else ""
    return f"{first}known: {', '.join(f'{at}{name}' for name in names)}"


def _fitting(kind: type[Part], field: FieldInfo, value: Value, at: str) -> Any:
    """The value in the field's type: the first reading that fits."""
    if _unset(value):
        return field.default
    if isinstance(value, str) and not _writable(value):
        raise InputError("holds text that cannot be written out", hint="use UTF-8")
    misfits: tuple[Any, ...] = ()
    for reading in _readings(value):
        made, misfits = decode({field.encode_name: reading}, kind)
        if not misfits:
            return getattr(made, field.name)
    hint = f"`{at}{field.encode_name}=` with nothing behind it unsets the field"
    raise InputError(misfits[0].says, hint=hint)


def _readings(value: Value) -> Iterator[Value]:
    """Text may be a number or a boolean; it is read as text last."""
    if isinstance(value, str):
        if re.fullmatch(rf"-?[0-9]{{1,{MOST_DIGITS}}}", value):
            yield int(value)
        if value in ("true", "false"):
            yield value == "true"
    yield value


def _writable(text: str) -> bool:
    """Without lone surrogates, which a command line may contain."""
    return text.encode(errors="replace").decode() == text


def _unset(value: Value) -> bool:
    return value is None or value == ""


def _stated(value: Value, field: FieldInfo) -> Value:
    """The value of a field; None for a default that is empty."""
    return None if value in (None, "") and field.default in (None, "") else value

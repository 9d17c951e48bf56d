"""Plain values to structs, with every misfit named.

`msgspec.convert` is the fast path and stops at the first misfit. `_mend` is the slow one: it names all of them, reads
`null` as "not set" as Kubernetes does, and returns a value that decodes, so that rules can check the rest.
Every field has a default: `validation` reports those that are missing.
"""

from collections.abc import Callable, Iterator
from datetime import datetime
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import Struct

from muster.api.meta import Wire
from muster.api.quantity import Resources, format_amount, parse_resources

T = TypeVar("T", bound=Wire)

HUGE = 10**40
_WORDS: dict[Any, str] = {
    int: "a whole number",
    float: "a number",
    str: "text",
    bool: "`true` or `false`",
    dict: "an object",
    datetime: "a time such as `2026-01-31T12:00:00Z`",
    NoneType: "nothing",
}


class Misfit(Struct, frozen=True):
    """A value of the wrong type: where, and what was expected."""

    at: str
    says: str


def decode(raw: Any, kind: type[T]) -> tuple[T, tuple[Misfit, ...]]:
    """The struct, and its misfits. Fields that do not fit keep their defaults."""
    try:
        return msgspec.convert(raw, kind, dec_hook=_hook), ()
    except msgspec.ValidationError:
        misfits: list[Misfit] = []
        mended = _mend(raw, kind, "", misfits.append)
        return msgspec.convert(mended, kind, dec_hook=_hook), tuple(misfits)


def decode_json(data: msgspec.Raw | bytes, kind: type[T]) -> T:
    """The struct that JSON describes, in one pass; equal to `decode` of the same value."""
    try:
        struct: T = json_decoder(kind).decode(data)
        return struct
    except msgspec.ValidationError:
        return decode(msgspec.json.decode(data), kind)[0]


@cache
def json_decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    """Decodes JSON into a struct in one pass; ValidationError at the first misfit."""
    return msgspec.json.Decoder(kind, dec_hook=_hook)


def encode(value: Any) -> Any:
    """A struct as JSON values for `decode` to read back: without defaults, quantities as Kubernetes writes them.

    `msgspec.to_builtins` would write base units, and 4 cpu would come back as 4000.
    """
    match value:
        case Resources():
            return {name: format_amount(name, amount) for name, amount in value.items()}
        case Wire():
            stated = ((field.encode_name, getattr(value, field.name), field) for field in _fields(type(value)))
            return {name: encode(inner) for name, inner, field in stated if inner != _default(field)}
        case dict():
            return {name: encode(inner) for name, inner in value.items()}
        case tuple() | list():
            return [encode(item) for item in value]
        case _:
            return msgspec.to_builtins(value)


def known_fields(raw: Any, kind: Any) -> Any:
    """The plain value without what `decode` would not read; the rest as it is, also where it does not fit."""
    kind = _bare(kind)
    match raw:
        case dict() if isinstance(kind, type) and issubclass(kind, Wire):
            stated = ((field.encode_name, field.type) for field in _fields(kind))
            return {name: known_fields(raw[name], inner) for name, inner in stated if raw.get(name) is not None}
        case dict() if get_origin(kind) is dict:
            return {name: known_fields(value, get_args(kind)[1]) for name, value in raw.items()}
        case list() if get_origin(kind) is tuple:
            return [known_fields(item, get_args(kind)[0]) for item in raw]
        case _:
            return raw


def _default(field: msgspec.structs.FieldInfo) -> Any:
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()


def sanitize(raw: Any, levels: int = 60) -> Any:
    """A JSON value that can be written out: no lone surrogates, no huge numbers, bounded depth."""
    match raw:
        case str():
            return raw.encode(errors="replace").decode()
        case bool():
            return raw
        case int():
            return max(-HUGE, min(HUGE, raw))
        case dict():
            return {sanitize(str(key)): sanitize(value, levels - 1) for key, value in raw.items()} if levels else {}
        case list() | tuple():
            return [sanitize(value, levels - 1) for value in raw] if levels else []
        case _:
            return raw


def _hook(kind: type, value: Any) -> Any:
    if kind is Resources:
        return parse_resources(value)
    raise NotImplementedError(kind)


def _mend(raw: Any, kind: Any, at: str, note: Callable[[Misfit], None]) -> Any:
    """`raw` without its misfits, each of which is noted: their fields keep the defaults.

    An object in a list that does not fit becomes an empty one: the list keeps its length, and paths stay right.
    """
    kind = _bare(kind)
    if isinstance(kind, type) and issubclass(kind, Wire):
        return _object(raw, kind, at, note)
    if get_origin(kind) is tuple:
        return _list(raw, get_args(kind)[0], at, note)
    if get_origin(kind) is dict:
        return _mapping(raw, get_args(kind)[1], at, note)
    return _scalar(raw, kind, at, note)


def _object(raw: Any, kind: type[Wire], at: str, note: Callable[[Misfit], None]) -> dict[str, Any]:
    if not isinstance(raw, dict):
        note(Misfit(at, f"expected an object, got {_seen(raw)}"))
        return {}
    mended = {
        field.encode_name: _mend(raw[field.encode_name], field.type, f"{at}.{field.encode_name}".lstrip("."), note)
        for field in _fields(kind)
        if raw.get(field.encode_name) is not None
    }
    return {name: value for name, value in mended.items() if value is not None}


@cache
def _fields(kind: type[Wire]) -> tuple[msgspec.structs.FieldInfo, ...]:
    return msgspec.structs.fields(kind)


def _list(raw: Any, item: Any, at: str, note: Callable[[Misfit], None]) -> list[Any]:
    if not isinstance(raw, list | tuple):
        note(Misfit(at, f"expected a list, got {_seen(raw)}"))
        return []
    mended = [_mend(value, item, f"{at}[{i}]", note) for i, value in enumerate(raw)]
    return [value for value in mended if value is not None]


def _mapping(raw: Any, item: Any, at: str, note: Callable[[Misfit], None]) -> dict[str, Any]:
    if not isinstance(raw, dict):
        note(Misfit(at, f"expected an object, got {_seen(raw)}"))
        return {}
    mended = {str(key): _mend(value, item, f"{at}[{key}]", note) for key, value in raw.items() if value is not None}
    return {key: value for key, value in mended.items() if value is not None}


def _scalar(raw: Any, kind: Any, at: str, note: Callable[[Misfit], None]) -> Any:
    try:
        msgspec.convert(raw, kind, dec_hook=_hook)
        return raw
    except msgspec.ValidationError as error:
        if kind is Resources:
            note(Misfit(at, str(error)))
        else:
            note(Misfit(at, f"expected {_expected(kind)}, got {_seen(raw)}"))
        return None


def _bare(kind: Any) -> Any:
    """The type without `Annotated` and without `None`: what a value must be when it is present."""
    if get_origin(kind) is Annotated and not _is_time(kind):
        return _bare(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        rest = [part for part in get_args(kind) if part is not NoneType]
        return _bare(rest[0]) if len(rest) == 1 else Union[tuple(rest)]  # noqa: UP007 (built at run time)
    return kind


def _is_time(kind: Any) -> bool:
    return get_origin(kind) is Annotated and get_args(kind)[0] is datetime


def _parts(kind: Any) -> Iterator[Any]:
    kind = get_args(kind)[0] if _is_time(kind) else kind
    yield from get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def _expected(kind: Any) -> str:
    return " or ".join(_WORDS.get(part, str(part)) for part in _parts(kind))


def _seen(raw: Any) -> str:
    match raw:
        case None:
            return "nothing"
        case bool():
            return f"`{str(raw).lower()}`"
        case int() | float():
            return f"the number `{str(raw)[:40]}`" if not isinstance(raw, int) or abs(raw) < 10**40 else "a huge number"
        case str():
            return f"the text `{raw[:40]}`"
        case list() | tuple():
            return "a list"
        case dict():
            return "an object"
        case _:
            return f"a value of type {type(raw).__name__}"

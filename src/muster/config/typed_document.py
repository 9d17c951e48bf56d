"""A YAML or JSON file that is one typed document: a configuration, a scenario. It reports all of its problems at once.

Rule: every key that the type does not have is an error, as the user believes that it is a setting.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec.structs import FieldInfo

from muster.api.decoding import decode
from muster.api.meta import Wire
from muster.api.reader import parse_documents
from muster.config.settings import item_struct_of, schema_of, struct_of
from muster.errors import InputError
from muster.reporting.problems import lines
from muster.reporting.text import plain
from muster.validation.problem import Problem, listed

T = TypeVar("T", bound=Wire)
_MOST_MIB = 1  # such a file is smaller


def read_bounded(path: str | Path, hint: str, what: str) -> bytes:
    """The bytes of a file; `hint` is for one that does not exist, `what` is its noun with an article."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(_MOST_MIB * 2**20 + 1)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file", hint=hint) from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    if len(data) > _MOST_MIB * 2**20:
        raise InputError(f"{path}: is larger than {_MOST_MIB} MiB", hint=f"is it {what} of muster?")
    return data


def read_typed(
    data: bytes,
    source: str,
    kind: type[T],
    contradictions: Callable[[T], Iterable[Problem]],
    what: str,
    renamed: Mapping[str, str] | None = None,
) -> T:
    """The document in the bytes of a file; an empty one is all defaults. InputError lists all of its problems."""
    raws = parse_documents(data, source)
    if len(raws) > 1:
        raise InputError(f"{source}: holds {len(raws)} documents", hint=f"{what} is one document")
    raw = raws[0] if raws else {}
    try:
        document, misfits = decode(raw, kind)
    except (UnicodeError, ValueError, OverflowError):
        raise InputError(f"{source}: holds text or numbers that cannot be written out") from None
    problems = [*_unknown_keys(raw, kind, "", renamed or {}), *(Problem(misfit.at, misfit.says) for misfit in misfits)]
    problems += [*_values(document, ""), *contradictions(document)]
    if problems:
        raise InputError(f"{source}: the {what.split(maxsplit=1)[-1]} is invalid\n{plain(lines(problems))}")
    return document


def _unknown_keys(raw: Any, kind: type[Wire], at: str, renamed: Mapping[str, str]) -> Iterator[Problem]:
    if not isinstance(raw, dict):
        return
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    for key, value in raw.items():
        where = f"{at}.{key}".lstrip(".")[:200]
        if key in fields:
            yield from _unknown_inside(value, fields[key], where, renamed)
        else:
            close = get_close_matches(str(key)[:80], fields, n=1, cutoff=0.6)
            hint = f"did you mean `{close[0]}`?" if close else f"known: {listed(fields)}"
            yield Problem(where, "is not a setting", hint=renamed.get(where, hint))


def _unknown_inside(value: Any, field: FieldInfo, at: str, renamed: Mapping[str, str]) -> Iterator[Problem]:
    if inner := struct_of(field):
        yield from _unknown_keys(value, inner, at, renamed)
    elif (inner := item_struct_of(field)) and isinstance(value, list | dict):
        for i, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _unknown_keys(item, inner, f"{at}[{i}]", renamed)


def _values(part: Wire, at: str) -> Iterator[Problem]:
    """Numbers in their range, words from their list, names that Kubernetes accepts."""
    for field in msgspec.structs.fields(type(part)):
        where, value = f"{at}.{field.encode_name}".lstrip("."), getattr(part, field.name)
        yield from _values(value, where) if isinstance(value, Wire) else value_problems(where, value, schema_of(field))
        for i, item in enumerate(value) if isinstance(value, tuple) else ():
            yield from _values(item, f"{where}[{i}]") if isinstance(item, Wire) else ()


def value_problems(at: str, value: Any, schema: dict[str, Any]) -> Iterator[Problem]:
    """What a value breaks of the schema of its field."""
    if isinstance(value, tuple) and len(value) < schema.get("minItems", 0):
        yield Problem(at, "is empty", hint="leave it out for the default, or name at least one")
    if "enum" in schema and value not in schema["enum"]:
        yield Problem(at, f"`{value[:60]}` is not one of its words", hint=f"known: {', '.join(schema['enum'])}")
    if "minimum" in schema and value is not None and not schema["minimum"] <= value <= schema["maximum"]:
        yield Problem(at, f"must be between {schema['minimum']} and {schema['maximum']}, is {_short(value)}")
    if "pattern" in schema and not (re.fullmatch(schema["pattern"], value) and len(value) <= schema["maxLength"]):
        hint = f"lower-case letters, digits and `-`, at most {schema['maxLength']}"
        yield Problem(at, f"`{value[:60]}` is not a name that Kubernetes accepts", hint=hint)


def _short(value: float) -> str:
    return str(value) if abs(value) < 10**20 else "far outside"

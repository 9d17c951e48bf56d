"""Fields of Grove's kinds that look misspelt: Kubernetes ignores them, and a gang would need other numbers."""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from types import NoneType
from typing import Any, get_args

import msgspec

from muster.api.meta import Wire
from muster.validation.grove_crd_rules import FIELDS
from muster.validation.problem import Problem


def judge(raw: Any, kind: type[Wire], at: str = "") -> Iterator[Problem]:
    """A warning for every field of an object that is close to one that exists; pod specs are left to the API server."""
    if not isinstance(raw, dict):
        return
    known = _fields(kind)
    for name, value in raw.items():
        place = f"{at}.{name}"[:200].removeprefix(".")
        if name not in known:
            yield from _misspelt(place, name, known)
        elif (inner := known[name]) is not None:
            for i, item in enumerate(value if isinstance(value, list) else [value]):
                yield from judge(item, inner, f"{place}[{i}]" if isinstance(value, list) else place)


def _misspelt(at: str, name: Any, known: Mapping[str, object]) -> Iterator[Problem]:
    close = get_close_matches(str(name)[:80], known, n=1, cutoff=0.85)
    if close:
        hint = f"did you mean `{close[0]}`?"
        yield Problem(at, "is not a field here, and is ignored", hint=hint, severity="warning", rule="R4")


@cache
def _fields(kind: type[Wire]) -> dict[str, type[Wire] | None]:
    """Names of fields, and the type of what is inside; None: nothing that is looked at."""
    fields = {field.encode_name: _inner(field.type) for field in msgspec.structs.fields(kind)}
    apart = ("apiVersion", "kind", "metadata", "status") if "metadata" in fields else ()
    return {**fields, **dict.fromkeys((*apart, *FIELDS.get(kind, ())))}


def _inner(kind: Any) -> type[Wire] | None:
    """The object type inside lists, options and annotations."""
    if isinstance(kind, type) and issubclass(kind, Wire):
        return kind
    inner = [_inner(part) for part in get_args(kind) if part not in (NoneType, ...)]
    return next((part for part in inner if part is not None), None)

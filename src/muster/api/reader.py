"""Bytes to plain documents: YAML and JSON, strict and bounded.

Rule 1: every document is a JSON value (text keys, no shared parts). Rule 2: no input costs more than its size
suggests: nesting and growth through anchors are limited. Rule 3: duplicate keys are errors, never a silent loss.
"""

import json
import math
import re
from collections.abc import Iterator
from typing import Any

import yaml
from msgspec import Struct

from muster.errors import InputError

DEEPEST = 200  # levels of nesting; the deepest CRD schemas in use have about 60
MOST_COPIES = 200_000  # values that anchors may multiply into
CHARACTERS = 32  # of text that count as one more value
LONGEST_NUMBER = 400  # characters; a longer one is no meaningful number

_TAG = "tag:yaml.org,2002:"
_CONTAINERS = frozenset((None, "!", _TAG + "map", _TAG + "seq"))
_NULLS = frozenset(("", "~", "null", "Null", "NULL"))
_BOOLS = {
    word: value
    for words, value in ((("true", "yes", "on"), True), (("false", "no", "off"), False))
    for low in words
    for word in (low, low.capitalize(), low.upper())
}
_INT = re.compile(
    r"[-+]?(?:0_*|[1-9][0-9_]*|0x_*[0-9a-fA-F][0-9a-fA-F_]*|0o_*[0-7][0-7_]*|0_*[0-7][0-7_]*|0b_*[01][01_]*)"
)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?")
_NUMBERLIKE = re.compile(r"[-+.0-9][-+.0-9a-fA-FxXoObB_]*")  # matches more than numbers: quotes do no harm
_CLOCK = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}.*")  # YAML 1.1
_SPECIAL = {
    sign + word: float(f"{sign}inf") for sign in ("", "+", "-") for word in (".inf", ".Inf", ".INF")
} | dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan"))


def parse_documents(data: bytes, source: str) -> list[Any]:
    """Every document of a file, in order; empty ones are left out. InputError names the line."""
    text = _text(data, source)
    if text.lstrip()[:1] in ("{", "["):
        try:
            return list(_json(text, source))
        except json.JSONDecodeError as error:
            if source.endswith(".json"):
                raise InputError(f"{source}, line {error.lineno}: not valid JSON: {error.msg}") from None
        except RecursionError:
            raise InputError(f"{source}: nested deeper than {DEEPEST} levels") from None
    return list(_yaml(text, source))


def _text(data: bytes, source: str) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{source}: not a text file: byte {error.start} is not UTF-8", hint="manifests are YAML or JSON in UTF-8"
        ) from None
    if "\x00" in text:
        raise InputError(f"{source}: not a text file: it holds NUL bytes", hint="manifests are YAML or JSON in UTF-8")
    return text


# JSON ---------------------------------------------------------------------------------------------------------------


def _json(text: str, source: str) -> Iterator[Any]:
    """Every JSON value of the text, with blanks between them."""

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        mapping = dict(items)
        if len(mapping) < len(items):
            raise InputError(f"{source}: key `{_repeated(items)}` stands twice in one object", hint="keep one of them")
        return mapping

    def constant(word: str) -> Any:
        raise InputError(f"{source}: `{word}` is not a JSON value")

    def integer(digits: str) -> int:
        if len(digits) > LONGEST_NUMBER:
            raise InputError(f"{source}: a number of {len(digits)} digits is too long")
        return int(digits)

    decoder = json.JSONDecoder(object_pairs_hook=pairs, parse_constant=constant, parse_int=integer)
    at = _skip(text, 0)
    while at < len(text):
        value, end = decoder.raw_decode(text, at)
        _check_depth(value, source)
        _check_text(value, text, source)
        if value is not None:
            yield value
        at = _skip(text, end)


def _repeated(items: list[tuple[str, Any]]) -> str:
    seen: set[str] = set()
    return next(key for key, _ in items if key in seen or seen.add(key))  # type: ignore[func-returns-value]


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at


def _check_text(value: Any, written: str, source: str) -> None:
    """JSON can hold half of a surrogate pair, which is not text and could not be encoded again."""
    if "\\ud" not in written and "\\uD" not in written:
        return
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{source}: holds half of a character: {error.reason}") from None


def _check_depth(value: Any, source: str) -> None:
    level = [value]
    for _ in range(DEEPEST):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return
    raise InputError(f"{source}: nested deeper than {DEEPEST} levels")


def _inside(value: Any) -> list[Any]:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [inner for inner in parts if isinstance(inner, dict | list)]


# YAML ---------------------------------------------------------------------------------------------------------------


class _Open(Struct):
    """A mapping or sequence that is being read."""

    value: dict[str, Any] | list[Any]
    anchor: str | None
    line: int
    key: str | None = None  # the key whose value comes next; None in a mapping: a key comes next
    merging: bool = False  # that key is a plain `<<`
    size: int = 1
    depth: int = 1  # levels inside it, itself among them
    merges: list[Any] = []


class _Builder:
    """Builds one value from the events of one document. Iterative, so that nesting costs no stack."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.open: list[_Open] = []
        self.done: list[Any] = []
        self.anchors: dict[str, tuple[Any, int, int]] = {}  # value, size, depth
        self.copies = 0

    def take(self, event: Any) -> None:
        match event:
            case yaml.ScalarEvent():
                self._scalar(event)
            case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                self._start(event)
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                self._end()
            case yaml.AliasEvent():
                self._alias(event)
            case _:
                pass

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        inside = self.open[-1] if self.open else None
        if inside is not None and inside.key is None and isinstance(inside.value, dict):
            self._key(event, inside)
            return
        value = _resolve(event, self._at(event))
        size = 1 + len(event.value) // CHARACTERS
        if event.anchor:
            self.anchors[event.anchor] = (value, size, 0)
        self._put(value, size, 0)

    def _key(self, event: yaml.ScalarEvent, inside: _Open) -> None:
        key = event.value
        if event.implicit[0] and key in _NULLS:
            raise InputError(f"{self._at(event)}: a key is missing before `:`")
        if key in inside.value:
            raise InputError(
                f"{self._at(event)}: key `{key[:60]}` stands twice in one mapping", hint="keep one of them"
            )
        if event.anchor:
            self.anchors[event.anchor] = (key, 1, 0)
        inside.key = key
        inside.merging = key == "<<" and event.implicit[0]

    def _start(self, event: yaml.MappingStartEvent | yaml.SequenceStartEvent) -> None:
        if event.tag not in _CONTAINERS:
            raise InputError(f"{self._at(event)}: tag `{event.tag}` has no meaning in a manifest", hint="remove it")
        if len(self.open) >= DEEPEST:
            raise InputError(f"{self._at(event)}: nested deeper than {DEEPEST} levels")
        if self.open and self.open[-1].key is None and isinstance(self.open[-1].value, dict):
            raise InputError(f"{self._at(event)}: a mapping or list cannot be a key", hint="quote it if it is text")
        value: dict[str, Any] | list[Any] = {} if isinstance(event, yaml.MappingStartEvent) else []
        self.open.append(_Open(value, event.anchor, _line(event), merges=[]))

    def _end(self) -> None:
        closed = self.open.pop()
        for merged in closed.merges:
            self._merge(merged, closed)
        if closed.anchor:
            self.anchors[closed.anchor] = (closed.value, closed.size, closed.depth)
        self._put(closed.value, closed.size, closed.depth)

    def _merge(self, merged: Any, into: _Open) -> None:
        """`<<`: keys of the mapping itself win, then the earlier of the merged mappings."""
        for part in merged if isinstance(merged, list) else [merged]:
            if not isinstance(part, dict):
                raise InputError(f"{self.source}, line {into.line}: `<<` merges mappings only")
            assert isinstance(into.value, dict)
            for key, value in part.items():
                into.value.setdefault(key, value)

    def _alias(self, event: yaml.AliasEvent) -> None:
        if event.anchor not in self.anchors:
            raise InputError(f"{self._at(event)}: `*{event.anchor}` refers to itself or to nothing")
        value, size, depth = self.anchors[event.anchor]
        self.copies += size
        if len(self.open) + depth > DEEPEST:
            raise InputError(f"{self._at(event)}: nested deeper than {DEEPEST} levels through anchors")
        if self.copies > MOST_COPIES:
            raise InputError(
                f"{self._at(event)}: anchors multiply this file beyond {MOST_COPIES:,} values",
                hint="write the parts out",
            )
        inside = self.open[-1] if self.open else None
        if inside is not None and inside.key is None and isinstance(inside.value, dict):
            raise InputError(f"{self._at(event)}: an alias cannot be a key", hint="write the key out")
        self._put(_copy(value), size, depth)

    def _put(self, value: Any, size: int, depth: int) -> None:
        if not self.open:
            self.done.append(value)
            return
        inside = self.open[-1]
        inside.size += size
        inside.depth = max(inside.depth, depth + 1)
        if isinstance(inside.value, list):
            inside.value.append(value)
            return
        assert inside.key is not None
        if inside.merging:
            inside.merges.append(value)
        else:
            inside.value[inside.key] = value
        inside.key = None

    def _at(self, event: yaml.Event) -> str:
        return f"{self.source}, line {_line(event)}"


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 1


def _yaml(text: str, source: str) -> Iterator[Any]:
    builder = _Builder(source)
    try:
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            if isinstance(event, yaml.DocumentStartEvent):
                builder = _Builder(source)
            builder.take(event)
            if isinstance(event, yaml.DocumentEndEvent):
                yield from (value for value in builder.done if value is not None)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f", line {mark.line + 1}" if mark else ""
        raise InputError(f"{source}{line}: not valid YAML: {error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise InputError(f"{source}: not valid YAML: {str(error).splitlines()[0]}") from None


def _resolve(event: yaml.ScalarEvent, at: str) -> Any:
    """A scalar as kubectl reads it: timestamps and 1:30 stay text."""
    if event.tag in (None, "!"):
        return _plain(event.value, at) if event.implicit[0] else event.value
    kind = event.tag.removeprefix(_TAG)
    if kind == "str":
        return event.value
    value = _plain(event.value, at)
    expected = {"int": int, "float": float, "bool": bool, "null": type(None)}.get(kind)
    if kind == "float" and isinstance(value, int):
        return float(value)
    if expected is None or not isinstance(value, expected):
        raise InputError(f"{at}: tag `{event.tag}` does not fit `{event.value[:60]}`", hint="remove the tag")
    return value


def _plain(word: str, at: str) -> Any:
    if word in _NULLS:
        return None
    if word in _BOOLS:
        return _BOOLS[word]
    if word[0] not in "+-.0123456789":
        return word
    number = _INT.fullmatch(word) or _FLOAT.fullmatch(word)
    if number and len(word) > LONGEST_NUMBER:
        raise InputError(f"{at}: a number of {len(word)} characters is too long", hint="quote it if it is text")
    if _INT.fullmatch(word):
        return _integer(word)
    if not number:
        return _SPECIAL.get(word, word)
    value = float(word.replace("_", ""))
    return word if math.isinf(value) else value  # beyond the range of a float: stays text


def needs_quotes(text: str) -> bool:
    """Whether text, written plainly, would be read as something else, here or by another parser in the field."""
    if not text or text in _NULLS or text in _BOOLS or text in ("y", "Y", "n", "N", "<<", "=") or text in _SPECIAL:
        return True
    return bool(_NUMBERLIKE.fullmatch(text) or _CLOCK.fullmatch(text))


def _integer(word: str) -> int:
    digits = word.replace("_", "").lower()
    bare = digits.lstrip("+-")
    if len(bare) > 1 and bare[0] == "0" and bare[1] in "01234567":
        return int(digits, 8)
    return int(digits, 0)


def _copy(value: Any) -> Any:
    """A deep copy: aliases share no parts with their anchors."""
    match value:
        case dict():
            return {key: _copy(inner) for key, inner in value.items()}
        case list():
            return [_copy(inner) for inner in value]
        case _:
            return value

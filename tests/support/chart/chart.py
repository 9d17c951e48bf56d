"""As much of Helm as the chart uses; anything else is refused.

That is values, `if`, `range`, `prepend`, `not`, `eq`, `toYaml`, `toJson`, `omit`, `nindent`, `default`, the parts of a
text, `$`, and the checksum of another template. Helm is not part of the tests' environment; where it is at hand, tests
compare. A template that needs more than this is too clever for the chart.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests.support.factories import Raw

_TAG = re.compile(r"\s*\{\{-\s*(?P<trimmed>.*?)\s*\}\}|\{\{\s*(?P<plain>[^-].*?)\s*\}\}", re.DOTALL)
_FIELDS = re.compile(r"\.|\$?(\.[A-Za-z]+)+")


class _Block(NamedTuple):
    """`if` or `range`, and what stands between it and its `end`."""

    verb: str
    words: str
    inner: "list[str | _Tag | _Block]"


class _Tag(NamedTuple):
    """A value to print."""

    words: str


class _Scope(NamedTuple):
    """What `.` and `$` mean."""

    dot: Any
    root: Raw


def rendered(path: Path, values: Raw, namespace: str, chart: Raw) -> str:
    """The text that Helm would make of a template."""
    scope = {
        "Values": values,
        "Release": {"Namespace": namespace},
        "Chart": {"AppVersion": chart["appVersion"]},
        "Template": {"BasePath": path.parent},
    }
    return _file(path, _Scope(scope, scope))


def _file(path: Path, scope: _Scope) -> str:
    return "".join(_printed(_parsed(path.read_text(encoding="utf-8")), scope)).lstrip("\n")


def _parsed(template: str) -> list[str | _Tag | _Block]:
    open_blocks = [_Block("", "", [])]
    at = 0
    for tag in _TAG.finditer(template):
        open_blocks[-1].inner.append(template[at : tag.start()])
        at = tag.end()
        words = tag["trimmed"] if tag["trimmed"] is not None else tag["plain"]
        verb, _, rest = words.partition(" ")
        if verb in ("if", "range"):
            open_blocks.append(_Block(verb, rest, []))
            open_blocks[-2].inner.append(open_blocks[-1])
        elif words == "end":
            open_blocks.pop()
        else:
            open_blocks[-1].inner.append(_Tag(words))
    assert len(open_blocks) == 1, "an `if` or `range` without its `end`"
    open_blocks[0].inner.append(template[at:])
    return open_blocks[0].inner


def _printed(parts: list[str | _Tag | _Block], scope: _Scope) -> Iterator[str]:
    """What the parts print."""
    for part in parts:
        match part:
            case str():
                yield part
            case _Tag(words):
                yield _piped(words, scope)
            case _Block("if", words, inner):
                yield from _printed(inner, scope) if _value(words, scope) else ()
            case _Block(_, words, inner):
                for item in _value(words, scope):
                    yield from _printed(inner, scope._replace(dot=item))


def _piped(words: str, scope: _Scope) -> str:
    first, *rest = (part.strip() for part in words.split("|"))
    value: Any = _value(first, scope)
    for step in rest:
        name, _, argument = step.partition(" ")
        if name == "nindent":
            value = "\n" + "\n".join(" " * int(argument) + line for line in value.splitlines())
        elif name == "default":
            value = value or _value(argument, scope)
        elif name == "toJson":
            value = json.dumps(value, separators=(",", ":"))
        elif name == "sha256sum":
            value = hashlib.sha256(value.encode()).hexdigest()
        else:
            raise ValueError(f"the tiny renderer does not know `{name}`")
    return str(value).lower() if isinstance(value, bool) else str(value)


def _condition(words: str, scope: _Scope) -> bool:
    if words.startswith("not "):
        return not _value(words.removeprefix("not "), scope)
    _, path, word = words.split()
    return bool(_value(path, scope) == word.strip('"'))


def _value(words: str, scope: _Scope) -> Any:
    if words.startswith("toYaml "):
        return yaml.safe_dump(_value(words.removeprefix("toYaml "), scope), sort_keys=True).rstrip()
    if words.startswith(("not ", "eq ")):
        return _condition(words, scope)
    if including := re.fullmatch(r'include \(print (\S+) "/([a-z]+\.yaml)"\) \$', words):
        return _file(_value(including[1], scope) / including[2], _Scope(scope.root, scope.root))
    if omitting := re.fullmatch(r'\(omit (\S+) "(\w+)"\)', words):
        return {key: value for key, value in _value(omitting[1], scope).items() if key != omitting[2]}
    if listing := re.fullmatch(r'\(list (\S+)\)|prepend (\S+) ""', words):
        return [_value(listing[1], scope)] if listing[1] else ["", *_value(listing[2], scope)]
    if splitting := re.fullmatch(r'\(splitn "(.)" 2 (\S+)\)\._([01])', words):
        return [*_value(splitting[2], scope).split(splitting[1], 1), ""][int(splitting[3])]
    if replacing := re.fullmatch(r'regexReplaceAll "(\S+)" (\S+) ""', words):
        return re.sub(replacing[1], "", _value(replacing[2], scope))
    if not _FIELDS.fullmatch(words):
        raise ValueError(f"the tiny renderer does not know `{words}`")
    current: Any = scope.root if words.startswith("$") else scope.dot
    for part in filter(None, words.lstrip("$").split(".")):
        current = current[part]  # a KeyError is a value that values.yaml does not have
    return current

"""As much of Helm as the chart uses; anything else is refused.

That is values, `if`, `not`, `toYaml`, `omit`, `nindent`, `default`, and the checksum of another template.
Helm is not part of the tests' environment; where it is at hand, tests compare. A template that needs more than this is
too clever for the chart.
"""

import hashlib
import re
from pathlib import Path
from typing import Any

import yaml

from tests.support.factories import Raw

_TAG = re.compile(r"\s*\{\{-\s*(?P<trimmed>.*?)\s*\}\}|\{\{\s*(?P<plain>[^-].*?)\s*\}\}", re.DOTALL)


def rendered(path: Path, values: Raw, namespace: str, chart: Raw) -> str:
    """The text that Helm would make of a template."""
    scope = {
        "Values": values,
        "Release": {"Namespace": namespace},
        "Chart": {"AppVersion": chart["appVersion"]},
        "Template": {"BasePath": path.parent},
    }
    return _text(path, scope)


def _text(path: Path, scope: Raw) -> str:
    template = path.read_text(encoding="utf-8")
    lines: list[str] = []
    shown = [True]
    at = 0
    for tag in _TAG.finditer(template):
        lines += [template[at : tag.start()]] if all(shown) else []
        at = tag.end()
        words = tag["trimmed"] if tag["trimmed"] is not None else tag["plain"]
        if words.startswith("if "):
            shown.append(bool(_value(words.removeprefix("if "), scope)))
        elif words == "end":
            shown.pop()
        elif all(shown):
            lines.append(_piped(words, scope))
    assert shown == [True], "an `if` without its `end`"
    return "".join([*lines, template[at:]]).lstrip("\n")


def _piped(words: str, scope: Raw) -> str:
    first, *rest = (part.strip() for part in words.split("|"))
    value: Any = _value(first, scope)
    for step in rest:
        name, _, argument = step.partition(" ")
        if name == "nindent":
            value = "\n" + "\n".join(" " * int(argument) + line for line in value.splitlines())
        elif name == "default":
            value = value or _value(argument, scope)
        elif name == "sha256sum":
            value = hashlib.sha256(value.encode()).hexdigest()
        else:
            raise ValueError(f"the tiny renderer does not know `{name}`")
    return str(value).lower() if isinstance(value, bool) else str(value)


def _value(words: str, scope: Raw) -> Any:
    if words.startswith("toYaml "):
        return yaml.safe_dump(_value(words.removeprefix("toYaml "), scope), sort_keys=True).rstrip()
    if words.startswith("not "):
        return not _value(words.removeprefix("not "), scope)
    if including := re.fullmatch(r'include \(print (\S+) "/([a-z]+\.yaml)"\) \.', words):
        return _text(_value(including[1], scope) / including[2], scope)
    if omitting := re.fullmatch(r'\(omit (\S+) "(\w+)"\)', words):
        return {key: value for key, value in _value(omitting[1], scope).items() if key != omitting[2]}
    if not re.fullmatch(r"(\.[A-Za-z]+)+", words):
        raise ValueError(f"the tiny renderer does not know `{words}`")
    current: Any = scope
    for part in words.split(".")[1:]:
        current = current[part]  # a KeyError is a value that values.yaml does not have
    return current

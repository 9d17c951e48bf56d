"""Generates docs/reference/config.md from the types of the settings."""

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec.structs import FieldInfo

from muster.api.meta import Wire
from muster.config.settings import Config, item_struct_of, notes_of, schema_of, struct_of


def reference() -> str:
    """The text of docs/reference/config.md: every setting with its default, range and reason."""
    return _HEAD + "".join(_section(Config, "")).rstrip() + "\n"


def _section(kind: type[Wire], at: str) -> Iterator[str]:
    fields = msgspec.structs.fields(kind)
    own = [field for field in fields if struct_of(field) is None]
    if at:
        yield f"## `{at}`\n\n{' '.join((kind.__doc__ or '').split())}\n\n"
    if own:
        yield "| setting | default | values | why |\n|---|---|---|---|\n"
        yield from map(_row, own)
        yield "\n"
    for field in fields:
        name = f"{at}.{field.encode_name}".lstrip(".")
        if inner := struct_of(field):
            yield from _section(inner, name)
        elif inner := item_struct_of(field):
            yield from _section(inner, f"{name}[]")


def _row(field: FieldInfo) -> str:
    default = msgspec.json.encode(_shown(field.default)).decode() if field.default != () else "[]"
    why = " ".join(note.description for note in notes_of(field))
    return f"| `{field.encode_name}` | `{default}` | {_range(field)} | {why} |\n"


def _shown(default: Any) -> Any:
    """A default as a cell shows it: of a long list, how it begins."""
    return (*default[:3], "…") if isinstance(default, tuple) and len(default) > 8 else default


def _range(field: FieldInfo) -> str:
    schema = schema_of(field)
    if "enum" in schema:
        return " or ".join(f"`{word}`" for word in schema["enum"])
    if "minimum" in schema:
        return f"{schema['minimum']:,} – {schema['maximum']:,}"
    if isinstance(field.default, bool):
        return "`true` or `false`"
    if isinstance(field.default, tuple):
        return "a list of sections" if item_struct_of(field) else "a list of names"
    return "a name" if "pattern" in schema else "text"


_HEAD = """\
# Configuration

<!-- Made from src/muster/config/settings.py by `make golden`; change it there. -->

`muster run --config FILE` reads one YAML (or JSON) file. Every setting has a default, so an empty file is a good one.
Keys that are not settings, values of a wrong type or out of range, and settings that contradict each other are refused,
all at once, each with its path and a hint. Units are part of the names. No secret belongs into this file.

```yaml
scheduling: {schedulerNames: [muster], namespaces: [], dryRun: false}
leaderElection: {leaseNamespace: muster-system}
webhook:
  failurePolicy: Fail
  certificates: {source: generated}
log: {level: info}
```

"""

"""Manifests to objects and back: documents with their source, `List` kinds unfolded, errors with file and path."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
import yaml
from msgspec import Struct

from muster.api.decoding import Misfit, decode
from muster.api.meta import ObjectMeta, Wire
from muster.api.names import DEFAULT_NAMESPACE
from muster.api.objects import CLUSTER_SCOPED, FIELDS, KINDS, VALIDATED_KINDS, Objects, OtherObject, key
from muster.api.reader import needs_quotes, parse_documents
from muster.control_characters import escape_json, escape_yaml, has_controls, visible
from muster.errors import InputError


class Document(Struct, frozen=True):
    """One object as its file has it, and where."""

    where: str
    raw: Any

    @property
    def kind(self) -> type[Wire] | None:
        """The type that muster knows it by, if any."""
        return kind_of(self.raw)


def kind_of(raw: Any) -> type[Wire] | None:
    """The type behind `apiVersion` and `kind`; None where planning does not read them."""
    return _kind(raw, KINDS)


def validated_kind_of(raw: Any) -> type[Wire] | None:
    """The type behind `apiVersion` and `kind`, Grove's among them; None where muster does not know them."""
    return _kind(raw, VALIDATED_KINDS)


def _kind(raw: Any, kinds: Mapping[tuple[str, str], type[Wire]]) -> type[Wire] | None:
    if not isinstance(raw, dict):
        return None
    version, kind = raw.get("apiVersion"), raw.get("kind")
    return kinds.get((version, kind)) if isinstance(version, str) and isinstance(kind, str) else None


def read(data: bytes, source: str) -> list[Document]:
    """Every object of one file."""
    whole = parse_documents(data, source)
    unfolded = [
        item
        for i, raw in enumerate(whole, 1)
        for item in unfold(raw, source if len(whole) == 1 else f"{source}, document {i}")
    ]
    if not unfolded:
        raise InputError(f"{source}: holds no objects", hint="expected Kubernetes objects in YAML or JSON")
    return unfolded


def unfold(raw: Any, where: str) -> Iterator[Document]:
    """The items of a `List`; `PodGroupList` and the like also give their items' kind."""
    if not isinstance(raw, dict):
        raise InputError(f"{where}: expected a Kubernetes object, got {_plainly(raw)}")
    kind = raw.get("kind")
    if not isinstance(kind, str) or not kind:
        raise InputError(f"{where}: not a Kubernetes object: `kind` is missing", hint="add `apiVersion` and `kind`")
    if not isinstance(raw.get("apiVersion"), str):
        raise InputError(f"{where}: not a Kubernetes object: `apiVersion` is missing", hint="add it next to `kind`")
    if not kind.endswith("List"):
        yield Document(where, raw)
        return
    items = raw.get("items")
    if items is not None and not isinstance(items, list):
        raise InputError(f"{where}: `items` of a {kind} must be a list")
    typed = {"apiVersion": raw["apiVersion"], "kind": kind.removesuffix("List")} if kind != "List" else {}
    for i, item in enumerate(items or ()):
        if isinstance(item, dict):
            yield from unfold({**typed, **item}, f"{where}, items[{i}]")
        else:
            raise InputError(f"{where}, items[{i}]: expected a Kubernetes object, got {_plainly(item)}")


def _plainly(raw: Any) -> str:
    return "a list" if isinstance(raw, list) else f"`{str(raw)[:40]}`"


def title(raw: Any) -> str:
    """An object in a sentence: podgroup `team-a/llama`."""
    meta = raw.get("metadata") if isinstance(raw, dict) else None
    meta = meta if isinstance(meta, dict) else {}
    name = str(meta.get("name") or meta.get("generateName") or "?")[:253]
    kind = str(raw.get("kind") or "podgroup") if isinstance(raw, dict) else "object"
    if validated_kind_of(raw) not in CLUSTER_SCOPED:
        name = f"{meta.get('namespace') or DEFAULT_NAMESPACE}/{name}"
    return visible(f"{kind.lower()} `{name}`")


class Collected(Struct, frozen=True):
    """Typed objects by kind, and the documents that cannot be used."""

    objects: Objects
    misfits: tuple[tuple[Document, tuple[Misfit, ...]], ...] = ()
    repeated: tuple[tuple[Document, str], ...] = ()  # the second of two with one identity, and where the first is


def collect(read_documents: Iterable[Document], beside: Objects = Objects()) -> Collected:  # noqa: B008 - frozen
    """Everything that can be decoded, added to what is there `beside`; what cannot be is reported, not raised."""
    values_by_field: dict[str, list[Any]] = {field: list(getattr(beside, field)) for field in FIELDS.values()}
    seen = {
        (kind.__name__, _identity(kind, value.metadata)): "the live cluster"
        for kind, field in FIELDS.items()
        for value in values_by_field[field]
    }
    unknown, others = dict(beside.unknown), list(beside.others)
    misfits: list[tuple[Document, tuple[Misfit, ...]]] = []
    repeated: list[tuple[Document, str]] = []
    for document in read_documents:
        kind = document.kind
        if kind is None:
            other = OtherObject(document.where, document.raw)
            unknown[other.title] = unknown.get(other.title, 0) + 1
            others.append(other)
            continue
        value, wrong = _decoded(document, kind)
        identity = (kind.__name__, _identity(kind, value.metadata))  # type: ignore[attr-defined]
        if wrong:
            misfits.append((document, wrong))
        elif identity in seen and not identity[1].endswith("/"):
            repeated.append((document, seen[identity]))
        else:
            seen[identity] = document.where
            values_by_field[FIELDS[kind]].append(value)
    objects = Objects(
        **{name: tuple(values) for name, values in values_by_field.items()},
        unknown=dict(sorted(unknown.items())),
        others=tuple(others),
    )
    return Collected(objects, tuple(misfits), tuple(repeated))


def _decoded(document: Document, kind: type[Wire]) -> tuple[Wire, tuple[Misfit, ...]]:
    try:
        return decode(document.raw, kind)
    except (UnicodeError, ValueError, OverflowError):
        raise InputError(f"{document.where}: holds text or numbers that cannot be written out") from None


def objects(read_documents: Iterable[Document], beside: Objects = Objects()) -> Objects:  # noqa: B008 - frozen
    """Typed objects by kind, and those of a cluster that they come `beside`.

    InputError names every value of a wrong type, and objects that occur twice.
    """
    collected = collect(read_documents, beside)
    if collected.misfits:
        raise InputError(_indented([format_misfits(document, wrong) for document, wrong in collected.misfits]))
    for document, where in collected.repeated:
        raise InputError(
            f"{document.where}: {title(document.raw)} is given twice", hint=f"the other one is in {where}; keep one"
        )
    return collected.objects


def format_misfits(document: Document, misfits: Iterable[Misfit]) -> str:
    """Every misfit of one document: file, document, path and what was expected."""
    return "\n".join(
        [f"{document.where}: {title(document.raw)} cannot be read"]
        + [visible(f"  {misfit.at or '(the object)'}: {misfit.says}") for misfit in misfits]
    )


def _indented(messages: list[str]) -> str:
    """One message: all but the first below it."""
    return "\n  ".join([messages[0], *(message.replace("\n", "\n  ") for message in messages[1:])])


def _identity(kind: type[Wire], metadata: ObjectMeta) -> str:
    return metadata.name or "/" if kind in CLUSTER_SCOPED else key(metadata)


# writing ------------------------------------------------------------------------------------------------------------


class _Dumper(yaml.CSafeDumper):
    """Indented lists, and quotes around text that any YAML parser in the field could read as something else."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=_style(text))


def _style(text: str) -> str | None:
    return '"' if has_controls(text) else "'" if needs_quotes(text) else None


_Dumper.add_representer(str, _text)


def to_yaml(values: Iterable[Any]) -> str:
    """Documents as YAML, in the order of their fields; those too deep for that as JSON, which is YAML."""
    documents = list(values)
    try:
        text: str = yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
        return escape_yaml(text)
    except RecursionError:
        return "---\n".join(to_json_line(value) + "\n" for value in documents)


def to_json(value: Any) -> str:
    """A value as indented JSON; one too deep for that in one line."""
    try:
        return escape_json(msgspec.json.format(msgspec.json.encode(value, enc_hook=dict), indent=2).decode())
    except RecursionError:
        return to_json_line(value)


def to_json_line(value: Any) -> str:
    """A value of any depth as JSON (N1), without indentation, whose size would grow with the square of the depth."""
    written: list[str] = []
    ahead: list[Any] = [value]
    while ahead:
        match ahead.pop():
            case _Token(text):
                written.append(text)
            case Mapping() as fields:
                parts = [(f"{_scalar(name)}:", field) for name, field in fields.items()]
                ahead += reversed(list(_tokens("{", parts, "}")))
            case list() | tuple() as items:
                ahead += reversed(list(_tokens("[", [("", item) for item in items], "]")))
            case scalar:
                written.append(_scalar(scalar))
    return escape_json("".join(written))


class _Token(Struct, frozen=True):
    text: str


def _tokens(begin: str, parts: Iterable[tuple[str, Any]], end: str) -> Iterator[Any]:
    """Values with the tokens before, between and after them."""
    yield _Token(begin)
    for i, (name, value) in enumerate(parts):
        yield _Token("," + name if i else name)
        yield value
    yield _Token(end)


def _scalar(value: Any) -> str:
    return msgspec.json.encode(value).decode()

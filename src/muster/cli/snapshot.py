"""`muster snapshot`: captures a live cluster in files that every reading verb takes.

Rule 1: afterwards muster's files in the folder hold what the cluster holds, kind by kind; other files stay.
Rule 2: all or nothing: every kind is read before a file changes.
Rule 3: only what verbs read is written, and only its owner may read it: pods hold passwords in `env`, and annotations
hold whole manifests.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from functools import partial
from itertools import chain, repeat
from pathlib import Path

import click
import msgspec
from msgspec import Struct

from muster.api import names
from muster.api.codec import Document, to_yaml
from muster.api.decoding import known_fields
from muster.api.objects import KINDS, WATCHED_KINDS
from muster.api.resources import PODS
from muster.cli import live, options, printing
from muster.errors import InputError
from muster.grouping import pod_reader
from muster.kube.cluster import Raw
from muster.kube.manifest_files import MOST_MIB, SUFFIXES
from muster.validation.problem import listed

# annotations that verbs read
READ_PREFIXES = (*pod_reader.READ_PREFIXES, "grove.io/")
READ_ANNOTATIONS = (names.POD_GROUP, names.SELECTED_NODE)
OWNER_ONLY, OWNER_ONLY_FOLDER = 0o600, 0o700
NOISE = ("managedFields", "selfLink")
MARK = "# Written by `muster snapshot`, which replaces or removes it the next time.\n"


@click.command("snapshot")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--full",
    is_flag=True,
    help="Write whole objects: also environment variables, commands, all annotations, sources of volumes and the "
    "rest of their status. They may hold passwords.",
)
@options.cluster
def command(folder: Path, full: bool) -> int:
    """Capture a live cluster in a folder, one file for each kind, for `muster plan FOLDER` and other reading verbs.

    Captures only kinds that planning reads (nodes, pods, PodGroups, queues, topologies and a few more), and of these
    only the fields: no environment variables, commands or annotations of other tools. Verbs answer as on the cluster.
    Only you may read the files.

    A new snapshot replaces the old one in the folder, and removes its files of kinds that are gone. It never overwrites
    or removes files that muster did not write.

    \b
    Examples:
      muster snapshot cluster/ --context production
      muster plan cluster/ new-workload.yaml
      muster up cluster/
    """
    ours = {resource: folder / f"{resource.plural}.yaml" for resource in WATCHED_KINDS}
    _refuse_foreign(list(ours.values()))
    pages_by_kind = live.read(*options.target(), partial(_page, _bare if full else _trimmed))
    kinds = {path: [page for page in pages_by_kind.get(kind, []) if page.number] for kind, path in ours.items()}
    _replace(kinds)
    for path, pages in sorted(kinds.items()):
        if pages:
            printing.print_lines([f"{path}: {sum(page.number for page in pages)}"])
    _note_others(folder, set(ours.values()))
    _note_large([path for path, pages in kinds.items() if pages])
    return 0


class Page(Struct, frozen=True):
    """Objects as JSON: little memory, and fast. Writing YAML at once would take so long that continue tokens expire."""

    number: int
    text: bytes


def _page(reduce: Callable[[Raw], Raw], documents: list[Document]) -> Page:
    return Page(len(documents), msgspec.json.encode([reduce(document.raw) for document in documents]))


def _parts(pages: list[Page]) -> Iterator[str]:
    """The text of a file, page by page."""
    for head, page in zip(chain([MARK], repeat("---\n")), pages, strict=False):
        yield head + to_yaml(msgspec.json.decode(page.text))


def _refuse_foreign(paths: list[Path]) -> None:
    """InputError where a file is not ours; runs before anything is read or written."""
    foreign = [path for path in paths if os.path.lexists(path) and not _is_ours(path)]
    if foreign:
        raise InputError(
            f"{foreign[0]}: is there already, and was not written by `muster snapshot`",
            hint="choose another folder, or move it away",
        )


def _is_ours(path: Path) -> bool:
    if not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            return file.read(len(MARK)) == MARK.encode()
    except OSError:
        return False


def _replace(kinds: dict[Path, list[Page]]) -> None:
    """Replace all files or none: write the new ones beside, move the old ones aside, then rename the new ones.

    Undoes what was done where a step fails. Even a killed process leaves no mix of two snapshots: readers ignore the
    names of the files beside.
    """
    new = {path: _beside(path, "new") for path, pages in kinds.items() if pages}
    old = {path: _beside(path, "old") for path in kinds if path.exists()}
    at = next(iter(kinds))
    try:
        with ExitStack() as undo:
            for at, fresh in new.items():
                at.parent.mkdir(OWNER_ONLY_FOLDER, parents=True, exist_ok=True)
                undo.callback(fresh.unlink, missing_ok=True)
                _write(fresh, _parts(kinds[at]))
            for at, aside in old.items():
                undo.callback(_move, aside, at)
                at.replace(aside)
            for at, fresh in new.items():
                undo.callback(_move, at, fresh)
                fresh.replace(at)
            undo.pop_all()
    except OSError as error:
        raise InputError(f"{at}: cannot be written: {error.strerror or error}", hint="choose another folder") from None
    for aside in old.values():
        with suppress(OSError):
            aside.unlink()


def _write(path: Path, parts: Iterator[str]) -> None:
    """Into a new file: one that is there already, or a link, may be somebody else's."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.writelines(parts)


def _beside(path: Path, what: str) -> Path:
    return path.with_name(f".{path.name}.{what}-{os.getpid()}")


def _move(path: Path, to: Path) -> None:
    """Rename, where the file exists."""
    with suppress(FileNotFoundError):
        path.replace(to)


def _note_others(folder: Path, ours: set[Path]) -> None:
    others = [path for path in folder.rglob("*") if path.suffix in SUFFIXES and path.is_file() and path not in ours]
    if others:
        printing.note(
            f"`{folder}` also holds other files, which verbs read together with this snapshot: {listed(others)}"
        )


def _note_large(written: list[Path]) -> None:
    """Note the option that reading verbs need for a file above their default limit."""
    largest = max((path.stat().st_size for path in written), default=0)
    if largest > MOST_MIB * 2**20:
        printing.note(f"to read its largest file, verbs need `--max-file-mib {-(-largest // 2**20)}`")


def _trimmed(raw: Raw) -> Raw:
    """The object with the fields and annotations that verbs read."""
    typed = {"apiVersion": raw["apiVersion"], "kind": raw["kind"]}
    known: Raw = known_fields(raw, KINDS[raw["apiVersion"], raw["kind"]])
    meta = known["metadata"]
    read = {name: text for name, text in meta.pop("annotations", {}).items() if _is_read(name)}
    trimmed = typed | known | {"metadata": meta | ({"annotations": read} if read else {})}
    if raw["kind"] == PODS.kind and "spec" in known:
        trimmed["spec"] = _pod_spec(raw["spec"], known["spec"])
    return trimmed


def _pod_spec(spec: Raw, known: Raw) -> Raw:
    """With images, which `muster up` requires as Kubernetes does; without volumes that are nowhere."""
    containers = {
        field: [_with_image(*pair) for pair in zip(known[field], spec[field], strict=True)]
        for field in ("containers", "initContainers")
        if known.get(field)
    }
    volumes = [volume for volume in known.get("volumes", ()) if len(volume) > 1]
    return {**known, **containers, **({"volumes": volumes} if "volumes" in known else {})}


def _with_image(known: Raw, container: Raw) -> Raw:
    return known | {"image": container["image"]} if "image" in container else known


def _is_read(annotation: str) -> bool:
    return annotation in READ_ANNOTATIONS or annotation.startswith(READ_PREFIXES)


def _bare(raw: Raw) -> Raw:
    """The object without metadata that only the API server uses."""
    return raw | {"metadata": {name: value for name, value in raw["metadata"].items() if name not in NOISE}}

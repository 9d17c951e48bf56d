"""`muster snapshot`: captures a live cluster in files that every reading verb takes.

Rule 1: afterwards muster's files in the folder hold what the cluster holds, kind by kind; other files stay.
Rule 2: all or nothing: every kind is read before a file changes.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from itertools import chain, repeat
from pathlib import Path

import click
import msgspec
from msgspec import Struct

from muster.api.codec import Document, to_yaml
from muster.api.objects import WATCHED_KINDS
from muster.cli import live, options, printing
from muster.errors import InputError
from muster.kube.cluster import Raw
from muster.kube.manifest_files import MOST_MIB, SUFFIXES
from muster.validation.problem import listed

NOISE = ("managedFields", "selfLink")
MARK = "# Written by `muster snapshot`, which replaces or removes it the next time.\n"


@click.command("snapshot")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@options.cluster
def command(folder: Path) -> int:
    """Capture a live cluster in a folder, one file for each kind, for `muster plan FOLDER` and other reading verbs.

    Captures only kinds that planning reads: nodes, pods, PodGroups, queues, topologies and a few more. No secrets.

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
    pages_by_kind = live.read(*options.target(), _page)
    kinds = {path: [page for page in pages_by_kind.get(kind, []) if page.number] for kind, path in ours.items()}
    _replace(kinds)
    for path, pages in sorted(kinds.items()):
        if pages:
            click.echo(f"{path}: {sum(page.number for page in pages)}")
    _note_others(folder, set(ours.values()))
    _note_large([path for path, pages in kinds.items() if pages])
    return 0


class Page(Struct, frozen=True):
    """Objects as JSON: little memory, and fast. Writing YAML at once would take so long that continue tokens expire."""

    number: int
    text: bytes


def _page(documents: list[Document]) -> Page:
    return Page(len(documents), msgspec.json.encode([_bare(document.raw) for document in documents]))


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
                at.parent.mkdir(parents=True, exist_ok=True)
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
    with path.open("w", encoding="utf-8") as file:
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


def _bare(raw: Raw) -> Raw:
    """The object without metadata that only the API server uses."""
    return raw | {"metadata": {name: value for name, value in raw["metadata"].items() if name not in NOISE}}

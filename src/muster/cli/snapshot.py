"""`muster snapshot`: a live cluster into files that every reading verb takes.

Rule 1: afterwards the files of the folder say what the cluster says, kind by kind; what muster did not write stays.
Rule 2: it is done whole or not at all: every kind has been read before a file is touched.
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
    """Capture a live cluster into files: one for each kind, for `muster plan FOLDER` and every other reading verb.

    Only kinds that planning reads are captured: nodes, pods, PodGroups, queues, topologies and a few more. No secrets.

    A folder that holds a snapshot holds the new one afterwards: files of kinds that are gone go, too. Files that muster
    did not write are never overwritten nor removed.

    \b
    Examples:
      muster snapshot cluster/ --context production
      muster plan cluster/ new-workload.yaml
      muster up cluster/
    """
    ours = {resource: folder / f"{resource.plural}.yaml" for resource in WATCHED_KINDS}
    _refuse_foreign(list(ours.values()))
    found = live.read(*options.target(), _page)
    kinds = {path: [page for page in found.get(kind, []) if page.number] for kind, path in ours.items()}
    _replace(kinds)
    for path, pages in sorted(kinds.items()):
        if pages:
            click.echo(f"{path}: {sum(page.number for page in pages)}")
    _note_others(folder, set(ours.values()))
    _note_large([path for path, pages in kinds.items() if pages])
    return 0


class Page(Struct, frozen=True):
    """Objects as JSON: a fraction of the memory, and soon made. YAML would take so long that lists expire meanwhile."""

    number: int
    text: bytes


def _page(documents: list[Document]) -> Page:
    return Page(len(documents), msgspec.json.encode([_bare(document.raw) for document in documents]))


def _parts(pages: list[Page]) -> Iterator[str]:
    """What a file consists of."""
    for head, page in zip(chain([MARK], repeat("---\n")), pages, strict=False):
        yield head + to_yaml(msgspec.json.decode(page.text))


def _refuse_foreign(paths: list[Path]) -> None:
    """Before anything is asked or written."""
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
    """All files or none: everything is written beside them first, and the old ones are gone before the new ones come.

    What fails in between is undone. Even where nobody is left to undo it, no reader meets a mix of two moments: what
    lies beside has a name that none of them looks at.
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
    """Back, if it was moved at all."""
    with suppress(FileNotFoundError):
        path.replace(to)


def _note_others(folder: Path, ours: set[Path]) -> None:
    others = [path for path in folder.rglob("*") if path.suffix in SUFFIXES and path.is_file() and path not in ours]
    if others:
        printing.note(
            f"`{folder}` also holds files that are not of this snapshot, and are read with it: {listed(others)}"
        )


def _note_large(written: list[Path]) -> None:
    """Reading verbs refuse what is larger than anybody writes by hand, unless they are told."""
    largest = max((path.stat().st_size for path in written), default=0)
    if largest > MOST_MIB * 2**20:
        printing.note(f"its largest file wants `--max-file-mib {-(-largest // 2**20)}` of whatever reads it")


def _bare(raw: Raw) -> Raw:
    """Without what only the API server reads."""
    return raw | {"metadata": {name: value for name, value in raw["metadata"].items() if name not in NOISE}}

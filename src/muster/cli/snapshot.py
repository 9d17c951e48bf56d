"""`muster snapshot`: a live cluster into files that every reading verb takes.

Rule: afterwards the files of the folder say what the cluster says, kind by kind; what muster did not write stays.
"""

import os
from contextlib import suppress
from pathlib import Path

import click

from muster.api.codec import to_yaml
from muster.cli import live, wire
from muster.cluster.files import SUFFIXES
from muster.cluster.mirror import FOLLOWED
from muster.cluster.store import Raw
from muster.errors import InputError
from muster.rules.problem import listed

NOISE = ("managedFields", "selfLink")
MARK = "# Written by `muster snapshot`, which replaces or removes it the next time.\n"


@click.command("snapshot")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@wire.cluster
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
    ours = {resource.plural: folder / f"{resource.plural}.yaml" for resource in FOLLOWED}
    _refuse_foreign(list(ours.values()))
    kinds: dict[str, list[Raw]] = {plural: [] for plural in ours}
    for document in live.documents(*wire.target()):
        kinds[document.where.partition("/")[0]].append(_bare(document.raw))
    for plural, found in sorted(kinds.items()):
        _write(ours[plural], found)
    _note_others(folder, set(ours.values()))
    return 0


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


def _write(path: Path, found: list[Raw]) -> None:
    """Whole or not at all; nothing to say, no file."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        if not found:
            path.unlink(missing_ok=True)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh.write_text(MARK + to_yaml(found), encoding="utf-8")
        fresh.replace(path)
    except OSError as error:
        with suppress(OSError):
            fresh.unlink(missing_ok=True)
        raise InputError(
            f"{path}: cannot be written: {error.strerror or error}", hint="choose another folder"
        ) from None
    click.echo(f"{path}: {len(found)}")


def _note_others(folder: Path, ours: set[Path]) -> None:
    others = [path for path in folder.rglob("*") if path.suffix in SUFFIXES and path.is_file() and path not in ours]
    if others:
        wire.note(f"`{folder}` also holds files that are not of this snapshot, and are read with it: {listed(others)}")


def _bare(raw: Raw) -> Raw:
    """Without what only the API server reads."""
    return raw | {"metadata": {name: value for name, value in raw["metadata"].items() if name not in NOISE}}

"""Objects in files: a file, a folder, or standard input."""

import os
import stat
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from muster.control_characters import visible
from muster.errors import InputError

SUFFIXES = (".yaml", ".yml", ".json")
MOST_MIB = 32  # of one file; YAML of that size is some 500,000 lines


class ManifestFile(Struct, frozen=True):
    """One file that was read."""

    name: str
    data: bytes
    path: Path | None  # None: standard input


def sources(paths: Iterable[str | os.PathLike[str]], most_mib: int = MOST_MIB) -> Iterator[ManifestFile]:
    """Every file behind the paths, one at a time; those of a folder in order of their names."""
    for source in paths:
        if str(source) == "-":
            yield ManifestFile("standard input", _standard_input(most_mib), None)
            continue
        for path in files(Path(source)):
            yield ManifestFile(visible(str(path)), _read(path, most_mib), path)


def _standard_input(most_mib: int) -> bytes:
    try:
        if sys.stdin is None:
            raise OSError("it is closed")
        return _bounded(sys.stdin.buffer.read(most_mib * 2**20 + 1), "standard input", most_mib)
    except OSError as error:
        raise InputError(f"standard input: cannot be read: {error.strerror or error}") from None


def files(path: Path) -> list[Path]:
    """The file, or the manifests of a folder in order of their names."""
    if not path.is_dir():
        return [path]
    inside = sorted(inner for inner in path.rglob("*") if inner.suffix in SUFFIXES and inner.is_file())
    if not inside:
        raise InputError(f"{path}: holds no manifests", hint=f"looked for {', '.join(SUFFIXES)} in it and below")
    return inside


def _read(path: Path, most_mib: int) -> bytes:
    try:
        with path.open("rb") as file:
            if stat.S_ISDIR(os.fstat(file.fileno()).st_mode):
                raise IsADirectoryError
            return _bounded(file.read(most_mib * 2**20 + 1), str(path), most_mib)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file", hint="give a file, a folder, or `-` for standard input") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None


def _bounded(data: bytes, name: str, most_mib: int) -> bytes:
    if len(data) > most_mib * 2**20:
        raise InputError(
            f"{name}: is larger than {most_mib} MiB", hint="split it into several files, or raise `--max-file-mib`"
        )
    return data


def replace(path: Path, content: str | bytes) -> None:
    """Writes a file whole or not at all; its mode stays, and so does a link to it. Devices and pipes are written to."""
    data = content.encode() if isinstance(content, str) else content
    is_special = path.exists() and not path.is_file() and not path.is_dir()
    target = path.resolve()
    temporary = target.with_name(f".{target.name}.muster-{os.getpid()}")
    try:
        if is_special:
            path.write_bytes(data)
            return
        temporary.write_bytes(data)
        if target.exists():
            temporary.chmod(stat.S_IMODE(target.stat().st_mode))
        temporary.replace(target)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from None
    finally:  # also after Ctrl-C
        if not is_special:
            temporary.unlink(missing_ok=True)


def check_writable(path: Path) -> None:
    """InputError where `replace` would fail for what is known before: a long run must not end with that."""
    if path.is_dir():
        raise InputError(f"{path}: cannot be written: it is a folder", hint="give the name of a file")
    if not path.resolve().parent.is_dir():
        raise InputError(f"{path}: cannot be written: its folder does not exist", hint="make the folder first")
    target = path if path.exists() and not path.is_file() else path.resolve().parent  # devices are not replaced
    if not os.access(target, os.W_OK):
        raise InputError(f"{path}: cannot be written: `{target}` is read-only", hint="name another place")

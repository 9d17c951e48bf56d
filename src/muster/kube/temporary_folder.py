"""Private folders that do not outlive their process, not even one that was killed: the next one removes them.

A process holds a lock on each of its folders, which the kernel releases when it ends. Rule: a folder is removed only
where this user owns it, nobody holds it, and a file inside says that muster made it. No link is ever followed.
"""

import fcntl
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIX = "muster-held-"
MARK = ".made-by-muster"
_TRIES = 100
_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class HeldFolder:
    """A folder of this process, mode 0700, until it is removed or let go."""

    def __init__(self, prefix: str = PREFIX) -> None:
        remove_abandoned(prefix)
        for _ in range(_TRIES):
            path = Path(tempfile.mkdtemp(prefix=prefix))
            if (descriptor := _hold(path)) is not None:
                (path / MARK).touch(mode=0o600)
                self.path, self._descriptor = path, descriptor
                return
        raise OSError(f"no folder in {tempfile.gettempdir()} stays where it was made")

    def remove(self) -> None:
        """The folder and all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._close()

    def let_go(self) -> None:
        """The folder stays, and nobody removes it later."""
        (self.path / MARK).unlink(missing_ok=True)
        self._close()

    def _close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _hold(path: Path) -> int | None:
    """The open and locked folder; None where another process, which starts now, took it for abandoned."""
    with suppress(OSError):
        descriptor = os.open(path, _OPEN_FOLDER)
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(descriptor, path):
                return descriptor
        os.close(descriptor)
    return None


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A private folder that is gone afterwards."""
    held = HeldFolder()
    try:
        yield held.path
    finally:
        held.remove()


def remove_abandoned(prefix: str = PREFIX) -> None:
    """Remove the folders of processes of this user that ended without doing so."""
    name = re.compile(re.escape(prefix) + r"[a-z0-9_]{8}")
    with suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for path in [Path(entry.path) for entry in entries if name.fullmatch(entry.name)]:
            with suppress(OSError):
                _remove_if_abandoned(path)


def _remove_if_abandoned(path: Path) -> None:
    descriptor = os.open(path, _OPEN_FOLDER)
    try:
        status = os.fstat(descriptor)
        if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077:
            return
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        names = os.listdir(descriptor)  # noqa: PTH208 - a path could be exchanged meanwhile
        if not names:
            path.rmdir()
        elif MARK in names and _is_at(descriptor, path):
            shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(descriptor)


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether the open folder is still the one at this path."""
    with suppress(OSError):
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    return False

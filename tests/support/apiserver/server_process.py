"""A program that runs while tests need it: its output goes to a log, and it ends with the tests, however those end."""

import ctypes
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

STOP_SECONDS = 20.0


class NotStarted(Exception):
    """A program did not come up; its own words."""


class ServerProcess:
    """One running program, in a folder that gets its log."""

    def __init__(self, program: Path, flags: Sequence[str], folder: Path) -> None:
        self.log = folder / f"{program.name}.log"
        self._output = self.log.open("ab")
        self._process = subprocess.Popen(
            [str(program), *flags],
            stdout=self._output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            cwd=folder,
            preexec_fn=_die_with_parent,
        )

    @property
    def pid(self) -> int:
        """Of the running program."""
        return self._process.pid

    def check(self) -> None:
        """NotStarted where it has ended."""
        if self._process.poll() is not None:
            raise NotStarted(f"{self.log.name} ends with {self._process.returncode}: {self.last_lines()}")

    def last_lines(self) -> str:
        """The end of its log."""
        return " / ".join(self.log.read_text(errors="replace").strip().splitlines()[-3:])

    def kill(self) -> None:
        """It is gone when this returns, and had no chance to finish anything."""
        self._process.kill()
        self._process.wait()
        self._output.close()

    def stop(self) -> None:
        """It is gone when this returns."""
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._output.close()


def _die_with_parent() -> None:
    """Even a pytest that is killed leaves nothing behind."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG

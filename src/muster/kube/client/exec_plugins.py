"""Exec plugins of a kubeconfig, with an end: the official client would wait for one for ever.

A plugin that runs alone has a minute, and is then ended with all that it has started. One that may ask somebody at the
terminal has the time that a person takes.
"""

import os
import signal
import subprocess
from types import SimpleNamespace
from typing import Any, Final

ALONE_SECONDS: Final = 60.0
ASKING_SECONDS: Final = 600.0


def limit_plugins() -> None:
    """From now on, the official loaders run plugins as said here."""
    from kubernetes.config import exec_provider

    official: Any = exec_provider  # it has no types
    official.subprocess = SimpleNamespace(Popen=_Process, PIPE=subprocess.PIPE)


class _Process(subprocess.Popen[str]):
    """A process whose last word is waited for so long and no longer; with a terminal where it is given one."""

    def __init__(self, args: Any, *, stdin: Any = None, **given: Any) -> None:
        self._alone = stdin is None
        super().__init__(
            args, stdin=subprocess.DEVNULL if self._alone else stdin, start_new_session=self._alone, **given
        )

    def communicate(self, input: str | None = None, timeout: float | None = None) -> tuple[str, str]:  # noqa: A002
        """What it says; TimeoutExpired where it is too late, and then it is no more."""
        try:
            return super().communicate(input, timeout or (ALONE_SECONDS if self._alone else ASKING_SECONDS))
        except subprocess.TimeoutExpired:
            self._end()
            raise

    def _end(self) -> None:
        if self._alone and hasattr(os, "killpg"):
            os.killpg(self.pid, signal.SIGKILL)  # it leads a group of its own, and is not yet waited for
        else:
            self.kill()
        self.wait()
        for pipe in (self.stdout, self.stderr):
            if pipe is not None:
                pipe.close()

"""Runs the console blocks of a page that need a cluster, as a reader would: `muster up`, and commands beside it.

    python -m tests.support.live_page docs/tutorials/first-gang.md    prints what every command prints now

In what a page shows, `…` stands for text that differs between runs, and a line of its own for any number of lines.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.support.doc_pages import blocks_of, folder_for

KUBECONFIG = "muster.kubeconfig"
START_SECONDS, COMMAND_SECONDS = 60.0, 120.0
LOOKING, LOOK_SECONDS = ("kubectl get", "kubectl describe", "muster "), 30.0  # a reader would look again, for a while


class Step(NamedTuple):
    """A command of a page, what the page shows of it, and what it printed."""

    command: str
    shown: str
    printed: str

    @property
    def is_as_shown(self) -> bool:
        """Whether the page shows what was printed."""
        lines = [re.escape(_squeezed(line)).replace("…", ".*") for line in self.shown.splitlines()]
        pattern = "".join("(?:.*\n)*" if line == ".*" else f"{line}\n" for line in lines)
        printed = "".join(f"{_squeezed(line)}\n" for line in self.printed.splitlines())
        return re.fullmatch(pattern, printed) is not None


def _squeezed(line: str) -> str:
    """Without the widths of columns."""
    return re.sub(r"\s+", " ", line).strip()


def live_commands(page: Path) -> list[tuple[str, str]]:
    """The commands of a page that need a cluster, each with what the page shows of it."""
    blocks = (block for block in blocks_of(page) if block.language == "console" and not block.is_run_on_files)
    pairs = (re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block.text, re.MULTILINE) for block in blocks)
    return [pair for pairs_of_block in pairs for pair in pairs_of_block]


def run_page(page: Path, folder: Path) -> Iterator[Step]:
    """Runs them in order, on the cluster that the first one starts."""
    folder_for(page, folder)
    (start, shown), *others = live_commands(page)
    with _cluster(start, folder) as printed:
        yield Step(start, shown, printed)
        for command, shown in others:
            yield _step(command, shown, folder)


def _step(command: str, shown: str, folder: Path) -> Step:
    """Runs a command; one that only looks is run again while it shows something else."""
    end = time.monotonic() + LOOK_SECONDS
    while True:
        step = Step(command, shown, _run(command, folder))
        if step.is_as_shown or not command.startswith(LOOKING) or time.monotonic() > end:
            return step
        time.sleep(0.2)


def _environment(folder: Path) -> dict[str, str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return os.environ | {"PATH": path, "KUBECONFIG": str(folder / KUBECONFIG), "PYTHONUNBUFFERED": "1"}


def _run(command: str, folder: Path) -> str:
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=_environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=COMMAND_SECONDS,
        check=False,
    )
    return done.stdout


@contextmanager
def _cluster(command: str, folder: Path) -> Iterator[str]:
    """A running `muster up`; what it printed once it serves."""
    output = folder / "up.txt"
    with (
        output.open("w", encoding="utf-8") as stream,
        subprocess.Popen(
            ["bash", "-c", f"exec {command}"],
            cwd=folder,
            env=_environment(folder),
            stdout=stream,
            stderr=subprocess.STDOUT,
        ) as process,
    ):
        try:
            _wait_for(folder / KUBECONFIG, process, output)
            yield output.read_text(encoding="utf-8")
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()


def _wait_for(kubeconfig: Path, process: "subprocess.Popen[bytes]", output: Path) -> None:
    end = time.monotonic() + START_SECONDS
    while not (kubeconfig.exists() and "Ctrl-C" in output.read_text(encoding="utf-8")):
        assert process.poll() is None, output.read_text(encoding="utf-8")
        assert time.monotonic() < end, "the cluster does not start"
        time.sleep(0.05)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        for step in run_page(Path(sys.argv[1]).resolve(), Path(made)):
            mark = "as shown" if step.is_as_shown else "DIFFERS"
            sys.stdout.write(f"$ {step.command}    <{mark}>\n{step.printed}")

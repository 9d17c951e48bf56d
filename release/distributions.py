"""Wheel and sdist: built by the locked build backend, the same bytes on every machine, and tried where they are new."""

import os
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from muster import __version__

SECONDS = 600  # for one command
OFFLINE = ["--no-deps", "--no-index", "--no-build-isolation", "--ignore-installed"]  # options of pip
EXAMPLE = ("cluster", "dynamo-inference.yaml", "dynamo-pods.yaml")  # in examples/


class NotReleased(Exception):
    """Why there is no release, and what to do."""


def build(root: Path, folder: Path, epoch: int) -> list[Path]:
    """The wheel and the sdist of the tree at `root`, as of `epoch`, in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-t", "sdist", "-d", str(folder)]
    run(command, root, SOURCE_DATE_EPOCH=str(epoch))
    return sorted((*folder.glob("muster-*.whl"), *folder.glob("muster-*.tar.gz")))


def build_twice(root: Path, folder: Path, epoch: int) -> list[Path]:
    """NotReleased where a second build differs."""
    built = build(root, folder, epoch)
    with tempfile.TemporaryDirectory() as other:
        again = {path.name: path.read_bytes() for path in build(root, Path(other), epoch)}
    if differing := [path.name for path in built if again.get(path.name) != path.read_bytes()]:
        raise NotReleased(f"two builds differ in {', '.join(differing)}: something in them depends on time or place")
    return built


def verify(distribution: Path, examples: Path, site_packages: Path | None = None) -> None:
    """Install a wheel or an sdist with pip into a new environment and use it there. NotReleased: it does not work.

    `site_packages`: where dependencies and the build backend are already; without it, pip gets them from its index.
    """
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "venv"
        venv.create(home, with_pip=True, symlinks=True)
        python, muster = str(home / "bin" / "python"), str(home / "bin" / "muster")
        if site_packages:
            (own,) = home.glob("lib/python*/site-packages")
            (own / "dependencies.pth").write_text(f"{site_packages}\n", encoding="utf-8")
        options = OFFLINE if site_packages else []
        run([python, "-m", "pip", "install", "--quiet", *options, str(distribution)], Path(folder))
        for words, expected in _uses(examples):
            _require(run([muster, *words], Path(folder)), expected, distribution)
        where = run([python, "-c", "import muster; print(muster.__file__)"], Path(folder))
        _require(where, str(home), distribution)


def _uses(examples: Path) -> list[tuple[list[str], str]]:
    """Words on the command line, and what must be among the output."""
    files = [str(examples / name) for name in EXAMPLE]
    return [
        (["--version"], f"muster {__version__}\n"),
        (["--help"], "Verbs:"),
        (["plan", *files], "inference/dynamo-inference"),
    ]


def _require(printed: str, expected: str, distribution: Path) -> None:
    if expected not in printed:
        raise NotReleased(f"{distribution.name} does not work: expected `{expected}`, got: {printed[:400]}")


def run(command: list[str], folder: Path, **variables: str) -> str:
    """Standard output; NotReleased with the last lines of standard error where it fails."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")} | variables
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotReleased(f"`{Path(command[0]).name}` cannot be run: {error}") from None
    if done.returncode:
        last_lines = " / ".join((done.stderr or done.stdout).strip().splitlines()[-3:])
        raise NotReleased(f"`{' '.join([Path(command[0]).name, *command[1:4]])} …` failed: {last_lines}")
    return done.stdout


def clean(folder: Path) -> None:
    """Nothing of an earlier release is left."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)

"""A browser for the tests: Chromium, found or installed from Debian's packages.

Looked for in MUSTER_CHROMIUM, then on PATH and where Debian puts it. Tests only look: `find_chromium`. `make test`
installs it where it may: `python -m tests.support.chromium --if-possible`, which needs root and apt-get.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome")
PACKAGES = ("chromium", "fonts-dejavu-core")
FLAGS = (
    "--headless",
    "--no-sandbox",  # which Chromium refuses to root otherwise; it opens only files of the tests
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
INSTALL_SECONDS = 600
HOW_TO_GET_IT = "no Chromium here: `apt-get install chromium`, or set MUSTER_CHROMIUM to the path of one"


class NoChromium(Exception):
    """It is not at hand and cannot be installed here: why, and the way out."""


def find_chromium(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Where it is; None: it is not at hand."""
    if given := environment.get("MUSTER_CHROMIUM"):
        return Path(given) if shutil.which(given) else None
    places = os.pathsep.join((environment.get("PATH", ""), "/usr/bin"))
    paths = (shutil.which(name, path=places) for name in NAMES)
    return next((Path(path) for path in paths if path), None)


def provide() -> Path:
    """Where it is, installed where it must be."""
    if path := find_chromium():
        return path
    if os.environ.get("MUSTER_CHROMIUM") or os.geteuid() or not shutil.which("apt-get"):
        raise NoChromium(HOW_TO_GET_IT)
    if not _is_done("install", *PACKAGES) and not (_is_done("update") and _is_done("install", *PACKAGES)):
        raise NoChromium(f"apt-get could not install {' and '.join(PACKAGES)}; {HOW_TO_GET_IT}")
    if path := find_chromium():
        return path
    raise NoChromium(HOW_TO_GET_IT)


def _is_done(*arguments: str) -> bool:
    """Whether apt-get succeeded."""
    command = ["apt-get", "-y", "-qq", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=60", *arguments]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        done = subprocess.run(
            command,
            env=environment,
            capture_output=True,
            check=False,
            timeout=INSTALL_SECONDS,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def main(arguments: list[str]) -> int:
    """Print where it is; one line on stderr where it is not."""
    try:
        sys.stdout.write(f"{provide()}\n")
    except NoChromium as why:
        sys.stderr.write(f"browser: {why}\n")
        return 0 if "--if-possible" in arguments else 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

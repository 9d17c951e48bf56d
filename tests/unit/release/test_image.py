"""The container image: built and run where a builder and a base are at hand; elsewhere a line says what is missing."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from muster import __version__
from release.distributions import NotReleased
from release.image import build_image, check_base, find_builder

ROOT = Path(__file__).parents[3]
EPOCH = 1_767_225_600
TAG = "localhost/muster:test"
BASE = os.environ.get("BASE_IMAGE", "")
needs_builder = pytest.mark.skipif(
    not BASE or find_builder() is None, reason="needs buildah or docker with an engine, and BASE_IMAGE=…@sha256:…"
)


@pytest.mark.parametrize("base", ["", "python:3.13-slim", "python@sha256:abc", f"python@sha256:{'A' * 64}"])
def test_a_base_without_a_digest_is_refused(base: str) -> None:
    """A tag is another image tomorrow."""
    with pytest.raises(NotReleased, match="give the base by tag and digest"):
        check_base(base)
    assert check_base(f"docker.io/library/python:3.13-slim@sha256:{'a' * 64}")


def test_where_there_is_no_builder_one_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda *_: None)
    with pytest.raises(NotReleased, match="no buildah, and no docker whose engine answers"):
        build_image(ROOT, f"python@sha256:{'a' * 64}", TAG, EPOCH)


@needs_builder
def test_the_image_is_the_same_every_time_and_runs_without_rights() -> None:
    """As any user but root, on a read-only root, without a network."""
    first, second = (build_image(ROOT, BASE, TAG, EPOCH) for _ in range(2))
    assert first == second != ""
    engine = shutil.which("podman") or shutil.which("docker")
    if engine is None:
        pytest.skip("needs podman or docker to run the image")
    words = ["run", "--rm", "--read-only", "--network=none", "--cap-drop=ALL", TAG]
    done = subprocess.run([engine, *words, "--version"], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == f"muster {__version__}\n", done.stderr
    user = subprocess.run(
        [engine, *words[:-1], "--entrypoint=id", TAG, "-u"], capture_output=True, text=True, timeout=120, check=False
    )
    assert user.stdout.strip() == "65532"

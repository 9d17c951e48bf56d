"""The container image: on a base that is named by its digest, with times of the commit, the same every time."""

import re
import shutil
import subprocess
from pathlib import Path

from release.distributions import NotReleased, run

BASE = re.compile(r"[^@\s]+@sha256:[0-9a-f]{64}")
HOW_TO_NAME_A_BASE = (
    "BASE_IMAGE is missing or has no digest: give the base by tag and digest, such as "
    "`make release BASE_IMAGE=docker.io/library/python:3.13-slim@sha256:…`; docs/reference/release.md says where it is"
)
HOW_TO_GET_A_BUILDER = (
    "no buildah, and no docker whose engine answers: install buildah, or `make dist` without the image"
)


def find_builder() -> str | None:
    """`buildah`, or `docker` where its engine answers; None: neither."""
    if shutil.which("buildah"):
        return "buildah"
    docker = shutil.which("docker")
    if docker is None:
        return None
    try:
        answers = subprocess.run([docker, "info"], capture_output=True, check=False, timeout=20).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return None
    return "docker" if answers else None


def check_base(base: str) -> str:
    """NotReleased where the base could be another image tomorrow."""
    if not BASE.fullmatch(base):
        raise NotReleased(HOW_TO_NAME_A_BASE)
    return base


def build_image(root: Path, base: str, tag: str, epoch: int) -> str:
    """Build and tag it; its id, which is a digest of all that is in it."""
    builder = find_builder()
    if builder is None:
        raise NotReleased(HOW_TO_GET_A_BUILDER)
    arguments = [f"--build-arg=BASE={check_base(base)}", f"--build-arg=SOURCE_DATE_EPOCH={epoch}"]
    file = ["--file", str(root / "deploy" / "Containerfile"), "--tag", tag, "--no-cache"]
    if builder == "buildah":
        run(["buildah", "build", *arguments, *file, "--timestamp", str(epoch), str(root)], root)
        return run(["buildah", "inspect", "--type", "image", "--format", "{{.FromImageDigest}}", tag], root).strip()
    output = "--output=type=docker,rewrite-timestamp=true"
    run(["docker", "buildx", "build", *arguments, *file, "--provenance=false", output, str(root)], root)
    return run(["docker", "inspect", "--format", "{{.Id}}", tag], root).strip()

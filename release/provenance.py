"""Whence a release came: an in-toto statement with SLSA provenance, of the digests, the commit and the command.

It is not signed: who publishes a release signs it with a key or an identity of theirs.
"""

import hashlib
import json
import os
import platform
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://slsa.dev/provenance/v1"
BUILD_TYPE = "https://muster.dev/release/v1"  # docs/reference/release.md
LOCAL = "https://muster.dev/release/v1/local"  # a machine that nobody vouches for
BUILDER = "MUSTER_BUILDER"


def sha256(path: Path) -> str:
    """The digest of a file, in hexadecimal digits."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def checksums(files: Sequence[Path]) -> str:
    """As `sha256sum --check` reads it."""
    return "".join(f"{sha256(path)}  {path.name}\n" for path in sorted(files))


def provenance(
    files: Sequence[Path], commit: str, epoch: int, lock: Path, command: str, image: Mapping[str, str] | None = None
) -> str:
    """The statement as JSON. `image`: the base image and the digest of what was built on it."""
    subjects = [{"name": path.name, "digest": {"sha256": sha256(path)}} for path in sorted(files)]
    sources = [
        {"name": "source", "digest": {"gitCommit": commit}},
        {"name": lock.name, "digest": {"sha256": sha256(lock)}},
    ]
    if image:
        subjects.append({"name": image["name"], "digest": {"sha256": image["digest"].partition(":")[2]}})
        base, _, digest = image["base"].partition("@sha256:")
        sources.append({"name": base, "digest": {"sha256": digest}})
    definition = {
        "buildType": BUILD_TYPE,
        "externalParameters": {"command": command, "commit": commit},
        "internalParameters": {"sourceDateEpoch": epoch, **_tools()},
        "resolvedDependencies": sources,
    }
    statement: dict[str, Any] = {
        "_type": STATEMENT,
        "subject": subjects,
        "predicateType": PREDICATE,
        "predicate": {
            "buildDefinition": definition,
            "runDetails": {"builder": {"id": os.environ.get(BUILDER) or LOCAL}},
        },
    }
    return json.dumps(statement, indent=2, sort_keys=True) + "\n"


def _tools() -> dict[str, str]:
    return {"python": platform.python_version(), "hatchling": metadata.version("hatchling")}

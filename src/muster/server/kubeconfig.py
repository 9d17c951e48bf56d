"""The kubeconfig of the embedded cluster: its address, whom to trust, and the token. Only its owner may read it."""

import os
from base64 import b64encode
from pathlib import Path
from typing import Any

from muster.api.codec import to_yaml

NAME = "muster"


def kubeconfig(address: str, token: str, authority: bytes = b"") -> dict[str, Any]:
    """As kubectl reads it; `authority` is PEM, empty where the address is plain http."""
    cluster = {"server": address}
    if authority:
        cluster["certificate-authority-data"] = b64encode(authority).decode()
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": NAME,
        "clusters": [{"name": NAME, "cluster": cluster}],
        "users": [{"name": NAME, "user": {"token": token}}],
        "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME, "namespace": "default"}}],
    }


def write(path: Path, config: dict[str, Any]) -> None:
    """Mode 0600 from its first byte on, and never half a file: it takes the name when it is whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(to_yaml([config]))
    fresh.replace(path)

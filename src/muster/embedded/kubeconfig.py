"""The kubeconfig of the embedded cluster: its address, whom to trust, and the token. Only its owner may read it.

Rule: nobody's file is lost. What is there stays, unless an embedded cluster wrote it that answers no more; and a file
goes with its cluster only while it is, byte for byte, what was written.
"""

import errno
import os
import socket
import ssl
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from muster.api.codec import to_yaml
from muster.api.reader import documents
from muster.errors import InputError

NAME = "muster"
EXTENSION = "muster.dev/up"  # an extension: kubectl keeps it when it writes the file
ANSWER_SECONDS = 2.0
MAX_BYTES = 1 << 20  # bytes; more is not ours
NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS)
OTHER_PATH = "choose another --kubeconfig"


def build_kubeconfig(address: str, token: str, authority: bytes = b"") -> dict[str, Any]:
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
        "extensions": [{"name": EXTENSION, "extension": {"goes": "when its cluster ends"}}],
    }


@contextmanager
def publish_kubeconfig(path: Path, config: dict[str, Any]) -> Iterator[None]:
    """Written where nothing is, there while it is open, and gone afterwards if it is still what was written."""
    data = to_yaml([config]).encode()
    _write(path, data)
    try:
        yield
    finally:
        if _read(path) == data:
            path.unlink(missing_ok=True)


def remove_stale_kubeconfig(path: Path) -> None:
    """InputError where a kubeconfig cannot be written here; what a cluster that is no more left behind is removed."""
    if not path.parent.is_dir():
        raise InputError(f"{path}: there is no folder `{path.parent}`", hint=f"make it, or {OTHER_PATH}")
    if not os.path.lexists(path):
        return
    config = _parse_own(_read(path))
    if config is None:
        raise InputError(
            f"{path}: is there already, and is not a kubeconfig of `muster up`", hint=f"{OTHER_PATH}, or move it away"
        )
    if _is_running(config):
        raise InputError(
            f"{path}: belongs to a `muster up` that still runs", hint=f"{OTHER_PATH}, or end the other one first"
        )
    path.unlink(missing_ok=True)


def _write(path: Path, data: bytes) -> None:
    """Mode 0600 from its first byte on, and never half a file: it takes the name when it is whole."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        fresh.unlink(missing_ok=True)
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data)
        _link(fresh, path)
    except FileExistsError:
        raise InputError(f"{path}: is there already", hint=OTHER_PATH) from None
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}", hint=OTHER_PATH) from None
    finally:
        with suppress(OSError):
            fresh.unlink(missing_ok=True)


def _link(fresh: Path, path: Path) -> None:
    """Unlike a move, a link leaves alone what has come to be there; some file systems have none."""
    try:
        os.link(fresh, path)
    except OSError as error:
        if error.errno not in NO_LINKS or os.path.lexists(path):
            raise
        fresh.replace(path)


def _read(path: Path) -> bytes:
    """Empty where it is no file that could be read."""
    try:
        return path.read_bytes() if path.is_file() and path.stat().st_size <= MAX_BYTES else b""
    except OSError:
        return b""


def _parse_own(data: bytes) -> dict[str, Any] | None:
    """A kubeconfig that holds what an embedded cluster wrote, and no other cluster, user or context."""
    try:
        found = documents(data, "kubeconfig")
    except InputError:
        return None
    config = found[0] if len(found) == 1 and isinstance(found[0], dict) else {}
    alone = all(_collect_names(config.get(part)) == [NAME] for part in ("clusters", "users", "contexts"))
    return config if alone and EXTENSION in _collect_names(config.get("extensions")) else None


def _collect_names(parts: Any) -> list[Any]:
    return [part.get("name") for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []


def _is_running(config: dict[str, Any]) -> bool:
    """Whether the very cluster that wrote it is there: somebody else on its port does not have its certificate."""
    try:
        cluster = config["clusters"][0]["cluster"]
        url = urlsplit(cluster["server"])
        trust = ssl.create_default_context(cadata=b64decode(cluster["certificate-authority-data"]).decode())
        with (
            socket.create_connection((url.hostname, url.port), ANSWER_SECONDS) as plain,
            trust.wrap_socket(plain, server_hostname=url.hostname),
        ):
            return True
    except TimeoutError:  # it is busy, or stopped: better not to touch its file
        return True
    except (OSError, ValueError, KeyError, TypeError):
        return False

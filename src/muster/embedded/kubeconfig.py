"""The kubeconfig of the embedded cluster: address, CA and token, readable by its owner only.

Rule: no other file is overwritten or deleted. A file that exists is replaced only if it is the kubeconfig of an
embedded cluster that has stopped. At the end it is deleted only if it still holds, byte for byte, what was written.
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
from muster.api.reader import parse_documents
from muster.errors import InputError

NAME = "muster"
EXTENSION = "muster.dev/up"  # marks the file as ours; kubectl preserves extensions when it writes the file
ANSWER_SECONDS = 2.0
MAX_BYTES = 1 << 20  # a larger file is not ours
NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS)  # file systems without hard links
OTHER_PATH = "choose another --kubeconfig"


def build_kubeconfig(address: str, token: str, authority: bytes = b"") -> dict[str, Any]:
    """The content of the file; `authority` is the CA as PEM, empty where the address is plain http."""
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
    """Writes the file, and deletes it afterwards unless it has changed; InputError where a file exists already."""
    data = to_yaml([config]).encode()
    _write(path, data)
    try:
        yield
    finally:
        if _read(path) == data:
            path.unlink(missing_ok=True)


def remove_stale_kubeconfig(path: Path) -> None:
    """Deletes the kubeconfig of an embedded cluster that has stopped; InputError where none can be written here."""
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
    """Mode 0600 from the first byte on; the file gets its name when it is complete."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.unlink(missing_ok=True)
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data)
        _link(temporary, path)
    except FileExistsError:
        raise InputError(f"{path}: is there already", hint=OTHER_PATH) from None
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}", hint=OTHER_PATH) from None
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _link(temporary: Path, path: Path) -> None:
    """Unlike a rename, a hard link does not replace a file that has appeared meanwhile."""
    try:
        os.link(temporary, path)
    except OSError as error:
        if error.errno not in NO_LINKS or os.path.lexists(path):
            raise
        temporary.replace(path)


def _read(path: Path) -> bytes:
    """Empty where it is not a regular file, too large, or not readable."""
    try:
        return path.read_bytes() if path.is_file() and path.stat().st_size <= MAX_BYTES else b""
    except OSError:
        return b""


def _parse_own(data: bytes) -> dict[str, Any] | None:
    """The kubeconfig that an embedded cluster wrote; None where it has any other cluster, user or context."""
    try:
        parsed = parse_documents(data, "kubeconfig")
    except InputError:
        return None
    config = parsed[0] if len(parsed) == 1 and isinstance(parsed[0], dict) else {}
    exclusive = all(_collect_names(config.get(part)) == [NAME] for part in ("clusters", "users", "contexts"))
    return config if exclusive and EXTENSION in _collect_names(config.get("extensions")) else None


def _collect_names(parts: Any) -> list[Any]:
    return [part.get("name") for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []


def _is_running(config: dict[str, Any]) -> bool:
    """Whether the cluster that wrote it still listens; another server on its port has another certificate."""
    try:
        cluster = config["clusters"][0]["cluster"]
        url = urlsplit(cluster["server"])
        trust = ssl.create_default_context(cadata=b64decode(cluster["certificate-authority-data"]).decode())
        with (
            socket.create_connection((url.hostname, url.port), ANSWER_SECONDS) as plain,
            trust.wrap_socket(plain, server_hostname=url.hostname),
        ):
            return True
    except TimeoutError:  # it may be busy or suspended
        return True
    except (OSError, ValueError, KeyError, TypeError):
        return False

"""Kubeconfigs as kubectl understands them, where the official loader understands them otherwise.

What is empty is not given; paths start at the file that holds them; a token file that can be read comes before a token.
Over plain HTTP nobody is shown a credential, unless he is on this machine: exec plugins are not even run.
"""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from muster.errors import InputError
from muster.kube.client.proxy import is_loopback

FILES: Final = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
TEXTS: Final = (*FILES, "tls-server-name", "proxy-url")
NO_SECRETS: Final = ("as", "as-uid", "as-groups", "as-user-extra")
SCHEMES: Final = ("https", "http")
UNVERIFIED: Final = "insecure-skip-tls-verify"

log = logging.getLogger(__name__)

Given = Mapping[str, Any]


def settle(config: Any, context: str) -> Given:
    """Put a context's cluster and user as the official loader should read them in their place; the user.

    The files' own values stay as they are: what an auth provider refreshes is written back to them.
    """
    chosen = _change(config, "context", context, lambda given, _: given)
    cluster = _change(config, "cluster", chosen.get("cluster"), _cluster)
    return _change(config, "user", chosen.get("user"), _user if _secret(cluster) else _anybody)


def server_of(given: Any) -> str:
    """The address of an API server, its scheme in small letters; InputError where it has none that we speak."""
    text = str(given).strip()
    scheme, colon, rest = text.partition("://")
    if not text:
        raise InputError("the cluster names no `server`", hint="it is an address such as https://host:6443")
    told = "server" if "@" in text else f"server: {text}"  # before an @ there may be a password
    if not colon:
        raise InputError(f"`{told}` has no scheme", hint="begin it with https://")
    if scheme.lower() not in SCHEMES:
        raise InputError(f"`{told}` has the wrong scheme", hint=f"`{scheme}` must be https, or http")
    if not urlsplit(f"//{rest}").hostname:
        raise InputError(f"`{told}` names no host", hint="it is an address such as https://host:6443")
    return f"{scheme.lower()}://{rest}".rstrip("/")


def _change(config: Any, kind: str, name: Any, change: Callable[[Given, Path], Given]) -> Given:
    entries = config.value[f"{kind}s"]
    for nth, entry in enumerate(entries):
        if entry.value.get("name") == name:
            told = f"{kind} `{name}`"
            changed = change(_mapping(entry.value.get(kind), told), Path(entry.path).absolute().parent)
            entries[nth] = type(entry)(entry.name, {**entry.value, kind: changed}, entry.path)
            return changed
    return {}  # the official loader says so where it matters


def _mapping(value: Any, told: str) -> Given:
    if value is not None and not isinstance(value, dict):
        raise InputError(f"{told} is not a mapping")
    return {key: each for key, each in (value or {}).items() if each is not None and each != ""}


def _cluster(given: Given, folder: Path) -> Given:
    if not isinstance(given.get(UNVERIFIED, False), bool):  # the official loader takes "false" for true
        raise InputError(f"`{UNVERIFIED}` is neither true nor false")
    return {**_rooted(given, folder), "server": server_of(given.get("server", ""))}


def _user(given: Given, folder: Path) -> Given:
    user = _rooted(given, folder)
    if not isinstance(user.get("exec", {}), dict):
        raise InputError("`exec` of the user is not a mapping", hint="it names a `command` and an `apiVersion`")
    before = "token" in user and _says_something(user.get("tokenFile", ""))
    return {key: each for key, each in user.items() if not (before and key == "token")}


def _anybody(given: Given, _: Path) -> Given:
    kept = {key: each for key, each in given.items() if key in NO_SECRETS}
    if kept != given:
        log.warning("credentials of the kubeconfig are not used: the server's address is plain http")
    return kept


def _secret(cluster: Given) -> bool:
    """Whether nobody but the API server reads what it is told."""
    at = urlsplit(str(cluster.get("server", "")))
    return at.scheme == "https" or (is_loopback(at.hostname or "") and "proxy-url" not in cluster)


def _rooted(given: Given, folder: Path) -> Given:
    for key in TEXTS:
        if not isinstance(given.get(key, ""), str):
            raise InputError(f"`{key}` is not a text")
    return {key: str(folder / each) if key in FILES else each for key, each in given.items()}


def _says_something(file: str) -> bool:
    try:
        return bool(file) and Path(file).read_text().strip() != ""
    except (OSError, ValueError):
        return False

"""How the client authenticates: headers and a client certificate, from a kubeconfig's user.

The first of these gives the `Authorization` header: token, exec plugin, user name and password. Auth providers, the
predecessors of exec plugins, are refused.
"""

import string
from base64 import b64encode
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from muster.errors import InputError
from muster.kube.client.credentials import Certificate, Header, Pem
from muster.kube.client.exec_plugins import describe_cluster, read_exec_config, run_plugin
from muster.kube.client.kubeconfig import Place, ResolvedContext, UserEntry, decode_base64

READABLE: Final = "the file must exist, and this process must be allowed to read it"
NAME_CHARACTERS: Final = frozenset(string.ascii_letters + string.digits + "!#$&'*+-.^_`|~")  # of headers; `%` escapes
EXEC_INSTEAD: Final = {
    "oidc": "kubelogin (`kubectl oidc-login`)",
    "gcp": "gke-gcloud-auth-plugin",
    "azure": "kubelogin (`kubelogin convert-kubeconfig`)",
}


class Identity(Struct, frozen=True):
    """Headers and certificate: secrets. `rotates`: the token is a file that another process keeps up to date."""

    headers: tuple[Header, ...]
    certificate: Certificate | None = None
    expires: datetime | None = None  # None: not known
    rotates: bool = False

    def __repr__(self) -> str:
        return "Identity()"


def authenticate(context: ResolvedContext, authority: Pem) -> Identity:
    """Reads token files, and runs the exec plugin. `authority`: the cluster's CA, for plugins that need it."""
    user, place = context.user, context.user_place
    if user.auth_provider:
        raise _refuse_auth_provider(user.auth_provider, place.at("auth-provider"))
    certificate, impersonation = _read_certificate(user, place), tuple(_impersonate(user))
    if token := _read_token(user, place):
        return Identity((_bearer(token), *impersonation), certificate, rotates=bool(user.token_file))
    if user.exec:
        return _run_exec(context, authority, certificate, impersonation)
    basic = (_basic(user.username, user.password),) if user.username else ()
    return Identity((*basic, *impersonation), certificate)


def authenticate_by_token_file(file: str, place: Place) -> Identity:
    """The token of a service account."""
    return Identity((_bearer(read_token_file(file, place)),), rotates=True)


# files --------------------------------------------------------------------------------------------------------------


def read_file(path: str, place: Place) -> bytes:
    """InputError where it cannot be read."""
    try:
        return Path(path).read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a NUL byte
        reason = getattr(error, "strerror", None) or "it is not a path"
        raise place.problem(f"`{path}` cannot be read: {reason}", READABLE) from None


def read_pem(data: str, file: str, key: str, place: Place) -> Pem:
    """Data come before a file. A file is only tried: it is read for each connection, as it may be replaced."""
    if data:
        return decode_base64(data, place.at(f"{key}-data"))
    if file:
        read_file(file, place.at(key))
    return file


def read_token_file(path: str, place: Place) -> str:
    """InputError where it holds no token."""
    try:
        token = read_file(path, place).decode().strip()
    except UnicodeDecodeError:
        raise place.problem(f"`{path}` is not a text", READABLE) from None
    if not token:
        raise place.problem(f"`{path}` is empty", READABLE)
    return token


def _read_token(user: UserEntry, place: Place) -> str:
    """A token file comes before a token; where it cannot be read, the token is used."""
    token = user.token.strip()
    if not user.token_file:
        return token
    try:
        return read_token_file(user.token_file, place.at("tokenFile"))
    except InputError:
        if not token:
            raise
        return token


def _read_certificate(user: UserEntry, place: Place) -> Certificate | None:
    certificate = read_pem(user.client_certificate_data, user.client_certificate, "client-certificate", place)
    key = read_pem(user.client_key_data, user.client_key, "client-key", place)
    return (certificate, key or None) if certificate else None


# plugins ------------------------------------------------------------------------------------------------------------


def _run_exec(
    context: ResolvedContext, authority: Pem, certificate: Certificate | None, impersonation: tuple[Header, ...]
) -> Identity:
    """What the plugin gives comes before what the user's entry holds."""
    place = context.user_place.at("exec")
    config = read_exec_config(context.user.exec, place)
    cluster = None
    if config.provide_cluster_info:
        cluster = describe_cluster(context.cluster, _read_authority(authority, context.cluster_place))
    status = run_plugin(config, cluster, place)
    token = (status.token or "").strip()
    bearer = (_bearer(token),) if token else ()
    if status.client_certificate_data and status.client_key_data:
        certificate = (status.client_certificate_data.encode(), status.client_key_data.encode())
    return Identity((*bearer, *impersonation), certificate, status.expiration_timestamp)


def _read_authority(authority: Pem, place: Place) -> bytes:
    if isinstance(authority, bytes):
        return authority
    return read_file(authority, place.at("certificate-authority")) if authority else b""


def _refuse_auth_provider(provider: Mapping[str, Any], place: Place) -> InputError:
    name = str(provider.get("name", ""))
    plugin = EXEC_INSTEAD.get(name, "the one of your identity provider")
    return place.problem(f"auth provider `{name}` is not supported", f"use an exec plugin instead: {plugin}")


# headers ------------------------------------------------------------------------------------------------------------


def _bearer(token: str) -> Header:
    return ("Authorization", f"Bearer {token}")


def _basic(username: str, password: str) -> Header:
    return ("Authorization", f"Basic {b64encode(f'{username}:{password}'.encode()).decode()}")


def _impersonate(user: UserEntry) -> Iterator[Header]:
    if user.impersonate:
        yield ("Impersonate-User", user.impersonate)
    if user.impersonate_uid:
        yield ("Impersonate-Uid", user.impersonate_uid)
    yield from (("Impersonate-Group", group) for group in user.impersonate_groups)
    for key, values in user.impersonate_extra.items():
        yield from ((f"Impersonate-Extra-{_escape(key)}", value) for value in values)


def _escape(key: str) -> str:
    """The key of an extra as part of a header's name; API servers read it in small letters."""
    return "".join(chr(byte) if chr(byte) in NAME_CHARACTERS else f"%{byte:02x}" for byte in key.encode()).lower()

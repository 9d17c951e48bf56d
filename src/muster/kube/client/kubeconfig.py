"""Kubeconfigs as kubectl reads them: parse files, merge them, resolve one context. No file is opened here.

The first file that defines a context, cluster or user wins with its whole entry, and so does the first current context.
A value that is empty counts as missing. Paths start at the folder of the file that holds them. Every error names the
file and the path in it, and quotes no value that could be a secret.
"""

import os
from base64 import b64decode
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import msgspec
import yaml
from msgspec import Struct, field

from muster.api.reader import DEEPEST, parse_documents
from muster.errors import InputError
from muster.kube.client.proxy import is_loopback

SCHEMES: Final = ("https", "http")
ADDRESS: Final = "it is an address such as https://host:6443"
SAMPLE: Final = "`kubectl config view` shows what a kubeconfig looks like"
MOST_LISTED: Final = 50  # names in a message
EXEC_EXTENSION: Final = "client.authentication.k8s.io/exec"

T = TypeVar("T", bound=Struct)


class Place(Struct, frozen=True):
    """A part of a configuration: where it comes from, and the path in there."""

    source: str  # such as: kubeconfig `/root/.kube/config`
    path: str = ""

    def at(self, key: str) -> "Place":
        """The place of a value inside this one."""
        return Place(self.source, f"{self.path}.{key}" if self.path else key)

    def problem(self, text: str, hint: str = "") -> InputError:
        """What is wrong here, and the way out."""
        return InputError(f"{self.source}: {self.path}: {text}" if self.path else f"{self.source}: {text}", hint=hint)


class Entry(Struct, frozen=True):
    """A context, cluster or user as it was written."""

    place: Place
    folder: Path  # where its relative paths start
    value: Any  # of a user: a secret

    def __repr__(self) -> str:
        return f"Entry({self.place})"


class KubeConfig(Struct, frozen=True):
    """The entries of one file, or of several that were merged, by their names."""

    source: str
    current_context: str
    contexts: Mapping[str, Entry]
    clusters: Mapping[str, Entry]
    users: Mapping[str, Entry]


class ContextEntry(Struct, frozen=True):
    """Which user talks to which cluster."""

    cluster: str = ""
    user: str = ""  # empty: anonymous


class ClusterEntry(Struct, frozen=True, rename="kebab"):
    """How an API server is reached."""

    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""  # base64; comes before the file
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""  # empty: the host of `server`
    proxy_url: str = ""  # empty: what the environment says
    extensions: tuple[dict[str, Any], ...] = ()

    @property
    def is_confidential(self) -> bool:
        """Whether only the API server can read a request: over TLS, or on this machine without a proxy."""
        url = urlsplit(self.server)
        return url.scheme == "https" or (is_loopback(url.hostname or "") and not self.proxy_url)

    @property
    def exec_config(self) -> Any:
        """What the cluster's entry holds for exec plugins."""
        return next((item.get("extension") for item in self.extensions if item.get("name") == EXEC_EXTENSION), None)


class UserEntry(Struct, frozen=True, rename="kebab"):
    """Credentials, and the user to impersonate."""

    client_certificate: str = ""
    client_certificate_data: str = ""  # base64; comes before the file
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = field(name="tokenFile", default="")  # comes before the token
    username: str = ""
    password: str = ""
    exec: dict[str, Any] = {}
    auth_provider: dict[str, Any] = {}
    impersonate: str = field(name="as", default="")
    impersonate_uid: str = field(name="as-uid", default="")
    impersonate_groups: tuple[str, ...] = field(name="as-groups", default=())
    impersonate_extra: dict[str, tuple[str, ...]] = field(name="as-user-extra", default={})

    def __repr__(self) -> str:
        return "UserEntry()"

    def without_credentials(self) -> "UserEntry":
        """What may be shown to anyone."""
        return UserEntry(
            impersonate=self.impersonate,
            impersonate_uid=self.impersonate_uid,
            impersonate_groups=self.impersonate_groups,
            impersonate_extra=self.impersonate_extra,
        )


class ResolvedContext(Struct, frozen=True):
    """A context with its cluster and user, paths absolute. An anonymous user has the place of the context."""

    cluster: ClusterEntry
    cluster_place: Place
    user: UserEntry
    user_place: Place


# parse --------------------------------------------------------------------------------------------------------------


def parse_kubeconfig(data: bytes, file: Path) -> KubeConfig | None:
    """The entries of one file; None where it is empty."""
    place = Place(f"kubeconfig `{file}`")
    raw = _read_document(data, place)
    if not raw:
        return None
    if not isinstance(raw, dict):
        raise place.problem("is not a mapping", SAMPLE)
    if (raw.get("kind") or "Config") != "Config":
        raise place.at("kind").problem("is not `Config`", SAMPLE)
    current = raw.get("current-context") or ""
    if not isinstance(current, str):
        raise place.at("current-context").problem("is not a text", "quote it")
    folder = file.absolute().parent
    entries = [_collect_entries(raw, kind, place, folder) for kind in ("context", "cluster", "user")]
    return KubeConfig(str(file), current, *entries)


def _read_document(data: bytes, place: Place) -> Any:
    """The only document of a file; None where there is none. The reader's messages quote values: they are dropped."""
    try:
        parsed = parse_documents(data, "")
    except InputError:
        raise _explain_syntax(data, place) from None
    if len(parsed) > 1:
        raise place.problem(f"holds {len(parsed)} YAML documents", "give each a file, and list them in KUBECONFIG")
    return parsed[0] if parsed else None


def _explain_syntax(data: bytes, place: Place) -> InputError:
    depth = 0
    try:
        for event in yaml.parse(data.decode("utf-8-sig"), Loader=yaml.CSafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > DEEPEST:
                break  # the time to parse it grows with the square of its depth
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        return place.problem(f"is not YAML{line}: {error.problem}", "close every quote and bracket, indent with spaces")
    except (yaml.YAMLError, UnicodeDecodeError):
        return place.problem("is not YAML: it is not a text in UTF-8", SAMPLE)
    return place.problem(
        "cannot be read: a key stands twice, a tag or an alias has no meaning, or it is nested too deep",
        "quote values that begin with `!`, `*` or `&`",
    )


def _collect_entries(raw: dict[str, Any], kind: str, place: Place, folder: Path) -> dict[str, Entry]:
    items = raw.get(f"{kind}s") or []
    if not isinstance(items, list):
        raise place.at(f"{kind}s").problem("is not a list", SAMPLE)
    entries: dict[str, Entry] = {}
    for i, item in enumerate(items):
        if not isinstance(item, dict):
            raise place.at(f"{kind}s[{i}]").problem("is not a mapping", f"it has a `name` and a `{kind}`")
        name = item.get("name") or ""
        if not isinstance(name, str):
            raise place.at(f"{kind}s[{i}].name").problem("is not a text", "quote it")
        if name in entries:
            raise place.at(f"{kind}s[{i}].name").problem(f"`{name}` is there already", "rename or remove one of them")
        entries[name] = Entry(place.at(f"{kind}s[name={name}].{kind}"), folder, item.get(kind))
    return entries


# merge --------------------------------------------------------------------------------------------------------------


def merge_kubeconfigs(configs: Sequence[KubeConfig]) -> KubeConfig:
    """One of several: for each name the entry of the first file that has it."""
    return KubeConfig(
        os.pathsep.join(config.source for config in configs),
        next((config.current_context for config in configs if config.current_context), ""),
        _merge_entries([config.contexts for config in configs]),
        _merge_entries([config.clusters for config in configs]),
        _merge_entries([config.users for config in configs]),
    )


def _merge_entries(parts: Sequence[Mapping[str, Entry]]) -> dict[str, Entry]:
    merged: dict[str, Entry] = {}
    for entries in parts:
        merged |= {name: entry for name, entry in entries.items() if name not in merged}
    return merged


# resolve ------------------------------------------------------------------------------------------------------------


def resolve_context(config: KubeConfig, name: str | None = None) -> ResolvedContext:
    """The cluster and the user of a context; without a name, of the current one."""
    place = Place(f"kubeconfig `{config.source}`")
    name = config.current_context if name is None else name
    if not name:
        raise place.problem("names no current context", _list_known(config.contexts))
    if name not in config.contexts:
        raise place.problem(f"has no context `{name}`", _list_known(config.contexts))
    entry = config.contexts[name]
    context = read_fields(entry.value, ContextEntry, entry.place)
    cluster = _find_entry(config.clusters, context.cluster, entry.place.at("cluster"))
    user = _find_entry(config.users, context.user, entry.place.at("user")) if context.user else None
    return ResolvedContext(
        _read_cluster(cluster),
        cluster.place,
        _read_user(user) if user else UserEntry(),
        user.place if user else entry.place,
    )


def _find_entry(entries: Mapping[str, Entry], name: str, place: Place) -> Entry:
    if name not in entries:
        raise place.problem(f"there is no `{name}`" if name else "is missing", _list_known(entries))
    return entries[name]


def _list_known(entries: Mapping[str, Entry]) -> str:
    more = f", and {len(entries) - MOST_LISTED} more" if len(entries) > MOST_LISTED else ""
    return f"known: {', '.join(islice(entries, MOST_LISTED)) or 'none'}{more}"


def _read_cluster(entry: Entry) -> ClusterEntry:
    cluster = read_fields(entry.value, ClusterEntry, entry.place)
    return msgspec.structs.replace(
        cluster,
        server=_check_server(cluster.server, entry.place.at("server")),
        certificate_authority=_make_absolute(cluster.certificate_authority, entry.folder),
    )


def _read_user(entry: Entry) -> UserEntry:
    user = read_fields(entry.value, UserEntry, entry.place)
    return msgspec.structs.replace(
        user,
        client_certificate=_make_absolute(user.client_certificate, entry.folder),
        client_key=_make_absolute(user.client_key, entry.folder),
        token_file=_make_absolute(user.token_file, entry.folder),
        exec=_locate_command(user.exec, entry.folder),
    )


def _make_absolute(path: str, folder: Path) -> str:
    return str(folder / path) if path else ""


def _locate_command(plugin: dict[str, Any], folder: Path) -> dict[str, Any]:
    """A command without a separator is looked up in PATH; any other is a path like the rest."""
    command = plugin.get("command")
    return {**plugin, "command": str(folder / command)} if isinstance(command, str) and os.sep in command else plugin


def _check_server(server: str, place: Place) -> str:
    """The address of an API server, its scheme in small letters."""
    text = server.strip()
    shown = "it" if "@" in text else f"`{text}`"  # before an @ there may be a password
    scheme, separator, rest = text.partition("://")
    if not text:
        raise place.problem("is missing", ADDRESS)
    if not separator:
        raise place.problem(f"{shown} has no scheme", "begin it with https://")
    if scheme.lower() not in SCHEMES:
        raise place.problem(f"{shown} has the wrong scheme", "it must be https, or http")
    try:
        url = urlsplit(f"//{rest}")
        host, user, _ = url.hostname, url.username, url.port
    except ValueError:
        raise place.problem(f"{shown} is not an address", ADDRESS) from None
    if not host:
        raise place.problem(f"{shown} names no host", ADDRESS)
    if user is not None:
        raise place.problem("holds a user name", "put credentials into the kubeconfig's user")
    return f"{scheme.lower()}://{rest}".rstrip("/")


# fields -------------------------------------------------------------------------------------------------------------

_EXPECTED: Final[dict[Any, str]] = {
    str: "a text",
    bool: "true or false",
    tuple[str, ...]: "a list of texts",
    dict[str, Any]: "a mapping",
    dict[str, tuple[str, ...]]: "a mapping to lists of texts",
}


def read_fields(raw: Any, kind: type[T], place: Place) -> T:
    """A mapping as a struct. A value that is null or an empty text counts as missing; unknown keys are ignored."""
    if raw is not None and not isinstance(raw, dict):
        raise place.problem("is not a mapping", SAMPLE)
    present = {key: value for key, value in (raw or {}).items() if value is not None and value != ""}
    for item in msgspec.structs.fields(kind):
        if item.encode_name in present and not _fits(present[item.encode_name], item.type):
            expected = _EXPECTED.get(item.type, "a list of mappings")
            hint = "quote it" if item.type is str else SAMPLE
            raise place.at(item.encode_name).problem(f"is not {expected}", hint)
    return msgspec.convert(present, kind)


def _fits(value: Any, kind: Any) -> bool:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True


def decode_base64(text: str, place: Place) -> bytes:
    """Line breaks in it are ignored."""
    try:
        return b64decode("".join(text.splitlines()), validate=True)
    except ValueError:
        raise place.problem("is not base64", "`base64 -w0 FILE` writes it") from None

"""The address of the API server and the credentials for it: from kubeconfig files, or from the pod we run in."""

import logging
import os
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from muster.errors import InputError
from muster.kube.client.authentication import Identity, authenticate, authenticate_by_token_file, read_file, read_pem
from muster.kube.client.credentials import Access, Load, Pem
from muster.kube.client.kubeconfig import (
    ClusterEntry,
    KubeConfig,
    Place,
    ResolvedContext,
    merge_kubeconfigs,
    parse_kubeconfig,
    resolve_context,
)
from muster.kube.client.proxy import find_proxy

DEFAULT_KUBECONFIG: Final = "~/.kube/config"
HINT: Final = "give a kubeconfig file, set KUBECONFIG, or run inside a cluster with a service account"
TOKEN_FILE: Final = "/var/run/secrets/kubernetes.io/serviceaccount/token"
CA_FILE: Final = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"
IN_CLUSTER: Final = Place("in-cluster configuration")

log = logging.getLogger(__name__)


def find_loader(kubeconfig: str | os.PathLike[str] | None = None, context: str | None = None) -> Load:
    """The first of: the file given, KUBECONFIG, ~/.kube/config, in-cluster. The loader reads it at every call."""
    paths = os.fspath(kubeconfig) if kubeconfig else os.environ.get("KUBECONFIG", "")
    if not paths and _is_file(_expand_home(DEFAULT_KUBECONFIG)):
        paths = DEFAULT_KUBECONFIG
    if paths:
        return lambda: load_kubeconfig(paths, context)
    if os.environ.get("KUBERNETES_SERVICE_HOST"):
        return load_in_cluster
    raise InputError("no Kubernetes cluster is configured", hint=HINT)


def load_kubeconfig(paths: str, context: str | None = None) -> Access:
    """One context of the kubeconfig files; `paths` may name several, as KUBECONFIG does."""
    resolved = _hide_credentials(resolve_context(_read_kubeconfigs(paths), context))
    cluster, place = resolved.cluster, resolved.cluster_place
    file, data = cluster.certificate_authority, cluster.certificate_authority_data
    authority = read_pem(data, file, "certificate-authority", place)
    return _assemble(cluster, place, authority, authenticate(resolved, authority))


def load_in_cluster() -> Access:
    """The service account of the pod we run in; its token is a file that rotates."""
    host, port = (os.environ.get(f"KUBERNETES_SERVICE_{part}", "") for part in ("HOST", "PORT"))
    if not host or not port:
        raise IN_CLUSTER.problem("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must both be set", HINT)
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    identity = authenticate_by_token_file(TOKEN_FILE, IN_CLUSTER)
    read_file(CA_FILE, IN_CLUSTER)
    return _assemble(ClusterEntry(server), IN_CLUSTER, CA_FILE, identity)


def _read_kubeconfigs(paths: str) -> KubeConfig:
    """As kubectl does, files that are missing or empty are left out."""
    files = [_expand_home(path) for path in paths.split(os.pathsep) if path]
    data = [(file, content) for file in files if (content := _read_if_exists(file)) is not None]
    configs = [config for file, content in data if (config := parse_kubeconfig(content, file))]
    if not configs:
        raise Place(f"kubeconfig `{paths}`").problem("is empty" if data else "no such file", HINT)
    return merge_kubeconfigs(configs)


def _read_if_exists(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:  # ValueError: a NUL byte
        reason = getattr(error, "strerror", None) or "it is not a path"
        raise Place(f"kubeconfig `{file}`").problem(f"cannot be read: {reason}", HINT) from None


def _expand_home(path: str) -> Path:
    try:
        return Path(path).expanduser()
    except RuntimeError:  # containers may run as a user without a home
        return Path(path)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # in a folder that this user may not enter
        return False


def _hide_credentials(resolved: ResolvedContext) -> ResolvedContext:
    """Over plain HTTP only a server on this machine gets credentials: for others, exec plugins are not even run."""
    user = resolved.user.without_credentials()
    if resolved.cluster.is_confidential or user == resolved.user:
        return resolved
    log.warning("credentials of the kubeconfig are not used: the server's address is plain http")
    return msgspec.structs.replace(resolved, user=user)


def _assemble(cluster: ClusterEntry, place: Place, authority: Pem, identity: Identity) -> Access:
    return Access(
        cluster.server,
        identity.headers,
        authority,
        identity.certificate,
        not cluster.insecure_skip_tls_verify,
        cluster.tls_server_name,
        _choose_proxy(cluster, place),
        expires=identity.expires,
        rotates=identity.rotates,
    )


def _choose_proxy(cluster: ClusterEntry, place: Place) -> str:
    """The cluster's own comes before that of the environment. Messages do not quote it: it can hold a password."""
    proxy = cluster.proxy_url or find_proxy(cluster.server, os.environ)
    if proxy and not _is_http(proxy):
        name = "`proxy-url`" if cluster.proxy_url else "the proxy of the environment"
        raise place.problem("only HTTP proxies are supported", f"{name} must begin with http")
    return proxy


def _is_http(proxy: str) -> bool:
    try:
        return urlsplit(proxy).scheme in ("http", "https")
    except ValueError:
        return False

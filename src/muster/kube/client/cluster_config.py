"""Where an API server is and who we are to it: kubeconfig or in-cluster, read by the official client's loaders.

Nothing here puts a token, a key or a password into a text: errors and logs of the loaders that could are not quoted.
"""

import copy
import logging
import os
import string
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from muster.errors import InputError
from muster.kube.client.credentials import Access, Load
from muster.kube.client.exec_plugins import ALONE_SECONDS, limit_plugins
from muster.kube.client.kubeconfig import settle
from muster.kube.client.proxy import proxy_of

DEFAULT_KUBECONFIG = "~/.kube/config"
HINT = "give a kubeconfig file, set KUBECONFIG, or run inside a cluster with a service account"
IMPERSONATION = {"as": "Impersonate-User", "as-uid": "Impersonate-Uid", "as-groups": "Impersonate-Group"}
EXTRA: Final = "as-user-extra"
HEADER_LETTERS: Final = frozenset(string.ascii_letters + string.digits + "!#$&'*+-.^_`|~")  # of its name; `%` escapes


def loader(kubeconfig: str | os.PathLike[str] | None = None, context: str | None = None) -> Load:
    """What reads the configuration, each time anew: the file given, KUBECONFIG, ~/.kube/config, or in-cluster."""
    paths = os.fspath(kubeconfig) if kubeconfig else os.environ.get("KUBECONFIG", "")
    if not paths and Path(DEFAULT_KUBECONFIG).expanduser().is_file():
        paths = DEFAULT_KUBECONFIG
    if paths:
        return lambda: from_kubeconfig(paths, context)
    if os.environ.get("KUBERNETES_SERVICE_HOST"):
        return in_cluster
    raise InputError("no Kubernetes cluster is configured", hint=HINT)


def from_kubeconfig(paths: str, context: str | None = None) -> Access:
    """One context of the kubeconfig files, several of them as in KUBECONFIG."""
    # the official client takes more than a second to import
    from kubernetes.client import Configuration
    from kubernetes.config import kube_config

    official: Any = kube_config  # it has no types
    limit_plugins()
    merger = _merged(official, paths)
    with _told_plainly(f"kubeconfig `{paths}`"):
        user = settle(merger.config, _known_context(merger.config, context))
        # as kubectl does, tokens that an auth provider refreshed are written back
        one = official.KubeConfigLoader(
            merger.config, context, config_base_path=None, config_persister=merger.save_changes
        )
        configuration = Configuration()
        one.load_and_set(configuration)
        found = _access(configuration, user, getattr(one, "proxy", ""), getattr(one, "expiry", None))
        if "exec" in user and not configuration.api_key and not found.certificate:
            raise InputError(
                f"the exec plugin `{user['exec'].get('command', '')}` gave no credential",
                hint=f"run it by hand to see why; it has {ALONE_SECONDS:g} seconds",
            )
    return found


def _merged(official: Any, paths: str) -> Any:
    """As kubectl does it: files that are missing or empty count for nothing, and the first current context wins."""
    merger = official.KubeConfigMerger("")
    files = [Path(path).expanduser() for path in paths.split(os.pathsep) if path]
    there = [str(file) for file in files if file.exists()]
    for file in there:
        with _told_plainly(f"kubeconfig `{file}`"), suppress(official.ConfigException):  # it says: the file is empty
            merger.load_config(file)
            merger.paths.append(file)
    if merger.config is None:
        raise InputError(f"kubeconfig `{paths}`: {'is empty' if there else 'no such file'}", hint=HINT)
    merger.config_saved = copy.deepcopy(merger.config_files)
    current = (config.get("current-context") for config in merger.config_files.values())
    merger.config.value["current-context"] = next(filter(None, current), None)
    return merger


def in_cluster() -> Access:
    """The service account of the pod we run in; its token is a file that changes."""
    from kubernetes.client import Configuration
    from kubernetes.config import incluster_config

    official: Any = incluster_config  # it has no types
    with _told_plainly("in-cluster configuration"):
        configuration = Configuration()
        official.InClusterConfigLoader(
            official.SERVICE_TOKEN_FILENAME, official.SERVICE_CERT_FILENAME, environ=os.environ
        ).load_and_set(configuration)
        return _access(configuration, {"tokenFile": official.SERVICE_TOKEN_FILENAME})


def _access(configuration: Any, user: Mapping[str, Any], proxy: str = "", expiry: Any = None) -> Access:
    authorization = next(iter(configuration.api_key.values()), "").strip()
    if urlsplit(configuration.host).username is not None:
        raise InputError("the server's address holds a user name", hint="put credentials into the kubeconfig's user")
    return Access(
        configuration.host,
        (*((("Authorization", authorization),) if authorization else ()), *_impersonated(user)),
        configuration.ssl_ca_cert or "",
        (configuration.cert_file, configuration.key_file) if configuration.cert_file else None,
        configuration.verify_ssl,
        configuration.tls_server_name or "",
        _proxy(configuration.host, proxy),
        expires=expiry.astimezone(UTC) if expiry is not None else None,
        changes="tokenFile" in user,
    )


def _impersonated(user: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    headers = {header: user.get(key) for key, header in IMPERSONATION.items()}
    headers |= {f"Impersonate-Extra-{_escaped(key)}": given for key, given in user.get(EXTRA, {}).items()}
    for header, given in headers.items():
        values = given if isinstance(given, list) else [given]
        yield from ((header, str(value)) for value in values if value is not None)


def _escaped(key: Any) -> str:
    """The name of an extra as part of a header's name; API servers read it in small letters."""
    letters = str(key).encode()
    return "".join(chr(each) if chr(each) in HEADER_LETTERS else f"%{each:02x}" for each in letters).lower()


def _proxy(server: str, given: str) -> str:
    proxy = given or proxy_of(server, os.environ)
    if proxy and urlsplit(proxy).scheme not in ("http", "https"):
        told = "`proxy-url`" if given else "the proxy of the environment"
        raise InputError(f"{server}: only HTTP proxies are supported", hint=f"{told} must begin with http")
    return proxy


def _known_context(config: Any, context: str | None) -> str:
    names = [str(each.value.get("name")) for each in config.value.get("contexts", ())]
    wanted = context if context is not None else config.value.get("current-context")
    if wanted not in names:
        problem = f"has no context `{wanted}`" if wanted else "names no current context"
        raise InputError(problem, hint=f"known: {', '.join(names) or 'none'}")
    return str(wanted)


@contextmanager
def _told_plainly(what: str) -> Iterator[None]:
    """Errors of the official loaders without what they quote after ` in `: that can be the user with the token."""
    from kubernetes.config import ConfigException
    from yaml import YAMLError

    try:
        with _silent():
            yield
    except InputError as error:
        raise InputError(f"{what}: {error.message}", hint=error.hint) from None
    except ConfigException as error:
        told = str(error).removeprefix("Invalid kube-config file. ").partition(" in ")[0].partition("\n")[0]
        raise InputError(f"{what}: {told}", hint=HINT) from None
    except OSError as error:
        raise InputError(f"{what}: cannot be read: {error.strerror or 'it fails'}", hint=HINT) from None
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise InputError(f"{what}: is not YAML{f', line {mark.line + 1}' if mark else ''}") from None
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise InputError(f"{what}: cannot be understood ({type(error).__name__})", hint=HINT) from None


@contextmanager
def _silent() -> Iterator[None]:
    """The official loader logs what an exec plugin says, on the root logger; that can be a secret."""
    root, handler = logging.getLogger(), logging.NullHandler()

    def keep(record: logging.LogRecord) -> bool:
        return not record.pathname.endswith("kube_config.py")

    root.addHandler(handler)  # with none, `logging.error` would configure the root logger
    root.addFilter(keep)
    try:
        yield
    finally:
        root.removeFilter(keep)
        root.removeHandler(handler)

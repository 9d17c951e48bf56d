"""Exec plugins of a kubeconfig (`client.authentication.k8s.io`): a command that prints a credential.

A plugin without a terminal has a minute, and is then killed with every process that it started. One that may prompt at
the terminal has ten. One that prints more than a MiB is killed, too. Messages never quote its output: it can be a
secret.
"""

import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

import msgspec
from msgspec import Struct

from muster.api.meta import Time
from muster.errors import InputError
from muster.kube.client.kubeconfig import ClusterEntry, Place, read_fields
from muster.kube.client.responses import NOT_JSON

RUN_SECONDS: Final = 60.0
INTERACTIVE_SECONDS: Final = 600.0
MOST_BYTES: Final = 1 << 20  # of output; a credential has some thousand
GROUP: Final = "client.authentication.k8s.io"
API_VERSIONS: Final = (f"{GROUP}/v1", f"{GROUP}/v1beta1")
INTERACTIVE_MODES: Final = ("Never", "IfAvailable", "Always")
EXEC_INFO: Final = "KUBERNETES_EXEC_INFO"


class ExecVariable(Struct, frozen=True):
    """A variable that is added to the plugin's environment."""

    name: str
    value: str | None = None


class ExecConfig(Struct, frozen=True, rename="camel"):
    """`exec` of a user."""

    api_version: str = ""
    command: str = ""
    args: tuple[str, ...] = ()
    env: tuple[ExecVariable, ...] = ()
    install_hint: str = ""  # how to install the command
    provide_cluster_info: bool = False
    interactive_mode: str = "IfAvailable"


class ExecStatus(Struct, frozen=True, rename="camel"):
    """A credential: a token, a certificate with its key, or both."""

    token: str | None = None
    client_certificate_data: str | None = None  # PEM
    client_key_data: str | None = None
    expiration_timestamp: Time | None = None  # None: not before the API server refuses it

    def __repr__(self) -> str:
        return "ExecStatus()"


class ExecCredential(Struct, frozen=True, rename="camel"):
    """What a plugin prints."""

    api_version: str = ""
    kind: str = ""
    status: ExecStatus | None = None


def read_exec_config(raw: Mapping[str, Any], place: Place) -> ExecConfig:
    """InputError where a field is missing or has a value that has no meaning."""
    config = read_fields(dict(raw), ExecConfig, place)
    if not config.command:
        raise place.at("command").problem("is missing", "it names the program that prints the credential")
    if config.api_version not in API_VERSIONS:
        raise place.at("apiVersion").problem("is not supported", f"it must be {' or '.join(API_VERSIONS)}")
    if config.interactive_mode not in INTERACTIVE_MODES:
        raise place.at("interactiveMode").problem("is not a mode", f"it must be {', '.join(INTERACTIVE_MODES)}")
    if not all(variable.name for variable in config.env):
        raise place.at("env").problem("holds a variable without a name", "give each a `name` and a `value`")
    return config


def describe_cluster(cluster: ClusterEntry, authority: bytes) -> dict[str, Any]:
    """`spec.cluster` of what a plugin reads; `authority`: the CA as PEM, empty where the system's are trusted."""
    described = {
        "server": cluster.server,
        "tls-server-name": cluster.tls_server_name,
        "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
        "certificate-authority-data": authority,  # bytes travel as base64
        "proxy-url": cluster.proxy_url,
        "config": cluster.exec_config,
    }
    return {key: value for key, value in described.items() if value}


def run_plugin(config: ExecConfig, cluster: Mapping[str, Any] | None, place: Place) -> ExecStatus:
    """The credential that the plugin prints; InputError where it prints none. `cluster`: passed to it unless None."""
    interactive = config.interactive_mode != "Never" and _has_terminal()
    if config.interactive_mode == "Always" and not interactive:
        raise _no_credential(config, "it must run at a terminal", place)
    info = {"apiVersion": config.api_version, "kind": "ExecCredential", "spec": {"interactive": interactive}}
    if cluster is not None:
        info["spec"] = {"interactive": interactive, "cluster": cluster}
    added = {variable.name: variable.value or "" for variable in config.env}
    environment = {**os.environ, **added, EXEC_INFO: msgspec.json.encode(info).decode()}
    return _check_credential(_run(config, environment, interactive, place), config, place)


def _has_terminal() -> bool:
    return sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()


def _run(config: ExecConfig, environment: Mapping[str, str], interactive: bool, place: Place) -> bytes:
    """What the plugin prints. It gets the terminal, or a session of its own that is killed as a whole."""
    seconds = INTERACTIVE_SECONDS if interactive else RUN_SECONDS
    try:
        process = subprocess.Popen(
            [config.command, *config.args],
            stdin=None if interactive else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=None if interactive else subprocess.DEVNULL,
            env=environment,
            start_new_session=not interactive,
        )
    except (OSError, ValueError) as error:  # ValueError: a NUL byte
        reason = getattr(error, "strerror", None) or "it cannot be started"
        raise _no_credential(config, reason, place, config.install_hint) from None
    with process:
        try:
            output = _read_output(process, seconds)
        except subprocess.TimeoutExpired:
            raise _no_credential(config, f"it did not end within {seconds:g} seconds", place) from None
        finally:
            _kill(process, interactive)
    if len(output) > MOST_BYTES:
        raise _no_credential(config, f"it printed more than {MOST_BYTES} bytes", place)
    if process.returncode != 0:
        raise _no_credential(config, f"it failed with exit code {process.returncode}", place)
    return output


def _read_output(process: "subprocess.Popen[bytes]", seconds: float) -> bytes:
    """All that it prints until it ends, or the beginning where that is too much; TimeoutExpired."""
    assert process.stdout is not None
    end, output = time.monotonic() + seconds, bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while len(output) <= MOST_BYTES:
            if not selector.select(max(end - time.monotonic(), 0.0)):
                raise subprocess.TimeoutExpired(process.args, seconds)
            if not (chunk := os.read(process.stdout.fileno(), 1 << 16)):
                process.wait(max(end - time.monotonic(), 0.0))
                break
            output += chunk
    return bytes(output)


def _kill(process: "subprocess.Popen[bytes]", interactive: bool) -> None:
    """Only where it was not reaped: until then its pid is that of its session."""
    if process.returncode is not None:
        return
    if interactive:
        process.kill()
    else:
        with suppress(ProcessLookupError, PermissionError):  # it has just ended
            os.killpg(process.pid, signal.SIGKILL)


def _check_credential(output: bytes, config: ExecConfig, place: Place) -> ExecStatus:
    try:
        credential = msgspec.json.decode(output, type=ExecCredential)
    except NOT_JSON:
        raise _no_credential(config, "its output is not an ExecCredential in JSON", place) from None
    if credential.kind != "ExecCredential" or credential.api_version != config.api_version:
        raise _no_credential(config, f"its output is not an ExecCredential of {config.api_version}", place)
    status = credential.status or ExecStatus()
    if bool(status.client_certificate_data) != bool(status.client_key_data):
        raise _no_credential(config, "its output has only one of certificate and key", place)
    if not (status.token or "").strip() and not status.client_certificate_data:
        raise _no_credential(config, "its output has neither a token nor a certificate", place)
    return status


def _no_credential(config: ExecConfig, reason: str, place: Place, hint: str = "") -> InputError:
    by_hand = f"run it by hand to see why; it has {RUN_SECONDS:g} seconds"
    return place.problem(f"the exec plugin `{config.command}` gave no credential: {reason}", hint or by_hand)

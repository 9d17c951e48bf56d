"""Exec plugins: what they are given, what they may print, and that none of it shows up in a message."""

import base64
import json
import logging
import os
import pty
import re
import ssl
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from muster.errors import InputError
from muster.kube.client.cluster_config import load_kubeconfig
from muster.kube.client.credentials import Access
from tests.support.kubeconfigs import V1, credential, read_run, write_kubeconfig, write_plugin, write_script

SECRET = "s3cr3t"
V1BETA1 = "client.authentication.k8s.io/v1beta1"

pytestmark = pytest.mark.usefixtures("_isolated")


def load(tmp_path: Path, user: dict[str, Any], **cluster: Any) -> Access:
    return load_kubeconfig(write_kubeconfig(tmp_path / "c", user, **cluster))


def authorization(access: Access) -> str:
    return dict(access.headers).get("Authorization", "")


# what they print ----------------------------------------------------------------------------------------------------


def test_an_exec_plugin_that_gives_a_token(tmp_path: Path) -> None:
    status = {"token": SECRET, "expirationTimestamp": "2030-01-01T00:00:00Z"}
    access = load(tmp_path, write_plugin(tmp_path / "plugin", status))
    assert authorization(access) == f"Bearer {SECRET}"
    assert access.expires == datetime(2030, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("expiration", ["2030-01-01T02:00:00+02:00", "2030-01-01T00:00:00.000000000Z"])
def test_expiration_is_read_in_any_zone(tmp_path: Path, expiration: str) -> None:
    status = {"token": SECRET, "expirationTimestamp": expiration}
    access = load(tmp_path, write_plugin(tmp_path / "plugin", status))
    assert access.expires == datetime(2030, 1, 1, tzinfo=UTC)
    assert not access.is_expired


def test_a_credential_without_expiration_does_not_expire(tmp_path: Path) -> None:
    access = load(tmp_path, write_plugin(tmp_path / "plugin", {"token": SECRET, "expirationTimestamp": None}))
    assert (access.expires, access.is_expired) == (None, False)


def test_an_exec_plugin_that_gives_a_certificate(tmp_path: Path, tls: Path) -> None:
    status = {
        "clientCertificateData": (tls / "admin.crt").read_text(),
        "clientKeyData": (tls / "admin.key").read_text(),
    }
    access = load(tmp_path, write_plugin(tmp_path / "plugin", status), **{"certificate-authority": str(tls / "ca.crt")})
    assert access.certificate is not None
    assert isinstance(access.build_tls_context(), ssl.SSLContext)


def test_a_plugin_may_give_a_token_and_a_certificate(tmp_path: Path, tls: Path) -> None:
    """As in client-go: both are used, and its certificate comes before that of the user's entry."""
    status = {
        "token": SECRET,
        "clientCertificateData": (tls / "admin.crt").read_text(),
        "clientKeyData": (tls / "admin.key").read_text(),
    }
    own = {"client-certificate": "tls/server.crt", "client-key": "tls/server.key"}
    access = load(tmp_path, {**write_plugin(tmp_path / "plugin", status), **own})
    assert authorization(access) == f"Bearer {SECRET}"
    assert access.certificate == ((tls / "admin.crt").read_bytes(), (tls / "admin.key").read_bytes())


def test_blanks_around_a_token_are_not_sent(tmp_path: Path) -> None:
    access = load(tmp_path, write_plugin(tmp_path / "plugin", {"token": f" {SECRET}\n"}))
    assert authorization(access) == f"Bearer {SECRET}"


def test_the_beta_version_is_supported(tmp_path: Path) -> None:
    user = write_script(tmp_path / "plugin", credential({"token": SECRET}, V1BETA1), apiVersion=V1BETA1)
    assert authorization(load(tmp_path, user)) == f"Bearer {SECRET}"


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (SECRET, "its output is not an ExecCredential in JSON"),
        ("[" * 100_000, "its output is not an ExecCredential in JSON"),
        (credential({"token": {"x": SECRET}}), "its output is not an ExecCredential in JSON"),
        (credential({"token": "t", "expirationTimestamp": SECRET}), "its output is not an ExecCredential in JSON"),
        (credential({"token": SECRET}, V1BETA1), f"its output is not an ExecCredential of {V1}"),
        ({**credential({"token": SECRET}), "kind": SECRET}, f"its output is not an ExecCredential of {V1}"),
        (credential(None), "its output has neither a token nor a certificate"),
        (credential({"token": " \n"}), "its output has neither a token nor a certificate"),
        (credential({"token": ""}), "its output has neither a token nor a certificate"),
        (credential({"clientKeyData": SECRET}), "its output has only one of certificate and key"),
        (credential({"token": "t", "clientCertificateData": SECRET}), "its output has only one of certificate and key"),
    ],
)
def test_output_that_is_no_credential_is_named_and_not_quoted(tmp_path: Path, output: Any, reason: str) -> None:
    with pytest.raises(InputError) as caught:
        load(tmp_path, write_script(tmp_path / "plugin", output))
    assert caught.value.message == (
        f"kubeconfig `{tmp_path}/c`: users[name=main].user.exec: "
        f"the exec plugin `{tmp_path}/plugin` gave no credential: {reason}"
    )
    assert "by hand" in caught.value.hint
    assert SECRET not in str(caught.value)


def test_an_exec_plugin_that_fails_is_named_and_not_quoted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    user = write_plugin(tmp_path / "plugin", None, f"denied for {SECRET}")
    with caplog.at_level(logging.DEBUG), pytest.raises(InputError, match="it failed with exit code 3") as caught:
        load(tmp_path, user)
    assert str(tmp_path / "plugin") in str(caught.value)
    assert SECRET not in str(caught.value) + caplog.text + "".join(capfd.readouterr())


def test_an_exec_plugin_that_fails_is_an_error_also_with_impersonation(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="gave no credential"):
        load(tmp_path, {**write_plugin(tmp_path / "plugin", None), "as": "ann"})


# how they run -------------------------------------------------------------------------------------------------------


def test_a_plugin_gets_its_arguments_and_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INHERITED", "yes")
    monkeypatch.setenv("REPLACED", "old")
    env = [{"name": "REPLACED", "value": "new"}, {"name": "EMPTY", "value": None}]
    load(tmp_path, write_script(tmp_path / "plugin", credential({"token": "t"}), args=["get", "-v"], env=env))
    environment, arguments = read_run(tmp_path / "plugin")
    assert arguments == ["get", "-v"]
    assert [environment[name] for name in ("INHERITED", "REPLACED", "EMPTY")] == ["yes", "new", ""]
    info = {"apiVersion": V1, "kind": "ExecCredential", "spec": {"interactive": False}}
    assert json.loads(environment["KUBERNETES_EXEC_INFO"]) == info


@pytest.mark.parametrize("inline", [False, True])
def test_a_plugin_learns_of_the_cluster_where_the_user_asks_for_it(tmp_path: Path, tls: Path, inline: bool) -> None:
    authority = base64.b64encode((tls / "ca.crt").read_bytes()).decode()
    special: dict[str, Any] = {
        "certificate-authority-data" if inline else "certificate-authority": authority if inline else "tls/ca.crt",
        "tls-server-name": "inside",
        "proxy-url": "http://proxy.test",
        "extensions": [{"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}}, {"name": "x"}],
    }
    user = write_script(tmp_path / "plugin", credential({"token": "t"}), provideClusterInfo=True)
    load(tmp_path, user, **special)
    assert json.loads(read_run(tmp_path / "plugin")[0]["KUBERNETES_EXEC_INFO"])["spec"]["cluster"] == {
        "server": "https://api.test:6443",
        "tls-server-name": "inside",
        "certificate-authority-data": authority,
        "proxy-url": "http://proxy.test",
        "config": {"audience": "a"},
    }


def test_a_relative_command_starts_at_the_file_that_holds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plain name is looked up in PATH instead."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path}/bin", prepend=os.pathsep)
    write_plugin(tmp_path / "bin" / "get-token", {"token": SECRET})
    for command in ("bin/get-token", "./bin/get-token", "get-token"):
        user = {"exec": {"apiVersion": V1, "command": command}}
        assert authorization(load(tmp_path, user)) == f"Bearer {SECRET}"


def test_a_command_that_is_not_installed_is_an_error_with_its_install_hint(tmp_path: Path) -> None:
    user = {"exec": {"apiVersion": V1, "command": "no-such-command", "installHint": "apt install it"}}
    with pytest.raises(InputError, match="`no-such-command` gave no credential: No such file") as caught:
        load(tmp_path, user)
    assert caught.value.hint == "apt install it"


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("command", "", "command: is missing"),
        ("command", ["x"], "command: is not a text"),
        ("apiVersion", "", "apiVersion: is not supported"),
        ("apiVersion", "client.authentication.k8s.io/v1alpha1", "apiVersion: is not supported"),
        ("interactiveMode", "Sometimes", "interactiveMode: is not a mode"),
        ("args", "x", "args: is not a list of texts"),
        ("args", [1], "args: is not a list of texts"),
        ("env", [{"value": SECRET}], "env: is not a list of mappings"),
        ("env", [{"name": "", "value": SECRET}], "env: holds a variable without a name"),
        ("provideClusterInfo", "yes", "provideClusterInfo: is not true or false"),
    ],
)
def test_a_field_that_has_no_meaning_is_named_before_the_plugin_runs(
    tmp_path: Path, field: str, value: Any, problem: str
) -> None:
    user = write_script(tmp_path / "plugin", credential({"token": "t"}), **{field: value})
    with pytest.raises(InputError, match=re.escape(f"kubeconfig `{tmp_path}/c`: users[name=main].user.exec.{problem}")):
        load(tmp_path, user)
    assert not (tmp_path / "plugin.seen").exists()


def test_a_plugin_that_must_be_interactive_is_not_run_without_a_terminal(tmp_path: Path) -> None:
    user = write_script(tmp_path / "plugin", credential({"token": "t"}), interactiveMode="Always")
    with pytest.raises(InputError, match="it must run at a terminal"):
        load(tmp_path, user)
    assert not (tmp_path / "plugin.seen").exists()


@pytest.mark.parametrize(("mode", "interactive"), [("Never", False), ("IfAvailable", True), ("Always", True)])
def test_at_a_terminal_a_plugin_is_interactive_unless_never(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, interactive: bool
) -> None:
    user = write_script(tmp_path / "plugin", credential({"token": "t"}), interactiveMode=mode)
    main, terminal = pty.openpty()
    with os.fdopen(main), os.fdopen(terminal) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        load(tmp_path, user)
    info = json.loads(read_run(tmp_path / "plugin")[0]["KUBERNETES_EXEC_INFO"])
    assert info["spec"]["interactive"] is interactive


def test_an_exec_plugin_that_hangs_is_killed_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its pipe may be held by a process that it started."""
    monkeypatch.setattr("muster.kube.client.exec_plugins.RUN_SECONDS", 0.5)
    script = tmp_path / "plugin"
    script.write_text(f"#!/bin/sh\nsleep 300 &\necho $! > {tmp_path}/pid\nwait\n")
    script.chmod(0o755)
    began = time.monotonic()
    with pytest.raises(InputError, match="gave no credential: it did not end within"):
        load(tmp_path, {"exec": {"apiVersion": V1, "command": str(script)}})
    assert time.monotonic() - began < 10
    assert _ends(int((tmp_path / "pid").read_text()))


def test_an_exec_plugin_that_prints_without_end_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A minute of output would not fit into memory."""
    monkeypatch.setattr("muster.kube.client.exec_plugins.RUN_SECONDS", 5.0)
    script = tmp_path / "plugin"
    script.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec yes {SECRET}\n")
    script.chmod(0o755)
    with pytest.raises(InputError, match="gave no credential: it printed more than 1048576 bytes") as caught:
        load(tmp_path, {"exec": {"apiVersion": V1, "command": str(script)}})
    assert SECRET not in str(caught.value)
    assert _ends(int((tmp_path / "pid").read_text()))


def _ends(pid: int) -> bool:
    """A zombie has ended as well."""
    for _ in range(100):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


def test_no_plugin_is_run_for_plain_http(tmp_path: Path) -> None:
    user = {"exec": {"apiVersion": V1, "command": "touch", "args": [f"{tmp_path}/ran"]}}
    assert load(tmp_path, user, server="http://api.test").headers == ()
    assert not (tmp_path / "ran").exists()

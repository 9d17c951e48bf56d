"""Kubeconfigs of every kind; no secret in any text. Credentials that change are in `test_kubernetes_access`."""

import base64
import logging
import re
import ssl
import stat
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster.errors import InputError
from muster.kube.client.client import connect
from muster.kube.client.cluster_config import find_loader, load_in_cluster, load_kubeconfig
from muster.kube.client.credentials import Access, Pem
from tests.support.apiserver.envtest_certificates import certificates

SECRET = "s3cr3t"


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing of the machine that runs the tests."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "HTTPS_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


@pytest.fixture
def tls(tmp_path: Path) -> Path:
    folder = tmp_path / "tls"
    folder.mkdir()
    certificates(folder)
    return folder


def kubeconfig(path: Path, user: dict[str, Any], name: str = "main", **cluster: Any) -> str:
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": name, "cluster": {"server": "https://api.test:6443", **cluster}}],
                "users": [{"name": name, "user": user}],
                "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
                "current-context": name,
            }
        )
    )
    return str(path)


def plugin(path: Path, status: dict[str, Any] | None, says: str = "") -> dict[str, Any]:
    """An exec plugin that gives this credential, or fails with a word on stderr."""
    credential = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
    end = f"print(json.dumps({credential!r}))" if status is not None else "sys.exit(3)"
    path.write_text(f"#!{sys.executable}\nimport json, sys\nsys.stderr.write({says!r})\n{end}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(path), "interactiveMode": "Never"}}


def authorization(access: Access) -> str:
    return dict(access.headers).get("Authorization", "")


def content(pem: Pem) -> bytes:
    return pem if isinstance(pem, bytes) else Path(pem).read_bytes()


# who we are ---------------------------------------------------------------------------------------------------------


def test_a_token(tmp_path: Path) -> None:
    access = load_kubeconfig(kubeconfig(tmp_path / "c", {"token": SECRET}))
    assert (access.server, authorization(access)) == ("https://api.test:6443", f"Bearer {SECRET}")
    assert SECRET not in f"{access} {access!r}"


def test_a_token_file_beside_the_kubeconfig_without_its_last_newline(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{SECRET}\n")
    access = load_kubeconfig(kubeconfig(tmp_path / "c", {"tokenFile": "token"}))
    assert authorization(access) == f"Bearer {SECRET}"
    assert access.rotates


@pytest.mark.parametrize(
    ("file", "token"),
    [(f"{SECRET}\n", SECRET), (None, "static"), ("", "static"), (" \n", "static")],
    ids=["readable", "missing", "empty", "blank"],
)
def test_a_token_file_that_can_be_read_comes_before_a_token(tmp_path: Path, file: str | None, token: str) -> None:
    """As in client-go: the token is for as long as the file says nothing, and the file is looked at again."""
    if file is not None:
        (tmp_path / "token").write_text(file)
    access = load_kubeconfig(kubeconfig(tmp_path / "c", {"token": "static", "tokenFile": "token"}))
    assert authorization(access) == f"Bearer {token}"
    assert access.rotates


def test_what_is_empty_is_not_given(tmp_path: Path, tls: Path) -> None:
    """As in Go. The official loader takes empty data before a file, and the system's CAs before the cluster's."""
    (tmp_path / "token").write_text(SECRET)
    user = {"token": "", "tokenFile": "token", "exec": None}
    cluster = {"certificate-authority-data": "", "certificate-authority": str(tls / "ca.crt")}
    access = load_kubeconfig(kubeconfig(tmp_path / "c", user, **cluster))
    assert (authorization(access), access.ca) == (f"Bearer {SECRET}", str(tls / "ca.crt"))


def test_a_user_name_and_password(tmp_path: Path) -> None:
    access = load_kubeconfig(kubeconfig(tmp_path / "c", {"username": "u", "password": SECRET}))
    assert authorization(access) == "Basic " + base64.b64encode(f"u:{SECRET}".encode()).decode()


def test_client_certificates_as_files_and_as_data(tmp_path: Path, tls: Path) -> None:
    data = {name: base64.b64encode((tls / name).read_bytes()).decode() for name in ("ca.crt", "admin.crt", "admin.key")}
    user = {"client-certificate": "tls/admin.crt", "client-key": "tls/admin.key"}
    files = load_kubeconfig(kubeconfig(tmp_path / "a", user, **{"certificate-authority": "tls/ca.crt"}))
    user = {"client-certificate-data": data["admin.crt"], "client-key-data": data["admin.key"]}
    inline = load_kubeconfig(kubeconfig(tmp_path / "b", user, **{"certificate-authority-data": data["ca.crt"]}))
    for access in (files, inline):
        context = access.build_tls_context()
        assert isinstance(context, ssl.SSLContext)
        assert [ca["subject"] for ca in context.get_ca_certs()] == [((("commonName", "ca"),),)]
        assert access.certificate is not None
        assert content(access.certificate[0]) == (tls / "admin.crt").read_bytes()


def test_an_exec_plugin_that_gives_a_token(tmp_path: Path) -> None:
    status = {"token": SECRET, "expirationTimestamp": "2030-01-01T00:00:00Z"}
    access = load_kubeconfig(kubeconfig(tmp_path / "c", plugin(tmp_path / "plugin", status)))
    assert authorization(access) == f"Bearer {SECRET}"
    assert access.expires == datetime(2030, 1, 1, tzinfo=UTC)


def test_an_exec_plugin_that_gives_a_certificate(tmp_path: Path, tls: Path) -> None:
    status = {
        "clientCertificateData": (tls / "admin.crt").read_text(),
        "clientKeyData": (tls / "admin.key").read_text(),
    }
    path = kubeconfig(
        tmp_path / "c", plugin(tmp_path / "plugin", status), **{"certificate-authority": str(tls / "ca.crt")}
    )
    access = load_kubeconfig(path)
    assert access.certificate is not None
    assert isinstance(access.build_tls_context(), ssl.SSLContext)


def test_an_exec_plugin_that_fails_is_named_and_not_quoted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """The official client logs what it says and goes on without a credential."""
    user = plugin(tmp_path / "plugin", None, f"denied for {SECRET}")
    with caplog.at_level(logging.DEBUG), pytest.raises(InputError) as caught:
        load_kubeconfig(kubeconfig(tmp_path / "c", user))
    assert str(tmp_path / "plugin") in str(caught.value)
    assert SECRET not in str(caught.value) + caplog.text + "".join(capfd.readouterr())


def test_an_exec_plugin_that_fails_is_told_also_where_somebody_is_impersonated(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="gave no credential"):
        load_kubeconfig(kubeconfig(tmp_path / "c", {**plugin(tmp_path / "plugin", None), "as": "ann"}))


def test_an_exec_plugin_that_hangs_is_ended_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The official client would wait for ever, and whoever holds its pipe is not always the plugin itself."""
    monkeypatch.setattr("muster.kube.client.exec_plugins.ALONE_SECONDS", 0.5)
    script = tmp_path / "plugin"
    script.write_text(f"#!/bin/sh\nsleep 300 &\necho $! > {tmp_path}/pid\nwait\n")
    script.chmod(0o755)
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(script)}}
    began = time.monotonic()
    with pytest.raises(InputError, match="gave no credential"):
        load_kubeconfig(kubeconfig(tmp_path / "c", user))
    assert time.monotonic() - began < 10
    assert _ends(int((tmp_path / "pid").read_text()))


def _ends(pid: int) -> bool:
    """A process that nobody waits for yet is at its end as well."""
    for _ in range(100):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


def test_impersonation_is_not_dropped(tmp_path: Path) -> None:
    access = load_kubeconfig(kubeconfig(tmp_path / "c", {"token": "t", "as": "ann", "as-groups": ["a", "b"]}))
    assert access.headers[1:] == (("Impersonate-User", "ann"), ("Impersonate-Group", "a"), ("Impersonate-Group", "b"))


def test_extras_of_impersonation_are_not_dropped(tmp_path: Path) -> None:
    """As kubectl sends them: what a header's name may not hold is escaped byte by byte, and only ASCII is lowered."""
    extra = {"scopes": ["view", "edit"], "Example.org/Über%": ["x"]}
    access = load_kubeconfig(kubeconfig(tmp_path / "c", {"as": "ann", "as-user-extra": extra}))
    assert sorted(access.headers) == [
        ("Impersonate-Extra-example.org%2f%c3%9cber%25", "x"),
        ("Impersonate-Extra-scopes", "edit"),
        ("Impersonate-Extra-scopes", "view"),
        ("Impersonate-User", "ann"),
    ]


@pytest.mark.parametrize(
    ("server", "proxy", "told"),
    [
        ("http://api.test:8080", "", False),
        ("HTTP://10.0.0.1", "", False),
        ("http://localhost.test", "", False),
        ("http://127.0.0.1:8080", "http://proxy.test", False),
        ("http://127.0.0.1:8080", "", True),
        ("http://localhost:8080", "", True),
        ("http://[::1]:8080", "", True),
        ("https://api.test", "http://proxy.test", True),
    ],
)
def test_over_plain_http_nobody_but_this_machine_is_shown_a_credential(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, server: str, proxy: str, told: bool
) -> None:
    """As with kubectl, which shows none even to this machine; a name alone is no credential. A proxy is elsewhere."""
    user = {"token": SECRET, "as": "ann"}
    access = load_kubeconfig(kubeconfig(tmp_path / "c", user, server=server, **{"proxy-url": proxy}))
    assert [name for name, _ in access.headers] == (["Authorization"] if told else []) + ["Impersonate-User"]
    assert ("plain http" in caplog.text) == (not told)
    assert SECRET not in caplog.text


def test_no_plugin_is_run_for_plain_http(tmp_path: Path) -> None:
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "touch", "args": [f"{tmp_path}/ran"]}}
    assert load_kubeconfig(kubeconfig(tmp_path / "c", user, server="http://api.test")).headers == ()
    assert not (tmp_path / "ran").exists()


def test_in_cluster(tmp_path: Path, tls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token").write_text(f"{SECRET}\n")
    monkeypatch.setattr("muster.kube.client.cluster_config.TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.setattr("muster.kube.client.cluster_config.CA_FILE", str(tls / "ca.crt"))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    assert find_loader() is load_in_cluster
    access = load_in_cluster()
    assert (access.server, access.rotates) == ("https://[fd00::1]:443", True)
    assert authorization(access).lower() == f"bearer {SECRET}"


# which cluster ------------------------------------------------------------------------------------------------------


def test_contexts_across_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = kubeconfig(tmp_path / "one", {"token": "1"}, "one")
    two = kubeconfig(tmp_path / "two", {"token": "2"}, "two")
    monkeypatch.setenv("KUBECONFIG", f"{one}:{two}")
    assert authorization(find_loader(context="one")()) == "Bearer 1"
    assert authorization(find_loader(context="two")()) == "Bearer 2"
    assert authorization(find_loader(one)()) == "Bearer 1"
    with pytest.raises(InputError, match="known: one, two"):
        find_loader(context="three")()


def test_the_first_file_that_names_a_current_context_wins(tmp_path: Path) -> None:
    """As with kubectl; the official loader takes the last."""
    (tmp_path / "none").write_text("apiVersion: v1\nkind: Config\ncurrent-context: ''\n")
    one = kubeconfig(tmp_path / "one", {"token": "1"}, "one")
    two = kubeconfig(tmp_path / "two", {"token": "2"}, "two")
    assert authorization(load_kubeconfig(f"{tmp_path}/none:{one}:{two}")) == "Bearer 1"
    assert authorization(load_kubeconfig(f"{two}:{one}:{tmp_path}/none")) == "Bearer 2"


@pytest.mark.parametrize("text", ["", " \n", "# nothing yet\n"])
def test_an_empty_file_beside_good_ones_counts_for_nothing(tmp_path: Path, text: str) -> None:
    """As with kubectl. One that is not there does so, too."""
    (tmp_path / "empty").write_text(text)
    good = kubeconfig(tmp_path / "good", {"token": "g"})
    for paths in (f"{tmp_path}/empty:{good}", f"{good}:{tmp_path}/nowhere:{tmp_path}/empty"):
        assert authorization(load_kubeconfig(paths)) == "Bearer g"
    with pytest.raises(InputError, match=f"`{tmp_path}/empty:{tmp_path}/nowhere`: is empty"):
        load_kubeconfig(f"{tmp_path}/empty:{tmp_path}/nowhere")


def test_paths_start_at_the_file_that_holds_them(tmp_path: Path, tls: Path) -> None:
    """A user's certificate does, wherever his cluster is described."""
    raw = yaml.safe_load(Path(kubeconfig(tmp_path / "c", {}, **{"certificate-authority": "tls/ca.crt"})).read_text())
    user = {"client-certificate": "admin.crt", "client-key": "admin.key"}
    (tls / "users").write_text(yaml.safe_dump({"users": [{"name": "main", "user": user}]}))
    del raw["users"]
    (tmp_path / "c").write_text(yaml.safe_dump(raw))
    access = load_kubeconfig(f"{tmp_path}/c:{tls}/users")
    assert access.certificate == (str(tls / "admin.crt"), str(tls / "admin.key"))
    assert access.ca == str(tls / "ca.crt")


def test_the_file_in_the_home_folder(tmp_path: Path) -> None:
    (tmp_path / "home" / ".kube").mkdir(parents=True)
    kubeconfig(tmp_path / "home" / ".kube" / "config", {"token": "h"})
    assert authorization(find_loader()()) == "Bearer h"


def test_no_cluster_at_all() -> None:
    with pytest.raises(InputError, match="set KUBECONFIG"):
        find_loader()


def test_how_it_is_reached(tmp_path: Path) -> None:
    special: dict[str, Any] = {
        "insecure-skip-tls-verify": True,
        "tls-server-name": "inside",
        "proxy-url": "http://proxy.test:3128",
    }
    access = load_kubeconfig(kubeconfig(tmp_path / "c", {}, **special))
    assert (access.verify, access.server_name, access.proxy) == (False, "inside", "http://proxy.test:3128")
    context = access.build_tls_context()
    assert isinstance(context, ssl.SSLContext)
    assert context.verify_mode == ssl.CERT_NONE


def test_schemes_are_read_in_any_case(tmp_path: Path, tls: Path) -> None:
    """Else the kubeconfig's CA would not be asked."""
    cluster = {"server": "HTTPS://api.test:6443/", "certificate-authority": str(tls / "ca.crt")}
    access = load_kubeconfig(kubeconfig(tmp_path / "c", {}, **cluster))
    assert (access.server, access.ca) == ("https://api.test:6443", str(tls / "ca.crt"))
    assert isinstance(Access("HTTPS://api.test").build_tls_context(), ssl.SSLContext)


@pytest.mark.parametrize(
    ("server", "problem"),
    [
        ("api.test:6443", "`api.test:6443` has no scheme"),
        ("10.0.0.1", "has no scheme"),
        (f"u:{SECRET}@api.test", "it has no scheme"),
        ("ftp://api.test", "`ftp://api.test` has the wrong scheme"),
        ("https://", "names no host"),
        ("https://:6443", "names no host"),
        ("https://[::1", "is not an address"),
        ("https://api.test:65536", "is not an address"),
        (f"https://u:{SECRET}@api.test", "holds a user name"),
        ("", "is missing"),
        (None, "is missing"),
    ],
)
def test_an_address_that_is_none_is_told(tmp_path: Path, server: str | None, problem: str) -> None:
    with pytest.raises(InputError, match=re.escape(problem)) as caught:
        load_kubeconfig(kubeconfig(tmp_path / "c", {"token": SECRET}, server=server))
    assert f"kubeconfig `{tmp_path}/c`: clusters[name=main].cluster.server: " in str(caught.value)
    assert caught.value.hint
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("key", ["tls-server-name", "proxy-url", "certificate-authority"])
@pytest.mark.parametrize("given", [1.5, ["x"], {"x": "y"}])
def test_what_is_no_text_is_told_before_the_first_request(tmp_path: Path, key: str, given: Any) -> None:
    problem = f"kubeconfig `{tmp_path}/c`: clusters[name=main].cluster.{key}: is not a text"
    with pytest.raises(InputError, match=re.escape(problem)):
        load_kubeconfig(kubeconfig(tmp_path / "c", {}, **{key: given}))


def test_only_true_leaves_certificates_unverified(tmp_path: Path) -> None:
    """The official loader takes the text "false" for true."""
    with pytest.raises(InputError, match="insecure-skip-tls-verify"):
        load_kubeconfig(kubeconfig(tmp_path / "c", {}, **{"insecure-skip-tls-verify": "false"}))
    cluster: dict[str, Any] = {"insecure-skip-tls-verify": False}
    assert load_kubeconfig(kubeconfig(tmp_path / "c", {}, **cluster)).verify


def test_proxies_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest is in `test_kubernetes_proxy`."""
    path = kubeconfig(tmp_path / "c", {})
    monkeypatch.setenv("https_proxy", "http://proxy.test:3128")
    assert load_kubeconfig(path).proxy == "http://proxy.test:3128"
    monkeypatch.setenv("no_proxy", "api.test")
    assert load_kubeconfig(path).proxy == ""
    given: dict[str, Any] = {"proxy-url": "http://other.test"}
    assert load_kubeconfig(kubeconfig(tmp_path / "c", {}, **given)).proxy == "http://other.test", "it is asked for"


def test_a_proxy_of_another_kind_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "socks5://proxy.test")
    with pytest.raises(InputError, match="the proxy of the environment must begin with http"):
        load_kubeconfig(kubeconfig(tmp_path / "c", {}))


# what cannot be used ------------------------------------------------------------------------------------------------


CONTEXT = "current-context: a\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n"
USER = f"users: [{{name: a, user: {{token: {SECRET}}}}}]\n"
GCP = f"users: [{{name: a, user: {{token: {SECRET}, auth-provider: {{name: gcp}}}}}}]\n"


@pytest.mark.parametrize(
    "text",
    [
        f"users: [{{name: a, user: {{token: {SECRET}",
        f"- {SECRET}",
        f"current-context: a\nusers: {{token: {SECRET}}}",
        f"current-context: a\ncontexts: [{{name: a, {SECRET}: 1}}]\nclusters: []",
        f"{CONTEXT}clusters: [{{name: a}}]\n{USER}",
        f"{CONTEXT}clusters: [{{name: a, cluster: {{server: 'https://x', certificate-authority: nowhere}}}}]\n{USER}",
        f"{CONTEXT}clusters: [{{name: a, cluster: {{server: 'https://x'}}}}]\n{GCP}",
        f"{CONTEXT}clusters: [{{name: a, cluster: {{server: 'https://u:{SECRET}@x'}}}}]\n{USER}",
        "",
        "\0",
    ],
)
def test_a_file_that_cannot_be_used_is_told_without_its_secrets(tmp_path: Path, text: str) -> None:
    (tmp_path / "c").write_text(text)
    with pytest.raises(InputError) as caught:
        connect(tmp_path / "c")
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("given", [1, "x", ["x"], True])
def test_an_exec_that_is_no_mapping_is_told(tmp_path: Path, given: Any) -> None:
    problem = f"kubeconfig `{tmp_path}/c`: users[name=main].user.exec: is not a mapping"
    with pytest.raises(InputError, match=re.escape(problem)):
        load_kubeconfig(kubeconfig(tmp_path / "c", {"exec": given}))


@pytest.mark.parametrize("part", ["cluster", "user", "context"])
@pytest.mark.parametrize("given", [1, "x", ["x"]])
def test_a_part_that_is_no_mapping_is_told(tmp_path: Path, part: str, given: Any) -> None:
    raw = yaml.safe_load(Path(kubeconfig(tmp_path / "c", {})).read_text())
    raw[f"{part}s"][0][part] = given
    (tmp_path / "c").write_text(yaml.safe_dump(raw))
    problem = f"kubeconfig `{tmp_path}/c`: {part}s[name=main].{part}: is not a mapping"
    with pytest.raises(InputError, match=re.escape(problem)):
        load_kubeconfig(str(tmp_path / "c"))


@pytest.mark.parametrize("text", ["[" * 3000, "[1]", "{]"])
def test_the_file_that_cannot_be_read_is_named(tmp_path: Path, text: str) -> None:
    """And not the ones beside it."""
    (tmp_path / "deep").write_text(text)
    with pytest.raises(InputError, match=f"kubeconfig `{tmp_path}/deep`: "):
        load_kubeconfig(f"{kubeconfig(tmp_path / 'c', {})}:{tmp_path}/deep")


def test_files_that_are_missing_or_no_certificates(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        find_loader(tmp_path / "nowhere")()
    (tmp_path / "ca").write_text("no certificate")
    with pytest.raises(InputError, match="cannot be used"):
        load_kubeconfig(kubeconfig(tmp_path / "c", {}, **{"certificate-authority": "ca"})).build_tls_context()


def test_a_certificate_that_is_written_anew_needs_new_connections(tls: Path) -> None:
    access = Access("https://x", ca=str(tls / "ca.crt"), certificate=(str(tls / "admin.crt"), str(tls / "admin.key")))
    before = access.fingerprint()
    assert access.fingerprint() == before
    (tls / "admin.crt").write_text("another")
    assert access.fingerprint() != before

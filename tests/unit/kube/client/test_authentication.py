"""Users of kubeconfigs of every kind. Exec plugins are in `test_exec_plugins`."""

import base64
import ssl
import tempfile
from pathlib import Path
from typing import Any

import pytest

from muster.errors import InputError
from muster.kube.client.cluster_config import load_kubeconfig
from muster.kube.client.credentials import Access, Pem
from tests.support.kubeconfigs import write_kubeconfig, write_plugin

SECRET = "s3cr3t"

pytestmark = pytest.mark.usefixtures("_isolated")


def load(tmp_path: Path, user: dict[str, Any], **cluster: Any) -> Access:
    return load_kubeconfig(write_kubeconfig(tmp_path / "c", user, **cluster))


def authorization(access: Access) -> str:
    return dict(access.headers).get("Authorization", "")


# tokens and passwords -----------------------------------------------------------------------------------------------


def test_a_token(tmp_path: Path) -> None:
    access = load(tmp_path, {"token": SECRET})
    assert (access.server, authorization(access)) == ("https://api.test:6443", f"Bearer {SECRET}")
    assert SECRET not in f"{access} {access!r}"


def test_a_token_file_beside_the_kubeconfig_without_its_last_newline(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{SECRET}\n")
    access = load(tmp_path, {"tokenFile": "token"})
    assert authorization(access) == f"Bearer {SECRET}"
    assert access.rotates


@pytest.mark.parametrize(
    ("file", "token"),
    [(f"{SECRET}\n", SECRET), (None, "static"), ("", "static"), (" \n", "static")],
    ids=["readable", "missing", "empty", "blank"],
)
def test_a_token_file_that_can_be_read_comes_before_a_token(tmp_path: Path, file: str | None, token: str) -> None:
    """As in client-go: the token is used as long as the file holds none, and the file is read again."""
    if file is not None:
        (tmp_path / "token").write_text(file)
    access = load(tmp_path, {"token": "static", "tokenFile": "token"})
    assert authorization(access) == f"Bearer {token}"
    assert access.rotates


@pytest.mark.parametrize(
    ("data", "problem"), [(None, "cannot be read: No such file"), (b" \n", "is empty"), (b"\xff", "is not a text")]
)
def test_a_token_file_without_a_token_is_an_error_where_there_is_no_other(
    tmp_path: Path, data: bytes | None, problem: str
) -> None:
    if data is not None:
        (tmp_path / "token").write_bytes(data)
    with pytest.raises(InputError) as caught:
        load(tmp_path, {"tokenFile": "token"})
    at = f"kubeconfig `{tmp_path}/c`: users[name=main].user.tokenFile: `{tmp_path}/token` {problem}"
    assert caught.value.message.startswith(at)
    assert caught.value.hint


def test_a_token_comes_before_an_exec_plugin(tmp_path: Path) -> None:
    """As with kubectl, which then does not run it."""
    access = load(tmp_path, {"token": SECRET, **write_plugin(tmp_path / "plugin", {"token": "other"})})
    assert authorization(access) == f"Bearer {SECRET}"
    assert not (tmp_path / "plugin.seen").exists()


def test_a_user_name_and_password(tmp_path: Path) -> None:
    access = load(tmp_path, {"username": "u", "password": SECRET})
    assert authorization(access) == "Basic " + base64.b64encode(f"u:{SECRET}".encode()).decode()


def test_a_user_without_anything_is_anonymous(tmp_path: Path) -> None:
    assert load(tmp_path, {}).headers == ()


@pytest.mark.parametrize(
    ("provider", "name", "way_out"),
    [
        ({"name": "oidc", "config": {"id-token": SECRET}}, "oidc", "kubectl oidc-login"),
        ({"name": "gcp"}, "gcp", "gke-gcloud-auth-plugin"),
        ({"name": "azure"}, "azure", "kubelogin"),
        ({"name": "other"}, "other", "exec plugin"),
    ],
)
def test_an_auth_provider_is_refused_with_the_exec_plugin_that_replaces_it(
    tmp_path: Path, provider: dict[str, Any], name: str, way_out: str
) -> None:
    with pytest.raises(InputError) as caught:
        load(tmp_path, {"token": SECRET, "auth-provider": provider})
    at = f"kubeconfig `{tmp_path}/c`: users[name=main].user.auth-provider"
    assert caught.value.message == f"{at}: auth provider `{name}` is not supported"
    assert way_out in caught.value.hint
    assert SECRET not in str(caught.value)


# certificates -------------------------------------------------------------------------------------------------------


def content(pem: Pem | None) -> bytes:
    assert pem is not None
    return pem if isinstance(pem, bytes) else Path(pem).read_bytes()


def encoded(file: Path) -> str:
    return base64.b64encode(file.read_bytes()).decode()


CERTIFICATES = [(False, False), (True, True), (True, False), (False, True)]


@pytest.mark.parametrize(("certificate_inline", "key_inline"), CERTIFICATES)
def test_client_certificates_as_files_and_as_data(
    tmp_path: Path, tls: Path, certificate_inline: bool, key_inline: bool
) -> None:
    user = {"client-certificate": "tls/admin.crt", "client-key": "tls/admin.key"}
    cluster = {"certificate-authority": "tls/ca.crt"}
    if certificate_inline:
        cluster = {"certificate-authority-data": encoded(tls / "ca.crt")}
        user["client-certificate-data"] = encoded(tls / "admin.crt")
        user["client-certificate"] = "nowhere"  # data come first
    if key_inline:
        user["client-key-data"] = encoded(tls / "admin.key")
    access = load(tmp_path, user, **cluster)
    context = access.build_tls_context()
    assert isinstance(context, ssl.SSLContext)
    assert [ca["subject"] for ca in context.get_ca_certs()] == [((("commonName", "ca"),),)]
    assert access.certificate is not None
    assert content(access.certificate[0]) == (tls / "admin.crt").read_bytes()
    assert content(access.certificate[1]) == (tls / "admin.key").read_bytes()


def test_a_key_as_data_is_in_a_private_file_and_only_while_it_is_loaded(
    tmp_path: Path, tls: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenSSL reads keys from files only."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    files: list[tuple[str, int]] = []
    load_cert_chain = ssl.SSLContext.load_cert_chain

    def spy(context: ssl.SSLContext, *paths: str, **options: Any) -> None:
        files.extend((path, Path(path).stat().st_mode & 0o777) for path in paths)
        load_cert_chain(context, *paths, **options)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", spy)
    data = {"client-certificate-data": encoded(tls / "admin.crt"), "client-key-data": encoded(tls / "admin.key")}
    load(tmp_path, data).build_tls_context()
    assert [mode for _, mode in files] == [0o600, 0o600]
    assert all(Path(file).parent.parent == tmp_path / "tmp" for file, _ in files)
    assert list((tmp_path / "tmp").iterdir()) == []


def test_certificate_and_key_may_be_one_file(tmp_path: Path, tls: Path) -> None:
    (tmp_path / "both").write_bytes((tls / "admin.crt").read_bytes() + (tls / "admin.key").read_bytes())
    assert isinstance(load(tmp_path, {"client-certificate": "both"}).build_tls_context(), ssl.SSLContext)


def test_a_ca_as_data_may_hold_comments_in_any_language(tmp_path: Path, tls: Path) -> None:
    bundle = base64.b64encode("# für Prüfer\n".encode() + (tls / "ca.crt").read_bytes()).decode()
    context = load(tmp_path, {}, **{"certificate-authority-data": bundle}).build_tls_context()
    assert isinstance(context, ssl.SSLContext)
    assert len(context.get_ca_certs()) == 1


@pytest.mark.parametrize("data", [b"no certificate", "ü".encode(), b"-----BEGIN CERTIFICATE-----\nAAAA\n"])
def test_data_that_hold_no_ca_do_not_mean_the_cas_of_the_system(tmp_path: Path, data: bytes) -> None:
    access = load(tmp_path, {}, **{"certificate-authority-data": base64.b64encode(data).decode()})
    with pytest.raises(InputError, match="its CA cannot be used: "):
        access.build_tls_context()


@pytest.mark.parametrize("key", ["certificate-authority", "client-certificate", "client-key"])
@pytest.mark.parametrize("text", ["!!!", "aGFs bG8=", "aGFsbG8", "ü"])
def test_data_that_are_not_base64_are_named_and_not_quoted(tmp_path: Path, key: str, text: str) -> None:
    entries = {f"{key}-data": text}
    user, cluster = ({}, entries) if key == "certificate-authority" else (entries, {})
    with pytest.raises(InputError) as caught:
        load(tmp_path, user, **cluster)
    entry = "users[name=main].user" if user else "clusters[name=main].cluster"
    assert caught.value.message == f"kubeconfig `{tmp_path}/c`: {entry}.{key}-data: is not base64"
    assert text not in str(caught.value)


def test_base64_may_have_several_lines(tmp_path: Path, tls: Path) -> None:
    lines = base64.encodebytes((tls / "ca.crt").read_bytes()).decode()
    assert load(tmp_path, {}, **{"certificate-authority-data": lines}).ca == (tls / "ca.crt").read_bytes()


@pytest.mark.parametrize("key", ["certificate-authority", "client-certificate", "client-key"])
def test_a_file_that_is_missing_is_named_with_its_place(tmp_path: Path, key: str) -> None:
    user, cluster = ({}, {key: "nowhere"}) if key == "certificate-authority" else ({key: "nowhere"}, {})
    with pytest.raises(InputError) as caught:
        load(tmp_path, user, **cluster)
    entry = "users[name=main].user" if user else "clusters[name=main].cluster"
    assert caught.value.message == (
        f"kubeconfig `{tmp_path}/c`: {entry}.{key}: `{tmp_path}/nowhere` cannot be read: No such file or directory"
    )


def test_a_key_of_another_certificate_is_an_error_without_a_secret(tmp_path: Path, tls: Path) -> None:
    access = load(tmp_path, {"client-certificate": "tls/admin.crt", "client-key": "tls/server.key"})
    with pytest.raises(InputError, match=r"the client certificate `.*/admin.crt` cannot be used: key values mismatch"):
        access.build_tls_context()


# impersonation ------------------------------------------------------------------------------------------------------


def test_impersonation_is_not_dropped(tmp_path: Path) -> None:
    access = load(tmp_path, {"token": "t", "as": "ann", "as-uid": "7", "as-groups": ["a", "b"]})
    assert access.headers[1:] == (
        ("Impersonate-User", "ann"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
    )


def test_extras_of_impersonation_are_not_dropped(tmp_path: Path) -> None:
    """As kubectl sends them: what a header's name may not hold is escaped byte by byte, and only ASCII is lowered."""
    extra = {"scopes": ["view", "edit"], "Example.org/Über%": ["x"]}
    access = load(tmp_path, {"as": "ann", "as-user-extra": extra})
    assert sorted(access.headers) == [
        ("Impersonate-Extra-example.org%2f%c3%9cber%25", "x"),
        ("Impersonate-Extra-scopes", "edit"),
        ("Impersonate-Extra-scopes", "view"),
        ("Impersonate-User", "ann"),
    ]


# plain HTTP ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("server", "proxy", "shown"),
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
def test_over_plain_http_only_this_machine_is_shown_a_credential(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, server: str, proxy: str, shown: bool
) -> None:
    """As with kubectl, which shows none even to this machine; a name alone is no credential. A proxy is elsewhere."""
    access = load(tmp_path, {"token": SECRET, "as": "ann"}, server=server, **{"proxy-url": proxy})
    assert [name for name, _ in access.headers] == (["Authorization"] if shown else []) + ["Impersonate-User"]
    assert ("plain http" in caplog.text) == (not shown)
    assert SECRET not in caplog.text

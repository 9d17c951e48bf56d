"""Which cluster is reached, and how: kubeconfig files and in-cluster. Users are in `test_authentication`."""

import re
import ssl
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster.errors import InputError
from muster.kube.client.client import connect
from muster.kube.client.cluster_config import find_loader, load_in_cluster, load_kubeconfig
from muster.kube.client.credentials import Access
from tests.support.kubeconfigs import write_kubeconfig

SECRET = "s3cr3t"

pytestmark = pytest.mark.usefixtures("_isolated")


def authorization(access: Access) -> str:
    return dict(access.headers).get("Authorization", "")


# in-cluster ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def pod(tmp_path: Path, tls: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The token of a pod with a service account."""
    (tmp_path / "token").write_text(f"{SECRET}\n")
    monkeypatch.setattr("muster.kube.client.cluster_config.TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.setattr("muster.kube.client.cluster_config.CA_FILE", str(tls / "ca.crt"))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    return tmp_path / "token"


@pytest.mark.parametrize(
    ("host", "server"), [("10.0.0.1", "https://10.0.0.1:443"), ("fd00::1", "https://[fd00::1]:443")]
)
def test_in_cluster(pod: Path, tls: Path, monkeypatch: pytest.MonkeyPatch, host: str, server: str) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    assert find_loader() is load_in_cluster
    access = load_in_cluster()
    assert (access.server, access.ca, access.rotates) == (server, str(tls / "ca.crt"), True)
    assert authorization(access) == f"Bearer {SECRET}"


def test_a_token_that_the_kubelet_has_replaced_is_read_again(pod: Path) -> None:
    pod.write_text("new")
    assert authorization(load_in_cluster()) == "Bearer new"


@pytest.mark.parametrize("name", ["token", "ca.crt"])
def test_a_pod_without_a_service_account_is_an_error_with_the_file(pod: Path, tls: Path, name: str) -> None:
    file = {"token": pod, "ca.crt": tls / "ca.crt"}[name]
    file.unlink()
    with pytest.raises(InputError, match=f"in-cluster configuration: `{file}` cannot be read: No such file"):
        load_in_cluster()


@pytest.mark.parametrize("name", ["KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"])
def test_half_an_address_of_the_api_server_is_an_error(pod: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "")
    with pytest.raises(InputError, match=f"in-cluster configuration: .*{name}"):
        load_in_cluster()


# kubeconfig files ---------------------------------------------------------------------------------------------------


def test_contexts_across_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = write_kubeconfig(tmp_path / "one", {"token": "1"}, "one")
    second = write_kubeconfig(tmp_path / "two", {"token": "2"}, "two")
    monkeypatch.setenv("KUBECONFIG", f"{first}:{second}")
    assert authorization(find_loader(context="one")()) == "Bearer 1"
    assert authorization(find_loader(context="two")()) == "Bearer 2"
    assert authorization(find_loader(first)()) == "Bearer 1"
    with pytest.raises(InputError, match="known: one, two"):
        find_loader(context="three")()


def test_the_first_file_that_names_a_current_context_wins(tmp_path: Path) -> None:
    """As with kubectl."""
    (tmp_path / "none").write_text("apiVersion: v1\nkind: Config\ncurrent-context: ''\n")
    first = write_kubeconfig(tmp_path / "one", {"token": "1"}, "one")
    second = write_kubeconfig(tmp_path / "two", {"token": "2"}, "two")
    assert authorization(load_kubeconfig(f"{tmp_path}/none:{first}:{second}")) == "Bearer 1"
    assert authorization(load_kubeconfig(f"{second}:{first}:{tmp_path}/none")) == "Bearer 2"


@pytest.mark.parametrize("text", ["", " \n", "# nothing yet\n"])
def test_a_file_that_is_empty_or_missing_is_left_out_beside_others(tmp_path: Path, text: str) -> None:
    """As with kubectl."""
    (tmp_path / "empty").write_text(text)
    good = write_kubeconfig(tmp_path / "good", {"token": "g"})
    for paths in (f"{tmp_path}/empty:{good}", f"{good}:{tmp_path}/nowhere:{tmp_path}/empty"):
        assert authorization(load_kubeconfig(paths)) == "Bearer g"
    with pytest.raises(InputError, match=f"`{tmp_path}/empty:{tmp_path}/nowhere`: is empty"):
        load_kubeconfig(f"{tmp_path}/empty:{tmp_path}/nowhere")


def test_paths_start_at_the_file_that_holds_them(tmp_path: Path, tls: Path) -> None:
    """A user's certificate does, whichever file describes the cluster."""
    raw = yaml.safe_load(
        Path(write_kubeconfig(tmp_path / "c", {}, **{"certificate-authority": "tls/ca.crt"})).read_text()
    )
    user = {"client-certificate": "admin.crt", "client-key": "admin.key"}
    (tls / "users").write_text(yaml.safe_dump({"users": [{"name": "main", "user": user}]}))
    del raw["users"]
    (tmp_path / "c").write_text(yaml.safe_dump(raw))
    access = load_kubeconfig(f"{tmp_path}/c:{tls}/users")
    assert access.certificate == (str(tls / "admin.crt"), str(tls / "admin.key"))
    assert access.ca == str(tls / "ca.crt")


def test_an_empty_value_counts_as_missing(tmp_path: Path, tls: Path) -> None:
    """As in Go."""
    (tmp_path / "token").write_text(SECRET)
    user = {"token": "", "tokenFile": "token", "exec": None}
    cluster = {"certificate-authority-data": "", "certificate-authority": str(tls / "ca.crt")}
    access = load_kubeconfig(write_kubeconfig(tmp_path / "c", user, **cluster))
    assert (authorization(access), access.ca) == (f"Bearer {SECRET}", str(tls / "ca.crt"))


def test_the_file_in_the_home_folder(tmp_path: Path) -> None:
    (tmp_path / "home" / ".kube").mkdir(parents=True)
    write_kubeconfig(tmp_path / "home" / ".kube" / "config", {"token": "h"})
    assert authorization(find_loader()()) == "Bearer h"


@pytest.fixture
def without_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container whose user is in no `passwd`."""
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)


@pytest.mark.usefixtures("without_home")
def test_a_user_without_a_home_has_no_kubeconfig_there(pod: Path) -> None:
    assert find_loader() is load_in_cluster


def test_a_home_that_cannot_be_entered_holds_no_kubeconfig(pod: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "is_file", refuse)
    assert find_loader() is load_in_cluster


def test_no_cluster_at_all() -> None:
    with pytest.raises(InputError, match="set KUBECONFIG"):
        find_loader()


def test_how_it_is_reached(tmp_path: Path) -> None:
    special: dict[str, Any] = {
        "insecure-skip-tls-verify": True,
        "tls-server-name": "inside",
        "proxy-url": "http://proxy.test:3128",
    }
    access = load_kubeconfig(write_kubeconfig(tmp_path / "c", {}, **special))
    assert (access.verify, access.server_name, access.proxy) == (False, "inside", "http://proxy.test:3128")
    context = access.build_tls_context()
    assert isinstance(context, ssl.SSLContext)
    assert context.verify_mode == ssl.CERT_NONE


def test_schemes_are_read_in_any_case(tmp_path: Path, tls: Path) -> None:
    """Else the kubeconfig's CA would not be used."""
    cluster = {"server": "HTTPS://api.test:6443/", "certificate-authority": str(tls / "ca.crt")}
    access = load_kubeconfig(write_kubeconfig(tmp_path / "c", {}, **cluster))
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
def test_a_server_that_is_no_address_is_an_error(tmp_path: Path, server: str | None, problem: str) -> None:
    with pytest.raises(InputError, match=re.escape(problem)) as caught:
        load_kubeconfig(write_kubeconfig(tmp_path / "c", {"token": SECRET}, server=server))
    assert f"kubeconfig `{tmp_path}/c`: clusters[name=main].cluster.server: " in str(caught.value)
    assert caught.value.hint
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("key", ["tls-server-name", "proxy-url", "certificate-authority"])
@pytest.mark.parametrize("value", [1.5, ["x"], {"x": "y"}])
def test_a_value_that_is_no_text_is_an_error_before_the_first_request(tmp_path: Path, key: str, value: Any) -> None:
    problem = f"kubeconfig `{tmp_path}/c`: clusters[name=main].cluster.{key}: is not a text"
    with pytest.raises(InputError, match=re.escape(problem)):
        load_kubeconfig(write_kubeconfig(tmp_path / "c", {}, **{key: value}))


def test_only_true_leaves_certificates_unverified(tmp_path: Path) -> None:
    """A text is neither, be it "false"."""
    with pytest.raises(InputError, match="insecure-skip-tls-verify"):
        load_kubeconfig(write_kubeconfig(tmp_path / "c", {}, **{"insecure-skip-tls-verify": "false"}))
    cluster: dict[str, Any] = {"insecure-skip-tls-verify": False}
    assert load_kubeconfig(write_kubeconfig(tmp_path / "c", {}, **cluster)).verify


def test_proxies_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their rules are in `test_proxy`."""
    path = write_kubeconfig(tmp_path / "c", {})
    monkeypatch.setenv("https_proxy", "http://proxy.test:3128")
    assert load_kubeconfig(path).proxy == "http://proxy.test:3128"
    monkeypatch.setenv("no_proxy", "api.test")
    assert load_kubeconfig(path).proxy == ""
    cluster: dict[str, Any] = {"proxy-url": "http://other.test"}
    assert load_kubeconfig(write_kubeconfig(tmp_path / "c", {}, **cluster)).proxy == "http://other.test", "comes first"


def test_a_proxy_that_does_not_speak_http_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "socks5://proxy.test")
    with pytest.raises(InputError, match="the proxy of the environment must begin with http"):
        load_kubeconfig(write_kubeconfig(tmp_path / "c", {}))


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
def test_a_file_that_cannot_be_used_is_an_error_without_its_secrets(tmp_path: Path, text: str) -> None:
    (tmp_path / "c").write_text(text)
    with pytest.raises(InputError) as caught:
        connect(tmp_path / "c")
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("value", [1, "x", ["x"], True])
def test_an_exec_that_is_no_mapping_is_an_error_with_its_place(tmp_path: Path, value: Any) -> None:
    problem = f"kubeconfig `{tmp_path}/c`: users[name=main].user.exec: is not a mapping"
    with pytest.raises(InputError, match=re.escape(problem)):
        load_kubeconfig(write_kubeconfig(tmp_path / "c", {"exec": value}))


@pytest.mark.parametrize("part", ["cluster", "user", "context"])
@pytest.mark.parametrize("value", [1, "x", ["x"]])
def test_an_entry_that_is_no_mapping_is_an_error_with_its_place(tmp_path: Path, part: str, value: Any) -> None:
    raw = yaml.safe_load(Path(write_kubeconfig(tmp_path / "c", {})).read_text())
    raw[f"{part}s"][0][part] = value
    (tmp_path / "c").write_text(yaml.safe_dump(raw))
    problem = f"kubeconfig `{tmp_path}/c`: {part}s[name=main].{part}: is not a mapping"
    with pytest.raises(InputError, match=re.escape(problem)):
        load_kubeconfig(str(tmp_path / "c"))


@pytest.mark.parametrize("text", ["[" * 3000, "[1]", "{]"])
def test_the_file_that_cannot_be_read_is_named(tmp_path: Path, text: str) -> None:
    """And not the others of KUBECONFIG."""
    (tmp_path / "deep").write_text(text)
    with pytest.raises(InputError, match=f"kubeconfig `{tmp_path}/deep`: "):
        load_kubeconfig(f"{write_kubeconfig(tmp_path / 'c', {})}:{tmp_path}/deep")


def test_files_that_are_missing_or_no_certificates(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        find_loader(tmp_path / "nowhere")()
    (tmp_path / "ca").write_text("no certificate")
    with pytest.raises(InputError, match="cannot be used"):
        load_kubeconfig(write_kubeconfig(tmp_path / "c", {}, **{"certificate-authority": "ca"})).build_tls_context()


def test_a_certificate_that_was_replaced_needs_new_connections(tls: Path) -> None:
    access = Access("https://x", ca=str(tls / "ca.crt"), certificate=(str(tls / "admin.crt"), str(tls / "admin.key")))
    before = access.fingerprint()
    assert access.fingerprint() == before
    (tls / "admin.crt").write_text("another")
    assert access.fingerprint() != before

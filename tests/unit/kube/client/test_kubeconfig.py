"""Kubeconfig files as values: parse, merge, resolve."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster.errors import InputError
from muster.kube.client.kubeconfig import (
    KubeConfig,
    ResolvedContext,
    merge_kubeconfigs,
    parse_kubeconfig,
    resolve_context,
)

SECRET = "s3cr3t"


def parse(text: str, file: str = "/etc/a") -> KubeConfig:
    config = parse_kubeconfig(text.encode(), Path(file))
    assert config is not None
    return config


def resolve(*files: tuple[str, str], context: str | None = None) -> ResolvedContext:
    return resolve_context(merge_kubeconfigs([parse(text, file) for file, text in files]), context)


def text(current: str = "", **entries: dict[str, Any]) -> str:
    """`clusters={"a": {...}}` and so on."""
    lists = {
        kind: [{"name": name, kind[:-1]: value} for name, value in named.items()] for kind, named in entries.items()
    }
    return yaml.safe_dump({"current-context": current, **lists})


CONTEXT = {"main": {"cluster": "main", "user": "main"}}
CLUSTER = {"main": {"server": "https://api.test"}}


# parse --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [b"", b" \n", b"# nothing yet\n", b"---\n", b"{}"])
def test_an_empty_file_is_no_kubeconfig(data: bytes) -> None:
    assert parse_kubeconfig(data, Path("/etc/a")) is None


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("[1]", "is not a mapping"),
        ("a: [\n", "is not YAML, line 2: "),
        ("a: 1\n\tb: 2\n", "is not YAML, line 2: "),
        ("a: \0", "is not YAML: it is not a text in UTF-8"),
        ("a: 1\na: 2\n", "cannot be read: a key stands twice"),
        (
            f"users: [{{name: a, user: {{password: *{SECRET}}}}}]",
            "cannot be read: a key stands twice, a tag or an alias",
        ),
        (f"users: [{{name: a, user: {{password: !{SECRET} x}}}}]", "cannot be read: a key stands twice, a tag or"),
        pytest.param("[" * 250 + "]" * 250, "cannot be read: ", id="deep"),
        pytest.param("a: " + "[" * 250, "cannot be read: ", id="deep and not closed"),
        ("a: 1\n---\nb: 1\n", "holds 2 YAML documents"),
        ("kind: Pod\n", "kind: is not `Config`"),
        ("current-context: [x]\n", "current-context: is not a text"),
        ("users: {a: 1}\n", "users: is not a list"),
        ("users: [1]\n", "users[0]: is not a mapping"),
        ("users: [{name: 1}]\n", "users[0].name: is not a text"),
        ("contexts: [{name: a}, {name: b}, {name: a}]\n", "contexts[2].name: `a` is there already"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_the_place_and_a_hint(written: str, problem: str) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(f'kubeconfig `/etc/a`: {problem}')}") as caught:
        parse(written)
    assert caught.value.hint
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("data", [b"\xff", b"\xff\xfe", b"a: \xff", b"a: \xc3"])
def test_a_file_that_is_not_utf8_is_an_error(data: bytes) -> None:
    with pytest.raises(InputError, match="kubeconfig `/etc/a`: is not YAML"):
        parse_kubeconfig(data, Path("/etc/a"))


def test_kubeconfigs_may_be_json() -> None:
    assert parse('{"kind": "Config", "current-context": "x"}').current_context == "x"


def test_values_of_users_are_in_no_representation() -> None:
    config = parse(text("main", contexts=CONTEXT, clusters=CLUSTER, users={"main": {"token": SECRET}}))
    assert SECRET not in f"{config} {resolve_context(config)}"


# merge --------------------------------------------------------------------------------------------------------------


def test_the_first_file_wins_with_its_whole_entry() -> None:
    """Nothing of the second file's entry of the same name is added to it."""
    first = text(contexts=CONTEXT, clusters=CLUSTER, users={"main": {"username": "ann"}})
    second = text(
        "main",
        clusters={"main": {"server": "https://other.test", "tls-server-name": "x"}},
        users={"main": {"token": SECRET}},
    )
    context = resolve(("/etc/a", first), ("/etc/b", second))
    assert (context.cluster.server, context.cluster.tls_server_name) == ("https://api.test", "")
    assert (context.user.username, context.user.token) == ("ann", "")


def test_a_context_may_name_entries_of_other_files() -> None:
    users = text(users={"main": {"tokenFile": "token"}})
    clusters = text(clusters={"main": {"server": "https://api.test", "certificate-authority": "../ca"}})
    context = resolve(("/etc/a", text("main", contexts=CONTEXT)), ("/home/b", users), ("/srv/x/c", clusters))
    assert (context.user.token_file, context.cluster.certificate_authority) == ("/home/token", "/srv/x/../ca")


def test_the_first_current_context_wins() -> None:
    configs = [parse(text(name) + "kind: Config\n", f"/etc/{name}") for name in ("", "one", "two")]
    assert merge_kubeconfigs(configs).current_context == "one"


# resolve ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "context", "problem", "hint"),
    [
        (text(contexts=CONTEXT), None, "names no current context", "known: main"),
        (text("x", contexts=CONTEXT), None, "has no context `x`", "known: main"),
        (text("main", contexts=CONTEXT), "y", "has no context `y`", "known: main"),
        (text("x", users={"a": {}}), None, "has no context `x`", "known: none"),
        (text("main", contexts={"main": {}}), None, "contexts[name=main].context.cluster: is missing", "known: none"),
        (
            text("main", contexts=CONTEXT, clusters={"other": {}}),
            None,
            "contexts[name=main].context.cluster: there is no `main`",
            "known: other",
        ),
        (
            text("main", contexts=CONTEXT, clusters=CLUSTER, users={"a": {}, "b": {}}),
            None,
            "contexts[name=main].context.user: there is no `main`",
            "known: a, b",
        ),
    ],
)
def test_a_name_that_is_not_there_is_an_error_with_those_that_are(
    config: str, context: str | None, problem: str, hint: str
) -> None:
    with pytest.raises(InputError) as caught:
        resolve(("/etc/a", config), context=context)
    assert (caught.value.message, caught.value.hint) == (f"kubeconfig `/etc/a`: {problem}", hint)


def test_a_message_does_not_list_thousands_of_names() -> None:
    many = text("x", contexts={f"c{i}": {} for i in range(5_000)})
    with pytest.raises(InputError) as caught:
        resolve(("/etc/a", many))
    assert str(caught.value.hint).startswith("known: c0, c1, ")
    assert str(caught.value.hint).endswith(" c49, and 4950 more")


def test_a_context_without_a_user_is_anonymous() -> None:
    context = resolve(("/etc/a", text("main", contexts={"main": {"cluster": "main"}}, clusters=CLUSTER)))
    assert context.user == context.user.without_credentials()


@pytest.mark.parametrize("key", ["token", "password", "client-key-data", "tokenFile", "as"])
def test_a_number_in_place_of_a_text_is_named_and_not_quoted(key: str) -> None:
    """As with kubectl: whether 0123 is meant as a text is not known any more once it was read."""
    config = text("main", contexts=CONTEXT, clusters=CLUSTER, users={"main": {key: 4711}})
    with pytest.raises(InputError) as caught:
        resolve(("/etc/a", config))
    assert str(caught.value) == f"kubeconfig `/etc/a`: users[name=main].user.{key}: is not a text\n  hint: quote it"


@pytest.mark.parametrize(("key", "value"), [("as-groups", "a"), ("as-user-extra", {"a": "b"}), ("auth-provider", "x")])
def test_a_field_of_another_type_is_named(key: str, value: Any) -> None:
    config = text("main", contexts=CONTEXT, clusters=CLUSTER, users={"main": {key: value}})
    with pytest.raises(InputError, match=re.escape(f"users[name=main].user.{key}: is not a ")):
        resolve(("/etc/a", config))


def test_an_entry_that_is_not_used_may_be_wrong() -> None:
    """Other clusters of the same file are no reason to refuse this one."""
    others: dict[str, Any] = {"other": {"server": 1, "insecure-skip-tls-verify": "x"}, "third": "x"}
    context = resolve(("/etc/a", text("main", contexts={"main": {"cluster": "main"}}, clusters=CLUSTER | others)))
    assert context.cluster.server == "https://api.test"


def test_unknown_fields_are_ignored() -> None:
    cluster = {"main": {"server": "https://api.test", "disable-compression": True, "from-the-future": 1}}
    context = resolve(("/etc/a", text("main", contexts={"main": {"cluster": "main"}}, clusters=cluster)))
    assert context.cluster.server == "https://api.test"

"""Kubeconfigs with values that do not belong there: an access, or an error with the file and a way out."""

import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muster.errors import InputError
from muster.kube.client.cluster_config import load_kubeconfig

SECRET = "s3cr3t"
EXEC = {"apiVersion": "client.authentication.k8s.io/v1", "command": "true", "env": [{"name": "A", "value": SECRET}]}
USER = {
    "token": SECRET,
    "username": "u",
    "password": SECRET,
    "client-certificate-data": "YQ==",
    "client-key-data": "YQ==",
    "as": "ann",
    "as-groups": ["g"],
    "as-user-extra": {"k": ["v"]},
    "exec": EXEC,
}
CLUSTER = {
    "server": "https://api.test",
    "certificate-authority-data": "YQ==",
    "tls-server-name": "x",
    "proxy-url": f"http://u:{SECRET}@proxy.test",
    "insecure-skip-tls-verify": False,
    "extensions": [{"name": "e", "extension": {}}],
}
CONFIG: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "a",
    "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
    "clusters": [{"name": "a", "cluster": CLUSTER}],
    "users": [{"name": "a", "user": USER}],
}
VALUES: tuple[Any, ...] = (
    *(None, "", "x", 0, 1.5, True, 10**50, float("nan"), "\0", "ü", "https://[", "http://h:99999999", "//"),
    *([], {}, ["x"], {"x": "y"}, [None], {"name": None}, [["x"]], {"": ""}),
)


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Of every value inside."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from paths(inner, (*path, key))


def damage(config: dict[str, Any], chance: random.Random) -> None:
    """Remove or replace one value."""
    *parents, key = chance.choice([*paths(config)])
    holder: Any = config
    for parent in parents:
        holder = holder[parent]
    if chance.random() < 0.5:
        holder[key] = copy.deepcopy(chance.choice(VALUES))
    else:
        del holder[key]


def find_error(file: Path) -> InputError | None:
    try:
        load_kubeconfig(str(file))
    except InputError as error:
        return error
    return None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(seed=st.integers(0, 2**32))
def test_any_kubeconfig_gives_an_access_or_an_error_with_a_hint(tmp_path: Path, seed: int) -> None:
    chance, config = random.Random(seed), copy.deepcopy(CONFIG)
    for _ in range(chance.randint(1, 3)):
        damage(config, chance)
    file = tmp_path / "config"
    file.write_text(json.dumps(config))
    if error := find_error(file):
        assert error.message.startswith(f"kubeconfig `{file}`: ")
        assert error.hint
        assert SECRET not in str(error)

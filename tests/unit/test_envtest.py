"""Where the tests find a real API server, and what is said where there is none."""

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.apiserver import envtest
from tests.support.apiserver.server_process import NotStarted, ServerProcess


def programs(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    return folder


def test_the_convention_comes_first_and_alone(tmp_path: Path) -> None:
    given = programs(tmp_path / "given", *envtest.SERVERS)
    other = programs(tmp_path / "other", *envtest.SERVERS)
    half = programs(tmp_path / "half", "etcd")
    away = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": str(other)}
    assert envtest.find_programs({**away, "KUBEBUILDER_ASSETS": str(given)}) == {
        name: given / name for name in envtest.SERVERS
    }
    assert envtest.find_programs({**away, "KUBEBUILDER_ASSETS": str(half)}) is None
    assert envtest.find_programs(away) == {name: other / name for name in envtest.SERVERS}


def test_what_was_built_comes_before_what_is_on_the_path(tmp_path: Path) -> None:
    environment = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": str(programs(tmp_path / "bin", *envtest.SERVERS))}
    kept = programs(envtest.cache(environment), *envtest.SERVERS)
    assert envtest.find_programs(environment) == {name: kept / name for name in envtest.SERVERS}


def test_another_version_has_a_folder_of_its_own_and_is_never_taken_from_the_path(tmp_path: Path) -> None:
    environment = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": str(programs(tmp_path / "bin", *envtest.SERVERS))}
    older = {**environment, envtest.ANOTHER_VERSION: "v1.30.14"}
    assert envtest.find_programs(older) is None
    kept = programs(envtest.cache(older), *envtest.SERVERS)
    assert envtest.cache(older) != envtest.cache(environment)
    assert envtest.find_programs(older) == {name: kept / name for name in envtest.SERVERS}
    with pytest.raises(envtest.Missing, match=r"MUSTER_KUBERNETES is `1\.30`; a version looks like `v1\."):
        envtest.version({envtest.ANOTHER_VERSION: "1.30"})


def test_the_controller_manager_is_the_one_beside_the_api_server(tmp_path: Path) -> None:
    """A controller manager must not be newer than its API server; without one, the servers still count."""
    bin_folder = programs(tmp_path / "bin", *envtest.PROGRAMS)
    environment = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": str(bin_folder)}
    assert envtest.find_programs(environment) == {name: bin_folder / name for name in envtest.PROGRAMS}
    kept = programs(envtest.cache(environment), *envtest.SERVERS)
    assert envtest.find_programs(environment) == {name: kept / name for name in envtest.SERVERS}


def _without_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    which = shutil.which
    monkeypatch.setattr("shutil.which", lambda name, **options: None if name == "go" else which(name, **options))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))


def test_servers_of_others_are_taken_without_a_controller_manager(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _without_go(tmp_path, monkeypatch)
    bin_folder = programs(tmp_path / "bin", *envtest.SERVERS)
    assert envtest.provide() == {name: bin_folder / name for name in envtest.SERVERS}
    given = programs(tmp_path / "given", *envtest.SERVERS)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(given))
    assert envtest.provide() == {name: given / name for name in envtest.SERVERS}


def test_only_what_the_cache_lacks_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    kept = programs(envtest.cache(), *envtest.SERVERS)
    built: list[str] = []

    def build(_: str, made: Path, name: str, __: object, package: str) -> None:
        (made / name).write_text("#!/bin/sh\n")
        (made / name).chmod(0o755)
        built.append(package)

    monkeypatch.setattr("shutil.which", _with_go(shutil.which))
    monkeypatch.setattr(envtest, "_go_mod", lambda _: "")
    monkeypatch.setattr(envtest, "_build", build)
    assert envtest.provide() == {name: kept / name for name in envtest.PROGRAMS}
    assert built == ["k8s.io/kubernetes/cmd/kube-controller-manager"]
    assert envtest.provide() == envtest.find_programs()
    assert len(built) == 1


def _with_go(which: Callable[..., str | None]) -> Callable[..., str | None]:
    return lambda name, **options: "go" if name == "go" else which(name, **options)


def test_a_cache_without_controller_manager_serves_where_nothing_can_be_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _without_go(tmp_path, monkeypatch)
    programs(envtest.cache(), *envtest.SERVERS)
    assert envtest.main(["--if-possible"]) == 0
    assert capsys.readouterr().err == f"envtest: {envtest.HOW_TO_GET_CONTROLLERS}\n"
    assert set(envtest.find_programs() or ()) == set(envtest.SERVERS)


def test_where_there_is_nothing_one_line_says_how_to_get_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    assert envtest.main([]) == 1
    assert envtest.main(["--if-possible"]) == 0
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines() == [f"envtest: {envtest.HOW_TO_GET_THEM}"] * 2


def test_assets_that_hold_nothing_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    with pytest.raises(envtest.Missing, match="does not hold etcd and kube-apiserver"):
        envtest.provide()


def test_modules_of_the_repository_become_published_ones() -> None:
    made = envtest.kubernetes_module("replace (\n\tk8s.io/api => ./staging/src/k8s.io/api\n)\n")
    assert f"k8s.io/api => k8s.io/api v0{envtest.KUBERNETES.removeprefix('v1')}\n" in made
    assert "staging" not in made


def test_a_program_that_ends_at_once_is_reported_with_its_last_words(tmp_path: Path) -> None:
    process = ServerProcess(Path("/bin/sh"), ["-c", "echo address in use; exit 3"], tmp_path)
    with pytest.raises(NotStarted, match=r"sh\.log ends with 3: address in use"):
        _check_often(process)
    process.stop()


def _check_often(process: ServerProcess) -> None:
    for _ in range(1000):
        process.check()
        time.sleep(0.01)

"""Where the tests find a browser, and what is said where there is none."""

from pathlib import Path

import pytest

from tests.support import chromium


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_the_variable_comes_first_and_alone(tmp_path: Path) -> None:
    given, other = program(tmp_path / "given" / "browser"), program(tmp_path / "bin" / "chromium")
    assert chromium.find_chromium({"MUSTER_CHROMIUM": str(given), "PATH": str(other.parent)}) == given
    assert chromium.find_chromium({"MUSTER_CHROMIUM": str(tmp_path / "none"), "PATH": str(other.parent)}) is None
    assert chromium.find_chromium({"PATH": str(other.parent)}) == other


def test_where_it_cannot_be_had_one_line_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("MUSTER_CHROMIUM", str(tmp_path / "none"))
    assert chromium.main(["--if-possible"]) == 0
    assert capsys.readouterr().err == f"browser: {chromium.HOW_TO_GET_IT}\n"
    assert chromium.main([]) == 1


def test_a_package_that_cannot_be_installed_fails_no_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """`make test` goes on without a browser, whatever apt-get says."""
    commands: list[tuple[str, ...]] = []

    def fail(*arguments: str) -> bool:
        commands.append(arguments)
        return arguments[0] != "install"

    monkeypatch.delenv("MUSTER_CHROMIUM", raising=False)
    monkeypatch.setattr(chromium, "find_chromium", lambda: None)
    monkeypatch.setattr(chromium, "_is_done", fail)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("shutil.which", lambda _name: "/usr/bin/apt-get")
    assert chromium.main(["--if-possible"]) == 0
    assert [arguments[0] for arguments in commands] == ["install", "update", "install"]
    assert "apt-get could not install" in capsys.readouterr().err


def test_only_root_installs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MUSTER_CHROMIUM", raising=False)
    monkeypatch.setattr(chromium, "find_chromium", lambda: None)
    monkeypatch.setattr(chromium, "_is_done", lambda *_: pytest.fail("apt-get was called"))
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(chromium.NoChromium, match="apt-get install chromium"):
        chromium.provide()

"""Wheel and sdist: the same bytes wherever and whenever they are built, and they work where nothing else is."""

import os
import shutil
import site
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from release import __main__ as release
from release.distributions import NotReleased, build, build_twice, run, verify

ROOT = Path(__file__).parents[3]
EPOCH = 1_767_225_600
IS_NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE", "") == "nightly"
ASK_INDEX = ["-m", "pip", "download", "--quiet", "--no-deps", "--retries", "0", "--timeout", "10", "hatchling"]
SOURCES = ("src", "README.md", "LICENSE", "CHANGELOG.md", "pyproject.toml", ".gitignore")


def copied(folder: Path, mode: int) -> Path:
    """The tree in another place, with other times and another mask."""
    for name in SOURCES:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, copy_function=shutil.copyfile)
        else:
            folder.mkdir(exist_ok=True)
            shutil.copyfile(source, folder / name)
    for path in folder.rglob("*"):
        path.chmod(mode | 0o100 if path.is_dir() else mode)
        os.utime(path, (mode * 1000, mode * 1000))
    return folder


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("release")
    return build(copied(folder / "one", 0o644), folder / "dist", EPOCH)


def test_two_builds_are_the_same_bytes(built: list[Path], tmp_path: Path) -> None:
    """Whoever does not trust the files builds them again and compares."""
    again = build(copied(tmp_path / "elsewhere", 0o600), tmp_path / "dist", EPOCH)
    assert [path.name for path in built] == [path.name for path in again]
    assert [path.suffix for path in built] == [".whl", ".gz"]
    assert [path.read_bytes() for path in built] == [path.read_bytes() for path in again]


def test_a_build_that_differs_is_no_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    builds: list[Path] = []

    def differing(_root: Path, folder: Path, _epoch: int) -> list[Path]:
        builds.append(folder / "muster-1.whl")
        folder.mkdir(exist_ok=True)
        builds[-1].write_text(str(len(builds)))
        return builds[-1:]

    monkeypatch.setattr("release.distributions.build", differing)
    with pytest.raises(NotReleased, match=r"two builds differ in muster-1\.whl"):
        build_twice(tmp_path, tmp_path / "dist", EPOCH)


def test_they_hold_the_package_and_nothing_of_this_place(built: list[Path]) -> None:
    wheel, sdist = built
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
        assert {name.partition("/")[0].partition("-")[0] for name in names} == {"muster"}
        assert {"muster/facade.py", "muster/py.typed"} <= set(names)
    with tarfile.open(sdist) as unpacked:
        members = unpacked.getmembers()
    assert {(member.uid, member.gid, member.uname, member.gname) for member in members} == {(0, 0, "", "")}
    assert {int(member.mtime) for member in members} == {EPOCH}
    assert not [name for name in names if "__pycache__" in name or "tests" in name]


@pytest.mark.parametrize("number", [0, 1], ids=["wheel", "sdist"])
def test_it_works_where_it_is_installed(built: list[Path], number: int) -> None:
    """With pip, into a new environment; dependencies and build backend are those that are here already."""
    here = Path(sysconfig.get_paths()["purelib"])
    assert here.is_dir(), site.getsitepackages()
    verify(built[number], ROOT / "examples", here)


@pytest.mark.skipif(not IS_NIGHTLY, reason="downloads all dependencies, which takes minutes: `make nightly`")
def test_the_sdist_works_where_nothing_else_is(built: list[Path], tmp_path: Path) -> None:
    """pip gets the build backend and all dependencies from its index, as it does for users."""
    venv.create(tmp_path / "venv", with_pip=True, symlinks=True)
    try:
        run([str(tmp_path / "venv/bin/python"), *ASK_INDEX], tmp_path)
    except NotReleased as why:
        pytest.skip(f"pip's package index cannot be reached: {why}")
    verify(built[1], ROOT / "examples")


def test_a_distribution_that_does_not_work_is_no_release(built: list[Path], tmp_path: Path) -> None:
    """Here an sdist with another command line."""
    whole, broken = tmp_path / "whole", tmp_path / built[1].name
    with tarfile.open(built[1]) as packed:
        packed.extractall(whole, filter="data")
    (folder,) = whole.iterdir()
    (folder / "src/muster/cli/main.py").write_text("def main():\n    print('something else')\n")
    with tarfile.open(broken, "w:gz") as packed:
        packed.add(folder, folder.name)
    with pytest.raises(NotReleased, match=rf"{built[1].name} does not work: expected `muster "):
        verify(broken, ROOT / "examples", Path(sysconfig.get_paths()["purelib"]))


def test_a_step_that_fails_is_named_with_its_last_words(tmp_path: Path) -> None:
    with pytest.raises(NotReleased, match=r"`sh -c .* failed: no space left"):
        run(["sh", "-c", "echo no space left >&2; exit 3"], tmp_path)
    with pytest.raises(NotReleased, match="`no-such-program` cannot be run"):
        run(["no-such-program"], tmp_path)


def test_what_is_not_committed_is_not_released(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release, "run", lambda *_: " M src/muster/facade.py\n?? notes\n")
    with pytest.raises(NotReleased, match=r"2 files differ from the commit, such as `src/muster/facade\.py`"):
        release._commit()

"""What `muster snapshot` writes: all that verbs read, nothing else, and for the eyes of its owner alone."""

import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from click.testing import CliRunner, Result

import muster
from muster.api import codec
from muster.api.codec import Document
from muster.api.decoding import decode, known_fields
from muster.api.objects import KINDS, WATCHED_KINDS
from muster.api.resources import Resource
from muster.cli import live
from muster.cli.main import cli

T = TypeVar("T")
Raw = dict[str, Any]
Capture = Callable[..., Result]
SECRET = "hunter2"
CASES = sorted(Path("conformance").glob("*.yaml"))
NOISE = {  # what a real pod also has
    "env": [{"name": "PASSWORD", "value": SECRET}],
    "command": ["run", f"--token={SECRET}"],
    "image": "registry/image",
    "volumeMounts": [{"name": SECRET, "mountPath": "/x"}],
}
LAST_APPLIED = {"kubectl.kubernetes.io/last-applied-configuration": SECRET, "vault.example.com/token": SECRET}


@pytest.fixture
def capture(monkeypatch: pytest.MonkeyPatch) -> Capture:
    """`muster snapshot` of a cluster that holds these documents."""

    def captured(folder: Path, raws: list[Raw], *more: str) -> Result:
        def read(_kubeconfig: str, _context: str, keep: live.Reduce[T]) -> dict[Resource, list[T]]:
            return {kind: [keep([Document("", raw) for raw in raws if _is(raw, kind)])] for kind in WATCHED_KINDS}

        monkeypatch.setattr(live, "read", read)
        return CliRunner().invoke(cli, ["snapshot", str(folder), "--kubeconfig", "k", *more], standalone_mode=False)

    return captured


def _is(raw: Raw, kind: Resource) -> bool:
    return (raw["apiVersion"], raw["kind"]) == (kind.api_version, kind.kind)


def objects_of(case: Path) -> list[Raw]:
    return [document.raw for document in codec.read(case.read_bytes(), case.name) if document.kind]


def noisy(raw: Raw) -> Raw:
    """As a cluster would have it, with secrets where people put them."""
    meta = {**raw["metadata"], "annotations": {**raw["metadata"].get("annotations", {}), **LAST_APPLIED}}
    if raw["kind"] != "Pod":
        return {**raw, "metadata": meta}
    spec = {**raw["spec"], "containers": [{**container, **NOISE} for container in raw["spec"].get("containers", ())]}
    spec |= {"volumes": [*raw["spec"].get("volumes", ()), {"name": SECRET, "secret": {"secretName": SECRET}}]}
    status = {**raw.get("status", {}), "containerStatuses": [{"name": "c", "containerID": SECRET}]}
    return {**raw, "metadata": meta, "spec": spec, "status": status}


def texts(folder: Path) -> str:
    return "".join(path.read_text() for path in sorted(folder.iterdir()))


def test_only_the_owner_may_read_it(capture: Capture, tmp_path: Path) -> None:
    folder = tmp_path / "captured"
    assert capture(folder, objects_of(CASES[0])).exit_code == 0
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}


def test_a_link_under_the_name_of_a_new_file_is_not_followed(
    capture: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder that others may write to, a link would send what is captured elsewhere."""
    folder, elsewhere = tmp_path / "captured", tmp_path / "elsewhere"
    folder.mkdir()
    monkeypatch.setattr("os.getpid", lambda: 7)
    (folder / ".pods.yaml.new-7").symlink_to(elsewhere)
    assert capture(folder, objects_of(CASES[0])).exit_code == 0
    assert not elsewhere.exists()
    assert not (folder / "pods.yaml").is_symlink()


def test_what_no_verb_reads_is_left_out_unless_asked_for(capture: Capture, tmp_path: Path) -> None:
    raws = [noisy(raw) for raw in objects_of(CASES[0])]
    capture(tmp_path / "trimmed", raws)
    assert SECRET not in texts(tmp_path / "trimmed")
    capture(tmp_path / "full", raws, "--full")
    assert SECRET in texts(tmp_path / "full")
    assert muster.plan(muster.load(str(tmp_path / "trimmed"))).to_dict() == (
        muster.plan(muster.load(str(tmp_path / "full"))).to_dict()
    )


@pytest.mark.parametrize("case", CASES[::12], ids=lambda case: case.stem)
def test_every_verb_answers_as_on_the_whole_snapshot(capture: Capture, tmp_path: Path, case: Path) -> None:
    raws = [noisy(raw) for raw in objects_of(case)]
    full, trimmed = tmp_path / "full", tmp_path / "trimmed"
    capture(full, raws, "--full")
    capture(trimmed, raws)
    for verb in ("plan", "tree", "topology", "queues", "group", "validate"):
        seen = [CliRunner().invoke(cli, [verb, str(folder), "-o", "json"]) for folder in (full, trimmed)]
        assert _words(seen[0], full) == _words(seen[1], trimmed), verb


def _words(result: Result, folder: Path) -> tuple[str, int]:
    return result.output.replace(str(folder), "FOLDER"), result.exit_code


def test_nothing_that_is_decoded_is_lost() -> None:
    """The definition: an object without the fields that are not read decodes to the same value."""
    raws = [raw for case in CASES for raw in objects_of(case)]
    assert len(raws) > 1000
    for raw in raws:
        kind = KINDS[raw["apiVersion"], raw["kind"]]
        assert decode(known_fields(noisy(raw), kind), kind) == decode(noisy(raw), kind)


def test_values_that_do_not_fit_stay_and_are_still_named() -> None:
    raw = {"metadata": {"name": "p"}, "spec": {"containers": "none", "nodeSelector": ["a"], "priority": "high"}}
    kind = KINDS["v1", "Pod"]
    assert decode(known_fields(raw, kind), kind)[1] == decode(raw, kind)[1] != ()

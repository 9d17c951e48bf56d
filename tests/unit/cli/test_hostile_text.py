"""No object, file name or argument paints on the terminal: what one would obey or hide comes out as an escape."""

import json
import re
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster.api import codec
from muster.cli.main import VERBS, main
from muster.control_characters import escape_json, visible, visible_lines
from muster.reporting.text import Span, plain

HOSTILE = "x\x1b[2J\x9b31m\x07\u202etxt\u2066\u200b\x7f\r\nerror: forged"
COLOUR = re.compile(r"\x1b\[[0-9;]*m")  # muster's own
Run = Callable[..., str]
QUIET = {"run", "up", "snapshot", "conformance", "crds", "wait-for-cliques"}  # they print no object of a file


def hostile_objects() -> list[dict[str, Any]]:
    """Every name, label and message is hostile, wherever an object can hold text."""
    meta = {"name": HOSTILE, "namespace": HOSTILE, "labels": {HOSTILE: HOSTILE}, "annotations": {HOSTILE: HOSTILE}}
    pod_meta = meta | {"annotations": {"pod-group-name": HOSTILE}, "labels": {"kai.scheduler/subgroup-name": HOSTILE}}
    condition = {"type": HOSTILE, "status": "False", "reason": HOSTILE, "message": HOSTILE}
    group = {"queue": HOSTILE, "priorityClassName": HOSTILE, "subGroups": [{"name": HOSTILE, "minMember": 1}]}
    cpu = {"cpu": "1", HOSTILE: "1"}
    return [
        _object("scheduling.run.ai/v2alpha2", "PodGroup", meta, group, {"conditions": [condition]}),
        _object("scheduling.run.ai/v2", "Queue", meta, {"parentQueue": HOSTILE, "displayName": HOSTILE}),
        _object("kai.scheduler/v1alpha1", "Topology", meta, {"levels": [{"nodeLabel": HOSTILE}]}),
        _object("v1", "Node", meta, {"taints": [{"key": HOSTILE, "effect": HOSTILE}]}, {"allocatable": cpu}),
        _object("v1", "Pod", pod_meta, {"containers": [{"name": HOSTILE, "resources": {"requests": cpu}}]}),
        _object("v1", HOSTILE, meta, {}),
        _object("batch/v1", "Job", meta, {"template": {"metadata": meta, "spec": {"containers": []}}}),
        _object("grove.io/v1alpha1", "PodCliqueSet", meta, {HOSTILE: HOSTILE}),
    ]


def _object(
    version: str, kind: str, meta: dict[str, Any], spec: dict[str, Any], status: dict[str, Any] | None = None
) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": meta, "spec": spec, "status": status or {}}


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """All that `muster` prints for these arguments, errors too."""

    def ran(*arguments: str, terminal: bool = False) -> str:
        monkeypatch.setattr("sys.argv", ["muster", *arguments])
        monkeypatch.setattr("sys.stdout.isatty", lambda: terminal)
        monkeypatch.delenv("NO_COLOR", raising=False)
        with pytest.raises(SystemExit):
            main()
        printed = capsys.readouterr()
        return COLOUR.sub("", printed.out + printed.err) if terminal else printed.out + printed.err

    return ran


def painted(text: str) -> list[str]:
    """What a terminal would obey or hide, by the tables of Unicode; and lines that objects have forged."""
    obeyed = [mark for mark in text if mark != "\n" and unicodedata.category(mark) in ("Cc", "Cf", "Cs", "Zl", "Zp")]
    return [*map(ascii, obeyed), *(line for line in text.split("\n") if line.startswith("error: forged"))]


def write(folder: Path, objects: list[dict[str, Any]], name: str = "objects.json") -> Path:
    path = folder / name
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}), encoding="utf-8")
    return path


READING = [verb for verb in VERBS if verb not in QUIET]
READING_OBJECTS = [verb for verb in READING if verb != "simulate"]  # it reads scenarios: see test_simulate.py
ONE_BY_ONE = [[raw] for raw in hostile_objects()]


@pytest.mark.parametrize("form", ["", "json", "yaml", "terminal", "mermaid"])
@pytest.mark.parametrize("verb", READING_OBJECTS)
def test_every_verb_neutralises_what_objects_hold(run: Run, tmp_path: Path, verb: str, form: str) -> None:
    subject = [f"{HOSTILE}/{HOSTILE}"] if verb == "explain" else []
    output = ["-o", form] if form in ("json", "yaml", "mermaid") else []
    printed = ""
    for objects in (*ONE_BY_ONE, hostile_objects()[:5]):
        path = write(tmp_path, objects)
        printed += run(verb, *subject, str(path), *output, terminal=form == "terminal")
    assert painted(printed) == []
    assert re.search(r"\\x1b\[2J|\\u001b\[2J|\\e\[2J|there is no|not one of", printed), "and it was printed at all"


@pytest.mark.parametrize("verb", READING)
def test_names_of_files_and_arguments_are_neutralised(run: Run, tmp_path: Path, verb: str) -> None:
    path = write(tmp_path, [{"apiVersion": "v1"}], f"{HOSTILE.replace('/', '')}.json")
    printed = run(verb, str(path)) + run(verb, "a/b", HOSTILE) + run(verb, f"--{HOSTILE}") + run(HOSTILE)
    assert painted(printed) == []
    assert "\\x1b[2J" in printed


def test_values_of_wrong_types_are_neutralised(run: Run, tmp_path: Path) -> None:
    """Several broken documents make one error of many lines, none of which an object has written."""
    wrong = [{**raw, "spec": HOSTILE} for raw in hostile_objects()[:5]]
    for verb in READING:
        assert painted(run(verb, *(["a/b"] if verb == "explain" else []), str(write(tmp_path, wrong)))) == []


def test_errors_of_kubeconfigs_are_neutralised(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    named = {"name": HOSTILE, "cluster": {"server": HOSTILE}, "context": {"cluster": HOSTILE, "user": HOSTILE}}
    path.write_text(json.dumps({"kind": "Config", "clusters": [named], "contexts": [named], "users": [named]}))
    printed = run("queues", "--kubeconfig", str(path))
    printed += run("queues", "--kubeconfig", str(path), "--context", HOSTILE)
    printed += run("queues", "--kubeconfig", str(path), "--context", "other")
    path.write_text(HOSTILE)
    printed += run("queues", "--kubeconfig", str(path))
    assert painted(printed) == []


def test_objects_come_back_from_json_and_yaml_as_they_were() -> None:
    raw = {HOSTILE: [HOSTILE, "plain", "\U000e0041", "two\nlines", "ünï", "'"]}
    assert json.loads(codec.to_json(raw)) == raw
    assert json.loads(codec.to_json_line(raw)) == raw
    assert list(yaml.safe_load_all(codec.to_yaml([raw, raw]))) == [raw, raw]
    for text in (codec.to_json(raw), codec.to_json_line(raw), codec.to_yaml([raw])):
        assert painted(text) == []


def test_lines_of_a_message_are_those_that_are_indented() -> None:
    assert visible_lines("error: a\nb\n  hint: c\x1b") == "error: a\\nb\n  hint: c\\x1b"
    assert visible("a\tb\u202e\U000e0001\udc80") == "a\\tb\\u202e\\U000e0001\\udc80"
    assert plain([[Span("a\n"), Span("b")], [Span("c")]]) == "a\\nb\nc"
    assert escape_json('"\x9b\U000e0001"') == '"\\u009b\\udb40\\udc01"'


def test_verbs_print_through_one_module() -> None:
    """`printing` makes text visible; `main` prints the last error, and `wait-for-cliques` imports little."""
    direct = {
        path.name
        for path in Path("src/muster/cli").rglob("*.py")
        if re.search(r"click\.s?echo\(|\bprint\(", path.read_text())
    }
    assert direct == {"printing.py", "main.py", "wait_for_cliques.py"}

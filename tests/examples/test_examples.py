"""The examples are promises too: each is read, judged, converted and drawn as its header says.

A header line `# word: value` is data: `form of record` names the counterpart of an older dialect, `refused by` the
rules that an invalid example breaks. Paths are relative to the file.
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from click.testing import CliRunner

import muster
from muster.api import codec
from muster.api.codec import Document
from muster.api.podgroup import PodGroup
from muster.cli.main import cli
from muster.conversion.older_formats import convert
from muster.errors import Refused

EXAMPLES = Path(__file__).parents[2] / "examples"
CLUSTER = EXAMPLES / "cluster"
EVERY = sorted(EXAMPLES.rglob("*.yaml"))
OF_RECORD = sorted(EXAMPLES.glob("*.yaml"))
OLDER = sorted((EXAMPLES / "dialects").glob("*.yaml"))
INVALID = sorted((EXAMPLES / "invalid").glob("*.yaml"))

HEADER = re.compile(r"# ([a-z][a-z ]*): (.+)")


class Output(NamedTuple):
    """What a command answered."""

    code: int
    stdout: str
    stderr: str


def tell(*args: str | Path) -> Output:
    result = CliRunner().invoke(cli, [str(arg) for arg in args], catch_exceptions=False, standalone_mode=False)
    assert isinstance(result.return_value, int)
    return Output(result.return_value, result.stdout, result.stderr)


def headers(path: Path) -> dict[str, str]:
    """The comments before the first object that have the form `# word: value`."""
    values = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        if header := HEADER.fullmatch(line):
            values[header[1]] = header[2]
    return values


def rules_of(path: Path, word: str) -> set[str]:
    return set(headers(path)[word].split(", "))


def counterpart(path: Path) -> Path:
    return path.parent.joinpath(headers(path)["form of record"]).resolve()


def documents(path: Path) -> list[Document]:
    return codec.read(path.read_bytes(), path.name)


def groups(path: Path) -> list[Document]:
    return [document for document in documents(path) if document.kind is PodGroup]


def only_spec(raws: list[Any]) -> Any:
    """The spec of the one PodGroup among these."""
    (group,) = (raw for raw in raws if raw["kind"] == "PodGroup")
    return group["spec"]


def parts_of(spec: Any) -> list[str]:
    return [part["name"] for part in spec["subGroups"]]


def named(path: Path) -> str:
    return str(path.relative_to(EXAMPLES).with_suffix(""))


CONVERTIBLE = [path for path in EVERY if "form of record" in headers(path)]
WITH_GROUPS = [path for path in EVERY if groups(path)]
each = pytest.mark.parametrize("path", EVERY, ids=named)
each_of_record = pytest.mark.parametrize("path", OF_RECORD, ids=named)
each_older = pytest.mark.parametrize("path", OLDER, ids=named)
each_invalid = pytest.mark.parametrize("path", INVALID, ids=named)
each_convertible = pytest.mark.parametrize("path", CONVERTIBLE, ids=named)


# every file ---------------------------------------------------------------------------------------------------------


@each
def test_an_example_says_on_its_first_line_what_it_is_for(path: Path) -> None:
    """Whoever opens a file, or lists the folder with `head -n 1`, knows at once whether it is the right one."""
    first = path.read_text(encoding="utf-8").splitlines()[0]
    assert re.fullmatch(r"# [A-Z].{20,115}\.", first)


@each
def test_an_example_points_only_to_files_that_are_there(path: Path) -> None:
    """A reader follows the header to the counterpart, the pods, or what was meant."""
    stated = headers(path)
    for word in ("form of record", "its pods", "what was meant"):
        assert word not in stated or (path.parent / stated[word]).is_file(), stated[word]


def test_the_whole_folder_is_read_at_once() -> None:
    """Names are unique in their namespaces, dialects and invalid ones included, so nothing is given twice."""
    output = tell("validate", EXAMPLES)
    assert "twice" not in output.stdout
    others = [path for path in EVERY if path.parent.name != "workloads"]  # there are kinds that only the grouper reads
    assert "left alone" not in tell("validate", *others).stderr
    assert len(muster.load(EXAMPLES).pod_groups) == len(WITH_GROUPS)


# the form of record -------------------------------------------------------------------------------------------------


@each_of_record
def test_an_example_of_record_is_valid_by_itself(path: Path) -> None:
    """People copy a single file, without the cluster beside it."""
    for document in documents(path):
        assert [str(problem) for problem in muster.validate(document.raw) if problem.severity == "error"] == []
    assert tell("validate", path).code == 0


def test_the_examples_of_record_are_valid_in_their_cluster() -> None:
    """With topologies, queues and priorities beside them, every level and every queue that they name exists."""
    output = tell("validate", "-o", "json", CLUSTER, *OF_RECORD)
    problems = [problem for judged in json.loads(output.stdout)["objects"] for problem in judged["problems"]]
    assert output.code == 0
    assert [problem for problem in problems if problem["severity"] == "error"] == []


def test_the_only_warnings_are_those_that_an_example_is_about() -> None:
    """A warning that an example does not mean would teach people to ignore warnings."""
    output = tell("validate", "-o", "json", CLUSTER, *OF_RECORD)
    warned = [
        (Path(judged["where"].split(",")[0]).name, problem["rule"])
        for judged in json.loads(output.stdout)["objects"]
        for problem in judged["problems"]
    ]
    assert warned == [("leader-workers-job.yaml", "V6"), *[("sample2-strays.yaml", "N4")] * 3]


@each_of_record
def test_converting_an_example_of_record_changes_nothing(path: Path) -> None:
    """The form of record is where conversion ends: to convert twice is to convert once."""
    for document in documents(path):
        done = convert(document)
        assert done.changes == ()
        assert done.raw == document.raw


# older dialects -----------------------------------------------------------------------------------------------------


@each_older
def test_an_older_example_is_not_accepted_in_silence(path: Path) -> None:
    """Refused, or warned about how its minimum is read where other controllers write the same (V2)."""
    output = tell("validate", path)
    assert output.code == 1 or "pods in all (M5)" in output.stdout
    assert "hint:" in output.stdout


@each_older
def test_an_older_example_names_its_counterpart(path: Path) -> None:
    """Each older form stands beside what it means today."""
    assert counterpart(path) in OF_RECORD


@each_convertible
def test_an_older_example_converts_to_exactly_its_counterpart(path: Path) -> None:
    """Without an option that names the dialect: none of the documents' own examples is ambiguous."""
    output = tell("convert", path)
    converted = list(yaml.safe_load_all(output.stdout))
    assert output.code == 0
    assert only_spec(converted) == only_spec([group.raw for group in groups(counterpart(path))])


@each_convertible
def test_a_conversion_tells_the_dialects_that_the_header_names(path: Path) -> None:
    """Each change is reported with its rule, and nothing else was changed."""
    (group,) = groups(path)
    named_rules = {rule for change in convert(group).changes for rule in re.findall(r"\((D\d)\)$", change)}
    assert named_rules == rules_of(path, "dialect")


@each_convertible
def test_a_converted_example_keeps_its_name(path: Path) -> None:
    """A conversion is about the spec; the object stays the same object."""
    (group,) = groups(path)
    assert convert(group).raw["metadata"] == group.raw["metadata"]


def test_every_dialect_has_an_example() -> None:
    """D1 to D4, each as it was written."""
    assert {rule for path in OLDER for rule in rules_of(path, "dialect")} == {"D1", "D2", "D3", "D4"}


# invalid ------------------------------------------------------------------------------------------------------------


@each_invalid
def test_an_invalid_example_is_refused_by_the_rule_in_its_header(path: Path) -> None:
    """By that rule and by no other, so that each example teaches one thing."""
    (group,) = groups(path)
    errors = [problem for problem in muster.validate(group.raw) if problem.severity == "error"]
    assert {problem.rule for problem in errors} == rules_of(path, "refused by")
    assert all(problem.hint for problem in errors)
    assert tell("validate", path).code == 1


@pytest.mark.parametrize("path", [path for path in INVALID if "conversion refused" in headers(path)], ids=named)
def test_two_minimums_that_disagree_are_not_converted(path: Path) -> None:
    """The two numbers are shown; muster does not choose between them (D2)."""
    (group,) = groups(path)
    with pytest.raises(Refused) as refused:
        convert(group)
    assert headers(path)["conversion refused"] in str(refused.value)
    assert tell("convert", path).code == 1


# drawing ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["table", "json", "mermaid"])
@pytest.mark.parametrize("path", [path for path in WITH_GROUPS if path not in OLDER], ids=named)
def test_every_group_of_an_example_is_in_its_drawing(path: Path, form: str) -> None:
    """As a table, as data and as a diagram; invalid ones too, since a picture helps to see what is wrong."""
    output = tell("tree", "-o", form, path)
    assert output.code == 0
    assert [
        part for part in parts_of(only_spec([group.raw for group in groups(path)])) if part not in output.stdout
    ] == []


@pytest.mark.parametrize("form", ["table", "json", "mermaid"])
@each_older
def test_every_group_of_an_older_example_is_in_its_drawing_once_converted(
    path: Path, form: str, tmp_path: Path
) -> None:
    """`muster convert old.yaml > new.yaml` gives a file that every other verb reads."""
    new = tmp_path / "new.yaml"
    new.write_text(tell("convert", path).stdout, encoding="utf-8")
    output = tell("tree", "-o", form, new)
    assert (output.code, output.stderr) == (0, "")
    assert [
        part for part in parts_of(only_spec([group.raw for group in groups(new)])) if part not in output.stdout
    ] == []


def test_data_of_a_drawing_is_data() -> None:
    """`-o json` of all examples of record is one value, with every PodGroup in it."""
    shown = json.loads(tell("tree", "-o", "json", CLUSTER, *OF_RECORD).stdout)
    assert len(shown["podGroups"]) == sum(len(groups(path)) for path in OF_RECORD)
    assert shown["foreign"] == []


def test_a_diagram_of_a_drawing_is_a_diagram() -> None:
    """What `-o mermaid` prints can be pasted into a document as it is."""
    assert tell("tree", "-o", "mermaid", EXAMPLES / "dynamo-inference.yaml").stdout.startswith("graph TD")


# the showcase and the samples ---------------------------------------------------------------------------------------


DYNAMO = [EXAMPLES / name for name in ("dynamo-inference.yaml", "dynamo-pods.yaml")]


def by_name(group: Any) -> dict[str, Any]:
    groups = {group["name"]: group}
    for child in group.get("children", ()):
        groups |= by_name(child)
    return groups


def test_the_dynamo_example_shows_core_extra_and_optional_parts() -> None:
    """Any three prefill replicas are core, here 0, 1 and 3; a second decode replica is extra; prefill-2 can wait."""
    state, pods, _, *rows = tell("tree", CLUSTER, *DYNAMO).stdout.splitlines()
    assert state.endswith("semi-preemptible, queue inference, priority 125  satisfied")
    assert pods == "28 core pods, 5 extra; protected: 28 nvidia.com/gpu"
    assert {row.strip("│├└─ ").split()[0]: row.split()[-1] for row in rows} == {
        "dynamo-inference": "core",
        "prefill": "core",
        "prefill-0": "core",
        "prefill-1": "core",
        "prefill-2": "optional",
        "prefill-3": "core",
        "decode": "core",
        "decode-0": "core",
        "decode-1": "extra",
    }


def test_the_dynamo_example_has_one_pod_above_the_minimum_of_its_replica() -> None:
    """Extras come in both kinds: a whole replica, and a single pod of a satisfied one."""
    (gang,) = json.loads(tell("tree", "-o", "json", *DYNAMO).stdout)["podGroups"]
    assert {name: group["placed"] for name, group in by_name(gang["tree"]).items() if not group.get("children")} == {
        "prefill-0": 9,
        "prefill-1": 8,
        "prefill-2": 0,
        "prefill-3": 8,
        "decode-0": 4,
        "decode-1": 4,
    }


def test_the_dynamo_pods_keep_the_topology_that_they_ask_for() -> None:
    """Nodes are named zone, block, rack, number: a replica sits in one rack, and all of one kind in one zone."""
    bound = [pod for pod in muster.load(EXAMPLES / "dynamo-pods.yaml").pods if pod.spec.node_name]
    racks: dict[str, set[str]] = {}
    zones: dict[str, set[str]] = {}
    for pod in bound:
        replica = pod.metadata.labels["kai.scheduler/subgroup-name"]
        racks.setdefault(replica, set()).add(pod.spec.node_name.rpartition("-")[0])
        zones.setdefault(replica.partition("-")[0], set()).add(pod.spec.node_name.partition("-")[0])
    assert {name: len(used) for name, used in racks.items()} == dict.fromkeys(racks, 1)
    assert zones == {"prefill": {"z1"}, "decode": {"z2"}}


@pytest.mark.parametrize("name", ["dynamo-pods", "sample1", "sample2", "sample2-strays"])
def test_the_pods_of_an_example_are_for_muster(name: str) -> None:
    """A pod that names another scheduler, or none, is not muster's to place."""
    pods = muster.load(EXAMPLES / f"{name}.yaml").pods
    assert pods
    assert {pod.spec.scheduler_name for pod in pods} == {"muster"}


@pytest.mark.parametrize(("name", "pods"), [("sample1", 5), ("sample2", 9)])
def test_a_sample_has_all_the_pods_that_it_needs(name: str, pods: int) -> None:
    """Nothing but room stands between the sample and its start."""
    assert f"{pods} pods still to place" in tell("tree", EXAMPLES / f"{name}.yaml").stdout.splitlines()[0]


def test_pods_that_name_no_subgroup_of_their_gang_are_reported() -> None:
    """As the document has them: three pods, none of which could ever run (N4)."""
    output = tell("tree", EXAMPLES / "sample2-strays.yaml")
    strays = [line for line in output.stdout.splitlines() if line.startswith("! pod")]
    assert [re.findall(r"`([^`]+)`", line) for line in strays] == [
        [f"sample2-strays/pod-{letter}1", f"subgroup-{letter}"] for letter in "abc"
    ]


def test_a_nested_job_cannot_start_without_its_leader() -> None:
    """The flat form warns of it; the nested one says what was meant, and needs no warning."""
    flat, nested = (groups(EXAMPLES / f"leader-workers-job{more}.yaml")[0].raw for more in ("", "-nested"))
    assert [problem.rule for problem in muster.validate(flat)] == ["V6"]
    assert muster.validate(nested) == []


def test_the_simulation_example_runs_as_a_program() -> None:
    """It prints what elastic gangs are worth, gang by gang."""
    ended = subprocess.run([sys.executable, EXAMPLES / "simulation.py"], check=True, capture_output=True)
    assert b"sooner on average" in ended.stdout

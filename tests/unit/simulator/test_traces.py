"""Traces: gangs and nodes of CSV files, and errors with file and line."""

from pathlib import Path
from typing import Any

import pytest

from muster.errors import InputError
from muster.simulator.scenario.arrivals import plan_arrivals
from muster.simulator.scenario.cluster_objects import build_objects
from muster.simulator.scenario.gang_template import GangArrival
from muster.simulator.scenario.loading import load_scenario
from muster.simulator.simulate import simulate
from muster.simulator.traces.csv_table import read_rows
from tests.support.simulations import GPU, scenario_of, workload

SCENARIOS = Path(__file__).parents[3] / "scenarios"
CLUSTER = {"nodes": 2, "gpus": 8, "topology": "rack=2"}
COLUMNS = {"name": "job", "arrival": "at", "duration": "takes", "gpu": "gpus"}


def read(folder: Path, text: str, **trace: Any) -> list[GangArrival]:
    (folder / "jobs.csv").write_text(text)
    given = {"name": "jobs", "file": "jobs.csv", "columns": COLUMNS, **trace}
    scenario = scenario_of(cluster=CLUSTER, traces=[given])
    return list(plan_arrivals(scenario, folder, build_objects(scenario, folder)))


@pytest.mark.parametrize("path", sorted(SCENARIOS.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_scenario_of_the_repository_runs(path: Path) -> None:
    """Samples in every format: all gangs of a trace arrive, and most of them start."""
    result = simulate(load_scenario(path), path.parent)
    gangs = result.figures["gangs"]
    assert result.is_complete
    assert gangs["started"] > gangs["arrived"] * 0.9 > 0


def test_a_row_is_a_gang(tmp_path: Path) -> None:
    """In the order of time; a part of a GPU counts as one."""
    first, second = read(tmp_path, "job,at,takes,gpus\nB,20,5,0.5\nA_1,10,7,2\n")
    assert (first.name, first.at_ms, first.duration_ms) == ("a-1", 10_000, 7000)
    assert (second.name, second.at_ms, second.duration_ms) == ("b", 20_000, 5000)
    assert second.template.pods[0].spec.containers[0].resources.requests == {GPU: 1}


def test_rows_of_one_gang_are_its_roles(tmp_path: Path) -> None:
    """It arrives with its first row and ends with its last; half of each role is enough here."""
    columns = {"gang": "app", "role": "role", "arrival": "at", "end": "until", "gpu": "gpus"}
    text = "app,role,at,until,gpus\ns,CN,5,50,\ns,CN,3,60,\ns,HN,4,70,1\ns,HN,4,40,1\ns,HN,4,40,1\nt,CN,9,,\n"
    first, second = read(tmp_path, text, columns=columns, minShare=0.5)
    assert (first.at_ms, first.duration_ms) == (3000, 67_000)
    groups = [(group.name, group.min_member) for group in first.template.spec.sub_groups]
    assert groups == [("cn", 1), ("hn", 2)]
    assert first.template.size == 5
    assert second.duration_ms is None


def test_units_and_scale_are_applied(tmp_path: Path) -> None:
    columns = {**COLUMNS, "cpu": "cpu", "memory": "mem", "pods": "n", "class": "kind"}
    units = {"cpu": "milli", "memory": "MiB", "time": "h"}
    text = "job,at,takes,gpus,cpu,mem,n,kind\nx,2,1,0,500,1024,3,batch\n"
    [gang] = read(tmp_path, text, columns=columns, units=units, arrivalScale=0.5)
    assert (gang.at_ms, gang.duration_ms, gang.class_name) == (3_600_000, 3_600_000, "batch")
    [template] = gang.template.pods
    assert template.pods == 3
    assert template.spec.containers[0].resources.requests == {"cpu": 500, "memory": 2**30}


def test_models_become_node_affinity(tmp_path: Path) -> None:
    [gang] = read(tmp_path, "job,at,takes,gpus,m\nx,0,1,1,A|B\n", columns={**COLUMNS, "model": "m"})
    affinity = gang.template.pods[0].spec.affinity
    assert affinity is not None
    assert affinity.node_affinity is not None
    required = affinity.node_affinity.required_during_scheduling_ignored_during_execution
    assert required is not None
    assert required.node_selector_terms[0].match_expressions[0].values == ("A", "B")


def test_names_that_repeat_get_numbers(tmp_path: Path) -> None:
    gangs = read(tmp_path, "job,at,takes,gpus\nx,0,1,1\nX,0,1,1\n,0,1,1\n7,0,1,1\n")
    assert sorted(gang.name for gang in gangs) == ["jobs-2", "jobs-7", "x", "x-x2"]


def test_only_the_first_gangs_are_kept(tmp_path: Path) -> None:
    gangs = read(tmp_path, "job,at,takes,gpus\na,9,1,1\nb,1,1,1\nc,5,1,1\n", limit=2)
    assert [gang.name for gang in gangs] == ["b", "c"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("job,at,gpus\nx,0,1\n", ["jobs.csv, line 1: there is no column `takes`", "known: at, gpus, job"]),
        ("job,at,takes,gpus\nx,0,1,1\ny,0,-3,1\n", ["jobs.csv, line 3: `takes`: `-3` is negative"]),
        ("job,at,takes,gpus\nx,zero,1,1\n", ["jobs.csv, line 2: `at`: `zero` is no number"]),
        ("job,at,takes,gpus\nx,nan,1,1\n", ["line 2: `at`: `nan` is no number"]),
        ("job,at,takes,gpus\n", ["jobs.csv: holds no rows"]),
        ("", ["jobs.csv: is empty"]),
    ],
)
def test_what_is_wrong_is_said_with_file_and_line(tmp_path: Path, text: str, words: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, text)
    for word in words:
        assert word in str(caught.value)


def test_a_cell_without_end_is_refused(tmp_path: Path) -> None:
    """A file that is no CSV, or one that is to use up the memory."""
    with pytest.raises(InputError, match=r"jobs.csv, line 2: is not CSV"):
        read(tmp_path, 'job,at,takes,gpus\n"' + "x" * 200_000 + '",0,1,1\n')


def test_an_end_before_the_start_is_no_duration(tmp_path: Path) -> None:
    columns = {"name": "job", "arrival": "at", "end": "until"}
    with pytest.raises(InputError, match="line 2: `until`: is before the start: the duration would be negative"):
        read(tmp_path, "job,at,until\nx,10,9\n", columns=columns)


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_bytes(b"job\xff\xfe\n1")
    scenario = scenario_of(cluster=CLUSTER, traces=[{"file": "jobs.csv"}])
    with pytest.raises(InputError, match=r"jobs.csv, line 1: is not text in UTF-8"):
        list(plan_arrivals(scenario, tmp_path, build_objects(scenario, tmp_path)))


@pytest.mark.parametrize("wrong", [b"\xff", b"\xe2\x82", b"x\xc3"])
def test_a_line_that_is_not_text_is_named(tmp_path: Path, wrong: bytes) -> None:
    """Text is decoded some lines ahead of the row that is read; the beginning of a character is none."""
    rows = b"".join(b"\xc3\xa4%d,%d,1,1\n" % (number, number) for number in range(20_000))
    (tmp_path / "jobs.csv").write_bytes(b"job,at,takes,gpus\n" + rows + wrong + b"\nx,1,1,1\n")
    with pytest.raises(InputError, match=r"jobs.csv, line 20002: is not text in UTF-8"):
        list(read_rows(tmp_path / "jobs.csv", ["job"]))


def test_a_file_that_ends_inside_a_character_is_refused(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_bytes(b"job,at,takes,gpus\nx,1,1,1\ny,2,1,1\xc3")
    with pytest.raises(InputError, match=r"jobs.csv, line 3: is not text in UTF-8"):
        list(read_rows(tmp_path / "jobs.csv", ["job"]))


def test_a_missing_trace_is_refused(tmp_path: Path) -> None:
    scenario = scenario_of(cluster=CLUSTER, traces=[{"file": "none.csv"}])
    with pytest.raises(InputError, match=r"none.csv: no such file"):
        list(plan_arrivals(scenario, tmp_path, build_objects(scenario, tmp_path)))


# nodes ----------------------------------------------------------------------------------------------------------------


def test_nodes_of_a_file_stand_in_domains(tmp_path: Path) -> None:
    """In the order of the file; what a row does not state the node does not have."""
    (tmp_path / "nodes.csv").write_text("host,cores,gpus,kind\nA,8,2,V100\n,4,0,\nc,4,,\n3,4,1,T4\n")
    columns = {"name": "host", "cpu": "cores", "gpu": "gpus", "model": "kind"}
    nodes_file = {"file": "nodes.csv", "columns": columns}
    scenario = scenario_of(
        cluster={"nodesFile": nodes_file, "topology": "rack=2"},
        workloads=[{"name": "w", "arrivals": {"count": 1}}],
    )
    nodes = build_objects(scenario, tmp_path).nodes
    assert [node.metadata.name for node in nodes] == ["a", "node-1", "c", "node-3"]
    assert [node.metadata.labels["topology/rack"] for node in nodes] == ["r0", "r0", "r1", "r1"]
    assert nodes[0].metadata.labels["gpu-model"] == "V100"
    assert nodes[0].status.allocatable == {"cpu": 8000, GPU: 2, "pods": 250}
    assert GPU not in nodes[1].status.allocatable


def test_what_no_node_states_is_not_requested(tmp_path: Path) -> None:
    """A node list without memory says nothing about it."""
    (tmp_path / "nodes.csv").write_text("gpu_model,gpu_capacity_num,cpu_num,node_name\nA10,1,128,0\n")
    (tmp_path / "jobs.csv").write_text("job,mem,gpus\nx,10,1\n")
    scenario = scenario_of(
        cluster={"nodesFile": {"file": "nodes.csv", "format": "gpu-nodes"}},
        traces=[{"file": "jobs.csv", "columns": {"name": "job", "memory": "mem", "gpu": "gpus"}}],
    )
    [gang] = plan_arrivals(scenario, tmp_path, build_objects(scenario, tmp_path))
    assert gang.template.pods[0].spec.containers[0].resources.requests == {GPU: 1}


@pytest.mark.parametrize("path", sorted((SCENARIOS / "published").glob("*.yaml")), ids=lambda path: path.stem)
def test_a_scenario_for_published_files_is_valid(path: Path, tmp_path: Path) -> None:
    """They are not in the repository, and the user says where they are: an error names the one that is missing."""
    with pytest.raises(InputError, match=r"alibaba-20\d\d-.*csv: no such file"):
        simulate(load_scenario(path), tmp_path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("job,at,takes,gpus,at\nx,1,60,1,500\n", "line 1: column `at` is there 2 times"),
        ("job,at,takes,gpus\nx,1,60,1\ny,2\n", "line 3: has 2 cells, and there are 4 columns"),
        ("job,at,takes,gpus\nx,y,1,60,1\n", "line 2: has 5 cells, and there are 4 columns"),
        ('job,at,takes,gpus\n"x,1,60,1\ny,1,60,1\nz,1,60,1\n', "line 4: is not CSV: unexpected end of data"),
        ("job,at,takes,gpus\nx,inf,60,1\n", "line 2: `at`: `inf` is too large"),
    ],
)
def test_a_file_that_can_be_read_in_two_ways_is_refused(tmp_path: Path, text: str, words: str) -> None:
    """Rows that are swallowed by a quote, or read with the cells of others, would give other figures in silence."""
    with pytest.raises(InputError) as caught:
        read(tmp_path, text)
    assert words in str(caught.value)


def test_empty_cells_at_the_end_of_a_row_may_stand(tmp_path: Path) -> None:
    assert len(read(tmp_path, "job,at,takes,gpus\nx,1,60,1,,\n\n")) == 1


def test_names_of_a_file_never_meet(tmp_path: Path) -> None:
    """Also where one has the form of a name that was made."""
    assert sorted(gang.name for gang in read(tmp_path, "job,at,takes,gpus\nx,,,\nx-x2,,,\nx,,,\nX,,,\n")) == [
        "x",
        "x-x2",
        "x-x3",
        "x-x4",
    ]


def test_nodes_of_one_name_get_names_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("host,gpus\na,8\na,8\na-x2,8\n")
    nodes = {"file": "nodes.csv", "columns": {"name": "host", "gpu": "gpus"}}
    objects = build_objects(scenario_of(cluster={"nodesFile": nodes}, workloads=[workload()]), tmp_path)
    assert [node.metadata.name for node in objects.nodes] == ["a", "a-x2", "a-x2-x2"]

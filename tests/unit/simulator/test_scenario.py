"""Scenarios: what is refused, with path and hint, and what is random in them."""

import statistics
from pathlib import Path
from typing import Any

import pytest

from muster.errors import InputError
from muster.simulator.scenario.arrivals import plan_arrivals
from muster.simulator.scenario.cluster_objects import build_objects
from muster.simulator.scenario.durations import draw_ms, stream, to_ms
from muster.simulator.scenario.gang_template import GangArrival
from muster.simulator.scenario.loading import load_scenario, read_scenario
from muster.simulator.scenario.starter import STARTER
from muster.simulator.scenario.types import Distribution, Scenario
from muster.simulator.simulate import simulate
from tests.support.simulations import GPU, scenario_of, workload

CLUSTER = {"nodes": 4, "gpus": 8, "topology": "zone=1,rack=2"}


def arrivals(scenario: Scenario) -> list[GangArrival]:
    return list(plan_arrivals(scenario, Path(), build_objects(scenario, Path())))


def arrival_of(gang: dict[str, Any]) -> GangArrival:
    """The only gang of a scenario."""
    [arrival] = arrivals(
        scenario_of(cluster=CLUSTER, workloads=[{"name": "w", "arrivals": {"count": 1}, "gang": gang}])
    )
    return arrival


def refusal(**parts: Any) -> str:
    given = {"cluster": CLUSTER, "workloads": [workload()], **parts}
    with pytest.raises(InputError) as caught:
        arrivals(scenario_of(**given))
    return str(caught.value)


def test_the_starter_runs() -> None:
    """What `--init` prints is a scenario in which gangs of every workload start and finish."""
    result = simulate(read_scenario(STARTER.encode(), "starter"), Path())
    assert result.is_complete
    assert result.figures["gangs"]["finished"] > 20
    assert set(result.gangs["class"]) == {"train", "sweep", "serve"}


def test_every_unknown_key_is_refused_with_the_known_ones() -> None:
    """Also inside lists and inside maps."""
    text = refusal(
        horizn="1h",
        workloads=[workload(gang={"minPod": 1})],
        queues=[{"name": "default", "resources": {"gpu": {"qouta": 3, "zzz": 1}}}],
    )
    assert "horizn: is not a setting" in text
    assert "did you mean `horizon`?" in text
    assert "workloads[0].gang.minPod: is not a setting" in text
    assert "queues[0].resources[gpu].qouta" in text
    assert "known: limit, overQuotaWeight, quota" in text


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"horizon": "-5m"}, ["horizon: `-5m` is negative", "hint: such as `90s`"]),
        ({"horizon": "soon"}, ["horizon: `soon` is not a duration"]),
        ({"cluster": {}}, ["cluster: states no nodes", "exactly one of nodes, nodesFile, snapshot"]),
        ({"cluster": {**CLUSTER, "snapshot": "x"}}, ["cluster: states nodes and snapshot"]),
        ({"cluster": {"nodes": 4, "topology": "zone"}}, ["cluster.topology: `zone` is no level"]),
        ({"cluster": {"nodes": -1}}, ["cluster.nodes: must be between 0 and 100000, is -1"]),
        ({"workloads": []}, ["workloads: is empty", "--init"]),
        ({"workloads": [workload(), workload()]}, ["workloads: `train` is there 2 times"]),
        ({"workloads": [workload(name="Bad_Name")]}, ["workloads[0].name: `Bad_Name` is not a name"]),
        ({"workloads": [workload(duration={"kind": "normal"})]}, ["workloads[0].duration.kind: `normal`", "lognormal"]),
        ({"workloads": [workload(duration={"mean": "1m"})]}, ["workloads[0].duration.kind: is missing"]),
        ({"workloads": [workload(duration={"kind": "uniform", "least": 1})]}, ["duration.most: is missing"]),
        (
            {"workloads": [workload(duration={"kind": "constant", "value": "-10s"})]},
            ["workloads[0].duration.value: `-10s` is negative"],
        ),
        ({"workloads": [workload(arrivals={})]}, ["workloads[0].arrivals: states neither `interval` nor `count`"]),
        (
            {"workloads": [workload(arrivals={"interval": {"kind": "constant", "value": 5}})]},
            ["workloads[0].arrivals.count: is missing without a `horizon`"],
        ),
        (
            {"horizon": "1h", "workloads": [workload(arrivals={"interval": {"kind": "constant", "value": 0}})]},
            ["workloads[0].arrivals.interval: is 0"],
        ),
        (
            {"horizon": "1h", "workloads": [workload(arrivals={"interval": {"kind": "constant", "value": "0m"}})]},
            ["workloads[0].arrivals.interval: is 0"],
        ),
        (
            {"horizon": "1h", "workloads": [workload(arrivals={"interval": {"kind": "exponential", "mean": "1us"}})]},
            ["workloads[0].arrivals.interval: is 0"],
        ),
        (
            {"workloads": [workload(duration={"kind": "exponential", "mean": 9, "least": "5m", "most": "60s"})]},
            ["workloads[0].duration.least: is `5m`, more than `most`, `60s`"],
        ),
        (
            {"workloads": [workload(gang={"requests": {"cpu": -1}})]},
            ["workloads[0].gang.requests: `cpu` is negative"],
        ),
        (
            {"queues": [{"name": "a", "parent": "b"}, {"name": "b", "parent": "a"}]},
            ["queues[0].parent: goes round in a circle: a → b → a"],
        ),
        ({"queues": [{"name": "a", "parent": "c"}]}, ["queues[0].parent: queue `c` does not exist"]),
        ({"queues": [{"name": "a", "preemptMinRuntime": "soon"}]}, ["queues[0].preemptMinRuntime: `soon` is not a"]),
        (
            {"queues": [{"name": "a", "resources": {"gpu": {"quota": -5}}}]},
            ["queues[0].resources.gpu.quota: must be at least -1, is -5"],
        ),
        ({"traces": [{"file": "a\0b"}]}, ["traces[0].file: holds a NUL character"]),
        ({"cluster": {"snapshot": "a\0b"}}, ["cluster.snapshot: holds a NUL character"]),
        ({"workloads": [workload(gang={"minPods": 3})]}, ["workloads[0].gang.minPods: is 3, more than `pods`, 1"]),
        ({"workloads": [workload(gang={"replicas": 2, "minReplicas": 3})]}, ["gang.minReplicas: is 3, more than"]),
        ({"workloads": [workload(gang={"replicaLevel": "rack"})]}, ["gang.replicaLevel: is not read without"]),
        ({"workloads": [workload(gang={"roles": [{"name": "a"}]})]}, ["states `roles`, and pods of its own"]),
        ({"queues": [{"name": "a"}]}, ["workloads[0].queue: is missing", "known: a"]),
        ({"workloads": [workload(priorityClass="high")]}, ["`high` is not one of `priorityClasses`"]),
        ({"failures": [{"at": "1h"}]}, ["failures[0]: states neither `nodes` nor `domain`"]),
        ({"randomFailures": {"interval": {"kind": "constant", "value": 9}}}, ["randomFailures: needs a `horizon`"]),
        ({"traces": [{"format": "openb"}]}, ["traces[0].file: is missing"]),
        ({"workloads": [workload(onEviction="retry")]}, ["onEviction: `retry` is not one of its words"]),
    ],
)
def test_a_contradiction_is_refused_with_its_path(parts: dict[str, Any], words: list[str]) -> None:
    text = refusal(**parts)
    for word in words:
        assert word in text


def test_an_unknown_level_is_refused_with_the_known_ones() -> None:
    """The rules of PodGroups decide, with the Topology of the scenario's cluster (T6)."""
    text = refusal(workloads=[workload(gang={"level": "rak"})])
    assert "workloads[0] (train): its gangs are invalid" in text
    assert "rak" in text
    assert "rack" in text


def test_a_missing_file_says_how_to_begin() -> None:
    with pytest.raises(InputError, match="--init"):
        load_scenario("no-such-file.yaml")


# chance ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("distribution", "median_seconds"),
    [
        (Distribution(kind="constant", value="90s"), 90.0),
        (Distribution(kind="exponential", mean=100), 69.3),
        (Distribution(kind="lognormal", median="10m", sigma=0.5), 600.0),
        (Distribution(kind="uniform", least=10, most=30), 20.0),
    ],
)
def test_a_distribution_has_its_median(distribution: Distribution, median_seconds: float) -> None:
    draws = [draw_ms(distribution, stream(1, "test", i)) / 1000 for i in range(4000)]
    assert statistics.median(draws) == pytest.approx(median_seconds, rel=0.06)
    assert min(draws) >= 0


def test_bounds_hold_for_every_draw() -> None:
    distribution = Distribution(kind="lognormal", median="1m", sigma=2, least="30s", most="2m")
    draws = [draw_ms(distribution, stream(1, i)) for i in range(500)]
    assert (min(draws), max(draws)) == (30_000, 120_000)


@pytest.mark.parametrize(("text", "ms"), [("1h30m", 5_400_000), (2, 2000), (0.25, 250), ("250ms", 250)])
def test_durations_are_whole_milliseconds(text: str | float, ms: int) -> None:
    assert to_ms(text) == ms


def test_a_gang_draws_from_a_stream_of_its_own() -> None:
    """Another workload, another size or another duration changes no other arrival: variants can be paired."""
    interval = {"interval": {"kind": "exponential", "mean": "5m"}, "count": 30}
    first = scenario_of(cluster=CLUSTER, workloads=[workload("a", arrivals=interval)])
    changed = workload("a", pods=2, arrivals=interval, duration={"kind": "exponential", "mean": "9m"})
    second = scenario_of(cluster=CLUSTER, workloads=[workload("b", arrivals=interval), changed])
    one, two = (
        [(gang.name, gang.at_ms) for gang in arrivals(each) if gang.class_name == "a"] for each in (first, second)
    )
    assert one == two
    other_seed = scenario_of(seed=1, cluster=CLUSTER, workloads=[workload("a", arrivals=interval)])
    assert one != [(gang.name, gang.at_ms) for gang in arrivals(other_seed)]


# gangs ----------------------------------------------------------------------------------------------------------------


def test_replicas_of_roles_become_branches() -> None:
    """k of n replicas, each in a rack, each of a leader and its workers."""
    roles = [{"name": "leader", "requests": {"cpu": 1}}, {"name": "worker", "pods": 3, "minPods": 2}]
    gang = {"replicas": 2, "minReplicas": 1, "replicaLevel": "rack", "roles": roles}
    [arrival] = arrivals(
        scenario_of(cluster=CLUSTER, workloads=[{"name": "w", "arrivals": {"count": 1}, "gang": gang}])
    )
    spec = arrival.template.spec
    assert spec.min_sub_group == 1
    assert [(group.name, group.parent, group.min_member) for group in spec.sub_groups] == [
        ("r0", "", None),
        ("r0-leader", "r0", 1),
        ("r0-worker", "r0", 2),
        ("r1", "", None),
        ("r1-leader", "r1", 1),
        ("r1-worker", "r1", 2),
    ]
    assert arrival.template.size == 8
    assert arrival.template.is_elastic
    assert arrival.duration_ms is None


@pytest.mark.parametrize(
    ("gang", "is_elastic"),
    [
        ({"pods": 4}, False),
        ({"pods": 4, "minPods": 2}, True),
        ({"pods": 1, "replicas": 3}, False),
        ({"pods": 1, "replicas": 3, "minReplicas": 2}, True),
        ({"roles": [{"name": "a"}, {"name": "b", "pods": 2}]}, False),
        ({"roles": [{"name": "a"}, {"name": "b", "pods": 2, "minPods": 1}]}, True),
    ],
)
def test_a_gang_with_pods_above_its_minimums_is_elastic(gang: dict[str, Any], is_elastic: bool) -> None:
    [arrival] = arrivals(
        scenario_of(cluster=CLUSTER, workloads=[{"name": "w", "arrivals": {"count": 1}, "gang": gang}])
    )
    assert arrival.template.is_elastic is is_elastic


def test_requests_are_quantities() -> None:
    gang = {"pods": 1, "requests": {"cpu": "1500m", "memory": "2Gi", GPU: 1}}
    [arrival] = arrivals(
        scenario_of(cluster=CLUSTER, workloads=[{"name": "w", "arrivals": {"count": 1}, "gang": gang}])
    )
    [container] = arrival.template.pods[0].spec.containers
    assert container.resources.requests == {"cpu": 1500, "memory": 2 * 2**30, GPU: 1}

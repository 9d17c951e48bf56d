"""Metrics: one prefix, base units, everything documented, and every call is counted."""

import re
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families
from starlette.applications import Starlette

import muster
from muster.fairness.shares import divide_cluster
from muster.model.snapshot import take
from muster.observability import metrics as module
from muster.observability.cycle_trace import CyclePhases
from muster.observability.metric_table import TABLE, VERDICTS, Metric, reference
from muster.observability.metrics import Metrics
from muster.observability.queue_metrics import in_base_units
from muster.planning.cycle import plan
from muster.planning.decision import CyclePlan
from muster.planning.disturbance import CycleDisturbance, GangDisturbance
from tests.support.asgi import call
from tests.support.factories import pod, podgroup

NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
CLUSTER = [
    NODE | {"status": {"allocatable": {"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": 8, "pods": 110}}},
    {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "team"}, "spec": {}},
    podgroup(minMember=2, queue="team"),
    *(pod(f"p{i}", on="n", **{"cpu": "500m", "memory": "1Gi", "nvidia.com/gpu": "1"}) for i in range(2)),  # type: ignore[arg-type]
    podgroup(name="waits", minMember=9, queue="team"),
]
NOW = datetime(2026, 1, 1, tzinfo=UTC)
SNAPSHOT = take(muster.objects(CLUSTER), NOW)


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(f"muster_{name}", labels)


@pytest.mark.parametrize("metric", TABLE, ids=lambda metric: metric.name)
def test_every_metric_has_a_good_name(metric: Metric) -> None:
    """As Prometheus asks for: counters end in `_total`, times are seconds, and a sentence says what it is."""
    assert re.fullmatch(r"[a-z]+(_[a-z]+)*", metric.name)
    assert (metric.kind == "counter") == metric.name.endswith("_total")
    assert not re.search("milli|minutes|hours|mega|kilo|percent", metric.name)
    assert metric.about.endswith(".")
    assert bool(metric.buckets) == (metric.kind == "histogram")
    assert list(metric.buckets) == sorted(metric.buckets)
    assert f"| `muster_{metric.name}` | {metric.kind} |" in reference()


def test_every_exported_metric_is_documented() -> None:
    """Nothing but the table and the process, all under one prefix."""
    families = [family.name for family in Metrics().registry.collect()]
    assert all(name.startswith("muster_") for name in families)
    known = {f"muster_{metric.name}".removesuffix("_total") for metric in TABLE}
    process = {name for name in families if name.startswith("muster_process_")}
    assert set(families) == known | process
    assert all(name in reference() for name in process)


def test_a_cycle_is_counted() -> None:
    """How long, and how many gangs of each verdict; verdicts of no gang are 0, not missing."""
    metrics = Metrics()
    assert value(metrics, "gangs", verdict="Infeasible") == 0
    made = plan(SNAPSHOT)
    metrics.cycle(made, 0.02)
    verdicts = [gang.verdict for gang in made.gangs]
    assert sorted(verdicts) == ["Scheduled", "Waiting"]
    for verdict in VERDICTS:
        assert value(metrics, "gangs", verdict=verdict) == verdicts.count(verdict)
    assert value(metrics, "cycle_duration_seconds_count") == 1
    assert value(metrics, "cycle_duration_seconds_bucket", le="0.025") == 1
    assert value(metrics, "queue_allocated", queue="team", resource="cpu", unit="core") == 1.0


def test_every_search_is_counted_with_its_steps() -> None:
    """X1: a gang that comes near the limit shows before its verdict is Unknown."""
    waits = [pod(f"w{i}", gang="new", cpu=cpu) for i, cpu in enumerate(("1", "500m"))]
    made = plan(take(muster.objects([*CLUSTER, podgroup(name="new", minMember=2, queue="team"), *waits]), NOW))
    assert len(made.bindings) == 2
    metrics = Metrics()
    metrics.cycle(made, 0.02)
    assert value(metrics, "search_steps_count") == len(made.searches) > 0
    assert value(metrics, "search_steps_sum") == sum(made.searches) > 0


def test_gangs_without_an_answer_and_their_pods_are_counted() -> None:
    """X7: the gauge shows the last cycle, the counter all of them."""
    waits = [pod(f"w{i}", gang="new", cpu="1") for i in range(2)]
    made = plan(take(muster.objects([*CLUSTER, podgroup(name="new", minMember=9, queue="team"), *waits]), NOW))
    gangs = tuple(replace(each, verdict="Unknown") if each.gang.name == "new" else each for each in made.gangs)
    metrics = Metrics()
    for _ in range(2):
        metrics.cycle(replace(made, gangs=gangs), 0.02)
    assert value(metrics, "gangs", verdict="Unknown") == 1
    assert value(metrics, "searches_cut_short_total") == 2
    assert value(metrics, "queue_pending_pods", queue="team") == 2


def test_queues_are_reported_in_base_units() -> None:
    """cpu in cores, memory in bytes; a deleted queue is reported no more."""
    metrics = Metrics()
    metrics.cycle(CyclePlan(division=divide_cluster(SNAPSHOT)), 0.01)
    assert value(metrics, "queue_allocated", queue="team", resource="cpu", unit="core") == 1.0
    assert value(metrics, "queue_allocated", queue="team", resource="memory", unit="byte") == 2 * 2**30
    assert value(metrics, "queue_allocated", queue="team", resource="nvidia.com/gpu", unit="device") == 2
    assert value(metrics, "queue_requested", queue="team", resource="cpu", unit="core") == 1.0
    assert value(metrics, "queue_share", queue="team", resource="nvidia.com/gpu", unit="device") == 2
    assert value(metrics, "queue_limit", queue="team", resource="cpu", unit="core") == float("inf")
    assert value(metrics, "queue_quota", queue="team", resource="cpu", unit="core") == 0
    assert value(metrics, "cluster_capacity", resource="memory", unit="byte") == 8 * 2**30
    metrics.cycle(CyclePlan(division=divide_cluster(take(muster.objects([]), NOW))), 0.01)
    assert value(metrics, "queue_allocated", queue="team", resource="cpu", unit="core") is None


def test_a_standby_does_not_report_what_it_found_as_a_leader() -> None:
    """Else sums over replicas count gangs twice, and an alert on them stays for ever."""
    waits = [pod(f"w{i}", gang="new", cpu=cpu) for i, cpu in enumerate(("1", "500m"))]
    made = plan(take(muster.objects([*CLUSTER, podgroup(name="new", minMember=2, queue="team"), *waits]), NOW))
    metrics = Metrics()
    metrics.cycle(made, 0.02)
    assert value(metrics, "gangs", verdict="Scheduled")
    assert value(metrics, "queue_allocated", queue="team", resource="cpu", unit="core")
    metrics.leadership_lost()
    assert value(metrics, "gangs", verdict="Scheduled") == 0
    assert value(metrics, "queue_allocated", queue="team", resource="cpu", unit="core") is None


@pytest.mark.parametrize(
    ("resource", "amount", "expected"),
    [
        ("cpu", 1500, (1.5, "core")),
        ("memory", 7, (7, "byte")),
        ("ephemeral-storage", 7, (7, "byte")),
        ("example.com/nic", 3, (3, "device")),
    ],
)
def test_amounts_have_one_unit_each(resource: str, amount: int, expected: tuple[float, str]) -> None:
    """Base units of Prometheus, not of muster."""
    assert in_base_units(resource, amount) == expected


def test_the_lag_of_a_watch_grows_until_an_event_comes() -> None:
    """Also without a call: a dead watch must not look young."""
    lag = [-1.0]
    metrics = Metrics()
    metrics.watch("pods", lambda: lag[0])
    assert value(metrics, "watch_lag_seconds", resource="pods") == -1
    lag[0] = 42
    assert value(metrics, "watch_lag_seconds", resource="pods") == 42


def test_leadership_that_expires_shows() -> None:
    """A lease expires without an event."""
    leads = [True]
    metrics = Metrics()
    metrics.leads(lambda: leads[0])
    assert value(metrics, "leader") == 1
    leads[0] = False
    assert value(metrics, "leader") == 0


def test_everything_that_happens_is_counted() -> None:
    """Each call counts one metric up."""
    metrics = Metrics()
    metrics.bound("core", 0.01)
    metrics.bind_failed("Conflict", 0.01)
    metrics.evicted("Preempt", "team/g")
    metrics.eviction_failed("TooManyRequests")
    metrics.nominated()
    metrics.conflict("podgroups")
    metrics.watch_restarted("pods")
    metrics.decided(0.1)
    metrics.certificate(1e9)
    metrics.requested("bind", "201", 0.01)
    metrics.loop_lagged(0.01)
    metrics.lease_given_up("WatchDead")
    for name, labels in {
        "bindings_total": {"role": "core"},
        "bind_failures_total": {"reason": "Conflict"},
        "evictions_total": {"reason": "Preempt", "queue": "_other"},
        "eviction_failures_total": {"reason": "TooManyRequests"},
        "nominations_total": {},
        "conflicts_total": {"resource": "podgroups"},
        "watch_restarts_total": {"resource": "pods"},
        "decision_latency_seconds_count": {},
        "api_requests_total": {"verb": "bind", "code": "201"},
        "api_request_duration_seconds_count": {"verb": "bind"},
        "event_loop_lag_seconds_count": {},
        "lease_given_up_total": {"reason": "WatchDead"},
    }.items():
        assert value(metrics, name, **labels) == 1, name
    assert value(metrics, "bind_duration_seconds_count") == 2
    assert value(metrics, "certificate_expiry_timestamp_seconds") == 1e9


def test_phases_of_a_cycle_are_counted() -> None:
    metrics, now = Metrics(), [0.0]
    phases = CyclePhases(NOW, lambda: now[0])
    for name in ("snapshot", "allocate", "apply"):
        phases.begin(name)
        now[0] += 2
    metrics.traced(phases.finish())
    for name, number in (("snapshot", 1), ("allocate", 1), ("explain", 0)):
        assert value(metrics, "cycle_phase_duration_seconds_count", phase=name) == number
    assert value(metrics, "cycle_phase_duration_seconds_sum", phase="apply") == 2


def test_admitted_gangs_are_counted_with_how_long_they_waited() -> None:
    """By queue, from the creation of the first pod; one that ran before and gets more pods is not admitted again."""
    created = "2025-12-31T23:59:00Z"
    new = [pod(f"w{i}", gang="new", cpu="1") for i in range(2)]
    for raw in new:
        raw["metadata"]["creationTimestamp"] = created
    grows = podgroup(name="grows", minMember=1, queue="team")
    runs = [pod("r0", gang="grows", on="n", cpu="100m"), pod("r1", gang="grows", cpu="100m")]
    objects = [*CLUSTER, podgroup(name="new", minMember=2, queue="team"), *new, grows, *runs]
    made = plan(take(muster.objects(objects), NOW))
    assert {binding.pod_group for binding in made.bindings} == {"new", "grows"}
    metrics = Metrics(wall=NOW.timestamp)
    metrics.cycle(made, 0.02)
    assert value(metrics, "admitted_gangs_total", queue="team") == 1
    assert value(metrics, "admission_wait_seconds_sum") == 60
    assert value(metrics, "queue_scheduled_gangs", queue="team") == 3
    assert value(metrics, "queue_waiting_gangs", queue="team", reason="NotEnoughPods") == 1


def test_backlogs_are_read_when_they_are_scraped() -> None:
    metrics, waiting = Metrics(), [3]
    metrics.backlog("writes_in_flight", lambda: waiting[0])
    assert value(metrics, "writes_in_flight") == 3
    waiting[0] = 0
    assert value(metrics, "writes_in_flight") == 0


def test_disturbed_pods_are_counted_and_the_allowance_is_shown() -> None:
    """P8: evicted and moved pods add up; the allowance is that of the last plan."""
    metrics = Metrics()
    gangs = (GangDisturbance("team/a", 3, 1, "exact"), GangDisturbance("team/b", 0, 2, "irreducible"))
    for allowed in (25, 30):
        metrics.cycle(CyclePlan(disturbance=CycleDisturbance(500, allowed, gangs)), 0.1)
    assert value(metrics, "disturbed_pods_total", how="evicted") == 6
    assert value(metrics, "disturbed_pods_total", how="moved") == 6
    assert value(metrics, "disturbance_allowed_pods") == 30


async def test_prometheus_can_read_the_response() -> None:
    """Text by default, OpenMetrics by the Accept header; the build is among the metrics."""
    app = Starlette(routes=[module.route(Metrics())])
    plain = await call(app, "/metrics", method="GET")
    assert plain.headers["content-type"].startswith("text/plain")
    families = {family.name: family for family in text_string_to_metric_families(plain.text)}
    assert families["muster_build_info"].samples[0].labels["version"] == muster.__version__
    accept = {"accept": "application/openmetrics-text;version=1.0.0"}
    opened = await call(app, "/metrics", method="GET", headers=accept)
    assert opened.headers["content-type"].startswith("application/openmetrics-text")
    assert list(open_metrics(opened.text))  # type: ignore[no-untyped-call]

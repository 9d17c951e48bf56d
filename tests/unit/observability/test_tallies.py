"""Tallies show what prometheus-client would show."""

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.exposition import generate_latest

from muster.observability.metric_table import PREFIX, TABLE
from muster.observability.metrics import Metrics
from muster.observability.tallies import Tallies

VALUES = st.lists(st.sampled_from([0.0, 0.0005, 0.001, 0.0010001, 0.25, 5.0, 10.0, 10.5, 1e6]) | st.floats(0, 100))


def _lines(registry: CollectorRegistry, name: str) -> list[str]:
    text = generate_latest(registry).decode()
    return [line for line in text.splitlines() if name in line and "_created" not in line]


@given(VALUES)
def test_a_histogram_is_exposed_as_that_of_the_library(values: list[float]) -> None:
    metric = next(each for each in TABLE if each.name == "api_request_duration_seconds")
    name = f"{PREFIX}_{metric.name}"
    tallies, ours, library = Tallies(), CollectorRegistry(), CollectorRegistry()
    ours.register(tallies)
    reference = Histogram(name, metric.about, metric.labels, registry=library, buckets=metric.buckets)
    tally = tallies.histogram(metric.name, "bind")
    for value in values:
        tally.observe(value)
        reference.labels("bind").observe(value)
    reference.labels("bind")
    assert sorted(_lines(ours, name)) == sorted(_lines(library, name))


def test_a_counter_counts_each_series_apart() -> None:
    tallies, registry = Tallies(), CollectorRegistry()
    registry.register(tallies)
    for code, number in (("201", 3), ("409", 1)):
        for _ in range(number):
            tallies.counter("api_requests_total", "bind", code).number += 1
    assert registry.get_sample_value("muster_api_requests_total", {"verb": "bind", "code": "201"}) == 3
    assert registry.get_sample_value("muster_api_requests_total", {"verb": "bind", "code": "409"}) == 1


def test_tallied_and_collected_metrics_are_found_by_name() -> None:
    metrics = Metrics()
    metrics.bound("core", 0.01)
    for name in ("muster_bindings_total", "muster_gangs"):
        text = generate_latest(metrics.registry.restricted_registry([name])).decode()
        assert f"# TYPE {name}" in text
    assert (
        "muster_gangs" not in generate_latest(metrics.registry.restricted_registry(["muster_bindings_total"])).decode()
    )

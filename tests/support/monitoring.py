"""The queries of deploy/: alert rules and dashboard, and what they may read."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from muster.observability.metric_table import PREFIX, TABLE, Metric
from tests.support.factories import Raw
from tests.support.promql import Selector, grouped, selectors

DEPLOY = Path(__file__).parents[2] / "deploy"
ALERTS, DASHBOARD = DEPLOY / "prometheus" / "alerts.yaml", DEPLOY / "grafana" / "muster.json"
OF_TARGETS = {"job", "instance", "namespace", "pod"}  # labels that Prometheus adds
OF_PROCESS = {f"{PREFIX}_process_cpu_seconds_total", f"{PREFIX}_process_resident_memory_bytes"}
METRICS = {f"{PREFIX}_{metric.name}": metric for metric in TABLE}


def alerts() -> list[Raw]:
    (group,) = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
    return list(group["rules"])


def dashboard() -> Raw:
    text: Raw = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    return text


def panel_queries() -> dict[str, str]:
    """By panel and target; variables of Grafana are filled in."""
    targets = {
        f"{panel['title']} {target['refId']}": target["expr"]
        for panel in dashboard()["panels"]
        for target in panel.get("targets", ())
    }
    annotations = {note["name"]: note["expr"] for note in dashboard()["annotations"]["list"]}
    return {name: filled_in(query) for name, query in (targets | annotations).items()}


def filled_in(query: str) -> str:
    return query.replace("$__rate_interval", "5m").replace("$job", ".*")


def queries() -> dict[str, str]:
    return {rule["alert"]: rule["expr"] for rule in alerts()} | panel_queries()


def declared(sample: str) -> tuple[Metric | None, set[str]]:
    """The metric of a sample's name, and the labels that it has."""
    base = re.sub(r"_(bucket|sum|count)$", "", sample)
    metric = METRICS.get(sample) or METRICS.get(base)
    if metric is None:
        return None, set()
    is_histogram = metric.kind == "histogram"
    if (base == sample) == is_histogram:
        return None, set()
    return metric, {*metric.labels, *(("le",) if sample.endswith("_bucket") else ())}


def misreadings(query: str) -> Iterator[str]:
    """What a query reads and muster does not have."""
    for selector in selectors(query):
        if selector.metric in OF_PROCESS:
            continue
        metric, labels = declared(selector.metric)
        if metric is None:
            yield f"there is no `{selector.metric}`"
        elif unknown := selector.labels - labels - OF_TARGETS:
            yield f"`{selector.metric}` has no label {', '.join(sorted(unknown))}"
    for by, inner in grouped(query):
        yield from _misgrouped(by, inner)


def _misgrouped(by: set[str], inner: list[Selector]) -> Iterator[str]:
    for selector in inner:
        labels = declared(selector.metric)[1] | OF_TARGETS
        if unknown := by - labels:
            yield f"`{selector.metric}` is not grouped by {', '.join(sorted(unknown))}: it has no such label"


def series_in(families: Any) -> dict[str, set[str]]:
    """Names of samples in a scrape, each with its labels; of families without samples, the names they would have."""
    known: dict[str, set[str]] = {}
    for family in families:
        ends = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}.get(family.type, ("",))
        for end in ends:
            known.setdefault(f"{family.name}{end}", set())
        for sample in family.samples:
            known.setdefault(sample.name, set()).update(sample.labels)
    return known

"""Alert rules and dashboard of deploy/: they read what muster has, and alert when they should.

`promtool` (of Debian's `prometheus`) judges them where it is at hand; tests/e2e/test_monitoring.py compares them with
what a running control plane exports.
"""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from muster.observability.metric_table import TABLE
from tests.support.monitoring import ALERTS, DASHBOARD, DEPLOY, alerts, dashboard, misreadings, panel_queries, queries
from tests.support.promql import Selector, grouped, selectors

PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="needs promtool, of Debian's package `prometheus`")
TEMPLATES = DEPLOY / "helm" / "muster" / "templates"
OPERATIONS = DEPLOY.parent / "docs" / "guides" / "operations.md"


def promtool(*words: str) -> str:
    assert PROMTOOL is not None
    ended = subprocess.run([PROMTOOL, *words], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.mark.parametrize("name", sorted(queries()))
def test_a_query_reads_what_muster_has(name: str) -> None:
    assert list(misreadings(queries()[name])) == []


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("sum(muster_nothing)", "there is no `muster_nothing`"),
        ("muster_cycle_duration_seconds > 1", "there is no `muster_cycle_duration_seconds`"),
        ("rate(muster_leader_total[5m])", "there is no `muster_leader_total`"),
        ('muster_gangs{reason="x"}', "`muster_gangs` has no label reason"),
        ("sum by (queue) (rate(muster_bindings_total[5m]))", "`muster_bindings_total` is not grouped by queue"),
        ("sum by (le) (rate(muster_cycle_duration_seconds_sum[5m]))", "is not grouped by le"),
    ],
)
def test_a_query_that_reads_something_else_is_found(query: str, problem: str) -> None:
    assert problem in " ".join(misreadings(query))


def test_selectors_are_found_in_a_query() -> None:
    query = 'sum by (a, b) (rate(x_total{c=~"5..|none", d!="e"}[5m])) / ignoring(f) (y > 1e3 or absent(z{g="and(h"}))'
    assert selectors(query) == [
        Selector("x_total", (("c", "=~", "5..|none"), ("d", "!=", "e"))),
        Selector("y"),
        Selector("z", (("g", "=", "and(h"),)),
    ]
    assert [(labels, [one.metric for one in inner]) for labels, inner in grouped(query)] == [({"a", "b"}, ["x_total"])]


def test_an_alert_says_what_is_wrong_and_what_to_do() -> None:
    names = [rule["alert"] for rule in alerts()]
    assert len(set(names)) == len(names)
    for rule in alerts():
        assert rule["alert"].startswith("Muster")
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert set(rule["annotations"]) == {"summary", "description"}
        assert rule["annotations"]["summary"].endswith(".")
        assert re.fullmatch(r"\d+[mh]", rule.get("for", "1m"))
        assert f"`{rule['alert']}`" in OPERATIONS.read_text(encoding="utf-8"), "the guide lists it"


def test_every_metric_is_in_the_dashboard_or_in_an_alert() -> None:
    """But for a few that only explain others."""
    read = {re.sub(r"_(bucket|sum|count)$", "", one.metric) for query in queries().values() for one in selectors(query)}
    unread = {f"muster_{metric.name}" for metric in TABLE} - read
    assert unread == {
        "muster_build_info",
        "muster_disturbance_allowed_pods",
        "muster_grouping_reports_dropped_total",
        "muster_grouping_writes_total",
        "muster_nominations_total",
    }


def test_the_dashboard_can_be_imported() -> None:
    """Panels have ids of their own, do not overlap, and take their data source from a variable."""
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for panel in panels
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert all(0 <= x < 24 for x, _ in cells)
    for panel in panels:
        for target in panel.get("targets", ()):
            assert target["datasource"]["uid"] == panel["datasource"]["uid"] == "${datasource}"
    assert {one["name"] for one in dashboard()["templating"]["list"]} == {"datasource", "job"}


# one source -----------------------------------------------------------------------------------------------------------


def test_the_rules_for_prometheus_alone_are_those_of_the_chart() -> None:
    """MUSTER_GOLDEN=write rewrites them."""
    (_, groups) = (TEMPLATES / "prometheusrule.yaml").read_text(encoding="utf-8").split("\nspec:\n")
    body = "".join(line.removeprefix("  ") for line in groups.removesuffix("{{- end }}\n").splitlines(keepends=True))
    head = "# Alert rules for Prometheus; the chart has the same as a PrometheusRule (`prometheusRule.enabled`).\n"
    rewritten(ALERTS, head + body)


def test_the_dashboard_of_the_chart_is_the_dashboard() -> None:
    """As a ConfigMap that Grafana's sidecar loads."""
    text = DASHBOARD.read_text(encoding="utf-8")
    assert "{{" not in text, "Helm would read it"
    assert text == json.dumps(json.loads(text), indent=2, ensure_ascii=False) + "\n"
    head = (
        "{{- if .Values.grafanaDashboard.enabled }}\n"
        "# deploy/grafana/muster.json, for the sidecar of Grafana's chart.\n"
        "apiVersion: v1\n"
        "kind: ConfigMap\n"
        "metadata:\n"
        '  name: "{{ .Values.name }}-dashboard"\n'
        '  namespace: "{{ .Release.Namespace }}"\n'
        "  labels:\n"
        '    app.kubernetes.io/name: "{{ .Values.name }}"\n'
        '    grafana_dashboard: "1"\n'
        "data:\n"
        "  muster.json: |\n"
    )
    body = "".join(f"    {line}" for line in text.splitlines(keepends=True))
    rewritten(TEMPLATES / "grafanadashboard.yaml", head + body + "{{- end }}\n")


def rewritten(path: Path, text: str) -> None:
    if os.environ.get("MUSTER_GOLDEN") == "write":
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text, f"{path.name} is out of date; MUSTER_GOLDEN=write rewrites it"


# promtool -------------------------------------------------------------------------------------------------------------


@needs_promtool
def test_promtool_accepts_the_rules() -> None:
    assert f"{len(alerts())} rules found" in promtool("check", "rules", str(ALERTS))


@needs_promtool
def test_promtool_accepts_the_queries_of_the_dashboard(tmp_path: Path) -> None:
    """As recording rules: Prometheus parses them, and checks the types of their arguments."""
    rules = [{"record": f"panel:{number}", "expr": query} for number, query in enumerate(panel_queries().values())]
    file = tmp_path / "panels.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}), encoding="utf-8")
    promtool("check", "rules", str(file))


FIRES = {  # alert: series that raise it, as promtool writes them, and the labels of the alert
    "MusterNoLeader": ({"muster_leader": "0x20"}, {}),
    "MusterSeveralLeaders": ({'muster_leader{pod="a"}': "1x20", 'muster_leader{pod="b"}': "1x20"}, {}),
    "MusterLeaseGivenUp": (
        {'muster_lease_given_up_total{reason="WatchDead"}': "0x10 1x10"},
        {"reason": "WatchDead"},
    ),
    "MusterWatchSilent": ({'muster_watch_lag_seconds{resource="pods"}': "0+60x20"}, {"resource": "pods"}),
    "MusterSearchesCutShort": ({'muster_gangs{verdict="Unknown"}': "1x20"}, {"verdict": "Unknown"}),
    "MusterBindingsUnconfirmed": ({"muster_unconfirmed_bindings": "2x20"}, {}),
    "MusterApiErrors": (
        {
            'muster_api_requests_total{verb="list",code="200"}': "0+60x20",
            'muster_api_requests_total{verb="list",code="none"}': "0+6x20",
        },
        {},
    ),
    "MusterCyclesSlow": (
        {
            'muster_cycle_duration_seconds_bucket{le="5"}': "0x30",
            'muster_cycle_duration_seconds_bucket{le="30"}': "0+9x30",
            'muster_cycle_duration_seconds_bucket{le="+Inf"}': "0+9x30",
        },
        {},
    ),
}


@needs_promtool
@pytest.mark.parametrize("name", sorted(FIRES))
def test_an_alert_fires_when_it_should(name: str, tmp_path: Path) -> None:
    """By promtool's own evaluation, a minute a sample; and not where all is well."""
    series, labels = FIRES[name]
    (rule,) = [rule for rule in alerts() if rule["alert"] == name]
    expected = {"exp_labels": {**labels, **rule["labels"]}, "exp_annotations": rule["annotations"]}
    well = {"muster_leader": "1x30", 'muster_watch_lag_seconds{resource="pods"}': "10x30"}

    def case(values: dict[str, str], alerts_: list[object]) -> object:
        return {
            "interval": "1m",
            "input_series": [{"series": key, "values": value} for key, value in values.items()],
            "alert_rule_test": [{"eval_time": "19m", "alertname": name, "exp_alerts": alerts_}],
        }

    file = tmp_path / "test.yaml"
    tests = {"rule_files": [str(ALERTS)], "tests": [case(series, [expected]), case(well, [])]}
    file.write_text(yaml.safe_dump(tests), encoding="utf-8")
    promtool("test", "rules", str(file))

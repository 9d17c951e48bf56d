"""The page that maps metrics of other schedulers to muster's: every metric and label of muster on it exists."""

import re

import pytest

from muster.observability.metric_table import PREFIX, TABLE
from tests.support.doc_pages import ROOT

PAGE = ROOT / "docs/reference/metric-names.md"
LABELS = {f"{PREFIX}_{metric.name}": set(metric.labels) for metric in TABLE}
NAME = re.compile(r"`([a-z0-9_]+)(?:\{([^}`]*)\})?`")
OTHERS = {"Kueue": "kueue_", "KAI": "kai_", "kube-scheduler": "scheduler_"}


def sections() -> dict[str, list[list[str]]]:
    """The cells of every row, by the scheduler it is about."""
    parts = PAGE.read_text(encoding="utf-8").split("\n## ")[1:]
    rows = {part.partition("\n")[0]: re.findall(r"^\| (`.*) \|$", part, re.MULTILINE) for part in parts}
    return {title: [row.split(" | ") for row in lines] for title, lines in rows.items()}


def test_every_metric_of_muster_on_the_page_exists() -> None:
    """With its labels: a name that is gone would be an empty panel."""
    named = [hit for hit in NAME.findall(PAGE.read_text(encoding="utf-8")) if hit[0].startswith(f"{PREFIX}_")]
    assert len(named) > 30
    for name, labels in named:
        assert name in LABELS, name
        stated = {label.partition("=")[0] for label in labels.split(",") if label}
        assert stated <= LABELS[name], f"{name} has {sorted(LABELS[name])}"


@pytest.mark.parametrize("scheduler", OTHERS)
def test_every_row_answers_for_metrics_of_its_scheduler(scheduler: str) -> None:
    """Each once; with a metric of muster, or with a reason why there is none."""
    rows = sections()[scheduler]
    seen: list[str] = []
    for theirs, ours, difference in rows:
        seen += [name for name, _ in NAME.findall(theirs)]
        assert NAME.findall(ours) or (ours == "–" and difference != "–"), theirs
    assert len(seen) == len(set(seen)) > 10
    assert all(name.startswith((OTHERS[scheduler], "rest_client_")) for name in seen)


def test_there_is_a_section_for_each_scheduler() -> None:
    assert set(sections()) == set(OTHERS)

"""What a case may state, and that what does not hold is reported: a suite that says yes to everything is none."""

from pathlib import Path

import pytest

from muster.cli.conformance import run
from muster.errors import InputError
from muster.kube.manifest_files import ManifestFile

FOLDER = Path(__file__).parents[2] / "conformance"
V1 = "d/v1 (reason Consolidate, for d/g, moveTo n2)"


def misses(expect: str, case: str = "373-move-one-pod", now: str = "") -> tuple[str, ...]:
    """The objects of a case with other expectations: `v1` moves from n1 to n2 and `g1` has its place."""
    _, _, objects = (FOLDER / f"{case}.yaml").read_text().partition("\n---\n")
    head = f"{{apiVersion: muster.dev/v1, kind: Case, metadata: {{name: c}}, spec: {{{now}expect: [{expect}]}}}}"
    return run(ManifestFile("case.yaml", f"{head}\n---\n{objects}".encode(), None)).misses


@pytest.mark.parametrize(
    "expect",
    [
        "{podGroup: d/g, verdict: Scheduled, reason: '', bound: 0, nominated: 1}",
        "{podGroup: d/g, bound: [], nominated: [d/g1]}",
        "{podGroup: d/g, bound: {}, nominated: {d/g1: n1}, evicted: 0}",
        "{podGroup: d/v, evicted: 1, evictedAnyOf: [[d/w1], [d/v1]]}",
        "{evicted: 1}",
        "{evicted: [d/v1]}",
        "{evicted: [{pod: d/v1, reason: Consolidate, for: d/g, moveTo: true}]}",
        "{evicted: [{pod: d/v1, moveTo: n2}], nominated: 1}",
    ],
)
def test_what_comes_out_is_no_miss(expect: str) -> None:
    assert misses(expect) == ()


@pytest.mark.parametrize(
    ("expect", "miss"),
    [
        ("{podGroup: d/nobody, bound: 0}", "d/nobody: is not in the plan"),
        ("{podGroup: d/g, verdict: Infeasible}", "d/g: verdict is Scheduled, expected Infeasible"),
        ("{podGroup: d/g, reason: NoRoom}", "d/g: reason is , expected NoRoom"),
        ("{podGroup: d/g, nominated: 2}", "d/g: nominated is 1, expected 2"),
        ("{podGroup: d/g, nominated: [d/g2]}", "d/g: nominated is ('d/g1',), expected ('d/g2',)"),
        ("{podGroup: d/g, nominated: {d/g1: n2}}", "d/g: nominated is {'d/g1': 'n1'}, expected {'d/g1': 'n2'}"),
        ("{evicted: 0}", "plan: evicted is 1, expected 0"),
        ("{evicted: []}", f"plan: evicted is {V1}, expected no pod"),
        ("{podGroup: d/g, evicted: [d/v1]}", "d/g: evicted is no pod, expected d/v1"),
        (
            "{evicted: [{pod: d/v1, moveTo: false}]}",
            f"plan: evicted is {V1}, expected d/v1 (moveTo False)",
        ),
        (
            "{evictedAnyOf: [[d/v1, d/w1], [{pod: d/v1, reason: Preempt}]]}",
            f"plan: evicted is {V1}, expected d/v1, d/w1 or d/v1 (reason Preempt)",
        ),
        ("{evicted: [{pod: d/v1, for: d/h}]}", None),
        ("{evicted: [{pod: d/v1, moveTo: n3}]}", None),
    ],
)
def test_an_expectation_that_is_not_met_is_reported(expect: str, miss: str | None) -> None:
    (only,) = misses(expect)
    assert miss in (None, only)


def test_a_case_says_when_it_is() -> None:
    """Two seconds decide whether a gang that falls short is within its grace."""
    case, all_stay = "386-short-within-its-grace", "{evicted: 0}"
    assert misses(all_stay, case, now="now: '2026-06-01T12:00:59Z', ") == ()
    assert misses(all_stay, case, now="now: '2026-06-01T12:01:01Z', ") == ("plan: evicted is 2, expected 0",)


@pytest.mark.parametrize(
    ("expect", "now"),
    [("{evictions: 1}", ""), ("{evicted: [{pod: d/v1, moved: true}]}", ""), ("{evicted: 0}", "now: yesterday, ")],
)
def test_a_case_that_cannot_be_read_is_refused(expect: str, now: str) -> None:
    """A misspelt expectation that is skipped would look like one that holds."""
    with pytest.raises(InputError, match=r"case\.yaml: the case cannot be read"):
        misses(expect, now=now)

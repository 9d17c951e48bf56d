"""How many pods a PodDisruptionBudget allows to be disrupted (P6)."""

import pytest

from muster.api.core import PodDisruptionBudgetSpec
from muster.model.disruption_budgets import allows_unhealthy_eviction, desired_healthy, disruptions_allowed


def spec(**fields: int | str) -> PodDisruptionBudgetSpec:
    return PodDisruptionBudgetSpec(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("budget", "expected", "healthy", "desired", "allowed"),
    [
        (spec(min_available=2), 3, 3, 2, 1),
        (spec(min_available=4), 3, 3, 4, 0),
        (spec(min_available="50%"), 3, 3, 2, 1),
        (spec(min_available="34%"), 3, 3, 2, 1),
        (spec(min_available="100%"), 3, 3, 3, 0),
        (spec(max_unavailable=1), 3, 3, 2, 1),
        (spec(max_unavailable=1), 3, 2, 2, 0),
        (spec(max_unavailable=9), 3, 3, 0, 3),
        (spec(max_unavailable="50%"), 3, 3, 1, 2),
        (spec(max_unavailable="0%"), 3, 3, 3, 0),
        (spec(min_available="2"), 3, 3, 2, 1),
        (spec(min_available=0), 0, 0, 0, 0),
    ],
)
def test_percentages_are_of_the_expected_pods_and_round_up(
    budget: PodDisruptionBudgetSpec, expected: int, healthy: int, desired: int, allowed: int
) -> None:
    assert (desired_healthy(budget, expected), disruptions_allowed(budget, expected, healthy)) == (desired, allowed)


@pytest.mark.parametrize("budget", [spec(), spec(min_available="half"), spec(max_unavailable="half")])
def test_a_budget_without_a_readable_value_allows_no_disruption(budget: PodDisruptionBudgetSpec) -> None:
    """The disruption controller fails safe in the same way."""
    assert disruptions_allowed(budget, 3, 3) == 0


def test_pods_that_are_not_ready_are_evicted_by_policy_or_while_enough_others_are_healthy() -> None:
    assert allows_unhealthy_eviction("AlwaysAllow", desired=2, current=0)
    assert allows_unhealthy_eviction("IfHealthyBudget", desired=2, current=2)
    assert not allows_unhealthy_eviction("IfHealthyBudget", desired=2, current=1)
    assert not allows_unhealthy_eviction("", desired=0, current=0)

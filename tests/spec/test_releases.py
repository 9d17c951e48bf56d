"""What is said of a gang that is released (E1, S2, S3)."""

from typing import Any

import pytest

import muster
from tests.support.factories import Raw, group, node, pod, podgroup
from tests.support.planned_gang import NOW

FLAT = [group("a", 1), group("b", 2)]
NESTED = [group("a", 1), {"name": "r", "minSubGroup": 2}, group("r-x", 1, parent="r"), group("r-y", 2, parent="r")]


@pytest.mark.parametrize(
    ("tree", "minimum", "running", "short"),
    [
        ([], {"minMember": 2}, [""], ""),
        (FLAT, {}, ["a", "b"], "b"),
        (FLAT, {}, ["a"], "b"),
        (NESTED, {}, ["a", "r-x", "r-y"], "r-y"),
    ],
    ids=["no SubGroups", "one pod is missing", "all are missing", "below a branch"],
)
def test_every_pod_of_a_released_gang_names_the_subgroup_that_was_short(
    tree: list[Raw], minimum: dict[str, Any], running: list[str], short: str
) -> None:
    """Pods of other SubGroups leave with it, and are not what is to be looked at."""
    gang = podgroup(*tree, stalenessGracePeriod="0s", **minimum)
    pods = [pod(f"p-{leaf}", leaf, on="n", phase="Running", cpu=1) for leaf in running]
    evictions = muster.plan(muster.objects([node("n", cpu=4), gang, *pods]), now=NOW).evictions
    assert [(one.sub_group, one.reason, one.short) for one in evictions] == [(leaf, "Stale", short) for leaf in running]

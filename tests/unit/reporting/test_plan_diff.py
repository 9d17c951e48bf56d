"""Two plans compared, with plans made by hand."""

import pytest

from muster.planning.decision import Binding, CyclePlan, Eviction, GangPlan, Verdict
from muster.reporting.plan_diff import ChangeKind, compare, data
from tests.support.factories import gang, podgroup, pods


def bound(pod: str, node: str) -> Binding:
    return Binding("team", pod, node, "gang", "", "core")


def evicted(pod: str, node: str, move_to: str = "") -> Eviction:
    return Eviction("team", pod, node, "gang", "", "Consolidate" if move_to else "Preempt", "team/other", move_to)


def gang_plan(verdict: Verdict, placed: int, on: str = "a") -> GangPlan:
    return GangPlan(gang(podgroup(), pods(placed, on=on)), verdict)


def test_equal_plans_do_not_differ() -> None:
    """And every gang is counted."""
    plan = CyclePlan(bindings=(bound("p", "a"),), evictions=(evicted("q", "a"),), gangs=(gang_plan("Scheduled", 2),))
    same = compare(plan, plan)
    assert (same.gangs, same.unchanged) == ((), 1)
    assert not any(some for pods in data(same)["pods"].values() for some in pods.values())


def test_pods_differ_by_what_is_done_to_them() -> None:
    """A pod that is moved is not lost: it is not among the evicted."""
    before = CyclePlan(
        bindings=(bound("both", "a"), bound("here", "a"), bound("there", "a")),
        nominations=(bound("later", "a"),),
        evictions=(evicted("spared", "a"), evicted("shoved", "a", move_to="b")),
    )
    after = CyclePlan(
        bindings=(bound("both", "a"), bound("there", "b"), bound("new", "c")),
        evictions=(evicted("hit", "a"), evicted("shoved", "a", move_to="c")),
    )
    pods = data(compare(before, after))["pods"]
    names = {action: {when: [one["pod"] for one in some] for when, some in of.items()} for action, of in pods.items()}
    assert names == {
        "bound": {"onlyBefore": ["here"], "onlyAfter": ["new"], "elsewhere": ["there"]},
        "nominated": {"onlyBefore": ["later"], "onlyAfter": [], "elsewhere": []},
        "evicted": {"onlyBefore": ["spared"], "onlyAfter": ["hit"], "elsewhere": []},
        "moved": {"onlyBefore": [], "onlyAfter": [], "elsewhere": ["shoved"]},
    }
    assert pods["moved"]["elsewhere"] == [{"namespace": "team", "pod": "shoved", "before": "b", "after": "c"}]


@pytest.mark.parametrize(
    ("before", "after", "how"),
    [
        (gang_plan("Scheduled", 2), gang_plan("Waiting", 2), "Worse"),
        (gang_plan("Scheduled", 2), gang_plan("Scheduled", 1), "Worse"),
        (gang_plan("Waiting", 0), gang_plan("Infeasible", 0), "Worse"),
        (gang_plan("Infeasible", 2), gang_plan("Scheduled", 1), "Better"),
        (gang_plan("Scheduled", 1), gang_plan("Scheduled", 2), "Better"),
        (gang_plan("Waiting", 0), gang_plan("Unknown", 0), "Differs"),
        (gang_plan("Scheduled", 1), gang_plan("Scheduled", 1, on="b"), "Differs"),
        (None, gang_plan("Scheduled", 1), "Comes"),
        (gang_plan("Scheduled", 1), None, "Leaves"),
    ],
)
def test_a_gang_is_better_or_worse_off_by_its_verdict_then_by_its_pods(
    before: GangPlan | None, after: GangPlan | None, how: ChangeKind
) -> None:
    """Not scheduled is not scheduled: `Unknown` is no worse than `Waiting`."""
    was, will = (CyclePlan(gangs=(one,) if one else ()) for one in (before, after))
    (change,) = compare(was, will).gangs
    assert change.kind == how


def test_those_worse_off_come_first() -> None:
    """What a person must see is on top, whatever it is called."""
    names = ["aa", "bb", "cc"]

    def plan(*placed: int) -> CyclePlan:
        gangs = [gang(podgroup(name=name), pods(n, on="a")) for name, n in zip(names, placed, strict=True)]
        return CyclePlan(gangs=tuple(GangPlan(one, "Scheduled") for one in gangs))

    assert [one.name for one in compare(plan(1, 1, 2), plan(2, 1, 1)).gangs] == ["cc", "aa"]

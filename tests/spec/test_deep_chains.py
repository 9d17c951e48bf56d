"""Chains of SubGroups cost what they are long (X7): counted in calls, not in seconds."""

import sys
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

import muster
from muster.model.gang.gang import Gang
from muster.model.roles import units_of
from muster.model.snapshot import take
from muster.placement.requirements.builder import Requirements
from muster.planning.decision import GangPlan
from muster.reporting import plans, text, views
from muster.reporting.outcome import outcomes
from muster.reporting.status import pod_group_status
from tests.support.factories import Raw, group, node, pod, podgroup, topology

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
SHORT, LONG = 150, 600
TOO_LARGE = ("refusing",)  # work that is about pods larger than the node


def chain(depth: int, on: str = "", *, teeth: bool = False, cpu: str = "1m") -> list[Raw]:
    """One SubGroup inside the other, the last of them with a pod; with teeth, a leaf with a pod beside each."""
    last = depth - 1
    groups = [group(f"g{i}", 1 if i == last else None, parent=f"g{i - 1}" if i else "") for i in range(depth)]
    pods = [pod("p", f"g{last}", on=on, phase="Running" if on else "", cpu=cpu)]
    for i in range(last if teeth else 0):
        groups.append(group(f"t{i}", 1, parent=f"g{i}"))
        pods.append(pod(f"p{i}", f"t{i}", on=on, phase="Running" if on else "", cpu=cpu))
    allocatable = {"cpu": "64", "memory": "64Gi", "pods": "9999"}
    return [
        node("n", rack="r") | {"status": {"allocatable": allocatable}},
        topology("topology/rack"),
        podgroup(*groups),
        *pods,
    ]


def gang(raws: list[Raw]) -> Gang:
    (built,) = take(muster.objects(raws), NOW).gangs
    return built


def reasons_of(raws: list[Raw]) -> object:
    plan = muster.plan(muster.objects(raws), now=NOW)
    after = outcomes(plan.snapshot, plan.decided)
    return [pod_group_status(one, one.before.source, NOW) for one in after.values()]


def goals(raws: list[Raw]) -> Requirements:
    snapshot = take(muster.objects(raws), NOW)
    return Requirements(snapshot.gangs[0], snapshot)


WORK: dict[str, tuple[Callable[[list[Raw]], object], list[list[Raw]]]] = {
    name: (work, [chain(depth, on, teeth=teeth, cpu="65" if name in TOO_LARGE else "1m") for depth in (SHORT, LONG)])
    for name, work, on, teeth in (
        ("gathering", gang, "", False),
        ("goals", goals, "n", True),
        ("planning", lambda raws: muster.plan(muster.objects(raws), now=NOW).bindings, "", False),
        ("refusing", lambda raws: muster.plan(muster.objects(raws), now=NOW).bindings, "", True),
        ("a running gang", lambda raws: muster.plan(muster.objects(raws), now=NOW).bindings, "n", True),
        ("the plan as data", lambda raws: muster.plan(muster.objects(raws), now=NOW).to_dict(), "n", False),
        ("drawing", lambda raws: text.plain(views.draw_tree(views.inspect_gang(gang(raws)))), "n", False),
        ("explaining", lambda raws: text.plain(plans.gang_lines(_decided(raws))), "n", False),
        ("status", reasons_of, "n", True),
        ("validating", lambda raws: muster.validate(raws[2]), "", False),
        ("units", lambda raws: units_of(gang(raws)), "n", True),
    )
}


def _decided(raws: list[Raw]) -> GangPlan:
    return muster.plan(muster.objects(raws), now=NOW).decided.gang("team/gang")


def calls(work: Callable[[list[Raw]], object], raws: list[Raw]) -> int:
    """How many functions are called, built-in ones and generators too."""
    count = 0

    def seen(_frame: object, event: str, _arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(seen)
    try:
        work(raws)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize(("work", "chains"), WORK.values(), ids=WORK)
def test_a_chain_four_times_as_long_costs_four_times_as_much(
    work: Callable[[list[Raw]], object], chains: list[list[Raw]]
) -> None:
    """A little more is what does not depend on its length; sixteen times would be a square."""
    work(chains[0])  # imports and caches
    short, long = (calls(work, raws) for raws in chains)
    assert long < 5 * short


def test_a_chain_deeper_than_any_stack_is_planned() -> None:
    """Depth is not limited (N1)."""
    plan = muster.plan(muster.objects(chain(2 * sys.getrecursionlimit())), now=NOW)
    assert [one.pod for one in plan.bindings] == ["p"]

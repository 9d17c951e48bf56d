"""Gangs of thousands of pods: a change of one pod does not cost a look at all of them, over and over."""

import asyncio
from typing import Any

import pytest

from muster.api.podgroup import PodGroup
from muster.api.resources import JOBS
from muster.controllers.grouper.gang_record import is_marked, mark_of
from muster.controllers.grouper.members import GroupedPod
from muster.grouping.group import Assignment, assign, build_pod_group
from muster.grouping.owners import OwnerChain
from muster.grouping.pod_reader import read_pod
from tests.support.live.grouping import GroupingWorld


async def test_pods_that_join_a_large_gang_one_by_one_are_written_together(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[str] = []

    def counted(assignment: Assignment, *args: Any) -> PodGroup:
        built.append(assignment.gang.name)
        return build_pod_group(assignment, *args)

    monkeypatch.setattr("muster.controllers.grouper.grouper.build_pod_group", counted)
    monkeypatch.setattr("muster.controllers.grouper.grouper.FEW_PODS", 20)
    monkeypatch.setattr("muster.controllers.grouper.grouper.PER_POD_SECONDS", 0.01)
    world = GroupingWorld()
    owner = world.create(JOBS, "train", annotations={"kai.scheduler/batch-min-member": "2"})
    for index in range(30):
        world.pod(f"train-{index}", owner)
    async with world.grouping() as live:
        await live.until(lambda: all(name for name, _ in world.membership().values()))
        await live.until(lambda: live.grouper.is_settled)
        built.clear()
        for index in range(30, 60):
            world.pod(f"train-{index}", owner)
            await asyncio.sleep(0.005)
        await live.until(lambda: all(name for name, _ in world.membership().values()))
        await live.until(lambda: live.grouper.is_settled)
    assert 1 <= len(built) <= 10


@pytest.mark.parametrize("group", [None, "pg-a", "other"])
@pytest.mark.parametrize("rule", [None, "Pod", "Job"])
@pytest.mark.parametrize("leaf", [None, "", "workers"])
def test_a_quick_look_at_a_mark_says_what_the_mark_says(group: str | None, rule: str | None, leaf: str | None) -> None:
    notes = {"pod-group-name": group, "muster.dev/grouped-by": rule}
    meta = {
        "name": "a",
        "namespace": "default",
        "annotations": {name: text for name, text in notes.items() if text is not None},
        "labels": {} if leaf is None else {"kai.scheduler/subgroup-name": leaf},
    }
    pod = read_pod({"metadata": meta, "spec": {"schedulerName": "muster"}})
    member = GroupedPod(pod, assign(pod, OwnerChain()))
    assert is_marked(member) == mark_of(member).is_on(member.pod.metadata)

"""The live grouper: whatever the order of events, and however often it restarts, it ends in the same PodGroups."""

import asyncio
from collections.abc import Callable, Iterator
from functools import cache
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from muster.api.resources import (
    DEPLOYMENTS,
    JOBS,
    LEADER_WORKER_SETS,
    PODS,
    PRIORITY_CLASSES,
    REPLICA_SETS,
    STATEFUL_SETS,
    Resource,
)
from muster.kube.cluster import Raw
from tests.property.trees import fewer
from tests.support.live.grouping import GroupingWorld, reference

LWS = "leaderworkerset.sigs.k8s.io"
Step = Callable[[GroupingWorld], None]


def creates(resource: Resource, name: str, spec: Raw | None = None, owner: Raw | None = None, **meta: Any) -> Step:
    """Create an object whose uid is known before."""
    references = {"ownerReferences": [reference(owner)]} if owner else {}

    def step(world: GroupingWorld) -> None:
        world.store._strategy._new_uid = lambda: uid_of(resource, name)
        world.create(resource, name, spec, **references, **meta)

    return step


def updates(resource: Resource, name: str, patch: Raw) -> Step:
    def step(world: GroupingWorld) -> None:
        world.update(resource, name, patch)

    return step


def deletes(resource: Resource, name: str) -> Step:
    def step(world: GroupingWorld) -> None:
        world.store.delete(resource, "default", name, grace_seconds=0)

    return step


def uid_of(resource: Resource, name: str) -> str:
    return f"{resource.kind.lower()}-{name}"


def owner(resource: Resource, name: str) -> Raw:
    meta = {"name": name, "uid": uid_of(resource, name)}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta}


def pod(name: str, controller: Raw | None = None, **meta: Any) -> Step:
    spec = {"schedulerName": "muster", "containers": [{"name": "main", "image": "x"}]}
    return creates(PODS, name, spec, controller, **meta)


def lws_pod(name: str, controller: Raw, worker: int) -> Step:
    return pod(name, controller, labels={f"{LWS}/group-index": "0", f"{LWS}/worker-index": str(worker)})


def threads() -> Iterator[list[Step]]:
    """What happens, as threads of steps: within one the order is given, between them it is not."""
    template = {"size": 3, "workerTemplate": {}}
    yield [
        creates(
            LEADER_WORKER_SETS,
            "serve",
            {"replicas": 1, "startupPolicy": "LeaderReady", "leaderWorkerTemplate": template},
        ),
        updates(LEADER_WORKER_SETS, "serve", {"spec": {"leaderWorkerTemplate": {"size": 4}}}),
        updates(LEADER_WORKER_SETS, "serve", {"spec": {"leaderWorkerTemplate": {"size": 3}}}),
    ]
    leaders = owner(STATEFUL_SETS, "serve")
    yield [creates(STATEFUL_SETS, "serve", owner=owner(LEADER_WORKER_SETS, "serve"))]
    yield [lws_pod("serve-0", leaders, 0)]
    yield [creates(STATEFUL_SETS, "serve-0", owner=owner(PODS, "serve-0"))]
    for worker in (1, 2):
        yield [lws_pod(f"serve-0-{worker}", owner(STATEFUL_SETS, "serve-0"), worker)]
    minimum = "kai.scheduler/batch-min-member"
    yield [
        creates(JOBS, "train", annotations={minimum: "2"}),
        updates(JOBS, "train", {"metadata": {"annotations": {minimum: "3"}, "labels": {"priorityClassName": "high"}}}),
    ]
    for index in range(3):
        yield [pod(f"train-{index}", owner(JOBS, "train"))]
    yield [pod("train-9", owner(JOBS, "train")), deletes(PODS, "train-9")]
    yield [creates(DEPLOYMENTS, "web")]
    yield [creates(REPLICA_SETS, "web-1", owner=owner(DEPLOYMENTS, "web"))]
    for name in ("web-1-a", "web-1-b"):
        yield [pod(name, owner(REPLICA_SETS, "web-1"))]
    yield [pod("alone"), updates(PODS, "alone", {"metadata": {"labels": {"x": "y"}}})]
    yield [creates(PRIORITY_CLASSES, "inference")]


def shuffled(seed: int) -> list[Step]:
    chance, waiting = Random(seed), [list(thread) for thread in threads()]
    steps = []
    while waiting:
        thread = chance.choice(waiting)
        steps.append(thread.pop(0))
        waiting = [rest for rest in waiting if rest]
    return steps


async def play(steps: list[Step], chance: Random) -> Raw:
    """Take the steps, with pauses and restarts in between; where it ends."""
    world, line = GroupingWorld(), iter(steps)
    is_over = False
    while not is_over:
        async with world.grouping() as live:
            for step in line:
                step(world)
                match chance.randrange(12):
                    case 0:
                        await live.settle()
                    case 1:
                        break
                    case number if number < 8:
                        await asyncio.sleep(0)
            else:
                await live.settle()
                is_over = True
    return ending(world)


def ending(world: GroupingWorld) -> Raw:
    groups = {
        name: (raw["spec"], raw["metadata"].get("labels"), raw["metadata"]["ownerReferences"])
        for name, raw in world.groups().items()
    }
    return {"groups": groups, "pods": world.membership()}


@cache
def expected() -> Raw:
    steps = [step for thread in threads() for step in thread]
    return asyncio.run(play(steps, Random(0)))


@fewer
@given(seed=st.integers(0, 2**32))
def test_any_order_of_events_ends_in_the_same_podgroups(seed: int) -> None:
    assert asyncio.run(play(shuffled(seed), Random(seed))) == expected()


def test_the_ending_is_the_one_that_the_rules_give() -> None:
    end = expected()
    assert all(group for group, _ in end["pods"].values()), "every pod has joined"
    serve = end["groups"]["pg-serve-leaderworkerset-serve-group-0"][0]
    assert {part["name"]: part["minMember"] for part in serve["subGroups"]} == {"leader": 1, "workers": 2}
    assert "minSubGroup" not in serve, "its workers exist, so all are needed"
    train = end["groups"]["pg-train-job-train"][0]
    assert (train["minMember"], train["priorityClassName"]) == (3, "high")
    webs = [spec for name, (spec, *_) in end["groups"].items() if name.startswith("pg-web")]
    assert [spec["priorityClassName"] for spec in webs] == ["inference", "inference"]

"""Gangs that come and go leave nothing behind in a scheduler: memory follows what is there."""

import asyncio
from collections import Counter
from collections.abc import Collection, Iterator
from typing import Any

import pytest

from muster.api.resources import POD_GROUPS, PODS
from muster.kube import event_recorder
from muster.kube.cache import interning, reflector
from muster.model.incremental import interned_demands
from muster.scheduler.loop import Scheduler
from muster.scheduler.status.status_writer import AGAIN_SECONDS
from tests.support.live.objects import gpu_node, group
from tests.support.live.world import HASTY, Live, World

GANGS, ROUNDS, WARM_ROUNDS = 12, 6, 3
FEW = 8  # entries that come and go
CONTAINERS = (dict, list, set, tuple, Counter)


def entries(root: object) -> Counter[str]:
    """How many entries the containers of muster's own objects have, by class and attribute."""
    sizes: Counter[str] = Counter()
    pending, known = [root], {id(root)}
    while pending:
        for name, value in held_by(pending.pop()):
            if id(value) in known:
                continue
            known.add(id(value))
            pending.append(value)
            if name and isinstance(value, Collection) and not isinstance(value, str | bytes):
                sizes[name] += len(value)
    return sizes


def held_by(value: Any) -> Iterator[tuple[str, Any]]:
    """What an object refers to: attributes with their names, entries without."""
    if isinstance(value, CONTAINERS):
        inner = [*value.keys(), *value.values()] if isinstance(value, dict) else list(value)
        yield from (("", one) for one in inner)
    elif is_ours(type(value).__module__) and hasattr(value, "__dict__"):
        yield from ((f"{type(value).__name__}.{name}", one) for name, one in vars(value).items())


def is_ours(module: str) -> bool:
    return module.startswith("muster.") and not module.startswith("muster.embedded.")  # the cluster keeps its events


async def test_gangs_that_come_and_go_leave_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some are bound, some wait with a reason; bounds that take hours to reach are low here."""
    monkeypatch.setattr(reflector, "FIRST_SECONDS", 0.002)
    monkeypatch.setattr(event_recorder, "MOST_RECORDED", GANGS)
    monkeypatch.setattr(interning, "SPARE_PARTS", 2 * GANGS)
    monkeypatch.setattr(interned_demands, "SPARE_SPECS", 2 * GANGS)
    world = World([gpu_node("a"), gpu_node("b")])
    scheduler = Scheduler(world.memory, HASTY, None, lambda: world.seconds, world.time.now)
    counted: list[Counter[str]] = []
    async with world.kubelets.running():
        task = asyncio.create_task(scheduler.run())
        live = Live(world, scheduler, task)
        try:
            for number in range(ROUNDS):
                await come_and_go(live, number)
                counted.append(entries(scheduler))
        finally:
            task.cancel()
            await asyncio.wait([task])
    before, after = counted[WARM_ROUNDS - 1], counted[-1]
    assert {name: (before[name], after[name]) for name in after if after[name] > before[name] + FEW} == {}


async def come_and_go(live: Live, number: int) -> None:
    """More gangs than fit, with names of their own; then none, and so much later that no event is remembered."""
    names = [f"gang-{number}-{i}" for i in range(GANGS)]
    for name in names:
        live.world.submit(group(name, minMember=2), {"": 2})
    assert await live.settle()
    await live.world.time.advance(2 * AGAIN_SECONDS)
    live.world.wanted.clear()
    for pod in live.world.memory.store.list(PODS).items:
        live.world.memory.store.delete(PODS, "default", pod["metadata"]["name"], grace_seconds=0)
    for name in names:
        live.world.memory.store.delete(POD_GROUPS, "default", name)
    assert await live.settle()

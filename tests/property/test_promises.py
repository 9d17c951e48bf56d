"""Random worlds over several cycles of plan and apply: what was promised is kept, whatever else waits."""

import copy
import os

import pytest

from tests.oracles.checker import broken
from tests.oracles.fair_shares import GPU, Queues
from tests.oracles.objects import asks, name, owner
from tests.oracles.victims import manifests, puzzle
from tests.support.cycles import Cluster, Raw

NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE", "") == "nightly"
SEEDS, CYCLES, SLICES = (10_000 if NIGHTLY else 500), 8, 10

slices = pytest.mark.parametrize("part", range(SLICES))


@slices
def test_promises_are_kept_from_cycle_to_cycle(part: int) -> None:
    """P7, Q4: nominated gangs are bound once victims are gone, moved gangs are whole again, limits always hold."""
    for seed in range(part, SEEDS, SLICES):
        cluster = Cluster(*manifests(puzzle(seed)))
        for number in range(CYCLES):
            where = f"seed {seed}, cycle {number}"
            cluster.leave()
            before = copy.deepcopy(cluster.objects)
            plan = cluster.cycle(seconds=1)
            assert broken(before, plan, cluster.now) == [], where
            assert over_limits(cluster, before) == [], where
            if not plan["bindings"] + plan["nominations"] + plan["evictions"]:
                break
            keeps_promises(cluster, plan, where)
        else:
            raise AssertionError(f"seed {seed}: plans do not come to rest")


def keeps_promises(cluster: Cluster, plan: Raw, said: str) -> None:
    """While victims leave nothing new is evicted; once they are gone, what was promised is bound in the next cycle."""
    if not plan["evictions"]:
        return
    before = copy.deepcopy(cluster.objects)
    promised = {f"{one['namespace']}/{one['podGroup']}": one for one in plan["nominations"]}
    again = cluster.cycle()
    assert over_limits(cluster, before) == [], said
    assert not again["evictions"], f"{said}: evicts again while victims leave"
    cluster.leave()
    moved = {f"{one['namespace']}/{one['podGroup']}" for one in plan["evictions"] if one.get("moveTo")}
    lost = {f"{one['namespace']}/{one['podGroup']}" for one in plan["evictions"] if not one.get("moveTo")}
    before = copy.deepcopy(cluster.objects)
    after = cluster.cycle()
    assert broken(before, after, cluster.now) == [], said
    for gang in promised:
        assert cluster.verdict(gang)["tree"]["satisfied"], f"{said}: {gang} was promised a place"
        assert cluster.placed(gang), f"{said}: {gang} is not bound"
    for gang in moved - lost:
        assert waiting(cluster, gang) == [], f"{said}: {gang} was moved and lost its place"


def waiting(cluster: Cluster, gang: str) -> list[str]:
    """New pods of a gang that have no place."""
    mine = [pod for pod in cluster.of("Pod") if owner(pod) == gang and "again" in pod["metadata"]["name"]]
    return [name(pod) for pod in mine if not pod["spec"].get("nodeName")]


def over_limits(cluster: Cluster, before: list[Raw]) -> list[str]:
    """Q4 at this very moment: pods on nodes count, terminating or not; what was above its limit gets no more."""
    queues = Queues(cluster.of("Queue"))
    had, have = holding(queues, before), holding(queues, cluster.objects)
    limits = {queue: queues.says(queue, GPU).limit for queue in queues.raws}
    return [
        f"{queue}: {have[queue]} of {limit}, before {had[queue]}"
        for queue, limit in limits.items()
        if limit is not None and have[queue] > max(limit, had[queue])
    ]


def holding(queues: Queues, objects: list[Raw]) -> dict[str, int]:
    queue_of = {name(raw): raw["spec"]["queue"] for raw in objects if raw["kind"] == "PodGroup"}
    held = {leaf: {GPU: 0} for leaf in queues.raws}
    for pod in objects:
        if pod["kind"] == "Pod" and pod["spec"].get("nodeName"):
            held[queue_of[owner(pod)]][GPU] += int(asks(pod)[GPU])
    return {queue: amounts[GPU] for queue, amounts in queues.summed(held).items()}

"""The node on claims that wait for their first consumer: written before the pod is bound, and never changed (X5)."""

import asyncio

import pytest

from muster.api.resources import CLAIMS, POD_GROUPS, PODS, STORAGE_CLASSES
from muster.kube.cluster import Raw
from tests.support.live.faults import Call, Fault, Faulty
from tests.support.live.objects import gpu_node, gpu_pod, group
from tests.support.live.world import HASTY, World

SELECTED = "volume.kubernetes.io/selected-node"
SELECTS = "patch persistentvolumeclaims"


def world(*names: str, selected: str = "", mode: str = "WaitForFirstConsumer") -> World:
    """A gang whose pods have a claim each."""
    made = World([gpu_node("a", gpus=2), gpu_node("b", gpus=2)])
    meta: Raw = {"name": "fast"}
    made.create(STORAGE_CLASSES, {"metadata": meta, "provisioner": "csi", "volumeBindingMode": mode})
    made.create(POD_GROUPS, group("g", minMember=len(names)))
    for name in names:
        notes = {"annotations": {SELECTED: selected}} if selected else {}
        made.create(
            CLAIMS, {"metadata": {"name": name, "namespace": "default"} | notes, "spec": {"storageClassName": "fast"}}
        )
        raw = gpu_pod(name, "g")
        raw["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
        made.create(PODS, raw)
    return made


def nodes(given: World) -> dict[str, str]:
    """What stands on the claims."""
    claims = given.memory.store.list(CLAIMS).items
    return {raw["metadata"]["name"]: raw["metadata"].get("annotations", {}).get(SELECTED, "") for raw in claims}


async def test_the_node_is_written_before_the_pod_is_bound() -> None:
    """As kube-scheduler does: the provisioner must know where, and a pod must not be bound without that."""
    given = world("g-0", "g-1")
    cluster = Faulty(given.memory)
    async with given.running(cluster, HASTY) as live:
        await live.settle()
    assert given.seats() == nodes(given)
    assert set(given.seats()) == {"g-0", "g-1"}
    for name in given.seats():
        at = [i for i, line in enumerate(cluster.log) if line in (f"{SELECTS} {name}", f"bind {name}")]
        assert [cluster.log[i].split()[0] for i in at] == ["patch", "bind"]


async def test_a_node_that_stands_there_is_kept() -> None:
    """Restart safe: nothing is written again, and the pod follows its volume."""
    given = world("g-0", selected="b")
    cluster = Faulty(given.memory)
    async with given.running(cluster, HASTY) as live:
        await live.settle()
    assert given.seats() == nodes(given) == {"g-0": "b"}
    assert not any(line.startswith(SELECTS) for line in cluster.log)


@pytest.mark.parametrize("fault", ["forbidden", "busy", "conflict", "broken", "unanswered"])
async def test_where_the_claim_does_not_take_it_the_pod_is_not_bound(fault: Fault) -> None:
    """G5: it is tried again, on the same node if the first try arrived after all."""
    given = world("g-0")

    def script(call: Call) -> Fault | None:
        return fault if f"{call.verb} {call.what}".startswith(SELECTS) and not call.again else None

    cluster = Faulty(given.memory, script)
    async with given.running(cluster, HASTY) as live:
        await live.until(lambda: len(given.seats()) == 1)
        await live.settle()
    assert given.seats() == nodes(given)
    first = next(i for i, line in enumerate(cluster.log) if line.startswith(SELECTS))
    assert not any(line.startswith("bind") for line in cluster.log[: first + 1])
    assert given.judge.broken == []


async def test_a_claim_that_is_bound_at_once_is_left_to_its_provisioner() -> None:
    """`Immediate`: the node is not ours to select; the pod waits for its volume."""
    given = world("g-0", mode="Immediate")
    cluster = Faulty(given.memory)
    async with given.running(cluster, HASTY) as live:
        await live.settle()
        await asyncio.sleep(0)
    assert (given.seats(), nodes(given)) == ({}, {"g-0": ""})

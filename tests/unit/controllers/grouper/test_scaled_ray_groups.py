"""Multi-host groups of Ray that scale down: KubeRay removes replicas in no order, and the others keep their indexes."""

from muster.api.resources import PODS, RAY_CLUSTERS
from muster.kube.cluster import Raw
from tests.support.live.grouping import GroupingWorld


def group(replicas: int) -> Raw:
    numbers = {"replicas": replicas, "minReplicas": replicas, "maxReplicas": replicas, "numOfHosts": 2}
    return {"groupName": "tpu", "template": {"spec": {}}, **numbers}


def leaves(world: GroupingWorld) -> set[str]:
    return {each["name"] for raw in world.groups().values() for each in raw["spec"]["subGroups"]}


async def test_a_replica_that_remains_keeps_its_leaf() -> None:
    """Without it, pods that run would be strays, and their gang short of all its workers."""
    world = GroupingWorld()
    cluster = world.create(RAY_CLUSTERS, "ray", {"headGroupSpec": {}, "workerGroupSpecs": [group(3)]})
    world.pod("head", cluster, labels={"ray.io/group": "headgroup"})
    for index in range(3):
        for host in range(2):
            labels = {"ray.io/group": "tpu", "ray.io/worker-group-replica-index": str(index)}
            world.pod(f"tpu-{index}-{host}", cluster, labels=labels)
    async with world.grouping() as live:
        await live.until(lambda: world.groups() and all(leaf for _, leaf in world.membership().values()))
        world.update(RAY_CLUSTERS, "ray", {"spec": {"workerGroupSpecs": [group(1)]}})
        for name in ("tpu-0-0", "tpu-0-1", "tpu-1-0", "tpu-1-1"):
            world.store.delete(PODS, "default", name, grace_seconds=0)
        await live.until(lambda: leaves(world) == {"headgroup", "tpu", "tpu-0", "tpu-2"})
        await live.settle()
    assert {leaf for _, leaf in world.membership().values()} == {"headgroup", "tpu-2"}
    (raw,) = world.groups().values()
    (branch,) = [each for each in raw["spec"]["subGroups"] if each["name"] == "tpu"]
    assert branch["minSubGroup"] == 1

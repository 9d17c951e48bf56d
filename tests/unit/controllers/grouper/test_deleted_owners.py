"""Owners that are deleted: their PodGroups go with them, and do not come back while the last pods terminate."""

import asyncio

from muster.api.resources import LEADER_WORKER_SETS, STATEFUL_SETS
from muster.kube.cluster import Raw
from tests.support.live.faults import Call, Fault, Faulty
from tests.support.live.grouping import GroupingWorld, reference

LWS = "leaderworkerset.sigs.k8s.io"


def leader_worker_set(world: GroupingWorld) -> Raw:
    """A group of a leader, which terminates slowly, and a worker that belongs to the leader's pod."""
    owner = world.create(LEADER_WORKER_SETS, "serve", {"replicas": 1, "leaderWorkerTemplate": {"size": 2}})
    leaders = world.create(STATEFUL_SETS, "serve", ownerReferences=[reference(owner)])
    labels = {f"{LWS}/name": "serve", f"{LWS}/group-index": "0"}
    leader = world.pod(
        "serve-0", leaders, labels={**labels, f"{LWS}/worker-index": "0"}, finalizers=["example.com/hold"]
    )
    workers = world.create(STATEFUL_SETS, "serve-0", ownerReferences=[reference(leader)])
    world.pod("serve-0-1", workers, labels={**labels, f"{LWS}/worker-index": "1"})
    return owner


async def test_a_podgroup_does_not_come_back_while_the_watch_of_its_deleted_owner_is_behind() -> None:
    """Workers run on until the pod of their leader is gone; the watches of owners and PodGroups have no order."""

    def script(call: Call) -> Fault | None:
        is_deletion = call.verb == "event" and call.what.startswith(("leaderworkersets", "statefulsets"))
        return "late" if is_deletion else None

    world = GroupingWorld()
    leader_worker_set(world)
    cluster = Faulty(world.memory, script)
    async with world.grouping(cluster) as live:
        await live.until(lambda: all(name for name, _ in world.membership().values()) and world.groups())
        await live.settle()
        applied = len([line for line in cluster.writes() if "podgroups" in line])
        world.store.delete(LEADER_WORKER_SETS, "default", "serve")
        await live.until(lambda: not world.groups())
        await asyncio.sleep(1.5)
        assert not world.groups()
        assert len([line for line in cluster.writes() if "podgroups" in line]) == applied
        assert "serve-0-1" in world.membership()

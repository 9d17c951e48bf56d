"""The groupers of several shards on one cluster: each gang has one that writes it, and no other does."""

from muster.api.names import NODE_POOL, SKIP_GROUPING
from muster.api.resources import JOBS, POD_GROUPS, REPLICA_SETS
from muster.config.settings import ShardSettings
from tests.support.live.faults import Faulty
from tests.support.live.grouping import GroupingWorld


def shard(value: str) -> ShardSettings:
    return ShardSettings(enabled=True, partition_label_value=value)


async def test_one_grouper_writes_a_gang() -> None:
    """By the label of the workload, else of its pod; without a label it is the default shard's."""
    world = GroupingWorld()
    world.pod("of-owner", world.create(JOBS, "of-owner", labels={NODE_POOL: "a"}))
    world.pod("of-pod", world.create(JOBS, "of-pod"), labels={NODE_POOL: "a"})
    world.pod("of-none", world.create(JOBS, "of-none"))
    world.pod("of-ghost", world.create(JOBS, "of-ghost", labels={NODE_POOL: "ghost"}))
    default, other = Faulty(world.memory), Faulty(world.memory)
    async with world.grouping(default, shard=shard("")) as one, world.grouping(other, shard=shard("a")) as two:
        await one.until(lambda: all(world.membership()[name][0] for name in ("of-owner", "of-pod", "of-none")))
        await one.settle()
        await two.settle()
    assert {name.split("-")[1] for name in world.groups()} == {"of"}
    pools = {name: raw["metadata"].get("labels", {}).get(NODE_POOL) for name, raw in world.groups().items()}
    assert sorted(map(str, pools.values())) == ["None", "a", "a"]
    assert not any("of-owner" in line or "of-pod" in line for line in default.writes())
    assert not any("of-none" in line for line in other.writes())
    assert not world.membership()["of-ghost"][0], "no shard has this pool"
    assert not world.events("of-ghost")


async def test_a_podgroup_that_was_moved_is_written_by_its_new_shard() -> None:
    """The label of the PodGroup decides, and stays; later pods of the workload join it all the same."""
    world = GroupingWorld()
    owner = world.create(REPLICA_SETS, "web")
    world.pod("first", owner)
    async with world.grouping(shard=shard("")) as live:
        await live.until(lambda: world.membership()["first"][0])
        await live.settle()
    (name,) = world.groups()
    world.update(POD_GROUPS, name, {"metadata": {"labels": {NODE_POOL: "a"}}})
    world.pod("second", owner)
    default = Faulty(world.memory)
    async with world.grouping(default, shard=shard("")) as one, world.grouping(shard=shard("a")) as two:
        await two.until(lambda: world.membership()["second"][0])
        await one.settle()
    assert not default.writes()
    assert world.membership()["second"][0] == world.membership()["first"][0]
    assert world.groups()[name]["metadata"]["labels"][NODE_POOL] == "a"


async def test_one_shard_reports_a_pod_that_gets_no_podgroup() -> None:
    world = GroupingWorld()
    world.pod("p", world.create(JOBS, "j", annotations={SKIP_GROUPING: "x"}), labels={NODE_POOL: "a"})
    default = Faulty(world.memory)
    async with world.grouping(default, shard=shard("")) as one, world.grouping(shard=shard("a")) as two:
        await two.until(lambda: world.events("p"))
        await one.settle()
    assert not default.writes()

"""The whole of it, on the embedded cluster and on a real API server: gangs come, wait, are disturbed, lose and heal.

Every site judges each change of its pods (I1-I5) and says so when it is left; the tests add what each story is about.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

import pytest
import yaml

from muster.api.resources import LEASES, NODES
from muster.kube.cluster import Raw
from muster.kube.pod_mark import PodMark
from muster.scheduler.leader_election import Leader, LeaseSettings
from muster.simulator import datacenter
from tests.e2e.kubectl import Kubectl
from tests.e2e.site import ZONE, Seen, Site, ended, said, until
from tests.support.live.faults import Call, Fault, Faulty, Script
from tests.support.live.objects import group, leaf, leaf_of, placed

EXAMPLES = Path(__file__).parents[2] / "examples"
CORE = {"prefill": 3, "decode": 1}  # replicas of the Dynamo example that start it
WHOLE = {"prefill": 4, "decode": 2}
PODS_EACH = {"prefill": 8, "decode": 4}


# the Dynamo example ---------------------------------------------------------------------------------------------------


def replicas(seen: Seen) -> dict[str, int]:
    """Whole replicas of each role; half ones must not be."""
    counts: dict[str, int] = defaultdict(int)
    for name, pods in seen.sizes().items():
        role = name.split("-")[0]
        assert pods == PODS_EACH[role], f"G2: {name} is there with {pods} pods"
        counts[role] += 1
    return dict(counts)


def well_placed(site: Site, seen: Seen) -> None:
    """T1 and I4: every replica in one rack, every role in one zone."""
    for role in CORE:
        of_role = {name: node for name, node in seen.seats().items() if name.startswith(role)}
        assert len(site.racks(of_role, ZONE)) == 1, f"{role} in several zones"
        for i in range(WHOLE[role]):
            nodes_by_pod = {name: node for name, node in of_role.items() if name.startswith(f"{role}-{i}-")}
            assert len(site.racks(nodes_by_pod)) <= 1, f"{role}-{i} in several racks"


async def rack(site: Site, name: str, zone: str, nodes: int) -> None:
    for i in range(nodes):
        await site.node(f"{name}-{i}", name, 4, zone)


async def test_the_dynamo_example_starts_with_its_core_and_grows(site: Site) -> None:
    """3 of 4 prefill and 1 of 2 decode first (G1), nothing below that (I3); then the others, each whole (G2, G3)."""
    for i in range(2):
        await rack(site, f"r{i}", "z1", 2)
    await rack(site, "s0", "z2", 1)
    gang, *pods = (raw for raw in datacenter.dynamo() if raw["kind"] != "Namespace")
    await site.send(gang, *pods)
    async with site.scheduling() as process:
        await site.until(
            lambda seen: seen.condition("dynamo").get("status") == "False", "no condition says that it waits"
        )
        seen = await site.seen()
        assert seen.seats() == {}, "two racks are too few for three replicas"
        assert seen.status("dynamo")["phase"] == "Pending"

        await rack(site, "r2", "z1", 2)
        seen = await site.until(lambda seen: replicas_when_still(seen) == CORE and seen.running("dynamo"))
        well_placed(site, seen)
        levels = {level.get("name", ""): level for level in seen.status("dynamo")["levels"]}
        assert {name for name, level in levels.items() if level.get("satisfied")} == {"", *CORE, *seen.sizes()}
        assert (seen.status("dynamo")["running"], seen.status("dynamo")["pending"]) == (28, 12)
        assert seen.status("dynamo")["resourcesStatus"]["allocatedNonPreemptible"] == {"nvidia.com/gpu": "28"}
        core = seen.seats()

        await rack(site, "r3", "z1", 2)
        await rack(site, "s1", "z2", 1)
        seen = await site.until(lambda seen: replicas_when_still(seen) == WHOLE and seen.running("dynamo"))
        well_placed(site, seen)
        assert core.items() < seen.seats().items(), "who sits stays"
        assert seen.status("dynamo")["running"] == 40
        assert seen.status("dynamo")["resourcesStatus"]["allocatedNonPreemptible"] == {"nvidia.com/gpu": "28"}
        assert not process.over


def replicas_when_still(seen: Seen) -> dict[str, int]:
    """Between two bindings a replica is there in part; once the status is written it must not be."""
    placed, running = sum(seen.sizes().values()), seen.status("dynamo").get("running")
    return replicas(seen) if placed == running else {}


# waiting --------------------------------------------------------------------------------------------------------------


async def test_a_gang_waits_with_a_reason_until_one_more_node_lets_it_in(site: Site) -> None:
    """I3, E1, E3: no pod is started, every pod has a condition that says why; one more node is all it takes."""
    await site.node("a")
    await site.submit(group("g", minMember=4), {"": 4})
    async with site.scheduling():
        seen = await site.until(lambda seen: len(seen.events) > 0 and waits(seen, 4), "there is no event")
        assert seen.seats() == {}
        condition = seen.condition("g")
        assert (condition["status"], condition["reason"]) == ("False", "NoRoom")
        assert "4 pods" in condition["message"], condition
        assert [said(raw, "PodScheduled")["message"] for raw in seen.pods] == [condition["message"]] * 4
        assert [event["reason"] for event in seen.events] == ["NoRoom"]
        assert condition["message"] in seen.events[0]["message"]
        assert seen.events[0]["involvedObject"]["uid"] == seen.groups["g"]["metadata"]["uid"]

        await site.node("b")
        seen = await site.until(lambda seen: len(seen.seats()) == 4 and seen.running("g"))
        assert (seen.condition("g")["status"], seen.status("g")["satisfied"]) == ("True", True)


def waits(seen: Seen, number: int) -> bool:
    unschedulable = [raw for raw in seen.pods if said(raw, "PodScheduled").get("reason") == "Unschedulable"]
    return len(unschedulable) == number and bool(seen.condition("g"))


# disturbing -----------------------------------------------------------------------------------------------------------


async def test_preemption_takes_extras_only_and_no_more_than_it_needs(site: Site) -> None:
    """I5, I6, P6: two of four extras go, by the eviction subresource; the core and the other extras run on."""
    for name in "abc":
        await site.node(name)
    elastic = group("elastic", minMember=2, priorityClassName="low", preemptibility="semi-preemptible")
    await site.submit(elastic, {"": 6})
    cluster = Faulty(site.cluster)
    async with site.scheduling(cluster):
        before = await site.until(lambda seen: len(seen.seats()) == 6 and seen.running("elastic"))
        first = {raw["metadata"]["name"]: raw["metadata"]["uid"] for raw in before.pods}
        await site.submit(group("urgent", minMember=2, priorityClassName="high"), {"": 2})
        seen = await site.until(lambda seen: len(seen.seats("urgent")) == 2 and seen.running("urgent"))
        await site.until(lambda seen: len(seen.seats("elastic")) == 4 and seen.running("elastic"))
    evicted = sorted(site.judge.evicted.values())
    assert len(evicted) == 2, "not one more than it takes"
    assert not {"elastic-0", "elastic-1"} & set(evicted), "the core stays"
    uids = {raw["metadata"]["name"]: raw["metadata"]["uid"] for raw in seen.pods}
    assert all(uids[name] == first[name] for name in first if name not in evicted), "the others run on"
    writes = [line for line in cluster.writes() if line.startswith(("evict", "delete"))]
    assert sorted(writes) == [f"evict {name}" for name in evicted]


# losing ---------------------------------------------------------------------------------------------------------------


async def test_a_lost_node_is_replaced_within_the_same_rack(site: Site) -> None:
    """T3, I4: a pod that comes back joins those that are left, however much capacity another rack has."""
    for name in "abc":
        await site.node(name)
    await site.node("x", "r2", 8)
    await site.submit(group("g", subGroups=[leaf("w", 5, rack=True)]), {"w": 5})
    async with site.scheduling():
        seen = await site.until(lambda seen: len(seen.seats()) == 5 and seen.running("g"))
        lost = min(seen.seats().values())
        stay = {name: node for name, node in seen.seats().items() if node != lost}
        assert site.racks(seen.seats()) == {"r1"}
        await site.kubelets.fail_node(lost)
        spare = await site.node("d")
        seen = await site.until(lambda seen: len(seen.seats()) == 5 and lost not in seen.seats().values(), "not healed")
        assert site.racks(seen.seats()) == {"r1"}
        assert stay.items() < seen.seats().items(), "who was not on it stays"
        assert spare in seen.seats().values()
        await site.until(lambda seen: seen.running("g"))


async def test_a_node_that_is_deleted_is_lost_as_well(site: Site) -> None:
    """Its pods are gone with it, and so is its room."""
    for name in "ab":
        await site.node(name)
    await site.submit(group("g", minMember=4), {"": 4})
    async with site.scheduling():
        seen = await site.until(lambda seen: len(seen.seats()) == 4 and seen.running("g"))
        lost = min(seen.seats().values())
        await site.kubelets.fail_node(lost)
        await site.cluster.delete(NODES, "", lost)
        await site.node("c")
        seen = await site.until(lambda seen: len(seen.seats()) == 4 and lost not in seen.seats().values(), "not healed")
        await site.until(lambda seen: seen.running("g"))


# restarting -----------------------------------------------------------------------------------------------------------


def nth_bind(number: int, fault: Fault = "crash") -> Script:
    """At one binding, and at no other."""
    binds = count(1)

    def script(call: Call) -> Fault | None:
        return fault if call.verb == "bind" and next(binds) == number else None

    return script


class Slow(Faulty):
    """A cluster on which every binding but the first few takes for ever."""

    def __init__(self, site: Site, number: int) -> None:
        super().__init__(site.cluster)
        self.left, self.full = number, asyncio.Event()

    async def bind(self, namespace: str, pod: str, uid: str, node: str, *, mark: PodMark | None = None) -> None:
        if not self.left:
            self.full.set()
            await asyncio.Event().wait()
        self.left -= 1
        await super().bind(namespace, pod, uid, node, mark=mark)


@pytest.mark.parametrize("number", [1, 3])
async def test_a_scheduler_that_dies_while_it_binds_leaves_nothing_half(site: Site, number: int) -> None:
    """G5, I8: killed between two bindings, another completes the gang; no pod is bound twice (I1)."""
    await ready_for_six(site)
    cluster = Faulty(site.cluster, nth_bind(number + 1))
    async with site.scheduling(cluster, bind_concurrency=1) as process:
        await until(lambda: asyncio.sleep(0, process.over))
    seen = await site.seen()
    assert len(seen.seats()) == number
    await completes(site, seen)


async def test_a_scheduler_that_is_stopped_while_it_binds_leaves_nothing_half(site: Site) -> None:
    """The same for a rolling restart: the loops are cancelled, one binding is still under way."""
    await ready_for_six(site)
    cluster = Slow(site, 2)
    async with site.scheduling(cluster, bind_concurrency=2):
        await asyncio.wait_for(cluster.full.wait(), 30)
    seen = await site.seen()
    assert len(seen.seats()) == 2
    await completes(site, seen)


async def ready_for_six(site: Site) -> None:
    for name in "ab":
        await site.node(name, gpus=6)
    await site.node("x", "r2", 12)
    await site.submit(group("g", subGroups=[leaf("w", 6, rack=True)]), {"w": 6})


async def completes(site: Site, half: Seen) -> None:
    cluster = Faulty(site.cluster)
    async with site.scheduling(cluster):
        seen = await site.until(lambda seen: len(seen.seats()) == 6 and seen.running("g"))
    assert half.seats().items() <= seen.seats().items()
    assert len(site.racks(seen.seats())) == 1, "T3: it is completed where it began"
    binds = [line for line in cluster.writes() if line.startswith("bind")]
    assert sorted(binds) == sorted(f"bind {name}" for name in seen.seats() if name not in half.seats())


# two schedulers -------------------------------------------------------------------------------------------------------

LEASE_SECONDS = 3.0


@asynccontextmanager
async def candidate(site: Site, name: str, cluster: Faulty) -> AsyncIterator[Leader]:
    """A scheduler that acts while it leads."""
    terms = LeaseSettings(namespace=site.name, duration_seconds=LEASE_SECONDS, renew_seconds=0.2, margin_seconds=0.5)
    leader = Leader(cluster, name, terms, site.clock, site.wall)
    task = asyncio.create_task(leader.run())
    try:
        async with site.scheduling(cluster, leader, bind_concurrency=1):
            yield leader
    finally:
        await ended([task])


def bound_by(cluster: Faulty) -> set[str]:
    """Pods that were bound on this way, but those where it failed."""
    return {line.removeprefix("bind ") for line in cluster.writes() if line.startswith("bind") and ":" not in line}


async def test_when_a_leader_is_killed_while_it_binds_the_next_one_completes_the_gang(site: Site) -> None:
    """I8, I9: the second knows everything and does nothing, until the lease of the first has run out."""
    first, second = Faulty(site.cluster, nth_bind(3)), Faulty(site.cluster)
    async with candidate(site, "first", first) as old:
        await until(lambda: asyncio.sleep(0, old.leading))
        async with candidate(site, "second", second) as new:
            await ready_for_six(site)
            seen = await site.until(lambda seen: len(seen.seats()) == 6 and seen.running("g"))
            assert (first.dead, old.leading, new.leading) == (True, False, True)
    assert len(bound_by(first)) == 2
    assert bound_by(second) == seen.seats().keys() - bound_by(first)
    assert second.writes()[0] == "replace leases muster", "nothing before it leads"
    spec = (await site.cluster.get(LEASES, site.name, "muster"))["spec"]
    assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("second", 1)


async def test_a_leader_that_cannot_renew_its_lease_leaves_the_gang_to_the_next(site: Site) -> None:
    """I9: nothing but the lease is out of its reach, and yet it does not bind any more."""
    cut = False
    first = Faulty(site.cluster, lambda call: "lost" if cut and call.what.startswith("leases") else None)
    second = Faulty(site.cluster)
    async with candidate(site, "first", first) as old:
        await until(lambda: asyncio.sleep(0, old.leading))
        async with candidate(site, "second", second) as new:
            cut = True
            await until(lambda: asyncio.sleep(0, not old.leading))
            await ready_for_six(site)
            seen = await site.until(lambda seen: len(seen.seats()) == 6 and seen.running("g"))
            assert (old.leading, new.leading) == (False, True)
    assert bound_by(first) == set()
    assert bound_by(second) == set(seen.seats())
    assert second.writes()[0] == "replace leases muster"


# what people type -----------------------------------------------------------------------------------------------------


def example(name: str) -> list[Raw]:
    return list(yaml.safe_load_all((EXAMPLES / name).read_text(encoding="utf-8")))


def unplaced(raw: Raw) -> Raw:
    return {**raw, "spec": {name: value for name, value in raw["spec"].items() if name != "nodeName"}}


CLUSTER_FILES = ("datacenter-topology.yaml", "nodes.yaml", "priorities.yaml", "queues.yaml")


async def test_the_example_is_applied_and_shown_by_kubectl(site: Site, kubectl: Kubectl) -> None:
    """The manifests of `examples/` as people would use them; the columns tell what came of it."""
    files = [word for name in CLUSTER_FILES for word in ("-f", str(EXAMPLES / "cluster" / name))]
    files += ["-f", str(EXAMPLES / "dynamo-inference.yaml")]
    pods = [unplaced(raw) for raw in example("dynamo-pods.yaml")]
    await make_namespace(kubectl, "inference")
    try:
        await kubectl("apply", *files)
        await kubectl("create", "-f", "-", send=pods)
        async with site.scheduling(scheduler_names=("muster",)):
            columns, cells = await printed_status(kubectl, running=len(pods) - 1)
        assert columns == ["NAME", "QUEUE", "MIN-PODS", "MIN-GROUPS", "SATISFIED", "PHASE", "REASON", "AGE"]
        assert cells[:-1] == ["dynamo-inference", "inference", "2", "true", "Running", cells[-2]]
        stored = (await kubectl.json("get", "pods", "-n", "inference"))["items"]
        assert [leaf_of(raw) for raw in stored if not raw["spec"].get("nodeName")] == ["prefill-0"], "a ninth pod of 8"
        racks: dict[str, set[str]] = defaultdict(set)
        for raw in filter(placed, stored):
            racks[leaf_of(raw)].add(raw["spec"]["nodeName"].rpartition("-")[0])
        assert sorted(map(len, racks.values())) == [1] * 6, "zone, block and rack are in the names of the nodes"
    finally:
        go = ("--wait=false", "--ignore-not-found")
        await kubectl("delete", "pods", "--all", "-n", "inference", "--force", "--grace-period=0", *go)
        await kubectl("delete", *files, *go)


async def make_namespace(kubectl: Kubectl, name: str) -> None:
    """It may be there: a bare API server has no controller that finishes its deletion."""
    await kubectl("apply", "-f", "-", send={"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


async def printed_status(kubectl: Kubectl, running: int) -> list[list[str]]:
    """The head and the line of the only PodGroup, once it says that so many run."""

    async def runs() -> bool:
        raw = (await kubectl.json("get", "podgroups", "-n", "inference"))["items"][0]
        return bool((raw.get("status") or {}).get("running") == running)

    await until(runs)
    return await kubectl.table("get", "podgroups", "-n", "inference")

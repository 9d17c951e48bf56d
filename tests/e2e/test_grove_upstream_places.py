"""Grove's own end-to-end scenarios of startup order (SO-1 to SO-4) and topology (TAS): the same shapes and numbers.

Upstream's cluster has 28 nodes in 14 racks of two, seven racks a block; pods of topology scenarios are small.
"""

from collections.abc import AsyncIterator, Iterable
from itertools import pairwise
from typing import Any

import pytest

from muster.api import names
from muster.api.resources import NODES, POD_GANGS, POD_GROUPS
from muster.kube.cluster import Cluster, Raw
from tests.e2e.grove_site import BLOCK, RACK, ZONE, GroveSeen, GroveSite, clique, fresh, group, pod_clique_set
from tests.e2e.site import said
from tests.e2e.test_grove_upstream import both, cluster, embedded

__all__ = ["cluster"]  # a fixture
HOST = names.HOSTNAME


@pytest.fixture
async def site(cluster: Cluster) -> AsyncIterator[GroveSite]:
    async with fresh(cluster).open() as opened:
        yield opened


# startup order --------------------------------------------------------------------------------------------------------


def times(seen: GroveSeen, *cliques: str) -> list[str]:
    """When pods of cliques became ready."""
    return [
        said(raw, "Ready")["lastTransitionTime"]
        for raw in seen.pods
        if raw["metadata"]["labels"][names.POD_CLIQUE] in cliques
    ]


def groups_of(clique_name: str, *replicas: int) -> tuple[str, ...]:
    return tuple(f"w-0-sg-{replica}-{clique_name}" for replica in replicas)


def ordered(kind: str, needed: tuple[int, int, int, int], **after: list[str]) -> Raw:
    """Ten pods; of each clique and of the group so many are needed."""
    sizes = {"a": 2, "b": 1, "c": 3}
    cliques = [
        clique(name, size, minimum, spec={"startsAfter": after[name]} if name in after else {})
        for (name, size), minimum in zip(sizes.items(), needed[:3], strict=True)
    ]
    template = {"cliqueStartupType": f"CliqueStartupType{kind}"}
    return pod_clique_set("w", cliques, [group("sg", ["b", "c"], 2, needed[3])], template=template)


STRICT, FLEXIBLE = (2, 1, 3, 2), (1, 1, 1, 1)


@embedded
@pytest.mark.parametrize(
    ("kind", "after", "order"),
    [("InOrder", {}, "abc"), ("Explicit", {"b": ["c"], "c": ["a"]}, "acb")],
    ids=["so_1", "so_3"],
)
async def test_so_1_and_3_cliques_start_one_after_the_other(
    site: GroveSite, kind: str, after: dict[str, list[str]], order: str
) -> None:
    await site.add_nodes(10)
    await site.submit(ordered(kind, STRICT, **after))
    seen = await site.until(lambda seen: seen.ready == 10)
    names_of = {"a": ("w-0-a",), "b": groups_of("b", 0, 1), "c": groups_of("c", 0, 1)}
    for first, second in pairwise(order):
        assert max(times(seen, *names_of[first])) <= min(times(seen, *names_of[second]))


@embedded
@pytest.mark.parametrize(
    ("kind", "after"), [("InOrder", {}), ("Explicit", {"b": ["a"], "c": ["b"]})], ids=["so_2", "so_4"]
)
async def test_so_2_and_4_cliques_start_one_after_the_other_inside_each_gang(
    site: GroveSite, kind: str, after: dict[str, list[str]]
) -> None:
    """In the scaled gang `c` waits for the `b` of the same replica, and for nothing of the base."""
    await site.add_nodes(10)
    await site.submit(ordered(kind, FLEXIBLE, **after))
    seen = await site.until(lambda seen: seen.ready == 10)
    assert {*seen[POD_GANGS]} == {"w-0", "w-0-sg-0"}
    assert min(times(seen, "w-0-a")) <= min(times(seen, *groups_of("b", 0)))
    for replica in (0, 1):
        assert min(times(seen, *groups_of("b", replica))) <= min(times(seen, *groups_of("c", replica)))


# topology -------------------------------------------------------------------------------------------------------------


def small(name: str, replicas: int, minimum: int | None = None, mebibytes: int = 10, **more: Any) -> Raw:
    """A clique of small pods."""
    raw = clique(name, replicas, minimum, **more)
    raw["spec"]["podSpec"]["containers"][0]["resources"]["requests"]["memory"] = f"{mebibytes}Mi"
    return raw


def packed(domain: str, name: str = "") -> dict[str, Any]:
    """In the form that new sets must have; a set names the topology, and its parts need not."""
    return {"topologyConstraint": {**({"topologyName": name} if name else {}), "pack": {"required": domain}}}


async def labelled(site: GroveSite) -> None:
    """Racks of two nodes, seven of them a block, and a binding with four levels."""
    await site.bind_topology(site.name, host=True)
    for rack in range(14):
        await site.add_nodes(2, {ZONE: "z", BLOCK: f"b{rack // 7}", RACK: f"r{rack}"})


async def domains(site: GroveSite, key: str, nodes: Iterable[str]) -> set[str]:
    nodes_there = (await site.cluster.list(NODES)).items
    labels = {raw["metadata"]["name"]: raw["metadata"].get("labels", {}) for raw in nodes_there}
    return {labels[name][key] for name in nodes}


def of_replica(seen: GroveSeen, scaling_group: str, replica: int) -> set[str]:
    wanted = {names.SCALING_GROUP: scaling_group, names.SCALING_GROUP_REPLICA: str(replica)}
    own = [raw for raw in seen.pods if wanted.items() <= raw["metadata"]["labels"].items()]
    return {raw["spec"]["nodeName"] for raw in own}


def leaves(seen: GroveSeen, gang: str) -> dict[str, tuple[str, int, str]]:
    """Parent, minimum and required level of every subgroup of a PodGroup; the empty name is the PodGroup."""
    spec = seen[POD_GROUPS][gang]["spec"]
    return {
        one.get("name", ""): (
            one.get("parent", ""),
            one.get("minMember", 0),
            one.get("topologyConstraint", {}).get("requiredTopologyLevel", ""),
        )
        for one in ({**spec, "name": "", "minMember": 0}, *spec.get("subGroups", ()))
    }


@embedded
async def test_bp_1_cliques_have_constraints_of_their_own(site: GroveSite) -> None:
    await labelled(site)
    cliques = [small("rack", 3, **packed("rack", site.name)), small("block", 4, **packed("block", site.name))]
    await site.submit(pod_clique_set("w", cliques))
    seen = await site.until_counts(7, 0)
    assert len(await domains(site, RACK, seen.nodes("w-0-rack"))) == 1
    assert len(await domains(site, BLOCK, seen.nodes("w-0-block"))) == 1
    assert leaves(seen, "w-0") == {"": ("", 0, ""), "w-0-rack": ("", 3, RACK), "w-0-block": ("", 4, BLOCK)}


@embedded
async def test_sl_1_a_constraint_of_the_set_holds_for_groups_and_standalone_cliques(site: GroveSite) -> None:
    await labelled(site)
    cliques = [small("worker", 1), small("router", 2)]
    groups = [group("workers", ["worker"], 2, 2)]
    await site.submit(pod_clique_set("w", cliques, groups, template=packed("rack", site.name)))
    seen = await site.until_counts(4, 0)
    assert len(await domains(site, RACK, seen.nodes())) == 1
    assert leaves(seen, "w-0")[""] == ("", 0, RACK)


@embedded
async def test_sl_2_a_constraint_of_a_group_is_a_branch_for_each_replica(site: GroveSite) -> None:
    await labelled(site)
    cliques = [small("worker", 1), small("router", 2)]
    groups = [group("workers", ["worker"], 2, 2, **packed("rack", site.name))]
    await site.submit(pod_clique_set("w", cliques, groups))
    seen = await site.until_counts(4, 0)
    assert leaves(seen, "w-0") == {
        "": ("", 0, ""),
        "w-0-workers-0": ("", 0, RACK),
        "w-0-workers-1": ("", 0, RACK),
        "w-0-workers-0-worker": ("w-0-workers-0", 1, ""),
        "w-0-workers-1-worker": ("w-0-workers-1", 1, ""),
        "w-0-router": ("", 2, ""),
    }


@embedded
@pytest.mark.parametrize("domain", ["zone", "host"], ids=["zl_1", "pc_1"])
async def test_zl_1_and_pc_1_the_broadest_and_the_narrowest_level(site: GroveSite, domain: str) -> None:
    await labelled(site)
    if domain == "zone":
        pcs, number, key = pod_clique_set("w", [small("worker", 4)], template=packed("zone", site.name)), 4, ZONE
    else:
        pcs, number, key = pod_clique_set("w", [small("worker", 2, **packed("host", site.name))]), 2, HOST
    await site.submit(pcs)
    seen = await site.until_counts(number, 0)
    assert len(await domains(site, key, seen.nodes())) == 1
    assert leaves(seen, "w-0")["" if domain == "zone" else "w-0-worker"][2] == key


@both
async def test_sp_1_block_rack_and_host_are_nested(site: GroveSite) -> None:
    await labelled(site)
    cliques = [small(name, 2, 2, 40, **packed("host")) for name in ("prefill", "decode")]
    groups = [group("inference", ["prefill", "decode"], 2, 2, **packed("rack"))]
    await site.submit(pod_clique_set("w", cliques, groups, template=packed("block", site.name)))
    seen = await site.until_counts(8, 0)
    assert len(await domains(site, BLOCK, seen.nodes())) == 1
    expected = {"": ("", 0, BLOCK)}
    for replica in (0, 1):
        branch = f"w-0-inference-{replica}"
        assert len(await domains(site, RACK, of_replica(seen, "w-0-inference", replica))) == 1
        expected[branch] = ("", 0, RACK)
        for name in ("prefill", "decode"):
            assert len(seen.nodes(f"{branch}-{name}")) == 1
            expected[f"{branch}-{name}"] = (branch, 2, HOST)
    assert leaves(seen, "w-0") == expected


@embedded
async def test_sp_2_a_set_in_a_block_and_a_clique_on_a_host(site: GroveSite) -> None:
    await labelled(site)
    cliques = [small("worker", 2, **packed("host"))]
    await site.submit(pod_clique_set("w", cliques, template=packed("block", site.name)))
    seen = await site.until_counts(2, 0)
    assert len(seen.nodes()) == 1
    assert leaves(seen, "w-0") == {"": ("", 0, BLOCK), "w-0-worker": ("", 2, HOST)}


@both
async def test_sp_3_scaled_replicas_are_in_the_rack_of_the_base(site: GroveSite) -> None:
    """Upstream gives every gang the constraint, and finds all in one rack where chance wills it; here it must be so."""
    await labelled(site)
    groups = [group("inference", ["worker"], 3, 1, **packed("rack"))]
    await site.submit(pod_clique_set("w", [small("worker", 2)], groups, template=packed("rack", site.name)))
    seen = await site.until_counts(6, 0)
    assert {*seen[POD_GANGS]} == {"w-0", "w-0-inference-0", "w-0-inference-1"}
    assert len(await domains(site, RACK, seen.nodes())) == 1
    assert leaves(seen, "w-0") == {
        "": ("", 0, RACK),
        "w-0-inference-0": ("", 0, RACK),
        "w-0-inference-0-worker": ("w-0-inference-0", 2, ""),
    }


@embedded
async def test_sp_4_two_groups_and_a_router_share_a_block(site: GroveSite) -> None:
    await labelled(site)
    cliques = [small(name, 1) for name in ("dworker", "dleader", "pworker", "pleader")]
    groups = [
        group("decoder", ["dworker", "dleader"], 2, 1, **packed("rack")),
        group("prefill", ["pworker", "pleader"], 2, 1, **packed("rack")),
    ]
    pcs = pod_clique_set("w", [*cliques, small("router", 2)], groups, template=packed("block", site.name))
    await site.submit(pcs)
    seen = await site.until_counts(10, 0)
    assert len(await domains(site, BLOCK, seen.nodes())) == 1
    for name in ("w-0-decoder", "w-0-prefill"):
        for replica in (0, 1):
            assert len(await domains(site, RACK, of_replica(seen, name, replica))) == 1
    assert {*seen[POD_GROUPS]} == {"w-0", "w-0-decoder-0", "w-0-prefill-0"}
    assert set(leaves(seen, "w-0")) == {
        *("", "w-0-decoder-0", "w-0-prefill-0", "w-0-router"),
        *(f"w-0-decoder-0-{name}" for name in ("dworker", "dleader")),
        *(f"w-0-prefill-0-{name}" for name in ("pworker", "pleader")),
    }


@embedded
async def test_sp_5_a_group_in_a_rack_and_its_cliques_on_a_host(site: GroveSite) -> None:
    await labelled(site)
    groups = [group("workers", ["worker"], 2, 2, **packed("rack", site.name))]
    cliques = [small("worker", 2, 2, **packed("host"))]
    await site.submit(pod_clique_set("w", cliques, groups))
    seen = await site.until_counts(4, 0)
    for replica in (0, 1):
        assert len(of_replica(seen, "w-0-workers", replica)) == 1
    assert leaves(seen, "w-0")["w-0-workers-1-worker"] == ("w-0-workers-1", 2, HOST)


@embedded
async def test_sp_8_seven_scaled_gangs_share_the_block_of_their_base(site: GroveSite) -> None:
    await labelled(site)
    groups = [group("workers", ["worker"], 10, 3, **packed("rack"))]
    cliques = [small("worker", 2, 2, **packed("host"))]
    await site.submit(pod_clique_set("w", cliques, groups, template=packed("block", site.name)))
    seen = await site.until_counts(20, 0)
    assert {*seen[POD_GROUPS]} == {"w-0", *(f"w-0-workers-{number}" for number in range(7))}
    assert len(await domains(site, BLOCK, seen.nodes())) == 1
    assert all(len(of_replica(seen, "w-0-workers", replica)) == 1 for replica in range(10))


@embedded
async def test_ec_1_what_fits_in_no_rack_waits_whole(site: GroveSite) -> None:
    await labelled(site)
    await site.submit(pod_clique_set("w", [small("worker", 10, 10, 140)], template=packed("rack", site.name)))
    seen = await site.until_counts(0, 10)
    assert not seen.gated
    await site.until(lambda seen: seen.gang_condition("w-0").get("status") == "False")
    assert leaves(seen, "w-0") == {"": ("", 0, RACK), "w-0-worker": ("", 10, "")}


@embedded
async def test_mr_1_each_replica_of_a_set_has_a_rack(site: GroveSite) -> None:
    await labelled(site)
    await site.submit(pod_clique_set("w", [small("worker", 2)], replicas=2, template=packed("rack", site.name)))
    seen = await site.until_counts(4, 0)
    for index in (0, 1):
        assert len(await domains(site, RACK, seen.nodes(f"w-{index}-worker"))) == 1
        assert leaves(seen, f"w-{index}")[""] == ("", 0, RACK)

"""Gangs with rules between their own pods (X5, decision 0007), at size, with the steps that they may cost (X1, X2, X7).

Each verdict follows from how the case is built. Steps leave room for a pass over the nodes for every pod, and none for
trial and error.
"""

import random
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

import muster
from muster.planning.policy import Policy
from tests.oracles.checker import broken
from tests.support.factories import Raw, group, pod, podgroup, topology

HOST, RACK, ZONE = "kubernetes.io/hostname", "topology/rack", "topology/zone"
GPU = "nvidia.com/gpu"
KEY = "team/gang"


def hosts(number: int, per_rack: int = 8, racks_per_zone: int = 8, gpus: Iterable[int] = ()) -> list[Raw]:
    """Nodes of 8 GPUs, or of as many as are given one by one, in racks and zones."""
    nodes: list[Raw] = []
    sizes = [*gpus] or [8] * number
    for i in range(number):
        rack = i // per_rack
        labels = {HOST: f"n{i:04}", RACK: f"r{rack:03}", ZONE: f"z{rack // racks_per_zone:02}"}
        meta = {"name": f"n{i:04}", "labels": labels}
        status = {"allocatable": {"pods": "110", GPU: sizes[i]}}
        nodes.append({"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": status})
    return nodes


def ragged(number: int) -> list[Raw]:
    dice = random.Random(7)
    return hosts(number, gpus=[dice.randint(0, 8) for _ in range(number)])


def member(name: str, leaf: str, app: str, gpus: int = 1, **rules: list[tuple[str, str]]) -> Raw:
    """A pod with the label `app`; `away`, `near` and `spread` are keys of places and the apps that are meant."""
    asks: Raw = {GPU: gpus}
    raw = pod(name, leaf, **asks)
    raw["metadata"]["labels"]["app"] = app
    affinity = {
        field: {"requiredDuringSchedulingIgnoredDuringExecution": [_term(*one) for one in rules[kind]]}
        for kind, field in (("away", "podAntiAffinity"), ("near", "podAffinity"))
        if kind in rules
    }
    spread = [_term(*one) | {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"} for one in rules.get("spread", [])]
    raw["spec"] |= {"affinity": affinity, "topologySpreadConstraints": spread}
    return raw


def _term(key: str, app: str) -> Raw:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}


def flat(nodes: list[Raw], pods: int, apps: int = 1, sizes: tuple[int, ...] = (1,), **keys: list[str]) -> list[Raw]:
    """One leaf; every pod has rules about its own app, by these keys."""
    some = []
    for i in range(pods):
        app = f"app-{i % apps}"
        rules = {kind: [(key, app) for key in known] for kind, known in keys.items()}
        some.append(member(f"pod-{i}", "", app, sizes[i % len(sizes)], **rules))
    return [*nodes, podgroup(minMember=pods), *some]


def replicas(nodes: list[Raw], number: int, pods: int, need: int = 0, gpus: int = 1, **keys: list[str]) -> list[Raw]:
    """Leaves of which `need` are enough; the pods of each have rules about each other, by these keys."""
    some = []
    for i in range(number):
        rules = {kind: [(key, f"rep-{i}") for key in known] for kind, known in keys.items()}
        some += [member(f"rep-{i}-{j}", f"rep-{i}", f"rep-{i}", gpus, **rules) for j in range(pods)]
    return [*nodes, podgroup(*(group(f"rep-{i}", pods) for i in range(number)), minSubGroup=need or number), *some]


def leader(nodes: list[Raw], workers: int, key: str) -> list[Raw]:
    """One leader, and workers that must be in its place."""
    near = [member(f"worker-{i}", "workers", "worker", near=[(key, "leader")]) for i in range(workers)]
    return [
        *nodes,
        podgroup(group("leader", 1), group("workers", workers)),
        member("leader", "leader", "leader"),
        *near,
    ]


def guarded(nodes: list[Raw], each: int) -> list[Raw]:
    """Guards keep each other and all guests off their nodes; guests share nodes."""
    guards = [member(f"guard-{i}", "guards", "guard", away=[(HOST, "guard"), (HOST, "guest")]) for i in range(each)]
    guests = [member(f"guest-{i}", "guests", "guest") for i in range(each)]
    return [*nodes, podgroup(group("guards", each), group("guests", each)), *guards, *guests]


def planned(objects: list[Raw], steps: int) -> tuple[str, dict[str, str]]:
    """The verdict within so many steps, and the nodes of the pods; nothing is against the rules."""
    plan = muster.plan(muster.objects(objects), Policy(steps=steps))
    places = {one.pod: one.node for one in plan.bindings}
    if len(objects) < 700:  # the checker compares all pods with all others
        assert broken(objects, plan.to_dict()) == []
    return plan.verdict(KEY), places


FITS: dict[str, tuple[list[Raw], int]] = {
    "one to a rack, all racks": (flat(hosts(2_000), 250, away=[RACK]), 3_000),
    "one to a rack, pods of three sizes": (flat(ragged(800), 90, sizes=(1, 2, 4), away=[RACK]), 3_000),
    "one to a node, two kinds that avoid each other": (guarded(hosts(600), 300), 4_000),
    "even zones": (flat(hosts(192), 300, spread=[ZONE]), 2_000),
    "even zones, pods of three sizes": (flat(ragged(384), 300, sizes=(1, 2, 4), spread=[ZONE]), 2_000),
    "even zones and even nodes": (flat(hosts(384), 300, spread=[ZONE, HOST]), 2_000),
    "even zones and even nodes, four apps": (flat(hosts(384), 300, apps=4, spread=[ZONE, HOST]), 2_000),
    "even zones, one to a rack": (flat(ragged(384), 40, away=[RACK], spread=[ZONE]), 1_000),
    "a leader's rack": (leader(hosts(800), 63, RACK), 1_000),
    "a leader's zone": (leader(hosts(800), 500, ZONE), 1_000),
    "one rack for all": (flat(hosts(800), 64, near=[RACK]), 1_000),
    "20 racks for 20 replicas": (replicas(ragged(384), 20, 8, gpus=2, near=[RACK]), 4_000),
    "100 replicas, a rack each or shared": (replicas(hosts(1_000), 100, 8, gpus=2, near=[RACK]), 8_000),
    "40 replicas in zones, one to a node": (replicas(hosts(1_000), 40, 16, gpus=2, near=[ZONE], away=[HOST]), 8_000),
    "200 replicas, one to a rack": (replicas(hosts(640), 200, 4, gpus=2, away=[RACK]), 15_000),
    "50 of 60 replicas, one to a rack": (replicas(hosts(640), 60, 10, need=50, gpus=4, away=[RACK]), 10_000),
    "80 replicas, one to a node": (replicas(hosts(64), 80, 6, away=[HOST]), 8_000),
}
NEVER: dict[str, tuple[list[Raw], int]] = {
    "one to a rack, a rack short": (flat(hosts(2_000), 251, away=[RACK]), 20_000),
    "one to a rack, a rack short, pods of three sizes": (flat(hosts(320), 41, sizes=(1, 2, 4), away=[RACK]), 5_000),
    "a leader's rack, a GPU short": (leader(hosts(800), 64, RACK), 30_000),
    "one rack for all, a GPU short": (flat(hosts(800), 65, near=[RACK]), 10_000),
    "12 of 20 replicas, a rack each, 11 racks": (replicas(hosts(88), 20, 8, need=12, gpus=8, near=[RACK]), 10_000),
}


@pytest.mark.parametrize("case", FITS)
def test_a_gang_that_fits_under_its_own_rules_is_placed_in_few_steps(case: str) -> None:
    """X1, X7: what an engineer would place by hand costs a pass over the nodes for every pod, not a search."""
    verdict, places = planned(*FITS[case])
    assert verdict == "Scheduled"
    assert len(places) >= sum(one["kind"] == "Pod" for one in FITS[case][0]) * 5 // 6


@pytest.mark.parametrize("case", NEVER)
def test_a_gang_that_its_own_rules_forbid_is_proved_impossible_in_few_steps(case: str) -> None:
    """X2: "no" is a proof, and costs no enumeration where places can be counted."""
    assert planned(*NEVER[case])[0] == "Infeasible"


@pytest.mark.parametrize("case", [*FITS, *NEVER])
@pytest.mark.parametrize("steps", [5, 200])
def test_a_budget_that_is_too_small_ends_unknown_and_never_with_a_wrong_verdict(case: str, steps: int) -> None:
    """X2, X7: running out of steps says nothing about the gang."""
    objects, _ = FITS.get(case) or NEVER[case]
    assert planned(objects, steps)[0] in ("Unknown", "Scheduled" if case in FITS else "Infeasible")


def test_replicas_that_have_more_pods_than_there_are_racks_leave_the_choice_to_the_others() -> None:
    """M3: of 30 replicas of 12 pods and 10 of 8, one to a rack and 10 racks, the ten small ones are the choice."""
    objects = replicas(hosts(80), 40, 12, need=10, away=[RACK])
    small = {f"rep-{i}" for i in range(3, 40, 4)}
    for part in objects[80]["spec"]["subGroups"]:
        part["minMember"] = 8 if part["name"] in small else 12
    verdict, places = planned(objects, 10_000)
    assert verdict == "Scheduled"
    assert {name.rsplit("-", 1)[0] for name in places} == small


def test_pods_that_keep_their_distance_take_the_roomy_racks_where_tight_ones_would_not_do() -> None:
    """X1: two apps of three, one to a rack; tight racks first would leave the second app two racks."""
    nodes = hosts(4, per_rack=1, gpus=[1, 1, 2, 2])
    verdict, places = planned(flat(nodes, 6, apps=2, away=[RACK]), 1_000)
    assert verdict == "Scheduled"
    assert Counter(places.values()) == {"n0000": 1, "n0001": 1, "n0002": 2, "n0003": 2}


def test_spread_and_levels_together() -> None:
    """T1 and spread: every replica in a rack of its own choice, even over its nodes."""
    racks: Raw = {"topologyConstraint": {"requiredTopologyLevel": "rack"}}
    objects = replicas(hosts(160), 20, 6, gpus=4, spread=[HOST])
    for part in objects[160]["spec"]["subGroups"]:
        part.update(racks)
    assert planned([topology(RACK), *objects], 3_000)[0] == "Scheduled"


def many_rules(gangs: int) -> list[Raw]:
    """Gangs of two pods that keep off each other's node, each with a label of its own."""
    objects: list[Raw] = hosts(20)
    for i in range(gangs):
        objects.append(podgroup(name=f"gang-{i}", minMember=2))
        for j in range(2):
            one = member(f"gang-{i}-{j}", "", f"app-{i}", 0, away=[(HOST, f"app-{i}")])
            one["metadata"]["annotations"] = {"pod-group-name": f"gang-{i}"}
            objects.append(one)
    return objects


@pytest.mark.parametrize("gangs", [63, 64, 65, 200])
def test_gangs_with_a_rule_each_are_placed_beyond_the_columns_that_a_snapshot_has(gangs: int) -> None:
    """The usual "one of these on a node" is a column for the first rules, and a rule like others beyond."""
    objects = many_rules(gangs)
    plan = muster.plan(muster.objects(objects))
    where: dict[str, Any] = {}
    for one in plan.bindings:
        where.setdefault(one.pod.rsplit("-", 1)[0], set()).add(one.node)
    assert {len(nodes) for nodes in where.values()} == {2}
    assert len(where) == gangs

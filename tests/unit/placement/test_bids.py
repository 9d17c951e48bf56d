"""What domains are worth to pods that prefer nodes: all domains in one pass, as if each were asked about alone."""

import random

import numpy as np
import pytest

import muster
from muster.model.snapshot import take
from muster.placement.capacity import Capacity, PodClasses
from tests.support.factories import Raw, pod, podgroup, topology

GPU = "nvidia.com/gpu"


def manifests(rng: random.Random) -> list[Raw]:
    """Nodes in racks, some in none, and pods that would rather be on some of them."""
    objects = [topology("topology/rack"), podgroup(minMember=1)]
    for i in range(rng.randint(1, 12)):
        labels = {"colour": rng.choice("rgb")} | (
            {"topology/rack": f"r{rng.randrange(4)}"} if rng.random() < 0.8 else {}
        )
        room = {GPU: str(rng.randint(0, 8)), "pods": "9"}
        meta = {"name": f"n{i:02}", "labels": labels}
        objects.append({"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": {"allocatable": room}})
    for i in range(3):
        asks: Raw = {GPU: rng.randint(1, 3)}
        raw = pod(f"p{i}", **asks)
        terms = [_term(rng.randint(1, 9), colour) for colour in rng.sample("rgb", rng.randint(1, 3))]
        raw["spec"]["affinity"] = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}
        objects.append(raw)
    return objects


def _term(weight: int, colour: str) -> Raw:
    found = {"key": "colour", "operator": "In", "values": [colour]}
    return {"weight": weight, "preference": {"matchExpressions": [found]}}


@pytest.mark.parametrize("seed", range(100))
def test_domains_are_worth_what_each_is_worth_alone(seed: int) -> None:
    """X5: whatever is free, before and after pods have come."""
    rng = random.Random(seed)
    snapshot = take(muster.objects(manifests(rng)))
    level = snapshot.topologies["cluster"].levels[0]
    ledger = Capacity(PodClasses(snapshot), snapshot.free)
    domains = np.array(rng.sample(range(len(level.paths)), rng.randint(0, len(level.paths))), dtype=np.int64)
    for _ in range(3):
        for shape in range(len(snapshot.classes)):
            need = rng.randint(1, 6)
            alone = [ledger.preference_score(shape, level.nodes(domain), need) for domain in domains.tolist()]
            assert ledger.preference_scores(shape, level, domains, need).tolist() == alone
        ledger.put(rng.randrange(len(snapshot.nodes)), 0, 1)

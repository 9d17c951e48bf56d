"""Preference scores of domains: one pass over all domains gives the same scores as each domain alone."""

import random

import numpy as np
import pytest

import muster
from muster.model.snapshot import take
from muster.placement.capacity import Capacity, PodClasses
from tests.support.factories import Raw, pod, podgroup, topology

GPU = "nvidia.com/gpu"


def manifests(rng: random.Random) -> list[Raw]:
    """Nodes in racks, some in none, and pods with preferred node affinity."""
    objects = [topology("topology/rack"), podgroup(minMember=1)]
    for i in range(rng.randint(1, 12)):
        labels = {"colour": rng.choice("rgb")} | (
            {"topology/rack": f"r{rng.randrange(4)}"} if rng.random() < 0.8 else {}
        )
        allocatable = {GPU: str(rng.randint(0, 8)), "pods": "9"}
        meta = {"name": f"n{i:02}", "labels": labels}
        objects.append({"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": {"allocatable": allocatable}})
    for i in range(3):
        requests: Raw = {GPU: rng.randint(1, 3)}
        raw = pod(f"p{i}", **requests)
        terms = [_term(rng.randint(1, 9), colour) for colour in rng.sample("rgb", rng.randint(1, 3))]
        raw["spec"]["affinity"] = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}
        objects.append(raw)
    return objects


def _term(weight: int, colour: str) -> Raw:
    expression = {"key": "colour", "operator": "In", "values": [colour]}
    return {"weight": weight, "preference": {"matchExpressions": [expression]}}


@pytest.mark.parametrize("seed", range(100))
def test_scores_of_all_domains_equal_the_score_of_each_alone(seed: int) -> None:
    """X5: with any free capacity, before and after pods are assigned."""
    rng = random.Random(seed)
    snapshot = take(muster.objects(manifests(rng)))
    level = snapshot.topologies["cluster"].levels[0]
    capacity = Capacity(PodClasses(snapshot), snapshot.free)
    domains = np.array(rng.sample(range(len(level.paths)), rng.randint(0, len(level.paths))), dtype=np.int64)
    for _ in range(3):
        for pod_class in range(len(snapshot.classes)):
            need = rng.randint(1, 6)
            alone = [capacity.preference_score(pod_class, level.nodes(domain), need) for domain in domains.tolist()]
            assert capacity.preference_scores(pod_class, level, domains, need).tolist() == alone
        capacity.put(rng.randrange(len(snapshot.nodes)), 0, 1)

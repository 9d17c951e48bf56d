"""Plain gangs that share a turn: the plan is the one that is made turn by turn, byte for byte (G4, X3)."""

import os
import random
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec
import numpy as np
import pytest

import muster
from muster.model.gang.gang import Gang
from muster.model.gang.state import standings
from muster.model.queues import any_footprint, footprint
from muster.model.snapshot import Snapshot, take
from muster.placement.budget import Budget
from muster.placement.capacity import Capacity, PodClasses, SupposedCapacity
from muster.placement.domains import Domains
from muster.placement.packing.fit_index import DomainFitIndex, FitIndex
from muster.placement.packing.packing import fill
from muster.placement.requirements.types import RequiredLevel
from muster.planning.allocation.plain_extras import PlainExtras
from muster.planning.allocation.plain_gangs import PlainGangs
from muster.planning.cycle import plan
from muster.planning.decision import Binding
from muster.planning.policy import Policy
from muster.reporting.plans import data
from tests.support.factories import Raw, group, pod, podgroup, queue

SEEDS = {"nightly": 5_000}.get(os.environ.get("HYPOTHESIS_PROFILE", ""), 300)
SLICES = 6
NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
GPU = "nvidia.com/gpu"
CLASSES = (10, 50, 120)

slices = pytest.mark.parametrize("part", range(SLICES))


class EqualGangs:
    """A small busy cluster of chance in which many gangs are equal; elastic: with more extras, and room for some."""

    def __init__(self, seed: int, is_elastic: bool = False) -> None:
        self.rng = random.Random(seed)
        self.nodes = [f"n{i}" for i in range(self.rng.randint(2, 7))]
        self.free = {name: self.rng.choice((8, 16, 32) if is_elastic else (2, 4, 8)) for name in self.nodes}
        self.queues = [f"q{i}" for i in range(self.rng.choice((0, 1, 1, 2, 3)))]
        self.more_extras = 6 if is_elastic else 0  # of every gang that has some

    def objects(self) -> list[Raw]:
        made = [*self._nodes(), *self._classes(), *self._queues()]
        for i in range(self.rng.choice((0, 0, 1, 4))):
            made += self._running(f"runs-{i}")
        kinds = [self._spec() for _ in range(self.rng.randint(1, 3))]
        for i in range(self.rng.randint(2, 14)):
            made += self._waiting(f"gang-{i:02}", *self.rng.choice(kinds))
        if self.rng.random() < 0.3:
            roles = podgroup(group("a", 1), group("b", 1), name="roles", **self._terms())
            made += [roles, *(member(f"roles-{leaf}", "roles", 1, leaf) for leaf in "ab")]
        return made

    def _nodes(self) -> Iterator[Raw]:
        levels = [{"nodeLabel": "zone"}, {"nodeLabel": "rack"}]
        spec: Raw = {"kind": "Topology", "metadata": {"name": "t"}, "spec": {"levels": levels}}
        yield {"apiVersion": "kai.scheduler/v1alpha1", **spec}
        for i, name in enumerate(self.nodes):
            labels = {"zone": f"z{i // 4}", "rack": f"r{i // 2}"}
            allocatable = {GPU: str(self.free[name]), "pods": "110"}
            meta = {"name": name, "labels": labels}
            yield {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": {"allocatable": allocatable}}

    def _classes(self) -> Iterator[Raw]:
        for value in CLASSES:
            meta = {"name": f"p{value}"}
            yield {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": meta, "value": value}

    def _queues(self) -> Iterator[Raw]:
        most = sum(self.free.values())
        is_nested = len(self.queues) > 1 and self.rng.random() < 0.5
        if is_nested:
            yield queue("top", gpu={"quota": -1, "limit": self.rng.randint(most // 2, most)})
        for name in self.queues:
            gpu: Raw = {"quota": self.rng.choice((0, 2, most, -1))}
            if self.rng.random() < 0.5:
                gpu["limit"] = self.rng.randint(1, most)
            yield queue(name, "top" if is_nested else "", gpu=gpu)

    def _terms(self) -> Raw:
        terms: Raw = {"priorityClassName": f"p{self.rng.choice((*CLASSES, 50, 50))}"}
        if self.queues:
            terms["queue"] = self.rng.choice(self.queues)
        kind = self.rng.choice(("", "", "", "non-preemptible", "semi-preemptible"))
        return terms | ({"preemptibility": kind} if kind else {})

    def _spec(self) -> tuple[Raw, int, int]:
        """What gangs have in common: their spec, pods, and GPUs of each."""
        need = self.rng.randint(1, 5)
        level: Raw = {}
        if (dice := self.rng.random()) < 0.4:
            kind = "required" if dice < 0.3 else "preferred"
            level = {"topologyConstraint": {f"{kind}TopologyLevel": self.rng.choice(("rack", "zone"))}}
        extras = self.rng.choice((0, 0, 0, 1, 3, -1))
        pods = max(need + extras + (self.more_extras if extras > 0 else 0), 0)
        return {"minMember": need, **level, **self._terms()}, pods, self.rng.choice((1, 1, 2))

    def _waiting(self, name: str, spec: Raw, pods: int, gpus: int) -> Iterator[Raw]:
        if self.rng.random() < 0.2:
            spec = spec | self._terms()
        made = podgroup(name=name, **spec)
        made["metadata"]["creationTimestamp"] = f"2026-05-01T0{self.rng.randrange(3)}:00:00Z"
        yield made
        for i in range(pods):
            raw = member(f"{name}-{i}", name, gpus)
            if self.rng.random() < 0.05:
                raw["status"] = {"nominatedNodeName": self.rng.choice(self.nodes)}
            yield raw

    def _running(self, name: str) -> Iterator[Raw]:
        yield podgroup(name=name, minMember=1, **self._terms())
        for i in range(self.rng.randint(1, 3)):
            on = self.rng.choice(self.nodes)
            if self.free[on] > 0:
                self.free[on] -= 1
                raw = member(f"{name}-{i}", name, 1, on=on)
                if self.rng.random() < 0.2:
                    raw["metadata"]["deletionTimestamp"] = "2026-05-01T11:59:50Z"
                yield raw


def member(name: str, gang: str, gpus: int, leaf: str = "", on: str = "") -> Raw:
    requests: Any = {GPU: str(gpus)}
    return pod(name, leaf, gang=gang, on=on, **requests)


def planned(snapshot: Snapshot, policy: Policy) -> tuple[bytes, object, list[tuple[Binding, ...]]]:
    """The plan as bytes, the steps of every gang, and what was reported while it was made."""
    reported: list[tuple[Binding, ...]] = []
    decided = plan(snapshot, policy, reported.append)
    return msgspec.json.encode(data(decided)), decided.searches, reported


@slices
def test_gangs_that_share_a_turn_get_what_each_would_get_at_its_own(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over queues with limits, priorities, levels, extras, nominations and victims."""
    shared = 0

    def counting(self: PlainGangs, gangs: list[str], *rest: Any) -> Any:
        nonlocal shared
        shared += len(gangs) > 1
        return bind(self, gangs, *rest)

    bind = PlainGangs.bind
    for seed in range(part, SEEDS, SLICES):
        objects = muster.objects(EqualGangs(seed).objects())
        policy = Policy(max_disturbed_percent=random.Random(seed).choice((5, 50, 100)))
        with monkeypatch.context() as patched:
            patched.setattr(PlainGangs, "bind", counting)
            together = planned(take(objects, NOW), policy)
        with monkeypatch.context() as patched:
            patched.setattr(PlainGangs, "add", lambda *_: False)
            one_by_one = planned(take(objects, NOW), policy)
        assert together == one_by_one, f"seed {seed}"
    assert shared > SEEDS // SLICES // 10, "else this tests nothing"


@slices
def test_extras_bound_one_by_one_are_those_of_ordinary_turns(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """G3, G4: a gang is written once with all its extras, and the plan is the one with every turn written."""
    bound = 0

    def counting(self: PlainExtras, *rest: Any) -> Any:
        nonlocal bound
        bound += 1
        return bind(self, *rest)

    bind = PlainExtras.bind
    for seed in range(part, SEEDS, SLICES):
        objects = muster.objects(EqualGangs(seed, is_elastic=True).objects())
        policy = Policy(max_disturbed_percent=random.Random(seed).choice((5, 50, 100)))
        with monkeypatch.context() as patched:
            patched.setattr(PlainExtras, "bind", counting)
            plainly, _, plainly_reported = planned(take(objects, NOW), policy)
        with monkeypatch.context() as patched:
            patched.setattr(PlainExtras, "requirement", lambda *_: None)
            ordinarily, _, reported = planned(take(objects, NOW), policy)
        assert (plainly, plainly_reported) == (ordinarily, reported), f"seed {seed}"  # in fewer steps
    assert bound > SEEDS // SLICES, "else this tests nothing"


def gangs_of(seed: int) -> tuple[Gang, ...]:
    return take(muster.objects(EqualGangs(seed).objects()), NOW).gangs


def test_the_footprint_of_a_uniform_gang_is_the_one_of_any_gang() -> None:
    for seed in range(SEEDS // 3):
        for gang in gangs_of(seed):
            assert footprint(gang) == any_footprint(gang), f"seed {seed}, {gang.key}"


def test_the_standing_of_a_uniform_gang_is_the_one_of_any_gang() -> None:
    for seed in range(SEEDS // 3):
        for gang in gangs_of(seed):
            assert gang.standings == standings(gang.root), f"seed {seed}, {gang.key}"


# the index of seats -------------------------------------------------------------------------------------------------


def filled(fits: Any, nodes: Any, pods: int) -> list[tuple[int, int]] | None:
    return fill(nodes, fits[nodes], pods)


def test_an_index_that_has_moved_finds_what_one_pass_over_the_nodes_finds() -> None:
    """X4: for one gang after the other, with nodes that fill up and empty between them."""
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        fits = rng.integers(0, 6, size=rng.integers(1, 12))
        index, nodes = FitIndex(fits), np.arange(len(fits))
        for pods in rng.integers(1, 9, size=12).tolist():
            assert index.tightest(pods) == filled(fits, nodes, pods), f"seed {seed}"
            at, after = int(rng.integers(len(fits))), int(rng.integers(6))
            before, fits[at] = int(fits[at]), after
            index.move(at, before, after)


@pytest.mark.parametrize("is_by_domain", [False, True])
def test_equal_gangs_are_packed_as_one_after_the_other(is_by_domain: bool) -> None:
    for seed in range(SEEDS // 3):
        snapshot = take(muster.objects(EqualGangs(seed).objects()), NOW)
        capacity = Capacity(PodClasses(snapshot), snapshot.free)
        level = snapshot.topologies["t"].levels[1] if is_by_domain else None
        pod_classes = range(len(snapshot.classes)) if snapshot.classes else ()
        for pod_class in pod_classes:
            pods = 1 + (seed + pod_class) % 4
            expected = list(one_by_one(capacity.fits(pod_class).copy(), level, pods))
            assert capacity.count_gangs(pod_class, level, pods) == len(expected), f"seed {seed}"
            packed, counts = capacity.pack(pod_class, level, pods, len(expected))
            assert packed == expected, f"seed {seed}"
            capacity.put_packed(pod_class, counts)
            assert capacity.count_gangs(pod_class, level, pods) == 0
            for other in pod_classes:
                assert (capacity.fits(other) == Capacity(capacity.pod_classes, capacity.free).fits(other)).all(), (
                    f"seed {seed}"
                )


def test_seats_beside_those_taken_are_what_one_pass_over_the_nodes_finds() -> None:
    """X4: only nodes that changed are looked at."""
    for seed in range(SEEDS // 3):
        rng, snapshot = random.Random(seed), take(muster.objects(EqualGangs(seed).objects()), NOW)
        capacity = Capacity(PodClasses(snapshot), snapshot.free)
        regions, supposed = Domains(capacity, snapshot.topologies, Budget(10_000)), SupposedCapacity(capacity)
        for pod_class in range(len(snapshot.classes)):
            for _ in range(2):
                supposed.put(rng.randrange(len(snapshot.nodes)), pod_class, rng.randint(1, 3))
            for i, level in enumerate(snapshot.topologies["t"].levels):
                expected = level.sums(supposed.fits_in(pod_class, np.arange(len(snapshot.nodes))))
                assert (regions.fits_left(RequiredLevel("t", i), pod_class, supposed) == expected).all(), f"seed {seed}"


def test_a_copy_of_a_ledger_knows_what_was_free_when_it_was_made() -> None:
    """Numbers are copied late, or worked out again: whatever is written to the ledger and its copies, in any order."""
    for seed in range(SEEDS // 3):
        rng, snapshot = random.Random(seed), take(muster.objects(EqualGangs(seed).objects()), NOW)
        capacities, classes = [Capacity(PodClasses(snapshot), snapshot.free)], range(len(snapshot.classes))
        for _ in range(30 if classes else 0):
            capacity, pod_class = rng.choice(capacities), rng.choice(classes)
            match rng.randrange(6):
                case 0:
                    capacities.append(capacity.copy())
                case 1:
                    capacity.put(rng.randrange(len(snapshot.nodes)), pod_class, rng.choice((-1, 1, 2)))
                case 2:
                    _, counts = capacity.pack(pod_class, None, 1, rng.randint(0, 3))
                    capacity.put_packed(pod_class, counts)
                case 3:
                    capacity.free_all(snapshot.allocatable // 4)
                case _:
                    expected = Capacity(capacity.pod_classes, capacity.free, capacity.inter_pod).fits(pod_class)
                    assert (capacity.fits(pod_class) == expected).all(), f"seed {seed}"


def one_by_one(fits: Any, level: Any, pods: int) -> Iterator[list[tuple[int, int]]]:
    """The definition: an index built again for each gang."""
    while True:
        index = FitIndex(fits) if level is None else DomainFitIndex(fits, level)
        places = index.tightest(pods)
        if places is None:
            return
        yield places
        for at, count in places:
            fits[at] -= count

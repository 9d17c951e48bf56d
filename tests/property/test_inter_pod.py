"""Rules between pods: what is fast or quick against its slow definition."""

import os
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import muster
from muster.api.core import Pod as ApiPod
from muster.api.meta import LabelSelector, LabelSelectorRequirement, ObjectMeta
from muster.model.inter_pod_rules import Rule, Scope
from muster.model.label_index import LabelIndex
from muster.model.node_counts import NodeCounts
from muster.model.snapshot import take
from muster.placement.bounds import Bounds
from muster.placement.capacity import Capacity, PodClasses
from muster.placement.inter_pod import node_assignment
from muster.placement.inter_pod.bounds import Distances
from muster.placement.inter_pod.verification import are_rules_kept
from muster.placement.packing.packing import Demand, NodeSet
from muster.placement.requirements.builder import Requirements
from muster.placement.requirements.tree import pod_classes
from muster.placement.requirements.types import Requirement, RequirementKinds
from muster.placement.search import nested_search
from tests.oracles.checker import broken
from tests.oracles.inter_pod import feasible, manifests, puzzle
from tests.property.test_inter_pod_rules import placements, wrong

SEEDS = {"nightly": 5_000}.get(os.environ.get("HYPOTHESIS_PROFILE", ""), 150)
SLICES = 10
PAIRS = st.dictionaries(st.sampled_from("abc"), st.sampled_from("xyz"), max_size=3)
REQUIREMENTS = st.builds(
    LabelSelectorRequirement,
    key=st.sampled_from("abc"),
    operator=st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]),
    values=st.lists(st.sampled_from("xyz"), max_size=3).map(tuple),
)
SELECTORS = st.none() | st.builds(
    LabelSelector, match_labels=PAIRS, match_expressions=st.lists(REQUIREMENTS, max_size=2).map(tuple)
)


@given(st.lists(st.tuples(PAIRS, st.sampled_from(["team", "other"])), max_size=12), SELECTORS)
def test_an_index_selects_what_asking_every_pod_selects(
    pods: list[tuple[dict[str, str], str]], selector: LabelSelector | None
) -> None:
    known = [ApiPod(metadata=ObjectMeta(name="pod", namespace=space, labels=labels)) for labels, space in pods]
    rule, scope = Rule(kind="anti_affinity", key="rack", selector=selector, namespaces=("team",)), Scope(())
    selected_one_by_one = [i for i, pod in enumerate(known) if scope.selects(rule, pod)]
    assert LabelIndex(known, scope).selected(rule) == selected_one_by_one


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(-2, 2), st.booleans()), max_size=30))
def test_copies_of_counts_are_independent(changes: list[tuple[int, int, int, bool]]) -> None:
    """A hypothesis is a new value: after any changes to copies, each has its own, and so has what was copied."""
    known: list[tuple[NodeCounts, dict[tuple[int, int], int]]] = [(NodeCounts(4), {})]
    for rule, node, count, is_copied in changes:
        counts, dense = known[-1]
        if is_copied:
            known.append((counts.copy(), dict(dense)))
        for at in [-1, 0] if len(known) > 1 and count > 0 else [-1]:
            counts, dense = known[at]
            counts.add(rule, node, count)
            dense[rule, node] = dense.get((rule, node), 0) + count
    for counts, dense in known:
        assert [*counts.entries()] == sorted((*at, count) for at, count in dense.items() if count)
        for rule in range(3):
            assert counts.row(rule).tolist() == [dense.get((rule, node), 0) for node in range(4)]


def test_the_judgement_of_seats_is_that_of_the_rules() -> None:
    """0007: seats on nodes that a class may be on keep all rules if and only if nothing is wrong with them."""
    dice = random.Random(0)
    for seed in range(SEEDS):
        known_puzzle = puzzle(seed, hosts=4, pods=4)
        snapshot = take(muster.objects(manifests(known_puzzle)))
        capacity = Capacity(PodClasses(snapshot), snapshot.free)
        tried = list(placements(known_puzzle))
        for seats in dice.sample(tried, min(20, len(tried))):
            at = {pod: snapshot.node_index[host.name] for pod, host in seats.items()}
            pod_class = {pod: snapshot.class_of[f"{pod.namespace}/{pod.name}"] for pod in seats}
            demands = [Demand(0, pod_class[pod], 1, NodeSet((), snapshot.taints_of)) for pod in seats]
            numbers = capacity.inter_pod.among(dict.fromkeys(pod_class.values()))
            rules = {number: capacity.inter_pod.rules[number] for number in numbers}
            is_kept = are_rules_kept(capacity, demands, {i: [(at[pod], 1)] for i, pod in enumerate(seats)}, rules)
            is_allowed = all(capacity.allowed(pod_class[pod])[at[pod]] for pod in seats)
            columns = snapshot.free.copy()
            for pod in seats:
                columns[at[pod]] -= snapshot.classes[pod_class[pod]].requests
            is_alone = bool((columns >= 0).all())  # one of a kind on a node is a column
            bad = {*wrong(known_puzzle, seats)}
            if "resources" not in bad:
                assert (is_kept and is_allowed and is_alone) == (not bad & {"apart", "beside", "spread"}), seed


@pytest.mark.parametrize("part", range(SLICES))
def test_bounds_by_distances_exclude_only_what_is_impossible(part: int) -> None:
    """X1: what the oracle places passes the bounds, with anti-affinity counted in."""
    for seed in range(part, 2 * SEEDS, SLICES):
        known = puzzle(seed)
        if not feasible(known):
            continue
        snapshot = take(muster.objects(manifests(known)))
        capacity = Capacity(PodClasses(snapshot), snapshot.free)
        for requirement in Requirements(snapshot.gangs[0], snapshot, RequirementKinds()).core_requirements():
            assert isinstance(requirement, Requirement)
            bounds = Bounds(capacity, snapshot.topologies)
            bounds.distances = Distances(capacity, capacity.inter_pod.among(pod_classes(requirement)))
            assert bounds.is_possible(requirement), f"seed {seed}"


@pytest.fixture
def settling_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No first try finds anything."""

    def nothing(*_given: object) -> None:
        return None

    monkeypatch.setattr(node_assignment, "construct", nothing)
    monkeypatch.setattr(nested_search, "construct_beside", nothing)


@pytest.mark.usefixtures("settling_alone")
@pytest.mark.parametrize("part", range(SLICES))
def test_settling_alone_gives_the_oracles_verdict(part: int) -> None:
    """X1, X2: what first tries do not find is placed or proved impossible."""
    for seed in range(part, SEEDS, SLICES):
        known = puzzle(seed)
        objects = manifests(known)
        plan = muster.plan(muster.objects(objects)).to_dict()
        verdict = plan["podGroups"][0]["verdict"]
        assert verdict == ("Scheduled" if feasible(known) else "Infeasible"), f"seed {seed}"
        assert broken(objects, plan) == [], f"seed {seed}"

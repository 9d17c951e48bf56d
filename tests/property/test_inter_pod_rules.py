"""Rules between pods (decision 0007): the engine against the oracle, the oracle against counting out, the judge too."""

import os
import random
from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations, product
from typing import Any

import pytest

import muster
from tests.oracles.checker import broken
from tests.oracles.inter_pod import (
    HOST,
    Host,
    Leaf,
    Pod,
    Puzzle,
    Spread,
    Term,
    counts,
    domain,
    feasible,
    manifests,
    place,
    puzzle,
    selects,
    series,
    takes,
)

SEEDS = {"nightly": 10_000}.get(os.environ.get("HYPOTHESIS_PROFILE", ""), 300)
TINY = 150
SLICES = 20
Seats = dict[Pod, Host]


@pytest.mark.parametrize("part", range(SLICES))
def test_the_verdict_is_the_oracles(part: int) -> None:
    """X1, X2, X5: a gang with rules between its pods is placed where it can be, and proved impossible where not."""
    for seed in range(part, SEEDS, SLICES):
        given = puzzle(seed)
        objects = manifests(given)
        plan = muster.plan(muster.objects(objects)).to_dict()
        verdict = plan["podGroups"][0]["verdict"]
        assert verdict == ("Scheduled" if feasible(given) else "Infeasible"), f"seed {seed}"
        assert broken(objects, plan) == [], f"seed {seed}"


def test_the_oracle_counts_right() -> None:
    """On tiny clusters every placement can be tried; the oracle says what that says."""
    for seed in range(TINY):
        given = puzzle(seed, hosts=4, pods=4)
        assert feasible(given) == any(not wrong(given, seats) for seats in placements(given)), f"seed {seed}"


def test_the_judge_sees_what_is_wrong() -> None:
    """The checker passes what 0007 allows and nothing else, for a gang that comes at once."""
    rng = random.Random(0)
    for seed in range(TINY):
        given = puzzle(seed, hosts=4, pods=4)
        tried = list(placements(given))
        for seats in rng.sample(tried, min(20, len(tried))):
            expected, reported = wrong(given, seats), broken(manifests(given), as_plan(given, seats))
            assert bool(expected) == bool(reported), f"seed {seed}: {expected} {reported} {seats}"


def test_a_carrier_of_another_kind_keeps_its_distance_too() -> None:
    """Two pods of a leaf keep away from kind `a` by host, and only one of them is of that kind: one host is too few."""
    away = (Term(HOST, ("a",)),)
    leaf = Leaf("", 2, None, (Pod("p-0", "a", asks=1, apart=away), Pod("p-1", "b", asks=1, apart=away)))
    for sizes in ((2,), (2, 2)):
        given = Puzzle(tuple(Host(f"n{i}", {}, free) for i, free in enumerate(sizes)), (), (leaf,), 1, None)
        plan = muster.plan(muster.objects(manifests(given))).to_dict()
        assert plan["podGroups"][0]["verdict"] == ("Scheduled" if len(sizes) > 1 else "Infeasible")
        assert broken(manifests(given), plan) == []


def placements(given: Puzzle) -> Iterator[Seats]:
    """Every choice of leaves, of pods and of hosts that they take by themselves."""
    for leaves in combinations(given.leaves, given.need):
        for chosen in product(*(combinations(leaf.pods, leaf.need) for leaf in leaves)):
            pods = [pod for some in chosen for pod in some]
            for hosts in product(*([host for host in given.hosts if takes(pod, host)] for pod in pods)):
                yield Seats(zip(pods, hosts, strict=True))


def wrong(given: Puzzle, seats: Seats) -> list[str]:
    """What 0007 has against a finished placement, read off it."""
    rules = {"resources": _full, "level": _split, "apart": _close, "beside": _alone, "spread": _uneven}
    return [name for name, rule in rules.items() if rule(given, seats)]


def _all(given: Puzzle, seats: Seats) -> Seats:
    hosts = {host.name: host for host in given.hosts}
    return seats | {pod: hosts[pod.on] for pod in given.outside}


def _full(given: Puzzle, seats: Seats) -> bool:
    return any(sum(pod.asks for pod, at in seats.items() if at is host) > host.gpus for host in given.hosts)


def _split(given: Puzzle, seats: Seats) -> bool:
    for level, pods in [(given.level, given.pods), *((leaf.level, leaf.pods) for leaf in given.leaves)]:
        if level is not None:
            domains = {domain(seats[pod], level) for pod in pods if pod in seats}
            if None in domains or len(domains) > 1:
                return True
    return False


def _close(given: Puzzle, seats: Seats) -> bool:
    everyone = _all(given, seats)
    return any(
        one is not other
        and (one in seats or other in seats)
        and selects(one, term, other)
        and place(everyone[one], term.key) is not None
        and place(everyone[one], term.key) == place(everyone[other], term.key)
        for one in everyone
        for term in one.apart
        for other in everyone
    )


def _alone(given: Puzzle, seats: Seats) -> bool:
    everyone = _all(given, seats)
    starts = defaultdict(set)
    for pod, host in seats.items():
        for term in pod.beside:
            here = place(host, term.key)
            selected = [other for other in everyone if selects(pod, term, other)]
            there = [other for other in selected if place(everyone[other], term.key) == here]
            free = [other for other in there if series(pod, term) not in [series(other, t) for t in other.beside]]
            if here is None:
                return True
            if any(other.on for other in there) or free:
                continue
            outside = [other for other in selected if other.on and place(everyone[other], term.key) is not None]
            if outside or not there:
                return True
            starts[series(pod, term)].add(here)
    return any(len(places) > 1 for places in starts.values())


def _uneven(given: Puzzle, seats: Seats) -> bool:
    return any(_skewed(given, seats, pod, rule) for pod in seats for rule in pod.spread)


def _skewed(given: Puzzle, seats: Seats, pod: Pod, rule: Spread) -> bool:
    here = place(seats[pod], rule.key)
    tally = {place(host, rule.key): 0 for host in given.hosts if counts(pod, rule, host)}
    tally.pop(None, None)
    for other, host in _all(given, seats).items():
        if selects(pod, rule, other) and not other.terminating and counts(pod, rule, host) and place(host, rule.key):
            tally[place(host, rule.key)] += 1
    if here is None:
        return True
    return tally[here] > rule.skew + (0 if len(tally) < rule.places else min(tally.values()))


def as_plan(given: Puzzle, seats: Seats) -> dict[str, Any]:
    return {
        "bindings": [
            {"namespace": pod.namespace, "pod": pod.name, "node": host.name, "podGroup": "gang", "role": "core"}
            for pod, host in seats.items()
        ],
        "podGroups": [{"namespace": "team", "name": "gang", "verdict": "Scheduled"}],
    }

"""Who has to leave (0008): the engine against an oracle, the oracle against the judge, and what holds of every plan."""

import copy
import json
import os
import random
from collections.abc import Iterator
from datetime import datetime
from fractions import Fraction
from itertools import combinations, product
from typing import Any

import pytest

import muster
from tests.oracles.checker import broken
from tests.oracles.disturbance import outcomes
from tests.oracles.fair_shares import Claim, Queues, Says, divide
from tests.oracles.objects import CheckedGang, ObjectIndex, key_of, labels, name, overfull
from tests.oracles.victims import NOW, Action, Puzzle, fewest, manifests, puzzle, scarce

Raw = dict[str, Any]

NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE", "") == "nightly"
SEEDS = 5_000 if NIGHTLY else 300
SLICES = 10
MOMENT = datetime.fromisoformat(NOW)
ACTIONS: tuple[Action, ...] = ("consolidate", "reclaim", "preempt")
REASONS = {"consolidate": "Consolidate", "reclaim": "Reclaim", "preempt": "Preempt"}

slices = pytest.mark.parametrize("part", range(SLICES))


def planned(objects: list[Raw]) -> Raw:
    return muster.plan(muster.objects(objects), now=MOMENT).to_dict()


def worlds(part: int) -> Iterator[tuple[str, list[Raw]]]:
    """One slice of the seeds."""
    for seed in range(part, SEEDS, SLICES):
        yield f"seed {seed}", manifests(puzzle(seed))


def expected(given: Puzzle) -> tuple[str, int]:
    """The reason of all evictions and their number: the first action that is enough, and its fewest pods."""
    if fewest(given, "nobody") is not None:
        return "", 0
    for action in ACTIONS:
        number = fewest(given, action) if action != "consolidate" or not scarce(given) else None
        if number is not None:
            return REASONS[action], number
    return "", 0


def reason_and_number(plan: Raw) -> tuple[str, int]:
    """What the plan says of it."""
    return ", ".join(sorted({one["reason"] for one in plan["evictions"]})), len(plan["evictions"])


# the engine ---------------------------------------------------------------------------------------------------------


@slices
def test_as_few_leave_as_the_oracle_says_and_for_its_reason(part: int) -> None:
    """0008: consolidate, reclaim, preempt; the fewest pods; none where no set is enough, or where none has to leave."""
    for seed in range(part, SEEDS, SLICES):
        given = puzzle(seed)
        objects = manifests(given)
        plan = planned(objects)
        assert broken(objects, plan, MOMENT) == [], f"seed {seed}"
        assert {one["for"] for one in plan["evictions"]} <= {"team/new"}, f"seed {seed}"
        assert reason_and_number(plan) == expected(given), f"seed {seed}"


@slices
def test_untouchable_pods_are_no_victims_and_hide_no_other(part: int) -> None:
    """P6, X1: as few leave as if a budget let none of them go, and it is never one of them."""
    for seed in range(part, SEEDS, SLICES):
        given = puzzle(seed)
        objects = manifests(given._replace(budget=None))
        stay = frozenset(name(raw) for raw in objects if raw["kind"] == "Pod" and "budgeted" in labels(raw))
        plan = muster.plan(muster.objects(objects), muster.Policy(untouchable=stay), MOMENT).to_dict()
        assert broken(objects, plan, MOMENT) == [], f"seed {seed}"
        assert stay.isdisjoint(map(key_of, plan["evictions"])), f"seed {seed}"
        assert reason_and_number(plan) == expected(given._replace(budget=0)), f"seed {seed}"


@slices
def test_pods_under_two_budgets_are_no_victims_and_hide_no_other(part: int) -> None:
    """P6: two budgets with plenty left are one that allows nothing."""
    for seed in range(part, SEEDS, SLICES):
        given = puzzle(seed)
        objects = manifests(given._replace(budget=99))
        second = copy.deepcopy(next(raw for raw in objects if raw["kind"] == "PodDisruptionBudget"))
        second["metadata"]["name"] = "second"
        plan = planned([*objects, second])
        assert broken([*objects, second], plan, MOMENT) == [], f"seed {seed}"
        assert reason_and_number(plan) == expected(given._replace(budget=0)), f"seed {seed}"


def test_moves_come_first_where_the_oracle_knows_some() -> None:
    """P5: every move is proven, and the set is a smallest one."""
    for seed in range(2 * SEEDS):
        given = puzzle(seed, hosts=4, gangs=6, largest=6, keep=6)
        if scarce(given) or expected(given)[0] != "Consolidate":
            continue
        objects = manifests(given)
        plan = planned(objects)
        assert broken(objects, plan, MOMENT) == [], f"seed {seed}"
        assert reason_and_number(plan) == expected(given), f"seed {seed}"


@slices
def test_the_gang_that_had_victims_is_bound_and_no_other_pod_leaves(part: int) -> None:
    """P7: the plan is carried out, and the next one has no victims; nothing that was nominated is lost."""
    for seed, objects in worlds(part):
        plan = planned(objects)
        after = carried_out(objects, plan)
        again = planned(after)
        assert broken(after, again, MOMENT) == [], seed
        assert again["evictions"] == [], seed
        helped = {one["for"] for one in plan["evictions"]}
        verdict_of = {f"{one['namespace']}/{one['name']}": one["verdict"] for one in again["podGroups"]}
        assert all(verdict_of[gang] == "Scheduled" for gang in helped), seed


def carried_out(objects: list[Raw], plan: Raw) -> list[Raw]:
    """Every evicted pod is gone, and every nominated pod is in its place."""
    _, after = outcomes(ObjectIndex(objects), plan)
    objects_after = []
    for raw in copy.deepcopy(objects):
        if raw["kind"] == "Pod" and name(raw) in after.places:
            raw["spec"]["nodeName"] = after.places[name(raw)]
        if raw["kind"] != "Pod" or name(raw) not in after.gone:
            objects_after.append(raw)
    return objects_after


@slices
def test_while_victims_terminate_no_other_pod_is_evicted(part: int) -> None:
    """P7: the places are kept until the victims are gone, unless the gang can go elsewhere now; no further victims."""
    for seed, objects in worlds(part):
        plan = planned(objects)
        waiting = under_way(objects, plan)
        again = planned(waiting)
        assert broken(waiting, again, MOMENT) == [], seed
        assert again["evictions"] == [], seed
        promised = {key_of(one): one["node"] for one in plan["nominations"]}
        nominated = {key_of(one): one["node"] for one in again["nominations"]}
        assert nominated == promised or promised.keys() <= {key_of(one) for one in again["bindings"]}, seed


def under_way(objects: list[Raw], plan: Raw) -> list[Raw]:
    """Bindings are made; who is evicted is terminating, and who is nominated has it in its status."""
    bound = {key_of(one): one["node"] for one in plan["bindings"]}
    nominated = {key_of(one): one["node"] for one in plan["nominations"]}
    evicted = {key_of(one) for one in plan["evictions"]}
    objects_now = copy.deepcopy(objects)
    for raw in objects_now:
        key = name(raw) if raw["kind"] == "Pod" else ""
        raw["spec"] = raw.get("spec", {}) | ({"nodeName": bound[key]} if key in bound else {})
        raw["status"] = raw.get("status", {}) | ({"nominatedNodeName": nominated[key]} if key in nominated else {})
        raw["metadata"] |= {"deletionTimestamp": "2026-01-02T00:00:00Z"} if key in evicted else {}
    return objects_now


@slices
def test_the_order_of_objects_changes_nothing(part: int) -> None:
    """X3, I10: queues, gangs and pods in any order give the same bytes."""
    for seed, objects in worlds(part):
        first = json.dumps(planned(objects))
        random.Random(seed).shuffle(objects)
        assert json.dumps(planned(objects)) == first, seed


# the oracle ---------------------------------------------------------------------------------------------------------


@slices
def test_the_oracle_agrees_with_the_judge_about_every_set_of_pods(part: int) -> None:
    """Tiny puzzles, every set of pods, every way to place the gang: the smallest that breaks no promise."""
    for seed in range(part, 5_000 if NIGHTLY else 500, SLICES):
        given = puzzle(seed, hosts=3, gangs=3, largest=2)
        for action in ("reclaim", "preempt") if len(running(given)) <= 6 and fewest(given, "nobody") is None else ():
            number = fewest(given, action)
            if number is not None or seed // SLICES % 5 == 0:  # a no takes long to check, and there are many
                assert number == by_hand(given, REASONS[action]), f"seed {seed}: {action}"


def running(given: Puzzle) -> list[str]:
    return [host for gang in given.running for lot in gang.lots for host in lot.hosts]


def by_hand(given: Puzzle, reason: str) -> int | None:
    """Every set of placed pods in order of size, until the judge has nothing to say."""
    objects = manifests(given)
    index = ObjectIndex(objects)
    placed = [pod for pod in index.pods.values() if pod["spec"].get("nodeName")]
    cores = list(_cores(given))
    for number in range(1, len(placed) + 1):
        for victims in combinations(placed, number):
            for core in cores:
                if not _judged(objects, index, victims, core, reason):
                    return number
    return None


def _cores(given: Puzzle) -> Iterator[dict[str, str]]:
    """Every choice of leaves with every choice of hosts for their first pods."""
    hosts = [host.name for host in given.hosts]
    for leaves in combinations(given.waiting.leaves, given.waiting.need):
        pods = [f"new-{leaf.name}{'-' if leaf.name else ''}{i}" for leaf in leaves for i in range(leaf.need)]
        if all(leaf.pods >= leaf.need for leaf in leaves):
            for places in product(hosts, repeat=len(pods)):
                yield dict(zip(pods, places, strict=True))


def _judged(
    objects: list[Raw], index: ObjectIndex, victims: tuple[Raw, ...], core: dict[str, str], reason: str
) -> list[str]:
    plan = {
        "bindings": [],
        "nominations": [{"namespace": "team", "pod": pod, "node": node} for pod, node in core.items()],
        "evictions": [_eviction(pod, reason) for pod in victims],
    }
    _, after = outcomes(index, plan)
    if full := overfull(index, after):
        return full
    met = {key: CheckedGang(index, key, after).met() for key in index.gangs}
    groups = [
        {"namespace": "team", "name": key[5:], "verdict": "Scheduled" if good else "Waiting"}
        for key, good in met.items()
    ]
    reported = broken(objects, plan | {"podGroups": groups}, MOMENT)
    return [problem for problem in reported if "could have stayed" not in problem]


def _eviction(pod: Raw, reason: str) -> Raw:
    meta = pod["metadata"]
    gang = meta["annotations"]["pod-group-name"]
    entry = {"namespace": "team", "pod": meta["name"], "node": pod["spec"]["nodeName"], "podGroup": gang}
    return entry | {"reason": reason, "for": "team/new"}


# fair shares --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("amount", "weights", "limits", "priorities", "shares"),
    [
        (15, (2, 2), (None, None), (100, 100), (6, 6)),
        (8, (1, 3), (None, None), (100, 100), (3, 5)),
        (12, (2, 2), (5, None), (100, 100), (5, 6)),
        (11, (2, 2), (None, None), (100, 100), (6, 5)),
        (8, (2, 2), (None, None), (200, 100), (6, 2)),
        (3, (2, 2), (None, None), (100, 100), (2, 1)),
    ],
)
def test_the_judge_divides_as_the_table_of_the_docs(
    amount: int,
    weights: tuple[int, int],
    limits: tuple[int | None, int | None],
    priorities: tuple[int, int],
    shares: tuple[int, int],
) -> None:
    """docs/concepts/queues.md: quota 2, a demand of 6, the first one older."""
    claims = [
        Claim(
            str(i),
            6 if limits[i] is None else min(limits[i] or 0, 6),
            Says(2, limits[i], Fraction(weights[i])),
            priorities[i],
            str(i),
        )
        for i in range(2)
    ]
    assert tuple(divide(amount, claims).values()) == shares


@slices
def test_all_shares_together_are_no_more_than_there_is(part: int) -> None:
    """Q3: at the top within the pool, below within the parent."""
    for seed, objects in worlds(part):
        queues = Queues(raw for raw in objects if raw["kind"] == "Queue")
        rng = random.Random(seed)
        leaves = [queue for queue in queues.raws if queues.is_open(queue)]
        pool = {"nvidia.com/gpu": rng.randint(0, 40)}
        shares = queues.shares({leaf: {"nvidia.com/gpu": rng.randint(0, 20)} for leaf in leaves}, pool)
        for parent in ("", *queues.raws):
            inside = [shares[child]["nvidia.com/gpu"] for child in queues.below(parent)]
            most = shares[parent]["nvidia.com/gpu"] if parent else pool["nvidia.com/gpu"]
            assert sum(inside) <= most, seed

"""Q3: what holds of every division, over random siblings and random trees of queues."""

from fractions import Fraction
from typing import NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from muster.api.meta import ObjectMeta
from muster.api.quantity import Resources
from muster.api.queue import UNLIMITED, Queue, QueueResource, QueueSpec
from muster.fairness.order import rank
from muster.fairness.shares import Claim, divide, fair_shares, sum_exactly
from muster.model.queues import QueueTree, arrange
from tests.property.trees import Dice, dice

GPU = "nvidia.com/gpu"
WEIGHTS = tuple(map(Fraction, ("1", "2", "3", "0", "0.5", "0.1", "7")))


@given(st.lists(st.integers(0, 2**62), max_size=50))
def test_sums_are_exact_beyond_64_bits(amounts: list[int]) -> None:
    """X6: what all nodes have together may be more than one machine word holds."""
    assert sum_exactly(np.array(amounts, dtype=np.int64)) == sum(amounts)


# siblings -----------------------------------------------------------------------------------------------------------


class Level(NamedTuple):
    """An amount and the siblings that divide it."""

    amount: int
    claims: list[Claim]


def claim(drawn: Dice, i: int) -> Claim:
    """Small numbers, so that limits, ties and remainders meet often."""
    quota = drawn.one_of((0, 1, 2, 5, 20, UNLIMITED))
    weight, priority = drawn.one_of(WEIGHTS), drawn.one_of((100, 100, 200))
    return Claim(f"q{i}", drawn.roll(25), quota, weight, priority, float(drawn.roll(3)))


def level(drawn: Dice) -> Level:
    return Level(drawn.roll(60), [claim(drawn, i) for i in range(1 + drawn.roll(6))])


levels = dice(50).map(level)


def more_of(one: Claim, want: int) -> Claim:
    return Claim(one.name, one.want + want, one.quota, one.weight, one.priority, one.created)


@given(levels)
def test_no_more_is_given_than_there_is_and_than_each_can_use(level: Level) -> None:
    """Whole numbers, never below zero."""
    given_ = divide(*level)
    assert all(type(amount) is int for amount in given_.values())
    assert sum(given_.values()) <= level.amount
    assert all(0 <= given_[one.name] <= one.want for one in level.claims)


@given(levels)
def test_nothing_is_left_while_a_queue_that_may_have_it_needs_it(level: Level) -> None:
    """Only who has no weight stays with what it deserves."""
    given_ = divide(*level)
    left = level.amount - sum(given_.values())
    hungry = [one for one in level.claims if given_[one.name] < one.want and (one.weight or one.deserves)]
    assert left == 0 or all(given_[one.name] == one.deserves and not one.weight for one in hungry)


@given(levels)
def test_where_the_quotas_fit_everyone_has_its_own(level: Level) -> None:
    """min(quota, demand, limit), whatever others want."""
    if sum(one.deserves for one in level.claims) <= level.amount:
        given_ = divide(*level)
        assert all(given_[one.name] >= one.deserves for one in level.claims)


@given(levels, dice(6))
def test_the_order_of_queues_makes_no_difference(level: Level, drawn: Dice) -> None:
    """X3."""
    assert divide(level.amount, drawn.shuffled(level.claims)) == divide(*level)


@given(levels, dice(2))
def test_a_queue_that_requests_more_never_has_less(level: Level, drawn: Dice) -> None:
    """Below the quota, above it, and where quotas do not fit: to hide demand never pays."""
    i, step = drawn.roll(len(level.claims)), 1 + drawn.roll(9)
    raised = [more_of(one, step) if at == i else one for at, one in enumerate(level.claims)]
    before, after = divide(*level), divide(level.amount, raised)
    assert after[level.claims[i].name] >= before[level.claims[i].name]


@given(levels)
def test_the_surplus_of_a_lower_priority_is_what_a_higher_one_leaves(level: Level) -> None:
    """No queue above its quota has anything that a higher priority with a weight still wants."""
    given_ = divide(*level)
    over = [one.priority for one in level.claims if given_[one.name] > one.deserves]
    open_ = [one.priority for one in level.claims if given_[one.name] < one.want and one.weight]
    assert not over or all(priority <= min(over) for priority in open_)


def poured(amount: Fraction, rooms: dict[str, int], weights: dict[str, Fraction]) -> dict[str, Fraction]:
    """Round by round, as people describe it: everyone its part of what is left, until all are full or it is gone."""
    levels = dict.fromkeys(rooms, Fraction(0))
    while amount and (open_ := [name for name in rooms if weights[name] and levels[name] < rooms[name]]):
        whole, part = sum(weights[name] for name in open_), amount
        for name in open_:
            more = min(part * weights[name] / whole, rooms[name] - levels[name])
            levels[name] += more
            amount -= more
        if all(levels[name] < rooms[name] for name in open_):
            break
    return levels


@given(levels)
def test_a_share_is_the_exact_one_up_to_a_single_unit(level: Level) -> None:
    """Beside a second division, in fractions and in rounds; one priority and quotas that fit."""
    claims = [Claim(one.name, one.want, one.quota, one.weight, created=one.created) for one in level.claims]
    surplus = level.amount - sum(one.deserves for one in claims)
    if surplus >= 0:
        rooms = {one.name: one.want - one.deserves for one in claims}
        exact = poured(Fraction(surplus), rooms, {one.name: one.weight for one in claims})
        given_ = divide(level.amount, claims)
        assert all(abs(given_[one.name] - one.deserves - exact[one.name]) < 1 for one in claims)


# trees --------------------------------------------------------------------------------------------------------------


class Forest(NamedTuple):
    """Queues in any order, what the leaves ask for, and what there is."""

    queues: list[Queue]
    demand: dict[str, int]
    amount: int


def forest(drawn: Dice) -> Forest:
    size = 1 + drawn.roll(9)
    parents = [drawn.roll(i + 1) - 1 for i in range(size)]
    queues = [_queue(drawn, f"q{i}", f"q{parents[i]}" if parents[i] >= 0 else "") for i in range(size)]
    return Forest(drawn.shuffled(queues), {f"q{i}": drawn.roll(25) for i in range(size)}, drawn.roll(80))


def _queue(drawn: Dice, name: str, parent: str) -> Queue:
    share = QueueResource(
        quota=drawn.one_of((0, 2, 5, 20, UNLIMITED)),
        limit=drawn.one_of((UNLIMITED, UNLIMITED, 0, 4, 9)),
        over_quota_weight=drawn.one_of((1, 2, 0, 0.5)),
    )
    spec = QueueSpec(parent_queue=parent, priority=drawn.one_of((100, 200)), resources={"gpu": share})
    return Queue(ObjectMeta(name=name), spec)


def shared(trees: Forest, extra: str = "") -> tuple[QueueTree, dict[str, int]]:
    """Fair shares of gpus; one queue may ask for more."""
    tree = arrange(trees.queues)
    requested = {name: Resources({GPU: trees.demand[name] + 3 * (name == extra)}) for name in tree.nodes}
    shares = fair_shares(tree, requested, {GPU: trees.amount})
    return tree, {name: share.get(GPU, 0) for name, share in shares.items()}


forests = dice(80).map(forest)


@given(forests)
def test_at_every_level_of_a_tree_there_is_enough(trees: Forest) -> None:
    """Children within their parent, top queues within the pool, everyone within its limit and demand."""
    tree, shares = shared(trees)
    assert sum(shares[node.name] for node in tree.siblings()) <= trees.amount
    for node in tree.nodes.values():
        limit = node.share(GPU).limit
        assert limit == UNLIMITED or shares[node.name] <= limit
        if node.children:
            assert sum(shares[child] for child in node.children) <= shares[node.name]
        else:
            assert shares[node.name] <= trees.demand[node.name]


@given(forests, dice(10))
def test_the_order_of_a_tree_makes_no_difference(trees: Forest, drawn: Dice) -> None:
    """X3."""
    other = Forest(drawn.shuffled(trees.queues), trees.demand, trees.amount)
    assert shared(other)[1] == shared(trees)[1]


@given(forests, dice(1))
def test_a_leaf_that_requests_more_never_has_less(trees: Forest, drawn: Dice) -> None:
    """Also where its department is given more because of it, and divides again."""
    tree, before = shared(trees)
    leaf = drawn.one_of(tree.leaves).name
    assert shared(trees, extra=leaf)[1][leaf] >= before[leaf]


@given(forests)
def test_turns_lead_to_fair_shares(trees: Forest) -> None:
    """One device at a time to the first queue that needs one; where weights of 0 leave something, it is for anyone."""
    tree, shares = shared(trees)
    if any(node.children and sum(shares[c] for c in node.children) < shares[node.name] for node in tree.nodes.values()):
        return
    fair = {name: Resources({GPU: amount}) for name, amount in shares.items()}
    held = {name: Resources() for name in tree.nodes}
    for _ in range(sum(shares[node.name] for node in tree.leaves)):
        open_ = [node.name for node in tree.leaves if held[node.name].get(GPU, 0) < trees.demand[node.name]]
        first = min(open_, key=lambda name: rank(tree, fair, held, name))
        for node in tree.path(first):
            held[node.name] = Resources({GPU: held[node.name].get(GPU, 0) + 1})
    assert {node.name: held[node.name].get(GPU, 0) for node in tree.leaves} == {
        node.name: shares[node.name] for node in tree.leaves
    }

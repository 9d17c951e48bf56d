"""M, P2, P4: the questions asked of a gang, over random trees with pods in every state."""

from collections.abc import Iterator
from random import Random

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from muster.model.gang.demand import leaf_demands
from muster.model.gang.gang import Gang
from muster.model.gang.pod_state import PodState
from muster.model.gang.state import count_missing, has_enough_pods, is_satisfied, standings
from muster.model.gang.types import Leaf, walk
from muster.model.gang.updates import with_members
from muster.model.roles import roles
from tests.property.trees import (
    Dice,
    Sample,
    Style,
    below,
    core_of,
    counts,
    dice,
    fewer,
    fulfilled,
    invented,
    leaf_named,
    leaves,
    manifests,
    meets_minimums,
    named,
    of_leaf,
    part,
    placed,
    put_on_a_node,
    samples,
    state,
    without,
)
from tests.support.factories import Raw, gang

anything = st.one_of(samples("record"), samples("totals"), samples("mixed"))
pure = st.one_of(samples("record"), samples("totals"))  # k of n everywhere, or pods in all everywhere; not both
mixed = samples("mixed")


def built(sample: Sample) -> Gang:
    return gang(sample.manifest, sample.pods)


def surplus_of(sample: Sample) -> list[set[str]]:
    return [{pod.name for pod in unit} for unit in roles(built(sample).root).surplus]


def core_in(sample: Sample) -> set[str]:
    return {pod.name for pod in roles(built(sample).root).core}


# what is missing (M1, M2, M5) ---------------------------------------------------------------------------------------


@given(anything)
def test_satisfied_is_what_the_rules_say_at_every_level(sample: Sample) -> None:
    """The engine counts from the bottom up; the rules are a recursion from the top. They agree on each group."""
    states = standings(built(sample).root)
    have = counts(sample)
    names = ["", *(raw["name"] for raw in sample.manifest["spec"].get("subGroups", ()))]
    assert {name: states[name].satisfied for name in names} == {
        name: meets_minimums(sample.manifest, have, name) for name in names
    }


@given(anything)
def test_nothing_is_missing_exactly_where_a_group_is_satisfied(sample: Sample) -> None:
    """Two answers about one fact: a gang never waits for zero pods, and never starts while it lacks one."""
    for name, standing in standings(built(sample).root).items():
        assert (standing.missing == 0) == standing.satisfied, name


@given(anything, st.randoms(use_true_random=False))
def test_groups_stand_as_if_counted_again_when_some_pods_change(sample: Sample, chance: Random) -> None:
    """Only the groups around a pod that changed are counted: the others stand as they stood."""
    now = built(sample)
    for _ in range(3):
        pods = [(leaf.name, one) for leaf in walk(now.root) if isinstance(leaf, Leaf) for one in leaf.members]
        some = pods[:: 1 + len(pods) // 3]
        after = {(leaf, one.name): replace(one, state=chance.choice(list(PodState))) for leaf, one in some}
        assert now.standings == standings(now.root)
        now = with_members(now, after)
    assert now.standings == standings(now.root)


@given(anything, dice(1))
def test_a_further_pod_never_hurts_and_fills_at_most_one_gap(sample: Sample, drawn: Dice) -> None:
    """Placing is monotone: what was satisfied stays so, and no count of missing pods grows."""
    one = invented(drawn.one_of(leaves(sample.manifest)), 1)
    before = standings(built(sample).root)
    after = standings(gang(sample.manifest, sample.pods + one).root)
    for name in before:
        assert after[name].satisfied >= before[name].satisfied
        assert before[name].missing - 1 <= after[name].missing <= before[name].missing


@fewer
@given(anything)
def test_what_is_missing_is_the_fewest_pods_that_would_do(sample: Sample) -> None:
    """While some are missing, one pod in the right leaf makes it one less: so as many pods are enough, and no fewer."""
    lacking = count_missing(built(sample).root)
    after = {
        count_missing(gang(sample.manifest, sample.pods + invented(leaf, 1)).root) for leaf in leaves(sample.manifest)
    }
    assert min(after) == max(lacking - 1, 0)


@given(anything)
def test_the_pods_that_a_gang_wants_are_enough(sample: Sample) -> None:
    """Placing exactly the wanted pods, new ones where none wait, satisfies the root (G1 relies on it)."""
    wanted = leaf_demands(built(sample).root)
    new = [raw for want in wanted for raw in invented(want.leaf, want.pods - len(want.candidates))]
    chosen = {pod.name for want in wanted for pod in want.candidates}
    assert is_satisfied(gang(sample.manifest, put_on_a_node(sample.pods, chosen) + new).root)


@given(anything)
def test_a_gang_with_nothing_missing_wants_nothing(sample: Sample) -> None:
    """A satisfied gang is not held up for pods that are not needed."""
    root = built(sample).root
    assert (not leaf_demands(root)) == is_satisfied(root)


@given(samples("totals"))
def test_where_all_children_are_needed_a_gang_wants_exactly_what_is_missing(sample: Sample) -> None:
    """M5: totals above one another are met by the same pods, not by twice as many."""
    root = built(sample).root
    assert sum(want.pods for want in leaf_demands(root)) == count_missing(root)


@given(samples("totals"))
def test_where_pods_abound_each_that_is_wanted_has_a_candidate(sample: Sample) -> None:
    """M5: a total is filled from any leaf that has pods to spare."""
    more = [unbound(raw) for leaf in leaves(sample.manifest) for raw in invented(leaf, 13)]
    root = gang(sample.manifest, sample.pods + more).root
    wanted = leaf_demands(root)
    assert sum(want.pods for want in wanted) == sum(len(want.candidates) for want in wanted) == count_missing(root)


def unbound(raw: Raw) -> Raw:
    return raw | {"spec": {key: value for key, value in raw["spec"].items() if key != "nodeName"}}


@given(anything)
def test_none_of_the_wanted_pods_could_be_left_out(sample: Sample) -> None:
    """A gang waits for no pod that it does not need (M3 may prefer children that need more than others would)."""
    wanted = leaf_demands(built(sample).root)
    assert sum(want.pods for want in wanted) >= count_missing(built(sample).root)
    new = [raw for want in wanted for raw in invented(want.leaf, want.pods)]
    for spared in {leaf_named(raw): named(raw) for raw in new}.values():
        assert not is_satisfied(gang(sample.manifest, sample.pods + without(new, {spared})).root)


@given(anything)
def test_a_gang_that_is_ready_wants_only_pods_that_exist(sample: Sample) -> None:
    """M3: a child that lacks pods never blocks one that has them."""
    root = built(sample).root
    if has_enough_pods(root):
        assert all(len(want.candidates) == want.pods for want in leaf_demands(root))


@given(anything)
def test_wanted_pods_come_from_their_leaf_in_its_order(sample: Sample) -> None:
    """M4: priority, then age, then name, and never a pod that is gated, gone or placed already."""
    for want in leaf_demands(built(sample).root):
        assert [pod.name for pod in want.candidates] == of_leaf(sample.pods, want.leaf, "waiting")[: want.pods]


# core and surplus (P2, P4) ------------------------------------------------------------------------------------------


@given(samples("record"))
def test_the_core_is_what_the_rules_say(sample: Sample) -> None:
    """P2 as a recursion of ten lines and the engine's pass over the tree name the same pods."""
    assert core_in(sample) == core_of(sample)


@given(anything)
def test_core_and_surplus_share_out_every_placed_pod(sample: Sample) -> None:
    """No pod is both protected and first to be evicted, and none is forgotten."""
    assigned = roles(built(sample).root)
    everyone = [pod.name for unit in (assigned.core, *assigned.surplus) for pod in unit]
    assert len(everyone) == len(set(everyone))
    assert set(everyone) == placed(sample)
    assert all(assigned.surplus)


@given(pure.map(fulfilled))
def test_the_core_alone_satisfies_a_satisfied_gang(sample: Sample) -> None:
    """Whatever else leaves, the gang goes on running."""
    others = placed(sample) - core_in(sample)
    assert is_satisfied(gang(sample.manifest, without(sample.pods, others)).root)


def still_running(sample: Sample) -> Sample:
    """Without the pods that are done: a SubGroup that they satisfy alone could stand in for any other."""
    return Sample(sample.manifest, [raw for raw in sample.pods if state(raw) != "done"])


@fewer
@given(st.one_of(samples("record").map(still_running), samples("totals")).map(fulfilled))
def test_no_pod_of_the_core_can_be_spared(sample: Sample) -> None:
    """The core is no larger than it must be: protecting more would take room from others for nothing."""
    core = core_in(sample)
    left = without(sample.pods, placed(sample) - core)
    for name in {leaf_named(raw): named(raw) for raw in left if named(raw) in core}.values():
        assert not is_satisfied(gang(sample.manifest, without(left, {name})).root), name


@fewer
@given(pure.map(fulfilled))
def test_extras_may_leave_one_after_the_other(sample: Sample) -> None:
    """P4: after each unit that leaves in order the gang is still satisfied, and the same pods are its core."""
    core = core_in(sample)
    for _, left in units_that_leave(sample):
        assert is_satisfied(left.root)
        assert {pod.name for pod in roles(left.root).core} == core


@fewer
@given(pure)
def test_a_surplus_subgroup_leaves_as_a_whole(sample: Sample) -> None:
    """P4: a unit of several pods is all that one SubGroup has left; no part of it is left behind (G2)."""
    had = below(sample)
    whole = {name for name, state in standings(built(sample).root).items() if state.satisfied and name}
    gone: set[str] = set()
    for unit, left in units_that_leave(sample):
        assert len(unit) == 1 or unit in [pods - gone for pods in had.values()]
        gone |= unit
        now = standings(left.root)
        assert all(now[name].satisfied or not now[name].placed for name in whole)


def units_that_leave(sample: Sample) -> Iterator[tuple[set[str], Gang]]:
    """The units in the order of leaving, each with the gang that it leaves behind."""
    pods = sample.pods
    for unit in surplus_of(sample):
        pods = without(pods, unit)
        yield unit, gang(sample.manifest, pods)


# k of n and pods in all on one tree: what a stored object may become under the ratchet (M5, V4) ---------------------


@given(mixed.map(fulfilled))
def test_with_both_minimums_the_core_alone_satisfies_a_satisfied_gang(sample: Sample) -> None:
    """Where a total needs pods of further SubGroups, those pods are core too."""
    others = placed(sample) - core_in(sample)
    assert is_satisfied(gang(sample.manifest, without(sample.pods, others)).root)


@fewer
@given(mixed.map(fulfilled))
def test_with_both_minimums_extras_may_leave_one_after_the_other(sample: Sample) -> None:
    """The order of leaving is as safe as on any other tree."""
    assert all(is_satisfied(left.root) for _, left in units_that_leave(sample))


# order of the input (X3) --------------------------------------------------------------------------------------------


def answers(sample: Sample) -> object:
    """Everything that can be asked, as plain values."""
    made = built(sample)
    assigned = roles(made.root)
    return (
        standings(made.root),
        [pod.name for pod in assigned.core],
        [[pod.name for pod in unit] for unit in assigned.surplus],
        [(want.leaf, want.pods, [pod.name for pod in want.candidates]) for want in leaf_demands(made.root)],
        made.strays,
    )


@fewer
@given(anything, dice(60))
def test_the_order_of_pods_and_of_keys_changes_nothing(sample: Sample, drawn: Dice) -> None:
    """Lists from an API server come in any order; answers must not depend on it."""
    manifest: Raw = dict(drawn.shuffled(list(sample.manifest.items())))
    manifest["spec"] = dict(drawn.shuffled(list(manifest["spec"].items())))
    if "subGroups" in manifest["spec"]:
        manifest["spec"]["subGroups"] = [dict(reversed(raw.items())) for raw in manifest["spec"]["subGroups"]]
    assert answers(Sample(manifest, drawn.shuffled(sample.pods))) == answers(sample)


@given(manifests("mixed"), dice(40))
def test_groups_may_be_listed_in_any_order_as_far_as_satisfaction_goes(manifest: Raw, drawn: Dice) -> None:
    """N1: parents may come after their children; only preference depends on spec order, never what is enough."""
    groups = manifest["spec"].get("subGroups", [])
    other = manifest | {"spec": manifest["spec"] | {"subGroups": drawn.shuffled(groups)}}
    pods = [raw for leaf in leaves(manifest) for raw in invented(leaf, drawn.roll(5))]
    assert standings(gang(manifest, pods).root) == standings(gang(other, pods).root)


def test_random_trees_are_deep_and_wide_enough() -> None:
    """A property over shallow trees proves little: the generator must reach depth 5 and a satisfied k of n."""
    assert depth_reached("record") >= 5
    assert depth_reached("totals") >= 5


def depth_reached(style: Style) -> int:
    deepest = 0

    @given(manifests(style))
    def look(manifest: Raw) -> None:
        nonlocal deepest
        deepest = max(deepest, *(_depth(manifest, leaf) for leaf in leaves(manifest)))

    look()
    return deepest


def _depth(manifest: Raw, name: str) -> int:
    return 1 + _depth(manifest, part(manifest, name).get("parent") or "") if name else 0

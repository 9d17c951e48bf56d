"""Which cliques, groups and gangs a set consists of, and what they are called."""

from hypothesis import given
from hypothesis import strategies as st

from muster.api.decoding import decode
from muster.api.grove.pod_clique import MOST_CLIQUES
from muster.api.grove.pod_clique_set import PodCliqueSet
from muster.grove.layout import SetLayout, lay_out, lay_out_group, starts_after
from muster.workloads.types import Raw
from tests.support.grove import clique, group, pod_clique_set


def decoded(raw: Raw) -> PodCliqueSet:
    value, misfits = decode(raw, PodCliqueSet)
    assert not misfits
    return value


def laid_out(raw: Raw, **live: int) -> SetLayout:
    return lay_out(decoded(raw), {f"w-0-{name}": replicas for name, replicas in live.items()})


def gangs(layout: SetLayout) -> dict[str, list[str]]:
    return {gang.name: [one.name for one in gang.cliques] for replica in layout.replicas for gang in replica.gangs}


THE_SET = pod_clique_set(clique("a"), clique("b"), groups=[group("sg", "b", replicas=3)])


def test_objects_have_the_names_that_grove_gives_them() -> None:
    """The table of names, with set `w`, clique `a` and group `sg` of `b`."""
    (replica,) = laid_out(THE_SET).replicas
    assert replica.service == "w-0"
    assert [one.name for one in replica.cliques] == ["w-0-a"]
    assert [one.name for one in replica.groups] == ["w-0-sg"]
    assert [row[0].name for row in replica.groups[0].replicas] == ["w-0-sg-0-b", "w-0-sg-1-b", "w-0-sg-2-b"]
    assert [gang.name for gang in replica.gangs] == ["w-0", "w-0-sg-0", "w-0-sg-1"]


def test_the_base_gang_has_standalone_cliques_then_each_group_up_to_its_minimum_in_order_of_clique_names() -> None:
    cliques = [clique(name) for name in "abcd"]
    raw = pod_clique_set(*cliques, groups=[group("x", "d", "b", replicas=3, minimum=2), group("y", "c")])
    assert gangs(laid_out(raw))["w-0"] == ["w-0-a", "w-0-x-0-d", "w-0-x-0-b", "w-0-x-1-d", "w-0-x-1-b", "w-0-y-0-c"]


def test_each_replica_of_a_group_above_its_minimum_is_a_gang_of_its_own_that_knows_its_base() -> None:
    layout = laid_out(pod_clique_set(clique("a"), clique("b"), groups=[group("sg", "b", replicas=4, minimum=2)]))
    assert gangs(layout) | {"w-0": []} == {"w-0": [], "w-0-sg-0": ["w-0-sg-2-b"], "w-0-sg-1": ["w-0-sg-3-b"]}
    scaled = layout.replicas[0].gangs[1]
    assert (scaled.base, scaled.cliques[0].base, scaled.cliques[0].gang) == ("w-0", "w-0", "w-0-sg-0")


def test_scaled_gangs_follow_the_live_replicas_of_a_group() -> None:
    assert list(gangs(laid_out(THE_SET, sg=2))) == ["w-0", "w-0-sg-0"]
    assert list(gangs(laid_out(THE_SET, sg=1))) == ["w-0"]


def test_a_group_that_is_scaled_to_zero_is_in_no_gang() -> None:
    assert gangs(laid_out(THE_SET, sg=0)) == {"w-0": ["w-0-a"]}


def test_a_group_below_its_minimum_is_still_needed_whole_by_the_base_gang() -> None:
    """A gang never starts below its minimum, whatever its scale says."""
    raw = pod_clique_set(clique("b"), groups=[group("sg", "b", replicas=3, minimum=2)])
    layout = laid_out(raw, sg=1)
    assert gangs(layout) == {"w-0": ["w-0-sg-0-b", "w-0-sg-1-b"]}
    assert len(layout.replicas[0].groups[0].replicas) == 1


def test_zero_replicas_in_a_clique_template_stand_for_one() -> None:
    (replica,) = laid_out(pod_clique_set(clique("a", 0))).replicas
    assert replica.cliques[0].min_available == 1


def test_the_minimum_of_a_clique_is_its_replicas_unless_it_says_otherwise() -> None:
    (replica,) = laid_out(pod_clique_set(clique("a", 3), clique("b", 3, 2))).replicas
    assert [one.min_available for one in replica.cliques] == [3, 2]


def test_a_constrained_group_is_one_constraint_for_each_replica_in_the_base_gang_and_the_top_of_scaled_gangs() -> None:
    rack = {"topologyName": "t", "pack": {"required": "rack"}}
    zone = {"topologyName": "t", "pack": {"required": "zone"}}
    raw = pod_clique_set(
        clique("b"),
        groups=[group("sg", "b", replicas=3, minimum=2, topologyConstraint=rack)],
        topologyConstraint=zone,
    )
    base, scaled = laid_out(raw).replicas[0].gangs
    assert [one.name for one in base.groups] == ["w-0-sg-0", "w-0-sg-1"]
    assert base.topology is not None
    assert base.topology.pack is not None
    assert base.topology.pack.required == "zone"
    assert scaled.topology is not None
    assert scaled.topology.pack is not None
    assert scaled.topology.pack.required == "rack"


def test_scaled_gangs_of_a_group_without_a_constraint_have_that_of_the_set() -> None:
    zone = {"topologyName": "t", "pack": {"required": "zone"}}
    _, scaled, _ = laid_out({**THE_SET, "spec": _with(THE_SET, topologyConstraint=zone)}).replicas[0].gangs
    assert scaled.topology is not None
    assert scaled.topology.topology_name == "t"


def _with(raw: Raw, **template: object) -> Raw:
    spec: Raw = raw["spec"]
    return {**spec, "template": {**spec["template"], **template}}


def test_a_typing_error_in_replicas_does_not_fill_the_memory() -> None:
    layout = laid_out(pod_clique_set(clique("a"), clique("b"), replicas=2**31 - 1))
    assert len(layout.replicas) == MOST_CLIQUES // 2
    huge = lay_out_group(decoded(THE_SET), 0, "w-0-sg", 2**31 - 1)
    assert huge is not None
    assert len(huge.replicas) == MOST_CLIQUES


def test_a_group_that_is_scaled_beyond_all_bounds_costs_no_replica_of_the_set() -> None:
    """A replica that is not laid out is deleted: one typing error in a scale would delete all of the set."""
    raw = pod_clique_set(clique("a"), clique("b"), groups=[group("sg", "b", replicas=3)], replicas=2)
    layout = lay_out(decoded(raw), {"w-0-sg": 2**31 - 1, "w-1-sg": 3})
    assert [replica.index for replica in layout.replicas] == [0, 1]
    first, second = layout.replicas
    assert [gang.base for gang in first.gangs] == [""]
    assert len(second.gangs) == 3


# startup order ------------------------------------------------------------------------------------------------------


def order(raw: Raw) -> dict[str, tuple[str, ...]]:
    pcs = decoded(raw)
    (replica,) = lay_out(pcs, {}).replicas
    return {one.name: starts_after(pcs, one) for gang in replica.gangs for one in gang.cliques}


GROUPED = (clique("a"), clique("b"), clique("c"))


def test_in_any_order_no_clique_waits() -> None:
    assert set(order(pod_clique_set(*GROUPED)).values()) == {()}


def test_in_order_each_clique_starts_after_the_one_before_it() -> None:
    raw = pod_clique_set(*GROUPED, cliqueStartupType="CliqueStartupTypeInOrder")
    assert order(raw) == {"w-0-a": (), "w-0-b": ("w-0-a",), "w-0-c": ("w-0-b",)}


def test_a_clique_after_a_group_waits_for_all_replicas_of_it_in_the_base_gang() -> None:
    sg = group("sg", "b", replicas=3, minimum=2)
    raw = pod_clique_set(*GROUPED, groups=[sg], cliqueStartupType="CliqueStartupTypeInOrder")
    assert order(raw)["w-0-c"] == ("w-0-sg-0-b", "w-0-sg-1-b")
    assert order(raw)["w-0-sg-1-b"] == ("w-0-a",)


def test_inside_scaled_replicas_only_parents_of_the_same_replica_count() -> None:
    sg = group("sg", "b", "c", replicas=2)
    raw = pod_clique_set(*GROUPED, groups=[sg], cliqueStartupType="CliqueStartupTypeInOrder")
    assert order(raw)["w-0-sg-1-b"] == ()
    assert order(raw)["w-0-sg-1-c"] == ("w-0-sg-1-b",)


def test_parents_that_are_too_many_to_name_are_one_name_with_a_star() -> None:
    """A PodClique names 256 at most, as its CRD says, and each replica of a group would name all of another one."""
    sg = group("sg", "b", replicas=300, minimum=300)
    last = clique("c", spec={"startsAfter": ["a", "b"]})
    raw = pod_clique_set(clique("a"), clique("b"), last, groups=[sg], cliqueStartupType="CliqueStartupTypeExplicit")
    assert order(raw)["w-0-c"] == ("w-0-a", "w-0-sg-*-b")


def test_explicit_parents_are_those_that_the_clique_names() -> None:
    last = clique("c", spec={"startsAfter": ["a", "b"]})
    raw = pod_clique_set(clique("a"), clique("b"), last, cliqueStartupType="CliqueStartupTypeExplicit")
    assert order(raw)["w-0-c"] == ("w-0-a", "w-0-b")


# properties ---------------------------------------------------------------------------------------------------------


@st.composite
def sets(draw: st.DrawFn) -> Raw:
    names = draw(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=6, unique=True))
    split = draw(st.integers(0, len(names)))
    sizes = st.tuples(st.integers(0, 4), st.integers(1, 3))
    groups = [
        group(f"g{name}", name, replicas=size, minimum=minimum)
        for name in names[:split]
        for size, minimum in [draw(sizes)]
    ]
    cliques = [clique(name, draw(st.integers(1, 3))) for name in names]
    return pod_clique_set(*cliques, groups=groups, replicas=draw(st.integers(0, 3)))


@given(sets())
def test_every_clique_is_in_exactly_the_gang_that_it_names(raw: Raw) -> None:
    layout = laid_out(raw)
    members = {one.name: gang.name for replica in layout.replicas for gang in replica.gangs for one in gang.cliques}
    for replica in layout.replicas:
        rows = [row for one in replica.groups for row in one.replicas]
        for one in (*replica.cliques, *(member for row in rows for member in row)):
            assert members[one.name] == one.gang


@given(sets())
def test_names_of_one_set_never_collide(raw: Raw) -> None:
    """Where names of cliques and groups hold no numbers, as these; validation refuses the others."""
    layout = laid_out(raw)
    cliques = [one.name for replica in layout.replicas for gang in replica.gangs for one in gang.cliques]
    assert len(cliques) == len(set(cliques))
    assert len(gangs(layout)) == sum(len(replica.gangs) for replica in layout.replicas)

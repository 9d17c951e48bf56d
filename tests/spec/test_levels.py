"""T1-T3, T5, X1, X4: required and preferred levels, late members, nodes without labels; drawn."""

from tests.support.drawing import bindings, draw, placement, roles, running, verdict, waiting
from tests.support.factories import Raw, group, podgroup

RACK: Raw = {"topologyConstraint": {"requiredTopologyLevel": "rack"}}


def test_all_pods_of_a_group_are_in_one_domain_of_its_required_level() -> None:
    """T1: eight GPUs are free, and no rack has four of them."""
    cluster = draw("""
        r1  a:3
        r2  b:3
        r3  c:2
    """)
    assert placement(cluster, roles(within="rack", workers=3)) == {"workers": "r1"}
    assert verdict(cluster, roles(within="rack", workers=4)) == "Infeasible"


def test_the_domain_of_a_child_is_inside_that_of_its_parent() -> None:
    """T1: the only rack of four is in a zone that cannot hold the other leaf."""
    cluster = draw("""
        z1/r1  a:4
        z2/r1  b:3
        z2/r2  c:2
    """)
    assert placement(cluster, roles(within="zone", each_in="rack", one=3, two=2)) == {"one": "z2/r1", "two": "z2/r2"}


def test_racks_of_one_name_in_two_zones_are_two_domains() -> None:
    """T1: four pods do not fit into `r1`, for there are two of them."""
    cluster = draw("""
        z1/r1  a:2
        z2/r1  b:2
    """)
    assert verdict(cluster, roles(within="rack", workers=4)) == "Infeasible"
    assert placement(cluster, roles(within="rack", workers=2)) == {"workers": "z1/r1"}


def test_extras_stay_in_the_required_domain() -> None:
    """T1: the rack of the core is full; the third pod waits although another rack is empty."""
    cluster = draw("""
        r1  a:2
        r2  b:1
    """)
    assert bindings(cluster, podgroup(minMember=2, **RACK), waiting(**{"": 3})).keys() == {"pod-0", "pod-1"}


def test_an_earlier_sibling_moves_when_a_later_one_needs_its_rack() -> None:
    """X1: a leader that could sit anywhere leaves the only rack big enough for the workers."""
    cluster = draw("""
        r1  a:2 b:2
        r2  c:1
    """)
    assert placement(cluster, roles(each_in="rack", leader=1, workers=4)) == {"leader": "r2", "workers": "r1"}


def test_a_preferred_level_is_met_where_it_can_be() -> None:
    """T2: one rack holds all four, though the first rack by name is roomier than nothing."""
    cluster = draw("""
        r1  a:3
        r2  b:2 c:2
    """)
    assert placement(cluster, roles(prefer="rack", workers=4)) == {"workers": "r2"}


def test_a_preferred_level_that_cannot_be_met_takes_the_tightest_coarser_one() -> None:
    """T2: no rack holds four; one zone does, with two racks where the other would need three."""
    cluster = draw("""
        z1/r1  a:2
        z1/r2  b:1
        z1/r3  c:1
        z2/r1  d:2
        z2/r2  e:2
    """)
    assert placement(cluster, roles(prefer="rack", workers=4)) == {"workers": "z2/r1+z2/r2"}
    assert placement(cluster, roles(prefer="rack", workers=5)) == {"workers": "z1/r1+z2/r1+z2/r2"}


def test_a_late_member_is_pinned_to_the_domain_of_those_that_run() -> None:
    """T3, I4: the empty rack would be tighter; the replacement joins the others, or waits."""
    late = [podgroup(minMember=2, **RACK), *running("a"), *waiting(**{"": 1})]
    assert bindings(draw("r1 a:1 b:4\n r2 c:1"), late) == {"pod-0": "b"}
    assert bindings(draw("r1 a:1\n r2 c:1"), late) == {}


def test_a_late_member_is_anchored_to_the_preferred_domain_of_those_that_run() -> None:
    """T3: it joins their rack while that has room, and goes elsewhere rather than wait."""
    late = [podgroup(minMember=2, topologyConstraint={"preferredTopologyLevel": "rack"})]
    late += [*running("a"), *waiting(**{"": 1})]
    assert bindings(draw("r1 a:1 b:4\n r2 c:1"), late) == {"pod-0": "b"}
    assert bindings(draw("r1 a:1\n r2 c:1"), late) == {"pod-0": "c"}


def test_a_node_without_the_label_of_a_level_serves_no_requirement_at_that_level() -> None:
    """T5: `spare` is in no rack; a gang without a required level may use it."""
    cluster = draw("""
        r1  a:2
        -   spare:8
    """)
    assert verdict(cluster, roles(within="rack", workers=3)) == "Infeasible"
    assert placement(cluster, roles(within="rack", workers=2)) == {"workers": "r1"}
    assert placement(cluster, roles(workers=3)) == {"workers": "-"}


def test_a_node_without_a_label_above_a_level_is_in_no_domain_of_that_level() -> None:
    """T5: its rack is known and its zone is not."""
    cluster = draw("z1/r1 a:2 b:4")
    del cluster[2]["metadata"]["labels"]["topology/zone"]
    assert verdict(cluster, roles(within="rack", workers=3)) == "Infeasible"


def test_each_replica_may_be_in_a_rack_of_its_own() -> None:
    """T1, M3: two of three replicas, each whole in a rack; the third finds no rack of three."""
    cluster = draw("""
        r1  a:3
        r2  b:2
        r3  c:3
    """)
    gang = [podgroup(*(group(f"g{i}", 3, **RACK) for i in range(3)), minSubGroup=2), *waiting(g0=3, g1=3, g2=3)]
    assert placement(cluster, gang) == {"g0": "r1", "g1": "r3"}


def test_the_tightest_domain_is_taken_and_big_ones_stay_whole() -> None:
    """X4: two pods go to the rack of two, though the rack of four comes first by name."""
    cluster = draw("""
        r1  a:4
        r2  b:2
    """)
    assert placement(cluster, roles(within="rack", workers=2)) == {"workers": "r2"}

"""Names that collide: what the patterns say is what the layout of real sets shows."""

from collections import Counter
from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.api.decoding import decode
from muster.api.grove.pod_clique import MOST_CLIQUES
from muster.api.grove.pod_clique_set import PodCliqueSet
from muster.grove.layout import lay_out
from muster.validation.context import ValidationContext
from muster.validation.grove import cliques as clique_rules
from muster.validation.grove.places import SetOutline
from muster.validation.grove.pod_clique_set import judge
from tests.support.factories import Raw
from tests.support.grove import clique, group, pod_clique_set

WORD = st.sampled_from(["a", "b", "0", "1"])
NAME = st.lists(WORD, min_size=1, max_size=3).map("-".join)
REPLICAS = 3
CONSTRAINT = {"topologyName": "dc", "pack": {"required": "rack"}}


def typed(raw: Raw) -> PodCliqueSet:
    pcs, misfits = decode(raw, PodCliqueSet)
    assert misfits == ()
    return pcs


def object_names(raw: Raw) -> Iterator[tuple[str, str]]:
    """Kind and name of every object that a set becomes, and of every SubGroup of a gang."""
    for replica in lay_out(typed(raw), {}).replicas:
        yield "Service", replica.service
        members = [one for part in replica.groups for each in part.replicas for one in each]
        yield from (("PodClique", one.name) for one in (*replica.cliques, *members))
        yield from (("PodCliqueScalingGroup", part.name) for part in replica.groups)
        for gang in replica.gangs:
            yield "PodGang", gang.name
            leaves, branches = [one.name for one in gang.cliques], [part.name for part in gang.groups]
            yield from ((f"SubGroup of {gang.name}", name) for name in (*leaves, *branches))


def collisions(raw: Raw, *beside: Raw) -> list[str]:
    """Errors of the rule, among these sets."""
    context = ValidationContext(read_others=lambda resource: beside if resource.kind == "PodCliqueSet" else ())
    all_problems = judge(typed(raw), raw, None, context)
    return [problem.says for problem in all_problems if problem.rule == "R7" and problem.severity == "error"]


@st.composite
def sets(draw: st.DrawFn) -> Raw:
    names = draw(st.lists(NAME, min_size=1, max_size=4, unique=True))
    inside = draw(st.integers(0, len(names)))
    group_names = draw(st.lists(NAME, min_size=0 if inside == 0 else 1, max_size=2, unique=True))
    members: dict[str, list[str]] = {name: [] for name in group_names}
    for name in names[:inside]:
        members[draw(st.sampled_from(group_names))].append(name)
    groups = [group(name, *members[name], replicas=REPLICAS) for name in group_names if members[name]]
    for part in groups:
        part.update({"topologyConstraint": CONSTRAINT} if draw(st.booleans()) else {})
    return pod_clique_set(*map(clique, names), groups=groups, replicas=2, name=draw(NAME))


@settings(max_examples=300, deadline=None)
@given(sets())
def test_a_set_whose_objects_share_a_name_is_refused(raw: Raw) -> None:
    """Every collision that a layout shows is found; what needs more replicas than it has may be found as well."""
    counted = Counter(object_names(raw))
    if max(counted.values()) > 1:
        assert collisions(raw)


@settings(max_examples=300, deadline=None)
@given(sets(), sets())
def test_two_sets_are_refused_exactly_where_their_objects_share_a_name(first: Raw, second: Raw) -> None:
    """Neither a collision too few nor one too many, with the replicas of now."""
    if first["metadata"]["name"] == second["metadata"]["name"] or collisions(first) or collisions(second):
        return
    one, other = (
        {(kind, name) for kind, name in object_names(raw) if not kind.startswith("SubGroup")} for raw in (first, second)
    )
    assert bool(collisions(first, second)) == bool(one & other)
    assert bool(collisions(second, first)) == bool(one & other)


def test_sets_without_numbers_in_their_names_never_collide_with_themselves() -> None:
    raw = pod_clique_set(clique("a"), clique("b"), clique("c"), groups=[group("g", "b", "c", replicas=3)])
    assert collisions(raw) == []
    assert max(Counter(object_names(raw)).values()) == 1


def test_autoscalers_of_a_clique_and_a_group_of_one_name_collide() -> None:
    """Both are named by what they scale."""
    scaled = {"maxReplicas": 4}
    raw = pod_clique_set(
        clique("a", spec={"autoScalingConfig": scaled}), clique("b"), groups=[group("a", "b", scaleConfig=scaled)]
    )
    (says,) = collisions(raw)
    assert says == "clique `a` and group `a` share the name `a` of a HorizontalPodAutoscaler"


def test_thousands_of_numbers_as_names_are_judged_soon() -> None:
    """The comparisons are bounded, whatever the names are."""
    raw = pod_clique_set(*(clique(str(i)) for i in range(3_000)))
    raw["spec"]["template"]["podCliqueScalingGroups"] = [
        group(f"{i}", f"{i}", replicas=3, topologyConstraint=CONSTRAINT) for i in range(1_000)
    ]
    assert len(collisions(raw)) <= 4_000


def test_a_set_that_is_accepted_is_laid_out_as_a_whole() -> None:
    """Beyond the bound the layout would be cut: the set is refused instead."""
    raw = pod_clique_set(clique("a"), replicas=MOST_CLIQUES)
    assert not [*clique_rules.judge(SetOutline(typed(raw)), raw)]
    assert len(lay_out(typed(raw), {}).replicas) == MOST_CLIQUES
    raw["spec"]["replicas"] += 1
    (problem,) = clique_rules.judge(SetOutline(typed(raw)), raw)
    assert problem.at == "spec.replicas"

"""N: the tree, and which pods are in it."""

import json

import pytest

from muster.conversion.older_formats import Reading
from muster.model.gang.builder import build_member
from muster.model.gang.demand import leaf_demands
from muster.model.gang.pod_state import PodState, pod_state
from muster.model.gang.state import count_missing, has_enough_pods, is_satisfied, standings
from muster.model.gang.types import Branch, Leaf, walk
from muster.model.roles import resources, roles
from tests.spec.scene import (
    conversion,
    core_of,
    errors,
    eviction_order,
    gathered,
    members,
    places,
    problems,
    run,
    wanted,
    warnings,
)
from tests.support.factories import Raw, gang, group, pod, podgroup, pods, typed_pod


def chain(depth: int, minimum: int = 1) -> Raw:
    """SubGroups `s0` over `s1` over … over one leaf."""
    branches = [group(f"s{i}", parent=f"s{i - 1}" if i else "") for i in range(depth - 1)]
    return podgroup(*branches, group(f"s{depth - 1}", minimum, parent=f"s{depth - 2}"))


# N1 -----------------------------------------------------------------------------------------------------------------


def test_parent_makes_a_tree_of_the_flat_list() -> None:
    """People write one list; nesting is said by `parent` alone (N1)."""
    tree = gang(podgroup(group("decode"), group("leader", 1, parent="decode"), group("workers", 4, parent="decode")))
    assert isinstance(tree.root, Branch)
    assert [child.name for child in tree.root.children] == ["decode"]
    decode = tree.root.children[0]
    assert isinstance(decode, Branch)
    assert [child.name for child in decode.children] == ["leader", "workers"]


def test_spec_order_is_the_order_of_the_list_and_not_of_the_alphabet() -> None:
    """What is written first comes first, even `zeta` (N1)."""
    tree = gang(podgroup(group("zeta", 1), group("mid", 1), group("alpha", 1)))
    assert [part.name for part in walk(tree.root)] == ["", "zeta", "mid", "alpha"]


def test_a_parent_may_be_declared_after_its_children() -> None:
    """The list is flat: its order says who comes first among siblings, never who is whose parent (N1)."""
    tree = gang(
        podgroup(
            group("w1", 1, parent="workers"), group("leader", 1), group("w0", 1, parent="workers"), group("workers")
        )
    )
    assert [part.name for part in walk(tree.root)] == ["", "leader", "workers", "w1", "w0"]


def test_the_tree_is_the_same_whatever_the_order_of_the_pods() -> None:
    """Only the list of SubGroups is ordered; pods come from the API in any order (N1, M4)."""
    manifest, some = podgroup(group("b", 1), group("a", 1)), [*pods(3, "a", on="n"), *pods(3, "b", on="n")]
    there, back = gang(manifest, some), gang(manifest, reversed(some))
    assert (core_of(there), eviction_order(there)) == (core_of(back), eviction_order(back))


def test_a_hundred_levels_are_a_tree_like_any_other() -> None:
    """Depth is not limited: every level up to the root hangs on the leaf at the bottom (N1)."""
    deep = chain(100, minimum=2)
    assert problems(deep) == []
    assert not is_satisfied(gang(deep, pods(1, "s99", on="n")).root)
    held = standings(gang(deep, pods(2, "s99", on="n")).root)
    assert len(held) == 101
    assert all(standing.satisfied for standing in held.values())


def test_ten_thousand_subgroups_are_a_tree_like_any_other() -> None:
    """A large workload is judged, built and asked as a small one is (N1)."""
    wide = podgroup(*(group(f"replica-{i}", 1) for i in range(10_000)), minSubGroup=6_000)
    assert problems(wide) == []
    tree = gang(wide, [pod(f"p{i}", f"replica-{i}", on="n") for i in range(7_000)])
    assert is_satisfied(tree.root)
    assert (len(core_of(tree)), len(eviction_order(tree))) == (6_000, 1_000)


@pytest.mark.parametrize("placed", [0, 1, 3])
def test_a_chain_of_ten_thousand_levels_answers_every_question(placed: int) -> None:
    """Nothing recurses, so nothing runs out of stack (N1)."""
    deep = chain(10_000, minimum=2)
    tree = gang(deep, [*pods(placed, "s9999", on="n"), *pods(3 - placed, "s9999", first=placed)])
    assert is_satisfied(tree.root) == (placed >= 2)
    assert count_missing(tree.root) == max(2 - placed, 0)
    assert has_enough_pods(tree.root)
    assert sum(want.pods for want in leaf_demands(tree.root)) == count_missing(tree.root)
    assigned = roles(tree.root)
    assert len(assigned.core) + sum(map(len, assigned.surplus)) == placed


@pytest.mark.parametrize("reading", ["auto", "children", "pods"])
def test_a_chain_of_ten_thousand_levels_is_judged_updated_and_converted(reading: Reading) -> None:
    """Rules and dialects are as deep as the tree is (N1)."""
    deep = chain(10_000)
    assert problems(deep) == []
    assert problems(deep, old=deep) == []
    assert conversion(deep, reading).raw == deep


def test_a_cycle_at_the_end_of_ten_thousand_levels_is_reported_and_not_followed() -> None:
    """A cycle has no end: a walk must notice (N1, V3)."""
    deep = chain(10_000)
    deep["spec"]["subGroups"][0]["parent"] = "s9999"
    assert len(places(errors(deep), "V3")) == 1


@pytest.mark.parametrize("form", ["table", "mermaid", "json", "yaml"])
def test_the_command_line_survives_ten_thousand_levels(form: str) -> None:
    """It draws the gang or says in a sentence why not; a traceback is neither (N1)."""
    ran = run("tree", "-o", form, "-", stdin=json.dumps(chain(10_000)))
    assert "Traceback" not in ran.err
    assert "internal error" not in ran.err
    assert ran.code == (0 if form in ("table", "mermaid") else ran.code)


# N2 -----------------------------------------------------------------------------------------------------------------


def test_without_subgroups_the_podgroup_is_one_leaf_that_needs_one_pod() -> None:
    """The simplest gang says nothing at all (N2)."""
    manifest = podgroup()
    assert problems(manifest) == []
    assert isinstance(gang(manifest).root, Leaf)
    assert not is_satisfied(gang(manifest).root)
    assert is_satisfied(gang(manifest, pods(1, on="n")).root)


def test_a_podgroup_without_subgroups_needs_as_many_pods_as_it_says() -> None:
    """`minMember` on a PodGroup that has pods of its own means what it always meant (N2)."""
    manifest = podgroup(minMember=3)
    assert problems(manifest) == []
    assert not is_satisfied(gang(manifest, pods(2, on="n")).root)
    assert is_satisfied(gang(manifest, pods(3, on="n")).root)


def test_a_podgroup_without_subgroups_is_in_the_form_of_record_already() -> None:
    """Everything that worked without SubGroups works unchanged, so there is nothing to convert (N2)."""
    manifest = podgroup(minMember=4, queue="research", priorityClassName="train", markUnschedulable=False)
    assert problems(manifest) == []
    done = conversion(manifest)
    assert (done.raw, done.changes) == (manifest, ())


def test_an_empty_list_of_subgroups_is_no_subgroups() -> None:
    """A client that always writes the field means the same gang (N2)."""
    manifest = podgroup(minMember=2, subGroups=[])
    assert problems(manifest) == []
    assert is_satisfied(gang(manifest, pods(2, on="n")).root)


# N3 -----------------------------------------------------------------------------------------------------------------


def test_a_pod_joins_by_annotation_and_its_label_names_the_leaf() -> None:
    """The two keys on the pod say which gang and where in it (N3)."""
    gathering = gathered(podgroup(group("a", 1), group("b", 1)), pod("p", "b", on="n"))
    assert gathering.orphans == ()
    now = standings(gathering.gangs[0].root)
    assert (now["a"].placed, now["b"].placed) == (0, 1)


def test_a_label_does_not_make_a_pod_join() -> None:
    """`pod-group-name` is an annotation; a label of that name means nothing here (N3)."""
    stranger = pod("p", "a", on="n", gang="")
    stranger["metadata"]["labels"]["pod-group-name"] = "gang"
    gathering = gathered(podgroup(group("a", 1)), stranger)
    assert members(gathering.gangs[0]) == set()
    assert [stray.pod for stray in gathering.orphans] == ["team/p"]


def test_gangs_of_one_name_in_two_namespaces_have_their_own_pods() -> None:
    """Identity is `namespace/name` everywhere (N3)."""
    gathering = gathered(
        podgroup(name="g", namespace="red"),
        podgroup(name="g", namespace="blue"),
        pod("p", gang="g", namespace="red", on="n"),
        pod("p", gang="g", namespace="blue"),
    )
    assert {one.key: is_satisfied(one.root) for one in gathering.gangs} == {"red/g": True, "blue/g": False}


def test_a_pod_cannot_join_a_gang_of_another_namespace() -> None:
    """A name alone reaches only as far as its namespace (N3, N4)."""
    gathering = gathered(podgroup(namespace="red"), pod("p", namespace="blue", on="n"))
    assert not is_satisfied(gathering.gangs[0].root)
    assert [(stray.pod, stray.named) for stray in gathering.orphans] == [("blue/p", "blue/gang")]


def test_an_object_without_a_namespace_is_in_default() -> None:
    """Files leave the namespace out; that is the namespace `default`, not one of its own (N3)."""
    bare = podgroup()
    del bare["metadata"]["namespace"]
    gathering = gathered(bare, pod("p", namespace="default", on="n"))
    assert gathering.gangs[0].key == "default/gang"
    assert is_satisfied(gathering.gangs[0].root)


# N4 -----------------------------------------------------------------------------------------------------------------

NESTED = podgroup(group("roles"), group("leader", 1, parent="roles"), group("workers", 2, parent="roles"))
ASTRAY = {"an unknown subgroup": "wrokers", "a branch": "roles", "no subgroup": ""}


@pytest.mark.parametrize("named", ASTRAY.values(), ids=ASTRAY)
def test_a_pod_that_belongs_to_no_leaf_is_never_counted(named: str) -> None:
    """Even placed, it satisfies nothing; even pending, it is not a pod that could (N4)."""
    some = [pod("leader-0", "leader", on="n"), pod("workers-0", "workers", on="n")]
    for lost in (pod("lost", named, on="n"), pod("lost", named)):
        tree = gang(NESTED, [*some, lost])
        assert not is_satisfied(tree.root)
        assert not has_enough_pods(tree.root)
        assert standings(tree.root)[""].placed == 2
        assert wanted(tree) == {"workers": 1}


@pytest.mark.parametrize("named", ASTRAY.values(), ids=ASTRAY)
def test_a_pod_that_belongs_to_no_leaf_is_neither_core_nor_extra(named: str) -> None:
    """Roles are for pods of the gang (N4)."""
    some = [pod("leader-0", "leader", on="n"), *pods(2, "workers", on="n"), pod("lost", named, on="n")]
    tree = gang(NESTED, some)
    assert core_of(tree) == ["leader-0", "workers-0", "workers-1"]
    assert eviction_order(tree) == []


@pytest.mark.parametrize("named", ASTRAY.values(), ids=ASTRAY)
def test_a_pod_that_belongs_to_no_leaf_is_reported_on_its_podgroup(named: str) -> None:
    """Who looks at the gang sees which pod it is, and the name that led nowhere (N4)."""
    strays = gang(NESTED, [pod("lost", named)]).strays
    assert [(stray.pod, stray.named) for stray in strays] == [("team/lost", named)]
    assert strays[0].why
    assert named in strays[0].says


def test_each_way_of_going_astray_has_a_reason_of_its_own() -> None:
    """A branch, a misspelt name and no name are mended in three different ways (N4)."""
    strays = gang(NESTED, [pod(f"p{i}", named) for i, named in enumerate(ASTRAY.values())]).strays
    assert len({stray.why for stray in strays}) == 3


@pytest.mark.parametrize("named", ASTRAY.values(), ids=ASTRAY)
def test_a_pod_that_belongs_to_no_leaf_is_reported_on_the_pod(named: str) -> None:
    """Who looks at the pod sees it too, before it waits for ever (N4)."""
    all_warnings = warnings(pod("lost", named), around=[NESTED])
    assert [problem.rule for problem in all_warnings] == ["N4"]
    assert "leader" in all_warnings[0].hint
    assert warnings(pod("fine", "leader"), around=[NESTED]) == []


def test_a_pod_that_names_a_subgroup_of_a_podgroup_without_any_is_reported() -> None:
    """The name it gives is unknown there, so counting it would be a guess (N4)."""
    tree = gang(podgroup(), [pod("lost", "workers", on="n")])
    assert not is_satisfied(tree.root)
    assert [stray.pod for stray in tree.strays] == ["team/lost"]


def test_a_pod_that_names_a_podgroup_that_does_not_exist_is_reported() -> None:
    """It joins no gang, and is not dropped in silence (N4)."""
    gathering = gathered(podgroup(), pod("lost", gang="gagn", on="n"))
    assert not is_satisfied(gathering.gangs[0].root)
    assert [(stray.pod, stray.named) for stray in gathering.orphans] == [("team/lost", "team/gagn")]
    assert "team/gagn" in gathering.orphans[0].says


def test_a_subgroup_of_another_podgroup_is_unknown_here() -> None:
    """Names of SubGroups are the PodGroup's own (N4)."""
    gathering = gathered(
        podgroup(group("mine", 1), name="one"),
        podgroup(group("theirs", 1), name="two"),
        pod("lost", "theirs", gang="one", on="n"),
    )
    assert not any(is_satisfied(one.root) for one in gathering.gangs)
    assert {one.key: [stray.pod for stray in one.strays] for one in gathering.gangs} == {
        "team/one": ["team/lost"],
        "team/two": [],
    }


def test_no_pod_is_lost_between_leaves_strays_and_foreign_pods() -> None:
    """Every pod of the input is in exactly one place: nothing is dropped in silence (N4)."""
    given = [
        pod("leader-0", "leader", on="n"),
        pod("gated", "workers", gated=True),
        pod("failed", "workers", phase="Failed"),
        pod("done", "workers", phase="Succeeded"),
        pod("going", "workers", on="n", terminating=True),
        *(pod(f"lost-{i}", named) for i, named in enumerate(ASTRAY.values())),
        pod("alone", gang=""),
        pod("elsewhere", gang="other"),
        pod("abroad", "leader", namespace="far"),
    ]
    gathering = gathered(NESTED, *given)
    joined = [f"team/{name}" for name in members(gathering.gangs[0])]
    reported = [stray.pod for stray in (*gathering.gangs[0].strays, *gathering.orphans)]
    everyone = [f"{raw['metadata']['namespace']}/{raw['metadata']['name']}" for raw in given]
    assert sorted([*joined, *reported]) == sorted(everyone)


def test_the_drawn_tree_shows_every_stray_pod() -> None:
    """The picture of a gang shows what is not in it, and so does the data (N4)."""
    lost = [pod(f"lost-{i}", named) for i, named in enumerate(ASTRAY.values())]
    stdin = json.dumps({"apiVersion": "v1", "kind": "List", "items": [NESTED, *lost, pod("far", gang="gagn")]})
    table, data = run("tree", "-", stdin=stdin), run("tree", "-o", "json", "-", stdin=stdin)
    for name in ("team/lost-0", "team/lost-1", "team/lost-2", "team/far"):
        assert name in table.out + table.err
        assert name in data.out


# N5 -----------------------------------------------------------------------------------------------------------------


def test_a_gated_pod_exists_but_cannot_be_placed_yet() -> None:
    """It is counted as gated, is no candidate, and does not make the gang ready to try (N5)."""
    tree = gang(podgroup(minMember=2), [pod("free"), pod("held", gated=True)])
    assert not has_enough_pods(tree.root)
    assert standings(tree.root)[""].gated == 1
    assert [pod.name for want in leaf_demands(tree.root) for pod in want.candidates] == ["free"]
    assert members(tree) == {"free", "held"}


def test_the_last_gate_that_is_lifted_makes_the_gang_ready() -> None:
    """Without gates the same two pods are enough (N5)."""
    assert has_enough_pods(gang(podgroup(minMember=2), [pod("free"), pod("held")]).root)


def test_a_terminating_pod_counts_for_nothing() -> None:
    """It is on its way out: neither its leaf nor an attempt may rely on it (N5)."""
    for going in (pod("going", on="n", terminating=True), pod("going", terminating=True)):
        tree = gang(podgroup(minMember=2), [pod("stays", on="n"), going])
        assert not is_satisfied(tree.root)
        assert not has_enough_pods(tree.root)
        assert count_missing(tree.root) == 1
        assert core_of(tree) == ["stays"]
        assert eviction_order(tree) == []


def test_a_terminating_pod_still_holds_its_resources() -> None:
    """Until it is gone, its node has that much less room (N5)."""
    going = build_member(typed_pod(pod("going", on="n1", terminating=True, cpu="2")))
    assert (going.state, going.node) == (PodState.TERMINATING, "n1")
    assert resources([going]) == {"cpu": 2000}


def test_a_succeeded_pod_counts_for_the_minimum_of_its_leaf() -> None:
    """A worker that is done must not make the gang look broken (N5)."""
    tree = gang(podgroup(minMember=3), [*pods(2, on="n"), pod("done", on="n", phase="Succeeded")])
    assert is_satisfied(tree.root)
    assert count_missing(tree.root) == 0
    assert wanted(tree) == {}


def test_a_gang_whose_other_pods_have_succeeded_is_ready_to_try() -> None:
    """What has done its part need not be placed again (N5)."""
    tree = gang(podgroup(minMember=2), [pod("done", phase="Succeeded"), pod("next")])
    assert has_enough_pods(tree.root)
    assert wanted(tree) == {"": 1}


def test_a_succeeded_pod_counts_only_for_its_own_leaf() -> None:
    """Two finished pods of one leaf do nothing for the other (N5, M2)."""
    tree = gang(podgroup(group("a", 1), group("b", 1)), pods(2, "a", phase="Succeeded"))
    assert not is_satisfied(tree.root)
    assert wanted(tree) == {"b": 1}


def test_a_failed_pod_does_not_count() -> None:
    """It has not done its part and will not (N5)."""
    tree = gang(podgroup(minMember=2), [pod("up", on="n"), pod("down", on="n", phase="Failed")])
    assert not is_satisfied(tree.root)
    assert not has_enough_pods(tree.root)
    assert count_missing(tree.root) == 1
    assert core_of(tree) == ["up"]
    assert eviction_order(tree) == []


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (pod("p"), PodState.PENDING),
        (pod("p", phase="Pending"), PodState.PENDING),
        (pod("p", on="n"), PodState.PLACED),
        (pod("p", on="n", phase="Running"), PodState.PLACED),
        (pod("p", on="n", phase="Pending"), PodState.PLACED),
        (pod("p", gated=True), PodState.GATED),
        (pod("p", terminating=True), PodState.TERMINATING),
        (pod("p", gated=True, terminating=True), PodState.TERMINATING),
        (pod("p", on="n", phase="Running", terminating=True), PodState.TERMINATING),
        (pod("p", on="n", phase="Succeeded"), PodState.SUCCEEDED),
        (pod("p", on="n", phase="Failed"), PodState.FAILED),
    ],
)
def test_a_pod_is_in_one_state_that_says_what_it_counts_for(raw: Raw, expected: PodState) -> None:
    """Bound is placed even before the kubelet says so; leaving is stronger than waiting (N5)."""
    assert pod_state(typed_pod(raw)) == expected


def test_a_gang_without_a_single_pod_lacks_all_of_its_minimum() -> None:
    """Every count starts at nothing (N5)."""
    tree = gang(NESTED)
    assert (is_satisfied(tree.root), has_enough_pods(tree.root), count_missing(tree.root)) == (False, False, 3)
    assert wanted(tree) == {"leader": 1, "workers": 2}

"""Reasons as people and programs read them (E1): pods that lack, extras that wait, changes that would help."""

import json
from typing import Any

import muster
from muster.model.snapshot import take
from muster.planning.cycle import plan
from muster.planning.policy import Policy
from muster.planning.refusal import DisturbanceLimit
from muster.reporting.conditions import pod_conditions
from muster.reporting.explain import sentence
from muster.reporting.outcome import outcomes
from muster.reporting.refusal_details import details
from tests.spec.scene import run
from tests.support.factories import Raw, group, node, pod, podgroup, pods, priority_class, queue, topology

RACK: Raw = {"topologyConstraint": {"requiredTopologyLevel": "rack"}}
LEVELS = topology("topology/zone", "topology/rack")


def planned(*objects: Raw, **policy: Any) -> Raw:
    """What a plan says about the one gang."""
    decision: Raw = muster.plan(muster.objects(objects), Policy(**policy)).to_dict()["podGroups"][0]
    return decision


def reasons(*objects: Raw, **policy: Any) -> list[tuple[str, str]]:
    return [(one["reason"], one["subGroup"]) for one in planned(*objects, **policy)["reasons"]]


def messages(*objects: Raw) -> list[str]:
    return [one["message"] for one in planned(*objects)["reasons"]]


def hints(*objects: Raw, **policy: Any) -> list[tuple[str, str, Any]]:
    all_reasons = planned(*objects, **policy)["reasons"]
    return [
        (one["subGroup"], one["field"], one["to"])
        for reason in all_reasons
        for one in reason["details"].get("changes", ())
    ]


# pods that do not exist -----------------------------------------------------------------------------------------------


def test_both_numbers_are_named() -> None:
    """How many there must be and how many there are."""
    given = (node("n"), podgroup(group("a", 4), group("b", 1)), *pods(3, "a", cpu=1), *pods(1, "b", cpu=1))
    assert messages(*given) == ["not enough pods: 3 of 4 pods of `a` exist"]
    facts = planned(*given)["reasons"][0]["details"]
    assert (facts["need"], facts["exist"]) == (4, 3)


def test_pods_that_run_already_exist() -> None:
    """N5: what is placed or has succeeded counts for the minimum, so it exists."""
    some = [pod("x", on="n"), pod("y", phase="Succeeded"), pod("z")]
    assert messages(node("n"), podgroup(minMember=5), *some) == ["not enough pods: 3 of 5 pods exist"]


def test_pods_that_are_there_and_do_not_count_are_named_apart() -> None:
    """N5: gated, terminating and failed pods explain the number."""
    some = [pod("p"), pod("q", gated=True), pod("r", on="n", terminating=True), pod("s", phase="Failed")]
    sentences = messages(node("n"), podgroup(minMember=3), *some)
    assert sentences == ["not enough pods: 1 of 3 pods exist (1 gated, 1 terminating, 1 failed not counted)"]


def test_every_group_that_lacks_pods_is_named_and_none_that_need_not_run() -> None:
    """M3: of 2 of 3 one that has its pods and the first that lacks some; the last one is not asked for."""
    given = podgroup(group("a", 2), group("b", 2), group("c", 2), minSubGroup=2)
    sentences = messages(node("n"), given, *pods(2, "c", cpu=1), *pods(1, "b", cpu=1))
    assert sentences == ["not enough pods: 0 of 2 pods of `a` exist"]


def test_pods_asked_for_in_all_are_counted_in_all() -> None:
    """M5: a stored branch that counts pods names itself, not a leaf that is complete."""
    sentences = messages(node("n"), podgroup(group("a", 1), group("b", 1), minMember=5), *pods(2, "a"), *pods(1, "b"))
    assert sentences == ["not enough pods: 3 of 5 pods exist"]


def test_tree_and_plan_say_the_same_of_missing_pods(tmp_path: Any) -> None:
    """E1: one question, one answer, in every verb."""
    some = [*pods(3, "a", cpu=1), pod("a-9", "a", gated=True), *pods(1, "b", cpu=1)]
    file = tmp_path / "all.json"
    file.write_text(
        json.dumps({"apiVersion": "v1", "kind": "List", "items": [podgroup(group("a", 5), group("b", 2)), *some]})
    )
    words = "3 of 5 pods of `a` exist (1 gated not counted); 1 of 2 pods of `b` exist"
    assert words in run("tree", str(file)).out
    assert words in run("plan", str(file)).out
    assert words in run("explain", "team/gang", str(file)).out
    tree = json.loads(run("tree", str(file), "-o", "json").out)
    missing = (tree["podGroups"] if "podGroups" in tree else tree["items"])[0]["notEnoughPods"]
    assert [(one["subGroup"], one["need"], one["exist"]) for one in missing] == [("a", 5, 3), ("b", 2, 1)]


# extras that wait -----------------------------------------------------------------------------------------------------


def test_a_further_subgroup_without_room_has_a_reason() -> None:
    """G3, E1: the gang runs, its third replica waits, and says what is missing with both numbers."""
    given = podgroup(group("a", 2), group("b", 2), group("c", 4), minSubGroup=2)
    decision = planned(node("n", cpu=6), given, *pods(2, "a", cpu=1), *pods(2, "b", cpu=1), *pods(4, "c", cpu=1))
    assert decision["verdict"] == "Scheduled"
    reason = decision["reasons"][0]
    assert (reason["reason"], reason["subGroup"]) == ("NoRoom", "c")
    assert reason["message"] == (
        "extra `c` waits: no room for `c`: needs 4 pods, the cluster has room for 2, 2 cpu short"
    )
    assert reason["details"]["role"] == "extra"


def test_further_pods_of_a_leaf_have_a_reason() -> None:
    """Pods above a minimum are counted, and the room for one more is named."""
    sentences = messages(node("n", cpu=3), podgroup(minMember=2), *pods(5, cpu=1))
    assert sentences == [
        "2 further pods wait: no room for the gang: needs 1 pod, the cluster has room for 0, 1 cpu short"
    ]


def test_an_extra_is_held_to_the_domain_of_its_gang() -> None:
    """T1, T3: there is room, but not where the others are; the reason says so."""
    given = podgroup(minMember=2, **RACK)
    nodes = [node("n1", cpu=2, zone="z", rack="r1"), node("n2", cpu=1, zone="z", rack="r2")]
    given_reasons = planned(*nodes, LEVELS, given, *pods(3, cpu=1))["reasons"]
    assert [(one["reason"], one["details"]["domain"], one["details"]["room"]) for one in given_reasons] == [
        ("NoDomain", "z/r1", 0)
    ]


def test_an_extra_over_the_limit_of_its_queue_says_so() -> None:
    """Q4: there is room, and the queue does not allow it."""
    limited = queue("q", cpu={"limit": 2000, "quota": 2000}, memory={"quota": -1}, gpu={"quota": -1})
    given_reasons = planned(node("n", cpu=8), limited, podgroup(minMember=2, queue="q"), *pods(3, cpu=1))["reasons"]
    assert [(one["reason"], one["details"]["queue"]) for one in given_reasons] == [("OverLimit", "q")]
    words = "queue `q` would pass its limit: 2 cpu, of which 2 are held and 1 more are asked for"
    assert given_reasons[0]["message"] == f"1 further pod waits: {words}"


def test_a_further_subgroup_whose_pods_do_not_exist_says_so() -> None:
    """Its controller has made one of two: what is missing is no room, and no node would help."""
    given = podgroup(group("a", 1), group("b", 2), minSubGroup=1)
    sentences = messages(node("n"), given, *pods(1, "a", cpu=1), *pods(1, "b", cpu=1))
    assert sentences == ["extra `b` waits: not enough pods: 1 of 2 pods of `b` exist"]


def test_equal_extras_share_one_reason_and_the_rest_is_counted() -> None:
    """Bounded: eight replicas that wait for the same are one sentence; never more than three and a count."""
    names = [f"r{i}" for i in range(9)]
    given = podgroup(*(group(name, 1) for name in names), minSubGroup=1)
    alike = messages(node("n", cpu=1), given, *(one for name in names for one in pods(1, name, cpu=1)))
    assert alike == [
        "extra `r1` and 7 like it wait: no room for `r1`: needs 1 pod, the cluster has room for 0, 1 cpu short"
    ]
    sizes = {name: 1 + i for i, name in enumerate(names)}
    distinct = messages(node("n", cpu=1), given, *(one for name in names for one in pods(1, name, cpu=sizes[name])))
    assert len(distinct) == 4
    assert distinct[-1] == "5 more extras wait"


def test_a_gang_that_waits_for_nothing_has_no_reasons() -> None:
    """Nothing to say is said as nothing."""
    assert planned(node("n"), podgroup(minMember=2), *pods(3, on="n", cpu=1))["reasons"] == []


def test_reasons_of_extras_change_nothing_that_is_placed() -> None:
    """They are words: the plan is the same with and without an extra that cannot be placed."""
    given = (node("n", cpu=4), podgroup(group("a", 2), group("b", 2), minSubGroup=1), *pods(4, "a", cpu=1))
    before = muster.plan(muster.objects(given)).to_dict()["bindings"]
    after = muster.plan(muster.objects((*given, *pods(2, "b", cpu=8)))).to_dict()["bindings"]
    assert before == after


def test_every_pod_that_waits_has_its_own_reason() -> None:
    """E1: on the pod stands why its part waits, not why another one does."""
    given = podgroup(group("a", 1), group("b", of=1), group("b1", 2, parent="b"), minSubGroup=1)
    objects = muster.objects((node("n", cpu=2), given, *pods(3, "a", cpu=1), *pods(1, "b1", cpu=1)))
    snapshot = take(objects)
    outcome = outcomes(snapshot, plan(snapshot))["team/gang"]
    message_of = {name: one.message for name, one in pod_conditions(outcome, objects.pod_groups[0]).items()}
    assert message_of["team/a-2"].startswith("1 further pod of `a` waits: no room")
    assert message_of["team/b1-0"] == "extra `b` waits: not enough pods: 1 of 2 pods of `b1` exist"


# the smallest change --------------------------------------------------------------------------------------------------


def test_a_group_far_above_the_culprit_may_be_the_one_to_change() -> None:
    """E1: two levels up, two of three branches are enough; neither the leaf nor its parent has a number that helps."""
    deep = [group("x", of=1), group("y", of=1), group("x1", parent="x", of=1), group("y1", parent="y", of=1)]
    leaves = [group("xa", 1, parent="x1"), group("ya", 1, parent="y1")]
    given = podgroup(*deep, *leaves)
    changes = hints(node("n", cpu=1), given, *pods(1, "xa", cpu=1), *pods(1, "ya", cpu=2))
    assert ("", "minSubGroup", 1) in changes


def test_a_sibling_may_be_the_one_to_change() -> None:
    """Room is shared: where `b` does not fit beside `a`, a smaller `a` is a way out, too."""
    changes = hints(
        node("n", cpu=6), podgroup(group("a", 4), group("b", 2)), *pods(4, "a", cpu=1), *pods(2, "b", cpu=2)
    )
    assert set(changes) >= {("a", "minMember", 2), ("b", "minMember", 1), ("", "minSubGroup", 1)}
    assert [one[0] for one in changes][-1] == ""  # it gives up most


def test_a_level_far_above_may_be_the_one_to_change() -> None:
    """T1: the gang must be in one rack, and only the whole zone holds its two leaves."""
    nodes = [node("n1", cpu=2, zone="z", rack="r1"), node("n2", cpu=2, zone="z", rack="r2")]
    given = podgroup(group("a", of=1), group("b", of=1), group("a1", 2, parent="a"), group("b1", 2, parent="b"), **RACK)
    changes = hints(*nodes, LEVELS, given, *pods(2, "a1", cpu=1), *pods(2, "b1", cpu=1))
    assert ("", "requiredTopologyLevel", "topology/zone") in changes


def test_a_minimum_that_what_runs_meets_already_is_a_way_out() -> None:
    """V5: one of two runs and the other has no room; the smaller minimum is met by what is there."""
    changes = hints(node("n", cpu=1), podgroup(minMember=2), pod("a", on="n", cpu=1), pod("b", cpu=1))
    assert changes == [("", "minMember", 1)]


def test_hints_never_advise_what_is_refused() -> None:
    """V1, V2: no 0, no `minSubGroup` on a leaf, none beside a `minMember` of the same group (M5)."""
    one = hints(node("n", cpu=1), podgroup(minMember=1), pod("a", cpu=2))
    assert one == []
    total = hints(
        node("n", cpu=3),
        podgroup(group("a", 1), group("b", 1), minMember=4),
        *pods(2, "a", cpu=1),
        *pods(2, "b", cpu=1),
    )
    assert [field for _, field, _ in total if field == "minSubGroup"] == []


def test_a_thousand_subgroups_share_their_hints() -> None:
    """X7: groups alike are tried once, so a wide gang costs hundreds of steps and not hundreds of thousands."""
    wide = podgroup(*(group(f"w{i}", 1) for i in range(1100)))
    given = (node("n", cpu=1), wide, *(pod(f"p{i}", f"w{i}", cpu=1) for i in range(1100)))
    assert hints(*given) == [("", "minSubGroup", 1)]
    assert sum(muster.plan(muster.objects(given)).decided.searches) < 1_000


def test_every_node_is_counted_once_by_the_first_filter_that_refuses_it() -> None:
    """E1: two jobs of one class have the same reason, with what has been filled between them."""
    tainted = {"taints": [{"key": "kept", "effect": "NoSchedule"}]}
    nodes = [node("a", rack="r1", cpu=4), node("b", rack="r1"), node("c", rack="r2"), node("d", rack="r1", cpu=2)]
    nodes[1]["spec"] = nodes[2]["spec"] = tainted
    given = [*nodes]
    for i, need in enumerate((4, 3, 5)):
        some = [pod(f"p{i}-{n}", gang=f"job-{i}", cpu=2) for n in range(need)]
        for one in some:
            one["spec"]["nodeSelector"] = {"topology/rack": "r1"}
        given += [podgroup(name=f"job-{i}", minMember=need), *some]
    all_refusals = [one.refusals for one in muster.plan(muster.objects(given)).decided.gangs]
    expected = [{"nodeSelector": 1, "taints": 1}, None, {"nodeSelector": 1, "taints": 1, "resources": 2}]
    assert [details(refusals[0])["refused"] if refusals else None for refusals in all_refusals] == expected


def test_jobs_of_one_class_are_explained_without_a_search() -> None:
    """X7: whether fewer of their pods would fit is a matter of counting seats: one step for each question."""
    given = [node(f"n{i}", cpu=4) for i in range(20)]
    for i in range(4):
        some = [pod(f"p{i}-{n}", gang=f"job-{i}", cpu=1) for n in range(81 + i)]
        given += [podgroup(name=f"job-{i}", minMember=81 + i), *some]
    made = muster.plan(muster.objects(given)).decided
    changes = [details(one.refusals[0])["changes"] for one in made.gangs]
    assert [one["to"] for some in changes for one in some] == [80] * 4
    assert sum(made.searches) < 4 * 10


def test_a_thousand_levels_have_hints_without_recursion() -> None:
    """A chain costs steps in proportion to its depth; nothing recurses."""
    chain = [group(f"g{i}", parent=f"g{i - 1}" if i else "") for i in range(1000)]
    given = (node("n", cpu=1), podgroup(*chain, group("leaf", 2, parent="g999")), *pods(2, "leaf", cpu=1))
    made = muster.plan(muster.objects(given)).decided
    refusal = made.gang("team/gang").refusals[0]
    assert [(one["subGroup"], one["to"]) for one in details(refusal)["changes"]] == [("leaf", 1)]
    assert sum(made.searches) < 20_000


def test_words_cost_a_small_part_of_what_a_gang_may_spend() -> None:
    """X7: a diagnosis that does not come to an end stops; what it found until then is true."""
    given = podgroup(*(group(f"g{i}", 3) for i in range(12)))
    some = [one for i in range(12) for one in pods(3, f"g{i}", cpu=1 + i % 3)]
    nodes = [node(f"n{i}", cpu=4) for i in range(6)]
    spent = {
        steps: sum(muster.plan(muster.objects((*nodes, given, *some)), Policy(steps=steps)).decided.searches)
        for steps in (10, 100, 1_000)
    }
    assert all(used <= steps + 1 for steps, used in spent.items())


# gangs that lose pods -------------------------------------------------------------------------------------------------


def test_an_extra_that_waits_has_a_reason_while_another_one_leaves() -> None:
    """E1: that one of its pods has to leave says nothing about the one that was never placed."""
    wide, victim = [node("n", cpu=4), priority_class("high", 90)], podgroup(name="v", minMember=2)
    members = [*pods(4, gang="v", on="n", cpu=1), pod("more", gang="v", cpu=1)]
    new = [podgroup(name="w", minMember=1, priorityClassName="high"), pod("w0", gang="w", cpu=1)]
    data = muster.plan(muster.objects([*wide, victim, *members, *new])).to_dict()
    assert len(data["evictions"]) == 1
    (decision,) = (one for one in data["podGroups"] if one["name"] == "v")
    assert (decision["verdict"], [one["reason"] for one in decision["reasons"]]) == ("Scheduled", ["NoRoom"])


def test_what_one_cycle_may_disturb_is_said_in_a_sentence_that_holds() -> None:
    """P8, E1: not `1 of the 0 pods`."""
    text = sentence(DisturbanceLimit(disturbed=1, allowed=0))
    assert "1 pod leaves or moves for others already, and one cycle may disturb 0, or as many as one gang needs" in text


# words of invalid gangs -----------------------------------------------------------------------------------------------


def test_a_level_without_a_topology_says_what_is_missing() -> None:
    """T6: no name in empty quotes; `plan` says what `validate` says."""
    near = podgroup(minMember=1, **RACK)
    assert messages(node("n"), near, pod("p")) == ["invalid: no topology is named, and there is none"]
    two = [topology("zone", name="one"), topology("zone", name="two")]
    assert messages(node("n"), *two, near, pod("p")) == ["invalid: no topology is named, and there are 2"]


def test_a_level_that_could_be_two_says_which() -> None:
    """T4: the last part of a label names a level where this is unambiguous."""
    tree = podgroup(group("a", 1, **RACK))
    text = "level `rack` of topology `cluster` may be `a/rack` or `b/rack`"
    levels = topology("a/rack", "b/rack")
    assert messages(node("n"), levels, tree, pod("p", "a")) == [f"invalid: `a`: {text}"]
    assert text in [one.says for one in muster.validate(tree, around=muster.objects([levels]))]


# pods without a gang --------------------------------------------------------------------------------------------------


def test_plan_names_pods_whose_podgroup_does_not_exist(tmp_path: Any) -> None:
    """N4: nothing is dropped in silence."""
    file = tmp_path / "some.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [node("n"), pod("p", gang="lost")]}))
    assert "podgroup `team/lost` does not exist, but pods name it: team/p" in run("plan", str(file)).err


# what the cluster can do at best --------------------------------------------------------------------------------------


def test_pods_in_all_may_be_what_to_lower() -> None:
    """M5, V2: on the PodGroup itself a smaller `minMember` is accepted, so it is advice."""
    given = [node("n", cpu=3), *pods(2, "a", cpu=1), *pods(2, "b", first=2, cpu=1)]
    tree = group("a", 1), group("b", 1)
    assert hints(*given, podgroup(*tree, minMember=4)) == [("", "minMember", 3)]
    assert hints(*given, podgroup(*tree, minMember=4, minSubGroup=1)) == [], "V1 refuses both"
    deep = group("r", 4), group("a", 1, parent="r"), group("b", 1, parent="r")
    assert [one for one in hints(*given, podgroup(*deep)) if one[1] == "minMember"] == [], "V2 refuses it on a SubGroup"


def test_pods_in_all_that_run_already_stay_in_the_number() -> None:
    """M5: four of six fit beside the one that runs."""
    given = [node("n", cpu=4), pod("x", "a", on="n", cpu=1), *pods(2, "a", cpu=1), *pods(3, "b", first=2, cpu=1)]
    assert hints(*given, podgroup(group("a", 1), group("b", 1), minMember=6)) == [("", "minMember", 4)]


def test_room_for_pods_of_several_classes_counts_each_by_itself() -> None:
    """Four small ones fit where the large one does, not one."""
    given = [node("n", cpu=4), podgroup(minMember=5), pod("large", cpu=4), *pods(4, cpu=1)]
    (reason,) = planned(*given)["reasons"]
    assert (reason["details"]["need"], reason["details"]["room"]) == (5, 4)


def test_pods_that_match_no_node_are_the_reason_where_the_others_are_too_few() -> None:
    """One of two matches no node: there is room, but not for it."""
    picky = pod("picky", cpu=1)
    picky["spec"]["nodeSelector"] = {"no": "node"}
    assert reasons(node("n"), podgroup(minMember=2), picky, pod("plain", cpu=1)) == [("NoNodeMatches", "")]


def test_pods_with_unsupported_rules_keep_no_other_pod_from_its_node() -> None:
    """M4, G3, X5: any pods of a leaf will do; the one that muster does not decide waits and is named."""
    odd = pod("odd", cpu=1)
    odd["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "claim"}]
    for placed in ([], [pod("first", on="n", cpu=1)]):
        given = [node("n"), podgroup(minMember=1), *placed, odd, pod("plain", cpu=1)]
        plan = muster.plan(muster.objects(given))
        assert ([one.pod for one in plan.bindings], reasons(*given)) == (["plain"], [("Unsupported", "")])
    assert planned(node("n"), podgroup(minMember=2), odd, pod("plain", cpu=1))["verdict"] == "Waiting"


def test_a_leaf_that_gives_no_more_is_still_satisfied_where_pods_are_counted_in_all() -> None:
    """M5, X5: what is left of `a` is not supported, and `b` gives the rest."""
    odd = pod("odd", "a", cpu=1)
    odd["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "claim"}]
    tree = podgroup(group("a", 1), group("b", 1), minMember=3)
    given = [node("n"), tree, pod("ran", "a", on="n", cpu=1), odd, *pods(2, "b", cpu=1)]
    assert [one.pod for one in muster.plan(muster.objects(given)).bindings] == ["b-0", "b-1"]


# queues and room of later ---------------------------------------------------------------------------------------------


def test_the_reason_of_a_gang_over_a_limit_says_what_the_limit_allows() -> None:
    """Two of three pods are within the limit, and there is room for them; of three SubGroups two are."""
    for share in ({"quota": 8000, "limit": 2000}, {"quota": 2000}):
        queues, spec = queue("q", cpu=share), {"queue": "q", "preemptibility": "non-preemptible"}
        assert hints(node("n", cpu=8), queues, podgroup(minMember=3, **spec), *pods(3, cpu=1)) == [("", "minMember", 2)]
        tree = podgroup(group("a", 1), group("b", 1), group("c", 1), minSubGroup=3, **spec)
        assert hints(node("n", cpu=8), queues, tree, *(pod(one, one, cpu=1) for one in "abc")) == [
            ("", "minSubGroup", 2)
        ]


def test_no_change_helps_where_not_even_one_pod_is_allowed() -> None:
    full = queue("q", cpu={"limit": 500})
    assert hints(node("n", cpu=8), full, podgroup(minMember=3, queue="q"), *pods(3, cpu=1)) == []


def test_a_gang_is_not_advised_to_wait_for_room_that_another_has_taken() -> None:
    """P8: what fits now is bound now; with it, two cpus will be free, not four."""
    cluster = [priority_class("high", 90), node("n", cpu=4), pod("old", gang="", on="n", terminating=True, cpu=2)]
    large = [podgroup(name="a", minMember=1, priorityClassName="high"), pod("large", gang="a", cpu=4)]
    small = [podgroup(name="b", minMember=1), pod("small", gang="b", cpu=2)]
    assert "it fits once the pods that are being deleted are gone" in messages(*cluster, *large)[0]
    assert "fits once" not in messages(*cluster, *large, *small)[0]

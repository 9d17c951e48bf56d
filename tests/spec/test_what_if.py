"""What if: the plan before and after a supposition. Nothing is changed anywhere, and whatever is wrong is said."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

import muster
from muster.errors import InputError, Refused
from tests.spec.scene import Ran, run
from tests.support.factories import Raw, group, node, pod, podgroup, pods, priority_class, queue, topology
from tests.support.puzzles import manifests, puzzle

RACKS = topology("topology/zone", "topology/rack")


def what_if_of(*objects: Raw, **changes: Any) -> muster.WhatIf:
    return muster.what_if(muster.objects(objects), **changes)


def where(plan: muster.Plan) -> dict[str, str]:
    """Who is bound to which node."""
    return {binding.pod: binding.node for binding in plan.bindings}


def refusal(*objects: Raw, **changes: Any) -> str:
    with pytest.raises(InputError) as raised:
        what_if_of(*objects, **changes)
    return str(raised.value)


def stored(path: Path, *objects: Raw) -> str:
    path.write_text(yaml.safe_dump_all(objects), encoding="utf-8")
    return str(path)


# what is supposed ---------------------------------------------------------------------------------------------------


def test_nothing_supposed_changes_nothing() -> None:
    """Both plans are the plan."""
    for seed in range(10):
        objects = muster.objects(manifests(puzzle(seed)))
        answer = muster.what_if(objects)
        assert answer.before.to_dict() == answer.after.to_dict() == muster.plan(objects).to_dict()
        assert answer.differences.gangs == ()
        assert answer.differences.unchanged == len(objects.pod_groups)


def test_the_objects_that_were_given_stay_as_they_are() -> None:
    """A supposition is a new value: the next question starts from the same cluster."""
    objects = muster.objects([node("a"), podgroup(minMember=1), *pods(2, on="a", cpu=1)])
    before = muster.plan(objects).to_dict()
    muster.what_if(objects, drain=["a"], set={"team/gang.minMember": 2})
    muster.what_if(objects, without=["team/gang"])
    assert muster.plan(objects).to_dict() == before


def test_a_gang_that_is_added_and_taken_away_again_was_never_there() -> None:
    """`--with` and `--without` are each other's inverse."""
    more = muster.objects([podgroup(name="late"), pod("late-0", gang="late", cpu=1)])
    answer = what_if_of(node("a"), podgroup(), pod("p", cpu=1), with_=more, without=["team/late"])
    assert answer.before.to_dict() == answer.after.to_dict()


def test_an_added_gang_is_planned_beside_the_others() -> None:
    """With FILE: the newcomer comes, the other stays as it is."""
    more = muster.objects([podgroup(name="late"), pod("late-0", gang="late", cpu=1)])
    answer = what_if_of(node("a"), podgroup(), pod("p", cpu=1), with_=more)
    assert [(gang.key, gang.kind) for gang in answer.differences.gangs] == [("team/late", "Comes")]
    assert answer.differences.unchanged == 1
    assert answer.changes == ("adds 1 PodGroup, 1 Pod",)


def test_an_added_gang_is_younger_than_those_that_are_there() -> None:
    """Without an age it would count as the oldest and push in (G4): its name alone must not decide."""
    more = muster.objects([podgroup(name="aaa"), pod("aaa-0", gang="aaa", cpu=5)])
    there = podgroup(name="zzz")
    there["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    for old in (there, podgroup(name="zzz")):
        answer = what_if_of(node("a", cpu=8), old, pod("zzz-0", gang="zzz", cpu=5), with_=more)
        assert answer.after.verdict("team/zzz") == "Scheduled"
        assert answer.after.verdict("team/aaa") != "Scheduled"


def test_an_object_of_the_same_kind_and_name_is_replaced() -> None:
    """A bigger node in the place of the small one, not beside it."""
    answer = what_if_of(
        node("a", cpu=1), podgroup(minMember=2), *pods(2, cpu=1), with_=muster.objects([node("a", cpu=2)])
    )
    assert answer.changes == ("replaces 1 Node",)
    assert (answer.before.verdict("team/gang"), answer.after.verdict("team/gang")) == ("Infeasible", "Scheduled")
    assert [(gang.key, gang.kind) for gang in answer.differences.gangs] == [("team/gang", "Better")]


def test_a_replaced_gang_keeps_its_age() -> None:
    """An update does not send it to the end of the line."""
    old, young = podgroup(name="old"), podgroup(name="young")
    old["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    young["metadata"]["creationTimestamp"] = "2026-02-01T00:00:00Z"
    both = [pod(f"{name}-0", gang=name, cpu=5) for name in ("old", "young")]
    answer = what_if_of(node("a", cpu=8), old, young, *both, with_=muster.objects([podgroup(name="old", minMember=1)]))
    assert answer.after.verdict("team/old") == "Scheduled"


def test_a_gang_that_leaves_takes_its_pods_along() -> None:
    """Without NAMESPACE/NAME: its room is free, and gangs of the same name elsewhere stay."""
    objects = [node("a", cpu=2), podgroup(name="runs"), *pods(2, on="a", gang="runs", cpu=1)]
    waits = [podgroup(name="waits", minMember=2), *pods(2, "", first=7, gang="waits", cpu=1)]
    alike = [podgroup(name="runs", namespace="other")]
    answer = what_if_of(*objects, *waits, *alike, without=["team/runs"])
    assert answer.changes == ("podgroup `team/runs` leaves with its 2 pods",)
    assert {gang.key: gang.kind for gang in answer.differences.gangs} == {"team/runs": "Leaves", "team/waits": "Better"}


def test_pods_of_gangs_on_a_drained_node_wait_again_and_find_another() -> None:
    """As if their controllers had created them again."""
    answer = what_if_of(node("a"), node("b"), podgroup(minMember=2), *pods(2, on="a", cpu=1), drain=["a"])
    assert answer.changes == ("node `a` is drained: 2 pods of gangs wait again",)
    assert where(answer.after) == {"pod-0": "b", "pod-1": "b"}
    (gang,) = answer.differences.gangs
    assert (gang.kind, gang.elsewhere) == ("Differs", 2)


def test_a_drained_node_takes_no_pod() -> None:
    """Whatever the cluster looks like, and every other pod stays where it is."""
    for seed in range(20):
        objects = muster.objects(manifests(puzzle(seed)))
        gone = objects.nodes[0].metadata.name
        after = muster.what_if(objects, drain=[gone]).after
        assert gone not in where(after).values(), seed


def test_pods_of_no_gang_leave_a_drained_node() -> None:
    """No controller is known to create them again; so do those that name a gang which is not there."""
    others = [pod("alone", gang="", on="a"), pod("lost", gang="nobody", on="a"), pod("far", gang="", on="b")]
    answer = what_if_of(node("a"), node("b"), podgroup(), pod("p", on="a"), *others, drain=["a"])
    assert answer.changes == ("node `a` is drained: 1 pod of a gang waits again, 2 other pods leave",)
    assert [one.metadata.name for one in answer.supposed.objects.pods] == ["p", "far"]


def test_a_pod_that_has_finished_keeps_its_part_when_its_node_is_drained() -> None:
    """N5: it holds nothing and still counts; one that is terminating counted for nothing and is gone."""
    members = [pod("done", on="a", phase="Succeeded"), pod("going", on="a", terminating=True), pod("p", on="b")]
    answer = what_if_of(node("a"), node("b"), podgroup(minMember=2), *members, drain=["a"])
    assert answer.after.verdict("team/gang") == "Scheduled"
    assert [one.metadata.name for one in answer.supposed.objects.pods] == ["done", "p"]


def test_a_gang_that_cannot_go_elsewhere_is_worse_off_and_says_why() -> None:
    """E1: the explanation is that of the plan after."""
    answer = what_if_of(node("a", cpu=4), node("b", cpu=3), podgroup(minMember=4), *pods(4, on="a", cpu=1), drain=["a"])
    (gang,) = answer.differences.gangs
    assert (gang.kind, gang.before and gang.before.placed, gang.after and gang.after.placed) == ("Worse", 4, 0)
    assert "no room for the gang: needs 4 pods, the cluster has room for 3" in str(answer)
    assert "`minMember: 3` instead of 4 fits now" in str(answer)


def test_the_victims_of_a_newcomer_are_reported() -> None:
    """P5: the gang that makes room is worse off, and its pods are evicted only in the plan after."""
    there = [node("a", cpu=4), priority_class("high", 90), podgroup(), *pods(4, on="a", cpu=1)]
    newcomer = [podgroup(name="new", priorityClassName="high", minMember=3), *pods(3, first=7, gang="new", cpu=1)]
    answer = what_if_of(*there, with_=muster.objects(newcomer))
    assert {gang.key: gang.kind for gang in answer.differences.gangs} == {"team/gang": "Worse", "team/new": "Comes"}
    assert len(answer.differences.pods["evicted"].only_after) == 3
    assert "3 pods to evict only after" in str(answer)
    assert "a, for team/new" in str(answer)


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        ("minMember", "2", "min_member"),
        ("minMember", 2, "min_member"),
        ("queue", "5", "queue"),
        ("priorityClassName", "train", "priority_class_name"),
        ("preemptibility", "semi-preemptible", "preemptibility"),
        ("markUnschedulable", "false", "mark_unschedulable"),
        ("stalenessGracePeriod", "90", "staleness_grace_period"),
        ("stalenessGracePeriod", "90s", "staleness_grace_period"),
    ],
)
def test_a_field_of_the_spec_can_be_set(path: str, value: Any, field: str) -> None:
    """Text from the command line is read as what the field holds."""
    around = [priority_class("train", 10), queue("5")]
    answer = what_if_of(node("a"), podgroup(), *around, *pods(2), set={f"team/gang.{path}": value})
    expected = {"2": 2, "90": 90, "false": False}.get(value, value) if path != "queue" else value
    assert getattr(answer.supposed.objects.pod_groups[0].spec, field) == expected


def test_a_field_of_a_subgroup_is_named_by_the_subgroup() -> None:
    """Not by its number in a list; the siblings stay as they are."""
    groups = [group("prefill", 2), group("decode", 3)]
    answer = what_if_of(node("a", cpu=4), podgroup(*groups), set={"team/gang.subGroups.decode.minMember": 2})
    assert [one.min_member for one in answer.supposed.objects.pod_groups[0].spec.sub_groups] == [2, 2]
    assert answer.changes == ("podgroup `team/gang`: `subGroups.decode.minMember` 3 → 2",)


def test_a_required_level_can_be_set_and_unset() -> None:
    """An empty value unsets; a constraint that was not there is made."""
    nodes = [node("a", cpu=2, zone="z", rack="r1"), node("b", cpu=2, zone="z", rack="r2")]
    level = "team/gang.topologyConstraint.requiredTopologyLevel"
    free = [RACKS, *nodes, podgroup(minMember=4), *pods(4, cpu=1)]
    answer = what_if_of(*free, set={level: "rack"})
    assert (answer.before.verdict("team/gang"), answer.after.verdict("team/gang")) == ("Scheduled", "Infeasible")
    assert answer.changes == ("podgroup `team/gang`: `topologyConstraint.requiredTopologyLevel` unset → rack",)
    tight = podgroup(minMember=4, topologyConstraint={"requiredTopologyLevel": "rack"})
    for unset in ({level: ""}, {level: None}, {"team/gang.topologyConstraint": ""}):
        assert what_if_of(RACKS, *nodes, tight, *pods(4, cpu=1), set=unset).after.verdict("team/gang") == "Scheduled"


def test_a_name_with_dots_is_distinguished_from_its_field() -> None:
    """PodGroups may be called `llama-3.1`: the gangs that exist decide where the name ends."""
    objects = [podgroup(name="llama-3"), podgroup(name="llama-3.1")]
    answer = what_if_of(node("a"), *objects, set={"team/llama-3.1.minMember": 7})
    assert {one.metadata.name: one.spec.min_member for one in answer.supposed.objects.pod_groups} == {
        "llama-3": None,
        "llama-3.1": 7,
    }


def test_a_gang_that_is_added_can_be_set() -> None:
    """With, without, set, drain: in this order."""
    more = muster.objects([podgroup(name="late", minMember=9)])
    answer = what_if_of(node("a"), podgroup(), with_=more, set={"team/late.minMember": 1})
    assert answer.supposed.objects.pod_groups[1].spec.min_member == 1
    assert "there is no such podgroup" in refusal(
        node("a"), podgroup(), without=["team/gang"], set={"team/gang.minMember": 1}
    )


# what is refused ----------------------------------------------------------------------------------------------------

SCENE = [node("worker-1"), podgroup(group("prefill", 2), group("decode", 2), name="llama"), podgroup(name="bert")]


@pytest.mark.parametrize(
    ("changes", "says", "way_out"),
    [
        ({"without": ["team/lama"]}, "without `team/lama`: there is no such podgroup", "did you mean `team/llama`"),
        ({"without": ["llama"]}, "there is no such podgroup", "did you mean `team/llama`"),
        ({"without": ["x"]}, "there is no such podgroup", "known: team/bert, team/llama"),
        ({"drain": ["worker-2"]}, "drain `worker-2`: there is no such node", "did you mean `worker-1`"),
        (
            {"set": {"team/lama.minMember": 1}},
            "set `team/lama`: there is no such podgroup",
            "did you mean `team/llama`",
        ),
        ({"set": {"llama.minMember": 1}}, "names no gang", "did you mean `team/llama`"),
        ({"set": {"team/llama": 1}}, "no field is named", "known: queue, "),
        ({"set": {"team/llama.minSubgroup": 1}}, "no field `minSubgroup`", "did you mean `minSubGroup`? known: queue"),
        ({"set": {"team/llama.subGroups": 1}}, "no field `subGroups`", "subGroups.NAME.FIELD"),
        ({"set": {"team/llama.subGroups.decod.minMember": 1}}, "no SubGroup `decod`", "did you mean `decode`"),
        ({"set": {"team/llama.subGroups.decode": 1}}, "`subGroups.decode` has fields", "subGroups.decode.minMember"),
        ({"set": {"team/llama.subGroups.decode.name": "x"}}, "a SubGroup has no field `name`", "known: "),
        ({"set": {"team/llama.topologyConstraint": "x"}}, "has fields", "topologyConstraint.requiredTopologyLevel"),
        ({"set": {"team/bert.minMember.x": 1}}, "no field `minMember.x`", "did you mean `minMember`"),
        ({"set": {"team/bert.minMember": "two"}}, "expected a whole number, got the text `two`", "unsets the field"),
        ({"set": {"team/bert.minMember": 1.5}}, "expected a whole number, got the number `1.5`", "unsets the field"),
        ({"set": {"team/bert.minMember": "9" * 5000}}, "expected a whole number", "unsets the field"),
        ({"set": {"team/bert.markUnschedulable": "1"}}, "expected `true` or `false`", "unsets the field"),
    ],
)
def test_a_change_that_cannot_be_made_says_what_would_be_right(changes: Any, says: str, way_out: str) -> None:
    """The thing, the place and the way out."""
    text = refusal(*SCENE, **changes)
    assert says in text.splitlines()[0]
    assert way_out in text.split("hint: ", 1)[1]


def test_a_result_that_a_rule_forbids_is_refused_with_every_problem() -> None:
    """V1, V2: as `muster validate` would."""
    with pytest.raises(Refused) as raised:
        what_if_of(*SCENE, set={"team/llama.minSubGroup": 3, "team/llama.preemptibility": "sometimes"})
    text = str(raised.value)
    assert "podgroup `team/llama` would be invalid" in text
    assert "spec.minSubGroup: needs 3 children, but the PodGroup has 2 (V2)" in text
    assert "spec.preemptibility: `sometimes` is not a preemptibility" in text


def test_a_running_semi_preemptible_gang_cannot_be_supposed_to_protect_more() -> None:
    """V5: the cluster would refuse it. Whether it runs is read from its pods, where there is no status."""
    scene = [node("a"), podgroup(minMember=1, preemptibility="semi-preemptible")]
    more = {"team/gang.minMember": 2}
    with pytest.raises(Refused, match="would be refused") as raised:
        what_if_of(*scene, *pods(2, on="a"), set=more)
    assert "(V5)" in str(raised.value)
    assert what_if_of(*scene, *pods(2), set=more).after.verdict("team/gang") == "Scheduled"


def test_an_added_object_that_is_invalid_is_refused() -> None:
    """Whatever comes with a file is judged, too."""
    with pytest.raises(Refused, match="podgroup `team/late` would be invalid"):
        what_if_of(node("a"), podgroup(), with_=muster.objects([podgroup(name="late", minMember=0)]))


def test_what_was_invalid_before_is_not_the_fault_of_the_change() -> None:
    """V4: a stored gang that breaks a rule may still be asked about; gangs that stay are not judged at all."""
    broken = podgroup(group("a", 1), group("b", 1), minMember=1, minSubGroup=1)
    assert what_if_of(node("n"), broken, drain=["n"]).warnings == ()
    assert what_if_of(node("n"), broken, set={"team/gang.queue": "default"}).changes


def test_a_change_that_is_only_unwise_is_reported() -> None:
    """Warnings that are new; those of before are not repeated."""
    answer = what_if_of(node("a"), queue("default"), podgroup(), pod("p"), set={"team/gang.queue": "typo"})
    (warning,) = answer.warnings
    assert "queue `typo` does not exist" in warning
    assert (
        what_if_of(node("a"), queue("x"), podgroup(queue="typo"), pod("p"), set={"team/gang.minMember": 1}).warnings
        == ()
    )


# the command --------------------------------------------------------------------------------------------------------


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    """Two nodes; one gang runs on the first, one of two pods of another fits nowhere."""
    runs = [podgroup(name="runs", minMember=2), *(pod(f"r{i}", gang="runs", on="a", cpu=4) for i in range(2))]
    waits = [podgroup(name="waits", minMember=2), *(pod(f"w{i}", gang="waits", cpu=6) for i in range(2))]
    return stored(tmp_path / "cluster.yaml", node("a"), node("b"), *runs, *waits)


def what_if(*words: str) -> Ran:
    ran = run("plan", *words)
    assert "Traceback" not in ran.err
    return ran


def test_the_table_shows_before_and_after_side_by_side(cluster: str) -> None:
    """Changes first, then figures, gangs, pods and reasons."""
    ran = what_if("--without", "team/runs", cluster)
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert lines[0] == "what if: podgroup `team/runs` leaves with its 2 pods"
    (row,) = (line for line in lines if line.startswith("team/waits"))
    assert row.split() == ["team/waits", "Infeasible", "→", "Scheduled", "0", "→", "2", "2", "→", "0", "-"]
    assert "0 gangs stay as they are" in lines
    assert "2 pods to bind only after" in lines


def test_gangs_that_stay_are_counted_not_listed(cluster: str) -> None:
    """A thousand gangs that do not care are one line."""
    ran = what_if("--set", "team/waits.minMember=1", cluster)
    assert "1 gang stays as it is" in ran.out
    assert "team/runs" not in ran.out


def test_a_gang_that_was_changed_and_still_waits_is_explained(cluster: str) -> None:
    """It is as it was, but that is the answer to the question."""
    ran = what_if("--set", "team/waits.priorityClassName=", cluster)
    assert "2 gangs stay as they are" in ran.out
    assert "Infeasible  team/waits" in ran.out


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_programs_get_both_plans_and_the_differences(cluster: str, form: str) -> None:
    """Under a kind of its own, with plans as `plan -o json` prints them."""
    data = yaml.safe_load(what_if("-o", form, "--without", "team/runs", cluster).out)
    assert (data["apiVersion"], data["kind"]) == ("muster.dev/v1", "WhatIf")
    assert data["changes"] == ["podgroup `team/runs` leaves with its 2 pods"]
    assert data["before"] == json.loads(run("plan", "-o", "json", cluster).out)
    assert data["after"]["kind"] == "Plan"
    leaves, waits = data["differences"]["podGroups"]
    assert (leaves["change"], leaves["after"], waits["change"]) == ("Leaves", None, "Better")
    assert waits["before"] == {"verdict": "Infeasible", "placed": 0, "pending": 2, "domain": ""}
    assert {one["pod"] for one in data["differences"]["pods"]["bound"]["onlyAfter"]} == {"w0", "w1"}


def test_the_same_question_gives_the_same_bytes(cluster: str) -> None:
    """X3."""
    words = ("-o", "json", "--drain", "a", "--set", "team/waits.minMember=1", cluster)
    assert what_if(*words).out == what_if(*words).out


def test_require_all_judges_the_plan_after(cluster: str) -> None:
    """1: a gang would not run; what did not run before does not count."""
    assert what_if("--require-all", cluster).code == 1
    assert what_if("--require-all", "--without", "team/waits", cluster).code == 0
    assert what_if("--require-all", "--without", "team/waits", "--drain", "a", "--drain", "b", cluster).code == 1


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--drain", "c"], 2),
        (["--without", "team/nobody"], 2),
        (["--set", "team/waits.minMember"], 2),
        (["--set", "team/waits.minMember=many"], 2),
        (["--with", "no-such-file.yaml"], 2),
        (["--set", "team/waits.minMember=0"], 1),
    ],
)
def test_a_bad_argument_ends_in_words_and_an_exit_code(cluster: str, words: list[str], code: int) -> None:
    """2: wrong usage or unreadable; 1: understood, and the answer is no. Nothing that looks like data."""
    ran = what_if(*words, cluster)
    assert (ran.code, ran.out) == (code, "")
    assert ran.err.startswith("error: ")
    assert "hint: " in ran.err


def test_each_option_may_be_given_several_times(cluster: str, tmp_path: Path) -> None:
    """Every supposition is one line, in the order in which they happen."""
    more = [stored(tmp_path / f"{name}.yaml", node(name)) for name in ("c", "d")]
    words = ["--drain", "a", "--drain", "b", "--with", more[0], "--with", more[1], "--set", "team/waits.queue="]
    lines = [line for line in what_if(*words, cluster).out.splitlines() if line.startswith("what if: ")]
    assert [line.split()[2] for line in lines] == ["adds", "podgroup", "node", "node"]
    assert lines[0] == "what if: adds 2 Nodes"

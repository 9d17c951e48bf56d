"""P7, Q4, S4 from cycle to cycle: a place that was promised is bound, and nothing is promised for ever."""

import json
from datetime import timedelta
from typing import Any

import pytest

from muster.api.names import MOVED_TO
from tests.support.cycles import Cluster
from tests.support.factories import Raw, group, node, pod, podgroup, priority_class, queue, topology

CLASSES = (priority_class("low", 10), priority_class("mid", 40), priority_class("high", 90))
RACK = {"requiredTopologyLevel": "rack"}


def running(gang: str, on: str, cpu: int = 1, **spec: Any) -> list[Raw]:
    """A gang of one running pod."""
    fields: dict[str, Any] = {"minMember": 1, "priorityClassName": "low"} | spec
    return [podgroup(name=gang, **fields), pod(gang, gang=gang, on=on, phase="Running", cpu=cpu)]


def waiting(gang: str, number: int = 1, cpu: int = 1, **spec: Any) -> list[Raw]:
    fields: dict[str, Any] = {"minMember": number} | spec
    return [podgroup(name=gang, **fields), *(pod(f"{gang}-{i}", gang=gang, cpu=cpu) for i in range(number))]


# nominated ------------------------------------------------------------------------------------------------------------


def test_a_nominee_is_bound_as_soon_as_its_place_is_free() -> None:
    """P7: while its victim leaves it waits, and in the cycle after that it is there."""
    cluster = Cluster(*CLASSES, node("n1", cpu=1), *running("v", "n1"), *waiting("new", priorityClassName="high"))
    assert [one["pod"] for one in cluster.cycle()["evictions"]] == ["v"]
    assert cluster.cycle()["nominations"]
    cluster.leave()
    cluster.cycle()
    assert cluster.placed("team/new") == {"new-0": "n1"}


def test_an_extra_of_the_same_class_that_waits_ahead_does_not_keep_a_nominee_out() -> None:
    """P7: the extra finds nothing while the place is withheld; that says nothing about the gang it is withheld for."""
    elastic = [podgroup(name="elastic", minMember=1, priorityClassName="high")]
    elastic += [pod("e0", gang="elastic", on="n2", phase="Running", cpu=1), pod("e1", gang="elastic", cpu=1)]
    cluster = Cluster(*CLASSES, node("n1", cpu=1), node("n2", cpu=1), *running("v", "n1"), *elastic)
    cluster.add(*waiting("new", priorityClassName="mid"))
    assert [one["for"] for one in cluster.cycle()["evictions"]] == ["team/new"]
    cluster.leave(again=False)
    cluster.cycle()
    assert cluster.placed("team/new") == {"new-0": "n1"}


def test_a_gang_of_the_same_class_and_a_higher_priority_does_not_keep_a_nominee_out() -> None:
    """0008: a nominated place is kept also against higher priorities; they find their own victims."""
    cluster = Cluster(*CLASSES, node("n1", cpu=1), *running("v", "n1"), *waiting("new", priorityClassName="mid"))
    cluster.cycle()
    cluster.leave(again=False)
    cluster.add(*waiting("late", priorityClassName="high"))
    cluster.cycle()
    assert cluster.placed("team/new") == {"new-0": "n1"}


def test_a_nominee_that_loses_a_leftover_still_waits_for_its_place() -> None:
    """P7, N4: what it was promised makes the gang whole without the pod that leaves; others left for that place."""
    elastic = [podgroup(group("a", 1), name="new", priorityClassName="mid"), pod("new-a", "a", gang="new", cpu=1)]
    elastic += [pod("leftover", "b", gang="new", on="n2", phase="Running", cpu=1)]
    cluster = Cluster(*CLASSES, node("n1", cpu=1), node("n2", cpu=1), *running("v", "n1"), *elastic)
    assert [one["pod"] for one in cluster.cycle()["evictions"]] == ["v"]
    cluster.add(*waiting("late", priorityClassName="high"))
    assert [one["pod"] for one in cluster.cycle()["evictions"]] == ["leftover"]
    assert {one["pod"]: one["node"] for one in cluster.plan["nominations"]} == {"new-a": "n1", "late-0": "n2"}
    cluster.leave(again=False)
    cluster.cycle()
    assert (cluster.placed("team/new"), cluster.placed("team/late")) == ({"new-a": "n1"}, {"late-0": "n2"})


def test_a_nominee_that_loses_what_it_is_to_be_part_of_is_promised_nothing() -> None:
    """P7, G1: a gang that changes; a place for half of it would be kept for nothing."""
    halves = [podgroup(group("a", 1), group("b", 1), name="new", priorityClassName="mid", minSubGroup=2)]
    halves += [pod("new-a", "a", gang="new", cpu=1), pod("new-b", "b", gang="new", on="n2", phase="Running", cpu=1)]
    cluster = Cluster(*CLASSES, node("n1", cpu=1), node("n2", cpu=1), *running("v", "n1"), *halves)
    assert [one["pod"] for one in cluster.cycle()["evictions"]] == ["v"]
    cluster.add(*waiting("late", priorityClassName="high"))
    assert [one["pod"] for one in cluster.cycle()["evictions"]] == ["new-b"]
    assert [one["pod"] for one in cluster.plan["nominations"]] == ["late-0"]


# moved ----------------------------------------------------------------------------------------------------------------


def moved_aside(**policy: Any) -> Cluster:
    """A pod in the only rack moves to n2 for a gang that needs the rack; n2 has room for exactly one."""
    scene = [*CLASSES, topology("topology/rack"), node("n1", cpu=1, rack="r1"), node("n2", cpu=1)]
    cluster = Cluster(*scene, *running("v", "n1"), **policy)
    cluster.add(*waiting("new", topologyConstraint=RACK, priorityClassName="low"))
    (moved,) = cluster.cycle()["evictions"]
    assert (moved["pod"], moved["reason"], moved["moveTo"]) == ("v", "Consolidate", "n2")
    return cluster


def test_a_moved_gang_gets_its_place_whatever_its_new_pod_is_called() -> None:
    """P7: a gang that comes in between does not take it."""
    cluster = moved_aside()
    cluster.add(*waiting("late", priorityClassName="high"))
    cluster.cycle()
    assert cluster.placed("team/late") == {}
    cluster.leave()
    cluster.cycle()
    assert cluster.placed("team/v") == {"v-again1": "n2"}
    assert cluster.placed("team/new") == {"new-0": "n1"}


def test_the_promise_holds_while_no_pod_of_the_gang_exists() -> None:
    """P7: the old pod is gone, the new one is not there yet."""
    cluster = moved_aside()
    cluster.leave(again=False)
    cluster.add(*waiting("late", priorityClassName="high"))
    cluster.cycle(5)
    assert cluster.placed("team/late") == {}
    cluster.add(pod("v-new", gang="v", cpu=1, created=cluster.stamp()))
    cluster.cycle(5)
    assert cluster.placed("team/v") == {"v-new": "n2"}


def promise(cluster: Cluster, gang: str = "v") -> Any:
    (gang_raw,) = (raw for raw in cluster.of("PodGroup") if raw["metadata"]["name"] == gang)
    text = gang_raw["metadata"]["annotations"].get(MOVED_TO)
    return text if text is None else json.loads(text)


def test_a_moved_gang_that_waits_for_its_places_keeps_them() -> None:
    """P7: one of its two places is free, in the other a pod still terminates; what is free is not for the next gang."""
    cluster = Cluster(*CLASSES, node("n1", cpu=1), node("n2", cpu=1), *waiting("v", 2, priorityClassName="high"))
    cluster.add(pod("old", gang="v", on="n2", phase="Running", cpu=1, terminating=True))
    for raw in cluster.of("Pod"):
        raw["metadata"]["creationTimestamp"] = cluster.stamp()
    note_places(cluster, {"node": "n1"}, {"node": "n2"})
    cluster.add(*waiting("late", priorityClassName="low"))
    cluster.cycle()
    assert cluster.placed("team/late") == {}
    cluster.leave(again=False)
    cluster.cycle()
    assert cluster.placed("team/v") == {"v-0": "n1", "v-1": "n2"}


def test_the_promise_stands_on_the_podgroup_and_goes_when_it_is_fulfilled() -> None:
    cluster = moved_aside()
    place = {"subGroup": "", "node": "n2", "since": cluster.stamp(), "pods": 1, "requests": {"cpu": 1000}}
    assert promise(cluster) == {"places": [place]}
    cluster.leave()
    cluster.cycle()
    assert promise(cluster) is None


def test_the_promise_ends_with_the_grace() -> None:
    """P7: for the grace of S2, here the usual minute, and no longer."""
    cluster = moved_aside()
    cluster.leave(again=False)
    cluster.add(*waiting("late", priorityClassName="low"))
    cluster.cycle(58)
    assert cluster.placed("team/late") == {}
    cluster.cycle(2)
    assert cluster.placed("team/late") == {"late-0": "n2"}
    assert promise(cluster) is None


def test_the_new_place_of_a_victim_is_kept_too() -> None:
    """P7 for `moveTo` of any reason: the preempted gang comes back on the node that `moveTo` names."""
    scene = [*CLASSES, node("n1", cpu=2), node("n2", cpu=1), *running("v", "n1"), *running("w", "n1")]
    cluster = Cluster(*scene, *waiting("new", cpu=2, priorityClassName="high"), max_moved_pods=0)
    moved = [one for one in cluster.cycle()["evictions"] if one.get("moveTo")]
    assert [one["moveTo"] for one in moved] == ["n2"]
    cluster.add(*waiting("late", priorityClassName="mid"))
    cluster.cycle()
    cluster.leave()
    cluster.cycle()
    assert list(cluster.placed(f"team/{moved[0]['podGroup']}").values()) == ["n2"]
    assert cluster.placed("team/late") == {}


def test_what_cannot_be_read_promises_nothing() -> None:
    for text in ("", "{", "[]", '{"since":"x","places":{}}', '{"since":"2026-06-01T12:00:00Z","places":{"":{"n1":7}}}'):
        cluster = Cluster(*CLASSES, node("n1", cpu=1), podgroup(name="v"), *waiting("new"))
        cluster.of("PodGroup")[0]["metadata"]["annotations"] = {MOVED_TO: text}
        cluster.cycle()
        assert cluster.placed("team/new") == {"new-0": "n1"}


def places_of(cluster: Cluster, gang: str = "v") -> list[tuple[str, int]]:
    """Nodes and pods of a promise, in order."""
    return [(place["node"], place["pods"]) for place in (promise(cluster, gang) or {"places": []})["places"]]


def note_places(cluster: Cluster, *places: Raw, gang: str = "v") -> None:
    """Write places into a PodGroup's annotation as an earlier plan would have."""
    (stored,) = (raw for raw in cluster.of("PodGroup") if raw["metadata"]["name"] == gang)
    defaults = {"subGroup": "", "since": cluster.stamp(), "pods": 1, "requests": {"cpu": 1000}}
    text = json.dumps({"places": [{**defaults, **place} for place in places]})
    stored["metadata"].setdefault("annotations", {})[MOVED_TO] = text


def test_a_second_move_neither_extends_nor_ends_the_promise_of_the_first() -> None:
    """P7: every place is kept for the grace since it was promised itself."""
    cluster = moved_aside()
    first = promise(cluster)["places"]
    cluster.leave(again=False)
    cluster.now += timedelta(seconds=40)
    note_places(cluster, *first, {"node": "n3"})
    cluster.add(node("n3", cpu=1))
    cluster.cycle(1)
    assert places_of(cluster) == [("n2", 1), ("n3", 1)]
    cluster.cycle(25)
    assert places_of(cluster) == [("n3", 1)]
    cluster.cycle(35)
    assert places_of(cluster) == []


def test_a_pod_that_comes_with_other_requests_fills_one_place() -> None:
    """P7: one pod for one place, also where a new template asks for more or less; no place is kept beside it."""
    for cpu in (1, 2):
        cluster = Cluster(*CLASSES, node("n1", cpu=4), podgroup(name="v", minMember=1))
        note_places(cluster, {"node": "n1", "requests": {"cpu": 2000}})
        cluster.add(pod("v-new", gang="v", cpu=cpu, created=cluster.stamp()))
        cluster.cycle()
        assert (cluster.placed("team/v"), places_of(cluster)) == ({"v-new": "n1"}, [])


def test_a_new_pod_fills_the_place_that_was_meant_for_it() -> None:
    """Of a leaf whose pods differ: the large place stays open while only the small pod has come."""
    cluster = Cluster(*CLASSES, node("n1", cpu=9), node("n2", cpu=9), podgroup(name="v", minMember=2))
    cluster.add(pod("v-new", gang="v", on="n2", phase="Running", cpu=1, created=cluster.stamp()))
    note_places(cluster, {"node": "n1", "requests": {"cpu": 8000}}, {"node": "n1", "requests": {"cpu": 1000}})
    cluster.cycle(0)
    assert [place["requests"] for place in promise(cluster)["places"]] == [{"cpu": 8000}]


def test_a_place_is_kept_for_as_many_pods_as_there_is_room_for() -> None:
    """P7: the gang's own pod of another leaf sits in a place of two; the other half is still for the gang alone."""
    cluster = Cluster(*CLASSES, node("n1", cpu=2), podgroup(group("a", 2), group("b", 1), name="v", minSubGroup=1))
    cluster.add(pod("v-b", "b", gang="v", on="n1", phase="Running", cpu=1), *waiting("late"))
    note_places(cluster, {"subGroup": "a", "node": "n1", "pods": 2})
    cluster.cycle()
    assert (cluster.placed("team/late"), places_of(cluster)) == ({}, [("n1", 2)])


def test_what_is_too_little_for_a_pod_that_moved_is_not_kept() -> None:
    """P7, P8: the gang's own pod of another leaf took the place; what is left of it serves no pod that was promised."""
    cluster = Cluster(*CLASSES, node("n1", cpu=4), podgroup(group("a", 2), group("b", 1), name="v", minSubGroup=1))
    cluster.add(pod("v-b", "b", gang="v", on="n1", phase="Running", cpu=3), *waiting("late"))
    note_places(cluster, {"subGroup": "a", "node": "n1", "pods": 2, "requests": {"cpu": 2000}})
    cluster.cycle()
    assert cluster.placed("team/late") == {"late-0": "n1"}


def test_the_earlier_form_with_one_time_for_all_places_is_read() -> None:
    """What a release before wrote holds until it ends."""
    cluster = Cluster(*CLASSES, node("n1", cpu=2), podgroup(name="v"), *waiting("new"))
    earlier = {"since": cluster.stamp(), "places": {"": {"n1": {"cpu": 2000, "pods": 2}}}}
    cluster.of("PodGroup")[0]["metadata"]["annotations"] = {MOVED_TO: json.dumps(earlier)}
    cluster.cycle()
    assert (cluster.placed("team/new"), promise(cluster)) == ({}, earlier)
    cluster.cycle(60)
    assert cluster.placed("team/new") == {"new-0": "n1"}


ABSURD: list[Raw] = [
    {"pods": 2**62},
    {"pods": -1},
    {"pods": True},
    {"pods": 3, "requests": {"cpu": 2**47}},
    {"requests": {"cpu": -1000}},
    {"requests": {"cpu": 10**400}},
    {"requests": {"cpu": 1.5}},
    {"requests": {"cpu": 9000}},
    {"requests": {"pods": 1}},
    {"requests": []},
    {"since": "9999-12-31T23:59:59Z"},
    {"since": "0001-01-01T00:00:00+23:59"},
    {"since": 7},
    {"node": ["n1"]},
]


@pytest.mark.parametrize("place", ABSURD, ids=repr)
def test_an_absurd_place_holds_no_room(place: Raw) -> None:
    """A plan would not have written it: more than a node has, amounts that no number holds, other times."""
    cluster = Cluster(*CLASSES, node("n1", cpu=2), podgroup(name="v"), *waiting("new"))
    note_places(cluster, {"node": "n1", **place})
    cluster.cycle()
    assert cluster.placed("team/new") == {"new-0": "n1"}


def test_thousands_of_places_hold_no_more_than_a_plan_would_write() -> None:
    """64 places in all, whatever the number of leaves and nodes."""
    cluster = Cluster(*CLASSES, *(node(f"n{i:03}", cpu=1) for i in range(100)), podgroup(name="v"), *waiting("new"))
    note_places(cluster, *({"node": f"n{i % 100:03}"} for i in range(5_000)))
    cluster.cycle()
    assert cluster.placed("team/new") == {"new-0": "n064"}


def test_no_grace_keeps_a_place_for_days() -> None:
    """A promise is for pods that are on their way: an hour at most."""
    group = podgroup(name="v", minMember=1, stalenessGracePeriod="1000h")
    cluster = Cluster(*CLASSES, node("n1", cpu=1), group, *waiting("new"))
    note_places(cluster, {"node": "n1"})
    cluster.cycle(3599)
    assert cluster.placed("team/new") == {}
    cluster.cycle(2)
    assert cluster.placed("team/new") == {"new-0": "n1"}


# limits ---------------------------------------------------------------------------------------------------------------


def test_a_queue_never_holds_more_than_its_limit_while_pods_terminate() -> None:
    """Q4, I7: a limit of two; the new gang has free nodes, and waits until the old pods are gone."""
    queues = [queue("small", cpu={"quota": 2000, "limit": 2000})]
    hosts = [node(f"n{i}", cpu=1) for i in range(4)]
    old = [raw for i in range(2) for raw in running(f"v{i}", f"n{i}", queue="small")]
    cluster = Cluster(*CLASSES, *queues, *hosts, *old)
    cluster.add(*waiting("new", 2, queue="small", priorityClassName="high"))
    assert len(cluster.cycle()["evictions"]) == 2
    for _ in range(2):
        cluster.cycle()
        assert cluster.holding("small") == 2
    cluster.leave()
    cluster.cycle()
    assert cluster.holding("small") == 2
    assert len(cluster.placed("team/new")) == 2


def test_pods_that_are_deleted_by_others_count_for_the_limit_until_they_are_gone() -> None:
    """Q4: whichever client deleted them."""
    limit = [queue("small", cpu={"quota": 0, "limit": 1000})]
    deleted = pod("v", gang="v", on="n1", phase="Running", cpu=1, terminating=True)
    cluster = Cluster(*limit, node("n1"), node("n2"), podgroup(name="v", queue="small"), deleted)
    cluster.add(*waiting("new", queue="small"))
    assert cluster.cycle()["bindings"] == []
    assert cluster.verdict("team/new")["reasons"][0]["reason"] == "OverLimit"
    cluster.leave(again=False)
    cluster.cycle()
    assert len(cluster.placed("team/new")) == 1


def test_what_a_limit_leaves_beside_a_promise_is_bound_now() -> None:
    """Q4, P8: promised pods come in the place of what leaves: two more are within the limit, now and then."""
    limit = [queue("small", cpu={"quota": 4000, "limit": 4000})]
    hosts = [node(f"n{i}", cpu=1) for i in range(1, 5)]
    cluster = Cluster(*CLASSES, *limit, *hosts, *running("v", "n1", queue="small"), max_moved_pods=0)
    cluster.add(*waiting("new", queue="small", priorityClassName="high"))
    cluster.of("Pod")[-1]["spec"]["nodeSelector"] = {"topology/only": "n1"}
    cluster.of("Node")[0]["metadata"]["labels"] = {"topology/only": "n1"}
    assert [one["moveTo"] for one in cluster.cycle()["evictions"]] == ["n2"]
    cluster.add(*waiting("more", 2, queue="small", priorityClassName="low"))
    cluster.cycle()
    assert len(cluster.placed("team/more")) == 2
    assert cluster.holding("small") == 3
    cluster.leave()
    cluster.cycle()
    assert cluster.holding("small") == 4


# one attempt ----------------------------------------------------------------------------------------------------------


def test_the_one_attempt_is_made_again_when_a_pod_has_left() -> None:
    """S4: what is free has changed."""
    cluster = Cluster(*CLASSES, node("n1", cpu=1), *running("v", "n1"), *waiting("new", schedulingBackoff=1))
    for raw in cluster.of("PodGroup"):
        raw["spec"]["priorityClassName"] = "low"
    cluster.cycle()
    cluster.cycle()
    assert cluster.verdict("team/new")["reasons"][0]["reason"] == "BackedOff"
    cluster.objects.remove(cluster.of("Pod")[0])
    cluster.cycle()
    assert len(cluster.placed("team/new")) == 1


def test_the_reason_of_the_failed_attempt_stays_readable() -> None:
    """S4: in every cycle after it."""
    cluster = Cluster(node("n1", cpu=1), *waiting("new", cpu=2, schedulingBackoff=1))
    cluster.cycle()
    (first,) = cluster.verdict("team/new")["reasons"]
    for _ in range(3):
        cluster.cycle()
        (reason,) = cluster.verdict("team/new")["reasons"]
        assert reason["reason"] == "BackedOff"
        assert reason["details"]["reason"] == first["reason"]
        assert reason["details"]["message"] in first["message"]
        assert reason["details"]["message"] in reason["message"]

"""A gang that was cut short gets a longer search beside the cycles, whose answer is checked again before use (X7)."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

import muster
from muster.model.snapshot import Snapshot, take
from muster.placement.budget import Cancelled
from muster.placement.requirements.tree import subtree
from muster.placement.requirements.types import Requirement
from muster.placement.search import flat, preferences
from muster.planning import cycle_state as cycle_states
from muster.planning.cycle import plan
from muster.planning.cycle_state import CycleState
from muster.planning.memory.answer_cache import AnswerCache, Hint
from muster.planning.memory.hints import check_hint
from muster.planning.memory.longer_search import cut_short, search_longer
from muster.planning.policy import Policy
from muster.reporting import plans
from tests.oracles.checker import broken
from tests.support.factories import Raw, group, node, pod, podgroup, queue, topology

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
RACK = "topology/rack"
COST, LONG = 5_000, 100_000
SHORT = Policy(steps=1_000)


@pytest.fixture(autouse=True)
def hard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches for a goal with a group called `hard` cost more than a cycle may spend."""
    for way in ("find", "find_with_growth"):
        monkeypatch.setattr(cycle_states, way, partial(_costly, getattr(preferences, way)))


def _costly(search: Callable[..., Any], searched: Any, requirement: Requirement) -> Any:
    if any(one.name == "hard" for one in subtree(requirement)):
        for _ in range(COST):
            searched.budget.spend()
    return search(searched, requirement)


def gang(number: int = 2, cpu: int = 2, level: str = "rack", **spec: Any) -> list[Raw]:
    members = [pod(f"g-{i}", "hard", gang="g", cpu=str(cpu)) for i in range(number)]
    where: dict[str, Any] = {"topologyConstraint": {"requiredTopologyLevel": level}} if level else {}
    return [podgroup(group("hard", number, **where), name="g", **spec), *members]


def cluster() -> list[Raw]:
    return [topology(RACK), node("a", cpu=4, rack="r1"), node("b", cpu=2, rack="r2"), node("c", cpu=2, rack="r2")]


def snapshot(objects: list[Raw]) -> Snapshot:
    return take(muster.objects(objects), NOW)


def hint(objects: list[Raw]) -> Hint:
    answer = search_longer(snapshot(objects), SHORT, "team/g", LONG)
    assert answer is not None
    assert answer.hint is not None
    return answer.hint


def bound(objects: list[Raw], *hints: Hint) -> dict[str, str]:
    """What a cycle binds with these hints; whatever it is, every promise is kept."""
    memory = AnswerCache()
    memory.hints = {one.gang: one for one in hints}
    planned = plan(snapshot(objects), SHORT, memory=memory)
    assert broken(objects, plans.data(planned), NOW) == []
    assert bool(memory.hints) == bool(planned.bindings and hints), "a hint that does not hold is dropped"
    return {one.pod: one.node for one in planned.bindings}


def test_a_longer_search_finds_what_a_cycle_gave_up_on() -> None:
    objects = [*cluster(), *gang()]
    assert list(cut_short(plan(snapshot(objects), SHORT))) == ["team/g"]
    assert bound(objects) == {}
    assert dict(hint(objects).places) == bound(objects, hint(objects))


def test_a_hint_whose_room_is_taken_is_dropped() -> None:
    objects = [*cluster(), *gang()]
    places = dict(hint(objects).places)
    taken = pod("taken", gang="", on=next(iter(places.values())), cpu="1")
    assert bound([*objects, taken], hint(objects)) == {}


@pytest.mark.parametrize(
    "places",
    [
        (("g-0", "a"), ("g-1", "b")),  # T1: two racks
        (("g-0", "b"),),  # G1: not the whole core
        (("g-0", "b"), ("g-1", "b")),  # X5: no room for both
        (("g-0", "b"), ("g-1", "nowhere")),
        (("g-0", "b"), ("stranger", "c")),
        (),
    ],
)
def test_a_hint_that_breaks_a_rule_is_never_followed(places: tuple[tuple[str, str], ...]) -> None:
    """From any search: the check knows nothing of searches."""
    assert bound([*cluster(), *gang()], Hint("team/g", places)) == {}


def test_a_hint_is_held_to_the_nodes_that_pods_may_be_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flat, "applies", lambda *_, **__: False)  # it would be placed without a search
    objects = [*cluster(), *gang(level="")]
    for raw in objects[-2:]:
        raw["spec"]["nodeSelector"] = {RACK: "r2"}
    assert bound(objects, Hint("team/g", (("g-0", "a"), ("g-1", "a")))) == {}
    assert bound(objects, Hint("team/g", (("g-0", "b"), ("g-1", "c")))) == {"g-0": "b", "g-1": "c"}


def test_a_hint_is_held_to_the_limit_of_its_queue() -> None:
    """Q4."""
    objects = [*cluster(), *gang(queue="q")]
    places = hint([*objects, queue("q")])
    for limit, good in ((4_000, True), (3_999, False)):
        cycle_state = CycleState(snapshot([*objects, queue("q", cpu={"limit": limit})]), SHORT)
        assert (check_hint(cycle_state, cycle_state.before["team/g"], places) is not None) == good


def test_a_longer_search_does_not_touch_places_that_are_kept_for_others() -> None:
    """P7: only rack r2 is left, as a place in r1 was freed for another gang."""
    other = [podgroup(group("o", 1), name="o"), pod("o-0", "o", gang="o", cpu="2")]
    other[1]["status"] = {"nominatedNodeName": "a"}
    assert set(dict(hint([*cluster(), *gang(), *other]).places).values()) == {"b", "c"}


def test_pods_with_rules_between_them_are_left_to_the_cycles() -> None:
    """A hint is checked pod by pod, and such rules are about all of them."""
    objects = [*cluster(), *gang(level="")]
    term = {"labelSelector": {"matchLabels": {"app": "g"}}, "topologyKey": RACK}
    rule = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    for raw in objects[-2:]:
        raw["metadata"]["labels"]["app"] = "g"
        raw["spec"]["affinity"] = rule
    assert search_longer(snapshot(objects), SHORT, "team/g", LONG) is None
    assert bound(objects, Hint("team/g", (("g-0", "a"), ("g-1", "b")))) == {}


def test_what_was_tried_on_an_unchanged_cluster_is_not_tried_again() -> None:
    objects = [*cluster(), *gang(3)]
    first = search_longer(snapshot(objects), SHORT, "team/g", LONG)
    assert first is not None
    assert first.hint is None
    assert first.is_known
    assert search_longer(snapshot(objects), SHORT, "team/g", LONG, tried={first.question}) is None
    more = [*objects, node("d", cpu=2, rack="r2")]
    again = search_longer(snapshot(more), SHORT, "team/g", LONG, tried={first.question})
    assert again is not None
    assert again.hint is not None


def test_it_has_an_end_of_its_own_and_can_be_given_up() -> None:
    objects = [*cluster(), *gang()]
    answer = search_longer(snapshot(objects), SHORT, "team/g", COST // 2)
    assert answer is not None
    assert answer.hint is None
    assert not answer.is_known
    with pytest.raises(Cancelled):
        search_longer(snapshot(objects), SHORT, "team/g", LONG, lambda: True)


def test_a_gang_that_needs_nothing_is_not_searched_for() -> None:
    placed = [*cluster(), *gang()]
    for raw in placed[-2:]:
        raw["spec"]["nodeName"] = "a"
    assert search_longer(snapshot(placed), SHORT, "team/g", LONG) is None
    assert search_longer(snapshot(cluster()), SHORT, "team/gone", LONG) is None
    assert search_longer(snapshot([*cluster(), *gang(queue="nowhere"), queue("q")]), SHORT, "team/g", LONG) is None


def test_a_hint_is_not_used_where_the_cycle_knows_by_itself() -> None:
    """The search of the cycle prefers, the hint only fits."""
    objects = [*cluster(), *gang()]
    memory = AnswerCache()
    memory.hints = {"team/g": Hint("team/g", (("g-0", "b"), ("g-1", "c")))}
    enough = replace(SHORT, steps=LONG)
    planned = plan(snapshot(objects), enough, memory=memory)
    assert plans.data(planned) == plans.data(plan(snapshot(objects), enough))

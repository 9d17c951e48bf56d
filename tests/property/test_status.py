"""E2, E3, S: what is reported about a gang, over random trees with pods in every state and plans that do anything."""

from functools import cached_property
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from muster.api.decoding import decode, encode
from muster.api.queue import QueueStatus
from muster.model.gang.state import sum_resources
from muster.planning.decision import Verdict
from muster.planning.refusal import BestDomain, NoRoom, NotEnoughPods, SearchCutShort
from muster.reporting.conditions import pod_conditions
from muster.reporting.status import queue_statuses
from muster.validation.pods.requests import requests
from tests.property.trees import Dice, Sample, counts, dice, fewer, meets_minimums, named, placed, sample, state
from tests.support.factories import Raw, pod, queue, typed_pod
from tests.support.planned_gang import EARLIER, LATER, NOW, PlannedGang, decided, stored, written

VERDICTS: tuple[Verdict, ...] = ("Scheduled", "Waiting", "Infeasible", "Unknown", "Invalid")
REFUSALS = (NotEnoughPods(), SearchCutShort(), NoRoom(need=2, best=BestDomain(fits=1)))
PREEMPTIBILITIES = ("preemptible", "semi-preemptible", "non-preemptible")
NOTES: tuple[dict[str, str], ...] = (
    {},
    {"kai.scheduler/stale-podgroup-timestamp": EARLIER},
    {"kai.scheduler/last-start-timestamp": EARLIER},
    {"muster.dev/stale-subgroups": f'{{"g0": "{EARLIER}", "g1": 1}}'},
)
Plan = dict[str, Any]


class Case:
    """A gang as it is stored, and what a plan does with it."""

    def __init__(self, drawn: Dice) -> None:
        made = sample(drawn, drawn.one_of(("record", "totals", "mixed")))
        self.manifest, self.pods = decorated(made.manifest, drawn), [asking(raw, drawn) for raw in made.pods]
        self.plan = self.decided(drawn)

    def decided(self, drawn: Dice) -> Plan:
        """Pods that wait are bound, nominated or left; those that run may have to leave."""
        fates = {named(raw): drawn.roll(3) for raw in self.pods if state(raw) == "waiting"}
        runs = [named(raw) for raw in self.pods if state(raw) == "placed"]
        return {
            "bind": {name: "node" for name, fate in fates.items() if fate == 1},
            "nominate": {name: "node" for name, fate in fates.items() if fate == 2},
            "evict": [name for name in runs if drawn.roll(8) == 1],
            "verdict": drawn.one_of(VERDICTS),
            "refusals": [drawn.one_of(REFUSALS)] if drawn.roll(3) else [],
        }

    @cached_property
    def decision(self) -> PlannedGang:
        return self.on(self.manifest)

    def on(self, manifest: Raw) -> PlannedGang:
        """The same cycle, with the PodGroup stored like this."""
        return decided(manifest, queue("q"), queue("top"), *self.pods, **self.plan)

    @property
    def carried_out(self) -> list[Raw]:
        """The pods once the plan's bindings are seen."""
        return [
            raw | {"spec": raw["spec"] | {"nodeName": "node"}} if named(raw) in self.plan["bind"] else raw
            for raw in self.pods
        ]

    def __repr__(self) -> str:
        return f"{Sample(self.manifest, self.pods)!r}\n  {self.plan}"


def decorated(manifest: Raw, drawn: Dice) -> Raw:
    meta = manifest["metadata"] | {"generation": drawn.roll(3), "annotations": drawn.one_of(NOTES)}
    return manifest | {
        "metadata": meta,
        "spec": manifest["spec"] | {"queue": "q", "preemptibility": drawn.one_of(PREEMPTIBILITIES)},
    }


def asking(raw: Raw, drawn: Dice) -> Raw:
    amounts = {"cpu": drawn.one_of(("1", "250m")), "memory": drawn.one_of(("1Gi", "1000", "3M"))}
    return raw | {"spec": raw["spec"] | {"containers": [{"name": "main", "resources": {"requests": amounts}}]}}


cases = dice(240).map(Case)


# what is written stays ----------------------------------------------------------------------------------------------


@fewer
@given(cases)
def test_an_answer_that_is_written_is_the_answer(case: Case) -> None:
    """The same cycle five minutes later changes nothing: no writes for nothing, no grace that begins again."""
    again = case.on(written(case.manifest, case.decision))
    assert again.status(LATER) == case.decision.status()
    assert again.annotations(LATER) == {}


@given(cases)
def test_an_answer_comes_back_from_the_store_as_it_was(case: Case) -> None:
    """Or every cycle would find a difference to write."""
    status = case.decision.status()
    assert stored(status) == status


@fewer
@given(cases)
def test_what_a_plan_binds_is_reported_as_if_it_were_there(case: Case) -> None:
    """G5: whether bindings were seen or not when muster stopped, the same is reported, and no run starts twice."""
    before = case.decision.status()
    plan = case.plan | {"bind": {}}
    then = decided(written(case.manifest, case.decision), queue("q"), queue("top"), *case.carried_out, **plan)
    assert then.status(LATER) == before
    assert then.annotations(LATER) == {}


@fewer
@given(cases, dice(60))
def test_the_time_of_a_condition_moves_exactly_when_its_status_does(case: Case, drawn: Dice) -> None:
    """E3, over two cycles that need have nothing in common."""
    before = {one.type: one for one in case.decision.status().conditions}
    manifest = written(case.manifest, case.decision)
    case.plan = case.decided(drawn)
    for one in case.on(manifest).status(LATER).conditions:
        same = one.type in before and before[one.type].status == one.status
        assert one.last_transition_time == (NOW if same else LATER)


# what is reported is true -------------------------------------------------------------------------------------------


@given(cases)
def test_a_gang_is_scheduled_when_the_rules_call_it_satisfied(case: Case) -> None:
    """M2, word by word, on what is there and what is bound; the plan's own word counts only against it."""
    seen = Sample(case.manifest, case.carried_out)
    enough = meets_minimums(case.manifest, counts(seen))
    status = case.decision.status()
    (scheduled,) = (one for one in status.conditions if one.type == "Scheduled")
    assert status.satisfied == enough
    assert (scheduled.status == "True") == (enough and case.plan["verdict"] != "Invalid")
    assert status.running == len(placed(seen))


@given(cases)
def test_only_a_gang_with_placed_pods_below_its_minimum_is_stale(case: Case) -> None:
    """S1, S2: the mark and the condition say the same."""
    seen = Sample(case.manifest, case.carried_out)
    short = bool(placed(seen)) and not meets_minimums(case.manifest, counts(seen))
    assert ("Stale" in {one.type for one in case.decision.status().conditions}) == short
    notes = written(case.manifest, case.decision)["metadata"]["annotations"]
    assert ("kai.scheduler/stale-podgroup-timestamp" in notes) == short


@given(cases)
def test_no_gang_holds_more_than_it_requests(case: Case) -> None:
    """E2: the non-preemptible part is part of what is allocated, and that of what is requested."""
    resources = case.decision.status().resources_status
    for name in resources.requested:
        protected, held = (one.get(name, 0) for one in (resources.allocated_non_preemptible, resources.allocated))
        assert 0 <= protected <= held <= resources.requested[name]
    assert set(resources.allocated_non_preemptible) <= set(resources.allocated) <= set(resources.requested)


@given(cases)
def test_a_queue_holds_what_its_gang_holds(case: Case) -> None:
    """E2: the two are added up in different places; what is terminating is the queue's until it is gone (Q4)."""
    gang, decision = case.decision.status().resources_status, case.decision
    terminating = [raw for raw in case.pods if "deletionTimestamp" in raw["metadata"] and raw["spec"].get("nodeName")]
    still = [typed_pod(raw) for raw in terminating if raw["status"].get("phase") not in ("Succeeded", "Failed")]
    statuses = queue_statuses(decision.snapshot, decision.plan, NOW)
    assert statuses["q"].requested == gang.requested
    assert statuses["q"].allocated == sum_resources((gang.allocated, *(requests(one.spec) for one in still)))
    assert statuses["q"].allocated_non_preemptible == gang.allocated_non_preemptible
    assert statuses["top"].allocated == {}
    assert decode(encode(statuses["q"]), QueueStatus) == (statuses["q"], ())


@given(cases, st.booleans())
def test_exactly_the_pods_that_wait_have_the_condition(case: Case, mark: bool) -> None:
    """S4, N4: with a stray among them."""
    manifest = case.manifest | {"spec": case.manifest["spec"] | {"markUnschedulable": mark}}
    case.pods.append(pod("stray", "nobody-knows"))
    decision = case.on(manifest)
    waiting = {f"team/{named(raw)}" for raw in case.carried_out if state(raw) == "waiting"}
    conditions = pod_conditions(decision.outcome, decision.stored)
    assert set(conditions) == (waiting if mark else set())
    assert all((one.type, one.status) == ("PodScheduled", "False") for one in conditions.values())

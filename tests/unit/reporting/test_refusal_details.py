"""The JSON of every refusal: keys and their order are the contract of `plan -o json`."""

from typing import Any, get_args

import pytest

from muster.fairness.entitlement import Excess
from muster.model.shortage import Shortage
from muster.placement.claims import ClaimTrouble
from muster.planning.refusal import (
    BackedOff,
    BestDomain,
    BindingFailed,
    BlockingRule,
    DisturbanceLimit,
    Evicted,
    ExtraPart,
    InternalError,
    InvalidSpec,
    MoreExtrasWait,
    NodeUnknown,
    NoDomain,
    NoNodeMatches,
    NonPreemptibleOverQuota,
    NoRoom,
    NotEnoughPods,
    OtherScheduler,
    OverLimit,
    PriorityClassDoesNotExist,
    QueueDoesNotExist,
    QueueNotALeaf,
    QueueNotInTree,
    Refusal,
    RulesBetweenPods,
    SearchCutShort,
    SmallerRequest,
    UnevictablePods,
    Unsupported,
    VolumeNotBound,
)
from muster.reporting.explain import sentence
from muster.reporting.refusal_details import details, refusal_json

CLUSTER = BestDomain(fits=1, resource="cpu", missing=500)
EXCESS = Excess("q", "cpu", allowed=3, held=2, extra=2)
FEWER = SmallerRequest("a", "minMember", 3, 2, lost=1)
RACK = BestDomain(fits=2, domain="z/r", level="topology/rack", is_pinned=True)

EVERY: tuple[tuple[Refusal, str], ...] = (
    (
        NotEnoughPods((Shortage("a", 3, 1, gated=1), Shortage("b", 2, 0))),
        (
            "{'need': 3, 'exist': 1, 'gated': 1, 'terminating': 0, 'failed': 0,"
            " 'others': [{'subGroup': 'b', 'need': 2, 'exist': 0}]}"
        ),
    ),
    (NotEnoughPods(detail="1 of 2"), "{'detail': '1 of 2'}"),
    (InvalidSpec("no tree"), "{'detail': 'no tree'}"),
    (Unsupported("a rule"), "{'detail': 'a rule'}"),
    (NodeUnknown("p", "n", "rack"), "{'detail': '', 'pod': 'p', 'node': 'n', 'level': 'rack'}"),
    (
        VolumeNotBound(need=1, best=BestDomain(), claim=ClaimTrouble("c", "fast", "unbound")),
        (
            "{'need': 1, 'room': 0, 'domain': '', 'refused': {}, 'nodes': 0,"
            " 'claim': 'c', 'storageClass': 'fast', 'why': 'unbound', 'node': ''}"
        ),
    ),
    (
        NoNodeMatches(need=1, best=BestDomain(), refused_nodes=(("taints", 2), ("ready", 1)), nodes=3, changes=()),
        "{'need': 1, 'room': 0, 'domain': '', 'refused': {'taints': 2, 'ready': 1}, 'nodes': 3, 'changes': []}",
    ),
    (
        RulesBetweenPods(need=3, best=RACK, nodes=4, rule=BlockingRule("topology spread", "zone", 1)),
        (
            "{'need': 3, 'room': 2, 'domain': 'z/r', 'level': 'topology/rack', 'pinned': True, 'refused': {},"
            " 'nodes': 4, 'rule': 'topology spread', 'key': 'zone', 'skew': 1}"
        ),
    ),
    (
        NoDomain(need=3, best=BestDomain(level="topology/rack", is_apart=True), nodes=4),
        "{'need': 3, 'level': 'topology/rack', 'domain': '', 'room': 0, 'apart': True, 'refused': {}, 'nodes': 4}",
    ),
    (
        NoRoom(need=3, best=CLUSTER, changes=(FEWER,), fits_soon=True, unevictable=UnevictablePods(4, ("t/p",))),
        (
            "{'need': 3, 'room': 1, 'domain': '', 'resource': 'cpu', 'missing': 500, 'refused': {}, 'nodes': 0,"
            " 'changes': [{'subGroup': 'a', 'field': 'minMember', 'from': 3, 'to': 2}], 'soon': True,"
            " 'kept': {'pods': 4, 'some': ['t/p']}}"
        ),
    ),
    (QueueDoesNotExist("q"), "{'queue': 'q'}"),
    (QueueNotInTree("q"), "{'queue': 'q'}"),
    (QueueNotALeaf("q"), "{'queue': 'q'}"),
    (OverLimit(EXCESS), "{'queue': 'q', 'resource': 'cpu', 'allowed': 3, 'held': 2, 'extra': 2}"),
    (
        NonPreemptibleOverQuota(EXCESS, changes=()),
        "{'queue': 'q', 'resource': 'cpu', 'allowed': 3, 'held': 2, 'extra': 2, 'changes': []}",
    ),
    (SearchCutShort(), "{}"),
    (SearchCutShort(moves=True), "{'moves': True}"),
    (SearchCutShort(extra=ExtraPart()), "{'role': 'extra'}"),
    (
        SearchCutShort(extra=ExtraPart("a", further_pods=2, alike=("b",))),
        "{'role': 'extra', 'part': 'a', 'further': 2, 'alike': ['b']}",
    ),
    (MoreExtrasWait(2, extra=ExtraPart()), "{'role': 'extra', 'parts': 2}"),
    (Evicted("t/g", by="Preempt", pods=2), "{'for': 't/g', 'by': 'Preempt', 'pods': 2}"),
    (OtherScheduler(("kai",), is_all=True), "{'schedulers': ['kai'], 'all': True}"),
    (PriorityClassDoesNotExist("high"), "{'priorityClass': 'high'}"),
    (BackedOff("NoRoom", "no room"), "{'reason': 'NoRoom', 'message': 'no room'}"),
    (BindingFailed("409"), "{'detail': '409'}"),
    (DisturbanceLimit(1, 2, 30), "{'disturbed': 1, 'allowed': 2, 'running': 30}"),
    (InternalError("KeyError", "lost"), "{'error': 'KeyError', 'message': 'lost'}"),
)


@pytest.mark.parametrize(("refusal", "shown"), EVERY, ids=[refusal.reason for refusal, _ in EVERY])
def test_the_details_of_a_refusal_have_these_keys_in_this_order(refusal: Refusal, shown: str) -> None:
    assert str(details(refusal)) == shown


def test_every_reason_has_details_and_a_sentence() -> None:
    """The class name is the reason; a type without an example above is a reason without a test."""
    assert {type(refusal) for refusal, _ in EVERY} == set(get_args(Refusal))
    assert all(sentence(refusal) for refusal, _ in EVERY)


def test_a_reason_comes_with_its_message_and_its_subgroup() -> None:
    shown: dict[str, Any] = {"reason": "InvalidSpec", "message": "m", "subGroup": "a", "details": {"detail": "d"}}
    assert refusal_json(InvalidSpec("d", sub_group="a"), "m") == shown

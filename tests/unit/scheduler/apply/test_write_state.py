"""The states of one binding or eviction: by example, and in any order of events against a model of the API server."""

from collections.abc import Iterable
from itertools import pairwise
from random import Random
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.scheduler.apply.write_state import (
    LOST_SECONDS,
    RESEND_SECONDS,
    Accepted,
    BindRequest,
    Confirmed,
    Denied,
    Event,
    EvictRequest,
    NoAnswer,
    PodGone,
    PodRead,
    PodUnread,
    Rejected,
    Resent,
    Sent,
    ServerFailed,
    TermEnded,
    Unconfirmed,
    Write,
    WriteRequest,
    may_resend,
    result_of,
    step,
)

BIND, EVICT = BindRequest("u1", "a"), EvictRequest("u1")
OTHER_POD, TERMINATING = PodRead(5, "u2", "a"), PodRead(5, "u1", "a", is_terminating=True)


def run(request: WriteRequest, *events: Event) -> Write:
    write: Write = Sent(request, 0.0)
    for event in events:
        write = step(write, event)
    return write


# examples -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("write_request", [BIND, EVICT])
def test_a_clear_answer_to_the_first_try_is_final(write_request: WriteRequest) -> None:
    assert run(write_request, Accepted(1)) == Confirmed(write_request)
    assert run(write_request, Denied(1)) == Rejected(write_request)


@pytest.mark.parametrize("failure", [NoAnswer(1), ServerFailed(1)])
def test_a_binding_without_a_clear_answer_is_unconfirmed(failure: Event) -> None:
    assert isinstance(run(BIND, failure), Unconfirmed)


@pytest.mark.parametrize(
    ("reading", "state"),
    [
        (PodRead(5, "u1", "a"), Confirmed),
        (PodRead(5, "u1", "b"), Rejected),
        (OTHER_POD, Rejected),
        (PodGone(5), Rejected),
        (PodRead(5, "u1"), Unconfirmed),
        (PodUnread(5), Unconfirmed),
        (PodRead(LOST_SECONDS, "u1"), Unconfirmed),
        (PodRead(LOST_SECONDS + 1, "u1"), Rejected),
        (PodUnread(LOST_SECONDS + 1), Unconfirmed),
    ],
)
def test_reading_the_pod_settles_an_unconfirmed_binding(reading: Event, state: type[Write]) -> None:
    assert isinstance(run(BIND, NoAnswer(1), reading), state)


@pytest.mark.parametrize("refusal", [Denied(7, 409), Denied(7, 403), Denied(7, 429)])
def test_a_refusal_of_the_second_try_does_not_reject_the_first(refusal: Event) -> None:
    """I2: the API server may still carry out the first one; only reading the pod settles it."""
    events = NoAnswer(1), PodRead(5, "u1"), Resent(6), refusal
    assert isinstance(run(BIND, *events), Unconfirmed)
    assert run(BIND, *events, PodRead(8, "u1", "a")) == Confirmed(BIND)
    assert run(BIND, *events, PodRead(LOST_SECONDS + 1, "u1")) == Rejected(BIND)


def test_the_last_try_that_was_not_answered_counts() -> None:
    """I2: 65 s after the last one, not after the first one."""
    events = NoAnswer(1), PodRead(5, "u1"), Resent(20), NoAnswer(21)
    assert isinstance(run(BIND, *events, PodRead(LOST_SECONDS + 20, "u1")), Unconfirmed)
    assert run(BIND, *events, PodRead(LOST_SECONDS + 21, "u1")) == Rejected(BIND)


@pytest.mark.parametrize("failure", [NoAnswer(300), ServerFailed(300)])
def test_a_try_may_have_left_as_late_as_it_was_given_up(failure: Event) -> None:
    """I2: a request waits for a connection, a credential or a 429 before it is sent, within its time limit."""
    assert isinstance(run(BIND, failure, PodRead(301, "u1")), Unconfirmed)
    assert run(BIND, failure, PodRead(300 + LOST_SECONDS, "u1")) == Rejected(BIND)


@pytest.mark.parametrize(
    ("events", "at", "may"),
    [
        ((NoAnswer(1), PodRead(5, "u1")), 6, True),
        ((NoAnswer(1), PodRead(5, "u1")), RESEND_SECONDS, False),
        ((NoAnswer(1),), 6, False),  # not read yet
        ((NoAnswer(1), PodRead(5, "u1"), PodUnread(6)), 7, False),
        ((NoAnswer(1), PodRead(5, "u1"), Resent(6)), 7, False),  # one is under way
        ((NoAnswer(1), PodRead(5, "u1"), Resent(6), Denied(7)), 8, False),  # not read since then
        ((NoAnswer(1), PodRead(5, "u1"), Resent(6), Denied(7), PodRead(8, "u1")), 9, True),
        ((NoAnswer(1), TermEnded(2), PodRead(5, "u1")), 6, False),
        ((TermEnded(0.5), NoAnswer(1), PodRead(5, "u1")), 6, False),
    ],
)
def test_a_binding_is_sent_again_after_its_pod_was_read_soon_and_in_its_term(
    events: tuple[Event, ...], at: float, may: bool
) -> None:
    assert may_resend(run(BIND, *events), at) == may


@pytest.mark.parametrize(
    ("reading", "state"),
    [
        (TERMINATING, Confirmed),
        (OTHER_POD, Confirmed),
        (PodGone(5), Confirmed),
        (PodRead(5, "u1", "a"), Unconfirmed),
        (PodUnread(5), Unconfirmed),
        (PodRead(LOST_SECONDS + 1, "u1", "a"), Rejected),
    ],
)
def test_reading_the_pod_settles_an_eviction_without_an_answer(reading: Event, state: type[Write]) -> None:
    assert isinstance(run(EVICT, NoAnswer(1), reading), state)


@pytest.mark.parametrize(
    ("reading", "state"), [(TERMINATING, Confirmed), (PodRead(5, "u1", "a"), Rejected), (PodUnread(5), Rejected)]
)
def test_an_eviction_that_the_api_server_failed_is_rejected_unless_the_pod_terminates(
    reading: Event, state: type[Write]
) -> None:
    """API servers answer 500 for a pod under two budgets. It holds its resources until it is seen to terminate."""
    assert isinstance(run(EVICT, ServerFailed(1), reading), state)


# any order of events --------------------------------------------------------------------------------------------------

TIMES = st.floats(0, 200)
EVENTS: st.SearchStrategy[Event] = st.one_of(
    *(TIMES.map(kind) for kind in (Accepted, Denied, ServerFailed, NoAnswer, Resent, PodGone, PodUnread, TermEnded)),
    st.builds(PodRead, TIMES, st.sampled_from(["u1", "u2"]), st.sampled_from(["", "a", "b"]), st.booleans()),
)
REQUESTS = st.sampled_from([BIND, EVICT])


def states(request: WriteRequest, events: Iterable[Event]) -> list[Write]:
    writes: list[Write] = [Sent(request, 0.0)]
    for event in events:
        writes.append(step(writes[-1], event))
    return writes


def test_every_event_is_tried() -> None:
    assert {type(event) for event in [Accepted(0), Denied(0), ServerFailed(0), NoAnswer(0), Resent(0)]} | {
        PodRead,
        PodGone,
        PodUnread,
        TermEnded,
    } == set(get_args(Event))


@settings(max_examples=500)
@given(REQUESTS, st.lists(EVENTS, max_size=12))
def test_only_confirmed_and_rejected_are_final(write_request: WriteRequest, events: list[Event]) -> None:
    path = states(write_request, events)
    for before, after in pairwise(path):
        if isinstance(before, Confirmed | Rejected):
            assert after is before
        assert after.request is write_request, "to the same node, whatever happens"
        assert not (isinstance(after, Sent) and not isinstance(before, Sent))
        assert result_of(after).name == ("UNCONFIRMED" if isinstance(after, Sent) else type(after).__name__.upper())


@settings(max_examples=500)
@given(st.lists(EVENTS, max_size=12))
def test_no_events_confirm_a_binding_to_another_node(events: list[Event]) -> None:
    """What confirms it is the API server's own yes, or its pod on its node."""
    path = states(BIND, events)
    for before, event, after in zip(path, events, path[1:], strict=False):
        if isinstance(after, Confirmed) and before is not after:
            assert isinstance(event, Accepted) or (
                isinstance(event, PodRead) and (event.uid, event.node) == ("u1", "a")
            )


@settings(max_examples=500)
@given(st.lists(EVENTS, max_size=12))
def test_an_eviction_is_never_sent_again(events: list[Event]) -> None:
    for write in states(EVICT, events):
        assert not may_resend(write, 0.0)
        assert not (isinstance(write, Unconfirmed) and write.resent_at is not None)


@settings(max_examples=500)
@given(st.lists(EVENTS, max_size=12), TIMES)
def test_nothing_is_sent_again_after_the_term(events: list[Event], at: float) -> None:
    path = states(BIND, events)
    if TermEnded in map(type, events):
        assert not may_resend(path[-1], at)


# a model of the API server --------------------------------------------------------------------------------------------


class ApiModel:
    """A pod, and tries to bind it that are carried out at any time within a minute, answered or not."""

    def __init__(self, dice: Random) -> None:
        self.dice, self.now = dice, 0.0
        self.uid, self.node, self.was_bound = "u1", "", False
        self.open: list[float] = []  # tries that may yet be carried out, by when they were sent

    def bind(self, node: str) -> bool:
        if self.uid == "u1" and not self.node:
            self.node = node
            self.was_bound = self.was_bound or node == "a"
            return True
        return False

    def post(self) -> Event:
        """The answer to a try: clear, or lost with the try done, never done, or still to come.

        It leaves late: the client waits for a connection first.
        """
        self.now += self.dice.choice((0.0, 0.1, 9.0, 60.0))
        fate = self.dice.choice(("clear", "refused", "done", "never", "later", "later"))
        if fate == "clear":
            return Accepted(self.now) if self.bind("a") else Denied(self.now, 409)
        if fate == "refused":
            return Denied(self.now, self.dice.choice((403, 429)))
        if fate == "done":
            self.bind("a")
        if fate == "later":
            self.open.append(self.now)
        return self.dice.choice((NoAnswer, ServerFailed))(self.now)

    def happen(self) -> None:
        """Time passes; open tries arrive or are given up; now and then something else happens to the pod."""
        self.now += self.dice.choice((0.1, 1.0, 5.0, 20.0))
        for sent in list(self.open):
            if self.now - sent >= LOST_SECONDS - 5:
                self.open.remove(sent)  # the API server gave it up after a minute
            elif self.dice.random() < 0.2:
                self.open.remove(sent)
                self.bind("a")
        match self.dice.random():
            case chance if chance < 0.03:
                self.bind("b")  # another scheduler
            case chance if chance < 0.06:
                self.uid, self.node = "u2", ""  # deleted, and created again
            case chance if chance < 0.09:
                self.uid = ""

    def read(self) -> Event:
        if self.dice.random() < 0.2:
            return PodUnread(self.now)
        return PodRead(self.now, self.uid, self.node) if self.uid else PodGone(self.now)


@settings(max_examples=1000, deadline=None)
@given(st.integers(0, 2**32).map(Random))
def test_a_final_state_is_the_truth_about_the_api_server(dice: Random) -> None:
    """I1, I2: confirmed is bound to that node; rejected is not, and no try that is open can bind it any more."""
    api = ApiModel(dice)
    write: Write = step(Sent(BIND, 0.0), api.post())
    while not isinstance(write, Confirmed | Rejected):
        api.happen()
        write = step(write, api.read())
        if may_resend(write, api.now) and dice.random() < 0.8:
            write = step(step(write, Resent(api.now)), api.post())
        assert api.now < 1000, "it ends"
    if isinstance(write, Confirmed):
        assert api.was_bound
    else:
        assert (api.uid, api.node) != ("u1", "a")
        assert not (api.open and (api.uid, api.node) == ("u1", "")), "a try can still bind it"

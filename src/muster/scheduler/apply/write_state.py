"""One binding or eviction as a state machine without I/O: the only place that decides whether it was carried out (I1).

Rule 1: `Confirmed` and `Rejected` are final. Rule 2: a refusal rejects a write only while no earlier try of it is open:
the API server may still carry out a try that it did not answer. Then only the pod itself tells. Rule 3: a binding is
sent again only to the same node, after the pod was read and has none; an eviction never. Rule 4: times come with the
events.
"""

from enum import Enum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

LOST_SECONDS = 65.0  # an API server gives up a request after a minute: a try that is older will not be carried out
RESEND_SECONDS = 30.0  # after the first try, a binding that was not carried out is sent again for so long


# requests -----------------------------------------------------------------------------------------------------------


class BindRequest(Struct, frozen=True):
    """Bind the pod with this uid to a node."""

    uid: str  # empty: not known, any pod of that name
    node: str


class EvictRequest(Struct, frozen=True):
    """Evict the pod with this uid."""

    uid: str  # empty: not known, any pod of that name


WriteRequest = BindRequest | EvictRequest


# states -------------------------------------------------------------------------------------------------------------


class Sent(Struct, frozen=True):
    """The first try is under way."""

    request: WriteRequest
    at: float
    is_term_over: bool = False


class Unconfirmed(Struct, frozen=True):
    """A try was not answered clearly: it may have been carried out, or may yet be."""

    request: WriteRequest
    first_at: float  # when the first try was sent
    open_at: float  # when the last try was sent that may yet be carried out
    given_up_at: float  # when that try was given up: the request may have left this process as late as that
    resent_at: float | None = None  # the try that is under way now; None: none is
    is_waiting: bool = False  # the pod was read since the last try, and has no node
    is_failed: bool = False  # the API server answered the first try with an error of its own
    is_term_over: bool = False


class Confirmed(Struct, frozen=True):
    """It was carried out."""

    request: WriteRequest


class Rejected(Struct, frozen=True):
    """It was not carried out, and will not be."""

    request: WriteRequest


Write = Sent | Unconfirmed | Confirmed | Rejected
FINAL: Final = (Confirmed, Rejected)


class WriteResult(Enum):
    """What the write pool has to know of a write that was sent."""

    CONFIRMED = "it was carried out"
    REJECTED = "it was not carried out, and will not be"
    UNCONFIRMED = "it is not known yet whether it was carried out"


def result_of(write: Write | None) -> WriteResult:
    """The same of a state."""
    match write:
        case Confirmed():
            return WriteResult.CONFIRMED
        case Rejected():
            return WriteResult.REJECTED
        case _:
            return WriteResult.UNCONFIRMED


# events -------------------------------------------------------------------------------------------------------------


class Accepted(Struct, frozen=True):
    """The API server carried out the try that is under way."""

    at: float


class Denied(Struct, frozen=True):
    """A clear no to the try that is under way, or it could not be sent: it will not be carried out."""

    at: float
    status: int = 0
    reason: str = ""
    message: str = ""


class ServerFailed(Struct, frozen=True):
    """The API server answered with an error of its own: behind a 500 there can be a write that only took too long."""

    at: float
    reason: str = ""
    message: str = ""


class NoAnswer(Struct, frozen=True):
    """The request timed out, or its connection was lost."""

    at: float
    reason: str = ""
    message: str = ""


class Resent(Struct, frozen=True):
    """Another try is sent."""

    at: float


class PodRead(Struct, frozen=True):
    """The pod of that name as the API server stores it."""

    at: float  # when it was asked for: the answer may be as old
    uid: str
    node: str = ""  # empty: it has none
    is_terminating: bool = False


class PodGone(Struct, frozen=True):
    """There is no pod of that name."""

    at: float


class PodUnread(Struct, frozen=True):
    """The pod could not be read."""

    at: float


class TermEnded(Struct, frozen=True):
    """Leadership is not held any more in the term in which the write was decided."""

    at: float


Answer = Accepted | Denied | ServerFailed | NoAnswer
Reading = PodRead | PodGone | PodUnread
Event = Answer | Reading | Resent | TermEnded


# transitions --------------------------------------------------------------------------------------------------------


def step(write: Write, event: Event) -> Write:
    """The next state. Every event is allowed in every state; one that means nothing there changes nothing."""
    if isinstance(write, FINAL):
        return write
    match event:
        case Accepted():
            return Confirmed(write.request)
        case PodRead() | PodGone() | PodUnread():
            return _after_reading(write, event)
        case TermEnded():
            return replace(write, is_term_over=True)
        case Resent(at=at):
            return _resend(write, at) if isinstance(write, Unconfirmed) and may_resend(write, at) else write
        case Denied() | ServerFailed() | NoAnswer():
            return _after_failure(write, event)


def may_resend(write: Write, at: float) -> bool:
    """Whether a binding may be sent again: its pod was read and waits; soon, in its own term, one try at a time."""
    return (
        isinstance(write, Unconfirmed)
        and isinstance(write.request, BindRequest)
        and write.is_waiting
        and write.resent_at is None
        and not write.is_term_over
        and at - write.first_at < RESEND_SECONDS
    )


def last_sent_at(write: Sent | Unconfirmed) -> float:
    """When the last try was sent that may have been carried out."""
    match write:
        case Sent(at=at):
            return at
        case Unconfirmed(open_at=open_at, resent_at=resent_at):
            return open_at if resent_at is None else resent_at


def _resend(write: Unconfirmed, at: float) -> Unconfirmed:
    return replace(write, resent_at=at, is_waiting=False)


def _after_failure(write: Sent | Unconfirmed, event: Denied | ServerFailed | NoAnswer) -> Write:
    match write, event:
        case Sent(), Denied():
            return Rejected(write.request)
        case Sent(at=at, is_term_over=is_over), _:
            is_failed = isinstance(event, ServerFailed)
            return Unconfirmed(write.request, at, at, event.at, is_failed=is_failed, is_term_over=is_over)
        case Unconfirmed(), Denied():
            return replace(write, resent_at=None)  # the earlier try is still open
        case _:
            return replace(write, open_at=last_sent_at(write), given_up_at=event.at, resent_at=None)


def _after_reading(write: Sent | Unconfirmed, event: Reading) -> Write:
    match write.request:
        case BindRequest() as binding:
            return _after_reading_for_binding(write, binding, event)
        case EvictRequest() as eviction:
            return _after_reading_for_eviction(write, eviction, event)


def _after_reading_for_binding(write: Sent | Unconfirmed, request: BindRequest, event: Reading) -> Write:
    match event:
        case PodUnread():
            return replace(write, is_waiting=False) if isinstance(write, Unconfirmed) else write
        case PodRead(uid=uid, node=node) if _is_same(request, uid):
            if node == request.node:
                return Confirmed(request)
            if not node and not _is_lost(write, event.at):
                return replace(write, is_waiting=True) if isinstance(write, Unconfirmed) else write
    return Rejected(request)  # gone, another pod, on another node, or no try can still arrive


def _after_reading_for_eviction(write: Sent | Unconfirmed, request: EvictRequest, event: Reading) -> Write:
    is_failed = isinstance(write, Unconfirmed) and write.is_failed
    match event:
        case PodUnread():
            return Rejected(request) if is_failed else write
        case PodRead(uid=uid, is_terminating=False) if _is_same(request, uid):
            return Rejected(request) if is_failed or _is_lost(write, event.at) else write
    return Confirmed(request)  # gone, another pod, or terminating


def _is_same(request: WriteRequest, uid: str) -> bool:
    return request.uid in ("", uid)


def _is_lost(write: Sent | Unconfirmed, at: float) -> bool:
    """Whether no try can be carried out any more that was not by then."""
    if isinstance(write, Sent) or write.resent_at is not None:
        return False  # a try is under way
    return at - write.given_up_at >= LOST_SECONDS

"""Large answers share a number of bytes: slow readers cost others neither memory nor their answers."""

import asyncio
from collections.abc import Callable

import pytest
from starlette.responses import Response
from starlette.types import Message, Scope

from muster.embedded.rest import answer_budget
from muster.embedded.rest.answer_budget import PART_BYTES, RETRY_SECONDS, SLOW_SECONDS, AnswerBudget
from muster.kube.errors import ApiError
from muster.observability.serving.guarded_http import ABORT

MOST = 8 * PART_BYTES


class Peer:
    """A client that takes a message whenever it is let to; given up, it takes no more, and the answer ends."""

    def __init__(self, host: str = "10.0.0.1") -> None:
        self.host = host
        self.messages: list[Message] = []
        self.is_gone = False
        self._may_take = asyncio.Semaphore(0)

    @property
    def scope(self) -> Scope:
        return {"type": "http", "client": (self.host, 1), "extensions": {ABORT: self._close}}

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.messages)

    def _close(self) -> None:
        self.is_gone = True
        self.take(1_000)

    def take(self, messages: int) -> None:
        for _ in range(messages):
            self._may_take.release()

    async def send(self, message: Message) -> None:
        await self._may_take.acquire()
        if not self.is_gone:
            self.messages.append(message)


class Clock:
    """A time that only the test changes."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    monkeypatch.setattr(answer_budget, "CHECK_SECONDS", 0.001)
    return Clock()


def sending(budget: AnswerBudget, peer: Peer, parts: int) -> "asyncio.Task[None]":
    """An answer of so many parts on its way to a peer."""
    return asyncio.create_task(budget.send(Response(b"x" * (parts * PART_BYTES)), peer.scope, peer.send))


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0)


async def test_an_answer_comes_in_parts_and_counts_until_it_is_sent(clock: Clock) -> None:
    budget, peer = AnswerBudget(MOST, clock), Peer()
    task = sending(budget, peer, 3)
    peer.take(3)
    await until(lambda: len(peer.messages) == 3)
    assert budget.size == 3 * PART_BYTES
    peer.take(1)
    await task
    assert budget.size == 0
    assert peer.body == b"x" * (3 * PART_BYTES)
    assert [message.get("more_body") for message in peer.messages] == [None, True, True, False]


async def test_a_request_waits_until_bytes_are_free(clock: Clock) -> None:
    budget, peer = AnswerBudget(MOST, clock), Peer()
    task = sending(budget, peer, 8)
    await until(lambda: budget.size == MOST)
    waiting = asyncio.create_task(budget.admit(Peer("10.0.0.2").scope))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    peer.take(9)
    await asyncio.gather(task, waiting)


async def test_one_peer_has_half_of_the_bytes(clock: Clock) -> None:
    """Others read at once while it waits for itself."""
    budget, peer = AnswerBudget(MOST, clock), Peer()
    task = sending(budget, peer, 4)
    await until(lambda: budget.size)
    await budget.admit(Peer("10.0.0.2").scope)
    waiting = asyncio.create_task(budget.admit(Peer().scope))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    peer.take(5)
    await asyncio.gather(task, waiting)


async def test_a_peer_that_takes_nothing_makes_way(clock: Clock) -> None:
    """The one without progress for longest, of the peer over its share; whoever reads keeps its answer."""
    budget, other, slow, quick = AnswerBudget(MOST, clock), Peer("10.0.0.2"), Peer(), Peer()
    tasks = [sending(budget, peer, 2) for peer in (other, slow, quick)]
    await until(lambda: budget.size == 6 * PART_BYTES)
    clock.now += SLOW_SECONDS / 2
    quick.take(2)
    await until(lambda: len(quick.messages) == 2)
    clock.now += SLOW_SECONDS
    await budget.admit(Peer().scope)
    assert (other.is_gone, slow.is_gone, quick.is_gone) == (False, True, False)
    assert budget.size == 4 * PART_BYTES
    for peer in (other, quick):
        peer.take(3)
    await asyncio.gather(*tasks)
    assert (budget.size, quick.body) == (0, b"x" * (2 * PART_BYTES))


async def test_a_request_that_waits_for_long_is_refused_and_comes_again(clock: Clock) -> None:
    """Peers that take a byte now and then are never given up: others hear when to come back."""
    budget, peer = AnswerBudget(MOST, clock), Peer()
    task = sending(budget, peer, 8)
    await until(lambda: budget.size == MOST)
    waiting = asyncio.create_task(budget.admit(Peer("10.0.0.2").scope))
    while not waiting.done():
        clock.now += SLOW_SECONDS / 2
        budget._note_progress(next(iter(budget._answers)))
        await asyncio.sleep(0)
    with pytest.raises(ApiError) as raised:
        await waiting
    assert (raised.value.status, raised.value.details) == (429, {"retryAfterSeconds": RETRY_SECONDS})
    peer.take(9)
    await task


async def test_a_peer_that_goes_gives_its_bytes_back(clock: Clock) -> None:
    budget, peer = AnswerBudget(MOST, clock), Peer()
    task = sending(budget, peer, 8)
    await until(lambda: budget.size)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert budget.size == 0
    await budget.admit(peer.scope)

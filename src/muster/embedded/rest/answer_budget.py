"""Large answers in memory: bounded in bytes, over all connections.

Rule 1: a request waits for bytes before it is read, so that what waits costs nothing; after a few seconds it is refused
with 429. Rule 2: an answer is sent in parts, and counts until the last one is sent. Rule 3: one peer has at most half
of the bytes; where they are spent, the answer of which nothing was taken for longest is given up, with its connection.
"""

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from contextlib import suppress

from starlette.responses import Response
from starlette.types import Scope, Send

from muster.embedded.rest.responses import status_error
from muster.observability.serving.connection_table import peer_of
from muster.observability.serving.guarded_http import ABORT

MOST_BYTES = 64 * 2**20
PART_BYTES = 64 * 2**10  # smaller answers are sent as they are
SLOW_SECONDS = 1.0  # in which an honest client takes a part
CHECK_SECONDS = 0.1
LONGEST_WAIT_SECONDS = 10.0
RETRY_SECONDS = 1


class LargeAnswer:
    """An answer that is being sent."""

    __slots__ = ("abort", "peer", "size", "taken_at")

    def __init__(self, peer: str, size: int, abort: Callable[[], None] | None, now: float) -> None:
        self.peer, self.size, self.abort = peer, size, abort
        self.taken_at = now  # when the peer took a part


class AnswerBudget:
    """The large answers of one server. A single one is always sent, whatever its size."""

    def __init__(self, most_bytes: int = MOST_BYTES, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._clock = most_bytes, clock
        self._answers: OrderedDict[LargeAnswer, None] = OrderedDict()  # the longest without a part first
        self._by_peer: Counter[str] = Counter()  # bytes
        self._changed = asyncio.Event()
        self.size = 0  # bytes in all

    async def admit(self, scope: Scope) -> None:
        """Waits until an answer may be built; ApiError 429 where that takes too long."""
        peer, until = _peer(scope), self._clock() + LONGEST_WAIT_SECONDS
        while self._is_spent(peer):
            if self._displace_slow(peer):
                continue
            if self._clock() >= until:
                details = {"retryAfterSeconds": RETRY_SECONDS}
                raise status_error(429, "too many large answers are being read slowly, please try again", details)
            with suppress(TimeoutError):
                async with asyncio.timeout(CHECK_SECONDS):
                    await self._changed.wait()

    async def send(self, response: Response, scope: Scope, send: Send) -> None:
        """Sends an answer part by part; returns early where its peer has gone or is too slow."""
        body, head = bytes(response.body), {"status": response.status_code, "headers": response.raw_headers}
        answer = self._reserve(_peer(scope), len(body), scope.get("extensions", {}).get(ABORT))
        try:
            await send({"type": "http.response.start", **head})
            for begin in range(0, len(body), PART_BYTES):
                end = begin + PART_BYTES
                message = {"type": "http.response.body", "body": body[begin:end], "more_body": end < len(body)}
                await send(message)
                self._note_progress(answer)
        finally:
            self._release(answer)

    def _is_spent(self, peer: str) -> bool:
        return self.size >= self._most or self._has_its_share(peer)

    def _has_its_share(self, peer: str) -> bool:
        return self._by_peer[peer] >= self._most // 2

    def _reserve(self, peer: str, size: int, abort: Callable[[], None] | None) -> LargeAnswer:
        answer = LargeAnswer(peer, size, abort, self._clock())
        self._answers[answer] = None
        self.size += size
        self._by_peer[peer] += size
        return answer

    def _note_progress(self, answer: LargeAnswer) -> None:
        if answer in self._answers:
            answer.taken_at = self._clock()
            self._answers.move_to_end(answer)

    def _release(self, answer: LargeAnswer) -> None:
        if answer not in self._answers:
            return  # it was given up
        del self._answers[answer]
        self.size -= answer.size
        self._by_peer[answer.peer] -= answer.size
        if not self._by_peer[answer.peer]:
            del self._by_peer[answer.peer]
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _displace_slow(self, peer: str) -> bool:
        """Gives up the answer of which a part was taken longest ago; a peer over its share gives up one of its own."""
        is_own = self._has_its_share(peer)
        slowest = next((answer for answer in self._answers if not is_own or answer.peer == peer), None)
        if slowest is None or slowest.abort is None or self._clock() - slowest.taken_at <= SLOW_SECONDS:
            return False
        self._release(slowest)
        slowest.abort()
        return True


def _peer(scope: Scope) -> str:
    return peer_of(scope.get("client"))

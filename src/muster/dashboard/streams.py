"""Streams of events to viewers: a cursor each, and no queue.

Rule 1: a viewer that reads slowly gets fewer and larger changes, and one that stops reading is closed by the server;
it costs one message in any case. Rule 2: the number of viewers is bounded, in all and for each peer. Rule 3: rights are
reviewed again while a stream is open.
"""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial

from muster.dashboard.messages import Cursor, Messages, beat
from muster.dashboard.model import DashboardModel, is_set
from muster.dashboard.rights import ViewerRights
from muster.dashboard.slices import LoopShare

BEAT_SECONDS = 5.0
REVIEW_SECONDS = 60.0
Review = Callable[[], Awaitable[ViewerRights | None]]  # None: it may see nothing any more


class DashboardStreams:
    """The viewers of one model."""

    def __init__(
        self, model: DashboardModel, messages: Messages, most_viewers: int, clock: Callable[[], float]
    ) -> None:
        self._model, self._messages, self._clock = model, messages, clock
        self._most, self._most_of_peer = most_viewers, -(-most_viewers // 2)
        self._by_peer: Counter[str] = Counter()
        self._share = LoopShare()  # for first events: most of them are whole states

    def problem(self, peer: str) -> str:
        """Why no more streams are opened for a peer; empty: one may be."""
        if self._by_peer.total() >= self._most:
            return f"{self._most} viewers are connected already"
        if self._by_peer[peer] >= self._most_of_peer:
            return f"{self._most_of_peer} viewers of yours are connected already"
        return ""

    @contextmanager
    def _counted(self, peer: str) -> Iterator[None]:
        self._by_peer[peer] += 1
        self._model.viewers = self._by_peer.total()
        self._model.wake()
        try:
            yield
        finally:
            self._by_peer[peer] -= 1
            self._by_peer += Counter()  # without those of whom none is left
            self._model.viewers = self._by_peer.total()

    def _next(self, rights: ViewerRights, seen: Cursor | None) -> tuple[bytes, Cursor]:
        """The next event, if there is one, and where its reader is then."""
        return self._messages.event(rights.namespaces, seen), self._messages.cursor(rights.namespaces)

    async def events(
        self, peer: str, rights: ViewerRights, after: Cursor | None, review: Review
    ) -> AsyncIterator[bytes]:
        """Events for one viewer, until it goes or loses its rights; none where others have come in between."""
        if self.problem(peer):
            return
        with self._counted(peer):
            reviewed_at = self._clock()
            event, seen = await self._share.run(peer, partial(self._next, rights, after))
            yield event or beat()
            while not self._model.is_closed:
                if self._clock() - reviewed_at >= REVIEW_SECONDS:
                    reviewed, reviewed_at = await review(), self._clock()
                    if reviewed is None:
                        return
                    rights = reviewed
                news = self._model.news
                event, seen = self._next(rights, seen)
                if event:
                    yield event
                if not await is_set(news, BEAT_SECONDS):
                    yield beat()

"""Marks the pods of a gang, by a write each, a few at a time."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from muster.controllers.grouper.gang_record import GangRecord, is_marked, mark_of
from muster.controllers.grouper.grouping_writer import REFUSED, GroupingWriter
from muster.controllers.grouper.members import GroupedPod
from muster.kube.errors import ApiError

JOINS_AT_ONCE: Final = 8  # pods of one gang: a gang of 5,000 leaves room for others


class PodJoiner:
    """`grouped` gets each pod that has joined its gang by its write; `has_joined` says of which pods it has before.

    `refused` gets each pod that the API server does not let join, and why.
    """

    def __init__(
        self,
        writer: GroupingWriter,
        has_joined: Callable[[GroupedPod], bool],
        grouped: Callable[[GroupedPod], None],
        refused: Callable[[GroupedPod, str, int], None],
    ) -> None:
        self._writer, self._has_joined, self._grouped, self._refused = writer, has_joined, grouped, refused

    async def join(self, members: Sequence[GroupedPod], record: GangRecord, term: int) -> ApiError | None:
        """Marks these pods of a gang; returns why some may not be."""
        todo = iter(members)
        refusals: list[ApiError] = []
        results = await asyncio.gather(
            *(self._join_some(todo, record, term, refusals) for _ in range(JOINS_AT_ONCE)), return_exceptions=True
        )
        for error in results:
            if isinstance(error, BaseException):
                raise error
        return refusals[0] if refusals else None

    async def _join_some(
        self, todo: Iterator[GroupedPod], record: GangRecord, term: int, refusals: list[ApiError]
    ) -> None:
        """A pod that may not be changed holds up no other; an API server that does not answer gets a pause."""
        for member in todo:
            try:
                await self._join_one(member, record, term)
            except ApiError as error:
                if error.status not in REFUSED:
                    raise
                refusals.append(error)
                self._refused(member, error.message, term)

    async def _join_one(self, member: GroupedPod, record: GangRecord, term: int) -> None:
        meta, mark = member.pod.metadata, mark_of(member)
        record.joined[meta.name] = meta.uid, mark  # before the request: the watch may be faster than its answer
        has_joined, is_joined = self._has_joined(member), False
        try:
            is_joined = await self._writer.join(meta, mark, term)
        finally:
            if not is_joined:
                record.joined.pop(meta.name, None)
        if is_joined and not has_joined:
            self._grouped(member)


def is_unmarked(member: GroupedPod, record: GangRecord) -> bool:
    """Whether a pod does not carry the mark of its gang, and did not just get it."""
    meta = member.pod.metadata
    if is_marked(member):
        record.joined.pop(meta.name, None)
        return False
    return record.joined.get(meta.name) != (meta.uid, mark_of(member))

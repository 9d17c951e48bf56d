"""A cache of the answers of earlier cycles: on an unchanged cluster no search is paid for twice (X7).

Rule 1: the key is a digest of everything that the answer depends on, so no entry can be out of date. Rule 2: only
negative answers and searches that were cut short are stored: a positive one changes the cluster. Rule 3: a cached
answer costs the cycle no steps, but its gang the same steps as before, so that later work for the gang ends alike.
"""

from collections import Counter, OrderedDict
from typing import Any

from msgspec import Struct

from muster.model.gang.gang import Gang

MOST_ANSWERS = 10_000  # a waiting gang has two or three


class Hint(Struct, frozen=True):
    """Nodes for the whole core of a gang that a longer search found; checked again before use."""

    gang: str  # namespace/name
    places: tuple[tuple[str, str], ...]  # pod and node, by name


class RememberedAnswer(Struct, frozen=True):
    """An answer, and the steps that it cost."""

    structure: bytes  # of the requirement that it is about
    steps: int
    is_known: bool  # False: the search was cut short
    value: Any = None  # None: the answer is no


class AnswerCache:
    """Answers by digest, least recently used evicted first, and hints by gang; it outlives the cycles."""

    def __init__(self, most: int = MOST_ANSWERS) -> None:
        self._most = most
        self._answers: OrderedDict[bytes, RememberedAnswer] = OrderedDict()
        self._structures: Counter[bytes] = Counter()
        self.hints: dict[str, Hint] = {}
        self.gangs: dict[str, tuple[Gang, bytes]] = {}  # digests of unchanged running gangs

    def __len__(self) -> int:
        return len(self._answers)

    def items(self) -> list[tuple[bytes, RememberedAnswer]]:
        """All answers with their digests, least recently used first."""
        return list(self._answers.items())

    def could_know(self, structure: bytes) -> bool:
        """Whether any answer is about a requirement of this structure: else no digest need be computed."""
        return structure in self._structures

    def get(self, digest: bytes) -> RememberedAnswer | None:
        """The cached answer, if there is one."""
        answer = self._answers.get(digest)
        if answer is not None:
            self._answers.move_to_end(digest)
        return answer

    def put(self, digest: bytes, answer: RememberedAnswer) -> None:
        """Store an answer."""
        if digest not in self._answers:
            self._structures[answer.structure] += 1
        self._answers[digest] = answer
        while len(self._answers) > self._most:
            _, oldest = self._answers.popitem(last=False)
            self._structures[oldest.structure] -= 1
            if not self._structures[oldest.structure]:
                del self._structures[oldest.structure]

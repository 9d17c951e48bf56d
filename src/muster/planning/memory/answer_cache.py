"""Answers of earlier cycles, by all that they depend on: on an unchanged cluster nothing is paid for twice (X7).

Rule 1: an answer is kept under a digest of what it depends on, so it cannot be out of date: where anything of that has
changed, the digest is another one. Rule 2: only what says no, or that the search was cut short, is kept: what says yes
changes the cluster. Rule 3: a remembered answer costs no steps of the cycle, but the same steps of its gang's budget,
so that whatever comes after it in the same turn ends as it would have without.
"""

from collections import Counter, OrderedDict
from typing import Any

from msgspec import Struct

from muster.model.gang.gang import Gang

MOST_ANSWERS = 10_000  # a waiting gang leaves two or three


class Hint(Struct, frozen=True):
    """Places for the whole core of a gang that a longer search found: to be checked again before use."""

    gang: str  # namespace/name
    places: tuple[tuple[str, str], ...]  # pod and node, by name


class RememberedAnswer(Struct, frozen=True):
    """What was found out, and what that cost."""

    structure: bytes  # of the goal that it is about
    steps: int
    is_known: bool  # False: the search was cut short
    value: Any = None  # None: no


class AnswerCache:
    """Answers by digest, the least recently used out first, and hints by gang; kept from cycle to cycle."""

    def __init__(self, most: int = MOST_ANSWERS) -> None:
        self._most = most
        self._answers: OrderedDict[bytes, RememberedAnswer] = OrderedDict()
        self._structures: Counter[bytes] = Counter()
        self.hints: dict[str, Hint] = {}
        self.gangs: dict[str, tuple[Gang, bytes]] = {}  # digests of running gangs, for as long as they do not change

    def __len__(self) -> int:
        return len(self._answers)

    def could_know(self, structure: bytes) -> bool:
        """Whether there is an answer about any goal like this: else its digest need not be worked out."""
        return structure in self._structures

    def get(self, digest: bytes) -> RememberedAnswer | None:
        """The answer, if it is known."""
        answer = self._answers.get(digest)
        if answer is not None:
            self._answers.move_to_end(digest)
        return answer

    def put(self, digest: bytes, answer: RememberedAnswer) -> None:
        """Remember an answer."""
        if digest not in self._answers:
            self._structures[answer.structure] += 1
        self._answers[digest] = answer
        while len(self._answers) > self._most:
            _, oldest = self._answers.popitem(last=False)
            self._structures[oldest.structure] -= 1
            if not self._structures[oldest.structure]:
                del self._structures[oldest.structure]

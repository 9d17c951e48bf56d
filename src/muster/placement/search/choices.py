"""Choices of children of a branch and of pods of a leaf: as many as it needs, first choice first (M3, M4)."""

from collections import Counter
from collections.abc import Iterator, Sequence

from muster.placement.requirements.tree import count_by_class
from muster.placement.requirements.types import Requirement, RequirementKinds


def choices(requirement: Requirement, kinds: RequirementKinds) -> Iterator[Requirement]:
    """The requirement with exactly as many children at every branch as it needs, first choice first."""
    if requirement.is_leaf:
        yield requirement
        return
    runs = _runs([child.kind for child in requirement.children])
    for counts in choose(runs, requirement.need):
        taken: list[Requirement] = []
        at = 0
        for (_, length), count in zip(runs, counts, strict=False):
            taken += requirement.children[at : at + count]
            at += length
        for combination in _combined(taken, kinds):
            yield kinds.derive(requirement, children=combination)


def _combined(children: Sequence[Requirement], kinds: RequirementKinds) -> Iterator[tuple[Requirement, ...]]:
    """Every combination of the children's own choices."""
    if not children:
        yield ()
        return
    for child in choices(children[0], kinds):
        for rest in _combined(children[1:], kinds):
            yield (child, *rest)


def _runs(kinds: Sequence[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for kind in kinds:
        if runs and runs[-1][0] == kind:
            runs[-1] = (kind, runs[-1][1] + 1)
        else:
            runs.append((kind, 1))
    return runs


def choose(runs: Sequence[tuple[int, int]], need: int) -> Iterator[tuple[int, ...]]:
    """Every way to take `need` items from runs of equal items, as a count per run, first choice first.

    Equal items are interchangeable: a run is used only after all earlier runs of its kind are used up. Runs after the
    last one that is used are left out: the cost of a choice is its difference from the one before.
    """
    taken = _Taken(runs, need)
    if need > taken.usable:
        return
    taken.complete()
    yield tuple(taken.counts)
    while taken.retreat():
        taken.complete()
        yield tuple(taken.counts)


class _Taken:
    """The counts that one choice takes from the first runs."""

    def __init__(self, runs: Sequence[tuple[int, int]], need: int) -> None:
        self.runs, self.left = runs, need
        self.counts: list[int] = []
        self.open: Counter[int] = Counter()  # by kind: runs that are not used up
        self.ahead = count_by_class(runs)  # by kind: items in the runs still to come
        self.usable = sum(self.ahead.values())  # items still to come of kinds without an open run

    def complete(self) -> None:
        """Take as many as possible from every further run: enough items are usable."""
        while self.left:
            kind, length = self.runs[len(self.counts)]
            self._take(0 if self.open[kind] else min(length, self.left))

    def retreat(self) -> bool:
        """Take one less from the last run that later runs can make up for; False: there is none."""
        while self.counts:
            kind, count = self.runs[len(self.counts) - 1][0], self._give_back()
            if count and self.left - count + 1 <= self.usable - self.ahead[kind]:
                self._take(count - 1)
                return True
        return False

    def _take(self, count: int) -> None:
        kind, length = self.runs[len(self.counts)]
        if not self.open[kind]:
            self.usable -= length if count == length else self.ahead[kind]
        self.ahead[kind] -= length
        self.open[kind] += count < length
        self.counts.append(count)
        self.left -= count

    def _give_back(self) -> int:
        count = self.counts.pop()
        kind, length = self.runs[len(self.counts)]
        self.left += count
        self.open[kind] -= count < length
        self.ahead[kind] += length
        if not self.open[kind]:
            self.usable += length if count == length else self.ahead[kind]
        return count

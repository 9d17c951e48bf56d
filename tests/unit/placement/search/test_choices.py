"""Choices of pods and children: the first choice first, each at the cost of what it differs from the one before."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice, product

from hypothesis import given
from hypothesis import strategies as st

from muster.placement.search.choices import choose

Runs = Sequence[tuple[int, int]]
RUNS = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3)), max_size=6)


def defined(runs: Runs, need: int) -> list[tuple[int, ...]]:
    """All numbers from each run that add up, no run before those of its kind are used up; the most of the first."""
    ways = product(*(range(length, -1, -1) for _, length in runs))
    return [way for way in ways if sum(way) == need and _is_in_turn(runs, way)]


def _is_in_turn(runs: Runs, way: tuple[int, ...]) -> bool:
    is_open: Counter[int] = Counter()
    for (kind, length), count in zip(runs, way, strict=True):
        if count and is_open[kind]:
            return False
        is_open[kind] += count < length
    return True


@given(RUNS, st.integers(0, 8))
def test_choices_are_those_of_the_definition_in_its_order(runs: list[tuple[int, int]], need: int) -> None:
    """X3: without the runs behind the last one that is touched."""
    found = [one + (0,) * (len(runs) - len(one)) for one in choose(runs, need)]
    assert found == defined(runs, need)


class Counted(Sequence[tuple[int, int]]):
    """Runs that count how often one of them is looked at."""

    def __init__(self, runs: list[tuple[int, int]]) -> None:
        self.runs, self.looks = runs, 0

    def __len__(self) -> int:
        return len(self.runs)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(self.runs)

    def __getitem__(self, i):  # type: ignore[no-untyped-def]
        self.looks += 1
        return self.runs[i]


def test_a_choice_among_many_runs_does_not_look_at_all_of_them() -> None:
    """X7: a search pays one step for a choice, so a thousand of them may not cost a thousand walks over all pods."""
    runs = Counted([(i % 5, 1) for i in range(20_000)])
    assert len(list(islice(choose(runs, 1_000), 1_000))) == 1_000
    assert runs.looks < 50_000


def test_choices_that_cannot_be_completed_are_not_begun() -> None:
    """X7: a kind of which one is left out gives no more; what is behind it does not count as a way out."""
    runs = Counted([(i % 2, 1) for i in range(200)])
    assert len(list(choose(runs, 190))) == 11
    assert runs.looks < 10_000

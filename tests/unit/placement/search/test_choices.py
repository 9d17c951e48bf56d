"""Choices of pods and children: first choice first, each at the cost of its difference from the one before."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice, product

from hypothesis import given
from hypothesis import strategies as st

from muster.placement.search.choices import choose

Runs = Sequence[tuple[int, int]]
RUNS = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3)), max_size=6)


def defined(runs: Runs, need: int) -> list[tuple[int, ...]]:
    """All counts per run that add up to `need`, a run only after earlier ones of its kind; most of the first first."""
    ways = product(*(range(length, -1, -1) for _, length in runs))
    return [way for way in ways if sum(way) == need and _is_in_order(runs, way)]


def _is_in_order(runs: Runs, way: tuple[int, ...]) -> bool:
    is_open: Counter[int] = Counter()
    for (kind, length), count in zip(runs, way, strict=True):
        if count and is_open[kind]:
            return False
        is_open[kind] += count < length
    return True


@given(RUNS, st.integers(0, 8))
def test_choices_are_those_of_the_definition_in_its_order(runs: list[tuple[int, int]], need: int) -> None:
    """X3: choices leave out the runs after the last one that is used."""
    padded = [choice + (0,) * (len(runs) - len(choice)) for choice in choose(runs, need)]
    assert padded == defined(runs, need)


class Counted(Sequence[tuple[int, int]]):
    """Runs that count how often one of them is read."""

    def __init__(self, runs: list[tuple[int, int]]) -> None:
        self.runs, self.reads = runs, 0

    def __len__(self) -> int:
        return len(self.runs)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(self.runs)

    def __getitem__(self, i):  # type: ignore[no-untyped-def]
        self.reads += 1
        return self.runs[i]


def test_a_choice_among_many_runs_does_not_read_all_of_them() -> None:
    """X7: a search spends one step per choice, so a thousand choices must not walk all pods a thousand times."""
    runs = Counted([(i % 5, 1) for i in range(20_000)])
    assert len(list(islice(choose(runs, 1_000), 1_000))) == 1_000
    assert runs.reads < 50_000


def test_choices_that_cannot_be_completed_are_not_started() -> None:
    """X7: once a choice leaves out an item of a kind, later items of that kind do not count as usable."""
    runs = Counted([(i % 2, 1) for i in range(200)])
    assert len(list(choose(runs, 190))) == 11
    assert runs.reads < 10_000

"""Patterns: the maximal mixes of pods that fit on one node, in whole numbers (X6)."""

from collections.abc import Iterator, Sequence

from muster.placement.budget import Budget, OutOfSteps

Pattern = tuple[int, ...]
MOST_CLASSES = 200  # the recursion would be too deep for more


def mixes(rows: Sequence[Pattern], counts: Sequence[int], free: Pattern, budget: Budget) -> Iterator[Pattern]:
    """Every maximal mix, those with most pods of the first classes first.

    `rows`: the requests of a pod of each class, `counts`: how many pods there are. OutOfSteps: too many to list.
    """
    kinds = len(rows)
    if kinds > MOST_CLASSES:
        raise OutOfSteps
    rest = _rest(rows, counts, len(free))

    def fit(kind: int, left: Pattern) -> int:
        return max(min(have // ask for have, ask in zip(left, rows[kind], strict=True) if ask), 0)

    def is_full(left: Pattern, taken: Pattern) -> bool:
        return not any(counts[kind] > taken[kind] and fit(kind, left) for kind in range(kinds))

    def fill(kind: int, left: Pattern, taken: Pattern) -> Iterator[Pattern]:
        budget.spend()
        if kind == kinds or all(have >= ask for have, ask in zip(left, rest[kind], strict=True)):
            taken = (*taken, *counts[kind:])  # all remaining pods fit
            left = tuple(have - ask for have, ask in zip(left, rest[kind], strict=True))
            if is_full(left, taken):
                yield taken
            return
        for count in range(min(counts[kind], fit(kind, left)), -1, -1):
            yield from fill(
                kind + 1, tuple(have - count * ask for have, ask in zip(left, rows[kind], strict=True)), (*taken, count)
            )

    return fill(0, free, ())


def _rest(rows: Sequence[Pattern], counts: Sequence[int], width: int) -> list[Pattern]:
    """For every class: the total requests of its pods and of all classes after it."""
    totals: list[Pattern] = [(0,) * width]
    for row, count in zip(reversed(rows), reversed(counts), strict=True):
        totals.append(tuple(total + count * ask for total, ask in zip(totals[-1], row, strict=True)))
    return totals[::-1]

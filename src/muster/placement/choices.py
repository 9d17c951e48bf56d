"""Which children of a goal: every choice of as many as it needs, the first choice first (M3)."""

from collections.abc import Iterator, Sequence

from muster.placement.goal import Goal, Kinds, choose


def choices(goal: Goal, kinds: Kinds) -> Iterator[Goal]:
    """The goal with exactly as many children at every branch as it needs, first choice first."""
    if goal.is_leaf:
        yield goal
        return
    runs = _runs([child.kind for child in goal.children])
    for counts in choose(runs, goal.need):
        taken: list[Goal] = []
        at = 0
        for (_, length), count in zip(runs, counts, strict=True):
            taken += goal.children[at : at + count]
            at += length
        for combination in _combined(taken, kinds):
            yield kinds.made(goal, children=combination)


def _combined(children: Sequence[Goal], kinds: Kinds) -> Iterator[tuple[Goal, ...]]:
    """Every combination of the children's own choices."""
    if not children:
        yield ()
        return
    for child in choices(children[0], kinds):
        for rest in _combined(children[1:], kinds):
            yield (child, *rest)


def _runs(kinds: Sequence[int]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for kind in kinds:
        if found and found[-1][0] == kind:
            found[-1] = (kind, found[-1][1] + 1)
        else:
            found.append((kind, 1))
    return found

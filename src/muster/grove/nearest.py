"""The order in which a long list is searched for one that is missing, when its members come one by one.

Members that come in order, forwards or backwards, have one beside them that is missing; so a search from the last one
outwards ends soon, until none is.
"""

from collections.abc import Iterator


def outwards(position: int, count: int) -> Iterator[int]:
    """All positions below `count`, from one of them outwards."""
    yield position
    for distance in range(1, max(position + 1, count - position)):
        yield from (index for index in (position + distance, position - distance) if 0 <= index < count)

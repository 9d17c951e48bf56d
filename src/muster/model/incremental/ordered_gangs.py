"""Gangs in the order of their names, kept in order as they change."""

from bisect import bisect_left

from muster.model.gang.gang import Gang


class OrderedGangs:
    """Gangs by name; equal to sorting them."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._names: list[str] = []  # in order
        self._gangs: list[Gang] = []  # the same places

    def __contains__(self, name: str) -> bool:
        return name in self._known

    def __getitem__(self, name: str) -> Gang:
        if name not in self._known:
            raise KeyError(name)
        return self._gangs[bisect_left(self._names, name)]

    def put(self, name: str, gang: Gang) -> None:
        """Add a gang, or replace it."""
        place = bisect_left(self._names, name)
        if name in self._known:
            self._gangs[place] = gang
            return
        self._known.add(name)
        self._names.insert(place, name)
        self._gangs.insert(place, gang)

    def drop(self, name: str) -> None:
        """Remove a gang, if it is known."""
        if name in self._known:
            self._known.remove(name)
            place = bisect_left(self._names, name)
            del self._names[place], self._gangs[place]

    def in_order(self) -> tuple[Gang, ...]:
        """All of them."""
        return tuple(self._gangs)

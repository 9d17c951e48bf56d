"""A dict of which a copy costs little: both share what neither changes afterwards.

Keys are spread over small dicts. A copy has the same ones; whichever side changes a key first copies that small dict.
"""

from collections.abc import ItemsView, Iterator, Mapping, ValuesView
from itertools import chain
from typing import TypeVar

V = TypeVar("V")
SHARDS = 256  # a power of two
LAST = SHARDS - 1


class ShardedDict(Mapping[str, V]):
    """A dict with text keys, in no particular order."""

    __slots__ = ("_owned", "_shards")

    def __init__(self) -> None:
        self._shards: list[dict[str, V]] = [{} for _ in range(SHARDS)]
        self._owned = bytearray(b"\1") * SHARDS  # 0: a copy has the same small dict

    def copy(self) -> "ShardedDict[V]":
        """A copy: changes of one side are not seen by the other."""
        twin: ShardedDict[V] = ShardedDict.__new__(ShardedDict)
        twin._shards = self._shards.copy()
        self._owned, twin._owned = bytearray(SHARDS), bytearray(SHARDS)
        return twin

    def _to_change(self, name: str) -> dict[str, V]:
        """The small dict of a key, which no copy has."""
        number = hash(name) & LAST
        if not self._owned[number]:
            self._shards[number] = self._shards[number].copy()
            self._owned[number] = 1
        return self._shards[number]

    def __getitem__(self, name: str) -> V:
        return self._shards[hash(name) & LAST][name]

    def get(self, name: str, default: V | None = None) -> V | None:  # type: ignore[override]  # no other default
        """The value, or the default."""
        return self._shards[hash(name) & LAST].get(name, default)

    def __contains__(self, name: object) -> bool:
        return name in self._shards[hash(name) & LAST]

    def __setitem__(self, name: str, value: V) -> None:
        self._to_change(name)[name] = value

    def __delitem__(self, name: str) -> None:
        del self._to_change(name)[name]

    def pop(self, name: str, default: V | None = None) -> V | None:
        """The value, which is gone then, or the default."""
        return self._to_change(name).pop(name, default) if name in self else default

    def __len__(self) -> int:
        return sum(map(len, self._shards))

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(self._shards)

    def items(self) -> ItemsView[str, V]:
        """Every key with its value."""
        return _Items(self)

    def values(self) -> ValuesView[V]:
        """Every value."""
        return _Values(self)


class _Items(ItemsView[str, V]):
    _mapping: ShardedDict[V]

    def __iter__(self) -> Iterator[tuple[str, V]]:
        return chain.from_iterable(shard.items() for shard in self._mapping._shards)


class _Values(ValuesView[V]):
    _mapping: ShardedDict[V]

    def __iter__(self) -> Iterator[V]:
        return chain.from_iterable(shard.values() for shard in self._mapping._shards)

"""The Python API, as CONTRACT states it. Thin: every function hands over to the part that does the work."""

import os
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from muster.api import codec
from muster.api.objects import Objects
from muster.cluster.files import MOST_MIB, sources
from muster.errors import InputError
from muster.rules.around import Around
from muster.rules.check import check
from muster.rules.problem import Problem

_around = lru_cache(maxsize=4)(Around)  # many objects are judged against the same surroundings

__all__ = ["Objects", "Problem", "load", "objects", "validate"]


def load(*paths: str | os.PathLike[str], max_file_mib: int = MOST_MIB) -> Objects:
    """Objects from files, folders, or `-`; InputError names file, document and path."""
    read = (document for source in sources(paths, max_file_mib) for document in codec.read(source.data, source.name))
    return codec.objects(read)


def objects(raws: Iterable[Mapping[str, Any]]) -> Objects:
    """Objects from plain dicts; `List` kinds are unfolded."""
    found: list[codec.Document] = []
    for i, raw in enumerate(raws):
        if not isinstance(raw, Mapping):
            raise InputError(f"object {i}: expected a dict, got {type(raw).__name__}")
        found += codec.unfold(dict(raw), f"object {i}")
    return codec.objects(found)


def validate(raw: Any, old: Any = None, around: Objects | None = None) -> list[Problem]:
    """Every problem of a PodGroup, Queue or Topology; as an update where `old` is given. Never raises."""
    return list(check(raw, old, _around(around)))

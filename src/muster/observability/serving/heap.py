"""Gives memory back to the system: glibc keeps what was freed, for as long as the process lives."""

import ctypes
import gc
from collections.abc import Callable
from functools import cache


@cache
def _malloc_trim() -> Callable[[int], int] | None:
    """Of glibc; None: another C library, which has none."""
    return getattr(ctypes.CDLL(None), "malloc_trim", None)


def release_freed_memory() -> None:
    """Collects garbage first: transports and their protocols refer to each other. Takes some tens of milliseconds."""
    gc.collect()
    if (trim := _malloc_trim()) is not None:
        trim(0)

"""Step lines with fewer samples: what a picture of a few hundred columns can show stays as it was.

A line is cut into equal intervals of time. Each keeps its first, lowest, highest and last sample, so no peak is lost
and every interval begins and ends at its true value.
"""

from collections.abc import Sequence
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

Column = Sequence[float] | NDArray[np.float64]


class StepLine(TypedDict):
    """A line that keeps each value until the next time."""

    t: list[float | None]
    v: list[float | None]  # None: not a number


def downsample(times: Column, values: Column, intervals: int, decimals: int = 3) -> StepLine:
    """The line without repeated values, with at most four samples in each interval."""
    moments, amounts = np.asarray(times, dtype=float), np.asarray(values, dtype=float)
    if not len(moments):
        return {"t": [], "v": []}
    kept = changes(amounts)
    if len(kept) > 4 * intervals:
        kept = kept[extremes(moments[kept], amounts[kept], intervals)]
    return {"t": plain_numbers(moments[kept], decimals), "v": plain_numbers(amounts[kept], 3)}


def changes(values: NDArray[np.float64]) -> NDArray[np.intp]:
    """Samples that differ from the one before, with the first and the last."""
    is_kept = np.ones(len(values), dtype=bool)
    is_kept[1:-1] = values[1:-1] != values[:-2]
    return np.flatnonzero(is_kept)


def extremes(times: NDArray[np.float64], values: NDArray[np.float64], intervals: int) -> NDArray[np.intp]:
    """First, lowest, highest and last sample of each interval, in the order of time."""
    width = (times[-1] - times[0]) / intervals or 1.0
    interval = np.minimum(((times - times[0]) / width).astype(np.int64), intervals - 1)
    by_value = np.lexsort((values, interval))
    first = np.flatnonzero(np.diff(interval, prepend=-1))
    last = np.append(first[1:], len(times)) - 1
    return np.unique(np.concatenate((first, last, by_value[first], by_value[last])))


def plain_numbers(values: NDArray[np.float64], decimals: int) -> list[float | None]:
    """Numbers as short as JSON can write them: whole ones without a point, None for what is not a number."""
    return [
        None if number != number or number in (np.inf, -np.inf) else int(number) if number == int(number) else number
        for number in np.round(values, decimals).tolist()
    ]

"""The state over time as columns, and cycles as rows: both bounded, whatever the horizon is.

Rule 1: a timeline that grows too long keeps, of each of many equal intervals, the first and the last row and those
where a watched column is lowest and highest: no peak of it is lost, and every row that stays is as it was. Rule 2:
where there are too many cycles, two rows become one that adds them up: sums over all rows stay exact.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from muster.reporting.simulation.downsample import extremes

Frame = dict[str, list[Any]]  # columns of equal length, by name
MOST_ROWS = 20_000
ROWS_PER_INTERVAL = 20  # of those that a timeline is cut into
WATCHED = ("waiting_gangs", "pending_pods", "idle_gpus", "stranded_gpus")
MOST_CYCLE_ROWS = 4_096
SUMMED = ("plans", "waiting", "bindings", "evictions", "searches", "steps", "unknown")
CYCLE_COLUMNS = ("at_seconds", "gangs", *SUMMED)  # when the first of them began, and the most gangs of one


def new_frame(*columns: str) -> Frame:
    """A frame without rows."""
    return {name: [] for name in columns}


def keep_rows(frame: Frame, rows: Sequence[int]) -> None:
    """Leaves only these rows."""
    for name, column in frame.items():
        frame[name][:] = [column[row] for row in rows]


class Timeline:
    """The state after every moment at which something happened."""

    def __init__(self, *columns: str) -> None:
        self.frame = new_frame("at_seconds", *columns)

    def __len__(self) -> int:
        return len(self.frame["at_seconds"])

    def put(self, row: Mapping[str, Any]) -> None:
        """The state at a moment; a second one of the same moment replaces the first."""
        times = self.frame["at_seconds"]
        is_same_moment = bool(times) and times[-1] == row["at_seconds"]
        for name, value in row.items():
            if is_same_moment:
                self.frame[name].pop()
            self.frame[name].append(value)

    def thin(self, most_rows: int = MOST_ROWS) -> list[int] | None:
        """Drops rows where there are too many; returns which stay, None: all do."""
        if len(self) <= most_rows:
            return None
        intervals = most_rows // ROWS_PER_INTERVAL
        times = np.asarray(self.frame["at_seconds"], dtype=float)
        columns = (np.asarray(self.frame[name], dtype=float) for name in WATCHED)
        kept: list[int] = np.unique(np.concatenate([extremes(times, one, intervals) for one in columns])).tolist()
        keep_rows(self.frame, kept)
        return kept


class CycleHistory:
    """A row for every plan; beyond a limit, a row for every two, four, …."""

    def __init__(self) -> None:
        self.frame = new_frame(*CYCLE_COLUMNS)
        self.cpu_seconds: list[float] = []  # of the plans of a row; differs from run to run
        self.plans_per_row = 1

    def put(self, at_seconds: float, gangs: int, cpu_seconds: float, **sums: int) -> None:
        """A plan was made."""
        plans = self.frame["plans"]
        if not plans or plans[-1] >= self.plans_per_row:
            self._append(at_seconds)
        self.frame["gangs"][-1] = max(self.frame["gangs"][-1], gangs)
        for name, amount in {"plans": 1, **sums}.items():
            self.frame[name][-1] += amount
        self.cpu_seconds[-1] += cpu_seconds
        if len(plans) > MOST_CYCLE_ROWS:
            self._halve()

    def _append(self, at_seconds: float) -> None:
        self.frame["at_seconds"].append(at_seconds)
        for name in ("gangs", *SUMMED):
            self.frame[name].append(0)
        self.cpu_seconds.append(0.0)

    def _halve(self) -> None:
        """Every two rows become one."""
        self.plans_per_row *= 2
        for name in SUMMED:
            self.frame[name][:] = map(sum, _pairs(self.frame[name]))
        self.frame["gangs"][:] = map(max, _pairs(self.frame["gangs"]))
        self.frame["at_seconds"][:] = self.frame["at_seconds"][::2]
        self.cpu_seconds[:] = map(sum, _pairs(self.cpu_seconds))


def _pairs(column: Sequence[Any]) -> list[Sequence[Any]]:
    """Two at a time; the last may be alone."""
    return [column[i : i + 2] for i in range(0, len(column), 2)]

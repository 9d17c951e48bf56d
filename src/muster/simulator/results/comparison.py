"""Two simulations of the same arrivals, gang by gang: differences are paired, so that the noise of arrivals cancels."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from muster.errors import InputError
from muster.simulator.results.figures import Figures, percentile
from muster.simulator.results.result import Result

SAME_SECONDS = 0.001  # waits that differ by less are the same


class MeasuredDifferences(Struct, frozen=True, eq=False):
    """Another scenario against the first one."""

    base: str  # name of the first scenario
    other: str
    figures: Figures

    def to_dict(self) -> dict[str, Any]:
        """For programs."""
        return {"base": self.base, "other": self.other, **self.figures}


def compare_results(results: Sequence[Result]) -> list[MeasuredDifferences]:
    """Every result against the first. InputError: they have no gang in common that arrives at the same time."""
    base, *others = results
    return [_compare(base, other) for other in others]


def _compare(base: Result, other: Result) -> MeasuredDifferences:
    rows, other_rows = _rows(base), _rows(other)
    pairs = [
        (rows[name], other_rows[name])
        for name in rows
        if name in other_rows and rows[name]["arrived_seconds"] == other_rows[name]["arrived_seconds"]
    ]
    if not pairs and rows and other_rows:
        raise InputError(
            f"`{base.scenario.name}` and `{other.scenario.name}` have no arrivals in common",
            hint="compare scenarios with the same seed, workload names and arrivals",
        )
    figures = {
        "pairs": len(pairs),
        "unpaired": len(rows) + len(other_rows) - 2 * len(pairs),
        "startedOnlyInBase": sum(_is_started(one) and not _is_started(two) for one, two in pairs),
        "startedOnlyInOther": sum(_is_started(two) and not _is_started(one) for one, two in pairs),
        "waitSeconds": _differences(pairs, "wait_seconds"),
        "waitedSeconds": _differences(pairs, "waited_seconds"),
        "fullSizeSeconds": _differences(pairs, "full_size_seconds"),
        "finishedSeconds": _differences(pairs, "finished_seconds"),
    }
    return MeasuredDifferences(base.scenario.name, other.scenario.name, figures)


Row = Mapping[str, Any]


def _rows(result: Result) -> dict[str, Row]:
    columns = list(result.gangs)
    return {row[0]: dict(zip(columns, row, strict=True)) for row in zip(*result.gangs.values(), strict=True)}


def _is_started(row: Row) -> bool:
    return row["wait_seconds"] is not None


def _differences(pairs: Sequence[tuple[Row, Row]], column: str) -> Figures:
    """Other minus base, of gangs that have the value in both; less is better."""
    known = [two[column] - one[column] for one, two in pairs if one[column] is not None and two[column] is not None]
    figures: Figures = {
        "count": len(known),
        "less": sum(difference <= -SAME_SECONDS for difference in known),
        "more": sum(difference >= SAME_SECONDS for difference in known),
    }
    if known:
        ordered = sorted(known)
        figures["mean"] = round(sum(known) / len(known), 3)
        figures |= {f"p{percent}": round(percentile(ordered, percent), 3) for percent in (5, 50, 95)}
    return figures

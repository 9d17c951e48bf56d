"""`python -m tests.support.history.skewed_muster FILE ...`: `muster` with a wall clock that is wrong.

The file holds by how many seconds, and is read at every look at the clock, so that the clock jumps while muster runs.
The monotonic clock is right: Linux never lets it jump.
"""

import sys
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

from muster.cli import main
from muster.cli.assemble import control_plane
from muster.scheduler import loop


def skewed(path: Path) -> type[datetime]:
    """A `datetime` whose `now` is wrong by what the file says."""

    class SkewedDatetime(datetime):
        """Only what is asked of it differs."""

        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Any:
            """The wrong time, as a plain datetime."""
            return datetime.now(tz) + timedelta(seconds=float(path.read_text(encoding="ascii") or 0))

    return SkewedDatetime


if __name__ == "__main__":
    wrong = skewed(Path(sys.argv.pop(1)))
    for module in (loop, control_plane):  # where `muster run` looks at the clock
        vars(module)["datetime"] = wrong
    main.main()

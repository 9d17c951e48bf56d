"""The reference is made from the code. `make golden` rewrites it; read the diff before you commit it."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from checks.reference import api, cli, reasons

from muster.config import reference
from muster.observability import metric_table

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


PAGES = {
    "api": api.reference,
    "cli": cli.reference,
    "config": reference.reference,
    "metrics": metric_table.reference,
    "reasons": reasons.reference,
}


@pytest.mark.parametrize(("name", "made"), PAGES.items())
def test_the_reference_is_that_of_the_code(name: str, made: Callable[[], str]) -> None:
    """Whoever adds a setting, a metric, an option or a field documents it by doing so."""
    path = REFERENCE / f"{name}.md"
    if os.environ.get("MUSTER_GOLDEN") == "write":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(made(), encoding="utf-8")
    assert path.read_text(encoding="utf-8") == made(), f"{path.name} has changed; `make golden` rewrites it"

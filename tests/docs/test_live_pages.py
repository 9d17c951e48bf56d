"""Tutorials work: their commands run in order against `muster up`, and print what the page shows."""

import shutil
from pathlib import Path

import pytest

from tests.e2e.kubectl import MISSING
from tests.support.doc_pages import DOCS, page_name
from tests.support.live_page import Step, live_commands, run_page

TAUGHT = [DOCS / "quick-start.md", *sorted((DOCS / "tutorials").glob("*.md"))]
LIVE = [page for page in TAUGHT if live_commands(page)]


@pytest.mark.parametrize("page", LIVE, ids=page_name)
def test_the_commands_of_a_page_work_on_an_embedded_cluster(page: Path, tmp_path: Path) -> None:
    """A page that no longer works is worse than none."""
    if shutil.which("kubectl") is None and any("kubectl" in command for command, _ in live_commands(page)):
        pytest.skip(MISSING)
    for step in run_page(page, tmp_path):
        assert step.is_as_shown, f"$ {step.command}\n{step.printed}\nthe page shows:\n{step.shown}"


@pytest.mark.parametrize(
    ("shown", "printed", "is_same"),
    [
        ("a  b\n", "a b\n", True),
        ("a …\n", "a 5s\n", True),
        ("…\nc\n", "a\nb\nc\n", True),
        ("a\n", "a\nb\n", False),
        ("a b\n", "a c\n", False),
        ("", "error\n", False),
    ],
)
def test_what_a_page_shows_is_compared(shown: str, printed: str, is_same: bool) -> None:
    """Widths of columns do not matter, `…` is any text, and everything else does."""
    assert Step("", shown, printed).is_as_shown is is_same

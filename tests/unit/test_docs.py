"""The documentation names files and links that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_the_architecture_page_names_modules_that_exist() -> None:
    """It follows one pod file by file; a module that moved must move there, too."""
    text = (ROOT / "docs/architecture.md").read_text()
    named = set(re.findall(r"`([a-z_]+/[a-z_/]+(?:\.py)?)`", text))
    source = ROOT / "src/muster"
    missing = {
        name
        for name in named
        if not (source / name).exists() and not (source / f"{name}.py").exists() and not (ROOT / name).exists()
    }
    assert named
    assert missing == set()

"""The documentation names files and links that exist."""

import re
from pathlib import Path

import pytest

from tests.support.doc_pages import PAGES, ROOT, page_name

CODE = re.compile(r"```.*?```|`[^`\n]*`(?!\])", re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    """Anchors are checked where the site is built (tests/docs/test_site.py)."""
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", CODE.sub("", page.read_text()))
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

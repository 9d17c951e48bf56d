"""The documentation site: built strictly, complete, and independent of the network."""

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

pytest.importorskip("mkdocs", reason="the dependency group `docs` is not installed")

from mkdocs.commands.build import build
from mkdocs.config import load_config

from tests.support.doc_pages import DOCS, ROOT

LOADED = {("script", "src"), ("link", "href"), ("img", "src"), ("iframe", "src"), ("source", "src"), ("use", "href")}


class Loads(HTMLParser):
    """Collects what a browser loads with a page."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [value for name, value in attrs if value and (tag, name) in LOADED]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` builds it: a link or an anchor that leads nowhere fails the build."""
    folder = tmp_path_factory.mktemp("site")
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setenv("NO_MKDOCS_2_WARNING", "1")
    try:
        config = load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder))
        assert config.strict
        build(config)
    finally:
        monkeypatch.undo()
    return folder


def test_every_page_is_in_the_site_and_in_its_navigation(site: Path) -> None:
    """A page that only its author knows of is of little use."""
    home = (site / "index.html").read_text(encoding="utf-8")
    for page in DOCS.rglob("*.md"):
        address = page.relative_to(DOCS).with_suffix(".html").as_posix()
        assert (site / address).is_file()
        assert f'href="{address}"' in home or address == "index.html", f"{address} is not in the navigation"


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    """The site works in a cluster without internet."""
    for page in site.rglob("*.html"):
        loads = Loads()
        loads.feed(page.read_text(encoding="utf-8"))
        assert [address for address in loads.addresses if re.match(r"(\w+:)?//", address)] == [], page
    for sheet in site.rglob("*.css"):
        assert re.findall(r"(?:@import|url\()\s*[\"']?(?:https?:)?//", sheet.read_text(encoding="utf-8")) == [], sheet


def test_search_knows_every_verb_reason_and_tutorial(site: Path) -> None:
    """What people look for first; without a server, too."""
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    titles = {entry["title"] for entry in index["docs"]}
    assert {"muster plan", "NoDomain", "PodGroup spec"} <= titles
    locations = {entry["location"].partition("#")[0] for entry in index["docs"]}
    assert {f"tutorials/{page.stem}.html" for page in (DOCS / "tutorials").glob("*.md")} <= locations
    assert not any(location.startswith("source/") for location in locations)
    assert (site / "search" / "search_index.js").is_file()


def test_links_that_leave_the_pages_lead_to_the_file(site: Path) -> None:
    """The rules name their tests, and the tests are a click away."""
    rules = (site / "reference" / "rules.html").read_text(encoding="utf-8")
    tests = set(re.findall(r'href="(\.\./source/tests/[^"]+)"', rules))
    assert tests
    assert all((site / "reference" / test).is_file() for test in tests)


def pictures() -> Iterator[Path]:
    return (path for path in (DOCS / "pictures").glob("*.svg") if path.stem not in ("logo", "favicon"))


@pytest.mark.parametrize("picture", sorted(pictures()), ids=lambda path: path.stem)
def test_a_picture_follows_the_colours_of_the_page(picture: Path, site: Path) -> None:
    """Drawn into a page, with its colours as variables that both schemes of the site give."""
    svg, style = picture.read_text(encoding="utf-8"), (DOCS / "stylesheets" / "site.css").read_text(encoding="utf-8")
    used = set(re.findall(r"var\((--\w[\w-]*)", svg))
    assert used
    for scheme in ("default", "slate"):
        block = re.search(rf'\[data-md-color-scheme="{scheme}"\] \.picture svg \{{(.*?)\}}', style, re.DOTALL)
        assert block is not None
        assert used <= set(re.findall(r"(--[\w-]+):", block[1]))
    assert any(svg in page.read_text(encoding="utf-8") for page in site.rglob("*.html")), "no page shows it"

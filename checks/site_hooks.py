"""Hooks of the documentation site (mkdocs.yml).

Rule 1: a page reads the same in the repository and on the site. So links that leave docs/ lead to a page with that
file, and pictures are drawn into the page, where they follow its colours. Rule 2: no page is left out of the
navigation. MkDocs passes what an event is about by keyword.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
DOCS, SOURCE = "docs/", "source/"
BESIDE = {"changelog.md": "CHANGELOG.md", "contributing.md": "CONTRIBUTING.md"}  # pages that are not in docs/
LINK = re.compile(r"\]\((?P<target>[^)#:\s]+)(?P<anchor>#[^)\s]*)?\)")
PICTURE = re.compile(r'<img alt="(?P<alt>[^"]*)" src="[^"]*?(?P<name>[\w-]+\.svg)"\s*/?>')
NUMBERED = re.compile(r"(\d{4})-.*")
LANGUAGES = {".py": "python", ".yaml": "yaml", ".json": "json", ".sh": "sh"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages that are not in docs/, and one for every file there that a page links to."""
    for uri, path in BESIDE.items():
        files.append(File.generated(config, uri, content=(ROOT / path).read_text(encoding="utf-8")))
    pages = [(file.src_uri, file.content_string) for file in files.documentation_pages()]
    linked = {path for uri, text in pages for path in _linked_paths(uri, text)}
    for path in sorted(path for path in linked if _uri_of(path).startswith(SOURCE) and (ROOT / path).is_file()):
        page = File.generated(config, _uri_of(path), content=_source_page(path), inclusion=InclusionLevel.NOT_IN_NAV)
        files.append(page)
    config.nav = _fill(config.nav or [], files, set(_named(config.nav or [])))
    return files


def on_nav(nav: Navigation, **_: object) -> Navigation:
    """Numbers decisions the same way, however their titles do."""
    for page in nav.pages:
        if numbered := NUMBERED.fullmatch(PurePosixPath(page.file.src_uri).stem):
            title = page.file.content_string.partition("\n")[0]
            page.title = re.sub(r"^# [\d.:·\s]*", f"{numbered[1]} ", title)
    return nav


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Leads links to where the site has what they name."""
    uri = page.file.src_uri

    def lead(link: re.Match[str]) -> str:
        path = _resolve(uri, link["target"])
        if path.startswith(DOCS) and uri not in BESIDE:
            return link[0]
        return f"]({os.path.relpath(_uri_of(path), PurePosixPath(uri).parent)}{link['anchor'] or ''})"

    return markdown if uri.startswith(SOURCE) else LINK.sub(lead, markdown)


def on_page_content(html: str, **_: object) -> str:
    """Draws SVG pictures into the page."""

    def draw(image: re.Match[str]) -> str:
        svg = (ROOT / "docs/pictures" / image["name"]).read_text(encoding="utf-8")
        return f'<span class="picture" role="img" aria-label="{image["alt"]}">{svg}</span>'

    return PICTURE.sub(draw, html)


# links ----------------------------------------------------------------------------------------------------------------


def _linked_paths(uri: str, text: str) -> Iterator[str]:
    return (_resolve(uri, link["target"]) for link in LINK.finditer(text))


def _resolve(uri: str, target: str) -> str:
    """The path in the repository that a link of a page names."""
    home = PurePosixPath(BESIDE.get(uri, f"{DOCS}{uri}")).parent
    return os.path.normpath(home / target)


def _uri_of(path: str) -> str:
    """The page, or the file, of the site for a path of the repository."""
    beside = {path: uri for uri, path in BESIDE.items()}
    if path.startswith(DOCS):
        return path.removeprefix(DOCS)
    return beside.get(path, f"{SOURCE}{path}.md")


def _source_page(path: str) -> str:
    language = LANGUAGES.get(PurePosixPath(path).suffix, "text")
    text = (ROOT / path).read_text(encoding="utf-8").rstrip("\n")
    head = "---\nsearch:\n  exclude: true\nhide: [toc]\n---\n"
    return f"{head}# `{path}`\n\n``````{language}\n{text}\n``````\n"


# navigation -----------------------------------------------------------------------------------------------------------


def _named(entries: Any) -> Iterator[str]:
    """Every path that the navigation names."""
    if isinstance(entries, str):
        yield entries
    for entry in entries if isinstance(entries, list) else entries.values() if isinstance(entries, dict) else ():
        yield from _named(entry)


def _fill(entries: list[Any], files: Files, named: set[str]) -> list[Any]:
    """The navigation with each `folder/` replaced by the pages of that folder that it does not name."""
    filled: list[Any] = []
    for entry in entries:
        if isinstance(entry, dict):
            titled = entry.items()
            filled.append({t: _fill(inner, files, named) if isinstance(inner, list) else inner for t, inner in titled})
        elif str(entry).endswith("/"):
            pages = (file.src_uri for file in files.documentation_pages() if file.src_uri.startswith(entry))
            filled += sorted(uri for uri in pages if uri not in named)
        else:
            filled.append(entry)
    return filled

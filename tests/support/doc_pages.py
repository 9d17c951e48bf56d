"""Pages of the documentation, and the code blocks in them.

A `console` block holds commands (`$ ...`) and what they print; a YAML block whose first line is a comment with a name
(`# team-a.yaml`) is the file of that name for the commands of its page.
"""

import re
import shlex
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS.rglob("*.md")])
FENCE = re.compile(r"^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
FILE_NAME = re.compile(r"# ([\w.-]+\.yaml)\n")
LIVE_VERBS = ("up", "run", "snapshot")
LIVE_OPTIONS = ("--kubeconfig", "--context")


class CodeBlock(NamedTuple):
    """A block of code, and where it stands."""

    page: Path
    line: int
    language: str
    text: str

    @property
    def commands(self) -> list[str]:
        """What a reader types."""
        lines = self.text.replace("\\\n", " ").splitlines()
        return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]

    @property
    def is_run_on_files(self) -> bool:
        """Whether every command is a verb of muster on files: its output is the same everywhere."""
        return bool(self.commands) and all(map(_is_on_files, self.commands))

    @property
    def file_name(self) -> str:
        """The file that it is; empty: none."""
        named = FILE_NAME.match(self.text)
        return named[1] if named else ""

    def __str__(self) -> str:
        return f"{page_name(self.page)}:{self.line}"


def _is_on_files(command: str) -> bool:
    program, verb, *words = [*shlex.split(command), ""]
    return program == "muster" and verb not in LIVE_VERBS and not any(word.startswith(LIVE_OPTIONS) for word in words)


def page_name(page: Path) -> str:
    """A page as a test names it."""
    return page.relative_to(ROOT).as_posix()


def blocks_of(page: Path) -> list[CodeBlock]:
    """Every block of a page that names its language."""
    text = page.read_text(encoding="utf-8")
    return [
        CodeBlock(page, text.count("\n", 0, fence.start()) + 1, fence["language"], fence["text"])
        for fence in FENCE.finditer(text)
    ]


def blocks(*languages: str) -> list[CodeBlock]:
    """The blocks of all pages in these languages."""
    return [block for page in PAGES for block in blocks_of(page) if block.language in languages]


def folder_for(page: Path, folder: Path) -> Path:
    """A folder in which the commands of a page work: the examples, and the files that the page shows."""
    for shared in ("examples", "conformance", "deploy", "scenarios"):
        (folder / shared).symlink_to(ROOT / shared)
    for block in blocks_of(page):
        if block.file_name:
            (folder / block.file_name).write_text(block.text, encoding="utf-8")
    return folder


def each(code_blocks: list[CodeBlock]) -> pytest.MarkDecorator:
    """One test for each block."""
    return pytest.mark.parametrize("block", code_blocks, ids=str)

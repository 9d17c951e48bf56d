"""Pages show real runs: what a console block prints is what its commands print. `make golden` rewrites them."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.doc_pages import FENCE, PAGES, CodeBlock, blocks_of, folder_for, page_name

RUN = [page for page in PAGES if any(block.is_run_on_files for block in blocks_of(page))]


def show(command: str, folder: Path) -> str:
    """What a reader sees: both streams, as a terminal mixes them."""
    done = subprocess.run(
        [sys.executable, "-m", "muster.cli.main", *shlex.split(command)[1:]],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        check=False,
        timeout=120,
    )
    return done.stdout


@pytest.mark.parametrize("page", RUN, ids=page_name)
def test_a_page_shows_real_runs(page: Path, tmp_path: Path) -> None:
    """Every console block whose commands read files; tests/docs/test_live_pages.py runs those on clusters."""
    folder = folder_for(page, tmp_path)

    def run_again(fence: re.Match[str]) -> str:
        block = CodeBlock(page, 0, fence["language"], fence["text"])
        if block.language != "console" or not block.is_run_on_files:
            return fence[0]
        return "```console\n" + "".join(f"$ {command}\n{show(command, folder)}" for command in block.commands) + "```"

    shown = FENCE.sub(run_again, page.read_text(encoding="utf-8"))
    if os.environ.get("MUSTER_GOLDEN") == "write":
        page.write_text(shown, encoding="utf-8")
    assert shown == page.read_text(encoding="utf-8"), "the page shows other output; `make golden` rewrites it"

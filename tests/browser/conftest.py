"""A browser for each module, and a page that may load nothing but the file it opens.

A module and not the session: while a synchronous Playwright is open, its event loop runs in this thread, and tests
that bring their own loop could not start.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.browser.opened_report import ReportOpener
from tests.support.chromium import FLAGS, HOW_TO_GET_IT, find_chromium


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Headless Chromium; without one the tests skip."""
    path = find_chromium()
    if path is None:
        pytest.skip(HOW_TO_GET_IT)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture
def opener(chromium: Browser, tmp_path: Path) -> Iterator[ReportOpener]:
    """Opens reports; at the end no page may have failed or asked a network."""
    reports = ReportOpener(chromium, tmp_path)
    yield reports
    reports.close()
    assert (reports.problems, reports.foreign_requests) == ([], [])


@pytest.fixture(scope="module")
def artefacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where screenshots stay after the run: MUSTER_ARTEFACTS, or the temporary folder that pytest keeps."""
    folder = Path(os.environ.get("MUSTER_ARTEFACTS") or tmp_path_factory.mktemp("screenshots"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder

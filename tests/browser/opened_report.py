"""Reports opened from a disk, and what a browser shows of them."""

import base64
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Locator, Page, Request

from muster.reporting.simulation.render import render
from muster.reporting.simulation.report import SimulationReport

Scheme = Literal["light", "dark"]

# Pixels of a picture that are close to a colour, and how many colours it has.
COUNT_PIXELS = """async ([picture, wanted]) => {
    const bytes = Uint8Array.from(atob(picture), (letter) => letter.charCodeAt(0));
    const bitmap = await createImageBitmap(new Blob([bytes], {type: "image/png"}));
    const canvas = new OffscreenCanvas(bitmap.width, bitmap.height), context = canvas.getContext("2d");
    context.drawImage(bitmap, 0, 0);
    const {data} = context.getImageData(0, 0, bitmap.width, bitmap.height), colors = new Set();
    let close = 0;
    for (let i = 0; i < data.length; i += 4) {
        colors.add((data[i] << 16) | (data[i + 1] << 8) | data[i + 2]);
        close += wanted.every((value, channel) => Math.abs(data[i + channel] - value) < 12);
    }
    return [close, colors.size];
}"""


class ReportOpener:
    """Opens reports in pages of their own, and notes what must not happen."""

    def __init__(self, browser: Browser, folder: Path) -> None:
        self._browser, self._folder = browser, folder
        self._contexts: list[BrowserContext] = []
        self.problems: list[str] = []  # errors and warnings of the console, and exceptions
        self.foreign_requests: list[str] = []  # whatever is not the file itself

    def open(self, report: SimulationReport, scheme: Scheme = "light", width: int = 1280) -> Page:
        """The page, once it is drawn."""
        path = self._folder / f"report-{len(self._contexts)}.html"
        path.write_text(render(report), encoding="utf-8")
        page = self._new_page(scheme, width)
        page.on("console", self._note)
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("request", lambda request: self._note_request(request, path.as_uri()))
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready=true]", state="attached")
        page.wait_for_function("document.querySelectorAll('svg.chart:empty').length === 0")
        return page

    def _new_page(self, scheme: Scheme = "light", width: int = 1280) -> Page:
        context = self._browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900})
        context.set_default_timeout(20_000)
        self._contexts.append(context)
        return context.new_page()

    def _note(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(message.text)

    def _note_request(self, request: Request, own: str) -> None:
        if request.url.split("#")[0] != own:
            self.foreign_requests.append(request.url)

    def count_pixels(self, picture: bytes, color: tuple[int, int, int]) -> tuple[int, int]:
        """How many pixels of a picture are close to a colour, and how many colours there are."""
        page = self._new_page()
        close, colors = page.evaluate(COUNT_PIXELS, [base64.b64encode(picture).decode(), list(color)])
        page.close()
        return close, colors

    def close(self) -> None:
        """Closes every page."""
        for context in self._contexts:
            context.close()


def color_of(page: Page, variable: str) -> tuple[int, int, int]:
    """A colour of the style sheet, as the page applies it."""
    text: str = page.evaluate("name => getComputedStyle(document.documentElement).getPropertyValue(name)", variable)
    value = text.strip().removeprefix("#")
    return int(value[0:2], 16), int(value[2:4], 16), int(value[4:6], 16)


def canvas_colors(canvas: Locator) -> int:
    """How many colours a canvas has."""
    counted: Any = canvas.evaluate("""canvas => {
        const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height), colors = new Set();
        for (let i = 0; i < data.length; i += 4) colors.add(data.slice(i, i + 4).join());
        return colors.size;
    }""")
    return int(counted)

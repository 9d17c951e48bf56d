"""The dashboard in pages of a browser, what must not happen there, and what a person or a screen reader meets."""

import base64
import os
from functools import cache
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, expect

from tests.browser.opened_report import Scheme

AXE = Path(__file__).parents[1] / "support" / "axe_core" / "axe.min.js"
PICTURES = Path(__file__).parent / "pictures"
expect.set_options(timeout=20_000)  # on machines with other work, too
NOT_LOADED = "Failed to load resource"  # what a browser says of any response that is not a success
FIND_VIOLATIONS = """async () => (await axe.run(document, {resultTypes: ["violations"]})).violations
    .filter((one) => ["serious", "critical"].includes(one.impact))
    .map((one) => `${one.id}: ${one.nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(" | ")}`)"""

# The share of cells of 8 x 8 pixels whose mean colour differs by more than a little: text may be set in another font.
COMPARE_PICTURES = """async (pictures) => {
    const read = async (picture) => {
        const bytes = Uint8Array.from(atob(picture), (letter) => letter.charCodeAt(0));
        const bitmap = await createImageBitmap(new Blob([bytes], {type: "image/png"}));
        const canvas = new OffscreenCanvas(Math.ceil(bitmap.width / 8), Math.ceil(bitmap.height / 8));
        const context = canvas.getContext("2d");
        context.imageSmoothingQuality = "high";
        context.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
        return [canvas.width, canvas.height, context.getImageData(0, 0, canvas.width, canvas.height).data];
    };
    const [[width, height, one], [otherWidth, otherHeight, other]] = await Promise.all(pictures.map(read));
    if (width !== otherWidth || height !== otherHeight) return 1;
    let differing = 0;
    const isOther = (at) => Math.abs(one[at] - other[at]) > 40;
    for (let i = 0; i < one.length; i += 4) differing += isOther(i) || isOther(i + 1) || isOther(i + 2);
    return differing / (width * height);
}"""


class DashboardOpener:
    """Opens the dashboard, and notes errors of the page and requests that go elsewhere."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._contexts: list[BrowserContext] = []
        self.problems: list[str] = []
        self.are_refusals_expected = False  # a test that cuts or refuses requests sets it

    def open(
        self, base: str, address: str = "", scheme: Scheme = "light", width: int = 1280, height: int = 800
    ) -> Page:
        """The page with its first view."""
        page = self.open_bare(base, address, scheme, width, height)
        page.wait_for_selector("main[data-view]")
        if page.locator(".map-surface").count():
            page.wait_for_selector(".map-surface[data-drawn]")
        return page

    def open_bare(
        self, base: str, address: str = "", scheme: Scheme = "light", width: int = 1280, height: int = 800
    ) -> Page:
        """The page, whatever it shows first."""
        context = self._browser.new_context(
            color_scheme=scheme, viewport={"width": width, "height": height}, reduced_motion="reduce", timezone_id="UTC"
        )
        context.set_default_timeout(30_000)
        self._contexts.append(context)
        page = context.new_page()
        page.on("console", self._note)
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("request", lambda request: self._note_request(request, base))
        page.goto(f"{base}/{address}")
        return page

    def _note(self, message: ConsoleMessage) -> None:
        is_expected = self.are_refusals_expected and message.text.startswith(NOT_LOADED)
        if message.type in ("error", "warning") and not is_expected:
            self.problems.append(message.text)

    def _note_request(self, request: Request, base: str) -> None:
        if not request.url.startswith((f"{base}/", "blob:", "data:")):
            self.problems.append(f"asks {request.url}")

    def close(self) -> None:
        """Closes every page."""
        while self._contexts:
            self._contexts.pop().close()


@cache
def _axe() -> str:
    return AXE.read_text(encoding="utf-8")


def find_violations(page: Page) -> list[str]:
    """What axe-core calls serious or critical: the rule, and where."""
    page.evaluate(_axe())
    violations: list[str] = page.evaluate(FIND_VIOLATIONS)
    return violations


def differing_share(page: Page, name: str, picture: bytes) -> float:
    """How much of a picture differs from the approved one; with MUSTER_GOLDEN=write it becomes the approved one."""
    path = PICTURES / f"{name}.png"
    if os.environ.get("MUSTER_GOLDEN") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(picture)
    both = [base64.b64encode(data).decode() for data in (path.read_bytes(), picture)]
    share: Any = page.context.browser.new_page().evaluate(COMPARE_PICTURES, both) if page.context.browser else 1
    return float(share)


def fits_in_width(page: Page) -> bool:
    """Whether nothing but regions that scroll by themselves is wider than the window."""
    fits: bool = page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    return fits

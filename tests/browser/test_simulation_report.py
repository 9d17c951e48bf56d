"""The report of a simulation, opened from a disk in headless Chromium."""

from pathlib import Path

import pytest
from msgspec.structs import replace
from playwright.sync_api import Page, expect

from muster.reporting.simulation.report import ReportVariant, SimulationReport
from tests.browser.opened_report import ReportOpener, Scheme, canvas_colors, color_of
from tests.support.made_up_report import make_large_report, make_report

SECTIONS = [
    "Headline figures",
    "Utilisation",
    "Gangs over time",
    "Fragmentation",
    "Waits",
    "Topology",
    "Queue shares",
    "Longest waits",
    "Gangs",
    "Settings and seed",
]
HOSTILE = (
    "</script><script>window.hit = 1</script>",
    "<img src=x onerror='window.hit = 1'>",
    "\"'><svg onload=window.hit=1>",
    "{{script}}",
    "\u202egnp.exe",
    "__proto__",
)


@pytest.fixture(scope="module")
def report() -> SimulationReport:
    return make_report()


@pytest.fixture(scope="module")
def compared() -> SimulationReport:
    return make_report(variants=2)


def slider_value(page: Page) -> int:
    return int(page.locator("#topology input[type=range]").input_value())


def test_the_report_shows_every_section_and_its_figures(
    opener: ReportOpener, report: SimulationReport, artefacts: Path
) -> None:
    page = opener.open(report)
    assert page.title() == report.title
    assert page.locator("main h2").all_inner_texts() == SECTIONS
    assert page.locator("nav a").all_inner_texts() == SECTIONS
    assert "600 gangs in 7 d, seed 7" in page.locator("#subtitle").inner_text()
    assert page.locator(".card .amount").count() == len(report.variants[0].figures)
    page.screenshot(path=artefacts / "report.png", full_page=True)


def test_every_chart_is_drawn(opener: ReportOpener, report: SimulationReport) -> None:
    """By text: lines with axes that have labels. By pixels: the colours of the lines are there."""
    page = opener.open(report)
    for chart in page.locator("figure > svg.chart").all():
        assert chart.locator("path.line").count() >= 1
        assert chart.locator("text").count() >= 6
        assert chart.get_attribute("aria-label")
    blue = color_of(page, "--c1")
    for chart in page.locator("#utilisation figure > svg.chart").all():
        close, colors = opener.count_pixels(chart.screenshot(), blue)
        assert close > 300
        assert colors > 20
    assert canvas_colors(page.locator("#topology canvas")) > 10
    labels = page.locator("#utilisation figure").first.locator("svg.chart text").all_text_contents()
    assert {"0", "200", "400", "600", "Mon 2 Mar"} <= set(labels)


def test_the_slider_follows_the_keyboard(opener: ReportOpener, report: SimulationReport) -> None:
    page = opener.open(report)
    slider, words = page.locator("#topology input[type=range]"), page.locator("#topology output")
    tiles, before = page.locator("#topology .tiles"), slider_value(page)
    slider.focus()
    page.keyboard.press("ArrowRight")
    assert slider_value(page) == before + 1
    page.keyboard.press("Home")
    expect(words).to_have_text("Monday 2 March 2026, 00:00 UTC, day 1")
    assert slider.get_attribute("aria-valuetext") == words.inner_text()
    assert "0 of 64" in tiles.inner_text()
    page.keyboard.press("End")
    expect(words).to_have_text("Monday 9 March 2026, 00:00 UTC, day 8")
    assert "64 of 64" in tiles.inner_text()


def test_the_slider_follows_the_mouse_and_the_heat_map(opener: ReportOpener, report: SimulationReport) -> None:
    page = opener.open(report)
    slider, canvas = page.locator("#topology input[type=range]"), page.locator("#topology canvas")
    box = slider.bounding_box()
    assert box
    slider.click(position={"x": box["width"] * 0.25, "y": box["height"] / 2})
    assert slider_value(page) == pytest.approx(0.25 * 199, abs=4)
    picture = canvas.bounding_box()
    assert picture
    canvas.click(position={"x": picture["width"] * 0.75, "y": 5})
    assert slider_value(page) == pytest.approx(0.75 * 199, abs=2)
    assert "Saturday 7 March" in page.locator("#topology output").inner_text()


def test_the_heat_map_plays_and_stops(opener: ReportOpener, report: SimulationReport) -> None:
    page = opener.open(report)
    before = slider_value(page)
    page.get_by_role("button", name="Play").click()
    page.wait_for_function("start => Number(document.querySelector('#topology input').value) > start + 1", arg=before)
    page.get_by_role("button", name="Pause").click()
    assert page.get_by_role("button", name="Play").is_visible()


def test_a_rack_without_nodes_that_take_pods_says_so(opener: ReportOpener, report: SimulationReport) -> None:
    page = opener.open(report)
    page.locator("#topology input[type=range]").fill("80")
    assert page.locator("#topology .tile.away").inner_text().split() == ["rack-02", "takes", "no", "pods"]


def test_charts_answer_mouse_and_keyboard(opener: ReportOpener, report: SimulationReport) -> None:
    page = opener.open(report)
    chart = page.locator("#utilisation svg.chart[role=img]").first
    chart.hover()
    tooltip = page.locator("#tooltip")
    expect(tooltip).to_contain_text("of capacity allocated")
    expect(tooltip).to_contain_text("Thursday 5 March 2026")
    page.keyboard.press("Escape")
    expect(tooltip).to_be_hidden()
    chart.focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#spoken")).to_contain_text("allocated")
    expect(tooltip).to_be_visible()
    chart.blur()
    expect(tooltip).to_be_hidden()


def test_every_chart_has_a_table(opener: ReportOpener, report: SimulationReport) -> None:
    page = opener.open(report)
    for figure in page.locator("figure").all():
        figure.locator("details > summary").click()
        expect(figure.locator("details tbody tr").nth(3)).to_be_attached()


def test_controls_and_pictures_have_names(opener: ReportOpener, compared: SimulationReport) -> None:
    page = opener.open(compared)
    nameless = page.evaluate("""() => [
        ...[...document.querySelectorAll("[role=img], input")].filter((node) => !node.getAttribute("aria-label")),
        ...[...document.querySelectorAll("button, summary, a")].filter((node) => !node.textContent.trim()),
    ].map((node) => node.outerHTML.slice(0, 80))""")
    assert nameless == []
    identifiers = page.evaluate("[...document.querySelectorAll('[id]')].map((node) => node.id)")
    assert len(identifiers) == len(set(identifiers))


def test_gangs_are_searched_sorted_and_paged(opener: ReportOpener, report: SimulationReport) -> None:
    page = opener.open(report)
    gangs, status = page.locator("#gangs"), page.locator("#gangs [role=status]")
    expect(status).to_have_text("1 to 25 of 600 gangs")
    page.get_by_role("button", name="Next").click()
    expect(status).to_have_text("26 to 50 of 600 gangs")
    gangs.get_by_role("button", name="Gang", exact=True).click()
    names = gangs.locator("tbody th").all_inner_texts()
    assert names == sorted(names)
    assert gangs.locator("th[aria-sort=ascending]").inner_text() == "Gang"
    gangs.get_by_role("searchbox").fill("notebook-00")
    assert all("notebook-00" in name for name in gangs.locator("tbody th").all_inner_texts())
    gangs.get_by_role("searchbox").fill("no such gang")
    expect(status).to_have_text("no gang matches")


def test_the_longest_waits_come_with_reasons(opener: ReportOpener, report: SimulationReport) -> None:
    page = opener.open(report)
    waits = page.locator(".longest > li")
    assert waits.count() == 10
    longest = report.variants[0].longest_waits[0]
    assert longest.gang in waits.first.inner_text()
    assert longest.stretches[0].reason in waits.first.inner_text()
    assert waits.first.locator("rect").count() == len(longest.stretches)


@pytest.mark.parametrize(("scheme", "is_dark"), [("light", False), ("dark", True)])
def test_the_page_is_light_or_dark_as_the_reader_prefers(
    opener: ReportOpener, compared: SimulationReport, artefacts: Path, scheme: Scheme, is_dark: bool
) -> None:
    page = opener.open(compared, scheme)
    paper, ink = color_of(page, "--paper"), color_of(page, "--ink")
    assert (sum(paper) < sum(ink)) == is_dark
    close, _ = opener.count_pixels(page.screenshot(path=artefacts / f"compared-{scheme}.png"), paper)
    assert close > 1280 * 900 / 2
    assert _contrast(paper, ink) > 7
    assert all(_contrast(paper, color_of(page, f"--c{i}")) > 3 for i in range(1, 9))
    assert _contrast(paper, color_of(page, "--soft")) > 4.5


def _contrast(one: tuple[int, int, int], other: tuple[int, int, int]) -> float:
    """By the formula of the Web Content Accessibility Guidelines."""

    def luminance(color: tuple[int, int, int]) -> float:
        red, green, blue = (c / 12.92 if (c := v / 255) <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for v in color)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_on_paper_it_is_light_without_controls_and_nothing_is_cut_off(
    opener: ReportOpener, report: SimulationReport, artefacts: Path
) -> None:
    page = opener.open(report, "dark")
    printed = page.pdf(path=artefacts / "report.pdf", format="A4")
    assert printed.startswith(b"%PDF")
    assert 3 <= printed.count(b"/Type /Page\n") <= 20
    page.emulate_media(media="print", color_scheme="dark")
    page.set_viewport_size({"width": 703, "height": 1000})  # A4 without its margins
    assert (color_of(page, "--paper"), color_of(page, "--ink")) == ((255, 255, 255), (0, 0, 0))
    assert not page.locator("nav").is_visible()
    assert not page.get_by_role("searchbox").is_visible()
    cut = page.evaluate("""() => [...document.querySelectorAll("td, th, figure, .card")]
        .filter((node) => node.getBoundingClientRect().right > innerWidth + 1)
        .map((node) => node.textContent.slice(0, 40))""")
    assert cut == []


@pytest.mark.parametrize("width", [360, 768, 1920])
def test_the_page_fits_its_window(opener: ReportOpener, compared: SimulationReport, width: int) -> None:
    page = opener.open(compared, width=width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_variants_are_compared_in_words_and_gang_by_gang(opener: ReportOpener, compared: SimulationReport) -> None:
    page = opener.open(compared)
    assert page.locator("main h2").all_inner_texts() == [SECTIONS[0], "Paired differences", *SECTIONS[1:]]
    figures = page.locator("#figures")
    assert "strict order (baseline)" in figures.inner_text()
    assert "better)" in figures.inner_text()
    pairs = page.locator("#pairs")
    assert pairs.locator("figure > svg rect").count() == 2 * 16
    assert "Gangs whose wait shrank most" in pairs.inner_text()
    assert page.locator("#settings .differs").inner_text().split() == ["overtaking", "off", "on"]
    assert page.locator("#topology canvas").count() == 2


def test_hostile_names_are_shown_and_never_run(opener: ReportOpener, report: SimulationReport) -> None:
    """Names come from traces and clusters of others."""
    variant = report.variants[0]
    names = [HOSTILE[i % len(HOSTILE)] + str(i) for i in range(len(variant.gangs.name))]
    assert variant.heat
    hostile = replace(
        variant,
        name=HOSTILE[0],
        settings=[(text, text) for text in HOSTILE],
        gangs=replace(variant.gangs, name=names, queue=names, class_name=names, reason=names),
        heat=replace(variant.heat, domains=[HOSTILE[i % len(HOSTILE)] for i in range(len(variant.heat.domains))]),
        queues=[replace(queue, queue=HOSTILE[0]) for queue in variant.queues],
        longest_waits=[replace(wait, gang=HOSTILE[1]) for wait in variant.longest_waits],
    )
    page = opener.open(SimulationReport(title=HOSTILE[0], note=HOSTILE[1], variants=[hostile, variant]))
    for summary in page.locator("summary").all():
        summary.click()
    assert page.evaluate("window.hit") is None
    assert page.locator("script").count() == 2
    assert page.locator("img").count() == 0
    assert page.title() == HOSTILE[0]
    assert HOSTILE[1] in page.locator("#note").inner_text()
    assert "\\u202egnp.exe" in page.locator("#settings").inner_text()


def test_a_simulation_in_which_nothing_happened_has_a_report(opener: ReportOpener) -> None:
    empty = ReportVariant(name="empty", seed="0", horizon_seconds=0)
    page = opener.open(SimulationReport(title="Nothing", variants=[empty, replace(empty, name="same")]))
    assert "The cluster has no topology." in page.locator("#topology").inner_text()
    assert "No gang waited." in page.locator("#longest").inner_text()


def test_without_a_date_times_are_days_since_the_start(opener: ReportOpener, report: SimulationReport) -> None:
    page = opener.open(replace(report, variants=[replace(report.variants[0], begins_at=None)]))
    page.locator("#topology input[type=range]").fill("0")
    expect(page.locator("#topology output")).to_have_text("day 1, 00:00 after its start")
    assert "2 d" in page.locator("#utilisation svg.chart text").all_text_contents()


def test_a_large_report_draws_little(opener: ReportOpener, artefacts: Path) -> None:
    """Of 10,000 gangs and 100,000 samples a browser gets as much to draw as its window can show."""
    page = opener.open(make_large_report())
    page.screenshot(path=artefacts / "large.png")
    expect(page.locator("#gangs [role=status]")).to_have_text("1 to 25 of 10,000 gangs")
    assert page.locator("*").count() < 5_000
    longest = page.evaluate(
        "Math.max(...[...document.querySelectorAll('path')].map((path) => path.getAttribute('d').length))"
    )
    assert longest < 40_000

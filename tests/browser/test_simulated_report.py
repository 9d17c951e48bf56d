"""The report of a real simulation in headless Chromium: what only the engine gives it."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from muster.reporting.simulation.report import SimulationReport
from muster.simulator.results.report_input import describe_results
from muster.simulator.simulate import simulate
from tests.browser.opened_report import ReportOpener
from tests.support.simulations import scenario_of, workload


@pytest.fixture(scope="module")
def simulated() -> SimulationReport:
    """Elastic gangs that grow when others end, on two racks."""
    arrivals = {"count": 12, "interval": {"kind": "constant", "value": "4m"}}
    scenario = scenario_of(
        cluster={"nodes": 4, "gpus": 8, "topology": "rack=2"},
        workloads=[workload("grow", pods=8, gpus=2, gang={"minPods": 3}, arrivals=arrivals)],
    )
    return describe_results([simulate(scenario, Path())], with_times=True)


def test_the_planner_and_the_growth_of_gangs_are_drawn(
    opener: ReportOpener, simulated: SimulationReport, artefacts: Path
) -> None:
    """Steps and Unknown of plans over time, CPU where it was measured, and the time to full size."""
    page = opener.open(simulated)
    titles = " ".join(page.locator("#planner figcaption").all_inner_texts())
    assert all(words in titles for words in ("Steps of search", "Share of Unknown", "CPU of a plan"))
    assert page.locator("#planner svg.chart path.line").count() == 3
    expect(page.locator("#waits")).to_contain_text("Elastic gangs: from arrival to full size")
    expect(page.locator("#waits")).to_contain_text("never full")
    page.screenshot(path=artefacts / "simulated.png", full_page=True)


def test_means_are_those_of_the_figures(opener: ReportOpener, simulated: SimulationReport) -> None:
    """What a chart says on average is what `muster simulate` prints."""
    page = opener.open(simulated)
    (variant,) = simulated.variants
    shares = {figure.name: figure.amount for figure in variant.figures}
    share = shares["nvidia.com/gpu allocated"]
    assert share is not None
    expect(page.locator("#utilisation figure").first).to_contain_text(f"{share:.0%}"[:2])

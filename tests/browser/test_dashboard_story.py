"""The dashboard of a running `muster up`, as a person watches it: a gang forms, loses a node and heals; one waits."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from muster.simulator.datacenter import dynamo
from tests.browser.opened_dashboard import DashboardOpener, find_violations
from tests.support.up_cluster import UpCluster

GANG = "inference/dynamo"
TOPOLOGY = "datacenter-topology"
EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def up(chromium: Browser, tmp_path: Path) -> Iterator[UpCluster]:
    """A cluster of 16 nodes in 4 racks; its gangs are created by the tests."""
    cluster = UpCluster(tmp_path, "--nodes", "16", "--topology", "zone=2,rack=4")
    cluster.start()
    yield cluster
    cluster.stop()


@pytest.fixture
def opener(chromium: Browser) -> Iterator[DashboardOpener]:
    """Opens the dashboard; at the end no page may have failed or asked another server."""
    dashboards = DashboardOpener(chromium)
    yield dashboards
    dashboards.close()
    assert dashboards.problems == []


def training(name: str, pods: int, level: str = "") -> Iterator[dict[str, Any]]:
    """A gang of pods with 8 GPUs each, as a Job that brings its pods back."""
    constraint = {"topologyConstraint": {"topology": TOPOLOGY, "requiredTopologyLevel": level}} if level else {}
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "research"}}
    yield {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "research"},
        "spec": {"minMember": pods, **constraint},
    }
    for i in range(pods):
        yield {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"{name}-{i}", "namespace": "research", "annotations": {"pod-group-name": name}},
            "spec": {
                "schedulerName": "muster",
                "containers": [{"name": "main", "image": "train", "resources": {"limits": {"nvidia.com/gpu": "8"}}}],
            },
        }


def fact(page: Page, name: str) -> str:
    return page.locator(".facts div", has=page.locator("dt", has_text=name)).locator("dd").inner_text()


def test_a_gang_forms_loses_a_node_and_heals_before_your_eyes(up: UpCluster, opener: DashboardOpener) -> None:
    """Nothing is reloaded: every step arrives by the stream."""
    page = opener.open(up.dashboard)
    expect(page.locator("#connection")).to_contain_text("live")
    expect(page.locator(".panel")).to_contain_text("No gang holds nvidia.com/gpu here")

    up.create(dynamo())
    expect(page.locator(".gang-list")).to_contain_text(GANG)
    expect(page.locator(".panel .gang-list .number")).to_have_text("40")

    page.locator(".gang-list a", has_text=GANG).click()
    expect(page).to_have_url(re.compile(r"#/gangs/inference/dynamo$"))
    expect(page.locator(".headline")).to_contain_text("Scheduled")
    expect(page.locator(".headline")).to_contain_text("40 of 40 pods placed")
    assert fact(page, "Core and extra") == "28 core, 12 extra"
    leaf = page.locator("table.tree tr", has_text="prefill-0")
    expect(leaf).to_contain_text("8/8")
    expect(leaf.locator("a")).to_have_text(re.compile(r"^z\d/r\d$"))
    expect(page.locator("table.tree tr", has_text="decode-0")).to_contain_text("4 pods")

    places = up.pods_on("inference")
    lost = places["prefill-0-0"]
    up.annotate_node(lost, "true")
    expect(page.locator(".headline")).not_to_contain_text("40 of 40 pods placed")
    page.get_by_role("link", name="Map", exact=True).click()
    page.get_by_text("The map as a table").click()
    page.locator(".map-table a", has_text=re.compile(r"^z0$")).click()
    page.goto(f"{up.dashboard}/#/nodes/{lost}")
    expect(page.locator("main strong.bad")).to_contain_text("lost")
    expect(page.locator("main")).to_contain_text("No pods that you may see")

    page.goto(f"{up.dashboard}/#/gangs/inference/dynamo")
    up.replace_pods(raw for raw in dynamo() if places.get(raw["metadata"]["name"]) == lost)
    expect(page.locator(".headline")).to_contain_text("40 of 40 pods placed")
    assert lost not in page.locator("#pods + .scroll").inner_text()
    page.get_by_role("link", name="Decisions").click()
    expect(page.locator(".feed")).to_contain_text(GANG)
    expect(page.locator(".feed")).to_contain_text("bound to")
    up.annotate_node(lost, None)
    page.goto(f"{up.dashboard}/#/nodes/{lost}")
    expect(page.locator("main strong.bad")).to_have_count(0)


def test_a_gang_that_does_not_fit_says_why_and_what_helps(up: UpCluster, opener: DashboardOpener) -> None:
    up.create(training("llama", 6, level="rack"))
    page = opener.open(up.dashboard, "#/gangs")
    row = page.locator("table.gangs tbody tr", has_text="llama")
    expect(row).to_contain_text("NoDomain")
    row.get_by_role("link", name="llama", exact=True).click()
    expect(page.get_by_role("heading", name="Why it waits")).to_be_visible()
    expect(page.locator(".statement")).to_contain_text("no rack holds the gang: needs 6 pods together")
    expect(page.locator(".helps")).to_contain_text("minMember: 4")
    expect(page.locator("pre.lines")).to_contain_text("hint:")
    page.locator(".helps").get_by_role("link", name="What if?").first.click()
    expect(page.locator(".result")).to_contain_text("podgroup research/llama: minMember 6 → 4")
    expect(page.locator(".result")).to_contain_text("better")
    page.get_by_role("link", name="Queues").click()
    expect(page.locator(".waiting")).to_contain_text("research/llama")
    expect(page.locator(".waiting")).to_contain_text("no rack holds the gang")
    page.get_by_role("link", name="Gangs").first.click()
    page.get_by_label("Verdict").select_option("Scheduled")
    expect(page.locator(".count")).to_have_text("0 of 1 gang")


def test_a_what_if_compares_and_changes_nothing(up: UpCluster, opener: DashboardOpener) -> None:
    up.create(training("llama", 4, level="rack"))
    page = opener.open(up.dashboard, "#/gangs/research/llama")
    expect(page.locator(".headline")).to_contain_text("4 of 4 pods placed")
    before = up.pods_on("research")
    page.get_by_role("link", name="What if", exact=True).click()
    page.get_by_role("combobox", name="Node", exact=True).fill(before["llama-0"])
    page.get_by_role("button", name="Add").click()
    expect(page.locator(".chips")).to_contain_text(f"drain node {before['llama-0']}")
    page.get_by_role("button", name="Plan it").click()
    expect(page.locator(".result")).to_contain_text(f"node {before['llama-0']} is drained")
    expect(page.locator(".result table", has_text="before").first).to_contain_text("gangs Scheduled")
    expect(page.locator(".result")).to_contain_text("research/llama")
    expect(page.locator(".side-by-side canvas")).to_have_count(2)
    assert find_violations(page) == []
    shared = opener.open(up.dashboard, page.url.split("/", 3)[3])
    expect(shared.locator(".result")).to_contain_text("is drained")
    assert up.pods_on("research") == before


def test_one_goes_back_in_time_and_returns(up: UpCluster, opener: DashboardOpener) -> None:
    page = opener.open(up.dashboard, "#/gangs")
    expect(page.locator(".count")).to_have_text("0 gangs")
    early = int(re.findall(r"cycle (\d+)", page.locator("#connection").inner_text())[0])
    up.create(training("llama", 2))
    expect(page.locator("table.gangs tbody")).to_contain_text("Scheduled")
    page.evaluate(f"location.hash = '#/gangs?cycle={early}'")
    expect(page.locator(".count")).to_have_text("0 gangs")
    expect(page.locator("#timeline output")).to_contain_text(f"cycle {early} at")
    up.create(training("later", 2))
    expect(page.locator("#connection")).to_contain_text("live")
    expect(page.locator(".count")).to_have_text("0 gangs")
    page.get_by_role("button", name="Back to live").click()
    expect(page.locator(".count")).to_have_text("2 gangs")
    assert "cycle=" not in page.url


def test_the_page_says_that_it_is_cut_off_and_resumes_with_the_next_process(
    up: UpCluster, opener: DashboardOpener
) -> None:
    """The next process knows nothing of the first one: its cluster is new, and the page shows that one."""
    opener.are_refusals_expected = True
    up.create(training("llama", 2))
    page = opener.open(up.dashboard, "#/gangs")
    expect(page.locator("table.gangs tbody")).to_contain_text("Scheduled")
    up.stop()
    expect(page.locator("#banner")).to_contain_text("The connection is lost since")
    expect(page.locator("#connection")).to_contain_text("reconnecting since")
    expect(page.locator("table.gangs tbody")).to_contain_text("llama")
    up.start()
    expect(page.locator("#banner")).to_be_hidden()
    expect(page.locator("#connection")).to_contain_text("live")
    expect(page.locator(".count")).to_have_text("0 gangs")
    up.create(training("second", 1))
    expect(page.locator("table.gangs tbody")).to_contain_text("second")


def test_a_pod_clique_set_leads_to_its_gangs_and_back(
    chromium: Browser, opener: DashboardOpener, tmp_path: Path
) -> None:
    cluster = UpCluster(tmp_path, "--nodes", "16", str(EXAMPLES / "grove" / "agentic-pipeline.yaml"))
    cluster.start()
    try:
        page = opener.open(cluster.dashboard, "#/gangs")
        page.get_by_role("link", name="agents-0", exact=True).click()
        page.get_by_role("link", name="PodCliqueSet inference/agents").click()
        expect(page.locator(".count")).to_have_text(re.compile("^6 "))
        page.get_by_role("link", name="agents-1", exact=True).click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("agents-1")
        opener.close()
    finally:
        cluster.stop()

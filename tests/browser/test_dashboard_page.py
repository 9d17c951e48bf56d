"""The page of the dashboard on made-up rows: addresses, keyboard, search, time, access, and every view for everyone."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.opened_dashboard import DashboardOpener, differing_share, find_violations, fits_in_width
from tests.browser.opened_report import Scheme
from tests.support.made_up_dashboard import MadeUpDashboard, serve
from tests.support.made_up_rows import GPU, MadeUpCluster

VIEWS = {
    "map": "#/map",
    "rack": "#/map?at=zone-0/block-0/rack-2",
    "lit": "#/map?gang=team-3/train-003",
    "gangs": "#/gangs",
    "gang": "#/gangs/team-4/serve-004",
    "node": "#/nodes/node-00003",
    "queues": "#/queues",
    "what-if": "#/what-if?drain=node-00003&run=1",
    "decisions": "#/decisions",
    "past": "#/map?cycle=1100",
}
TITLES = {"map": "Map", "gangs": "Gangs", "queues": "Queues", "what-if": "What if", "decisions": "Decisions"}
Open = Callable[..., Page]


class Server:
    """A made-up dashboard and its address."""

    def __init__(self, dashboard: MadeUpDashboard, address: str) -> None:
        self.dashboard, self.address = dashboard, address


@pytest.fixture
def server() -> Iterator[Server]:
    dashboard = MadeUpDashboard(MadeUpCluster(160))
    with serve(dashboard) as address:
        yield Server(dashboard, address)


@pytest.fixture
def opener(chromium: Browser) -> Iterator[DashboardOpener]:
    dashboards = DashboardOpener(chromium)
    yield dashboards
    dashboards.close()
    assert dashboards.problems == []


def trail(page: Page) -> list[str]:
    return page.locator(".trail li").all_inner_texts()


# for everyone ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", VIEWS)
def test_no_view_has_a_serious_violation(
    server: Server, opener: DashboardOpener, view: str, scheme: Scheme, artefacts: Path
) -> None:
    """By axe-core: names, roles, contrast, order of headings, regions that scroll."""
    page = opener.open(server.address, VIEWS[view], scheme)
    if view == "what-if":
        expect(page.locator(".result")).to_contain_text("would differ")
    if view == "gang":
        expect(page.locator("#history")).to_be_visible()
    page.screenshot(path=artefacts / f"dashboard-{view}-{scheme}.png")
    assert find_violations(page) == []


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_fits_a_narrow_window(server: Server, opener: DashboardOpener, view: str, artefacts: Path) -> None:
    page = opener.open(server.address, VIEWS[view], width=400, height=850)
    assert page.locator("main h1").count() == 1
    assert fits_in_width(page)
    page.screenshot(path=artefacts / f"dashboard-{view}-narrow.png")


@pytest.mark.parametrize(
    ("name", "address", "scheme"),
    [
        ("map-light", "#/map", "light"),
        ("map-dark", "#/map", "dark"),
        ("rack-light", VIEWS["rack"], "light"),
        ("lit-dark", VIEWS["lit"], "dark"),
    ],
)
def test_the_map_is_drawn_as_approved(
    server: Server, opener: DashboardOpener, name: str, address: str, scheme: Scheme
) -> None:
    """Region by region, with a tolerance for fonts; `MUSTER_GOLDEN=write` approves what is drawn now."""
    page = opener.open(server.address, address, scheme)
    page.wait_for_timeout(200)
    assert differing_share(page, name, page.locator(".map-surface").screenshot()) < 0.03


def test_the_keyboard_alone_reaches_everything(server: Server, opener: DashboardOpener) -> None:
    page = opener.open(server.address)
    page.keyboard.press("Tab")
    expect(page.locator(":focus")).to_have_text("Skip to the view")
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    for _ in range(6):
        page.keyboard.press("Tab")
    expect(page.locator(".map-surface")).to_be_focused()
    page.keyboard.press("Enter")
    assert trail(page) == ["All nodes", "zone-0"]
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    assert trail(page) == ["All nodes", "zone-0", "block-0", "rack-0"]
    page.keyboard.press("ArrowRight")
    assert trail(page)[-1] == "rack-1"
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowRight")
    assert trail(page)[-1] == "node-00017"
    expect(page.locator("#spoken")).to_contain_text("node node-00017: ")
    expect(page.locator(".panel")).to_contain_text("node-00017")
    page.keyboard.press("Escape")
    assert trail(page)[-1] == "rack-1"
    page.keyboard.press("0")
    assert trail(page) == ["All nodes"]
    page.keyboard.press("/")
    expect(page).to_have_url(re.compile("#/gangs"))
    page.keyboard.press("/")
    expect(page.locator("input[type=search]")).to_be_focused()
    page.keyboard.type("serve-004")
    expect(page.locator("table.gangs tbody tr[data-index]")).to_have_count(1)
    page.locator(".scroll.tall").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("serve-004")


def test_the_table_below_the_map_says_the_same(server: Server, opener: DashboardOpener) -> None:
    cluster = server.dashboard.cluster
    page = opener.open(server.address, VIEWS["rack"])
    page.get_by_text("The map as a table").click()
    rows = page.locator(".map-table tbody tr")
    expect(rows).to_have_count(16)
    node = cluster.nodes["node-00033"]
    core = sum(amounts[GPU] for _, state, amounts in node["used"] if state == "core")
    cells = rows.nth(1).locator("th, td").all_inner_texts()
    assert cells[:5] == ["node-00033", "1", "8", cells[3], str(core)]
    assert "lost" in page.locator(".map-table tr", has_text="node-00041").inner_text()


def test_hovering_names_everything(server: Server, opener: DashboardOpener) -> None:
    page = opener.open(server.address, VIEWS["rack"])
    box = page.locator(".map-surface").bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] / 2 - 40, box["y"] + box["height"] / 2)
    tooltip = page.locator("#tooltip")
    expect(tooltip).to_contain_text(re.compile(r"node-000\d\d"))
    expect(tooltip).to_contain_text("zone-0/block-0/rack-2")
    expect(tooltip).to_contain_text("nvidia.com/gpu free")


# the map --------------------------------------------------------------------------------------------------------------


def test_a_click_on_a_device_lights_its_gang_up(server: Server, opener: DashboardOpener) -> None:
    page = opener.open(server.address, "#/map?at=zone-0/block-0/rack-2/node-00040")
    box = page.locator(".ring.focus").bounding_box()
    assert box
    page.mouse.click(box["x"] + box["width"] * 0.12, box["y"] + box["height"] * 0.35)
    expect(page.locator(".trail .chip")).to_be_visible()
    gang = page.locator(".trail .chip bdi").inner_text()
    assert any(gang == use[0] for use in server.dashboard.cluster.nodes["node-00040"]["used"])
    expect(page.locator(".panel")).to_contain_text(gang)
    page.keyboard.press("Escape")
    expect(page.locator(".trail .chip")).to_have_count(0)


def test_only_what_changed_is_drawn_again(server: Server, opener: DashboardOpener) -> None:
    page = opener.open(server.address)
    page.wait_for_timeout(400)
    surface = page.locator(".map-surface")
    before = surface.screenshot()
    whole = int(surface.get_attribute("data-whole") or 0)
    cluster = server.dashboard.cluster
    server.dashboard.publish(nodes={"node-00000": cluster.nodes["node-00000"] | {"used": [], "flags": ["lost"]}})
    expect(surface).to_have_attribute("data-parts", "1")
    assert surface.screenshot() != before
    assert int(surface.get_attribute("data-whole") or 0) == whole


def test_resource_and_topology_can_be_switched(server: Server, opener: DashboardOpener) -> None:
    page = opener.open(server.address)
    page.get_by_label("Resource").select_option("memory")
    expect(page.locator(".panel")).to_contain_text("by memory")
    expect(page.locator(".panel .total")).to_contain_text("80 Ti")
    assert "resource=memory" in page.url


def test_a_node_that_comes_or_goes_moves_tiles(server: Server, opener: DashboardOpener) -> None:
    page = opener.open(server.address)
    expect(page.locator(".panel")).to_contain_text("160 nodes")
    row = server.dashboard.cluster.nodes["node-00000"]
    server.dashboard.publish(nodes={"node-00159": None, "node-x": row | {"domains": {"datacenter": ""}}, "node-y": row})
    expect(page.locator(".panel")).to_contain_text("161 nodes")
    page.get_by_text("The map as a table").click()
    expect(page.locator(".map-table")).to_contain_text("in no domain")


def test_a_hundred_thousand_nodes_are_drawn_as_bars(chromium: Browser, opener: DashboardOpener) -> None:
    dashboard = MadeUpDashboard(MadeUpCluster(100_000, gangs=300), changes_per_second=200)
    with serve(dashboard) as address:
        page = opener.open(address)
        expect(page.locator(".panel")).to_contain_text("100,000 nodes")
        expect(page.locator(".map-surface")).to_have_attribute("data-parts", re.compile("[4-9]"))
        page.evaluate("location.hash = '#/map?at=zone-97/block-5/rack-1/node-99990'")
        expect(page.locator(".panel")).to_contain_text("node-99990")
        opener.close()


# gangs ----------------------------------------------------------------------------------------------------------------


def test_ten_thousand_gangs_scroll_with_few_rows_in_the_page(opener: DashboardOpener) -> None:
    with serve(MadeUpDashboard(MadeUpCluster(16, gangs=10_000))) as address:
        page = opener.open(address, "#/gangs?sort=name")
        expect(page.locator(".count")).to_have_text("10,000 gangs")
        assert page.locator("table.gangs tbody tr[data-index]").count() < 60
        page.locator(".scroll.tall").evaluate("(node) => { node.scrollTop = node.scrollHeight; }")
        expect(page.locator("tr[data-index='9999']")).to_be_visible()
        page.locator("input[type=search]").fill("serve-5001")
        expect(page.locator("table.gangs tbody tr[data-index]")).to_have_count(0)
        page.locator("input[type=search]").fill("-5001")
        expect(page.locator("table.gangs tbody tr[data-index]")).to_have_count(1)
        opener.close()


def test_gangs_are_filtered_and_ordered_by_an_address(server: Server, opener: DashboardOpener) -> None:
    gangs = server.dashboard.cluster.gangs
    page = opener.open(server.address, "#/gangs?namespace=team-1&sort=-size")
    expected = sorted((row["pods"], key) for key, row in gangs.items() if key.startswith("team-1/"))
    names = page.locator("table.gangs a[data-key]").evaluate_all("(links) => links.map((link) => link.dataset.key)")
    assert [gangs[name]["pods"] for name in names] == [pods for pods, _ in reversed(expected)][::-1]
    page.get_by_label("Queue").select_option("batch")
    assert "queue=batch" in page.url
    shared = opener.open(server.address, page.url.split("/", 3)[3])
    assert shared.locator(".count").inner_text() == page.locator(".count").inner_text()


def test_owners_lead_to_their_gangs_and_back(server: Server, opener: DashboardOpener) -> None:
    page = opener.open(server.address, VIEWS["gang"])
    page.get_by_role("link", name="PodCliqueSet team-4/set-1").click()
    expect(page.locator(".chips")).to_contain_text("PodCliqueSet/team-4/set-1")
    page.locator("table.gangs a[data-key]").first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("serve-004")


def test_names_from_elsewhere_are_only_text(server: Server, opener: DashboardOpener) -> None:
    evil = "<img src=x onerror='window.hit = 1'>"
    row = next(iter(server.dashboard.cluster.gangs.values())) | {"message": evil, "verdict": "Waiting", "reason": evil}
    page = opener.open(server.address, "#/gangs")
    server.dashboard.publish(gangs={f"team-0/{evil}": row})
    expect(page.locator("table.gangs")).to_contain_text(evil)
    page.goto(f"{server.address}/#/queues")
    expect(page.locator(".waiting", has_text=evil)).to_be_visible()
    assert page.evaluate("window.hit") is None


def test_an_address_of_no_view_says_so(server: Server, opener: DashboardOpener) -> None:
    """Not even where objects of the language have such a name."""
    page = opener.open(server.address, "#/constructor")
    expect(page.locator("main h1")).to_have_text("There is no such view")


# time and connection --------------------------------------------------------------------------------------------------


def test_time_is_one_step_or_one_slide_away(server: Server, opener: DashboardOpener) -> None:
    page = opener.open(server.address)
    page.get_by_role("button", name="One cycle back").click()
    expect(page.locator("#timeline output")).to_contain_text("cycle 1,199 at")
    page.get_by_label("Cycle that is shown").fill("700")
    expect(page).to_have_url(re.compile("cycle=700"))
    page.get_by_role("link", name="Gangs").click()
    expect(page).to_have_url(re.compile(r"#/gangs\?cycle=700"))
    page.get_by_role("button", name="Back to live").click()
    expect(page.locator("#timeline output")).to_have_text("now: cycle 1,200")
    opener.are_refusals_expected = True
    page.goto(f"{server.address}/#/map?cycle=3")
    expect(page.locator("#timeline .note")).to_contain_text("cycle 3 is not kept")


def test_a_cycle_that_is_not_kept_any_more_is_still_named_while_it_is_viewed(
    server: Server, opener: DashboardOpener
) -> None:
    """The slider cannot be older than the oldest cycle; what is shown is."""
    page = opener.open(server.address, "#/map?cycle=700")
    shown = page.locator("#timeline output")
    expect(shown).to_contain_text("cycle 700 at")
    server.dashboard.publish(cycle=3_000)
    expect(page.get_by_label("Cycle that is shown")).to_have_attribute("min", "2001")
    expect(shown).to_contain_text("cycle 700 at")


def test_a_cut_stream_is_said_and_resumed_where_it_was(server: Server, opener: DashboardOpener) -> None:
    opener.are_refusals_expected = True
    page = opener.open(server.address, "#/nodes/node-00003")
    server.dashboard.is_down = True
    expect(page.locator("#banner")).to_contain_text("The connection is lost since")
    expect(page.locator("#spoken")).to_contain_text("Connection lost")
    assert find_violations(page) == []
    row = server.dashboard.cluster.nodes["node-00003"]
    server.dashboard.publish(nodes={"node-00003": row | {"flags": ["cordoned"]}})
    with page.expect_request(re.compile(r"/api/stream\?after=made-up")):
        page.get_by_role("button", name="Try now").click()
    server.dashboard.is_down = False
    expect(page.locator("#banner")).to_be_hidden()
    expect(page.locator("main strong.bad")).to_contain_text("cordoned")


def test_a_token_is_asked_for_and_kept_for_the_tab_only(opener: DashboardOpener) -> None:
    opener.are_refusals_expected = True
    with serve(MadeUpDashboard(MadeUpCluster(16), token="right")) as address:
        page = opener.open_bare(address, "#/gangs")
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        assert find_violations(page) == []
        page.get_by_label("Bearer token").fill("wrong")
        page.keyboard.press("Enter")
        expect(page.locator("main")).to_contain_text("no valid token")
        page.get_by_label("Bearer token").fill("right")
        page.keyboard.press("Enter")
        expect(page.locator(".count")).to_contain_text("gangs")
        assert page.evaluate("[localStorage.length, document.cookie, location.href.includes('right')]") == [
            0,
            "",
            False,
        ]
        opener.close()


def test_a_what_if_is_sent_as_the_form_says(server: Server, opener: DashboardOpener) -> None:
    page = opener.open(server.address, "#/what-if")
    for kind, values in {
        "drainDomain": ["zone-0/block-1"],
        "minimum": ["team-0/train-000", "workers", "3"],
        "quota": ["research", "12"],
        "addNodes": ["node-00001", "4"],
    }.items():
        page.get_by_label("Suppose you").select_option(kind)
        for control, value in zip(page.locator(".fields input").all(), values, strict=True):
            control.fill(value)
        page.get_by_role("button", name="Add").click()
    page.get_by_role("button", name="Plan it").click()
    expect(page.locator(".result")).to_contain_text("would differ")
    assert server.dashboard.hypotheses == [
        {
            "drain": [],
            "without": [],
            "set": {"team-0/train-000.subGroups.workers.minMember": "3", "queue/research.gpu.quota": "12"},
            "drainDomains": [{"topology": "datacenter", "level": "topology/block", "path": "zone-0/block-1"}],
            "addNodes": {"count": 4, "like": "node-00001"},
        }
    ]


def test_decisions_are_filtered_and_older_ones_read(server: Server, opener: DashboardOpener) -> None:
    page = opener.open(server.address, "#/decisions?kind=evicted")
    expect(page.locator(".feed > li").first).to_contain_text("evicted from")
    assert "bound to" not in page.locator(".feed").inner_text()
    before = page.locator(".feed > li").count()
    page.get_by_role("button", name="Older cycles").click()
    expect(page.locator(".feed > li")).not_to_have_count(before)
    page.locator(".feed a", has_text="cycle").first.click()
    expect(page).to_have_url(re.compile(r"#/map\?cycle=\d+"))

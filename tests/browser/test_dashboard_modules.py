"""Modules of the dashboard's page by themselves: the stream's parser, words, addresses, the layout of tiles."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.support.made_up_dashboard import MadeUpDashboard, serve
from tests.support.made_up_rows import MadeUpCluster

EVENTS = (
    'event: state\r\nid: b:1\r\ndata: {"a":\r\ndata: 1}\r\n\r\n'
    ": a comment\n\nevent: beat\ndata: {}\n\nid: b:2\nevent: change\ndata: é\n\n"
)
PARSE = """async ([text, size]) => {
    const {eventParser} = await import("/page/stream.js"), events = [];
    const feed = eventParser((name, data, id) => events.push([name, data, id]));
    for (let i = 0; i < text.length; i += size) feed(text.slice(i, i + size));
    return events;
}"""
PLACE = """async ([nodes, aspect]) => {
    const {buildTiles, placeTiles} = await import("/page/layout.js");
    const {root, tiles} = buildTiles(new Map(Object.entries(nodes)), "t", "gpu");
    placeTiles(root, aspect);
    const box = ({x, y, w, h}) => [x, y, w, h];
    const flat = (tile) => ({path: tile.path, box: box(tile), sums: [...tile.sums], children: tile.children.map(flat)});
    return flat(root);
}"""


@pytest.fixture(scope="module")
def page(chromium: Browser) -> Iterator[Page]:
    """A page of the same origin as the modules."""
    with serve(MadeUpDashboard(MadeUpCluster(16))) as address:
        opened = chromium.new_page()
        opened.goto(f"{address}/page/icon.svg")
        yield opened
        opened.close()


def call(page: Page, module: str, expression: str) -> Any:
    """The value of an expression in which the module is `m`."""
    return page.evaluate(f"async () => {{ const m = await import('/page/{module}.js'); return {expression}; }}")


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_events_are_whole_however_they_are_cut(page: Page, size: int) -> None:
    """Lines end with CR, LF or both, data may have several lines, and comments are nothing."""
    assert page.evaluate(PARSE, [EVENTS, size]) == [
        ["state", '{"a":\n1}', "b:1"],
        ["beat", "{}", "b:1"],
        ["change", "é", "b:2"],
    ]


@pytest.mark.parametrize(
    ("call_text", "text"),
    [
        ("m.amount(1500, 'milli')", "1.5"),
        ("m.amount(64 * 2 ** 30, 'bytes')", "64 Gi"),
        ("m.amount(1234567, '')", "1,234,567"),
        ("m.quantity('500m')", 0.5),
        ("m.quantity('64Gi')", 64 * 2**30),
        ("m.quantity('unlimited')", None),
        ("m.duration(59.6)", "1 min"),
        ("m.duration(200)", "3 min 20 s"),
        ("m.duration(86400 * 2 + 3600 * 4)", "2 d 4 h"),
        ("m.percent(0.0123)", "1.2 %"),
        ("m.percent(0 / 0)", "–"),
        ("m.milliseconds(3.24)", "3.2 ms"),
        ("m.plural(1, 'gang')", "1 gang"),
        ("m.shortName('topology/rack')", "rack"),
        ("['n10', 'n9', 'n1'].sort(m.byName).join()", "n1,n9,n10"),
    ],
)
def test_values_are_written_for_people(page: Page, call_text: str, text: Any) -> None:
    assert call(page, "format", call_text) == text


@pytest.mark.parametrize("key", ["ns/name", "ns/ü?&#%", "ns/a=b+c d"])
def test_an_address_says_what_it_was_made_of(page: Page, key: str) -> None:
    made = json.dumps(key)
    route = call(
        page,
        "router",
        f"((route) => [route.parts.join('/'), route.params.get('q')])"
        f"(m.parseAddress(m.gangAddress({made}, {{q: {made}}})))",
    )
    assert route == [key, key]


def test_a_colour_is_shared_only_when_all_are_taken(page: Page) -> None:
    colors = call(page, "palette", "Array.from({length: 24}, (_, i) => m.colorOf(`ns/g${i}`))")
    assert sorted(colors[:12]) == list(range(12))
    assert sorted(colors) == sorted([*range(12), *range(12)])


# tiles ----------------------------------------------------------------------------------------------------------------


def node(domain: str, used: int = 0) -> dict[str, Any]:
    uses = [["ns/g", "core", {"gpu": used}]] if used else []
    return {"domains": {"t": domain}, "allocatable": {"gpu": 8}, "flags": [], "used": uses}


def walk(tile: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield tile
    for child in tile["children"]:
        yield from walk(child)


@pytest.mark.parametrize("aspect", [0.5, 1.6, 3.0])
def test_tiles_lie_inside_each_other_and_never_overlap(page: Page, aspect: float) -> None:
    """Domains of unequal size, a node directly below a zone, and nodes that no domain holds."""
    nodes = {f"n{i}": node(f"z{i % 2}/r{i % 7}", used=i % 9) for i in range(61)}
    nodes |= {"alone": node("z0"), "nowhere": node(""), "host": node("z1/r9/host")}
    root = page.evaluate(PLACE, [nodes, aspect])
    for tile in walk(root):
        x, y, width, height = tile["box"]
        for i, child in enumerate(tile["children"]):
            left, top, w, h = child["box"]
            assert x - 1e-6 <= left <= left + w <= x + width + 1e-6
            assert y - 1e-6 <= top <= top + h <= y + height + 1e-6
            for other in tile["children"][:i]:
                ox, oy, ow, oh = other["box"]
                assert left >= ox + ow - 1e-6 or left + w <= ox + 1e-6 or top >= oy + oh - 1e-6 or top + h <= oy + 1e-6
    paths = {tile["path"] for tile in walk(root)}
    assert {"z0/alone", "~/nowhere", "z1/r9/host"} <= paths
    assert root["sums"][:2] == [64, 64 * 8]
    assert root["sums"][3] == sum(i % 9 for i in range(61))

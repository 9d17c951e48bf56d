"""Pictures of concept pages: each page has one, and what the picture of fair shares counts is what muster computes."""

import re
from collections import Counter

from tests.spec.test_fair_shares import asking, machine, shares, team
from tests.support.doc_pages import ROOT

PICTURES = ROOT / "docs/pictures"
CONCEPTS = ROOT / "docs/concepts"
DEVICE = re.compile(r'<rect class="m-(core|extra|idle)" x="(\d+)" y="(\d+)" width="24"')
MIDDLE, CLUSTER = 440, 72  # between the queues, and where the devices of the cluster are


def test_every_concept_page_has_a_picture_and_every_picture_a_page() -> None:
    shown = {
        page.name: re.findall(r"\]\(\.\./pictures/([a-z-]+\.svg)\)", page.read_text(encoding="utf-8"))
        for page in CONCEPTS.iterdir()
    }
    assert [name for name, pictures in shown.items() if not pictures] == []
    drawn = {path.name for path in PICTURES.glob("*.svg")} - {"favicon.svg", "logo.svg"}
    assert {name for pictures in shown.values() for name in pictures} == drawn


def test_the_dashboard_is_shown_where_readers_begin() -> None:
    """A screenshot (tests/support/dashboard_picture.py), small enough for a README."""
    assert (PICTURES / "dashboard.png").stat().st_size < 300_000
    assert "(docs/pictures/dashboard.png)" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert "(../pictures/dashboard.png)" in (ROOT / "docs/guides/dashboard.md").read_text(encoding="utf-8")


def test_the_picture_of_fair_shares_is_true() -> None:
    """Q3: quota (core) and surplus (extra) of each queue; the rest of what its pods ask for waits (idle)."""
    text = (PICTURES / "fair-shares.svg").read_text(encoding="utf-8")
    devices: Counter[tuple[str, str]] = Counter()
    for kind, x, y in DEVICE.findall(text):
        place = "cluster" if int(y) == CLUSTER else "first" if int(x) < MIDDLE else "second"
        devices[place, kind] += 1
    weights = [int(weight) for weight in re.findall(r"overQuotaWeight (\d+)", text)]
    names = ("first", "second")
    teams = [team(name, quota=2, overQuotaWeight=weight) for name, weight in zip(names, weights, strict=True)]
    fair = shares(machine(devices["cluster", "idle"]), *teams, *(asking(name, 6) for name in names))
    for name in names:
        assert devices[name, "core"] == 2
        assert devices[name, "core"] + devices[name, "extra"] == fair[name]
        assert sum(devices[name, kind] for kind in ("core", "extra", "idle")) == 6
        assert f"fair share {fair[name]}" in text

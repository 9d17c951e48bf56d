"""One HTML file: what is in it, and what cannot be."""

import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest
from msgspec.structs import replace

from muster.reporting.simulation.payload import MOST_DOMAINS, MOST_QUEUES, MOST_STRETCHES, choose_unit, describe
from muster.reporting.simulation.render import embed_json, render
from muster.reporting.simulation.report import (
    DomainHeat,
    LongWait,
    QueueColumns,
    ReportVariant,
    SimulationReport,
    TimelineColumns,
    WaitStretch,
)
from tests.support.made_up_report import make_large_report, make_report

EMPTY = ReportVariant(name="empty", seed="0", horizon_seconds=0)
HOSTILE = "</script><script>alert(1)</script><!--<script>{{data}}\u2028&amp;"


class Elements(HTMLParser):
    """Collects what a browser would see."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, str] = {}
        self._open = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._open = f"{tag} {dict(attrs).get('type') or ''}".strip()

    def handle_data(self, data: str) -> None:
        self.texts[self._open] = self.texts.get(self._open, "") + data


def read_data(page: str) -> dict[str, Any]:
    """What the page reads."""
    data: dict[str, Any] = json.loads(Elements(page).texts["script application/json"])
    return data


def only(variant: ReportVariant) -> dict[str, Any]:
    described: dict[str, Any] = describe(SimulationReport(title="one", variants=[variant]))["variants"][0]
    return described


def test_the_file_names_no_address_and_loads_nothing() -> None:
    """It is opened from a disk, sent by mail, and shown where there is no network."""
    page = render(make_report(gangs=60))
    assert not re.search(r"[a-z]+://|@import|url\(|\bfetch\(|XMLHttpRequest|\bimport[ (]", page)
    assert not [attributes for _, attributes in Elements(page).tags if {"src", "srcset", "data"} & attributes.keys()]
    assert [attributes for tag, attributes in Elements(page).tags if tag == "link"] == []


def test_the_policy_allows_only_the_script_and_the_style_of_the_file() -> None:
    tags = Elements(render(make_report(gangs=60))).tags
    policy = next(a["content"] or "" for tag, a in tags if a.get("http-equiv") == "Content-Security-Policy")
    assert re.fullmatch(r"default-src 'none'; script-src 'sha256-\S{44}'; style-src 'sha256-\S{44}'", policy)


def test_the_same_report_gives_the_same_bytes() -> None:
    assert render(make_report(gangs=60)) == render(make_report(gangs=60))


@pytest.mark.parametrize("text", ["</script>", "<!--", "]]>", "\u2028", "&lt;", '"', "\\", "{{script}}"])
def test_embedded_json_cannot_end_its_element_and_means_the_same(text: str) -> None:
    embedded = embed_json({"name": text})
    assert not set("<>&\u2028\u2029") & set(embedded)
    assert json.loads(embedded) == {"name": text}


def test_hostile_names_stay_data() -> None:
    """Names come from traces and clusters of others."""
    report = make_report(gangs=60)
    variant = report.variants[0]
    gangs = replace(variant.gangs, name=[f"{HOSTILE}{name}" for name in variant.gangs.name])
    page = render(SimulationReport(title=HOSTILE, variants=[replace(variant, name=HOSTILE, gangs=gangs)]))
    elements = Elements(page)
    assert [tag for tag, _ in elements.tags].count("script") == 2
    assert read_data(page)["variants"][0]["gangs"]["name"][0].startswith("</script><script>alert(1)</script>")
    assert "{{" not in elements.texts["style"]


def test_names_have_no_control_characters_no_halves_of_characters_and_an_end() -> None:
    variant = replace(EMPTY, name="\u202eevil\x00\ud800", settings=[("long", "x" * 10_000)])
    described = only(variant)
    assert described["name"] == "\\u202eevil\\x00\\ud800"
    assert len(described["settings"][0][1]) < 500


def test_an_empty_simulation_has_a_report() -> None:
    data = read_data(render(SimulationReport(title="nothing", variants=[EMPTY])))
    assert (data["variants"][0]["waits"]["all"]["gangs"], data["pairs"]) == (0, [])


@pytest.mark.parametrize("variants", [1, 3])
def test_ten_thousand_gangs_and_a_hundred_thousand_samples_stay_small(variants: int) -> None:
    report = make_large_report(gangs=10_000, samples=100_000, variants=variants)
    size = len(render(report).encode())
    assert size < 5_000_000
    assert read_data(render(report))["variants"][0]["gangsLeftOff"] == 10_000 - 10_000 // variants


def test_percentiles_are_of_all_gangs_even_where_not_all_are_listed() -> None:
    described = only(make_large_report(gangs=12_000, samples=10).variants[0])
    assert (described["waits"]["all"]["gangs"], described["gangsLeftOff"]) == (12_000, 2_000)


def test_many_queues_are_drawn_by_their_size() -> None:
    timeline = TimelineColumns(at_seconds=[0, 1])
    queues = [
        QueueColumns(queue=f"q{i}", resource="cpu", allocated=[i, i], fair_share=[0, 0]) for i in range(MOST_QUEUES + 6)
    ]
    described = only(replace(EMPTY, timeline=timeline, queues=queues))
    assert (described["queuesLeftOff"], len(described["queues"])) == (6, MOST_QUEUES)
    assert described["queues"][0]["name"] == "q6"


def test_a_heat_map_of_many_domains_is_sampled_with_both_ends() -> None:
    domains, times = 1_500, 900
    rows = [[i % 8] * domains for i in range(times)]
    heat = DomainHeat(
        level="rack",
        domains=[f"rack-{i}" for i in range(domains)],
        at_seconds=list(range(times)),
        used_gpus=rows,
        capacity_gpus=[[8] * domains] * times,
    )
    described = only(replace(EMPTY, heat=heat))["heat"]
    assert (len(described["domains"]), described["domainsLeftOff"]) == (MOST_DOMAINS, 500)
    assert (described["times"][0], described["times"][-1]) == (0, times - 1)
    assert len(described["times"]) * MOST_DOMAINS <= 240_000
    assert described["capacity"][0] == [8] * MOST_DOMAINS
    assert not any(described["capacity"][1:])  # unchanged, so not repeated


def test_of_many_stretches_the_longest_stay_in_the_order_of_time() -> None:
    stretches = [WaitStretch(from_seconds=i * 10, to_seconds=i * 10 + i % 10, reason="full") for i in range(100)]
    wait = LongWait(gang="a/b", queue="q", size=1, gpus=1, waited_seconds=450, stretches=stretches)
    described = only(replace(EMPTY, longest_waits=[wait]))["longest"][0]
    assert (len(described["stretches"]), described["stretchesLeftOff"]) == (MOST_STRETCHES, 100 - MOST_STRETCHES)
    begins = [stretch["from"] for stretch in described["stretches"]]
    assert begins == sorted(begins)


@pytest.mark.parametrize(
    ("resource", "largest", "unit"),
    [
        ("cpu", 96_000, (1000, "cores")),
        ("memory", 2 * 1024**4, (1024**4, "TiB")),
        ("memory", 0, (1, "B")),
        ("nvidia.com/gpu", 8, (1, "GPUs")),
        ("rdma/hca", 8, (1, "")),
    ],
)
def test_amounts_are_in_units_that_people_read(resource: str, largest: float, unit: tuple[float, str]) -> None:
    assert choose_unit(resource, largest) == unit

"""What if over HTTP: the same answer as from Python, one at a time, and given up in the end."""

import asyncio
import threading
from typing import Any

import pytest
from starlette.types import ASGIApp

import muster
from muster.dashboard import what_if_answers
from muster.placement.budget import Cancelled
from tests.support.drawing import draw
from tests.support.factories import pod, podgroup, queue
from tests.support.shown_app import build_app, fetch
from tests.support.shown_cluster import ShownCluster

GPU = "nvidia.com/gpu"
ONE_GPU: dict[str, Any] = {GPU: 1}
PICTURE = """
    z1/r1  a:2 b:2
    z1/r2  c:2
"""


async def shown_cluster() -> ShownCluster:
    shown = ShownCluster(
        *draw(PICTURE),
        queue("default", gpu={"quota": 4}),
        podgroup(minMember=2),
        pod("p-0", on="a", **ONE_GPU),
        pod("p-1", on="a", **ONE_GPU),
    )
    await shown.cycle()
    return shown


async def suppose(app: ASGIApp, question: Any, **headers: str) -> Any:
    sent: dict[str, Any] = {"content_type": "application/json", **headers}
    return await fetch(app, "/api/what-if", "POST", body=question, **sent)


async def test_it_answers_as_python_and_the_cli_do() -> None:
    shown = await shown_cluster()
    answered = await suppose(build_app(shown), {"drain": ["a"], "set": {"team/gang.minMember": 1}})
    objects = muster.objects(shown.raws.values())
    expected = muster.what_if(objects, drain=["a"], set={"team/gang.minMember": 1}, now=shown.moment)
    assert answered.status == 200
    text, changed = answered.json.pop("text"), answered.json.pop("map")
    answer = {key: value for key, value in answered.json.items() if key not in ("text", "map")}
    assert answer == expected.to_dict()
    assert "\n".join("".join(span["text"] for span in line).rstrip() for line in text) == str(expected)
    assert {name: row["flags"] for name, row in changed["after"].items()} == {"a": ["cordoned"], "b": []}
    assert changed["before"]["a"]["used"][0][0] == "team/gang"


async def test_domains_are_drained_queues_changed_and_nodes_added() -> None:
    question = {
        "drainDomains": [{"topology": "cluster", "level": "rack", "path": "z1/r1"}],
        "set": {"queue/default.gpu.quota": 8},
        "addNodes": {"like": "c", "count": 2},
        "without": [],
    }
    answered = await suppose(build_app(await shown_cluster()), question)
    assert answered.json["changes"] == [
        "adds 2 Nodes",
        "queue `default`: `gpu.quota` 4 → 8",
        "node `a` is drained: 2 pods of gangs wait again",
        "node `b` is drained: no pod is on it",
    ]
    assert {"c-copy-1", "c-copy-2"} <= answered.json["map"]["after"].keys()
    assert "c-copy-1" not in answered.json["map"]["before"]


@pytest.mark.parametrize(
    ("question", "status", "says"),
    [
        ({"drain": ["nope"]}, 422, "drain `nope`: there is no such node"),
        ({"drain": "a"}, 422, "the question cannot be read"),
        ({"dran": ["a"]}, 422, "the question cannot be read"),
        ({"without": ["team/none"]}, 422, "without `team/none`"),
        ({"set": {"team/gang.minMember": "x"}}, 422, "set `team/gang.minMember`"),
        ({"set": {"queue/none.gpu.quota": 1}}, 422, "set `none`: there is no such queue"),
        ({"set": {"queue/default.gpu.quotas": 1}}, 422, "a Queue has no field"),
        ({"addNodes": {"like": "a", "count": 0}}, 422, "addNodes.count: 0 is out of range"),
        ({"addNodes": {"like": "none", "count": 1}}, 422, "add nodes: there is no node"),
        ({"drainDomains": [{"topology": "x", "level": "rack", "path": "r1"}]}, 422, "there is no topology"),
        ({"drainDomains": [{"topology": "cluster", "level": "x", "path": "r1"}]}, 422, "drain: "),
        ({"drainDomains": [{"topology": "cluster", "level": "rack", "path": "r1"}]}, 422, "no node is in `r1`"),
        (b"\xff", 422, "the question cannot be read"),
        (b"[" * 60_000, 422, "the question cannot be read"),
    ],
)
async def test_a_wrong_question_says_what_is_wrong(question: Any, status: int, says: str) -> None:
    answered = await suppose(build_app(await shown_cluster()), question)
    assert (answered.status, says in answered.json["message"]) == (status, True), answered.json


async def test_a_field_that_is_not_known_leads_to_those_that_are() -> None:
    answered = await suppose(build_app(await shown_cluster()), {"dran": ["a"]})
    assert answered.json["hint"] == "known: addNodes, drain, drainDomains, set, without"


async def test_a_question_is_json_and_short() -> None:
    app = build_app(await shown_cluster())
    assert (await suppose(app, {}, content_type="text/plain")).status == 415
    assert (await suppose(app, {}, content_type="application/x-www-form-urlencoded")).status == 415
    assert (await suppose(app, {}, content_length=str(2**20))).status == 413


async def test_one_question_at_a_time_which_is_given_up_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread ends once it sees that; until then no other question is planned."""
    began, seen = threading.Event(), threading.Event()

    def endless(*_: Any, is_cancelled: Any, **__: Any) -> Any:
        began.set()
        while not is_cancelled():
            pass
        seen.set()
        raise Cancelled

    monkeypatch.setattr(what_if_answers, "plan_in_stages", endless)
    monkeypatch.setattr(what_if_answers, "LONGEST_SECONDS", 0.3)
    app = build_app(await shown_cluster())
    first = asyncio.create_task(suppose(app, {"drain": ["a"]}))
    await asyncio.to_thread(began.wait)
    second = await suppose(app, {"drain": ["a"]})
    assert (second.status, second.json["message"]) == (429, "another what-if is being planned")
    answered = await first
    assert answered.status == 504
    assert await asyncio.to_thread(seen.wait, 5)


async def test_it_is_given_up_when_its_viewer_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = threading.Event()

    def endless(*_: Any, is_cancelled: Any, **__: Any) -> Any:
        while not is_cancelled():
            pass
        seen.set()
        raise Cancelled

    monkeypatch.setattr(what_if_answers, "plan_in_stages", endless)
    app = build_app(await shown_cluster())
    async with asyncio.timeout(what_if_answers.LONGEST_SECONDS / 2):
        await fetch(app, "/api/what-if", "POST", body={}, stays_seconds=0.1, content_type="application/json")
    assert await asyncio.to_thread(seen.wait, 5)


async def test_nothing_is_changed_by_a_question() -> None:
    shown = await shown_cluster()
    before, seq = shown.cache.objects, shown.model.seq
    await suppose(build_app(shown), {"drain": ["a"], "without": ["team/gang"]})
    assert (shown.cache.objects is before, shown.model.seq) == (True, seq)

"""The HTTP API: who gets what, what is refused, and what every answer carries."""

import asyncio
import random
from typing import Any

import pytest
from starlette.types import ASGIApp

from muster.api.resources import EVENTS
from muster.api.resources import NAMESPACES as K8S_NAMESPACES
from muster.dashboard.guard import SECURITY_HEADERS
from muster.embedded.memory_cluster import MemoryCluster
from muster.reporting.dashboard.visibility import ELSEWHERE
from tests.support.drawing import draw
from tests.support.factories import node, pod, podgroup, queue
from tests.support.shown_app import build_app, by_token, fetch
from tests.support.shown_cluster import NAMESPACES, ShownCluster

OWN, OTHER = NAMESPACES[:2]
ENDPOINTS = (
    "/api/session",
    "/api/stream",
    "/api/state",
    "/api/state?cycle=1",
    f"/api/gangs/{OWN}/train",
    f"/api/gangs/{OTHER}/secret-train",
    "/api/nodes/n1",
    "/api/nodes/n1?cycle=1",
    "/api/cycles",
    "/api/what-if",
)


async def shown_cluster() -> ShownCluster:
    shown = ShownCluster(
        node("n1", cpu=2),
        node("n2", cpu=2),
        queue("default"),
        podgroup(name="train", namespace=OWN, minMember=1),
        podgroup(name="secret-train", namespace=OTHER, minMember=1),
        pod("own-0", gang="train", namespace=OWN, on="n1", cpu=1),
        pod("hidden-0", gang="secret-train", namespace=OTHER, on="n1", cpu=1),
        pod("hidden-1", gang="secret-train", namespace=OTHER, cpu=1),
    )
    await shown.cycle()
    await shown.cycle()
    return shown


async def request(app: ASGIApp, target: str, token: str = "", **more: Any) -> Any:
    if target == "/api/what-if":
        return await fetch(app, target, "POST", token, {}, content_type="application/json", **more)
    return await fetch(app, target, token=token, stays_seconds=0.05, **more)


@pytest.mark.parametrize("target", ENDPOINTS)
async def test_without_rights_there_is_no_data(target: str) -> None:
    app = build_app(await shown_cluster(), by_token, None)
    for token, status in (("", 401), ("unknown", 401), ("none", 403)):
        answered = await request(app, target, token)
        assert answered.status == status, (target, token)
        assert answered.json.keys() == {"message", "hint"}
        assert "n1" not in answered.text
        assert "train" not in answered.text


@pytest.mark.parametrize("target", ENDPOINTS)
async def test_a_viewer_of_some_namespaces_reads_nothing_of_others(target: str) -> None:
    app = build_app(await shown_cluster(), by_token, None)
    answered = await request(app, target, "some")
    expected = 403 if "what-if" in target else 404 if OTHER in target else 200
    assert answered.status == expected
    for name in (OTHER, "secret", "hidden"):
        assert name not in answered.text.replace("in another namespace", ""), target
    assert (await request(app, target, "all")).status == 200


async def test_a_gang_of_another_namespace_is_as_one_that_does_not_exist() -> None:
    app = build_app(await shown_cluster(), by_token, None)
    hidden = await fetch(app, f"/api/gangs/{OTHER}/secret-train", token="some")
    missing = await fetch(app, f"/api/gangs/{OTHER}/no-such", token="some")
    assert (hidden.status, hidden.body) == (missing.status, missing.body)


async def test_a_session_says_who_views_what() -> None:
    shown = await shown_cluster()
    some = await fetch(build_app(shown, by_token, None), "/api/session", token="some")
    assert some.json == {
        "access": "kubernetes",
        "user": "someone",
        "namespaces": [OWN],
        "version": "0.1.0",
        "leads": True,
    }
    local = await fetch(build_app(shown), "/api/session")
    assert (local.json["access"], local.json["namespaces"]) == ("loopback", None)


@pytest.mark.parametrize("target", ["/", "/page/index.html", "/page/none.js", "/nowhere", *ENDPOINTS])
async def test_every_answer_carries_the_headers(target: str) -> None:
    answered = await request(build_app(await shown_cluster()), target)
    assert {name: answered.headers[name] for name in SECURITY_HEADERS} == SECURITY_HEADERS
    assert "set-cookie" not in answered.headers
    assert "access-control-allow-origin" not in answered.headers


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8090",
        "127.0.0.1.evil.example",
        "",
        "localhost@evil",
        "[::2]:1",
        "[",
        "localhost.:1/",
    ],
)
async def test_dns_rebinding_gets_nothing(host: str) -> None:
    """A name of another site that leads to this machine: the browser says that name."""
    app = build_app(await shown_cluster())
    for target in ("/", "/api/state"):
        answered = await fetch(app, target, host=host)
        assert answered.status == 421, host
        assert "n1" not in answered.text


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:9", "[::1]:8090", "[::1]"])
async def test_this_machine_is_answered_by_any_of_its_names(host: str) -> None:
    assert (await fetch(build_app(await shown_cluster()), "/api/state", host=host)).status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://localhost:9999"},
        {"origin": "file://localhost:8090"},
    ],
)
async def test_pages_of_other_sites_get_nothing(headers: dict[str, str]) -> None:
    app = build_app(await shown_cluster())
    for target in ("/", "/page/index.html", *ENDPOINTS):
        assert (await request(app, target, **headers)).status == 403, target


async def test_a_link_of_another_site_opens_the_page_and_nothing_else() -> None:
    app = build_app(await shown_cluster())
    link: dict[str, Any] = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}
    assert (await fetch(app, "/", **link)).status == 200
    assert (await fetch(app, "/api/state", **link)).status == 403
    assert (await fetch(app, "/", **{**link, "sec_fetch_dest": "iframe"})).status == 403


async def test_its_own_page_is_answered() -> None:
    app = build_app(await shown_cluster())
    own: dict[str, Any] = {"sec_fetch_site": "same-origin", "origin": "http://localhost:8090"}
    assert (await fetch(app, "/api/state", **own)).status == 200


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "POST", "OPTIONS", "TRACE", "CONNECT", "X"])
async def test_it_only_reads(method: str) -> None:
    app = build_app(await shown_cluster())
    for target in ("/", "/api/state", "/api/gangs/a/b"):
        assert (await fetch(app, target, method)).status == 405
    head = await fetch(app, "/api/stream", "HEAD")
    assert (head.status, head.body) == (200, b"")


@pytest.mark.parametrize("query", ["cycle=x", "cycle=-1", "cycle=", "cycle=1e3", "cycle=" + "9" * 40, "cycle=²"])
async def test_a_wrong_number_is_named(query: str) -> None:
    app = build_app(await shown_cluster())
    for target in ("/api/state", "/api/nodes/n1", f"/api/gangs/{OWN}/train"):
        answered = await fetch(app, f"{target}?{query}")
        assert (answered.status, answered.json["message"]) == (400, "`cycle` is no whole number")


async def test_a_cycle_that_is_gone_says_what_is_left() -> None:
    answered = await fetch(build_app(await shown_cluster()), "/api/state?cycle=77")
    assert answered.status == 404
    assert answered.json["message"] == "cycle 77 is not kept: cycles 1 to 2 are"
    assert (answered.json["oldest"], answered.json["newest"]) == (1, 2)


async def test_pages_show_one_thing_with_all_about_it() -> None:
    app = build_app(await shown_cluster())
    gang = (await fetch(app, f"/api/gangs/{OTHER}/secret-train")).json
    assert (gang["key"], gang["cycle"], gang["row"]["verdict"]) == (f"{OTHER}/secret-train", 2, "Scheduled")
    pods = {each["name"]: (each["node"], each["state"], each["role"]) for each in gang["tree"]["pods"]}
    assert pods == {"hidden-0": ("n1", "placed", "core"), "hidden-1": ("n2", "placed", "extra")}
    assert gang["explain"][0][1] == {"text": f"{OTHER}/secret-train", "role": "name"}
    assert [each["verdict"] for each in gang["history"]] == ["Scheduled"]
    seen = (await fetch(app, "/api/nodes/n1?cycle=1")).json
    assert [(each["name"], each["gang"], each["requests"]) for each in seen["pods"]] == [
        ("own-0", f"{OWN}/train", {"cpu": "1"}),
        ("hidden-0", f"{OTHER}/secret-train", {"cpu": "1"}),
    ]
    cycles = (await fetch(app, "/api/cycles?before=2&limit=5")).json["cycles"]
    assert [row["cycle"] for row in cycles] == [1]
    assert cycles[0]["counts"]["bound"] == 1


async def test_events_name_no_gang_of_a_namespace_that_is_gone() -> None:
    """Events and statuses are older than this process: it has seen nothing of the namespaces that they name."""
    cluster = MemoryCluster()
    await cluster.create(K8S_NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OWN}})
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e", "namespace": OWN},
        "involvedObject": {"kind": "PodGroup", "name": "train", "namespace": OWN},
        "message": "1 pod had to leave (preempted) to make room for `vanished/merger-model`; best is `z1/r1`",
    }
    await cluster.create(EVENTS, event)
    shown = await shown_cluster()
    shown.put(*draw("z1/r1 a:1"))
    await shown.cycle()
    app = build_app(shown, by_token, None, cluster)
    messages = [
        [each["message"] for each in (await fetch(app, f"/api/gangs/{OWN}/train", token=token)).json["events"]]
        for token in ("all", "some")
    ]
    hidden = event["message"].replace("vanished/merger-model", ELSEWHERE)  # type: ignore[attr-defined]
    assert messages == [[event["message"]], [hidden]]


async def test_streams_that_are_opened_at_once_are_limited_as_others() -> None:
    """Each of them is checked before the first is counted."""
    shown = await shown_cluster()
    app = build_app(shown)
    opened = asyncio.gather(*(fetch(app, "/api/stream", stays_seconds=2.0) for _ in range(50)))
    most = 0
    while not opened.done():
        most = max(most, shown.model.viewers)
        await asyncio.sleep(0.01)
    assert most == 2
    assert sum(b"event: state" in each.body for each in await opened) == 2
    assert shown.model.viewers == 0


SCHEMES = ("GET", "HEAD", "POST", "PUT", "OPTIONS", "DELETE")
PARTS = (
    "api",
    "page",
    "state",
    "gangs",
    "nodes",
    "cycles",
    "what-if",
    "session",
    "..",
    "%2e%2e",
    ".",
    "",
    "x" * 300,
    "n1",
    OTHER,
    "secret-train",
    "index.html",
    "%00",
    "é",
    "a b",
    "~",
    "/",
    "\\",
    "%2fetc%2fpasswd",
    "..%2f..%2fserver.py",
)
VALUES = ("1", "-1", "", "x", "9" * 30, "%00", "2&cycle=1", "é")


def random_request(rng: random.Random) -> tuple[str, str, str, dict[str, Any], bytes]:
    path = "/" + "/".join(rng.choice(PARTS) for _ in range(rng.randint(0, 5)))
    names = ("cycle", "after", "before", "limit", "x")
    query = "&".join(f"{rng.choice(names)}={rng.choice(VALUES)}" for _ in range(rng.randint(0, 3)))
    headers: dict[str, Any] = {}
    for name in ("origin", "sec_fetch_site", "content_type", "authorization", "content_length"):
        if rng.random() < 0.2:
            headers[name] = rng.choice(
                (
                    "application/json",
                    "null",
                    "cross-site",
                    "Bearer x",
                    "Bearer " + "y" * 20_000,
                    "-1",
                    "é",
                    "http://localhost:8090",
                )
            )
    if rng.random() < 0.1:
        headers["host"] = rng.choice(("evil", "", "localhost:99999", "[::1", "é"))
    body = rng.choice(
        (b"", b"{}", b"[]", b'{"drain":["n1"]}', b'{"drain":[1]}', b"\xff\xfe", b"{" * 500, b'{"set":{"a":{}}}')
    )
    return rng.choice(SCHEMES), f"{path}?{query}", rng.choice(("", "x", "none", "some")), headers, body


@pytest.mark.parametrize("part", range(4))
async def test_ten_thousand_odd_requests_break_nothing_and_reveal_nothing(part: int) -> None:
    """Each gets an answer with all headers; none of them has what its token may not see, or a file of the server."""
    rng, app = random.Random(part), build_app(await shown_cluster(), by_token, None)
    for _ in range(2_500):
        method, target, token, headers, body = random_request(rng)
        if "stream" in target:
            continue
        answered = await fetch(app, target, method, token, body, stays_seconds=0.0, **headers)
        assert answered.status in (200, 400, 401, 403, 404, 405, 413, 415, 421, 422, 429), (method, target, answered)
        assert answered.headers["x-content-type-options"] == "nosniff"
        for name in ("secret-train", "hidden-0", "root:", "import ", "Traceback"):
            assert name not in answered.text, (method, target, token)

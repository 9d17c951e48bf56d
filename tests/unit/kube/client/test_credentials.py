"""Credentials that change while we run: read again in time, beside the requests and not before them."""

import asyncio
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from muster.embedded import tls
from muster.errors import InputError
from muster.kube.client.credentials import RENEW_BEFORE, Access, Credentials
from muster.kube.client.http import Http, Limits, Request
from muster.kube.errors import Unanswered
from tests.support.apiserver.envtest_certificates import certificates

SOON = timedelta(seconds=30)  # a token that ends then is to be renewed, and still good


def authorization(access: Access) -> str:
    return dict(access.headers)["Authorization"]


class Turns:
    """Readings in turn, and a clock. `slow`: from the second on, they wait until they are let go."""

    def __init__(self, *, slow: bool = False, ends_in: timedelta | None = None, **fields: Any) -> None:
        self.count, self.now, self.fields = 0, 0.0, fields
        self.ends_in, self.slow = ends_in, slow
        self.wrong: Exception | None = None
        self.go = threading.Event()

    def __call__(self) -> Access:
        if self.wrong:
            raise self.wrong
        self.count += 1
        nth = self.count
        if self.slow and nth > 1:
            self.go.wait(30)
        expires = None if self.ends_in is None else datetime.now(UTC) + self.ends_in
        return Access("http://x", (("Authorization", str(nth)),), expires=expires, **self.fields)

    def clock(self) -> float:
        return self.now


async def used(credentials: Credentials) -> str:
    """What the request after this one will use: whatever this one has begun is done."""
    await credentials.current_access()
    await read(credentials)
    return authorization(credentials.access)


async def read(credentials: Credentials) -> None:
    async with asyncio.timeout(10):
        while credentials._reading is not None:
            await asyncio.sleep(0.005)


async def test_a_token_file_is_read_again_every_minute() -> None:
    turns = Turns(rotates=True)
    credentials = Credentials(turns, turns.clock)
    for now, count in ((0.0, 1), (59.0, 1), (60.0, 2), (61.0, 2), (121.0, 3)):
        turns.now = now
        assert await used(credentials) == str(count)


async def test_a_token_is_renewed_before_it_expires_and_plugins_are_not_run_for_every_request() -> None:
    turns = Turns(ends_in=SOON)
    credentials = Credentials(turns, turns.clock)
    for now, count in ((0.0, 1), (4.0, 1), (5.0, 2), (6.0, 2), (11.0, 3)):
        turns.now = now
        assert await used(credentials) == str(count)


@pytest.mark.parametrize("ends_in", [None, RENEW_BEFORE * 2])
async def test_what_does_not_expire_is_read_once(ends_in: timedelta | None) -> None:
    turns = Turns(ends_in=ends_in)
    credentials = Credentials(turns, turns.clock)
    turns.now = 1e9
    assert await used(credentials) == "1"


async def test_many_that_are_refused_at_once_read_once() -> None:
    turns = Turns()
    credentials = Credentials(turns, turns.clock)
    turns.now, stale = 10.0, credentials.access
    found = await asyncio.gather(*(credentials.renew(stale) for _ in range(5)))
    assert {authorization(access) for access in found} == {"2"}
    assert turns.count == 2


@pytest.mark.parametrize("wrong", [InputError("gone"), RuntimeError("s3cr3t")])
async def test_a_reading_that_fails_leaves_what_was_there(wrong: Exception) -> None:
    turns = Turns(rotates=True)
    credentials = Credentials(turns, turns.clock)
    turns.wrong, turns.now = wrong, 100.0
    assert await used(credentials) == "1"
    assert credentials.failure
    assert "s3cr3t" not in credentials.failure
    turns.wrong, turns.now = None, 200.0
    assert (await used(credentials), credentials.failure) == ("2", "")


async def test_a_slow_plugin_holds_nobody_up_while_the_token_is_good() -> None:
    turns = Turns(slow=True, ends_in=SOON)
    credentials = Credentials(turns, turns.clock)
    turns.now = 10.0
    async with asyncio.timeout(5):
        assert [authorization(await credentials.current_access()) for _ in range(3)] == ["1", "1", "1"]
    turns.go.set()
    await read(credentials)
    assert authorization(await credentials.current_access()) == "2"
    assert turns.count == 2, "three requests, one reading"


async def test_what_a_slow_plugin_gives_is_used_although_nobody_waited_for_it() -> None:
    """Each request gives up before the plugin is done; leadership would be lost for good (I8)."""
    turns = Turns(slow=True, ends_in=timedelta(0))
    credentials = Credentials(turns, turns.clock)
    turns.now = 10.0
    for _ in range(3):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await credentials.current_access()
        turns.now += 10.0
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02):
            await credentials.renew(credentials.access)
    turns.go.set()
    await read(credentials)
    assert (authorization(credentials.access), turns.count) == ("2", 2)


async def test_a_token_that_has_expired_waits_for_the_next() -> None:
    turns = Turns(slow=True, ends_in=timedelta(0))
    credentials = Credentials(turns, turns.clock)
    turns.now = 10.0
    asked = asyncio.create_task(credentials.current_access())
    await asyncio.sleep(0.05)
    assert not asked.done()
    turns.go.set()
    assert authorization(await asked) == "2"


async def test_a_plugin_that_hangs_is_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The API server says whether the old token will do. And however often it is asked for, one thread hangs."""
    monkeypatch.setattr("muster.kube.client.credentials.WAIT_SECONDS", 0.05)
    turns = Turns(slow=True, ends_in=timedelta(0))
    credentials = Credentials(turns, turns.clock)
    before = set(threading.enumerate())
    for now in (10.0, 100.0, 1000.0):
        turns.now = now
        assert authorization(await credentials.current_access()) == "1"
    assert (turns.count, len(set(threading.enumerate()) - before)) == (2, 1)
    turns.go.set()
    await read(credentials)


def test_a_process_ends_although_a_plugin_hangs() -> None:
    """Threads of asyncio's own would be waited for."""
    script = """
import asyncio, time
from datetime import UTC, datetime
from muster.kube.client.credentials import Access, Credentials
from muster.kube.client.http import Http, Request

runs = []

def load():
    runs.append(1)
    if len(runs) > 1:
        time.sleep(300)
    return Access("http://127.0.0.1:1", expires=datetime.now(UTC))

async def main():
    clock = iter(range(0, 10000, 10))
    http = Http(Credentials(load, lambda: next(clock)))
    try:
        async with asyncio.timeout(0.3):
            await http.call(Request("GET", "/"))
    except TimeoutError:
        print("given up", len(runs))
    await http.close()

asyncio.run(main())
"""
    began = time.monotonic()
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, env=dict(os.environ), check=True
    )
    assert (ended.stdout, ended.stderr) == ("given up 2\n", "")
    assert time.monotonic() - began < 50


# certificates -------------------------------------------------------------------------------------------------------

READ = Request("GET", "/")
HOST = "127.0.0.1"


@asynccontextmanager
async def listening(context: ssl.SSLContext, port: int | None = None) -> AsyncIterator[str]:
    """An API server's address."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(text="yes")

    app = web.Application()
    app.router.add_get("/", answer)
    server = TestServer(app, port=port)
    await server.start_server(ssl=context)
    try:
        yield f"https://{HOST}:{server.port}"
    finally:
        await server.close()


@asynccontextmanager
async def client(turns: "Files") -> AsyncIterator[Http]:
    http = Http(Credentials(turns, turns.clock))
    try:
        yield http
    finally:
        await http.close()


@asynccontextmanager
async def reached(context: ssl.SSLContext, **fields: Any) -> AsyncIterator[tuple[Http, "Files"]]:
    async with listening(context) as server:
        turns = Files(server, **fields)
        async with client(turns) as http:
            yield http, turns


class Files:
    """Readings that name the same files each time, and a clock."""

    def __init__(self, server: str, **fields: Any) -> None:
        self.count, self.now, self.server, self.fields = 0, 0.0, server, fields

    def __call__(self) -> Access:
        self.count += 1
        return Access(self.server, **self.fields)

    def clock(self) -> float:
        return self.now


async def refused(http: Http) -> str:
    with pytest.raises(Unanswered) as caught:
        await http.once(READ)
    return caught.value.message


@pytest.mark.parametrize(
    ("made", "age", "asked_for", "told"),
    [
        (
            HOST,
            0,
            "inside.test",
            "its certificate is for another name (Hostname mismatch, certificate is not valid for",
        ),
        (
            "other.test",
            0,
            "",
            f"its certificate is for another name (IP address mismatch, certificate is not valid for '{HOST}'",
        ),
        (HOST, 1000, "", "its certificate is out of date (certificate has expired)"),
        (HOST, -1000, "", "its certificate is out of date (certificate is not yet valid)"),
    ],
)
async def test_a_certificate_is_refused_for_what_is_wrong_with_it(
    tmp_path: Path, made: str, age: int, asked_for: str, told: str
) -> None:
    """Whoever looks for the fault at the CA looks at the wrong place."""
    made_for = tls.generate([made], datetime.now(UTC) - timedelta(days=age))
    (tmp_path / "ca").write_bytes(made_for.authority)
    context = tls.server_context(made_for, tmp_path)
    async with reached(context, ca=str(tmp_path / "ca"), server_name=asked_for) as (http, turns):
        said = await refused(http)
    assert f"{turns.server}: {told}" in said
    assert "trusted" not in said
    assert ("tls-server-name" in said) == (age == 0)


async def test_a_ca_that_did_not_sign_is_told_as_that(tmp_path: Path) -> None:
    one, other = (tls.generate([HOST], datetime.now(UTC)) for _ in range(2))
    (tmp_path / "ca").write_bytes(other.authority)
    async with reached(tls.server_context(one, tmp_path), ca=str(tmp_path / "ca")) as (http, turns):
        assert f"{turns.server}: its certificate is not trusted by the CA given" in await refused(http)


async def test_a_ca_file_that_was_replaced_is_read_after_the_first_refusal(tmp_path: Path) -> None:
    old, new = (tls.generate([HOST], datetime.now(UTC)) for _ in range(2))
    ca = tmp_path / "ca"
    ca.write_bytes(old.authority)
    async with reached(tls.server_context(new, tmp_path), ca=str(ca)) as (http, _):
        await refused(http)
        ca.write_bytes(new.authority)
        await refused(http)
        assert await http.once(READ) == b"yes"


async def test_another_ca_in_the_kubeconfig_itself_is_read_but_not_for_every_refusal(tmp_path: Path) -> None:
    """A reading may run a plugin; it has its rest."""
    old, new = (tls.generate([HOST], datetime.now(UTC)) for _ in range(2))
    (tmp_path / "old").write_bytes(old.authority)
    (tmp_path / "new").write_bytes(new.authority)
    async with reached(tls.server_context(new, tmp_path), ca=str(tmp_path / "old")) as (http, turns):
        for now, count in ((0.0, 1), (4.0, 1), (5.0, 2), (6.0, 2), (9.0, 2)):
            turns.now = now
            await refused(http)
            assert turns.count == count
        turns.fields, turns.now = {"ca": str(tmp_path / "new")}, 10.0
        await refused(http)
        assert await http.once(READ) == b"yes"


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_client_certificate_that_was_replaced_is_shown_after_the_first_refusal(
    tmp_path: Path, version: ssl.TLSVersion
) -> None:
    """A server that asks for one hangs up, and says no more than that."""
    for name in ("good", "bad"):
        (tmp_path / name).mkdir()
        certificates(tmp_path / name)
    good, shown = tmp_path / "good", tmp_path / "bad"
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(good / "ca.crt"))
    context.load_cert_chain(good / "server.crt", good / "server.key")
    context.verify_mode, context.maximum_version = ssl.CERT_REQUIRED, version
    certificate = (str(shown / "admin.crt"), str(shown / "admin.key"))
    async with reached(context, ca=str(good / "ca.crt"), certificate=certificate) as (http, _):
        await refused(http)
        for name in ("admin.crt", "admin.key"):
            (shown / name).write_bytes((good / name).read_bytes())
        await refused(http)
        assert await http.once(READ) == b"yes"


async def test_files_that_went_away_leave_what_was_read(tmp_path: Path) -> None:
    """Somebody tidies up; then the API server is gone for a moment, and is trusted afterwards as it was before."""
    made = tls.generate([HOST], datetime.now(UTC))
    (tmp_path / "ca").write_bytes(made.authority)
    context = tls.server_context(made, tmp_path)
    async with listening(context) as server:
        pass
    async with client(Files(server, ca=str(tmp_path / "ca"))) as http:
        await refused(http)
        (tmp_path / "ca").unlink()
        await refused(http)
        async with listening(context, int(server.rpartition(":")[2])):
            assert await http.once(READ) == b"yes"


async def test_a_late_failure_does_not_bring_an_old_reading_back(tmp_path: Path) -> None:
    """Its request began before the new CA was read, and ends after it."""
    old, new = (tls.generate([HOST], datetime.now(UTC)) for _ in range(2))
    (tmp_path / "old").write_bytes(old.authority)
    (tmp_path / "new").write_bytes(new.authority)
    context = tls.server_context(new, tmp_path)
    async with reached(context, ca=str(tmp_path / "old")) as (http, turns):
        http.limits = Limits(connect_seconds=0.3)
        with socket.create_server((HOST, 0)) as silent:
            stale = Access(f"https://{HOST}:{silent.getsockname()[1]}", ca=str(tmp_path / "old"))
            late = asyncio.create_task(http._sent(stale, READ, 1.0))
            await asyncio.sleep(0.1)
            turns.fields, turns.now = {"ca": str(tmp_path / "new")}, 10.0
            await refused(http)
            assert await http.once(READ) == b"yes"
            before = [*http._lines]
            with pytest.raises(Unanswered):
                await late
        assert await http.once(READ) == b"yes"
        assert http._lines == before


async def test_what_cannot_be_sent_for_want_of_a_ca_was_not_sent(tmp_path: Path) -> None:
    """Nobody need ask what became of it."""
    async with client(Files(f"https://{HOST}:1", ca=str(tmp_path / "nowhere"))) as http:
        with pytest.raises(Unanswered, match=r"its CA `.*/nowhere` cannot be used: No such file") as caught:
            await http.once(Request("POST", "/"))
    assert not caught.value.sent

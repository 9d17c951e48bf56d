"""Credentials that change while we run: loaded again in time, in the background of requests."""

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

SOON = timedelta(seconds=30)  # a token that expires then is due for renewal, and still valid


def authorization(access: Access) -> str:
    return dict(access.headers)["Authorization"]


class Loads:
    """Numbered accesses, and a clock. `slow`: from the second load on, each waits for `release`."""

    def __init__(self, *, slow: bool = False, expires_in: timedelta | None = None, **fields: Any) -> None:
        self.count, self.now, self.fields = 0, 0.0, fields
        self.expires_in, self.slow = expires_in, slow
        self.error: Exception | None = None
        self.release = threading.Event()

    def __call__(self) -> Access:
        if self.error:
            raise self.error
        self.count += 1
        nth = self.count
        if self.slow and nth > 1:
            self.release.wait(30)
        expires = None if self.expires_in is None else datetime.now(UTC) + self.expires_in
        return Access("http://x", (("Authorization", str(nth)),), expires=expires, **self.fields)

    def clock(self) -> float:
        return self.now


async def next_authorization(credentials: Credentials) -> str:
    """Of the request after this one: a load that this one has started is done by then."""
    await credentials.current_access()
    await finish_load(credentials)
    return authorization(credentials.access)


async def finish_load(credentials: Credentials) -> None:
    async with asyncio.timeout(10):
        while credentials._loading is not None:
            await asyncio.sleep(0.005)


async def test_a_token_file_is_read_again_every_minute() -> None:
    loads = Loads(rotates=True)
    credentials = Credentials(loads, loads.clock)
    for now, count in ((0.0, 1), (59.0, 1), (60.0, 2), (61.0, 2), (121.0, 3)):
        loads.now = now
        assert await next_authorization(credentials) == str(count)


async def test_a_token_is_renewed_before_it_expires_and_plugins_are_not_run_for_every_request() -> None:
    loads = Loads(expires_in=SOON)
    credentials = Credentials(loads, loads.clock)
    for now, count in ((0.0, 1), (4.0, 1), (5.0, 2), (6.0, 2), (11.0, 3)):
        loads.now = now
        assert await next_authorization(credentials) == str(count)


@pytest.mark.parametrize("expires_in", [None, RENEW_BEFORE * 2])
async def test_a_token_that_does_not_expire_is_loaded_once(expires_in: timedelta | None) -> None:
    loads = Loads(expires_in=expires_in)
    credentials = Credentials(loads, loads.clock)
    loads.now = 1e9
    assert await next_authorization(credentials) == "1"


async def test_many_requests_that_are_refused_at_once_load_once() -> None:
    loads = Loads()
    credentials = Credentials(loads, loads.clock)
    loads.now, stale = 10.0, credentials.access
    renewed = await asyncio.gather(*(credentials.renew(stale) for _ in range(5)))
    assert {authorization(access) for access in renewed} == {"2"}
    assert loads.count == 2


@pytest.mark.parametrize("error", [InputError("gone"), RuntimeError("s3cr3t")])
async def test_a_load_that_fails_leaves_the_present_access(error: Exception) -> None:
    loads = Loads(rotates=True)
    credentials = Credentials(loads, loads.clock)
    loads.error, loads.now = error, 100.0
    assert await next_authorization(credentials) == "1"
    assert credentials.failure
    assert "s3cr3t" not in credentials.failure
    loads.error, loads.now = None, 200.0
    assert (await next_authorization(credentials), credentials.failure) == ("2", "")


async def test_a_slow_plugin_delays_no_request_while_the_token_is_valid() -> None:
    loads = Loads(slow=True, expires_in=SOON)
    credentials = Credentials(loads, loads.clock)
    loads.now = 10.0
    async with asyncio.timeout(5):
        assert [authorization(await credentials.current_access()) for _ in range(3)] == ["1", "1", "1"]
    loads.release.set()
    await finish_load(credentials)
    assert authorization(await credentials.current_access()) == "2"
    assert loads.count == 2, "three requests, one load"


async def test_the_token_of_a_slow_plugin_is_used_although_every_request_gave_up() -> None:
    """Each request times out before the plugin ends; leadership would be lost for good (I8)."""
    loads = Loads(slow=True, expires_in=timedelta(0))
    credentials = Credentials(loads, loads.clock)
    loads.now = 10.0
    for _ in range(3):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await credentials.current_access()
        loads.now += 10.0
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02):
            await credentials.renew(credentials.access)
    loads.release.set()
    await finish_load(credentials)
    assert (authorization(credentials.access), loads.count) == ("2", 2)


async def test_a_request_waits_for_the_next_token_where_the_present_one_has_expired() -> None:
    loads = Loads(slow=True, expires_in=timedelta(0))
    credentials = Credentials(loads, loads.clock)
    loads.now = 10.0
    request = asyncio.create_task(credentials.current_access())
    await asyncio.sleep(0.05)
    assert not request.done()
    loads.release.set()
    assert authorization(await request) == "2"


async def test_a_plugin_that_hangs_is_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The old token is sent, and the API server decides. However many requests there are, one thread hangs."""
    monkeypatch.setattr("muster.kube.client.credentials.WAIT_SECONDS", 0.05)
    loads = Loads(slow=True, expires_in=timedelta(0))
    credentials = Credentials(loads, loads.clock)
    before = set(threading.enumerate())
    for now in (10.0, 100.0, 1000.0):
        loads.now = now
        assert authorization(await credentials.current_access()) == "1"
    assert (loads.count, len(set(threading.enumerate()) - before)) == (2, 1)
    loads.release.set()
    await finish_load(credentials)


def test_a_process_ends_although_a_plugin_hangs() -> None:
    """Threads of asyncio's executor would be joined."""
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
        print("timed out", len(runs))
    await http.close()

asyncio.run(main())
"""
    began = time.monotonic()
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, env=dict(os.environ), check=True
    )
    assert (ended.stdout, ended.stderr) == ("timed out 2\n", "")
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
async def client(loads: "Files") -> AsyncIterator[Http]:
    http = Http(Credentials(loads, loads.clock))
    try:
        yield http
    finally:
        await http.close()


@asynccontextmanager
async def reached(context: ssl.SSLContext, **fields: Any) -> AsyncIterator[tuple[Http, "Files"]]:
    async with listening(context) as server:
        loads = Files(server, **fields)
        async with client(loads) as http:
            yield http, loads


class Files:
    """Loads that name the same files each time, and a clock."""

    def __init__(self, server: str, **fields: Any) -> None:
        self.count, self.now, self.server, self.fields = 0, 0.0, server, fields

    def __call__(self) -> Access:
        self.count += 1
        return Access(self.server, **self.fields)

    def clock(self) -> float:
        return self.now


async def refused(http: Http) -> str:
    with pytest.raises(Unanswered) as caught:
        await http.send_once(READ)
    return caught.value.message


@pytest.mark.parametrize(
    ("certified", "age", "server_name", "problem"),
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
    tmp_path: Path, certified: str, age: int, server_name: str, problem: str
) -> None:
    """The CA is not to blame for these."""
    generated = tls.generate([certified], datetime.now(UTC) - timedelta(days=age))
    (tmp_path / "ca").write_bytes(generated.authority)
    context = tls.server_context(generated, tmp_path)
    async with reached(context, ca=str(tmp_path / "ca"), server_name=server_name) as (http, loads):
        message = await refused(http)
    assert f"{loads.server}: {problem}" in message
    assert "trusted" not in message
    assert ("tls-server-name" in message) == (age == 0)


async def test_a_ca_that_did_not_sign_is_named_as_the_reason(tmp_path: Path) -> None:
    served, other = (tls.generate([HOST], datetime.now(UTC)) for _ in range(2))
    (tmp_path / "ca").write_bytes(other.authority)
    async with reached(tls.server_context(served, tmp_path), ca=str(tmp_path / "ca")) as (http, loads):
        assert f"{loads.server}: its certificate is not trusted by the CA given" in await refused(http)


async def test_a_ca_file_that_was_replaced_is_read_after_the_first_refusal(tmp_path: Path) -> None:
    old, new = (tls.generate([HOST], datetime.now(UTC)) for _ in range(2))
    ca = tmp_path / "ca"
    ca.write_bytes(old.authority)
    async with reached(tls.server_context(new, tmp_path), ca=str(ca)) as (http, _):
        await refused(http)
        ca.write_bytes(new.authority)
        await refused(http)
        assert await http.send_once(READ) == b"yes"


async def test_another_ca_in_the_kubeconfig_itself_is_loaded_but_not_for_every_refusal(tmp_path: Path) -> None:
    """A load may run an exec plugin, so there is a least interval between two."""
    old, new = (tls.generate([HOST], datetime.now(UTC)) for _ in range(2))
    (tmp_path / "old").write_bytes(old.authority)
    (tmp_path / "new").write_bytes(new.authority)
    async with reached(tls.server_context(new, tmp_path), ca=str(tmp_path / "old")) as (http, loads):
        for now, count in ((0.0, 1), (4.0, 1), (5.0, 2), (6.0, 2), (9.0, 2)):
            loads.now = now
            await refused(http)
            assert loads.count == count
        loads.fields, loads.now = {"ca": str(tmp_path / "new")}, 10.0
        await refused(http)
        assert await http.send_once(READ) == b"yes"


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_client_certificate_that_was_replaced_is_shown_after_the_first_refusal(
    tmp_path: Path, version: ssl.TLSVersion
) -> None:
    """A server that requires one closes the connection without a reason."""
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
        assert await http.send_once(READ) == b"yes"


async def test_a_ca_file_that_was_deleted_leaves_the_ca_that_was_loaded(tmp_path: Path) -> None:
    """The file is deleted while the API server is down; afterwards the server is trusted as before."""
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
            assert await http.send_once(READ) == b"yes"


async def test_a_late_failure_does_not_bring_an_old_access_back(tmp_path: Path) -> None:
    """Its request began before the new CA was loaded, and ends after it."""
    old, new = (tls.generate([HOST], datetime.now(UTC)) for _ in range(2))
    (tmp_path / "old").write_bytes(old.authority)
    (tmp_path / "new").write_bytes(new.authority)
    context = tls.server_context(new, tmp_path)
    async with reached(context, ca=str(tmp_path / "old")) as (http, loads):
        http.limits = Limits(connect_seconds=0.3)
        with socket.create_server((HOST, 0)) as silent:
            stale = Access(f"https://{HOST}:{silent.getsockname()[1]}", ca=str(tmp_path / "old"))
            late = asyncio.create_task(http._send(stale, READ, 1.0))
            await asyncio.sleep(0.1)
            loads.fields, loads.now = {"ca": str(tmp_path / "new")}, 10.0
            await refused(http)
            assert await http.send_once(READ) == b"yes"
            before = [*http._connections]
            with pytest.raises(Unanswered):
                await late
        assert await http.send_once(READ) == b"yes"
        assert http._connections == before


async def test_a_request_that_fails_for_want_of_a_ca_was_not_sent(tmp_path: Path) -> None:
    """It need not be confirmed."""
    async with client(Files(f"https://{HOST}:1", ca=str(tmp_path / "nowhere"))) as http:
        with pytest.raises(Unanswered, match=r"its CA `.*/nowhere` cannot be used: No such file") as caught:
            await http.send_once(Request("POST", "/"))
    assert not caught.value.sent

"""Credentials that change while we run: read again in time, beside the requests and not before them."""

import asyncio
import os
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from muster.cluster.kubernetes_access import EARLY, Access, Credentials
from muster.errors import InputError

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
    await credentials.current()
    await read(credentials)
    return authorization(credentials.access)


async def read(credentials: Credentials) -> None:
    async with asyncio.timeout(10):
        while credentials._reading is not None:
            await asyncio.sleep(0.005)


async def test_a_token_file_is_read_again_every_minute() -> None:
    turns = Turns(changes=True)
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


@pytest.mark.parametrize("ends_in", [None, EARLY * 2])
async def test_what_does_not_expire_is_read_once(ends_in: timedelta | None) -> None:
    turns = Turns(ends_in=ends_in)
    credentials = Credentials(turns, turns.clock)
    turns.now = 1e9
    assert await used(credentials) == "1"


async def test_many_that_are_refused_at_once_read_once() -> None:
    turns = Turns()
    credentials = Credentials(turns, turns.clock)
    turns.now, stale = 10.0, credentials.access
    found = await asyncio.gather(*(credentials.renewed(stale) for _ in range(5)))
    assert {authorization(access) for access in found} == {"2"}
    assert turns.count == 2


@pytest.mark.parametrize("wrong", [InputError("gone"), RuntimeError("s3cr3t")])
async def test_a_reading_that_fails_leaves_what_was_there(wrong: Exception) -> None:
    turns = Turns(changes=True)
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
        assert [authorization(await credentials.current()) for _ in range(3)] == ["1", "1", "1"]
    turns.go.set()
    await read(credentials)
    assert authorization(await credentials.current()) == "2"
    assert turns.count == 2, "three requests, one reading"


async def test_what_a_slow_plugin_gives_is_used_although_nobody_waited_for_it() -> None:
    """Each request gives up before the plugin is done; leadership would be lost for good (I8)."""
    turns = Turns(slow=True, ends_in=timedelta(0))
    credentials = Credentials(turns, turns.clock)
    turns.now = 10.0
    for _ in range(3):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await credentials.current()
        turns.now += 10.0
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02):
            await credentials.renewed(credentials.access)
    turns.go.set()
    await read(credentials)
    assert (authorization(credentials.access), turns.count) == ("2", 2)


async def test_a_token_that_has_expired_waits_for_the_next() -> None:
    turns = Turns(slow=True, ends_in=timedelta(0))
    credentials = Credentials(turns, turns.clock)
    turns.now = 10.0
    asked = asyncio.create_task(credentials.current())
    await asyncio.sleep(0.05)
    assert not asked.done()
    turns.go.set()
    assert authorization(await asked) == "2"


async def test_a_plugin_that_hangs_is_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The API server says whether the old token will do. And however often it is asked for, one thread hangs."""
    monkeypatch.setattr("muster.cluster.kubernetes_access.WAIT_SECONDS", 0.05)
    turns = Turns(slow=True, ends_in=timedelta(0))
    credentials = Credentials(turns, turns.clock)
    before = set(threading.enumerate())
    for now in (10.0, 100.0, 1000.0):
        turns.now = now
        assert authorization(await credentials.current()) == "1"
    assert (turns.count, len(set(threading.enumerate()) - before)) == (2, 1)
    turns.go.set()
    await read(credentials)


def test_a_process_ends_although_a_plugin_hangs() -> None:
    """Threads of asyncio's own would be waited for."""
    script = """
import asyncio, time
from datetime import UTC, datetime
from muster.cluster.kubernetes_access import Access, Credentials
from muster.cluster.kubernetes_http import Http, Request

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

"""The process that answers the webhook is started again, whatever happens to it, and never outlives its parent.

What runs here instead of the webhook is a few lines that speak its protocol.
"""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from muster.config.settings import Config
from muster.observability.serving.asgi_server import listen
from muster.webhook.process import supervisor
from muster.webhook.process.gang_demands import DemandFeed
from muster.webhook.process.messages import WebhookStart
from muster.webhook.process.supervisor import WebhookProcess

SCRIPT = """
import asyncio, os, signal, socket, sys, threading, time
from muster.webhook.process.messages import AnsweredRequest, WebhookReport, WebhookStart, encode_frame, read_frame
listener, control, lifeline = (int(one) for one in sys.argv[1:4])
threading.Thread(target=lambda: (os.read(lifeline, 1), os._exit(1)), daemon=True).start()
async def run():
    reader, writer = await asyncio.open_connection(sock=socket.socket(fileno=control))
    start = await read_frame(reader, WebhookStart)
    answered = [AnsweredRequest("/validate", "allowed", 0.25)]
    def report(**problems):
        writer.write(encode_frame(WebhookReport(problems, answered, 1234.0)))
    %s
    await asyncio.sleep(60)
asyncio.run(run())
"""
GOOD = "report(); await writer.drain()"


class Seen:
    """A `WebhookObserver`."""

    def __init__(self) -> None:
        self.answers: list[tuple[str, str, float]] = []
        self.expires = 0.0

    def answered(self, path: str, result: str, seconds: float) -> None:
        self.answers.append((path, result, seconds))

    def certificate(self, expires: float) -> None:
        self.expires = expires


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "FIRST_SECONDS", 0.01)


@asynccontextmanager
async def supervised(body: str) -> AsyncIterator[tuple[WebhookProcess, Seen, "asyncio.Task[None]"]]:
    seen = Seen()
    command = (sys.executable, "-c", SCRIPT % body)
    with listen("127.0.0.1", 0, "") as listener:
        process = WebhookProcess(
            command, listener, WebhookStart(Config()), DemandFeed(lambda _: ()), lambda: ["team/gang"], seen
        )
        running = asyncio.create_task(process.run())
        try:
            async with asyncio.timeout(60):
                yield process, seen, running
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def eventually(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(0.01)


def problems(process: WebhookProcess) -> dict[str, str]:
    return {check.name: check.problem() for check in process.checks}


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


async def test_reports_become_health_and_metrics() -> None:
    """Not ready before the first one."""
    async with supervised('report(webhook="watch-nodes: dead"); await writer.drain()') as (process, seen, _):
        assert all("not started" in problem for problem in problems(process).values())
        await eventually(lambda: bool(seen.answers))
        assert problems(process) == {"webhook": "watch-nodes: dead", "certificate": ""}
        assert (seen.answers, seen.expires) == ([("/validate", "allowed", 0.25)], 1234.0)


async def test_a_killed_process_starts_again() -> None:
    """And is not ready meanwhile."""
    async with supervised(GOOD) as (process, seen, _):
        await eventually(lambda: len(seen.answers) == 1)
        first = process.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        await eventually(lambda: any("signal 9" in problem for problem in problems(process).values()))
        await eventually(lambda: len(seen.answers) == 2)
        assert process.pid not in (None, first)
        assert problems(process) == {"webhook": "", "certificate": ""}


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("sys.exit(3)", "exit code 3"),
        ("writer.write(b'GET / HTTP/1.1')", "it sent a frame"),
        ("writer.close()", "it closed its connection"),
    ],
)
async def test_a_process_that_fails_or_says_nonsense_is_replaced(body: str, why: str) -> None:
    """It is killed first where it still runs; each time is longer in coming."""
    async with supervised(body) as (process, _, _):
        await eventually(lambda: process.pid is not None)
        first = process.pid
        assert first is not None
        await eventually(lambda: why in problems(process)["webhook"])
        await eventually(lambda: is_gone(first))
        await eventually(lambda: process.pid not in (None, first))


async def test_a_process_that_hangs_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was stopped, or whose loop does not turn, reports nothing."""
    monkeypatch.setattr(supervisor, "SILENT_SECONDS", 0.3)
    monkeypatch.setattr(supervisor, "STARTING_SECONDS", 20.0)
    async with supervised(GOOD) as (process, seen, _):
        await eventually(lambda: len(seen.answers) == 1)
        first = process.pid
        assert first is not None
        await eventually(lambda: "no report" in problems(process)["webhook"])
        await eventually(lambda: is_gone(first))


async def test_a_command_that_cannot_be_run_is_tried_again() -> None:
    """Health says why."""
    async with supervised(GOOD) as (process, seen, _):
        works, process._command = process._command, ("/nonexistent/python",)
        await eventually(lambda: "cannot be started: No such file" in problems(process)["webhook"])
        process._command = works
        await eventually(lambda: bool(seen.answers))


async def test_an_end_in_order_ends_the_process(tmp_path: Path) -> None:
    """It gets SIGTERM, and time for requests in flight, also where it is cancelled again and again."""
    written = tmp_path / "ended"
    body = f"""
    def end():
        time.sleep(0.5)
        open({str(written)!r}, "w").close()
        os._exit(0)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end)
    {GOOD}"""
    async with supervised(body) as (process, seen, running):
        await eventually(lambda: bool(seen.answers))
        pid = process.pid
        assert pid is not None
        while not running.done():
            running.cancel()
            await asyncio.sleep(0.1)
        assert written.exists()
        assert is_gone(pid)


async def test_a_process_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a while."""
    monkeypatch.setattr(supervisor, "STOPPING_SECONDS", 0.2)
    async with supervised(f"signal.signal(signal.SIGTERM, signal.SIG_IGN); {GOOD}") as (process, seen, running):
        await eventually(lambda: bool(seen.answers))
        pid = process.pid
        assert pid is not None
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await eventually(lambda: is_gone(pid))


PARENT = """
import asyncio, sys
from muster.config.settings import Config
from muster.observability.serving.asgi_server import listen
from muster.observability.metrics import Metrics
from muster.webhook.process.gang_demands import DemandFeed
from muster.webhook.process.messages import WebhookStart
from muster.webhook.process.supervisor import WebhookProcess
async def run():
    listener = listen("127.0.0.1", int(sys.argv[1]), "")
    command = (sys.executable, "-c", sys.argv[2])
    process = WebhookProcess(command, listener, WebhookStart(Config()), DemandFeed(lambda _: ()), lambda: (), Metrics())
    running = asyncio.create_task(process.run())
    while any(check.problem() for check in process.checks):
        await asyncio.sleep(0.01)
    print(process.pid, flush=True)
    await running
asyncio.run(run())
"""


def test_a_killed_parent_leaves_neither_process_nor_port() -> None:
    """Even where the process is stuck in something that never ends."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    child = SCRIPT % f"{GOOD}; time.sleep(60)"
    command = [sys.executable, "-c", PARENT, str(port), child]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.kill()
        parent.wait(10)

    async def both_gone() -> None:
        async with asyncio.timeout(20):
            await eventually(lambda: is_gone(pid))

    asyncio.run(both_gone())
    listen("127.0.0.1", port, "").close()

"""Keeps the webhook's process running: starts it, feeds it, reads its reports, and starts it again when it ends.

Rule 1: the listening socket stays open here: while the other process starts again, connections wait in the kernel.
Rule 2: neither process outlives this one: the other ends at once when its lifeline, a pipe, is closed.
"""

import asyncio
import os
import socket
import time
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from muster.kube.backoff import Backoff
from muster.observability.logging import logger
from muster.webhook.observer import WebhookObserver
from muster.webhook.process.gang_demands import DemandFeed
from muster.webhook.process.messages import ProtocolError, WebhookReport, WebhookStart, encode_frame, read_frame

SILENT_SECONDS = 30.0  # a process that reports nothing for so long is stuck
STARTING_SECONDS = 90.0  # until its first report, on a busy machine
STOPPING_SECONDS = 4.0  # for requests in flight
KILLED_SECONDS = 2.0  # until the system has ended it
FIRST_SECONDS, LONGEST_SECONDS = 0.5, 30.0  # before it starts again
STEADY_SECONDS = 60.0  # it runs for so long: the next failure is the first one
NOT_STARTED = "its process has not started yet"


class ReportedCheck:
    """A health check whose answer comes from the webhook's process."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._problem = NOT_STARTED

    def problem(self) -> str:
        """As last reported."""
        return self._problem

    def report(self, problem: str) -> None:
        """The process says so, or nothing more."""
        self._problem = problem


class WebhookProcess:
    """The webhook's process, one after the other."""

    def __init__(
        self,
        command: Sequence[str],
        listener: socket.socket,
        start: WebhookStart,
        feed: DemandFeed,
        gangs: Callable[[], Iterable[str]],
        observer: WebhookObserver,
    ) -> None:
        self._command, self._listener, self._start = command, listener, start
        self._feed, self._gangs, self._observer = feed, gangs, observer
        self.checks = [ReportedCheck(name) for name in ("webhook", "certificate")]
        self.pid: int | None = None  # None: it does not run
        self._reported_at = 0.0
        self._log = logger("webhook")

    async def run(self) -> None:
        """Runs it without end; cancelled, it ends the process: in order, or at once where it is cancelled again."""
        backoff = Backoff(FIRST_SECONDS, LONGEST_SECONDS)
        while True:
            began = time.monotonic()
            why = await self._run_once()
            self._report_problem(f"its process has ended: {why}")
            if time.monotonic() - began > STEADY_SECONDS:
                backoff.reset()
            seconds = backoff.next_seconds()
            self._log.error("the webhook's process has ended and starts again", why=why, seconds=seconds)
            await asyncio.sleep(seconds)

    async def _run_once(self) -> str:
        """Returns why it has ended."""
        lifeline, our_end = os.pipe()
        ours, theirs = socket.socketpair()
        try:
            fds = (self._listener.fileno(), theirs.fileno(), lifeline)
            process = await asyncio.create_subprocess_exec(
                *self._command, *map(str, fds), stdin=DEVNULL, pass_fds=fds, start_new_session=True
            )
        except OSError as error:
            ours.close()
            os.close(our_end)
            return f"it cannot be started: {error.strerror or error}"
        finally:
            theirs.close()
            os.close(lifeline)
        self.pid, self._reported_at = process.pid, time.monotonic() + STARTING_SECONDS - SILENT_SECONDS
        try:
            return await self._attend(process, ours)
        finally:
            self.pid = None
            with suppress(ProcessLookupError):
                process.kill()
            await _wait_for(process, KILLED_SECONDS)
            os.close(our_end)

    async def _attend(self, process: Process, ours: socket.socket) -> str:
        reader, writer = await asyncio.open_connection(sock=ours)
        work = {
            asyncio.create_task(job, name=f"webhook process: {name}")
            for name, job in (
                ("exit", self._wait(process)),
                ("send", self._send(writer)),
                ("receive", self._receive(reader)),
                ("silence", self._watch_silence()),
            )
        }
        try:
            done, _ = await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
            return self._outcome(next(iter(done)))
        except asyncio.CancelledError:
            await self._stop(process)
            raise
        finally:
            for task in work:
                task.cancel()
            await asyncio.wait(work)
            writer.close()

    def _outcome(self, task: asyncio.Task[str]) -> str:
        if (error := task.exception()) is None:
            return task.result()
        self._log.error("attending the webhook's process failed", exc_info=error)
        return f"internal error: {type(error).__name__}"

    async def _wait(self, process: Process) -> str:
        code = await process.wait()
        return f"signal {-code}" if code < 0 else f"exit code {code}"

    async def _send(self, writer: asyncio.StreamWriter) -> str:
        """A new process knows nothing: it gets every gang."""
        self._feed.resend(self._gangs())
        try:
            writer.write(encode_frame(self._start))
            while True:
                await writer.drain()
                writer.write(encode_frame(await self._feed.next_message()))
        except ConnectionError:
            return await self._closed()

    async def _receive(self, reader: asyncio.StreamReader) -> str:
        try:
            while True:
                self._take(await read_frame(reader, WebhookReport))
        except EOFError:
            return await self._closed()
        except ProtocolError as error:
            return f"it sent {error}"

    async def _closed(self) -> str:
        """Its end of the socket is closed: it is about to end, and its exit code says more."""
        await asyncio.sleep(1.0)
        return "it closed its connection"

    def _take(self, report: WebhookReport) -> None:
        self._reported_at = time.monotonic()
        for check in self.checks:
            check.report(report.problems.get(check.name, ""))
        for answered in report.answered:
            self._observer.answered(answered.path, answered.result, answered.seconds)
        if report.certificate_expires is not None:
            self._observer.certificate(report.certificate_expires)

    async def _watch_silence(self) -> str:
        while (silent := time.monotonic() - self._reported_at) <= SILENT_SECONDS:
            await asyncio.sleep(min(1.0, SILENT_SECONDS - silent + 0.01))
        return f"no report for {SILENT_SECONDS:g} s"

    def _report_problem(self, problem: str) -> None:
        for check in self.checks:
            check.report(problem)

    async def _stop(self, process: Process) -> None:
        """Lets it complete requests in flight."""
        self._report_problem("it is being stopped")
        with suppress(ProcessLookupError):
            process.terminate()
        await _wait_for(process, STOPPING_SECONDS)


async def _wait_for(process: Process, seconds: float) -> None:
    """Until it has ended, at most so long; cancellations change nothing, as this ends soon."""
    ending, end = asyncio.create_task(process.wait()), time.monotonic() + seconds
    while not ending.done() and (left := end - time.monotonic()) > 0:
        with suppress(asyncio.CancelledError):
            await asyncio.wait({ending}, timeout=left)
    ending.cancel()

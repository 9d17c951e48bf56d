"""What the webhook's process says about itself."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from muster.webhook.process import reporter
from muster.webhook.process.messages import AnsweredRequest, WebhookReport, read_frame
from muster.webhook.process.reporter import Reporter


class Fixed:
    """A health check."""

    def __init__(self, name: str, says: str = "") -> None:
        self.name, self.says = name, says

    def problem(self) -> str:
        return self.says


@asynccontextmanager
async def reports(reports_of: Reporter) -> AsyncIterator[asyncio.StreamReader]:
    """What is read at the other end."""
    ours, theirs = socket.socketpair()
    (reader, closing), (_, writer) = [await asyncio.open_connection(sock=sock) for sock in (ours, theirs)]
    running = asyncio.create_task(reports_of.run(writer))
    try:
        async with asyncio.timeout(10):
            yield reader
    finally:
        running.cancel()
        for each in (closing, writer):
            each.close()
            await each.wait_closed()


def test_each_answer_is_reported_once() -> None:
    """With the certificate, and every check that fails in one sentence."""
    here = Reporter([Fixed("watch-nodes", "dead"), Fixed("watch-queues")], Fixed("certificate", "expired"))
    here.answered("/validate", "denied", 0.5)
    here.certificate(12.0)
    problems = {"webhook": "watch-nodes: dead", "certificate": "expired"}
    assert here.report() == WebhookReport(problems, [AnsweredRequest("/validate", "denied", 0.5)], 12.0)
    assert here.report() == WebhookReport(problems, [], 12.0)


def test_what_is_not_read_does_not_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other process may be stuck."""
    here = Reporter([], Fixed("certificate"))
    for i in range(reporter.MOST_ANSWERED + 5):
        here.answered(str(i), "", 0.0)
    assert [answer.path for answer in here.report().answered[:1]] == ["5"]


async def test_a_change_of_health_is_reported_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a report comes now and then, to show that the process is alive."""
    monkeypatch.setattr(reporter, "REPORT_SECONDS", 3600.0)
    monkeypatch.setattr(reporter, "CHECK_SECONDS", 0.01)
    certificate = Fixed("certificate")
    async with reports(Reporter([], certificate)) as reader:
        assert (await read_frame(reader, WebhookReport)).problems["certificate"] == ""
        certificate.says = "expired"
        assert (await read_frame(reader, WebhookReport)).problems["certificate"] == "expired"

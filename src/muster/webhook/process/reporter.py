"""The reports of the webhook's process about itself."""

import asyncio
from collections import deque
from collections.abc import Sequence

from muster.observability.health import Check
from muster.webhook.process.messages import AnsweredRequest, WebhookReport, encode_frame

REPORT_SECONDS = 1.0
MOST_ANSWERED = 20_000  # that wait for a report: more than a process answers in ten seconds


class Reporter:
    """Collects what happens, and reports it every second; also a `WebhookObserver`."""

    def __init__(self, webhook: Sequence[Check], certificate: Check) -> None:
        self._webhook, self._certificate = webhook, certificate
        self._answered: deque[AnsweredRequest] = deque(maxlen=MOST_ANSWERED)
        self._expires: float | None = None

    def answered(self, path: str, result: str, seconds: float) -> None:
        """The webhook sent a response."""
        self._answered.append(AnsweredRequest(path, result, seconds))

    def certificate(self, expires: float) -> None:
        """The webhook serves a certificate that expires then."""
        self._expires = expires

    def report(self) -> WebhookReport:
        """What happened since the last one."""
        answered = list(self._answered)
        self._answered.clear()
        failed = ((check.name, check.problem()) for check in self._webhook)
        webhook = "; ".join(f"{name}: {problem}" for name, problem in failed if problem)
        problems = {"webhook": webhook, "certificate": self._certificate.problem()}
        return WebhookReport(problems, answered, self._expires)

    async def run(self, writer: asyncio.StreamWriter) -> None:
        """Reports without end."""
        while True:
            writer.write(encode_frame(self.report()))
            await writer.drain()
            await asyncio.sleep(REPORT_SECONDS)

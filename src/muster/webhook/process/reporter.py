"""The reports of the webhook's process about itself."""

import asyncio
from collections import deque
from collections.abc import Sequence

from muster.observability.health import Check
from muster.webhook.process.messages import AnsweredRequest, WebhookReport, encode_frame

REPORT_SECONDS = 1.0
CHECK_SECONDS = 0.2  # a change of health is reported at once
MOST_ANSWERED = 20_000  # that wait for a report: more than a process answers in ten seconds


class Reporter:
    """Collects what happens, and reports it every second, or when its health changes; also a `WebhookObserver`."""

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
        return WebhookReport(self._problems(), answered, self._expires)

    def _problems(self) -> dict[str, str]:
        failed = ((check.name, check.problem()) for check in self._webhook)
        webhook = "; ".join(f"{name}: {problem}" for name, problem in failed if problem)
        return {"webhook": webhook, "certificate": self._certificate.problem()}

    async def run(self, writer: asyncio.StreamWriter) -> None:
        """Reports without end."""
        while True:
            report = self.report()
            writer.write(encode_frame(report))
            await writer.drain()
            await self._wait_for_news(report.problems)

    async def _wait_for_news(self, reported: dict[str, str]) -> None:
        for _ in range(round(REPORT_SECONDS / CHECK_SECONDS)):
            await asyncio.sleep(CHECK_SECONDS)
            if self._problems() != reported:
                return

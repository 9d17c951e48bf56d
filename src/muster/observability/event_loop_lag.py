"""How late the event loop is: leases, probes and the webhook wait behind whatever keeps it busy."""

import asyncio
from collections.abc import Callable

EVERY_SECONDS = 0.5


async def measure_lag(report: Callable[[float], None], every_seconds: float = EVERY_SECONDS) -> None:
    """Reports, without end, how much later than requested a timer fires."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + every_seconds
        await asyncio.sleep(every_seconds)
        report(max(loop.time() - due, 0.0))

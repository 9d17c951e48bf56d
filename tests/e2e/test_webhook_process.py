"""The webhook's process beside `muster run`: it comes back, and goes with it, whatever ends either."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from muster.observability.serving.asgi_server import listen
from tests.e2e.local_run import LocalRun, is_gone, local_run

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="processes are read from /proc")


async def test_the_webhook_answers_again_after_its_process_was_killed(tmp_path: Path) -> None:
    """A request that comes meanwhile waits; readiness says that it is gone, and counters go on."""
    async with local_run(tmp_path) as run:
        assert await run.review() == 200
        await counted(run, 1)
        first = run.webhook_pid
        os.kill(first, signal.SIGKILL)
        await run.until(lambda: is_gone(first))
        assert await run.review() == 200
        await run.until_ready()
        assert run.webhook_pid != first
        await counted(run, 2)
        log = (tmp_path / "log").read_text(encoding="utf-8")
        assert "the webhook's process has ended and starts again" in log
        assert "signal 9" in log


async def counted(run: LocalRun, answers: int) -> None:
    """Until the metrics have that many."""
    line = f'muster_webhook_requests_total{{path="/validate",result="allowed"}} {float(answers)}'
    async with asyncio.timeout(20):
        while line not in (await run.probe("/metrics"))[1]:
            await asyncio.sleep(0.2)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
async def test_nothing_is_left_of_it(tmp_path: Path, number: signal.Signals) -> None:
    """Neither a process nor a port; SIGTERM is answered in order."""
    async with local_run(tmp_path) as run:
        pid = run.webhook_pid
        os.kill(run.process.pid, number)
        code = await asyncio.to_thread(run.process.wait, 30)
        assert code == (0 if number == signal.SIGTERM else -signal.SIGKILL)
        await run.until(lambda: is_gone(pid), 20)
        for port in (run.probe_port, run.webhook_port):
            listen("127.0.0.1", port, "").close()

"""The process of the webhook beside `muster run`: no plan delays it; it comes back, and leaves nothing behind."""

import asyncio
import os
import signal
from functools import partial
from pathlib import Path

import pytest
from bench.hard_cases import some_of

from muster.api.resources import NAMESPACES, NODES, POD_GROUPS, PODS, TOPOLOGIES
from muster.embedded.memory_cluster import MemoryCluster
from muster.observability.serving.asgi_server import listen
from tests.e2e.local_run import LocalRun, cpu_seconds, is_gone, local_run
from tests.support.admission_reviews import sent
from tests.support.factories import group, podgroup

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="processes are read from /proc")

PATIENT = """
scheduling: {searchSteps: 1000000000, cycleSteps: 10000000000, longSearchSteps: 0, idleCycleSeconds: 3600}
"""
KINDS = {resource.kind: resource for resource in (NODES, TOPOLOGIES, POD_GROUPS, PODS)}
GANG = sent(podgroup(*(group(f"leaf-{i}", 8) for i in range(10)), minSubGroup=5))
ANSWERS = 30  # of each part of a test


async def test_reviews_are_answered_while_a_plan_does_not_end(tmp_path: Path) -> None:
    """Neither a plan that spins delays them, nor a planning process that gives no other thread of its own a turn.

    The second is the worst plan that there can be: the process is stopped in the middle of it.
    """
    async with local_run(tmp_path, PATIENT) as run:
        submit_hard_gang(run.memory)
        cycles = await until_one_plan_spins(run)
        used, webhook_used = cpu_seconds(run.process.pid), cpu_seconds(run.webhook_pid)
        answers = 0
        while answers < ANSWERS or cpu_seconds(run.process.pid) < used + 1:
            assert await run.review(body=GANG) == 200
            assert await ended_cycles(run) == cycles, "the same plan is still made"
            answers += 1
        os.kill(run.process.pid, signal.SIGSTOP)
        try:
            assert [await run.review(body=GANG) for _ in range(ANSWERS)] == [200] * ANSWERS
        finally:
            os.kill(run.process.pid, signal.SIGCONT)
        assert cpu_seconds(run.webhook_pid) > webhook_used
        assert await ended_cycles(run) == cycles


def submit_hard_gang(memory: MemoryCluster) -> None:
    """45 of 50 children of 20 sizes, on racks with hardly any room to spare: no search ends within a minute."""
    memory.store.create(NAMESPACES, {"metadata": {"name": "team"}})
    for raw in some_of(50, 45, 20, seed=2):
        if raw["kind"] == "Pod":
            raw["spec"] |= {"schedulerName": "muster"}
            raw["spec"]["containers"][0]["image"] = "none"
        memory.store.create(KINDS[raw["kind"]], raw)


async def until_one_plan_spins(run: LocalRun) -> float:
    """Cycles that ended before it; the plan has had two seconds of CPU when this returns."""
    while True:
        cycles, used = await ended_cycles(run), cpu_seconds(run.process.pid)
        await run.until(partial(has_used, run.process.pid, used + 2))
        if await ended_cycles(run) == cycles:
            return cycles


def has_used(pid: int, seconds: float) -> bool:
    return cpu_seconds(pid) > seconds


async def ended_cycles(run: LocalRun) -> float:
    _, text = await run.probe("/metrics")
    return float(text.partition("\nmuster_cycle_duration_seconds_count ")[2].split()[0])


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

"""Tasks of a process: started with a name, supervised together, cancelled until they are done."""

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any

from muster.errors import MusterError

Loop = Callable[[], Coroutine[Any, Any, None]]  # runs until it is cancelled
Task = asyncio.Task[None]
CANCEL_SECONDS = 0.5


def start(loops: Mapping[str, Loop]) -> list[Task]:
    """One task a loop, with its name."""
    return [asyncio.create_task(loop(), name=name) for name, loop in loops.items()]


async def supervise(loops: Iterable[Task], *work: Coroutine[Any, Any, Any]) -> None:
    """Run until some of the work is done; a loop that ends before is an error, and ends everything."""
    running, jobs = set(loops), {asyncio.create_task(job) for job in work}
    try:
        done, _ = await asyncio.wait([*running, *jobs], return_when=asyncio.FIRST_COMPLETED)
        for task in done & running:
            raise _failure(task)
        for task in done:
            task.result()
    finally:
        await cancel(jobs)
        retrieve(jobs)


async def cancel(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel until all are done: a task that just handles another exception may miss one cancellation."""
    pending = {task for task in tasks if not task.done()}
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=CANCEL_SECONDS)


def retrieve(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Mark the failures of these tasks as seen, so that asyncio does not log them again."""
    for task in tasks:
        if not task.cancelled():
            task.exception()


def _failure(task: Task) -> BaseException:
    failure = None if task.cancelled() else task.exception()
    while isinstance(failure, BaseExceptionGroup):
        failure = failure.exceptions[0]
    if failure is not None and os.environ.get("MUSTER_DEBUG"):
        return failure
    cause = f"{type(failure).__name__}: {failure}" if failure else "it gave no reason"
    return MusterError(
        f"the {task.get_name()} ended by itself, and the cluster with it: {cause}",
        hint="MUSTER_DEBUG=1 shows where; please report",
    )

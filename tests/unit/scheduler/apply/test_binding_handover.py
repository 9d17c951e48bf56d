"""The first bindings of a plan are on their way while the rest is planned."""

import asyncio
import time

import pytest

from muster.planning.decision import Binding
from muster.scheduler.apply import binding_handover
from muster.scheduler.apply.binding_handover import BindingHandover
from muster.scheduler.daemon_threads import in_daemon_thread

LONG_SECONDS = 60.0


def binding(number: int) -> Binding:
    return Binding(namespace="d", pod=f"p{number}", node="n", pod_group="g", sub_group="", role="core")


async def test_a_plan_goes_on_once_its_first_bindings_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The task that sends a batch has run up to its first wait when the planning thread continues."""
    monkeypatch.setattr(binding_handover, "LONGEST_SECONDS", LONG_SECONDS)
    sent: list[str] = []
    tasks: set[asyncio.Task[None]] = set()

    async def send(name: str) -> None:
        sent.append(name)
        await asyncio.Event().wait()  # for an answer

    handover = BindingHandover(
        lambda bindings: tasks.update(asyncio.create_task(send(each.pod)) for each in bindings), 2
    )

    def plan() -> list[list[str]]:
        seen = []
        for number in range(2):
            handover((binding(number),))
            seen.append(list(sent))
        return seen

    assert await in_daemon_thread("plan", plan) == [["p0"], ["p0", "p1"]]
    for task in tasks:
        task.cancel()


async def test_a_plan_does_not_wait_for_bindings_beyond_those_that_are_sent_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two may be on their way: the thread hands over the third without waiting for an event loop that is busy."""
    monkeypatch.setattr(binding_handover, "LONGEST_SECONDS", LONG_SECONDS)
    received: list[str] = []
    handover = BindingHandover(lambda bindings: received.extend(each.pod for each in bindings), 2)
    await in_daemon_thread("plan", lambda: handover((binding(0), binding(1))))
    began = time.monotonic()
    handover((binding(2),))  # from the event loop's own thread, which cannot run what it would wait for
    assert time.monotonic() - began < LONG_SECONDS / 2
    assert received == ["p0", "p1"]
    await asyncio.sleep(0)
    assert received == ["p0", "p1", "p2"]


async def test_a_plan_waits_for_a_busy_event_loop_only_for_a_moment() -> None:
    """The event loop does something else: the thread goes on by itself, and nothing is lost."""
    received: list[str] = []
    handover = BindingHandover(lambda bindings: received.extend(each.pod for each in bindings), 2)
    handover((binding(0),))
    assert received == []
    await asyncio.sleep(0)
    assert received == ["p0"]


async def test_a_plan_does_not_wait_long_where_bindings_cannot_be_submitted(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of the event loop's side is reported there, and does not stop the thread."""
    monkeypatch.setattr(binding_handover, "LONGEST_SECONDS", LONG_SECONDS)
    problems: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context["exception"]))

    def fail(_bindings: object) -> None:
        raise ValueError("a bug")

    handover = BindingHandover(fail, 2)
    await asyncio.wait_for(in_daemon_thread("plan", lambda: handover((binding(0),))), LONG_SECONDS / 2)
    assert [str(problem) for problem in problems] == ["a bug"]

"""What if, for viewers: the plan before and after a supposition, by the functions that `muster plan` calls.

Rule 1: one question at a time, in a daemon thread; it is given up after a while, or when its viewer goes. Rule 2: it
reads the objects of the scheduler, and writes nothing anywhere.
"""

import asyncio
import threading
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from muster.api.objects import Objects
from muster.dashboard.answers import JSON, refuse
from muster.errors import InputError, MusterError
from muster.placement.budget import Cancelled
from muster.planning.grove.scaled_gangs import StagedPlan, plan_in_stages
from muster.planning.policy import Policy
from muster.planning.supposed_nodes import copy_nodes, nodes_in_domain
from muster.planning.whatif import Hypothesis
from muster.reporting import whatif
from muster.reporting.dashboard.gangs import text_line
from muster.reporting.dashboard.nodes import node_rows
from muster.reporting.dashboard.rows import NodeRow
from muster.scheduler.daemon_threads import in_daemon_thread
from muster.validation.fields import Value

LONGEST_SECONDS = 30.0
MOST_BYTES = 64 * 2**10
MOST_NEW_NODES = 1_000


class DrainedDomain(Struct, frozen=True, forbid_unknown_fields=True):
    """A domain whose nodes are drained."""

    topology: str
    level: str
    path: str  # label values from the top level down: zone-1/rack-2


class NewNodes(Struct, frozen=True, forbid_unknown_fields=True):
    """More nodes of a kind."""

    like: str
    count: int


class WhatIfQuestion(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """What a viewer supposes."""

    drain: tuple[str, ...] = ()
    drain_domains: tuple[DrainedDomain, ...] = ()
    set: dict[str, Value] = {}
    without: tuple[str, ...] = ()
    add_nodes: NewNodes | None = None


KNOWN = ", ".join(sorted(WhatIfQuestion.__struct_encode_fields__))


class WhatIfAnswers:
    """Answers questions about the objects that the scheduler knows."""

    def __init__(self, objects: Callable[[], Objects], policy: Policy, wall: Callable[[], datetime]) -> None:
        self._objects, self._policy, self._wall = objects, policy, wall
        self._running: asyncio.Task[bytes] | None = None

    async def respond(self, request: Request) -> Response:
        """One question. InputError where it cannot be read."""
        if request.headers.get("content-type", "").partition(";")[0].strip() != JSON:
            return refuse(415, "a question is JSON", f"say `Content-Type: {JSON}`")
        length = request.headers.get("content-length", "0")
        if not length.isdigit() or int(length) > MOST_BYTES:
            return refuse(413, f"a question has at most {MOST_BYTES} bytes", "ask about fewer things")
        question = read_question(await request.body())
        if self._running is not None and not self._running.done():
            return refuse(429, "another what-if is being planned", "try again in a moment")
        return await self._run(request, question)

    async def _run(self, request: Request, question: WhatIfQuestion) -> Response:
        given_up = threading.Event()
        plan = partial(plan_in_stages, now=self._wall(), policy=self._policy, is_cancelled=given_up.is_set)
        work = partial(answer_question, self._objects(), question, self._policy, plan)
        self._running = asyncio.create_task(in_daemon_thread("what if", work))
        self._running.add_done_callback(_retrieve)
        try:
            return await self._wait(request, self._running)
        finally:
            given_up.set()

    async def _wait(self, request: Request, running: asyncio.Task[bytes]) -> Response:
        gone = asyncio.create_task(_until_disconnected(request))
        await asyncio.wait({running, gone}, timeout=LONGEST_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        has_gone = gone.done()
        gone.cancel()
        if running.done():
            return _respond(running)
        if has_gone:
            return refuse(499, "the viewer has gone")
        hint = "`muster plan` with the same changes takes all the time that it needs"
        return refuse(504, f"no plan within {LONGEST_SECONDS:.0f} s: it is given up", hint)


async def _until_disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        continue


def _retrieve(task: asyncio.Task[bytes]) -> None:
    """Marks a failure as seen: the viewer that it was for may be gone."""
    if not task.cancelled():
        task.exception()


def _respond(done: asyncio.Task[bytes]) -> Response:
    try:
        return Response(done.result(), media_type=JSON)
    except Cancelled:
        return refuse(504, "the plan was given up")
    except MusterError as error:
        return refuse(422, error.message, error.hint)


def read_question(body: bytes) -> WhatIfQuestion:
    """The question in a body; InputError says what is wrong with it."""
    try:
        question = msgspec.json.decode(body, type=WhatIfQuestion)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(f"the question cannot be read: {error}", hint=f"known: {KNOWN}") from None
    more = question.add_nodes
    if more is not None and not 1 <= more.count <= MOST_NEW_NODES:
        raise InputError(f"addNodes.count: {more.count} is out of range", hint=f"1 to {MOST_NEW_NODES}")
    return question


def hypothesis_of(question: WhatIfQuestion, objects: Objects) -> Hypothesis:
    """The changes that a question is about."""
    domains = (nodes_in_domain(objects, each.topology, each.level, each.path) for each in question.drain_domains)
    more = question.add_nodes
    return Hypothesis(
        added=None if more is None else copy_nodes(objects, more.like, more.count),
        without=question.without,
        settings=tuple(question.set.items()),
        drained=tuple(dict.fromkeys((*question.drain, *(name for names in domains for name in names)))),
    )


def answer_question(
    objects: Objects, question: WhatIfQuestion, policy: Policy, plan: Callable[[Objects], StagedPlan]
) -> bytes:
    """What `muster plan -o json` prints, its lines, and the nodes that differ: as JSON."""
    changes = hypothesis_of(question, objects)
    both = whatif.plan_both(objects, objects, changes, policy.scheduler_names, plan)
    before, after = both.before, both.after
    answer: dict[str, Any] = {
        **whatif.data(both.supposed, before.decided, after.decided),
        "text": [text_line(line) for line in whatif.lines(both.supposed, before.decided, after.decided)],
        "map": changed_nodes(
            *(node_rows(each.snapshot, each.decided, is_carried_out=True) for each in (before, after))
        ),
    }
    return msgspec.json.encode(answer)


def changed_nodes(before: Mapping[str, NodeRow], after: Mapping[str, NodeRow]) -> dict[str, dict[str, NodeRow]]:
    """The nodes that differ, before and after."""
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    return {
        when: {name: rows[name] for name in names if name in rows}
        for when, rows in (("before", before), ("after", after))
    }

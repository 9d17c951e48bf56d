"""A Cluster around another one that fails by a script: errors, lost answers, late or repeated events, crashes."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from random import Random
from typing import Any, Literal, TypeVar

from msgspec import Struct

from muster.api.resources import Resource
from muster.kube.cluster import Change, Cluster, Listing, PatchType, Raw
from muster.kube.errors import ApiError
from muster.kube.pod_mark import PodMark

T = TypeVar("T")


class Crash(Exception):
    """The process dies here: nothing after this is done by it."""


class Call(Struct, frozen=True):
    """One call of the API, or one event of a watch."""

    number: int  # of calls, from 1; events are not counted
    verb: str  # list, watch, get, ..., or `event`
    what: str  # plural, and a name where there is one
    again: int  # how often the same was asked before


OfCalls = Literal["conflict", "busy", "broken", "lost", "unanswered", "forbidden", "crash"]
OfEvents = Literal["cut", "reset", "expired", "twice", "late"]
Fault = OfCalls | OfEvents
Script = Callable[[Call], Fault | None]

ERRORS: dict[Fault, ApiError] = {
    "conflict": ApiError(409, "Conflict", "the object has been modified"),
    "busy": ApiError(429, "TooManyRequests", "too many requests"),
    "broken": ApiError(500, "InternalError", "etcd has no leader"),
    "lost": ApiError(504, "Timeout", "never arrived"),  # and it did not happen
    "unanswered": ApiError(504, "Timeout", "no answer"),  # and yet it happened
    "forbidden": ApiError(403, "Forbidden", "you may not"),
    "reset": ApiError(503, "ServiceUnavailable", "connection reset by peer"),
    "expired": ApiError(410, "Expired", "too old resource version"),
}
WRITES = ("create", "replace", "patch", "delete", "bind", "evict")


def crash_at(number: int) -> Script:
    return lambda call: "crash" if call.number == number and call.verb != "event" else None


def seeded(seed: int, rate: float = 0.12) -> Script:
    """Faults that depend on the seed and on what is asked how often, not on the order in which tasks take turns."""

    def script(call: Call) -> Fault | None:
        dice = Random(f"{seed}/{call.verb}/{call.what}/{call.again}")
        if dice.random() >= rate:
            return None
        if call.verb == "event":
            return dice.choice(("cut", "reset", "expired", "twice", "late", "late"))
        if call.verb in WRITES:
            return dice.choice(("conflict", "busy", "broken", "lost", "unanswered", "crash"))
        return dice.choice(("busy", "broken", "lost", "expired" if call.verb == "watch" else "busy"))

    return script


class Faulty:
    """A Cluster around another, that fails by a script; after a crash every call fails."""

    def __init__(self, cluster: Cluster, script: Script = lambda _: None) -> None:
        self.cluster, self.script = cluster, script
        self.calls = 0
        self.log: list[str] = []
        self.held = 0  # events that are late right now
        self.dead = False
        self._repeats: Counter[tuple[str, str]] = Counter()

    def _fault(self, verb: str, what: str) -> Fault | None:
        if self.dead:
            raise Crash
        again = self._repeats[verb, what]
        self._repeats[verb, what] += 1
        return self.script(Call(self.calls, verb, what, again))

    async def _do(self, verb: str, what: str, work: Callable[[], Awaitable[T]]) -> T:
        self.calls += 1
        fault = self._fault(verb, what)
        self.log.append(f"{verb} {what}" + (f": {fault}" if fault else ""))
        if fault == "crash":
            self.dead = True
            raise Crash
        await asyncio.sleep(0)  # on its way
        if fault and fault != "unanswered":
            raise ERRORS[fault]
        if self.dead:
            raise Crash
        answer = await work()
        await asyncio.sleep(0)  # and back
        if self.dead:
            raise Crash
        if fault:
            raise ERRORS[fault]
        return answer

    async def list(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        limit: int = 0,
        after: str = "",
    ) -> Listing:
        def work() -> Awaitable[Listing]:
            return self.cluster.list(resource, namespace, labels=labels, fields=fields, limit=limit, after=after)

        return await self._do("list", resource.plural, work)

    def watch(
        self, resource: Resource, since: str, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> AbstractAsyncContextManager[AsyncIterator[Change]]:
        return self._watch(resource, self.cluster.watch(resource, since, namespace, labels=labels, fields=fields))

    @asynccontextmanager
    async def _watch(
        self, resource: Resource, inner: AbstractAsyncContextManager[AsyncIterator[Change]]
    ) -> AsyncIterator[AsyncIterator[Change]]:
        async def nothing() -> None:
            return None

        await self._do("watch", resource.plural, nothing)
        async with inner as changes:
            yield self._events(resource, changes)

    async def _events(self, resource: Resource, changes: AsyncIterator[Change]) -> AsyncIterator[Change]:
        """Events are lost only together with the connection: what API servers promise, and all that anyone can use."""
        async for change in changes:
            name = change.object["metadata"].get("name", "")
            match self._fault("event", f"{resource.plural} {name}"):
                case "cut":
                    return
                case "reset" | "expired" | "broken" as fault:
                    raise ERRORS[fault]
                case "twice":
                    yield change
                case "late":
                    self.held += 1
                    try:
                        await asyncio.sleep(0.01)
                    finally:
                        self.held -= 1
                case _:
                    pass
            yield change

    async def get(self, resource: Resource, namespace: str, name: str) -> Raw:
        return await self._do("get", f"{resource.plural} {name}", lambda: self.cluster.get(resource, namespace, name))

    async def create(self, resource: Resource, raw: Raw) -> Raw:
        meta = raw["metadata"]
        what = f"{resource.plural} {meta.get('name') or meta.get('generateName')}"
        return await self._do("create", what, lambda: self.cluster.create(resource, raw))

    async def replace(self, resource: Resource, raw: Raw, subresource: str = "") -> Raw:
        what = f"{resource.plural} {raw['metadata']['name']} {subresource}".strip()
        return await self._do("replace", what, lambda: self.cluster.replace(resource, raw, subresource))

    async def patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        patch: Any,
        kind: PatchType = "application/merge-patch+json",
        subresource: str = "",
        field_manager: str = "muster",
        force: bool = False,
    ) -> Raw:
        def work() -> Awaitable[Raw]:
            return self.cluster.patch(resource, namespace, name, patch, kind, subresource, field_manager, force)

        return await self._do("patch", f"{resource.plural} {name} {subresource}".strip(), work)

    async def delete(
        self, resource: Resource, namespace: str, name: str, *, uid: str = "", grace_seconds: int | None = None
    ) -> None:
        def work() -> Awaitable[None]:
            return self.cluster.delete(resource, namespace, name, uid=uid, grace_seconds=grace_seconds)

        await self._do("delete", f"{resource.plural} {name}", work)

    async def bind(self, namespace: str, pod: str, uid: str, node: str, *, mark: PodMark | None = None) -> None:
        await self._do("bind", pod, lambda: self.cluster.bind(namespace, pod, uid, node, mark=mark))

    async def expect_bindings(self, number: int) -> None:
        await self.cluster.expect_bindings(number)

    async def binds_with_labels(self) -> bool:
        return await self.cluster.binds_with_labels()

    async def evict(self, namespace: str, pod: str, uid: str, *, dry_run: bool = False) -> None:
        verb = "probe" if dry_run else "evict"
        await self._do(verb, pod, lambda: self.cluster.evict(namespace, pod, uid, dry_run=dry_run))

    async def close(self) -> None:
        await self.cluster.close()

    def writes(self) -> tuple[str, ...]:
        """What was asked for, but reading."""
        return tuple(line for line in self.log if line.split()[0] in WRITES)

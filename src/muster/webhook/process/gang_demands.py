"""What the pods of gangs request: counted in the process that caches pods, read in the one that answers reviews.

Rule: a gang is sent again only when its requests change: neither a binding nor a status of a pod is worth a word.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import msgspec

from muster.api import names
from muster.api.core import Pod
from muster.validation.context import PodDemands, Requests
from muster.validation.pods.membership import gang_of
from muster.webhook.process.messages import GangsChanged, RequestCount

GANGS_AT_ONCE = 100
PAUSE_SECONDS = 0.1  # between messages: planning matters more
MOST_TABLES = 50_000  # different ones that are remembered, so that equal ones are stored once
LARGEST_AMOUNT = 2**62  # no node has as much, and a frame holds no larger number
_decode = msgspec.msgpack.Decoder(list[RequestCount]).decode


class DemandFeed:
    """Gangs whose requests have changed since they were sent."""

    def __init__(self, pods_of: Callable[[str], Iterable[Pod]]) -> None:
        self._pods_of = pods_of
        self._changed: dict[str, None] = {}
        self._woken = asyncio.Event()

    def pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        """A pod was created, deleted or changed."""
        old, new = _facts(before), _facts(after)
        if old != new:
            self.resend(facts[0] for facts in (old, new) if facts is not None)

    def resend(self, gangs: Iterable[str]) -> None:
        """Sends these gangs, whether or not they have changed."""
        self._changed.update(dict.fromkeys(gangs))
        if self._changed:
            self._woken.set()

    async def next_message(self) -> GangsChanged:
        """Waits for gangs that changed; those that have no pods any more are in it, too."""
        await self._woken.wait()
        await asyncio.sleep(PAUSE_SECONDS)
        gangs = list(islice(self._changed, GANGS_AT_ONCE))
        for gang in gangs:
            del self._changed[gang]
        if not self._changed:
            self._woken.clear()
        return GangsChanged({gang: encode_demands(PodDemands(self._pods_of).of(gang)) for gang in gangs})


def _facts(pod: Pod | None) -> tuple[str, Any] | None:
    """What counts of a pod, behind its gang; None: it has none."""
    gang = gang_of(pod) if pod is not None else None
    if pod is None or gang is None:
        return None
    spec, is_terminating = pod.spec, pod.metadata.deletion_timestamp is not None
    phase = pod.status.phase if pod.status.phase in ("Failed", "Succeeded") else ""
    requested = spec.containers, spec.init_containers, spec.overhead, spec.resources
    return gang, (pod.metadata.labels.get(names.SUBGROUP, ""), phase, is_terminating, requested)


def encode_demands(demands: Mapping[str, Counter[Requests]]) -> bytes:
    """The requests of a gang, equal for equal ones."""
    leaves = [
        RequestCount(sub_group, tuple((name, min(amount, LARGEST_AMOUNT)) for name, amount in sorted(requests)), pods)
        for sub_group, counts in sorted(demands.items())
        for requests, pods in sorted(counts.items(), key=lambda item: sorted(item[0]))
    ]
    return msgspec.msgpack.encode(leaves)


class ReceivedDemands:
    """The same in the other process, small: encoded, and equal ones stored once."""

    def __init__(self) -> None:
        self._gangs: dict[str, bytes] = {}
        self._tables: dict[bytes, bytes] = {}

    def receive(self, message: GangsChanged) -> None:
        """Some gangs have changed."""
        if len(self._tables) > MOST_TABLES:
            self._tables = {}
        for gang, table in message.demands.items():
            if table == EMPTY:
                self._gangs.pop(gang, None)
            else:
                self._gangs[gang] = self._tables.setdefault(table, table)

    @property
    def gangs(self) -> Collection[str]:
        """The gangs that some pod names."""
        return self._gangs.keys()

    def of(self, gang: str) -> Mapping[str, Counter[Requests]]:
        """As `PodDemands.of`."""
        counts: dict[str, Counter[Requests]] = {}
        for leaf in _decoded(self._gangs.get(gang, EMPTY)):
            counts.setdefault(leaf.sub_group, Counter())[frozenset(leaf.requests)] += leaf.pods
        return counts


def _decoded(table: bytes) -> Iterator[RequestCount]:
    yield from _decode(table)


EMPTY = encode_demands({})

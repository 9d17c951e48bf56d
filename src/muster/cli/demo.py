"""`muster up --demo`: a gang forms, loses a node and heals, while you watch.

Rule: what is shown is read from the cluster, as `muster tree` reads it; nothing is told that was not seen.
"""

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click
from msgspec import Struct

from muster.api import codec, names
from muster.cli import printing
from muster.cli.assemble.embedded_cluster import EmbeddedCluster
from muster.errors import InputError, Refused
from muster.kube.cluster import Raw
from muster.kube.errors import ApiError
from muster.model.gang.builder import collect_gangs
from muster.planning.decision import GangPlan
from muster.reporting import views
from muster.reporting.explain import sentence
from muster.reporting.text import Line, Role, Span, many
from muster.simulator import datacenter

if TYPE_CHECKING:
    from rich.console import Console

PATIENCE_SECONDS = 60.0  # for anything to happen
QUIET_SECONDS = 2.5  # without any change, and nothing is decided or on its way: it stays like this
LOOK_SECONDS = 0.05
KEY = f"{datacenter.NAMESPACE}/{datacenter.GANG}"
SIZE = sum(replicas * pods for replicas, _, pods in datacenter.REPLICAS.values())
WORDS = {"Running": "running", "Pending": "starting", "Failed": "lost", "Succeeded": "done"}
SLOW = "try again when this machine has less to do"
ENOUGH = "`muster up --demo` without --nodes, --gpus, --topology and files has room for it"


class ShownPod(Struct, frozen=True, order=True):
    """A pod, where it is, and how it fares; without a node it waits."""

    leaf: str
    node: str
    state: str
    pod: str


class Picture(Struct, frozen=True):
    """The pods of the gang at one moment."""

    seats: tuple[ShownPod, ...]

    @property
    def whole(self) -> bool:
        """Every pod runs."""
        return len(self.running) == SIZE

    @property
    def running(self) -> tuple[ShownPod, ...]:
        """Those that run."""
        return tuple(seat for seat in self.seats if seat.state == "running")

    @property
    def nodes(self) -> frozenset[str]:
        """Where they are."""
        return frozenset(seat.node for seat in self.seats)

    @property
    def moving(self) -> bool:
        """Some pod is about to start or to go."""
        return any(seat.state not in ("running", "waiting") for seat in self.seats)

    def leaves(self) -> dict[str, Span]:
        """What the pods of every leaf do, and where."""
        found: dict[str, Counter[tuple[str, str]]] = {}
        for seat in self.seats:
            found.setdefault(seat.leaf, Counter())[seat.state, seat.node] += 1
        return {leaf: Span(_said(counts), _role(counts)) for leaf, counts in sorted(found.items())}


def _said(counts: Counter[tuple[str, str]]) -> str:
    return ", ".join(
        f"{number} {state} on {node}" if node else f"{number} {state}"
        for (state, node), number in sorted(counts.items())
    )


def _role(counts: Counter[tuple[str, str]]) -> Role:
    states = {state for state, _ in counts}
    return "good" if states == {"running"} else "bad" if "lost" in states else "warn"


class Demo:
    """The demonstration on a cluster that runs."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self._cluster = cluster

    async def run(self) -> None:
        """From the first pod to the last word. Refused: the cluster does not hold it, and why."""
        _say("The Dynamo example is submitted: 3 of 4 prefill and 1 of 2 decode replicas start it, each in one rack.")
        await self._submit()
        formed = await self._watch(lambda picture: picture.whole)
        self._judged(formed, "form")
        node = _busiest(formed)
        lost = [seat for seat in formed.seats if seat.node == node]
        _say(f"Node {node} is lost, and with it {_parts(lost)}.")
        await self._cluster.kubelets.fail_node(node)
        healed = await self._watch(lambda picture: picture.whole and node not in picture.nodes, formed)
        self._judged(healed, "heal")
        back = sorted(set(healed.running) - set(formed.seats))
        where = ", ".join(sorted({seat.node for seat in back}))
        _say(f"Healed: {_parts(back)} came up instead, on {where}." if back else "The gang goes on with what is left.")

    async def _submit(self) -> None:
        for raw in datacenter.dynamo():
            try:
                await self._cluster.submit(raw)
            except ApiError as error:
                if error.reason != "AlreadyExists" or raw["kind"] != "Namespace":
                    raise InputError(f"the example cannot be submitted: {error.message}", hint=ENOUGH) from error

    async def _watch(self, done: Callable[[Picture], bool], last: Picture | None = None) -> Picture:
        """Shown until it is done, or stays as it is; `last` was shown before."""
        begun = changed = time.monotonic()
        with _screen(last) as screen:
            while True:
                picture, now = self._look(), time.monotonic()
                if picture != last:
                    last, changed = picture, now
                    screen.show(picture, self._drawn)
                if done(picture) or (now - changed > QUIET_SECONDS and self._at_rest(picture)):
                    screen.end(self._drawn(picture))
                    return picture
                if now - begun > PATIENCE_SECONDS:
                    raise Refused(f"waited {PATIENCE_SECONDS:.0f} s in vain: pods are still on their way", hint=SLOW)
                await asyncio.sleep(LOOK_SECONDS)

    # what is seen

    def _look(self) -> Picture:
        pods = self._cluster.pods(datacenter.NAMESPACE)
        return Picture(tuple(sorted(_seat(raw) for raw in pods if _is_of_it(raw))))

    def _drawn(self, picture: Picture) -> Iterator[Line]:
        objects = codec.objects(self._cluster.gang_objects(datacenter.NAMESPACE))
        (gang,) = (gang for gang in collect_gangs(objects).gangs if gang.key == KEY)
        planned = self._planned()
        return views.drawn(views.look(gang), planned.domains if planned else {}, picture.leaves())

    def _planned(self) -> GangPlan | None:
        gangs = self._cluster.scheduler.last[1].gangs if self._cluster.scheduler.last else ()
        return next((found for found in gangs if found.gang.key == KEY), None)

    def _at_rest(self, picture: Picture) -> bool:
        """A plan knew of every pod that waits, and had no place for it."""
        planned, last = self._planned(), self._cluster.scheduler.last
        if planned is None or last is None or last[1].bindings or picture.moving:
            return False
        return planned.gang.standing.pending == len(picture.seats) - len(picture.running)

    def _judged(self, picture: Picture, deed: str) -> None:
        """Refused where the gang does not run; what is beyond its minimum may wait."""
        planned = self._planned()
        if picture.whole or planned is None:
            return
        why = "; ".join(sentence(refusal) for refusal in planned.refusals)
        if planned.verdict != "Scheduled":
            raise Refused(f"the gang does not {deed} on this cluster: {why or planned.verdict}", hint=ENOUGH)
        waiting = many(len(picture.seats) - len(picture.running), "pod")
        _say(f"The gang runs. Beyond its minimum, there is no room for {waiting} more{': ' if why else ''}{why}.")


def _is_of_it(raw: Raw) -> bool:
    return bool((raw["metadata"].get("annotations") or {}).get(names.POD_GROUP) == datacenter.GANG)


def _seat(raw: Raw) -> ShownPod:
    meta, node = raw["metadata"], raw["spec"].get("nodeName") or ""
    phase = raw.get("status", {}).get("phase", "Pending")
    state = "leaving" if meta.get("deletionTimestamp") else WORDS.get(phase, phase) if node else "waiting"
    return ShownPod(meta.get("labels", {}).get(names.SUBGROUP, ""), node, state, meta["name"])


def _busiest(picture: Picture) -> str:
    counts = Counter(seat.node for seat in picture.running)
    return max(sorted(counts), key=counts.__getitem__)


def _parts(seats: list[ShownPod]) -> str:
    """`8 pods (prefill-0: 5, prefill-1: 3)`."""
    counts = Counter(seat.leaf for seat in seats)
    return f"{many(len(seats), 'pod')} ({', '.join(f'{leaf}: {number}' for leaf, number in sorted(counts.items()))})"


def _say(text: str) -> None:
    click.echo(f"\n{text}\n")


# where it is shown --------------------------------------------------------------------------------------------------

Draw = Callable[[Picture], Iterator[Line]]


class _Pages:
    """Where nothing can be drawn over: a line for every change, and the tree at the end."""

    def __init__(self, last: Picture | None) -> None:
        self._begun = time.monotonic()
        self._last = last.leaves() if last else {}

    def show(self, picture: Picture, _: Draw) -> None:
        now = picture.leaves()
        for leaf, said in now.items():
            if said != self._last.get(leaf):
                click.echo(f"{time.monotonic() - self._begun:5.1f} s  {leaf:<10} {said.text}")
        self._last = now
        sys.stdout.flush()

    def end(self, lines: Iterator[Line]) -> None:
        click.echo()
        printing.show(lines)


class _Terminal:
    """The tree, drawn over itself."""

    def __init__(self, console: "Console") -> None:
        from rich.live import Live

        self.live = Live(console=console, auto_refresh=False, vertical_overflow="visible")

    def show(self, picture: Picture, draw: Draw) -> None:
        self._draw(draw(picture))

    def end(self, lines: Iterator[Line]) -> None:
        self._draw(lines)

    def _draw(self, lines: Iterator[Line]) -> None:
        from rich.text import Text

        rows = [Text.assemble(*((span.text, printing.COLOURS.get(span.role, "")) for span in line)) for line in lines]
        whole = Text("\n", no_wrap=True, overflow="ellipsis").join(rows)
        self.live.update(whole, refresh=True)


@contextmanager
def _screen(last: Picture | None) -> Iterator[_Pages | _Terminal]:
    if not sys.stdout.isatty():
        yield _Pages(last)
        return
    from rich.console import Console

    screen = _Terminal(Console(highlight=False))
    with screen.live:
        yield screen

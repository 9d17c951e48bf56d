"""`muster up --demo`: a gang forms, loses a node and heals, while you watch.

Rule: it shows only what it reads from the cluster, as `muster tree` does.
"""

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

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

TIMEOUT_SECONDS = 60.0  # for one step of the demonstration
QUIET_SECONDS = 2.5  # without a change, a binding or a starting pod: the gang stays as it is
POLL_SECONDS = 0.05
KEY = f"{datacenter.NAMESPACE}/{datacenter.GANG}"
SIZE = sum(replicas * pods for replicas, _, pods in datacenter.REPLICAS.values())
STATES = {"Running": "running", "Pending": "starting", "Failed": "lost", "Succeeded": "done"}
SLOW = "try again when this machine has less to do"
ENOUGH = "`muster up --demo` without --nodes, --gpus, --topology and files has room for it"


class ShownPod(Struct, frozen=True, order=True):
    """A pod with its node and state; without a node it waits."""

    leaf: str
    node: str
    state: str
    pod: str


class DemoGang(Struct, frozen=True):
    """The pods of the gang at one moment."""

    pods: tuple[ShownPod, ...]

    @property
    def is_complete(self) -> bool:
        """Every pod runs."""
        return len(self.running) == SIZE

    @property
    def running(self) -> tuple[ShownPod, ...]:
        """The pods that run."""
        return tuple(pod for pod in self.pods if pod.state == "running")

    @property
    def nodes(self) -> frozenset[str]:
        """The nodes of the pods."""
        return frozenset(pod.node for pod in self.pods)

    @property
    def is_moving(self) -> bool:
        """Some pod is starting or terminating."""
        return any(pod.state not in ("running", "waiting") for pod in self.pods)

    def leaves(self) -> dict[str, Span]:
        """For each leaf, its pods by state and node."""
        counts_by_leaf: dict[str, Counter[tuple[str, str]]] = {}
        for pod in self.pods:
            counts_by_leaf.setdefault(pod.leaf, Counter())[pod.state, pod.node] += 1
        return {leaf: Span(_summary(counts), _role(counts)) for leaf, counts in sorted(counts_by_leaf.items())}


def _summary(counts: Counter[tuple[str, str]]) -> str:
    return ", ".join(
        f"{number} {state} on {node}" if node else f"{number} {state}"
        for (state, node), number in sorted(counts.items())
    )


def _role(counts: Counter[tuple[str, str]]) -> Role:
    states = {state for state, _ in counts}
    return "good" if states == {"running"} else "bad" if "lost" in states else "warn"


class Demo:
    """The demonstration, on a running cluster."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self._cluster = cluster

    async def run(self) -> None:
        """Submit the gang, fail a node, watch it heal. Refused: the gang does not fit this cluster."""
        _print("Submits the Dynamo example: 3 of 4 prefill and 1 of 2 decode replicas start it, each in one rack.")
        await self._submit()
        formed = await self._watch(lambda state: state.is_complete)
        self._require_scheduled(formed, "form")
        node = _busiest(formed)
        lost = [pod for pod in formed.pods if pod.node == node]
        _print(f"Node {node} fails, and with it {_count_by_leaf(lost)}.")
        await self._cluster.kubelets.fail_node(node)
        healed = await self._watch(lambda state: state.is_complete and node not in state.nodes, formed)
        self._require_scheduled(healed, "heal")
        new = sorted(set(healed.running) - set(formed.pods))
        nodes = ", ".join(sorted({pod.node for pod in new}))
        _print(
            f"Healed: {_count_by_leaf(new)} started instead, on {nodes}." if new else "The gang runs on without them."
        )

    async def _submit(self) -> None:
        for raw in datacenter.dynamo():
            try:
                await self._cluster.submit(raw)
            except ApiError as error:
                if error.reason != "AlreadyExists" or raw["kind"] != "Namespace":
                    raise InputError(f"the example cannot be submitted: {error.message}", hint=ENOUGH) from error

    async def _watch(self, done: Callable[[DemoGang], bool], last: DemoGang | None = None) -> DemoGang:
        """Show the gang until it is done or settles; `last` is on the screen already."""
        begun = changed = time.monotonic()
        with _screen(last) as screen:
            while True:
                state, now = self._read(), time.monotonic()
                if state != last:
                    last, changed = state, now
                    screen.show(state, self._draw)
                if done(state) or (now - changed > QUIET_SECONDS and self._is_settled(state)):
                    screen.end(self._draw(state))
                    return state
                if now - begun > TIMEOUT_SECONDS:
                    raise Refused(f"gave up after {TIMEOUT_SECONDS:.0f} s: pods are still starting", hint=SLOW)
                await asyncio.sleep(POLL_SECONDS)

    # the state of the gang

    def _read(self) -> DemoGang:
        pods = self._cluster.pods(datacenter.NAMESPACE)
        return DemoGang(tuple(sorted(_shown_pod(raw) for raw in pods if _is_member(raw))))

    def _draw(self, state: DemoGang) -> Iterator[Line]:
        objects = codec.objects(self._cluster.gang_objects(datacenter.NAMESPACE))
        (gang,) = (gang for gang in collect_gangs(objects).gangs if gang.key == KEY)
        planned = self._planned()
        return views.draw_tree(views.inspect_gang(gang), planned.domains if planned else {}, state.leaves())

    def _planned(self) -> GangPlan | None:
        gangs = self._cluster.scheduler.last[1].gangs if self._cluster.scheduler.last else ()
        return next((planned for planned in gangs if planned.gang.key == KEY), None)

    def _is_settled(self, state: DemoGang) -> bool:
        """The last plan saw every waiting pod and could not place it."""
        planned, last = self._planned(), self._cluster.scheduler.last
        if planned is None or last is None or last[1].bindings or state.is_moving:
            return False
        return planned.gang.standing.pending == len(state.pods) - len(state.running)

    def _require_scheduled(self, state: DemoGang, deed: str) -> None:
        """Refused where the gang does not run; pods beyond its minimum may wait."""
        planned = self._planned()
        if state.is_complete or planned is None:
            return
        why = "; ".join(sentence(refusal) for refusal in planned.refusals)
        if planned.verdict != "Scheduled":
            raise Refused(f"the gang does not {deed} on this cluster: {why or planned.verdict}", hint=ENOUGH)
        waiting = many(len(state.pods) - len(state.running), "pod")
        _print(f"The gang runs. Beyond its minimum, there is no room for {waiting} more{': ' if why else ''}{why}.")


def _is_member(raw: Raw) -> bool:
    return bool((raw["metadata"].get("annotations") or {}).get(names.POD_GROUP) == datacenter.GANG)


def _shown_pod(raw: Raw) -> ShownPod:
    meta, node = raw["metadata"], raw["spec"].get("nodeName") or ""
    phase = raw.get("status", {}).get("phase", "Pending")
    state = "terminating" if meta.get("deletionTimestamp") else STATES.get(phase, phase) if node else "waiting"
    return ShownPod(meta.get("labels", {}).get(names.SUBGROUP, ""), node, state, meta["name"])


def _busiest(state: DemoGang) -> str:
    counts = Counter(pod.node for pod in state.running)
    return max(sorted(counts), key=counts.__getitem__)


def _count_by_leaf(pods: list[ShownPod]) -> str:
    """`8 pods (prefill-0: 5, prefill-1: 3)`."""
    counts = Counter(pod.leaf for pod in pods)
    return f"{many(len(pods), 'pod')} ({', '.join(f'{leaf}: {number}' for leaf, number in sorted(counts.items()))})"


def _print(text: str) -> None:
    printing.print_lines(("", text, ""))


# screens ------------------------------------------------------------------------------------------------------------

Draw = Callable[[DemoGang], Iterator[Line]]


class _Pages:
    """Without a terminal: a line for every change, and the tree at the end."""

    def __init__(self, last: DemoGang | None) -> None:
        self._begun = time.monotonic()
        self._last = last.leaves() if last else {}

    def show(self, state: DemoGang, _: Draw) -> None:
        now = state.leaves()
        for leaf, summary in now.items():
            if summary != self._last.get(leaf):
                printing.print_lines([f"{time.monotonic() - self._begun:5.1f} s  {leaf:<10} {summary.text}"])
        self._last = now
        sys.stdout.flush()

    def end(self, lines: Iterator[Line]) -> None:
        printing.print_lines([""])
        printing.show(lines)


class _Terminal:
    """On a terminal: the tree, redrawn in place."""

    def __init__(self, console: "Console") -> None:
        from rich.live import Live

        self.live = Live(console=console, auto_refresh=False, vertical_overflow="visible")

    def show(self, state: DemoGang, draw: Draw) -> None:
        self._draw(draw(state))

    def end(self, lines: Iterator[Line]) -> None:
        self._draw(lines)

    def _draw(self, lines: Iterator[Line]) -> None:
        from rich.text import Text

        whole = Text("\n", no_wrap=True, overflow="ellipsis").join(map(printing.coloured, lines))
        self.live.update(whole, refresh=True)


@contextmanager
def _screen(last: DemoGang | None) -> Iterator[_Pages | _Terminal]:
    if not sys.stdout.isatty():
        yield _Pages(last)
        return
    from rich.console import Console

    screen = _Terminal(Console(highlight=False))
    with screen.live:
        yield screen

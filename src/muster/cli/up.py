"""`muster up`: the embedded cluster with everything in it, in one process."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import click

from muster.cli import wire
from muster.cluster.files import MOST_MIB
from muster.cluster.memory import Memory
from muster.cluster.store import ApiError, Raw
from muster.config import Log, Scheduling
from muster.control.scheduler import Scheduler
from muster.errors import InputError
from muster.model.gang import Leaf, walk
from muster.reporting.plans import gang_lines
from muster.server.logs import configure
from muster.server.serving import serve
from muster.sim import datacenter
from muster.sim.kubelet import Kubelets
from muster.sim.lives import Habits
from muster.sim.replicas import Replicas

PATIENCE_SECONDS = 60.0


@click.command("up")
@click.argument("files", nargs=-1, metavar="[FILE…]", type=click.Path(allow_dash=True))
@click.option(
    "--nodes", type=click.IntRange(0, 10_000), default=64, show_default=True, help="How many nodes there are."
)
@click.option("--gpus", type=click.IntRange(0, 1024), default=8, show_default=True, help="How many GPUs each has.")
@click.option(
    "--topology",
    default="zone=2,block=4,rack=8",
    show_default=True,
    help="Levels, coarse to fine, and how many domains each has in all.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Where the API server listens.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="On which port; 0: any that is free.")
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("muster.kubeconfig"),
    show_default=True,
    help="The kubeconfig to write for kubectl.",
)
@click.option("--demo", is_flag=True, help="Show the Dynamo example form, lose a node, and heal; then stop.")
def command(
    files: tuple[str, ...],
    nodes: int,
    gpus: int,
    topology: str,
    host: str,
    port: int,
    kubeconfig: Path,
    demo: bool,
) -> int:
    """The embedded cluster: API server for kubectl, simulated nodes and the scheduler, in one process.

    Nothing is installed and nothing is left behind but the kubeconfig, which goes when it stops.

    \b
    Examples:
      muster up --demo
      muster up --nodes 16 --gpus 4 --topology zone=2,rack=4 my-workload.yaml
      kubectl --kubeconfig muster.kubeconfig get podgroups -A -w
    """
    shape = datacenter.levels(topology)
    given = [document.raw for document in wire.read(files, MOST_MIB)]
    start = [datacenter.topology(shape), *datacenter.nodes(nodes, gpus, shape), *given]
    try:
        with suppress(KeyboardInterrupt):
            asyncio.run(_up(start, host, port, kubeconfig, demo))
    finally:
        kubeconfig.unlink(missing_ok=True)
    return 0


async def _up(start: Iterable[Raw], host: str, port: int, kubeconfig: Path, demo: bool) -> None:
    configure(Log(level="warning"))
    memory = Memory()
    async with running(memory) as (scheduler, kubelets), serve(memory, host, port, kubeconfig_path=kubeconfig) as face:
        for raw in start:
            await submit(memory, raw)
        wire.note(f"the API server listens on {face.address}; kubectl --kubeconfig {kubeconfig} get nodes")
        if demo:
            await _demo(memory, scheduler, kubelets)
        else:
            wire.note("stop it with Ctrl-C")
            await _told_to_stop()


async def _told_to_stop() -> None:
    """Until SIGINT or SIGTERM."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await stop.wait()


@asynccontextmanager
async def running(memory: Memory) -> AsyncIterator[tuple[Scheduler, Kubelets]]:
    """All loops, until it is left."""
    scheduler = Scheduler(memory, Scheduling())
    kubelets = Kubelets(memory, habits=Habits())
    replicas = Replicas(memory, [datacenter.NAMESPACE])
    tasks = [asyncio.create_task(loop.run()) for loop in (scheduler, kubelets, replicas)]
    try:
        yield scheduler, kubelets
    finally:
        await _end(tasks)


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    """Cancelled until they are done: a loop that is just busy with something else may miss it once."""
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=0.5)
    for task in tasks:
        if not task.cancelled() and (failure := task.exception()) is not None:
            raise failure


async def submit(memory: Memory, raw: Raw) -> None:
    """Create an object, as `kubectl create` would."""
    known = {(kind.resource.api_version, kind.resource.kind): kind.resource for kind in memory.store.kinds}
    resource = known.get((raw.get("apiVersion", ""), raw.get("kind", "")))
    meta = raw.get("metadata") or {}
    name = meta.get("name", "")
    if resource is None:
        raise InputError(f"{raw.get('kind')} `{name}`: the embedded cluster does not know this kind")
    meta = {"namespace": "default", **meta} if resource.namespaced else meta
    try:
        await memory.create(resource, {**raw, "metadata": meta})
    except ApiError as error:
        raise InputError(f"{resource.kind} `{name}` is refused: {error.message}") from error


# the demonstration --------------------------------------------------------------------------------------------------


async def _demo(memory: Memory, scheduler: Scheduler, kubelets: Kubelets) -> None:
    for raw in datacenter.dynamo():
        await submit(memory, raw)
    key = f"{datacenter.NAMESPACE}/{datacenter.GANG}"
    _say("The Dynamo example is submitted: 3 of 4 prefill and 1 of 2 decode replicas start it, each in one rack.")
    await _until(lambda: _placed(scheduler, key) == 40, "the gang forms")
    _show(scheduler, key)
    node = _busiest(scheduler, key)
    _say(f"Node {node} is lost, and its pods with it.")
    await kubelets.fail_node(node)
    await _until(lambda: _placed(scheduler, key) < 40 or node not in _nodes(scheduler, key), "the loss is seen")
    await _until(lambda: _placed(scheduler, key) == 40 and node not in _nodes(scheduler, key), "the gang heals")
    _say("Their replacements run again, each in the rack of its siblings or with all of them in another.")
    _show(scheduler, key)


async def _until(holds: Callable[[], bool], what: str) -> None:
    for _ in range(int(PATIENCE_SECONDS / 0.05)):
        if holds():
            return
        await asyncio.sleep(0.05)
    raise InputError(f"waited {PATIENCE_SECONDS:.0f} s in vain until {what}")


def _nodes(scheduler: Scheduler, key: str) -> list[str]:
    """Where the pods of a gang are, as the last cycle left it."""
    if scheduler.last is None or key not in {found.gang.key for found in scheduler.last[1].gangs}:
        return []
    gang = scheduler.last[1].gang(key).gang
    return [pod.node for leaf in walk(gang.root) if isinstance(leaf, Leaf) for pod in leaf.placed]


def _placed(scheduler: Scheduler, key: str) -> int:
    return len(_nodes(scheduler, key))


def _busiest(scheduler: Scheduler, key: str) -> str:
    found = _nodes(scheduler, key)
    return max(sorted(set(found)), key=found.count)


def _show(scheduler: Scheduler, key: str) -> None:
    assert scheduler.last is not None
    wire.show(gang_lines(scheduler.last[1].gang(key)))
    sys.stdout.flush()


def _say(text: str) -> None:
    click.echo(f"\n{text}\n")

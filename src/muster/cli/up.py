"""`muster up`: the embedded cluster with everything in it, in one process.

Rule: it serves only while everything in it runs; whatever ends it, nothing is left behind.
"""

import asyncio
import logging
import os
import signal
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import click
from msgspec import Struct

from muster.cli import assemble
from muster.cli.demo import Demo
from muster.cli.shutdown import stop_on
from muster.config.settings import Log, Scheduling
from muster.embedded.cluster_store import ClusterStore
from muster.embedded.controllers.replica_controller import ReplicaController
from muster.embedded.kubeconfig import remove_stale_kubeconfig
from muster.embedded.kubelet.kubelet import Kubelets
from muster.embedded.kubelet.pod_lifecycle import KubeletTimings
from muster.embedded.memory_cluster import MemoryCluster
from muster.embedded.server import serve
from muster.errors import InputError, MusterError
from muster.observability.logging import configure
from muster.scheduler.loop import Scheduler
from muster.simulator import datacenter, initial_objects

Loops = Mapping["asyncio.Task[None]", str]
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@click.command("up")
@click.argument("files", nargs=-1, metavar="[FILE…]", type=click.Path(allow_dash=True))
@click.option(
    "--nodes",
    type=click.IntRange(0, 10_000),
    show_default=f"{initial_objects.BUILT_IN_NODES}, none where FILE brings nodes",
    help="How many nodes there are.",
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
@click.option("--demo", is_flag=True, help="Watch the Dynamo example form, lose a node, and heal; then stop.")
@assemble.scheduler_names
@assemble.max_file_mib
def command(
    files: tuple[str, ...],
    schedulers: tuple[str, ...],
    nodes: int | None,
    gpus: int,
    topology: str,
    host: str,
    port: int,
    kubeconfig: Path,
    demo: bool,
    max_file_mib: int,
) -> int:
    """The embedded cluster: API server for kubectl, simulated nodes and the scheduler, in one process.

    Nothing is installed and nothing is left behind: the kubeconfig goes when it stops. One that belongs to somebody
    else is never touched.

    What FILE brings wins over what is built in: its nodes, its topologies. Namespaces that it names are made. A folder
    of `muster snapshot` comes up as the cluster that it was taken of, running pods and all.

    A simulated node or pod fails where it is told so: `kubectl annotate node NAME muster.dev/fail=true`, and heals
    with `kubectl annotate node NAME muster.dev/fail-`.

    \b
    Examples:
      muster up --demo
      muster up --nodes 16 --gpus 4 --topology zone=2,rack=4 my-workload.yaml
      muster up examples/cluster examples/dynamo-inference.yaml
      kubectl --kubeconfig muster.kubeconfig get podgroups -A -w
    """
    domains_by_level = datacenter.levels(topology)
    if not host:
        raise InputError("--host: is empty", hint="127.0.0.1 is for this machine alone, 0.0.0.0 for everybody")
    remove_stale_kubeconfig(kubeconfig)
    given = assemble.read(files, max_file_mib)
    filled = initial_objects.fill([*initial_objects.built_in(nodes, gpus, domains_by_level, given), *given])
    for text in initial_objects.words(filled):
        assemble.note(text)
    asyncio.run(_up(filled.store, host, port, kubeconfig, demo, schedulers))
    if demo:
        click.echo("The demonstration is over, and its cluster is gone. `muster up` starts one that stays.")
    return 0


async def _up(
    store: ClusterStore, host: str, port: int, kubeconfig: Path, demo: bool, schedulers: tuple[str, ...]
) -> None:
    configure(Log(level="warning"))
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # its advice on what to install is not for users
    stop, memory = _stop(), MemoryCluster(store)
    async with (
        running(memory, [datacenter.NAMESPACE] if demo else [], Scheduling(scheduler_names=schedulers)) as live,
        serve(memory, host, port, kubeconfig_path=kubeconfig) as face,
    ):
        try:
            if demo:
                await _supervised(live.loops, _told(stop), Demo(memory, live.scheduler, live.kubelets).run())
                return
            assemble.note(f"the API server listens on {face.address}; kubectl --kubeconfig {kubeconfig} get nodes")
            assemble.note("stop it with Ctrl-C")
            await _supervised(live.loops, stop.wait())
        finally:
            live.scheduler.stop()  # a plan may take minutes


def _stop() -> asyncio.Event:
    """Set when somebody asks it to end, a terminal that is closed included; under `nohup` that is nobody."""
    ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    return stop_on(number for number in STOPPING if number != signal.SIGHUP or not ignored)


async def _told(stop: asyncio.Event) -> None:
    """A demonstration that was not seen to its end."""
    await stop.wait()
    raise click.Abort


# loops --------------------------------------------------------------------------------------------------------------


class Live(Struct, frozen=True):
    """Everything that acts on a cluster."""

    scheduler: Scheduler
    kubelets: Kubelets
    loops: Loops  # and what each is called


@asynccontextmanager
async def running(memory: MemoryCluster, kept_alive: list[str], settings: Scheduling) -> AsyncIterator[Live]:
    """All loops, until it is left; pods of some namespaces come back when they are gone."""
    scheduler, kubelets = Scheduler(memory, settings), Kubelets(memory, habits=KubeletTimings())
    named = {"scheduler": scheduler.run(), "simulated kubelets": kubelets.run()}
    if kept_alive:
        named["replicas"] = ReplicaController(memory, kept_alive).run()
    loops = {asyncio.create_task(loop): name for name, loop in named.items()}
    try:
        yield Live(scheduler, kubelets, loops)
    finally:
        await _end(set(loops))


async def _supervised(loops: Loops, *work: Coroutine[Any, Any, Any]) -> None:
    """Until some of the work is done; a loop that ends before is an error, and ends everything."""
    tasks = {asyncio.create_task(one) for one in work}
    try:
        done, _ = await asyncio.wait([*loops, *tasks], return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            if task in loops:
                raise _ended(loops[task], task)
        for task in done:
            task.result()
    finally:
        await _end(tasks)


def _ended(name: str, task: "asyncio.Task[None]") -> BaseException:
    failure = None if task.cancelled() else task.exception()
    while isinstance(failure, BaseExceptionGroup):
        failure = failure.exceptions[0]
    if failure is not None and os.environ.get("MUSTER_DEBUG"):
        return failure
    said = f"{type(failure).__name__}: {failure}" if failure else "nobody knows why"
    return MusterError(
        f"the {name} ended by itself, and the cluster with it: {said}", hint="MUSTER_DEBUG=1 shows where; please report"
    )


async def _end(tasks: "set[asyncio.Task[None]]") -> None:
    """Cancelled until they are done: a loop that is just busy with something else may miss it once."""
    left = {task for task in tasks if not task.done()}
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=0.5)
    for task in tasks:
        if not task.cancelled():
            task.exception()  # whoever waited for it has told

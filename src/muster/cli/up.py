"""`muster up`: an embedded cluster in one process.

Rule: it serves only while all of its loops run; however it ends, it leaves nothing behind.
"""

import asyncio
import signal
from pathlib import Path

import click

from muster.cli import inputs, options, printing, tasks
from muster.cli.assemble.embedded_cluster import EmbeddedCluster, ServedAt, open_embedded_cluster
from muster.cli.demo import Demo
from muster.cli.shutdown import stop_on
from muster.config.settings import Config
from muster.errors import InputError
from muster.simulator import datacenter, initial_objects

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@click.command("up")
@click.argument("files", nargs=-1, metavar="[FILE…]", type=click.Path(allow_dash=True))
@click.option(
    "--nodes",
    type=click.IntRange(0, 10_000),
    show_default=f"{initial_objects.BUILT_IN_NODES}, none where FILE brings nodes",
    help="Number of simulated nodes.",
)
@click.option("--gpus", type=click.IntRange(0, 1024), default=8, show_default=True, help="GPUs of each node.")
@click.option(
    "--topology",
    default="zone=2,block=4,rack=8",
    show_default=True,
    help="Levels, coarse to fine, each with its total number of domains.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address of the API server.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port of the API server; 0: any free one.")
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("muster.kubeconfig"),
    show_default=True,
    help="Kubeconfig to write for kubectl.",
)
@click.option(
    "--dashboard-port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Port of the dashboard, at 127.0.0.1; 0: any free one.",
)
@click.option("--no-dashboard", is_flag=True, help="Serve no dashboard.")
@click.option("--demo", is_flag=True, help="Watch the Dynamo example form, lose a node, and heal; then stop.")
@options.configured
@options.max_file_mib
def command(
    files: tuple[str, ...],
    config: Config,
    nodes: int | None,
    gpus: int,
    topology: str,
    host: str,
    port: int,
    kubeconfig: Path,
    dashboard_port: int,
    no_dashboard: bool,
    demo: bool,
    max_file_mib: int,
) -> int:
    """Start an embedded cluster: API server for kubectl, simulated nodes and the scheduler, in one process.

    It installs nothing and leaves nothing behind: it removes its kubeconfig when it stops. It never touches a
    kubeconfig that it did not write.

    Nodes and topologies in FILE replace the built-in ones. Namespaces that objects name are created. A folder of
    `muster snapshot` starts as the captured cluster, with its running pods.

    Jobs, Deployments, StatefulSets, LeaderWorkerSets, JobSets, PyTorchJobs, RayClusters and others get pods as on a
    cluster with their operators, in gangs: say `schedulerName: muster` in their pod templates.

    An annotation makes a simulated node or pod fail: `kubectl annotate node NAME muster.dev/fail=true`. Remove it to
    heal: `kubectl annotate node NAME muster.dev/fail-`.

    \b
    Examples:
      muster up --demo
      muster up --nodes 16 --gpus 4 --topology zone=2,rack=4 my-workload.yaml
      muster up examples/cluster examples/dynamo-inference.yaml
      muster up examples/workloads/leader-worker-set.yaml
      kubectl --kubeconfig muster.kubeconfig get podgroups -A -w
    """
    domains_by_level = datacenter.parse_levels(topology)
    if not host:
        raise InputError("--host: is empty", hint="127.0.0.1 is for this machine alone, 0.0.0.0 for every machine")
    served_at = ServedAt(host, port, kubeconfig)
    served_at.claim_kubeconfig()
    documents = inputs.read(files, max_file_mib)
    built_in = initial_objects.built_in_objects(nodes, gpus, domains_by_level, documents)
    initial = initial_objects.create_cluster([*built_in, *documents])
    for text in initial_objects.notes(initial):
        printing.note(text)
    asyncio.run(_up(initial, served_at, config, None if no_dashboard else dashboard_port, demo))
    if demo:
        printing.print_lines(["The demonstration is over, and its cluster is gone. `muster up` starts one that stays."])
    return 0


async def _up(
    initial: initial_objects.InitialCluster, served_at: ServedAt, config: Config, dashboard_port: int | None, demo: bool
) -> None:
    stop = _stop_event()
    respawned = [datacenter.NAMESPACE] if demo else []
    async with open_embedded_cluster(initial.store, served_at, config, respawned, dashboard_port) as cluster:
        if demo:
            await tasks.supervise(cluster.loops, _abort_on(stop), Demo(cluster).run())
        else:
            _note_address(cluster, served_at.kubeconfig)
            await tasks.supervise(cluster.loops, stop.wait())


def _note_address(cluster: EmbeddedCluster, kubeconfig: Path) -> None:
    printing.note(f"the API server listens on {cluster.address}; kubectl --kubeconfig {kubeconfig} get nodes")
    if cluster.dashboard:
        printing.note(f"the dashboard is at {cluster.dashboard}")
    printing.note("stop it with Ctrl-C")


def _stop_event() -> asyncio.Event:
    """Set by the first signal that ends the process: also when the terminal closes, but not under `nohup`."""
    ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    return stop_on(number for number in STOPPING if number != signal.SIGHUP or not ignored)


async def _abort_on(stop: asyncio.Event) -> None:
    """Abort where the demonstration is stopped before its end."""
    await stop.wait()
    raise click.Abort

"""The process that answers the webhook, beside the one that plans: Python lets one thread of a process run at a time.

`python -m muster.cli.assemble.webhook_process LISTENER CONTROL LIFELINE`: file descriptors of the listening socket, of
a socket to the process that started it, and of a pipe that ends with that process.
"""

import asyncio
import os
import signal
import socket
import sys
import threading
import time
from contextlib import suppress
from functools import partial

from muster.cli import tasks
from muster.cli.assemble.process import configure_service
from muster.cli.tasks import Loop
from muster.config.settings import GROVE_MODES, Config
from muster.controllers.grouper.assigner import Assigner
from muster.controllers.grouper.pod_admission import PodAdmission
from muster.errors import MusterError
from muster.kube.client.client import connect
from muster.kube.cluster import Cluster
from muster.observability import health
from muster.observability.logging import logger
from muster.observability.serving.asgi_server import AsgiServer
from muster.webhook import handlers
from muster.webhook.certificates.certificate_rotation import CertificateRotation, ServedCertificate
from muster.webhook.certificates.certificate_sources import build_source
from muster.webhook.pod_review import GroupPod, leave_ungrouped
from muster.webhook.process.admission_cache import KINDS, AdmissionCache
from muster.webhook.process.gang_demands import ReceivedDemands
from muster.webhook.process.messages import GangsChanged, WebhookStart, read_frame
from muster.webhook.process.reporter import Reporter

PARENT_GONE = 1
POLL_SECONDS = 0.05
DRAIN_SECONDS = 3.0  # for requests in flight


def main() -> None:
    """Serves until SIGTERM, or until the process that started it ends."""
    listener, control, lifeline = (int(argument) for argument in sys.argv[1:4])
    threading.Thread(target=_end_with, args=(lifeline,), name="lifeline", daemon=True).start()
    try:
        asyncio.run(_run(socket.socket(fileno=listener), socket.socket(fileno=control)))
    except MusterError as error:
        logger("webhook").error("the webhook cannot go on", problem=str(error))
        sys.exit(1)


def _end_with(lifeline: int) -> None:
    """Ends the process when the other end of the pipe is closed: at once, whatever else it does."""
    os.read(lifeline, 1)
    os._exit(PARENT_GONE)


async def _run(listener: socket.socket, control: socket.socket) -> None:
    reader, writer = await asyncio.open_connection(sock=control)
    start = await read_frame(reader, WebhookStart)
    configure_service(start.config.log)
    stop, demands = asyncio.Event(), ReceivedDemands()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    cluster = connect(start.kubeconfig, start.context)
    loops = build_loops(start.config, cluster, listener, demands, writer)
    server, *others = tasks.start(loops)
    logger("webhook").info("the webhook runs in a process of its own", pid=os.getpid())
    try:
        await tasks.supervise([server, *others], stop.wait(), _receive_gangs(reader, demands))
    finally:
        server.cancel()
        await asyncio.wait({server}, timeout=DRAIN_SECONDS)
        await tasks.cancel([server, *others])
        tasks.retrieve([server, *others])
        await cluster.close()


def build_loops(
    config: Config,
    cluster: Cluster,
    listener: socket.socket,
    demands: ReceivedDemands,
    writer: asyncio.StreamWriter,
) -> dict[str, Loop]:
    """The server first; its certificate, and what it knows of the cluster."""
    certificate = ServedCertificate()
    has_grove = config.grove.enabled
    cache = AdmissionCache(
        cluster,
        demands,
        config.scheduling.scheduler_names if has_grove else (),
        watches_grove=has_grove and config.grove.mode == GROVE_MODES[0],
    )
    silent_seconds = config.observability.silent_watch_seconds
    checks = [health.WatchCheck(kind.plural, cache.health[kind], silent_seconds) for kind in KINDS]
    reporter = Reporter(checks, certificate)
    source = build_source(config.webhook.certificates, cluster)
    rotation = CertificateRotation(certificate, source, cluster, config.webhook, reporter)
    grouping, group_pod = _build_grouping(config, cluster)
    server = AsgiServer(handlers.build_app(config.webhook, cache.context, reporter, group_pod), tls=certificate.context)
    return {
        "webhook": partial(_serve, server, listener, certificate),
        "certificates": rotation.run,
        "watches": cache.run,
        "reports": partial(reporter.run, writer),
        **grouping,
    }


async def _serve(server: AsgiServer, listener: socket.socket, certificate: ServedCertificate) -> None:
    """Accepts nothing before a handshake can succeed: what comes earlier waits in the kernel."""
    while not certificate.is_loaded:
        await asyncio.sleep(POLL_SECONDS)
    await server.serve([listener])


async def _receive_gangs(reader: asyncio.StreamReader, demands: ReceivedDemands) -> None:
    """Until the other process closes the connection."""
    with suppress(EOFError):
        while True:
            demands.receive(await read_frame(reader, GangsChanged))


def _build_grouping(config: Config, cluster: Cluster) -> tuple[dict[str, Loop], GroupPod]:
    """Groups pods by their owners, which are read here; pods that exist are of no interest."""
    if not (config.grouping.enabled and config.webhook.group_pods):
        return {}, leave_ungrouped
    assigner = Assigner(
        cluster,
        config.grouping.resources,
        config.scheduling.scheduler_names,
        config.grouping.rules,
        time.monotonic,
        lambda _before, _after: None,
        config.scheduling.namespaces,
    )
    return {"owners": assigner.run}, PodAdmission(assigner).mark


if __name__ == "__main__":
    main()

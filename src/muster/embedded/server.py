"""Serves the embedded cluster on a socket with TLS, a token and a kubeconfig; leaves no files behind."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path

import uvicorn
from msgspec import Struct

from muster.embedded import tls
from muster.embedded.kubeconfig import build_kubeconfig, publish_kubeconfig
from muster.embedded.memory_cluster import MemoryCluster
from muster.embedded.rest.api_server import application, now, server_context
from muster.errors import InputError
from muster.kube.temporary_folder import temporary_folder
from muster.observability.serving.asgi_server import AsgiServer, listen
from muster.observability.serving.connection_table import ConnectionLimits

LOOPBACK = ("127.0.0.1", "localhost", "::1")
# clients reuse a connection after a pause: kubectl drain after 5 s, others after 30; most connections are watches
LIMITS = ConnectionLimits(connections=1_000, per_peer=900, body_seconds=60.0, idle_seconds=120.0, write_seconds=30.0)
OTHER_HOST = "--host is an address of this machine, such as 127.0.0.1"
OTHER_PORT = f"choose another --port, 0 is any that is free; {OTHER_HOST}"


class Serving(Struct, frozen=True):
    """The address of the server and its kubeconfig."""

    address: str
    kubeconfig: Path


@asynccontextmanager
async def serve(
    memory: MemoryCluster,
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    kubeconfig_path: Path | None = None,
    token: str = "",
    clock: Callable[[], datetime] = now,
    schedulers: Sequence[str] = (),
) -> AsyncIterator[Serving]:
    """Serve until left. Port 0: any free port; empty token: a new one; no path: a temporary kubeconfig.

    `schedulers`: those of the cluster, for warnings about PodCliqueSets of others.

    Listens on loopback unless another host is given.
    """
    token = token or secrets.token_urlsafe(32)
    certificates = tls.generate(dict.fromkeys((host, *LOOPBACK)), clock())
    with (
        temporary_folder() as folder,
        listen(host, port, OTHER_PORT if port else OTHER_HOST) as listener,
    ):
        address = _address(host, listener.getsockname()[1])
        path = kubeconfig_path or folder / "kubeconfig"
        context = server_context(memory.store, token, clock, schedulers)
        ssl_context = tls.server_context(certificates, folder)
        server = AsgiServer(application(context), LIMITS, ssl_context)
        running = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            await _wait_until_started(server, running)
            with publish_kubeconfig(path, build_kubeconfig(address, token, certificates.authority)):
                yield Serving(address, path)
        finally:
            server.should_exit = True
            context.watches.close_all()
            await running


async def _wait_until_started(server: uvicorn.Server, running: asyncio.Task[None]) -> None:
    while not server.started:
        if running.done():
            running.result()
            raise InputError("the API server ended before it started")
        await asyncio.sleep(0.005)


def _address(host: str, port: int) -> str:
    """The URL for clients: a wildcard host is reached on loopback."""
    client_host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"https://[{client_host}]:{port}" if ":" in client_host else f"https://{client_host}:{port}"

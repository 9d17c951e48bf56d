"""Doors to the outside: TLS on each of them, the embedded API on loopback only, and no secret in what is logged."""

import asyncio
import io
import logging
import os
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import structlog
import yaml
from click.testing import CliRunner
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from muster.api.resources import NAMESPACES, SECRETS
from muster.cli import up
from muster.cli.assemble import servers
from muster.cli.assemble.embedded_cluster import ServedAt
from muster.cli.main import cli
from muster.config.settings import Certificates, Config, Log, Observability, Webhook
from muster.embedded.memory_cluster import MemoryCluster
from muster.embedded.server import serve
from muster.errors import InputError
from muster.observability.logging import configure
from muster.observability.serving import asgi_server
from muster.observability.serving.asgi_server import AsgiServer
from muster.webhook import handlers as webhook
from muster.webhook.certificates.certificate_bundle import issue
from muster.webhook.certificates.certificate_rotation import CertificateRotation, ServedCertificate
from muster.webhook.certificates.certificate_sources import build_source
from tests.support.served import served

ELSEWHERE = "127.0.0.2"  # reaches servers on every address, but none on 127.0.0.1


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


async def reaches(host: str, port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(host, port)
    except OSError:
        return False
    writer.close()
    await writer.wait_closed()
    return True


async def said_without_tls(port: int) -> bytes:
    """What a client without TLS reads."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /livez HTTP/1.1\r\nhost: muster\r\nconnection: close\r\n\r\n")
    try:
        return await asyncio.wait_for(reader.read(), 5)
    except ConnectionError:
        return b""
    finally:
        writer.close()


async def test_the_embedded_api_is_for_this_machine_alone() -> None:
    """Unless --host names another address."""
    async with serve(MemoryCluster()) as serving:
        assert await reaches("127.0.0.1", port_of(serving.address))
        assert not await reaches(ELSEWHERE, port_of(serving.address))
    async with serve(MemoryCluster(), "0.0.0.0") as serving:
        assert await reaches(ELSEWHERE, port_of(serving.address))


def test_muster_up_listens_on_loopback_by_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`--host` changes it."""
    hosts: list[str] = []

    async def listen(_filled: object, served_at: ServedAt, *_: object) -> None:
        hosts.append(served_at.host)

    monkeypatch.setattr(up, "_up", listen)
    for words in ([], ["--host", "0.0.0.0"]):
        result = CliRunner().invoke(cli, ["up", *words, "--kubeconfig", str(tmp_path / "k")], standalone_mode=False)
        assert result.exception is None, result.exception
    assert hosts == ["127.0.0.1", "0.0.0.0"]


async def test_no_request_is_answered_without_tls() -> None:
    """Neither by the embedded API nor by the webhook."""
    async with serve(MemoryCluster()) as serving:
        assert b"HTTP/" not in await said_without_tls(port_of(serving.address))
    served_certificate = ServedCertificate()
    served_certificate.use(issue(Certificates(), datetime.now(UTC)), "muster-webhook.muster-system.svc")
    async with served(webhook.build_app(Webhook()), tls=served_certificate.context) as (_, port):
        assert b"HTTP/" not in await said_without_tls(port)


def test_old_tls_is_not_spoken() -> None:
    """1.2 is the least, for the webhook before and after it has a certificate."""
    served_certificate = ServedCertificate()
    served_certificate.use(issue(Certificates(), datetime.now(UTC)), "muster-webhook.muster-system.svc")
    assert served_certificate._inner is not None
    assert {served_certificate.context.minimum_version, served_certificate._inner.minimum_version} == {
        ssl.TLSVersion.TLSv1_2
    }


async def test_keys_and_tokens_are_in_no_log() -> None:
    """At level debug, while certificates are issued, stored, renewed and replaced, and a client connects."""
    stream, root = io.StringIO(), logging.getLogger()
    handlers, level = root.handlers[:], root.level
    configure(Log(level="debug"), stream)
    try:
        secrets = await _use_secrets()
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        structlog.reset_defaults()
    logged = stream.getvalue()
    assert "new certificate" in logged, "there is something to be silent about"
    assert [secret for secret in secrets if secret in logged] == []
    assert "PRIVATE" not in logged


async def _use_secrets() -> list[str]:
    """Use every secret once; returns those that no log may hold."""
    memory, settings, now = MemoryCluster(), Webhook(), [datetime.now(UTC)]
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "muster-system"}}
    memory.store.create(NAMESPACES, namespace)
    rotation = CertificateRotation(
        ServedCertificate(),
        build_source(settings.certificates, memory),
        memory,
        settings,
        now=lambda: now[0],
        settle_seconds=0,
    )
    await rotation.reconcile()
    stored = await memory.get(SECRETS, "muster-system", settings.certificates.secret_name)
    now[0] += timedelta(days=80)
    await rotation.reconcile()
    renewed = await memory.get(SECRETS, "muster-system", settings.certificates.secret_name)
    broken = {**renewed, "data": {**renewed["data"], "tls.crt": renewed["data"]["tls.key"]}}
    await memory.replace(SECRETS, broken)
    await rotation.reconcile()
    async with serve(memory) as serving:
        token = yaml.safe_load(serving.kubeconfig.read_text(encoding="utf-8"))["users"][0]["user"]["token"]
        await said_without_tls(port_of(serving.address))
    keys = [raw["data"][name] for raw in (stored, renewed) for name in ("tls.key", "ca.key")]
    return [token, *(key[40:80] for key in keys)]


# addresses ----------------------------------------------------------------------------------------------------------

NOWHERE = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: x}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
"""
NOT_OURS = "203.0.113.1"  # RFC 5737: for documentation


@pytest.fixture
def occupied() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def ended(folder: Path, settings: str) -> tuple[int, str]:
    """`muster run` as a process of its own: its exit code and its stderr."""
    (folder / "kubeconfig").write_text(NOWHERE, encoding="utf-8")
    (folder / "config.yaml").write_text(settings, encoding="utf-8")
    command = [sys.executable, "-m", "muster.cli.main", "run", "--config", str(folder / "config.yaml")]
    command += ["--kubeconfig", str(folder / "kubeconfig")]
    process = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return process.returncode, process.stderr


def test_a_port_in_use_is_reported(tmp_path: Path, occupied: int) -> None:
    """Exit code 2, as for whatever cannot be used, and one sentence: the address, why, and where it is set."""
    code, error = ended(tmp_path, f"observability: {{host: 127.0.0.1, port: {occupied}}}")
    assert code == 2
    assert error.splitlines() == [
        f"error: cannot listen on 127.0.0.1:{occupied}: Address already in use",
        "  hint: `observability.host` and `observability.port` of the configuration say where",
    ]


def test_an_address_of_another_machine_is_reported(tmp_path: Path) -> None:
    """Of the webhook, too."""
    seen = f"{{host: 127.0.0.1, port: {free_port()}}}"
    code, error = ended(tmp_path, f"webhook: {{host: {NOT_OURS}, port: 9443}}\nobservability: {seen}")
    assert code == 2
    assert error.startswith(f"error: cannot listen on {NOT_OURS}:9443: ")
    assert error.endswith("hint: `webhook.host` and `webhook.port` of the configuration say where\n")


def free_port() -> int:
    with asgi_server.listen("127.0.0.1", 0, "") as listener:
        port: int = listener.getsockname()[1]
        return port


def test_one_unavailable_address_leaves_no_socket_open(occupied: int) -> None:
    """The caller may try other addresses."""
    free = free_port()
    settings = Config(
        webhook=Webhook(port=occupied, host="127.0.0.1"), observability=Observability(port=free, host="127.0.0.1")
    )
    with pytest.raises(InputError, match=f"127.0.0.1:{occupied}"):
        servers.open_sockets(settings.observability, settings.webhook)
    asgi_server.listen("127.0.0.1", free, "").close()


@pytest.mark.parametrize("host", ["no.such.host.invalid", "a" * 300, "two\0words", "::1::2"])
def test_an_invalid_address_is_reported(host: str) -> None:
    """Any text that a user may type."""
    with pytest.raises(InputError, match="cannot listen on"):
        asgi_server.listen(host, 0, "")


# connections --------------------------------------------------------------------------------------------------------


async def test_the_server_leaves_signals_to_the_process() -> None:
    """It answers until its task is cancelled: on SIGTERM the API server does not know yet that this replica ends."""
    received = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, received.set)
    try:
        async with served(webhook.build_app(Webhook())) as (_, port), asyncio.timeout(10):
            os.kill(os.getpid(), signal.SIGTERM)
            await received.wait()
            await asyncio.sleep(0.3)
            assert await reaches("127.0.0.1", port)
    finally:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGTERM)


async def test_a_cancelled_server_answers_requests_in_progress() -> None:
    """And takes nothing new."""
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow(_: Request) -> Response:
        begun.set()
        await go_on.wait()
        return Response(b"done")

    server, listener = AsgiServer(Starlette(routes=[Route("/", slow)])), asgi_server.listen("127.0.0.1", 0, "")
    port = listener.getsockname()[1]
    running = asyncio.create_task(server.serve([listener]))
    async with asyncio.timeout(10):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nhost: muster\r\n\r\n")
        await begun.wait()
        running.cancel()
        await asyncio.sleep(0.2)
        assert not await reaches("127.0.0.1", port)
        go_on.set()
        assert (await reader.read()).endswith(b"done")
        writer.close()
        await running

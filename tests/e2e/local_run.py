"""`muster run` as a process on an embedded cluster of the test: both servers, and whatever it starts."""

import asyncio
import http.client
import os
import signal
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing, suppress
from functools import cache
from pathlib import Path

from muster.api.resources import NAMESPACES
from muster.embedded.memory_cluster import MemoryCluster
from muster.embedded.server import serve
from tests.e2e.installed import free_port

READY_SECONDS = 90.0
ANSWER_SECONDS = 60.0  # a machine may be busy
REVIEW = b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","operation":"DELETE"}}'


class LocalRun:
    """One process, what it answers, and what it costs."""

    def __init__(self, process: subprocess.Popen[bytes], memory: MemoryCluster, probes: int, webhook: int) -> None:
        self.process, self.memory, self.probe_port, self.webhook_port = process, memory, probes, webhook

    async def probe(self, path: str) -> tuple[int, str]:
        """Status and text of a probe; 0: no answer."""
        return await asyncio.to_thread(self._probe, path)

    def _probe(self, path: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection(
            "127.0.0.1", self.probe_port, timeout=ANSWER_SECONDS, source_address=("127.0.0.3", 0)
        )
        with closing(connection), suppress(OSError, http.client.HTTPException):
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode()
        return 0, ""

    async def review(self, source: str = "127.0.0.3", body: bytes = REVIEW) -> int:
        """The status of an answer of the webhook, on a new connection; 0: no answer."""
        return await asyncio.to_thread(self._review, source, body)

    def _review(self, source: str, body: bytes) -> int:
        connection = http.client.HTTPSConnection(
            "127.0.0.1", self.webhook_port, timeout=ANSWER_SECONDS, context=untrusting(), source_address=(source, 0)
        )
        with closing(connection), suppress(OSError, http.client.HTTPException):
            connection.request("POST", "/validate", body)
            response = connection.getresponse()
            response.read()
            return response.status
        return 0

    @property
    def children(self) -> list[int]:
        """Processes that it started."""
        pids = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(pid) for pid in pids.read_text(encoding="ascii").split()]

    @property
    def webhook_pid(self) -> int:
        (pid,) = self.children
        return pid

    async def until(self, holds: Callable[[], object], seconds: float = READY_SECONDS) -> None:
        async with asyncio.timeout(seconds):
            while not holds():
                await asyncio.sleep(0.05)

    async def until_ready(self) -> None:
        async with asyncio.timeout(READY_SECONDS):
            while (await self.probe("/readyz"))[0] != 200:
                assert self.process.poll() is None
                await asyncio.sleep(0.1)


@cache
def untrusting() -> ssl.SSLContext:
    """TLS without a look at the certificate."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def rss_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def cpu_seconds(pid: int) -> float:
    """That a process has used so far, with all of its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def open_files(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


@asynccontextmanager
async def local_run(folder: Path, more: str = "") -> AsyncIterator[LocalRun]:
    """Ready; killed in the end with everything that it started, if it still runs."""
    memory = MemoryCluster()
    memory.store.create(NAMESPACES, {"metadata": {"name": "muster-system"}})
    probes, webhook = free_port(), free_port()
    settings = f"webhook: {{host: 127.0.0.1, port: {webhook}}}\nobservability: {{host: 127.0.0.1, port: {probes}}}\n"
    (folder / "config.yaml").write_text(settings + more, encoding="utf-8")
    async with serve(memory, kubeconfig_path=folder / "kubeconfig"):
        command = [sys.executable, "-m", "muster.cli.main", "run", "--config", str(folder / "config.yaml")]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen([*command, "--kubeconfig", str(folder / "kubeconfig")], stderr=log)
        run = LocalRun(process, memory, probes, webhook)
        children: list[int] = []
        try:
            await run.until_ready()
            children = run.children
            yield run
        finally:
            process.kill()
            await asyncio.to_thread(process.wait)
            for pid in children:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

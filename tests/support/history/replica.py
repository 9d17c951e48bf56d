"""One life of a `muster run` behind a recording proxy: started, stopped, paused, killed, or given a wrong clock."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import yaml

from muster.kube.cluster import Raw
from tests.e2e.installed import free_port
from tests.support.history.recording_proxy import FAIR, RecordingProxy

LEASE_SECONDS, DEADLINE_SECONDS = 5, 4
STOP_SECONDS = 60.0


class MusterReplica:
    """A process; its signals are those of its own pid only."""

    def __init__(self, proxy: RecordingProxy, folder: Path) -> None:
        self.proxy, self.name = proxy, proxy.replica
        self.log, self._skew = folder / f"{self.name}.log", folder / f"{self.name}.skew"
        self._skew.write_text("0", encoding="ascii")
        self.is_paused = False
        self._process = self._start(folder)

    def _start(self, folder: Path) -> "subprocess.Popen[bytes]":
        config, access = folder / f"{self.name}.yaml", folder / f"{self.name}.kubeconfig"
        config.write_text(yaml.safe_dump(settings(free_port())), encoding="utf-8")
        access.write_text(yaml.safe_dump(kubeconfig(self.proxy.url)), encoding="utf-8")
        words = [sys.executable, "-m", "tests.support.history.skewed_muster", str(self._skew), "run"]
        words += ["--config", str(config), "--kubeconfig", str(access)]
        with self.log.open("wb") as log:
            return subprocess.Popen(words, stdout=log, stderr=log, env={**os.environ, "MUSTER_IDENTITY": self.name})

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def pause(self) -> None:
        """It neither runs nor knows that time passes."""
        self._process.send_signal(signal.SIGSTOP)
        self.is_paused = True

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)
        self.is_paused = False

    def jump(self, seconds: float) -> None:
        """Its wall clock is wrong by so much from now on."""
        self._skew.write_text(str(seconds), encoding="ascii")

    def kill(self) -> None:
        """At once, whatever it is doing."""
        self._process.kill()
        self._process.wait()

    def heal(self) -> None:
        """Nothing is done to it any more."""
        self.proxy.weather = FAIR
        self.jump(0)
        if self.is_alive:
            self.resume()

    async def stop(self) -> None:
        """As kubelet does; it ends by itself and in order, unless it has only just been started."""
        self._process.terminate()
        status = await asyncio.to_thread(self._process.wait, STOP_SECONDS)
        logged = self.log.read_text(encoding="utf-8", errors="replace")
        assert status == 0 or not logged, f"{self.name} ends with {status}: {logged[-2000:]}"
        assert "Traceback" not in logged, f"{self.name}: {logged[-4000:]}"


@asynccontextmanager
async def replica(proxy: RecordingProxy, folder: Path) -> AsyncIterator[MusterReplica]:
    """A running one; whatever happens to it meanwhile, it is gone when this is left."""
    async with proxy.serving():
        process = MusterReplica(proxy, folder)
        try:
            yield process
        finally:
            process.kill()


def settings(port: int) -> Raw:
    """A short lease, and only the scheduler."""
    return {
        "scheduling": {"idleCycleSeconds": 1, "bindTimeoutSeconds": 3},
        "leaderElection": {
            "leaseSeconds": LEASE_SECONDS,
            "renewDeadlineSeconds": DEADLINE_SECONDS,
            "retrySeconds": 1,
        },
        "webhook": {"enabled": False},
        "grouping": {"enabled": False},
        "grove": {"enabled": False},
        "observability": {"host": "127.0.0.1", "port": port},
    }


def kubeconfig(url: str) -> Raw:
    """Without credentials: those are the proxy's."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }

"""`python -m bench.embedded_server KUBECONFIG`: an embedded API server without controllers, until it is terminated."""

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from muster.cli.assemble.process import tune
from muster.config.settings import Log
from muster.embedded.memory_cluster import MemoryCluster
from muster.embedded.server import serve
from muster.kube.client.client import connect
from muster.kube.cluster import Cluster
from muster.observability.logging import configure


@asynccontextmanager
async def embedded_api_server() -> AsyncIterator[Cluster]:
    """A client of an embedded API server in a process of its own, which ends with the block."""
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig = Path(folder) / "kubeconfig"
        process = subprocess.Popen([sys.executable, "-m", "bench.embedded_server", str(kubeconfig)])
        try:
            while not kubeconfig.exists():
                assert process.poll() is None, "the embedded API server has ended"
                await asyncio.sleep(0.05)
            cluster = connect(kubeconfig)
            try:
                yield cluster
            finally:
                await cluster.close()
        finally:
            process.terminate()
            process.wait(60)


async def main(kubeconfig: Path) -> None:
    configure(Log(level="warning"))
    tune()
    async with serve(MemoryCluster(), "127.0.0.1", 0, kubeconfig_path=kubeconfig):
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))

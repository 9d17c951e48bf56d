"""`python -m tests.support.history.fault_run SEED...`: runs with faults on a real API server, recorded and judged.

Two replicas of `muster run`, each behind a proxy of its own, schedule the gangs of a seed (`load`) while its nemeses
are at work (`nemeses`). Then all is healed, and the run goes on until it has converged or its time is over.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from random import Random

from muster.embedded.kubelet.kubelet import Kubelets
from muster.embedded.kubelet.pod_lifecycle import KubeletTimings
from muster.kube.client.client import connect
from muster.kube.cluster import Cluster
from muster.kube.errors import ApiError
from tests.oracles.history.check import broken, not_at_rest
from tests.oracles.history.records import RunHistory
from tests.support.apiserver import envtest
from tests.support.apiserver.apiserver import ApiServer, started
from tests.support.history.etcd_recorder import FLAGS, EtcdRecorder
from tests.support.history.load import Load
from tests.support.history.nemeses import NEMESES, Stage, restore_nodes, schedule
from tests.support.history.recording_proxy import RecordingProxy
from tests.support.history.replica import MusterReplica, replica

REPLICAS = 2
START_SECONDS, CONVERGE_SECONDS = 240.0, 150.0
RECONCILE_SECONDS, REST_SECONDS = 0.25, 1.0
TIMINGS = KubeletTimings(start_seconds=0.1, stop_seconds=0.2)


class FaultRun(Stage):
    """One seed, on a server that may have served others before."""

    def __init__(self, server: ApiServer, cluster: Cluster, seed: int, folder: Path) -> None:
        self.server, self.cluster, self.seed, self.folder = server, cluster, seed, folder
        self.dice = Random(f"run/{seed}")
        self.recorder = EtcdRecorder(server.etcd_url, self.clock)
        self.load = Load(cluster, seed)
        self.replicas: list[MusterReplica] = []
        self._proxies: list[RecordingProxy] = []
        self._began = time.monotonic()
        self._stack = AsyncExitStack()

    def clock(self) -> float:
        return time.monotonic() - self._began

    async def run(self) -> RunHistory:
        """The whole of it; afterwards nothing is left on the server."""
        try:
            await self.load.prepare()
            async with self.recorder.recording(), self._stack, self._surroundings():
                for _ in range(REPLICAS):
                    await self._start_replica()
                await self._first_binding()
                await asyncio.gather(*(self._break(at, name) for at, name in schedule(self.seed)))
                await self._heal()
                await self._converge()
                await self.recorder.catch_up()
                for process in self.replicas:
                    await process.stop()
                return self._history()
        finally:
            await self.load.clean()

    def _history(self) -> RunHistory:
        writes = sorted((one for proxy in self._proxies for one in proxy.writes), key=lambda one: one.started)
        return RunHistory(tuple(self.recorder.changes), tuple(writes), self.clock())

    # replicas

    async def _start_replica(self) -> None:
        name = f"replica-{len(self._proxies)}"
        proxy = RecordingProxy(self.server, name, self.clock, Random(f"{name}/{self.seed}"))
        self._proxies.append(proxy)
        self.replicas.append(await self._stack.enter_async_context(replica(proxy, self.folder)))

    async def replace(self, dead: MusterReplica) -> None:
        self.replicas.remove(dead)
        await self._start_replica()

    # what surrounds them

    @asynccontextmanager
    async def _surroundings(self) -> AsyncIterator[None]:
        """Kubelets and a workload controller, which outlive whatever happens to the API server."""
        kubelets = Kubelets(self.cluster, timings=TIMINGS)
        tasks = [asyncio.create_task(_again_and_again(loop)) for loop in (kubelets.run, self._reconcile)]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _reconcile(self) -> None:
        while True:
            await self.load.reconcile(self.clock())
            await asyncio.sleep(RECONCILE_SECONDS)

    # the course of events

    async def _first_binding(self) -> None:
        ends = time.monotonic() + START_SECONDS
        while not any(write.subresource == "binding" for proxy in self._proxies for write in proxy.writes):
            assert time.monotonic() < ends, "no replica binds anything"
            await asyncio.sleep(0.1)

    async def _break(self, at: float, name: str) -> None:
        await asyncio.sleep(at)
        await NEMESES[name](self)

    async def _heal(self) -> None:
        for process in self.replicas:
            process.heal()
        await restore_nodes(self)

    async def _converge(self) -> None:
        """Until it rests twice in a row, or for as long as it may take; the checker says what is still to do then."""
        ends, rested = time.monotonic() + CONVERGE_SECONDS, 0
        arrived = max(gang.arrives for gang in self.load.gangs)
        while rested < 2 and time.monotonic() < ends:
            await asyncio.sleep(REST_SECONDS)
            is_complete = self.clock() > arrived and self._has_all_pods()
            rested = rested + 1 if is_complete and not not_at_rest(self.recorder.current()) else 0

    def _has_all_pods(self) -> bool:
        """Whether the workload controller has nothing to do."""
        now = self.clock()
        wanted = sum(sum(gang.leaves.values()) for gang in self.load.gangs if gang.is_wanted(now))
        ours = [one.object for one in self.recorder.current().changes if one.object["kind"] == "Pod"]
        return len([raw for raw in ours if raw["spec"].get("schedulerName") == "muster"]) == wanted


async def _again_and_again(loop: Callable[[], Awaitable[None]]) -> None:
    while True:
        try:
            await loop()
        except* ApiError:
            pass
        await asyncio.sleep(RECONCILE_SECONDS)


async def recorded_run(server: ApiServer, seed: int, folder: Path) -> RunHistory:
    """What happened in the run of a seed."""
    cluster = connect(server.kubeconfig)
    try:
        return await FaultRun(server, cluster, seed, folder).run()
    finally:
        await cluster.close()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.support.history.fault_run", description=__doc__)
    parser.add_argument("seeds", nargs="+", type=int)
    parser.add_argument("--save", type=Path, help="folder for histories and logs")
    given = parser.parse_args()
    programs = envtest.find_programs()
    if programs is None:
        sys.exit(envtest.HOW_TO_GET_THEM)
    server = started(programs, flags=FLAGS)
    failed = 0
    try:
        for seed in given.seeds:
            failed += bool(_show(server, seed, given.save or Path(tempfile.mkdtemp(prefix="muster-history-"))))
    finally:
        server.stop()
        server.clean(keep_logs=failed > 0)
    return 1 if failed else 0


def _show(server: ApiServer, seed: int, folder: Path) -> list[str]:
    folder.mkdir(exist_ok=True, parents=True)
    began = time.monotonic()
    history = asyncio.run(recorded_run(server, seed, folder))
    history.save(folder / f"{seed}.jsonl")
    findings = broken(history)
    names = ", ".join(name for _, name in schedule(seed))
    sys.stdout.write(f"seed {seed} ({names}): {len(history.changes)} changes, {len(history.writes)} writes, ")
    sys.stdout.write(f"{time.monotonic() - began:.0f} s, {len(findings)} findings; {folder}\n")
    sys.stdout.write("".join(f"  {text}\n" for text in findings))
    sys.stdout.flush()
    return findings


if __name__ == "__main__":
    sys.exit(main())

"""`python -m bench.dashboard [INTERVALS]`: what viewers of the dashboard cost, on 5,000 nodes with 50,000 pods.

One process keeps a cache up to date from 200 changes of pods a second and plans four times a second, as a scheduler
does: gangs end, come again, are bound and run. Four of them work alternately, for a few seconds each: without a
dashboard, with one that none views, with one viewer and with ten; what differs in CPU time is the dashboard, and other
load on the machine strikes all of them alike. Viewers are processes of their own, and read over HTTP.

`--memory MINUTES` runs one server with one viewer instead, whose history is full when it starts.
"""

import argparse
import asyncio
import gc
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec
from msgspec import Struct

from bench.dashboard_load import (
    ChangingCluster,
    build_server,
    drive,
    fill_history,
    received,
    watching,
)
from muster.cli.assemble.process import tune
from muster.dashboard.model import DashboardModel
from muster.observability.serving.asgi_server import listen

NO_DASHBOARD = -1
VIEWERS = (NO_DASHBOARD, 0, 1, 10)
INTERVAL_SECONDS, WARM_UP_SECONDS = 5.0, 2.0
FIRST_BYTES = 2 * 2**20  # of a state, which comes first


class Interval(Struct, frozen=True):
    """What a server did in a few seconds of changes."""

    seconds: float  # by the clock; a machine that others use may take longer
    cpu_seconds: float
    plan_seconds: float  # of these, in plans
    bytes: int  # that one viewer received
    mebibytes: tuple[int, int]  # resident at its end, before and after a garbage collection
    history_mebibytes: int  # as it estimates itself
    cycles: int  # in the history


# one server -----------------------------------------------------------------------------------------------------------


async def serve(viewers: int, is_filled: bool) -> None:
    """A server that works for as many seconds as each line of its input says, and prints what that took."""
    cluster, tasks = ChangingCluster(), list[asyncio.Task[None]]()
    listener = listen("127.0.0.1", 0, "")
    model: DashboardModel | None = None
    if viewers != NO_DASHBOARD:
        model, server = build_server(cluster)
        tasks.append(asyncio.create_task(server.serve([listener])))
    cluster.fill()
    done = cluster.cycle()
    gc.collect()
    gc.freeze()
    if model is not None:
        model.cycle_finished(done)
        await model.update()
        if is_filled:
            await fill_history(cluster, model)
        tasks.append(asyncio.create_task(model.run()))
    with tempfile.TemporaryDirectory() as folder:
        port = int(listener.getsockname()[1])
        with watching(max(viewers, 0), port, Path(folder)) as counts:
            await serve_intervals(cluster, model, counts)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def serve_intervals(cluster: ChangingCluster, model: DashboardModel | None, counts: list[Path]) -> None:
    await drive(cluster, model, WARM_UP_SECONDS)
    while counts and received(counts) < FIRST_BYTES:
        await drive(cluster, model, WARM_UP_SECONDS)
    loop, intervals = asyncio.get_running_loop(), asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(intervals), sys.stdin)
    print("ready", flush=True)
    while line := await intervals.readline():
        cpu, plans, bytes_, began = time.process_time(), cluster.plan_seconds, received(counts), time.monotonic()
        await drive(cluster, model, float(line))
        seconds, cpu_seconds, resident = time.monotonic() - began, time.process_time() - cpu, resident_mebibytes()
        gc.collect()
        interval = Interval(
            seconds=seconds,
            cpu_seconds=cpu_seconds,
            plan_seconds=cluster.plan_seconds - plans,
            bytes=received(counts) - bytes_,
            mebibytes=(resident, resident_mebibytes()),
            history_mebibytes=0 if model is None else model.history.bytes // 2**20,
            cycles=0 if model is None else model.history.cycles,
        )
        print(msgspec.json.encode(interval).decode(), flush=True)


def resident_mebibytes() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 2**20


class ServerProcess:
    """A server in a process of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def wait(self) -> None:
        """Until it is ready."""
        self._line()

    def work(self, seconds: float) -> Interval:
        """So many seconds of changes."""
        assert self._process.stdin
        self._process.stdin.write(f"{seconds}\n")
        self._process.stdin.flush()
        return msgspec.json.decode(self._line(), type=Interval)

    def _line(self) -> str:
        assert self._process.stdout
        if line := self._process.stdout.readline():
            return line
        raise SystemExit("a server has ended")


@contextmanager
def served(viewers: int, is_filled: bool = False) -> Iterator[ServerProcess]:
    """A server that ends with its input."""
    command = [sys.executable, "-m", "bench.dashboard", "--serve", str(viewers), *(["--filled"] if is_filled else [])]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield ServerProcess(process)


# alternately ----------------------------------------------------------------------------------------------------------


def print_costs(intervals: int, all_viewers: Sequence[int]) -> None:
    """A few seconds each, one after the other, many times."""
    with ExitStack() as stack:
        servers = {viewers: stack.enter_context(served(viewers)) for viewers in all_viewers}
        for server in servers.values():
            server.wait()
        measured: dict[int, list[Interval]] = {viewers: [] for viewers in all_viewers}
        for number in range(intervals):
            for viewers in all_viewers if number % 2 == 0 else all_viewers[::-1]:
                measured[viewers].append(servers[viewers].work(INTERVAL_SECONDS))
    print("| viewers | CPU of one core | beside the first | without plans | to each viewer, a second | one took |")
    print("|---|---:|---:|---:|---:|---:|")
    for viewers in all_viewers:
        print(cost_row(viewers, measured[viewers], measured[all_viewers[0]]))


def cost_row(viewers: int, own: Sequence[Interval], other: Sequence[Interval]) -> str:
    name = {NO_DASHBOARD: "no dashboard", 0: "none"}.get(viewers, str(viewers))
    share = statistics.mean(each.cpu_seconds for each in own) / INTERVAL_SECONDS
    rate = statistics.mean(each.bytes for each in own) / INTERVAL_SECONDS / 1024
    clock = statistics.mean(each.seconds for each in own)
    pairs = list(zip(own, other, strict=True))
    whole = difference([one.cpu_seconds - two.cpu_seconds for one, two in pairs])
    rest = difference([outside_plans(one) - outside_plans(two) for one, two in pairs])
    return f"| {name} | {share:.1%} | {whole} | {rest} | {rate:,.0f} KiB | {clock:.1f} s |"


def outside_plans(interval: Interval) -> float:
    """CPU seconds for everything else; plans vary most with other load, as they read most memory."""
    return interval.cpu_seconds - interval.plan_seconds


def difference(seconds: Sequence[float]) -> str:
    """The mean of what intervals side by side differ by, and its standard error, as shares of a core."""
    error = statistics.stdev(seconds) / len(seconds) ** 0.5 if len(seconds) > 1 else 0.0
    return f"{100 * statistics.mean(seconds) / INTERVAL_SECONDS:+.2f} ± {100 * error / INTERVAL_SECONDS:.2f} %"


def print_memory(minutes: int) -> None:
    """What plans leave behind is garbage in reference cycles: only after a collection memory says what is held."""
    with served(1, is_filled=True) as server:
        server.wait()
        print("| minute | resident | after a collection | history, by its own estimate | cycles in it |")
        print("|---:|---:|---:|---:|---:|", flush=True)
        for minute in range(minutes + 1):
            interval = server.work(60.0 if minute else INTERVAL_SECONDS)
            before, after = interval.mebibytes
            sizes = f"{before} MiB | {after} MiB | {interval.history_mebibytes} MiB | {interval.cycles}"
            print(f"| {minute} | {sizes} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.dashboard")
    parser.add_argument("intervals", nargs="?", type=int, default=24, help="of each server")
    parser.add_argument("--viewers", type=int, nargs="+", default=VIEWERS, help="of each server; -1: no dashboard")
    parser.add_argument("--memory", type=int, metavar="MINUTES")
    parser.add_argument("--serve", type=int, metavar="VIEWERS")
    parser.add_argument("--filled", action="store_true", help="its history is full from the start")
    options = parser.parse_args()
    if options.serve is not None:
        tune()
        asyncio.run(serve(options.serve, options.filled))
    elif options.memory is not None:
        print_memory(options.memory)
    else:
        print_costs(options.intervals, options.viewers)


if __name__ == "__main__":
    main()

"""`python -m bench.busy`: busy clusters, cycle after cycle in virtual time, and the single plan on a full one.

What counts are ratios: CPU of a cycle beside one `take` of the same cluster in the same run, evictions and moves beside
placed pods, idle GPUs beside all. A cycle is an incremental snapshot and a plan.
"""

import argparse
import cProfile
import pstats
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from math import nan
from typing import ParamSpec, TypeVar
from unittest.mock import patch

from msgspec import Struct, field
from msgspec.structs import replace
from tests.support.virtual import VirtualCluster

from bench.busy_workload import GPU, Arrivals, busy, single
from muster.model.gang.gang import Gang
from muster.model.gang.pod_state import PodState
from muster.model.gang.state import has_enough_pods
from muster.model.gang.types import Leaf, walk
from muster.model.gang.updates import replace_members
from muster.model.snapshot import Snapshot, take
from muster.placement.exact import integer_program
from muster.planning.cycle import plan as make_plan
from muster.planning.decision import CyclePlan
from muster.planning.memory.answer_cache import AnswerCache
from muster.planning.policy import Policy
from muster.planning.preemption.victims import selection

P = ParamSpec("P")
T = TypeVar("T")
CYCLE_SECONDS = 5.0
GRACE_SECONDS = (5.0, 30.0)  # of terminating pods, at least and at most
ENDING = 0.02  # share of the running gangs that end in a cycle
LOOK_EVERY, MOST_TRIED = 5, 8  # cycles between two looks for idle GPUs, and gangs that are tried in each
REFERENCES = 20  # `take`s that are run
MOST_CALM = 20  # cycles until nothing is left to do
QUIET = 3  # cycles in which nothing happens, and in each of which one gang arrives
SINGLE = (100, 200, 400, 2_000)
EXACT = (
    (integer_program, "solve"),
    (selection, "smallest"),
    (selection, "smallest_set"),
)  # the exact tier, for seats and victims


class Tally(Struct):
    """What a run adds up to."""

    cycles: list[float] = field(default_factory=list)  # seconds of CPU
    searched: list[float] = field(default_factory=list)  # the same without the exact tier
    takes: list[float] = field(default_factory=list)
    unchanged: list[float] = field(default_factory=list)  # cycles in which nothing happens
    one_more: list[float] = field(default_factory=list)  # cycles in which one gang arrives
    verdicts: Counter[str] = field(default_factory=Counter)  # of gangs that want something
    bound: int = 0
    nominated: int = 0
    evicted: int = 0
    moved: int = 0
    steps: int = 0
    most_steps: int = 0  # of one gang in one cycle
    idle: int = 0  # GPUs, added up over the looks
    looked: int = 0  # GPUs that there are, added up over the looks


class Figure(Struct, frozen=True):
    """One row of the table."""

    nodes: int
    cycles: int
    take: float  # seconds
    p50: float  # as multiples of `take`
    p99: float
    most: float
    most_searched: float  # without the exact tier
    unchanged: float  # a cycle in which nothing happens
    one_more: float  # a cycle in which one gang arrives
    unknown: float  # share of the verdicts on gangs that want something
    idle: float  # share of GPU-cycles
    disturbed: float  # pods evicted, moves among them, for each one bound
    tally: Tally


def run(nodes: int, cycles: int, seed: int, load: float = 0.92, policy: Policy | None = None) -> Figure:
    """Plan, apply, plan, … on one busy cluster."""
    cluster, arrivals = busy(nodes, seed, load)
    tally, memory = Tally(), AnswerCache()
    for number in range(cycles):
        _happen(cluster, arrivals, nodes)
        snapshot, plan = _cycle(cluster, policy, memory, tally)
        _count(plan, tally)
        graces = {one.key: arrivals.rng.uniform(*GRACE_SECONDS) for one in plan.evictions}
        cluster.apply(snapshot, plan, graces)
        if number % LOOK_EVERY == 0:
            _look(cluster, tally, policy)
        if number % max(cycles // REFERENCES, 1) == 0:
            objects = cluster.objects()
            tally.takes.append(_seconds(partial(take, objects, cluster.now)))
    _calm_down(cluster, arrivals, policy, memory, tally)
    return _figure(nodes, tally)


def _calm_down(
    cluster: VirtualCluster, arrivals: Arrivals, policy: Policy | None, memory: AnswerCache, tally: Tally
) -> None:
    """A plan that changes little: nothing ends or arrives until nothing is left to do, then one gang a cycle."""
    quiet = Tally()
    for _ in range(MOST_CALM):
        cluster.advance(GRACE_SECONDS[1])
        snapshot, plan = _cycle(cluster, policy, memory, quiet)
        cluster.apply(snapshot, plan, GRACE_SECONDS[0])
        tally.unchanged.append(quiet.cycles[-1])
        if plan.bindings or plan.evictions:
            tally.unchanged.clear()
        if len(tally.unchanged) > QUIET:
            break
    for _ in range(QUIET):
        _arrive(cluster, arrivals)
        cluster.advance(CYCLE_SECONDS)
        snapshot, plan = _cycle(cluster, policy, memory, quiet)
        cluster.apply(snapshot, plan, GRACE_SECONDS[0])
        tally.one_more.append(quiet.cycles[-1])


def _happen(cluster: VirtualCluster, arrivals: Arrivals, nodes: int) -> None:
    """Time passes, gangs end, and others arrive until as many wait as there are nodes in four."""
    rng = arrivals.rng
    cluster.advance(CYCLE_SECONDS)
    running = {gang for gang in cluster.workloads if any(pod["spec"].get("nodeName") for pod in cluster.pods(gang))}
    for gang in sorted(running):
        if rng.random() < ENDING:
            cluster.finish(gang)
            if gang in cluster.raws["PodDisruptionBudget"]:
                cluster.remove("PodDisruptionBudget", gang)
    for _ in range(max(nodes // 4 - (len(cluster.workloads) - len(running)), 0)):
        _arrive(cluster, arrivals)


def _arrive(cluster: VirtualCluster, arrivals: Arrivals) -> None:
    workload, others = arrivals.next()
    for raw in others:
        cluster.put(raw)
    cluster.submit(workload)


def _cycle(
    cluster: VirtualCluster, policy: Policy | None, memory: AnswerCache, tally: Tally
) -> tuple[Snapshot, CyclePlan]:
    """As the live loop does it: what earlier cycles run out is remembered (X7)."""
    with _exact_time() as exactly:
        began = time.process_time()
        snapshot = cluster.snapshot()
        plan = make_plan(snapshot, policy, memory=memory)
        seconds = time.process_time() - began
    tally.cycles.append(seconds)
    tally.searched.append(seconds - sum(exactly))
    return snapshot, plan


@contextmanager
def _exact_time() -> Iterator[list[float]]:
    """Seconds of CPU of the exact tier: its programs, written, solved and checked, and its search over sets."""
    seconds: list[float] = []
    inside = False

    def run(work: Callable[P, T]) -> Callable[P, T]:
        def timed(*args: P.args, **kwargs: P.kwargs) -> T:
            nonlocal inside
            if inside:
                return work(*args, **kwargs)
            inside, began = True, time.process_time()
            try:
                return work(*args, **kwargs)
            finally:
                inside = False
                seconds.append(time.process_time() - began)

        return timed

    with ExitStack() as patches:
        for module, name in EXACT:
            patches.enter_context(patch.object(module, name, run(getattr(module, name))))
        yield seconds


def _count(plan: CyclePlan, tally: Tally) -> None:
    tally.verdicts.update(
        gang_plan.verdict for gang_plan in plan.gangs if gang_plan.verdict != "Scheduled" or gang_plan.refusals
    )
    tally.verdicts["Scheduled"] += len({one.gang for one in (*plan.bindings, *plan.nominations)})
    tally.bound += len(plan.bindings)
    tally.nominated += len(plan.nominations)
    tally.evicted += len(plan.evictions)
    tally.moved += sum(bool(one.move_to) for one in plan.evictions)
    tally.steps += sum(plan.searches)
    tally.most_steps = max((tally.most_steps, *plan.searches))


def _look(cluster: VirtualCluster, tally: Tally, policy: Policy | None) -> None:
    """GPUs that are free while a core waits that would fit there by itself: as many as the largest such core asks for.

    Each gang is tried as if no other one waited, so that nothing is promised to any; its queue's limit still holds.
    """
    snapshot = cluster.snapshot()
    at = snapshot.columns.index(GPU)
    free = int(snapshot.free[:, at].clip(min=0).sum())
    waiting = [gang for gang in snapshot.gangs if not gang.standing.satisfied and has_enough_pods(gang.root)]
    tried = sorted(waiting, key=lambda gang: (-gang.priority, gang.created, gang.key))[:MOST_TRIED]
    tally.looked += int(snapshot.allocatable[:, at].sum())
    tally.idle += min(max((_fits(snapshot, gang, policy) for gang in tried), default=0), free)


def _fits(snapshot: Snapshot, gang: Gang, policy: Policy | None) -> int:
    """GPUs of the pods that would be bound if this gang alone waited; 0: it does not fit on what is free."""
    gangs = tuple(one if one.key == gang.key else _content(one) for one in snapshot.gangs)
    alone = make_plan(replace(snapshot, gangs=gangs), policy)
    mine = [one.key for one in alone.bindings if one.gang == gang.key and one.role == "core"]
    at = snapshot.columns.index(GPU)
    return sum(int(snapshot.classes[snapshot.class_of[pod]].requests[at]) for pod in mine)


def _content(gang: Gang) -> Gang:
    """The gang as if it wanted nothing: pods that wait are gated."""
    if not gang.standing.pending:
        return gang
    gated = {
        (leaf.name, one.name): replace(one, state=PodState.GATED)
        for leaf in walk(gang.root)
        if isinstance(leaf, Leaf)
        for one in leaf.members_in(PodState.PENDING)
    }
    return replace(gang, root=replace_members(gang.root, gated))


def _figure(nodes: int, tally: Tally) -> Figure:
    reference = statistics.median(tally.takes)
    times = sorted(tally.cycles)
    decided = sum(tally.verdicts.values())
    return Figure(
        nodes=nodes,
        cycles=len(times),
        take=reference,
        p50=percentile(times, 50) / reference,
        p99=percentile(times, 99) / reference,
        most=times[-1] / reference,
        most_searched=max(tally.searched) / reference,
        unchanged=min(tally.unchanged[1:], default=nan) / reference,
        one_more=statistics.median(tally.one_more) / reference,
        unknown=tally.verdicts["Unknown"] / max(decided, 1),
        idle=tally.idle / max(tally.looked, 1),
        disturbed=tally.evicted / max(tally.bound, 1),
        tally=tally,
    )


def percentile(ordered: Sequence[float], percent: int) -> float:
    """Of values in order: the smallest that so many percent do not pass."""
    return ordered[min(-(-len(ordered) * percent // 100), len(ordered)) - 1]


def _seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


# the single plan ----------------------------------------------------------------------------------------------------


class SinglePlan(Struct, frozen=True):
    """What one plan on a full cluster did and took."""

    nodes: int
    running: int
    waiting: int  # gangs
    pods: int  # of these
    bound: int
    nominated: int
    evicted: int
    moved: int
    unknown: int  # gangs
    steps: int
    seconds: float
    take: float


def once(nodes: int, seed: int, policy: Policy | None = None) -> SinglePlan:
    """One plan, run."""
    cluster = single(nodes, seed)
    objects = cluster.objects()
    took = _seconds(lambda: take(objects, cluster.now))
    snapshot = take(objects, cluster.now)
    began = time.process_time()
    plan = make_plan(snapshot, policy)
    seconds = time.process_time() - began
    pods = [pod for pod in cluster.pods() if not pod["spec"].get("nodeName")]
    return SinglePlan(
        nodes=nodes,
        running=len(objects.pods) - len(pods),
        waiting=nodes // 4,
        pods=len(pods),
        bound=len(plan.bindings),
        nominated=len(plan.nominations),
        evicted=len(plan.evictions),
        moved=sum(bool(one.move_to) for one in plan.evictions),
        unknown=sum(gang_plan.verdict == "Unknown" for gang_plan in plan.gangs),
        steps=sum(plan.searches),
        seconds=seconds,
        take=took,
    )


# showing ------------------------------------------------------------------------------------------------------------

RUNS = (
    "| busy cluster | cycles | `take` | cycle p50 | p99 | max, ÷ `take` | max without the exact tier "
    "| nothing new | one gang more | `Unknown` | GPUs idle | disturbed ÷ bound "
    "| bound / nominated / evicted / moved | steps, most of a gang |\n" + "|---|" + 13 * "---:|"
)
PLANS = (
    "| single plan | running pods | waiting gangs (pods) | bound | nominated | evicted | moved | unknown gangs | steps "
    "| seconds | ÷ `take` |\n" + "|---|" + 10 * "---:|"
)


def row(run: Figure) -> str:
    """One run, as docs/performance.md shows it."""
    sums = run.tally
    return (
        f"| {run.nodes:,} nodes | {run.cycles} | {run.take * 1000:.0f} ms | {run.p50:.1f} | {run.p99:.1f} "
        f"| {run.most:.1f} | {run.most_searched:.1f} | {run.unchanged:.1f} | {run.one_more:.1f} "
        f"| {run.unknown:.1%} | {run.idle:.1%} | {run.disturbed:.2f} "
        f"| {sums.bound:,} / {sums.nominated:,} / {sums.evicted:,} / {sums.moved:,} "
        f"| {sums.steps:,}, {sums.most_steps:,} |"
    )


def plan_row(run: SinglePlan) -> str:
    """One plan, as docs/performance.md shows it."""
    return (
        f"| {run.nodes:,} nodes | {run.running:,} | {run.waiting} ({run.pods:,}) | {run.bound:,} "
        f"| {run.nominated:,} | {run.evicted:,} | {run.moved:,} | {run.unknown} | {run.steps:,} "
        f"| {run.seconds:.2f} | {run.seconds / run.take:.1f} |"
    )


def short() -> Iterable[str]:
    """What `make bench` shows: a few dozen cycles at 64 nodes, and the plans on 100 and 200."""
    yield RUNS
    yield row(run(64, 40, seed=1))
    yield "\n" + PLANS
    yield from (plan_row(once(nodes, seed=1)) for nodes in SINGLE[:2])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.busy", description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--nodes", type=int, nargs="+", help="sizes (default: 64; 100, 200, 400 and 2,000 with --single)"
    )
    parser.add_argument("--cycles", type=int, default=200, help="cycles of a run (default: 200)")
    parser.add_argument("--seed", type=int, default=1, help="of cluster and arrivals (default: 1)")
    parser.add_argument("--load", type=float, default=0.92, help="share of the GPUs in use at the start (0.85 to 1)")
    parser.add_argument("--steps", type=int, default=Policy().steps, help="the budget of a gang (X7)")
    parser.add_argument("--single", action="store_true", help="one plan on a full cluster instead of cycles")
    parser.add_argument("--profile", action="store_true", help="show where the time goes")
    given = parser.parse_args(arguments)
    profile = cProfile.Profile()
    if given.profile:
        profile.enable()
    policy = Policy(steps=given.steps)
    print(PLANS if given.single else RUNS)
    for nodes in given.nodes or (SINGLE if given.single else (64,)):
        if given.single:
            line = plan_row(once(nodes, given.seed, policy))
        else:
            line = row(run(nodes, given.cycles, given.seed, given.load, policy))
        print(line, flush=True)
    if given.profile:
        profile.disable()
        pstats.Stats(profile, stream=sys.stderr).sort_stats("cumulative").print_stats(30)


if __name__ == "__main__":
    main()

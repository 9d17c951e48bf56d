"""What is wrong with a scenario beside unknown keys and wrong types: every problem, with its path and a hint.

Rule: whatever can be judged without reading other files is judged here; the rest when the cluster is known
(`gang_problems`).
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from muster.api.objects import Objects
from muster.errors import InputError
from muster.simulator.datacenter import parse_levels
from muster.simulator.scenario.cluster_objects import queue_of
from muster.simulator.scenario.daily_scaling import DAY_MS, SHORTEST_MS, GangScaling
from muster.simulator.scenario.durations import to_ms
from muster.simulator.scenario.types import (
    DISTRIBUTIONS,
    Arrivals,
    ClusterSpec,
    DailyScaling,
    Distribution,
    Duration,
    GangSpec,
    NodeDrain,
    NodeFailure,
    Scenario,
    SimulatedWorkload,
    Trace,
)
from muster.validation.check import errors
from muster.validation.context import ValidationContext
from muster.validation.problem import Problem, listed
from muster.validation.queue import judge

DURATION_HINT = "such as `90s`, `15m` or `168h`; plain numbers are seconds"
NEEDS = {"constant": ("value",), "exponential": ("mean",), "lognormal": ("median",), "uniform": ("least", "most")}


def scenario_problems(scenario: Scenario) -> Iterator[Problem]:
    """Every contradiction in a scenario."""
    yield from _duration("horizon", scenario.horizon)
    yield from _cluster(scenario.cluster)
    yield from _names(scenario)
    yield from _queues(scenario)
    for i, workload in enumerate(scenario.workloads):
        yield from _workload(f"workloads[{i}]", workload, scenario)
    for i, trace in enumerate(scenario.traces):
        yield from _trace(f"traces[{i}]", trace, scenario)
    if not scenario.workloads and not scenario.traces and not scenario.cluster.snapshot:
        yield Problem("workloads", "is empty, and there are no traces", hint="`muster simulate --init` prints a start")
    for i, failure in enumerate(scenario.failures):
        yield from _node_change(f"failures[{i}]", failure)
    for i, drain in enumerate(scenario.drains):
        yield from _node_change(f"drains[{i}]", drain)
    yield from _random_failures(scenario)
    for field in ("start", "stop"):
        yield from _duration(f"kubelet.{field}", getattr(scenario.kubelet, field))


def _duration(at: str, duration: Duration | None) -> Iterator[Problem]:
    try:
        to_ms(0 if duration is None else duration)
    except (ValueError, OverflowError) as error:
        yield Problem(at, str(error), hint=DURATION_HINT)


def _distribution(at: str, distribution: Distribution) -> Iterator[Problem]:
    if not distribution.kind:
        if distribution != Distribution():
            yield Problem(f"{at}.kind", "is missing", hint=f"known: {listed(DISTRIBUTIONS)}")
        return
    if distribution.kind not in DISTRIBUTIONS:
        yield Problem(
            f"{at}.kind", f"`{distribution.kind[:60]}` is no distribution", hint=f"known: {listed(DISTRIBUTIONS)}"
        )
        return
    for field in NEEDS[distribution.kind]:
        if getattr(distribution, field) is None:
            yield Problem(f"{at}.{field}", f"is missing for `kind: {distribution.kind}`", hint=DURATION_HINT)
    for field in ("value", "mean", "median", "least", "most"):
        yield from _duration(f"{at}.{field}", getattr(distribution, field))
    least, most = _known_ms(distribution.least), _known_ms(distribution.most)
    if least is not None and most is not None and least > most:
        yield Problem(f"{at}.least", f"is `{distribution.least}`, more than `most`, `{distribution.most}`")


def _known_ms(duration: Duration | None) -> int | None:
    """None: it is not stated, or is none."""
    try:
        return None if duration is None else to_ms(duration)
    except (ValueError, OverflowError):
        return None


def _cluster(cluster: ClusterSpec) -> Iterator[Problem]:
    sources = {"nodes": cluster.nodes > 0, "nodesFile": bool(cluster.nodes_file.file), "snapshot": cluster.snapshot}
    stated = [name for name, is_stated in sources.items() if is_stated]
    if len(stated) != 1:
        problem = f"states {' and '.join(stated)}" if stated else "states no nodes"
        yield Problem("cluster", problem, hint=f"exactly one of {', '.join(sources)}")
    yield from _path("cluster.nodesFile.file", cluster.nodes_file.file)
    yield from _path("cluster.snapshot", cluster.snapshot)
    if cluster.topology and cluster.snapshot:
        yield Problem("cluster.topology", "is not read with `snapshot`", hint="its files have the Topology")
    if cluster.topology:
        try:
            parse_levels(cluster.topology)
        except InputError as error:
            yield Problem("cluster.topology", error.message.removeprefix("--topology: "), hint=error.hint)


def _path(at: str, path: str) -> Iterator[Problem]:
    if "\0" in path:
        yield Problem(at, "holds a NUL character", hint="a path has none")


def _scaling(
    at: str, scaling: DailyScaling, parts: Iterable[tuple[str, int, int]], scenario: Scenario
) -> Iterator[Problem]:
    """`parts`: by path, how many pods there are and how many of them are needed at all times."""
    for field in ("peak", "spread", "every"):
        yield from (problems := list(_duration(f"{at}.{field}", getattr(scaling, field))))
        if problems:
            return
    for field in ("peak", "spread"):
        if to_ms(getattr(scaling, field)) >= DAY_MS:
            yield Problem(f"{at}.{field}", "is a day or more", hint="a time of day, such as `14h`")
    if to_ms(scaling.every) < SHORTEST_MS:
        yield Problem(f"{at}.every", "is less than a minute", hint="such as `15m`")
    if scaling.least < 1 and scenario.horizon is None:
        yield Problem(at, "needs a `horizon`", hint="gangs would be scaled for ever")
    for path, pods, needed in parts if scaling.least < 1 else ():
        fewest = GangScaling(scaling.least, 0, SHORTEST_MS).wanted(pods, DAY_MS // 2)
        if fewest < needed:
            says = f"leaves {fewest} of {pods} pods, and {needed} are needed"
            yield Problem(f"{at}.least", says, hint=f"a higher share, or a lower minimum in `{path}`")


def _names(scenario: Scenario) -> Iterator[Problem]:
    """Names are there once: gangs and queues are known by them."""
    named: dict[str, list[Any]] = {
        "queues": [queue.name for queue in scenario.queues],
        "workloads": [workload.name for workload in scenario.workloads],
        "traces": [trace.name for trace in scenario.traces],
    }
    for at, names in named.items():
        for name, count in Counter(names).items():
            if count > 1:
                yield Problem(at, f"`{name}` is there {count} times", hint="give each a name of its own")
    both = sorted(set(named["workloads"]) & set(named["traces"]))
    if both:
        yield Problem("traces", f"`{both[0]}` is the name of a workload, too", hint="give each a name of its own")


def _queues(scenario: Scenario) -> Iterator[Problem]:
    """The rules of the kind Queue (Q1, P5), with the paths of a scenario."""
    queues = tuple(map(queue_of, scenario.queues))
    context = ValidationContext(Objects(queues=queues))
    for i, queue in enumerate(queues):
        for problem in errors(judge(queue, context)) if queue.metadata.name else ():
            path = problem.at.removeprefix("spec.").replace("parentQueue", "parent")
            yield replace(problem, at=f"queues[{i}].{path}")


def _workload(at: str, workload: SimulatedWorkload, scenario: Scenario) -> Iterator[Problem]:
    yield from _arrivals(f"{at}.arrivals", workload.arrivals, scenario)
    yield from _distribution(f"{at}.duration", workload.duration)
    yield from _gang(f"{at}.gang", workload.gang)
    yield from _scaling(f"{at}.scaling", workload.scaling, _needs(f"{at}.gang", workload.gang), scenario)
    yield from _place(at, workload, scenario)


def _arrivals(at: str, arrivals: Arrivals, scenario: Scenario) -> Iterator[Problem]:
    if not arrivals.interval.kind and arrivals.count is None:
        yield Problem(at, "states neither `interval` nor `count`", hint="how often, or how many at once")
    yield from _distribution(f"{at}.interval", arrivals.interval)
    yield from _duration(f"{at}.first", arrivals.first)
    if arrivals.count is None and scenario.horizon is None:
        yield Problem(f"{at}.count", "is missing without a `horizon`", hint="gangs would arrive for ever")
    if arrivals.count is None and _is_zero(arrivals.interval):
        yield Problem(f"{at}.interval", "is 0, so that gangs arrive without end", hint="state `count`, or an interval")


def _is_zero(interval: Distribution) -> bool:
    """Whether no time ever passes between two arrivals; less than a millisecond is none."""
    longest = (getattr(interval, field) for field in (*NEEDS.get(interval.kind, ())[-1:], "most"))
    return not _known_ms(interval.least) and any(_known_ms(duration) == 0 for duration in longest)


def _needs(at: str, gang: GangSpec) -> Iterator[tuple[str, int, int]]:
    """Pods and how many of them are needed, by path."""
    if not gang.roles:
        yield f"{at}.minPods", gang.pods, gang.min_pods or gang.pods
    for i, role in enumerate(gang.roles):
        yield f"{at}.roles[{i}].minPods", role.pods, role.min_pods or role.pods


def _gang(at: str, gang: GangSpec) -> Iterator[Problem]:
    if gang.roles and (gang.requests or gang.min_pods is not None or gang.pods != 1):
        yield Problem(
            at, "states `roles`, and pods of its own", hint="`pods`, `minPods` and `requests` go to the roles"
        )
    if gang.replicas == 1 and gang.replica_level:
        yield Problem(f"{at}.replicaLevel", "is not read without `replicas`", hint="say `level`")
    for inner, pods, least in (
        (at, gang.pods, gang.min_pods),
        *((f"{at}.roles[{i}]", role.pods, role.min_pods) for i, role in enumerate(gang.roles)),
    ):
        if least is not None and least > pods:
            yield Problem(f"{inner}.minPods", f"is {least}, more than `pods`, {pods}")
    for inner, requests in (
        (at, gang.requests),
        *((f"{at}.roles[{i}]", role.requests) for i, role in enumerate(gang.roles)),
    ):
        for name in (name for name, amount in requests.items() if amount < 0):
            yield Problem(f"{inner}.requests", f"`{name[:60]}` is negative")
    if gang.min_replicas is not None and gang.min_replicas > gang.replicas:
        yield Problem(f"{at}.minReplicas", f"is {gang.min_replicas}, more than `replicas`, {gang.replicas}")


def _place(at: str, source: SimulatedWorkload | Trace, scenario: Scenario) -> Iterator[Problem]:
    """Queue and priority class exist; those of a snapshot are known later."""
    queues = {queue.name for queue in scenario.queues} - {queue.parent for queue in scenario.queues}
    if scenario.queues and source.queue not in queues:
        stated = f"`{source.queue}` is no leaf queue here" if source.queue else "is missing"
        yield Problem(f"{at}.queue", stated, hint=f"known: {listed(queues)}")
    if source.priority_class and not scenario.cluster.snapshot:
        yield from _priority_class(f"{at}.priorityClass", source.priority_class, scenario)


def _priority_class(at: str, name: str, scenario: Scenario) -> Iterator[Problem]:
    if name not in scenario.priority_classes:
        known = listed(scenario.priority_classes)
        yield Problem(at, f"`{name[:60]}` is not one of `priorityClasses`", hint=f"known: {known}")


def _trace(at: str, trace: Trace, scenario: Scenario) -> Iterator[Problem]:
    if not trace.file:
        yield Problem(f"{at}.file", "is missing", hint="the path of a CSV file, from the scenario")
    yield from _path(f"{at}.file", trace.file)
    if trace.format != "csv" and trace.columns != type(trace.columns)():
        yield Problem(f"{at}.columns", f"are not read with `format: {trace.format}`", hint="leave them out")
    yield from _scaling(f"{at}.scaling", trace.scaling, (), scenario)
    if trace.scaling.least < trace.min_share:
        says = f"is {trace.scaling.least:g}, less than `minShare`, {trace.min_share:g}"
        yield Problem(f"{at}.scaling.least", says, hint="gangs would fall below their minimums every day")
    if not trace.columns.queue:
        yield from _place(at, trace, scenario)
    for name in trace.priority_classes.values():
        yield from _priority_class(f"{at}.priorityClasses", name, scenario)


def _node_change(at: str, change: NodeFailure | NodeDrain) -> Iterator[Problem]:
    yield from _duration(f"{at}.at", change.at)
    yield from _duration(f"{at}.lasts", change.lasts)
    if bool(change.nodes) == bool(change.domain):
        yield Problem(at, "states neither `nodes` nor `domain`, or both", hint="such as `domain: rack=r0`")


def _random_failures(scenario: Scenario) -> Iterator[Problem]:
    yield from _distribution("randomFailures.interval", scenario.random_failures.interval)
    yield from _distribution("randomFailures.repair", scenario.random_failures.repair)
    if scenario.random_failures.interval.kind and scenario.horizon is None:
        yield Problem("randomFailures", "needs a `horizon`", hint="nodes would fail for ever")

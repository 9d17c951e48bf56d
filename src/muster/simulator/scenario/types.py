"""A scenario as types: cluster, queues, workloads, traces, failures, drains, policy. Frozen; the user's words.

Times are durations such as `90s`, `15m` or `168h`, or plain numbers of seconds, from the start of the simulation.
"""

from typing import Annotated, Any

from msgspec import field

from muster.api.meta import Wire, doc
from muster.api.quantity import Resources
from muster.api.queue import QueueResource
from muster.config.settings import Consolidation, Disturbance, Scheduling

Duration = str | int | float
DISTRIBUTIONS = ("constant", "exponential", "lognormal", "uniform")
ON_EVICTION = ("restart", "resume")
SPEEDS = ("linear", "fixed")
JOB_FORMATS = ("csv", "openb", "disaggregated")
NODE_FORMATS = ("csv", "openb", "gpu-nodes")
PREEMPTIBILITY = ("", "preemptible", "non-preemptible", "semi-preemptible")
_NAME: dict[str, Any] = {"maxLength": 40, "pattern": r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"}


def _between(least: float, most: float) -> dict[str, Any]:
    return {"minimum": least, "maximum": most}


class Distribution(Wire, frozen=True):
    """A random duration; every gang draws it from a random stream of its own."""

    kind: Annotated[str, doc("constant, exponential, lognormal or uniform; empty: not stated.")] = ""
    value: Annotated[Duration | None, doc("constant: the duration.")] = None
    mean: Annotated[Duration | None, doc("exponential: the mean.")] = None
    median: Annotated[Duration | None, doc("lognormal: the median.")] = None
    sigma: Annotated[float, doc("lognormal: the standard deviation of the logarithm.", **_between(0, 10))] = 1.0
    least: Annotated[Duration | None, doc("Nothing is shorter; uniform: the lower end.")] = None
    most: Annotated[Duration | None, doc("Nothing is longer; uniform: the upper end.")] = None


class NodeColumns(Wire, frozen=True):
    """Columns of a CSV file of nodes; empty: the file has none."""

    name: Annotated[str, doc("The name of the node; empty: nodes are numbered.")] = ""
    cpu: Annotated[str, doc("Its CPU.")] = ""
    memory: Annotated[str, doc("Its memory.")] = ""
    gpu: Annotated[str, doc("How many GPUs it has.")] = ""
    model: Annotated[str, doc("The model of its GPUs: the node label `gpu-model`.")] = ""


class Units(Wire, frozen=True):
    """In which units the columns of a CSV file count."""

    cpu: Annotated[str, doc("cores or milli.", enum=["cores", "milli"])] = "cores"
    memory: Annotated[str, doc("bytes, MiB or GiB.", enum=["bytes", "MiB", "GiB"])] = "GiB"
    time: Annotated[str, doc("s, ms or h.", enum=["s", "ms", "h"])] = "s"


class NodesFile(Wire, frozen=True):
    """A CSV file of nodes, which stand in the domains of `topology` in the order of the file."""

    file: Annotated[str, doc("Its path, from the scenario.")] = ""
    format: Annotated[
        str, doc("csv: `columns` say what is what; openb and gpu-nodes: published formats.", enum=list(NODE_FORMATS))
    ] = "csv"
    columns: Annotated[NodeColumns, doc("Which column is what.")] = NodeColumns()
    units: Annotated[Units, doc("The units of the columns.")] = Units()


class ClusterSpec(Wire, frozen=True):
    """Where the nodes come from: generated, a CSV file, or a captured snapshot."""

    nodes: Annotated[int, doc("Generated nodes.", **_between(0, 100_000))] = 0
    gpus: Annotated[int, doc("GPUs of each generated node.", **_between(0, 64))] = 8
    topology: Annotated[str, doc("Levels with their numbers of domains, coarse to fine: `zone=2,rack=8`.")] = ""
    nodes_file: Annotated[NodesFile, doc("A CSV file of nodes.")] = NodesFile()
    snapshot: Annotated[str, doc("Files that `muster snapshot` captured, or other manifests: a file or a folder.")] = ""


class SimulatedQueue(Wire, frozen=True):
    """A queue; as the kind Queue."""

    name: Annotated[str, doc("Its name.", **_NAME)] = ""
    parent: Annotated[str, doc("The queue above it; empty: a top queue.")] = ""
    priority: Annotated[int, doc("Higher goes first in dividing the surplus.", **_between(-(10**9), 10**9))] = 100
    resources: Annotated[
        dict[str, QueueResource], doc("Quota, limit and overQuotaWeight of cpu, memory, gpu and others.")
    ] = field(default_factory=dict)
    preempt_min_runtime: Annotated[str, doc("How long a gang runs before its own queue may preempt it.")] = ""
    reclaim_min_runtime: Annotated[str, doc("How long a gang runs before another queue may reclaim from it.")] = ""


class RoleSpec(Wire, frozen=True):
    """A role of a gang: pods that are alike."""

    name: Annotated[str, doc("Its name.", **_NAME)] = "pods"
    pods: Annotated[int, doc("How many pods it has.", **_between(1, 100_000))] = 1
    min_pods: Annotated[int | None, doc("How many of them are needed; unset: all.", **_between(1, 100_000))] = None
    requests: Annotated[Resources, doc("What one pod requests.")] = Resources()
    level: Annotated[str, doc("The pods of the role sit in one domain of this level.")] = ""
    preferred_level: Annotated[str, doc("They do if possible.")] = ""


class GangSpec(Wire, frozen=True):
    """What a gang is made of: pods, or roles; once, or as replicas of which some are needed."""

    pods: Annotated[int, doc("Without roles: how many pods it has.", **_between(1, 100_000))] = 1
    min_pods: Annotated[
        int | None, doc("Without roles: how many of them are needed; unset: all.", **_between(1, 100_000))
    ] = None
    requests: Annotated[Resources, doc("Without roles: what one pod requests.")] = Resources()
    roles: Annotated[tuple[RoleSpec, ...], doc("The roles, such as leader and workers.")] = ()
    replicas: Annotated[int, doc("So many copies of pods or roles, a SubGroup each.", **_between(1, 1_000))] = 1
    min_replicas: Annotated[int | None, doc("How many of them are needed; unset: all.", **_between(1, 1_000))] = None
    replica_level: Annotated[str, doc("Each replica sits in one domain of this level.")] = ""
    level: Annotated[str, doc("The whole gang sits in one domain of this level.")] = ""
    preferred_level: Annotated[str, doc("The whole gang does if possible.")] = ""


class Arrivals(Wire, frozen=True):
    """When gangs of a workload arrive."""

    interval: Annotated[Distribution, doc("Between one arrival and the next.")] = Distribution()
    first: Annotated[Duration, doc("Nothing arrives before.")] = 0
    count: Annotated[int | None, doc("How many arrive; unset: until the horizon.", **_between(0, 10_000_000))] = None


class DailyScaling(Wire, frozen=True):
    """Gangs that grow and shrink with the time of day: all pods at the peak, the fewest twelve hours later."""

    least: Annotated[
        float, doc("The share of the pods of each role at the quietest time; 1: they stay.", **_between(0.001, 1))
    ] = 1.0
    peak: Annotated[Duration, doc("The time of day with all pods; days begin with the simulation.")] = "14h"
    spread: Annotated[Duration, doc("The peak of each gang is up to so much earlier or later, by chance.")] = 0
    every: Annotated[Duration, doc("How often numbers of pods are changed, at least `1m`.")] = "15m"


class SimulatedWorkload(Wire, frozen=True):
    """Gangs that are alike and arrive one after the other."""

    name: Annotated[str, doc("Gangs are called after it: `train-0`, `train-1`.", **_NAME)] = ""
    arrivals: Annotated[Arrivals, doc("When they arrive.")] = Arrivals()
    duration: Annotated[Distribution, doc("How long one runs once its core runs; not stated: for ever.")] = (
        Distribution()
    )
    gang: Annotated[GangSpec, doc("What one is made of.")] = GangSpec()
    queue: Annotated[str, doc("Its queue; empty: `default`.")] = ""
    priority_class: Annotated[str, doc("One of `priorityClasses`; empty: priority 50.")] = ""
    preemptibility: Annotated[str, doc("As of a PodGroup; empty: by priority.", enum=list(PREEMPTIBILITY))] = ""
    on_eviction: Annotated[
        str, doc("restart: what was done is lost; resume: it goes on from there.", enum=list(ON_EVICTION))
    ] = "restart"
    speed: Annotated[
        str, doc("linear: half of the pods take twice as long; fixed: they take as long.", enum=list(SPEEDS))
    ] = "linear"
    staleness_grace_period: Annotated[str, doc("As of a PodGroup; empty: 60s.")] = ""
    scaling: Annotated[DailyScaling, doc("How its pods follow the time of day.")] = DailyScaling()


class JobColumns(Wire, frozen=True):
    """Columns of a CSV file of jobs; empty: the file has none. Rows with the same `gang` are one gang."""

    name: Annotated[str, doc("The name of the job, or of the instance.")] = ""
    gang: Annotated[str, doc("The gang that a row belongs to; empty: every row is one.")] = ""
    role: Annotated[str, doc("The role of the row's pods in its gang.")] = ""
    arrival: Annotated[str, doc("When it was submitted; rows without one arrive at the start.")] = ""
    start: Annotated[str, doc("When it started: the duration is counted from here.")] = ""
    end: Annotated[str, doc("When it ended; rows without one run for ever.")] = ""
    duration: Annotated[str, doc("How long it runs, instead of `end`.")] = ""
    pods: Annotated[str, doc("How many pods a row stands for; empty: 1.")] = ""
    cpu: Annotated[str, doc("CPU of one pod.")] = ""
    memory: Annotated[str, doc("Memory of one pod.")] = ""
    gpu: Annotated[str, doc("GPUs of one pod; a part of one counts as one.")] = ""
    model: Annotated[str, doc("GPU models that will do, with `|` between them; empty: any.")] = ""
    class_name: Annotated[str, doc("A class by which figures are shown, and `priorityClasses` chosen.")] = field(
        default="", name="class"
    )
    queue: Annotated[str, doc("The queue.")] = ""


class Trace(Wire, frozen=True):
    """A CSV file of jobs."""

    name: Annotated[str, doc("Gangs are called after it.", **_NAME)] = "trace"
    file: Annotated[str, doc("Its path, from the scenario.")] = ""
    format: Annotated[
        str, doc("csv: `columns` say what is what; openb, disaggregated: published formats.", enum=list(JOB_FORMATS))
    ] = "csv"
    columns: Annotated[JobColumns, doc("Which column is what.")] = JobColumns()
    units: Annotated[Units, doc("The units of the columns.")] = Units()
    limit: Annotated[int | None, doc("Only so many gangs, the first to arrive.", **_between(1, 10_000_000))] = None
    arrival_scale: Annotated[
        float, doc("Arrivals come at this multiple of their time: 0.1 is ten times the load.", **_between(0, 1_000))
    ] = 1.0
    min_share: Annotated[
        float, doc("The share of the pods of a role that its gang needs; below 1 it is elastic.", **_between(0, 1))
    ] = 1.0
    level: Annotated[str, doc("Each gang sits in one domain of this level.")] = ""
    preferred_level: Annotated[str, doc("Each gang does if possible.")] = ""
    queue: Annotated[str, doc("The queue of gangs without one; empty: `default`.")] = ""
    priority_class: Annotated[str, doc("The priority class of gangs; empty: by class, else priority 50.")] = ""
    priority_classes: Annotated[dict[str, str], doc("By class of the column, the priority class.")] = field(
        default_factory=dict
    )
    preemptibility: Annotated[str, doc("As of a PodGroup; empty: by priority.", enum=list(PREEMPTIBILITY))] = ""
    on_eviction: Annotated[
        str, doc("restart: what was done is lost; resume: it goes on from there.", enum=list(ON_EVICTION))
    ] = "restart"
    speed: Annotated[
        str, doc("linear: half of the pods take twice as long; fixed: they take as long.", enum=list(SPEEDS))
    ] = "linear"
    scaling: Annotated[DailyScaling, doc("How the pods of gangs follow the time of day.")] = DailyScaling()


class NodeFailure(Wire, frozen=True):
    """Nodes that are lost with their pods, and come back."""

    nodes: Annotated[tuple[str, ...], doc("Which nodes.")] = ()
    domain: Annotated[str, doc("Instead: all nodes of a domain, as `level=name`.")] = ""
    at: Annotated[Duration, doc("When.")] = 0
    lasts: Annotated[Duration | None, doc("For how long; unset: for ever.")] = None


class RandomFailures(Wire, frozen=True):
    """Nodes that fail by chance, each on its own."""

    interval: Annotated[Distribution, doc("Between two failures of one node.")] = Distribution()
    repair: Annotated[Distribution, doc("How long one is gone; not stated: for ever.")] = Distribution()


class NodeDrain(Wire, frozen=True):
    """Nodes that take no more pods, and whose pods are evicted."""

    nodes: Annotated[tuple[str, ...], doc("Which nodes.")] = ()
    domain: Annotated[str, doc("Instead: all nodes of a domain, as `level=name`.")] = ""
    at: Annotated[Duration, doc("When.")] = 0
    lasts: Annotated[Duration | None, doc("For how long; unset: for ever.")] = None


class KubeletSpec(Wire, frozen=True):
    """How long simulated kubelets take."""

    start: Annotated[Duration, doc("From bound to running.")] = 1
    stop: Annotated[Duration, doc("From evicted to gone: until then a pod holds its resources.")] = 30


class PolicySpec(Wire, frozen=True):
    """Settings of the scheduler, as in its configuration."""

    search_steps: Annotated[int, doc("As `scheduling.searchSteps`.", **_between(1_000, 10**9))] = (
        Scheduling().search_steps
    )
    cycle_steps: Annotated[int, doc("As `scheduling.cycleSteps`.", **_between(1_000, 10**10))] = (
        Scheduling().cycle_steps
    )
    consolidation: Annotated[Consolidation, doc("As `consolidation`.")] = Consolidation()
    disturbance: Annotated[Disturbance, doc("As `disturbance`.")] = Disturbance()


class Scenario(Wire, frozen=True):
    """What is simulated."""

    name: Annotated[str, doc("A name for tables; empty: the name of the file.")] = ""
    seed: Annotated[int, doc("All chance comes from it.", **_between(0, 2**63 - 1))] = 0
    horizon: Annotated[Duration | None, doc("When the simulation ends; unset: when nothing is left to happen.")] = None
    cluster: Annotated[ClusterSpec, doc("Where the nodes come from.")] = ClusterSpec()
    queues: Annotated[tuple[SimulatedQueue, ...], doc("None: one queue `default` without limits.")] = ()
    priority_classes: Annotated[dict[str, int], doc("Priorities by name.")] = field(default_factory=dict)
    workloads: Annotated[tuple[SimulatedWorkload, ...], doc("Gangs that are generated.")] = ()
    traces: Annotated[tuple[Trace, ...], doc("Gangs of files.")] = ()
    failures: Annotated[tuple[NodeFailure, ...], doc("Nodes that fail at a given time.")] = ()
    random_failures: Annotated[RandomFailures, doc("Nodes that fail by chance.")] = RandomFailures()
    drains: Annotated[tuple[NodeDrain, ...], doc("Nodes that are drained.")] = ()
    kubelet: Annotated[KubeletSpec, doc("How long pods take to start and to stop.")] = KubeletSpec()
    policy: Annotated[PolicySpec, doc("Settings of the scheduler.")] = PolicySpec()

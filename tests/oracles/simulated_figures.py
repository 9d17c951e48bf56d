"""The figures of a simulation again, from its objects after every moment and from rows of its CSV files.

Rule: nothing of `simulator/results`, nothing that the engine counts on its way: sums over pods and nodes, a plain
integral over time, and ranks in sorted lists.
"""

import csv
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from io import StringIO
from math import ceil

from msgspec import Struct, field

from muster.api import names
from muster.api.core import Node, Pod
from muster.api.podgroup import PodGroup
from muster.simulator.engine.simulated_scheduler import AppliedCycle
from muster.simulator.engine.simulation import Simulation

GPU = "nvidia.com/gpu"
HOUR = 3600
LEVELS = ("topology/rack", "topology/zone")  # fine to coarse


class GangHistory(Struct):
    """One gang, as its pods show it."""

    arrived: float
    queue: str
    is_resumed: bool
    first_start: float | None = None
    is_working: bool = False
    works_with: int = 0  # GPUs, until the next moment
    gpu_seconds: float = 0.0  # of the current stretch of work
    lost: float = 0.0  # GPU-seconds
    domains: int | None = None  # at its first start
    least_domains: int | None = None


class RecomputedFigures(Struct):
    """Follows a simulation by its hooks."""

    at: float | None = None
    sums: Counter[str] = field(default_factory=Counter)  # amount × seconds
    queue_sums: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    gangs: dict[str, GangHistory] = field(default_factory=dict)
    state: Counter[str] = field(default_factory=Counter)  # amounts since the last moment
    queue_state: dict[str, Counter[str]] = field(default_factory=dict)
    fair: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    is_infeasible: bool = False
    begun: float = 0.0

    def see_cycle(self, cycle: AppliedCycle) -> None:
        """What only a plan knows: fair shares, and gangs that fit nowhere."""
        if cycle.plan.division is not None:
            self.fair = cycle.plan.division.shares
        self.is_infeasible = any(one.verdict == "Infeasible" for one in cycle.plan.gangs)

    def see_moment(self, simulation: Simulation) -> None:
        """Everything that happened at one moment is written."""
        now = simulation.now_ms / 1000
        if self.at is None:
            self.begun = now
        self.pass_time(now)
        objects = simulation.cluster.objects
        by_gang: dict[str, list[Pod]] = defaultdict(list)
        for pod in objects.pods:
            by_gang[pod.metadata.annotations[names.POD_GROUP]].append(pod)
        for group in objects.pod_groups:
            self._see_gang(group, by_gang[group.metadata.name], objects.nodes, simulation, now)
        for name in self.gangs.keys() - {group.metadata.name for group in objects.pod_groups}:
            self.gangs[name].is_working, self.gangs[name].works_with = False, 0
        self._see_nodes(objects.nodes, objects.pods)
        groups = {group.metadata.name: group for group in objects.pod_groups}
        is_waiting = any(not _is_met(group, filter(_is_placed, by_gang[name])) for name, group in groups.items())
        held: dict[str, int] = Counter()
        for name, pods in by_gang.items():
            held[self.gangs[name].queue] += sum(_gpus(pod) for pod in pods if pod.spec.node_name)
        self.queue_state = {}
        for queue in held.keys() | self.fair.keys():
            share = self.fair.get(queue, {}).get(GPU, 0) if is_waiting else held.get(queue, 0)
            below = max(share - held.get(queue, 0), 0)
            self.queue_state[queue] = Counter(allocated=held.get(queue, 0), fairShare=share, below=below)
        is_stranded = self.is_infeasible and any(not pod.spec.node_name for pod in objects.pods)
        self.state["stranded"] = self.state["idle"] if is_stranded else 0
        self.at = now

    def pass_time(self, now: float) -> None:
        """All stays as it is until then."""
        passed = 0.0 if self.at is None else now - self.at
        for gang in self.gangs.values():
            gang.gpu_seconds += gang.works_with * passed
        for name, amount in self.state.items():
            self.sums[name] += amount * passed  # type: ignore[assignment]
        for queue, amounts in self.queue_state.items():
            for name, amount in amounts.items():
                self.queue_sums[queue][name] += amount * passed  # type: ignore[assignment]
        self.at = now

    def _see_gang(
        self, group: PodGroup, pods: list[Pod], nodes: Iterable[Node], simulation: Simulation, now: float
    ) -> None:
        run = simulation.runs[f"simulated/{group.metadata.name}"]
        assert run.arrival is not None
        gang = self.gangs.setdefault(group.metadata.name, GangHistory(now, group.spec.queue, run.arrival.is_resumed))
        placed = list(filter(_is_placed, pods))
        if gang.first_start is None and _is_met(group, placed):
            gang.first_start = now
            gang.domains, gang.least_domains = _domains_of(placed, nodes)
        running = [pod for pod in placed if pod.status.phase == "Running"]
        is_working = _is_met(group, running)
        if gang.is_working and not is_working and not gang.is_resumed:
            gang.lost += gang.gpu_seconds
        if is_working and not gang.is_working:
            gang.gpu_seconds = 0.0
        gang.is_working, gang.works_with = is_working, sum(map(_gpus, running)) if is_working else 0

    def _see_nodes(self, nodes: Iterable[Node], pods: Iterable[Pod]) -> None:
        held: Counter[str] = Counter()
        for pod in pods:
            held[pod.spec.node_name] += _gpus(pod)
        is_open = {
            node.metadata.name: not node.spec.unschedulable
            and all(one.status == "True" for one in node.status.conditions if one.type == "Ready")
            for node in nodes
        }
        sizes = {
            node.metadata.name: node.status.allocatable.get(GPU, 0) for node in nodes if is_open[node.metadata.name]
        }
        free = {name: size - held[name] for name, size in sizes.items()}
        domains: Counter[str] = Counter()
        for name, domain in _domains(nodes).items():
            domains[domain] += free.get(name, 0)
        self.state = Counter(
            capacity=sum(sizes.values()),
            allocated=sum(amount for name, amount in held.items() if name),
            working=sum(gang.works_with for gang in self.gangs.values()),
            idle=sum(free.values()),
            freest_node=max(free.values(), default=0),
            freest_domain=max(domains.values()),
        )


def _is_placed(pod: Pod) -> bool:
    return bool(pod.spec.node_name) and pod.metadata.deletion_timestamp is None


def _gpus(pod: Pod) -> int:
    return sum(container.resources.requests.get(GPU, 0) for container in pod.spec.containers)


def _is_met(group: PodGroup, pods: Iterable[Pod]) -> bool:
    """All minimums on the way down hold for these pods."""
    numbers = Counter(pod.metadata.labels.get(names.SUBGROUP, "") for pod in pods)
    parts = group.spec.sub_groups

    def holds(name: str, min_member: int | None, min_sub_group: int | None) -> bool:
        inner = [part for part in parts if part.parent == name]
        if not inner:
            return numbers[name] >= (min_member or 1)
        met = sum(holds(part.name, part.min_member, part.min_sub_group) for part in inner)
        return met >= (len(inner) if min_sub_group is None else min_sub_group)

    return holds("", group.spec.min_member, group.spec.min_sub_group)


def _domains(nodes: Iterable[Node]) -> dict[str, str]:
    """By node, its domain of the finest level whose domains are not all single nodes."""
    labels = {node.metadata.name: node.metadata.labels for node in nodes}
    level = next(level for level in LEVELS if len({each[level] for each in labels.values()}) < len(labels))
    return {name: each[level] for name, each in labels.items()}


def _domains_of(pods: list[Pod], nodes: Iterable[Node]) -> tuple[int, int]:
    """In how many domains pods are, and the fewest that have as much of every resource."""
    domain_of = _domains(nodes)
    requested: Counter[str] = Counter(pods=len(pods))
    for pod in pods:
        for container in pod.spec.containers:
            requested.update(container.resources.requests)
    least = 1
    for resource, amount in requested.items():
        sizes: Counter[str] = Counter()
        for node in nodes:
            sizes[domain_of[node.metadata.name]] += node.status.allocatable.get(resource, 0)
        ordered = sorted(sizes.values(), reverse=True)
        least = max(least, next(i for i in range(1, len(ordered) + 1) if sum(ordered[:i]) >= amount))
    return len({domain_of[pod.spec.node_name] for pod in pods}), least


# CSV files ------------------------------------------------------------------------------------------------------------


def rows_of(text: str) -> list[dict[str, str]]:
    """The rows of a CSV file, by column."""
    return list(csv.DictReader(StringIO(text)))


def waits_in(events: Iterable[Mapping[str, str]]) -> dict[str, float]:
    """By gang, from its arrival to its first start."""
    arrived: dict[str, float] = {}
    waits: dict[str, float] = {}
    for row in events:
        if row["event"] == "arrived":
            arrived[row["gang"]] = float(row["at_seconds"])
        if row["event"] == "started":
            waits.setdefault(row["gang"], float(row["at_seconds"]) - arrived[row["gang"]])
    return waits


def rank(values: Iterable[float], percent: int) -> float:
    """The smallest value that so many percent of all do not exceed."""
    ordered = sorted(values)
    return ordered[max(ceil(percent / 100 * len(ordered)), 1) - 1]

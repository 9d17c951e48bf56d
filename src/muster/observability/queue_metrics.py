"""Gangs and queues as the last plan left them: made when they are scraped, so that a cycle pays nothing for them.

Rule: however many queues, resources and gangs there are, the number of series is bounded.
"""

from bisect import bisect_left
from collections import Counter as Counts
from collections.abc import Iterable, Iterator
from math import inf

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from muster.api.quantity import Resources, is_in_bytes
from muster.api.queue import UNLIMITED
from muster.fairness.shares import Division
from muster.model.queues import USUAL, Amounts, QueueNode
from muster.observability.metric_table import PREFIX, TABLE, VERDICTS
from muster.planning.decision import CyclePlan, GangPlan

OTHER_QUEUES = "_other"  # no queue can have this name
MOST_RESOURCES = 16
_GAUGES = tuple(metric for metric in TABLE if metric.is_collected)


class QueueLabels:
    """Which queues have series of their own. One that has them keeps them for as long as it exists."""

    def __init__(self, most: int) -> None:
        self._most, self._own = most, dict[str, None]()

    def __contains__(self, queue: str) -> bool:
        return queue in self._own

    def of(self, queue: str) -> str:
        """The label of a queue."""
        return queue if queue in self._own else OTHER_QUEUES

    def update(self, queues: Iterable[str]) -> list[str]:
        """These exist, parents before children; returns those that are gone."""
        existing = dict.fromkeys(queues)
        gone = [queue for queue in self._own if queue not in existing]
        for queue in gone:
            del self._own[queue]
        for queue in existing:
            if len(self._own) >= self._most:
                break
            self._own[queue] = None
        return gone


class QueueCollector(Collector):
    """The gauges of the last plan."""

    def __init__(self, most_queues: int) -> None:
        self.labels = QueueLabels(most_queues)
        self._plan: CyclePlan | None = None
        self._families: list[GaugeMetricFamily] | None = None  # of that plan, once they were scraped

    def show(self, plan: CyclePlan | None) -> list[str]:
        """Shows this plan from now on, or none; returns queues that are gone."""
        self._plan, self._families = plan, None
        return self.labels.update(plan.division.tree.nodes) if plan and plan.division else []

    def queue_of(self, gang: str) -> str:
        """The label of a gang's queue, by the last plan."""
        gang_plan = find_gang(self._plan, gang) if self._plan else None
        return self.labels.of(gang_plan.gang.queue) if gang_plan else OTHER_QUEUES

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """The registry finds them by name."""
        return self._build(CyclePlan())

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Every family, also where it is empty."""
        if self._families is None:
            self._families = list(self._build(self._plan or CyclePlan()))
        yield from self._families

    def _build(self, plan: CyclePlan) -> Iterator[GaugeMetricFamily]:
        families = {
            metric.name: GaugeMetricFamily(f"{PREFIX}_{metric.name}", metric.about, labels=metric.labels)
            for metric in _GAUGES
        }
        self._add_gangs(families, plan)
        if plan.division is not None:
            self._add_queues(families, plan.division)
        yield from families.values()

    def _add_gangs(self, families: dict[str, GaugeMetricFamily], plan: CyclePlan) -> None:
        verdicts, waiting, scheduled, pending = Counts[str](), Counts[tuple[str, str]](), Counts[str](), Counts[str]()
        for gang_plan in plan.gangs:
            gang = gang_plan.gang
            if gang.is_foreign:
                continue
            verdicts[gang_plan.verdict] += 1
            queue = self.labels.of(gang.queue)
            if gang_plan.verdict == "Scheduled":
                scheduled[queue] += 1
            else:
                waiting[queue, gang_plan.refusals[0].reason if gang_plan.refusals else ""] += 1
            if not gang.is_settled and not gang.broken:
                pending[queue] += gang.standing.pending
        for verdict in VERDICTS:
            families["gangs"].add_metric((verdict,), verdicts[verdict])
        for labels, number in waiting.items():
            families["queue_waiting_gangs"].add_metric(labels, number)
        for queue, number in scheduled.items():
            families["queue_scheduled_gangs"].add_metric((queue,), number)
        for queue, number in pending.items():
            families["queue_pending_pods"].add_metric((queue,), number)

    def _add_queues(self, families: dict[str, GaugeMetricFamily], division: Division) -> None:
        resources, nodes, holding = shown_resources(division), division.tree.nodes.values(), division.uses.holding
        for name, amounts in (
            ("queue_allocated", holding),
            ("queue_requested", division.uses.requested),
            ("queue_share", division.shares),
        ):
            for label, amount in self._by_label(nodes, amounts):
                for resource in resources:
                    value, unit = in_base_units(resource, amount.get(resource, 0))
                    families[name].add_metric((label, resource, unit), value)
        for node in nodes:
            if node.name in self.labels:
                _add_stated(families, node, resources)
        for resource in resources:
            value, unit = in_base_units(resource, division.pool.get(resource, 0))
            families["cluster_capacity"].add_metric((resource, unit), value)

    def _by_label(self, nodes: Iterable[QueueNode], amounts: Amounts) -> Iterator[tuple[str, Resources]]:
        """Amounts of queues with series of their own; then the sum of all others that have no children."""
        others = Counts[str]()
        some_left = False
        for node in nodes:
            amount = amounts.get(node.name, Resources())
            if node.name in self.labels:
                yield node.name, amount
            elif not node.children:
                some_left = True
                others.update(amount)
        if some_left:
            yield OTHER_QUEUES, Resources(others)


def _add_stated(families: dict[str, GaugeMetricFamily], node: QueueNode, resources: Iterable[str]) -> None:
    for resource in resources:
        share = node.share(resource)
        for name, stated in (("queue_quota", share.quota), ("queue_limit", share.limit)):
            value, unit = in_base_units(resource, stated)
            families[name].add_metric((node.name, resource, unit), inf if stated == UNLIMITED else value)


def shown_resources(division: Division) -> list[str]:
    """Those of every queue, then others that the cluster has, then others that queues name; a bounded number."""
    named = sorted(set(division.tree.resources) - set(USUAL), key=lambda name: (not division.pool.get(name), name))
    return [*USUAL, *named][:MOST_RESOURCES]


def in_base_units(resource: str, amount: int) -> tuple[float, str]:
    """An amount in Prometheus' base units: cores, bytes or devices."""
    if resource == "cpu":
        return amount / 1000, "core"
    return amount, "byte" if is_in_bytes(resource) else "device"


def find_gang(plan: CyclePlan, key: str) -> GangPlan | None:
    """A gang of a plan, whose gangs are sorted; None: it has none of that key."""
    at = bisect_left(plan.gangs, key, key=lambda gang_plan: gang_plan.gang.key)
    return plan.gangs[at] if at < len(plan.gangs) and plan.gangs[at].gang.key == key else None

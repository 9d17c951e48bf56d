"""Every metric, once: one table, one registry, one prefix, base units; docs/reference/metrics.md is generated from it.

Loops call the methods of `Metrics`, one for each thing that can happen; nothing else knows names of metrics. Names of
gangs and pods are not labels: their number has no bound.
"""

import platform
from collections import Counter as Counts
from collections.abc import Awaitable, Callable
from typing import Any, Literal, cast

from msgspec import Struct
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import choose_encoder
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from muster import __version__
from muster.api.quantity import is_in_bytes
from muster.fairness.shares import Division
from muster.planning.decision import CyclePlan, Role, Verdict
from muster.planning.disturbance import EvictionReason

PREFIX = "muster"
Clock = Callable[[], float]
Kind = Literal["counter", "gauge", "histogram"]
VERDICTS: tuple[Verdict, ...] = ("Scheduled", "Waiting", "Infeasible", "Unknown", "Invalid")
REASONS: tuple[EvictionReason, ...] = ("Preempt", "Reclaim", "Consolidate", "Stale")
OUTCOMES = ("found", "infeasible", "unknown")

_CYCLE = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_CALL = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_RESPONSE = (0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0)
_STEPS = (1.0, 10.0, 100.0, 1_000.0, 10_000.0, 100_000.0, 1_000_000.0)


class Metric(Struct, frozen=True):
    """One metric, without the prefix."""

    name: str
    kind: Kind
    about: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


TABLE = (
    Metric("cycle_duration_seconds", "histogram", "One scheduling cycle, from the snapshot to the plan.", (), _CYCLE),
    Metric(
        "decision_latency_seconds",
        "histogram",
        "From the change that woke the loop to the plan that takes it into account.",
        (),
        _CYCLE,
    ),
    Metric(
        "cancelled_cycles_total", "counter", "Plans that were cancelled: at shutdown, or because they made no progress."
    ),
    Metric(
        "gang_failures_total",
        "counter",
        "Cycles in which the work for a gang ended with an error inside muster, by its type; please report them.",
        ("error",),
    ),
    Metric(
        "longer_searches_total",
        "counter",
        "Searches beside the cycles, for gangs cut short in one (X7); outcome is found, infeasible or unknown.",
        ("outcome",),
    ),
    Metric("gangs", "gauge", "Gangs by the verdict of the last cycle.", ("verdict",)),
    Metric("bindings_total", "counter", "Pods bound; role is core or extra.", ("role",)),
    Metric(
        "bind_failures_total",
        "counter",
        "Bindings that failed, by the API server's reason.",
        ("reason",),
    ),
    Metric("bind_duration_seconds", "histogram", "One binding, from the request to the response.", (), _CALL),
    Metric("evictions_total", "counter", "Pods evicted: Preempt, Reclaim, Consolidate or Stale.", ("reason",)),
    Metric("eviction_failures_total", "counter", "Evictions that failed, by the API server's reason.", ("reason",)),
    Metric(
        "disturbed_pods_total",
        "counter",
        "Pods that plans disturb to free resources (P8); how is evicted, or moved: with a new node in the same plan.",
        ("how",),
    ),
    Metric("disturbance_allowed_pods", "gauge", "Pods that one cycle may disturb, by the last plan (P8)."),
    Metric("nominations_total", "counter", "Nominations: nodes kept for pods while victims terminate (P7)."),
    Metric(
        "conflicts_total", "counter", "Writes rejected because the object had changed meanwhile (409).", ("resource",)
    ),
    Metric(
        "events_dropped_total",
        "counter",
        "Events of placements and evictions that were not sent (QueueFull) or rejected by the API server (NotTaken).",
        ("reason",),
    ),
    Metric(
        "watch_lag_seconds",
        "gauge",
        "Time since the last event or bookmark of a watch; -1: no list yet.",
        ("resource",),
    ),
    Metric("watch_restarts_total", "counter", "Watches that ended, and were resumed or relisted.", ("resource",)),
    Metric(
        "queue_allocated",
        "gauge",
        "Requests of the placed pods of a queue and of the queues below it; unit is core, byte or device.",
        ("queue", "resource", "unit"),
    ),
    Metric("queue_share", "gauge", "The fair share of a queue (Q3), in the same units.", ("queue", "resource", "unit")),
    Metric(
        "queue_requested",
        "gauge",
        "Requests of the running and waiting pods of a queue, in the same units.",
        ("queue", "resource", "unit"),
    ),
    Metric("search_steps", "histogram", "Steps that one search took (X1); most gangs need one or two.", (), _STEPS),
    Metric(
        "grouping_duration_seconds", "histogram", "From a pod's first event until it joins its PodGroup.", (), _CALL
    ),
    Metric("grouping_writes_total", "counter", "PodGroups and pods that the grouper wrote.", ("resource",)),
    Metric("ungrouped_pods_total", "counter", "Times that a pod got no PodGroup, by reason.", ("reason",)),
    Metric(
        "grouping_failures_total",
        "counter",
        "Writes of the grouper that failed, by the API server's reason; Refused: the PodGroup itself is rejected.",
        ("reason",),
    ),
    Metric("grouping_reports_dropped_total", "counter", "Reports on pods that were dropped, as too many waited."),
    Metric("leader", "gauge", "1: this replica leads; 0 in a dry run."),
    Metric(
        "lease_given_up_total",
        "counter",
        "Times that this replica led and gave the lease up: WatchDead, CycleStuck or WritesUnanswered.",
        ("reason",),
    ),
    Metric(
        "webhook_requests_total",
        "counter",
        "Responses of the webhook; result is allowed, warned, denied, patched, or the HTTP status of a failure.",
        ("path", "result"),
    ),
    Metric("webhook_duration_seconds", "histogram", "One response of the webhook.", ("path",), _RESPONSE),
    Metric(
        "certificate_expiry_timestamp_seconds", "gauge", "When the certificate of the webhook expires, as a Unix time."
    ),
    Metric("build_info", "gauge", "Always 1; the labels hold the versions.", ("version", "python")),
)


class Metrics:
    """Counts what happens. Every method is cheap, and fails for no value of its arguments."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._collectors: dict[str, Any] = {metric.name: _make(metric, self.registry) for metric in TABLE}
        ProcessCollector(namespace=PREFIX, registry=self.registry)
        self._gauge("build_info").labels(__version__, platform.python_version()).set(1)
        for verdict in VERDICTS:
            self._gauge("gangs").labels(verdict)
        for reason in REASONS:
            self._counter("evictions_total").labels(reason)
        for how in ("evicted", "moved"):
            self._counter("disturbed_pods_total").labels(how)
        for outcome in OUTCOMES:
            self._counter("longer_searches_total").labels(outcome)

    def leadership_lost(self) -> None:
        """Another replica reports gangs and queues: sums over replicas must not count them twice."""
        for verdict in VERDICTS:
            self._gauge("gangs").labels(verdict).set(0)
        self._gauge("disturbance_allowed_pods").set(0)
        for name in ("queue_allocated", "queue_requested", "queue_share"):
            self._gauge(name).clear()

    def cycle(self, plan: CyclePlan, seconds: float) -> None:
        """A cycle ended with this plan."""
        self._histogram("cycle_duration_seconds").observe(seconds)
        verdicts = Counts(gang_plan.verdict for gang_plan in plan.gangs if not gang_plan.gang.is_foreign)
        for verdict in VERDICTS:
            self._gauge("gangs").labels(verdict).set(verdicts[verdict])
        steps = self._histogram("search_steps")
        for search in plan.searches:
            steps.observe(search)
        self._counter("disturbed_pods_total").labels("evicted").inc(plan.disturbance.evicted)
        self._counter("disturbed_pods_total").labels("moved").inc(plan.disturbance.moved)
        self._gauge("disturbance_allowed_pods").set(plan.disturbance.allowed)
        if plan.division is not None:
            self.queues(plan.division)

    def cancelled(self) -> None:
        """A plan was cancelled."""
        self._counter("cancelled_cycles_total").inc()

    def failed(self, error: str) -> None:
        """The work for one gang ended with an error."""
        self._counter("gang_failures_total").labels(error).inc()

    def longer_search_ended(self, outcome: str) -> None:
        """A search beside the cycles ended."""
        self._counter("longer_searches_total").labels(outcome).inc()

    def lease_given_up(self, reason: str) -> None:
        """This replica led, and gave the lease up."""
        self._counter("lease_given_up_total").labels(reason).inc()

    def decided(self, seconds: float) -> None:
        """A plan took a change into account this long after it."""
        self._histogram("decision_latency_seconds").observe(seconds)

    def bound(self, role: Role, seconds: float) -> None:
        """The API server confirmed a binding."""
        self._counter("bindings_total").labels(role).inc()
        self._histogram("bind_duration_seconds").observe(seconds)

    def bind_failed(self, reason: str, seconds: float) -> None:
        """The API server rejected a binding, or sent no response."""
        self._counter("bind_failures_total").labels(reason).inc()
        self._histogram("bind_duration_seconds").observe(seconds)

    def evicted(self, reason: EvictionReason) -> None:
        """The API server accepted an eviction."""
        self._counter("evictions_total").labels(reason).inc()

    def eviction_failed(self, reason: str) -> None:
        """A PodDisruptionBudget or the API server rejected an eviction."""
        self._counter("eviction_failures_total").labels(reason).inc()

    def conflict(self, resource: str) -> None:
        """An object had changed since it was read."""
        self._counter("conflicts_total").labels(resource).inc()

    def event_dropped(self, reason: str) -> None:
        """An Event was not sent, or rejected."""
        self._counter("events_dropped_total").labels(reason).inc()

    def nominated(self) -> None:
        """A pod was nominated to a node."""
        self._counter("nominations_total").inc()

    def watch(self, resource: str, lag: Clock) -> None:
        """Registers a watch; each scrape reads its lag, as a dead watch could not report it."""
        self._gauge("watch_lag_seconds").labels(resource).set_function(lag)
        self._counter("watch_restarts_total").labels(resource)

    def watch_restarted(self, resource: str) -> None:
        """A watch ended, and is resumed."""
        self._counter("watch_restarts_total").labels(resource).inc()

    def queues(self, division: Division) -> None:
        """Allocation, requests and fair share of every queue; series of deleted queues are dropped."""
        for name, amounts in (
            ("queue_allocated", division.uses.holding),
            ("queue_requested", division.uses.requested),
            ("queue_share", division.shares),
        ):
            gauge = self._gauge(name)
            gauge.clear()
            for queue in division.tree.nodes:
                for resource, amount in amounts.get(queue, {}).items():
                    value, unit = in_base_units(resource, amount)
                    gauge.labels(queue, resource, unit).set(value)

    def pod_grouped(self, seconds: float) -> None:
        """A pod joined its gang."""
        self._histogram("grouping_duration_seconds").observe(seconds)

    def grouping_written(self, resource: str) -> None:
        """The API server accepted a write of the grouper."""
        self._counter("grouping_writes_total").labels(resource).inc()

    def pod_ungrouped(self, reason: str) -> None:
        """A pod gets no PodGroup."""
        self._counter("ungrouped_pods_total").labels(reason).inc()

    def grouping_failed(self, reason: str) -> None:
        """A write of the grouper failed, or was refused."""
        self._counter("grouping_failures_total").labels(reason).inc()

    def grouping_report_dropped(self) -> None:
        """A report on a pod was dropped."""
        self._counter("grouping_reports_dropped_total").inc()

    def leads(self, now: Callable[[], bool]) -> None:
        """Each scrape reads whether this replica leads: a lease expires without an event."""
        self._gauge("leader").set_function(lambda: int(now()))

    def answered(self, path: str, result: str, seconds: float) -> None:
        """The webhook sent a response."""
        self._counter("webhook_requests_total").labels(path, result).inc()
        self._histogram("webhook_duration_seconds").labels(path).observe(seconds)

    def certificate(self, expires: float) -> None:
        """The webhook serves a certificate that expires then."""
        self._gauge("certificate_expiry_timestamp_seconds").set(expires)

    def _gauge(self, name: str) -> Gauge:
        return cast("Gauge", self._collectors[name])

    def _counter(self, name: str) -> Counter:
        return cast("Counter", self._collectors[name])

    def _histogram(self, name: str) -> Histogram:
        return cast("Histogram", self._collectors[name])


def in_base_units(resource: str, amount: int) -> tuple[float, str]:
    """An amount in Prometheus' base units: cores, bytes or devices."""
    if resource == "cpu":
        return amount / 1000, "core"
    return amount, "byte" if is_in_bytes(resource) else "device"


def _make(metric: Metric, registry: CollectorRegistry) -> Counter | Gauge | Histogram:
    name, about, labels = f"{PREFIX}_{metric.name}", metric.about, metric.labels
    match metric.kind:
        case "counter":
            return Counter(name, about, labels, registry=registry)
        case "gauge":
            return Gauge(name, about, labels, registry=registry)
        case "histogram":
            return Histogram(name, about, labels, registry=registry, buckets=metric.buckets)


def route(metrics: Metrics) -> Route:
    """`/metrics`, as text or as OpenMetrics, by the Accept header."""
    return Route("/metrics", _respond(metrics))


def _respond(metrics: Metrics) -> Callable[[Request], Awaitable[Response]]:
    async def respond(request: Request) -> Response:
        encode, kind = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(metrics.registry), headers={"content-type": kind})

    return respond


# the reference ------------------------------------------------------------------------------------------------------


def reference() -> str:
    """docs/reference/metrics.md, from the table."""
    return _HEAD + "".join(map(_row, TABLE)) + _TAIL


def _row(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels) or "–"
    buckets = f" Buckets: {', '.join(f'{bucket:g}' for bucket in metric.buckets)}." if metric.buckets else ""
    return f"| `{PREFIX}_{metric.name}` | {metric.kind} | {labels} | {metric.about}{buckets} |\n"


_HEAD = """\
# Metrics

<!-- Generated from src/muster/observability/metrics.py by `make golden`; change it there. -->

`GET /metrics` on the port of `observability` ([configuration](config.md)), as Prometheus text or OpenMetrics. One
prefix, base units (seconds, cores, bytes, devices), and labels whose number of values is bounded by the cluster, not by
its workloads.

| metric | type | labels | what it says |
|---|---|---|---|
"""
_TAIL = """
Beside them stand those of the process: `muster_process_cpu_seconds_total`, `muster_process_resident_memory_bytes`,
`muster_process_virtual_memory_bytes`, `muster_process_open_fds`, `muster_process_max_fds` and
`muster_process_start_time_seconds`.
"""

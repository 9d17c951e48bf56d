"""Every metric, once: one table, one registry, one prefix, base units; docs/reference/metrics.md is made from it.

Loops call the methods of `Metrics`, which say what happened; nothing else knows names of metrics. Names of gangs and
pods are no labels: their number has no bound.
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
from muster.api.quantity import in_bytes
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
_ANSWER = (0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0)
_STEPS = (1.0, 10.0, 100.0, 1_000.0, 10_000.0, 100_000.0, 1_000_000.0)


class Metric(Struct, frozen=True):
    """One metric as people read about it; the prefix is added."""

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
        "From the change that woke the loop to the plan that answers it.",
        (),
        _CYCLE,
    ),
    Metric("cancelled_cycles_total", "counter", "Plans that were given up: at the end, or as they got nowhere."),
    Metric(
        "gang_failures_total",
        "counter",
        "Cycles in which the work for a gang ended with an error inside muster, by its type; please report them.",
        ("error",),
    ),
    Metric(
        "longer_searches_total",
        "counter",
        "Searches beside the cycles for gangs that were cut short (X7); outcome is found, infeasible or unknown.",
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
    Metric("bind_duration_seconds", "histogram", "One binding, as the API server answers it.", (), _CALL),
    Metric("evictions_total", "counter", "Pods evicted: Preempt, Reclaim, Consolidate or Stale.", ("reason",)),
    Metric(
        "eviction_failures_total", "counter", "Evictions that were refused, by the API server's reason.", ("reason",)
    ),
    Metric(
        "disturbed_pods_total",
        "counter",
        "Pods that plans disturb to make room (P8); how is evicted, or moved: with a new place in the same plan.",
        ("how",),
    ),
    Metric("disturbance_allowed_pods", "gauge", "Pods that one cycle may disturb, by the last plan (P8)."),
    Metric("nominations_total", "counter", "Places kept for pods on room that is being freed (P7)."),
    Metric(
        "conflicts_total", "counter", "Writes refused because the object had changed meanwhile (409).", ("resource",)
    ),
    Metric(
        "events_dropped_total",
        "counter",
        "Events of placements and evictions that were not sent (QueueFull) or not taken by the API server (NotTaken).",
        ("reason",),
    ),
    Metric("watch_lag_seconds", "gauge", "Since the last event or bookmark of a watch; -1: not begun.", ("resource",)),
    Metric(
        "watch_restarts_total", "counter", "Watches that were lost and taken up again or listed anew.", ("resource",)
    ),
    Metric(
        "queue_allocated",
        "gauge",
        "What the placed pods of a queue and those below it hold; unit is core, byte or device.",
        ("queue", "resource", "unit"),
    ),
    Metric("queue_share", "gauge", "The fair share of a queue (Q3), in the same units.", ("queue", "resource", "unit")),
    Metric(
        "queue_requested",
        "gauge",
        "What the running and waiting pods of a queue ask for, in the same units.",
        ("queue", "resource", "unit"),
    ),
    Metric("search_steps", "histogram", "Steps that one search took (X1); most gangs need one or two.", (), _STEPS),
    Metric("leader", "gauge", "1: this replica leads and acts; 0 in a dry run."),
    Metric("lease_given_up_total", "counter", "Times that this replica led, got nowhere, and let another lead."),
    Metric(
        "webhook_requests_total",
        "counter",
        "Answers of the webhook; result is allowed, warned, denied, patched, or the HTTP status of a failure.",
        ("path", "result"),
    ),
    Metric("webhook_duration_seconds", "histogram", "One answer of the webhook.", ("path",), _ANSWER),
    Metric(
        "certificate_expiry_timestamp_seconds", "gauge", "When the certificate of the webhook expires, as a Unix time."
    ),
    Metric("build_info", "gauge", "Always 1; the labels say what runs.", ("version", "python")),
)


class Metrics:
    """What happened, counted. Every method is cheap and never fails because of what it is told."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._made: dict[str, Any] = {metric.name: _make(metric, self.registry) for metric in TABLE}
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

    def stands_by(self) -> None:
        """Another replica tells about gangs and queues: sums over replicas must not count them twice."""
        for verdict in VERDICTS:
            self._gauge("gangs").labels(verdict).set(0)
        self._gauge("disturbance_allowed_pods").set(0)
        for name in ("queue_allocated", "queue_requested", "queue_share"):
            self._gauge(name).clear()

    def cycle(self, plan: CyclePlan, seconds: float) -> None:
        """A cycle ended with this plan."""
        self._histogram("cycle_duration_seconds").observe(seconds)
        verdicts = Counts(found.verdict for found in plan.gangs if not found.gang.is_foreign)
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
        """A plan was given up."""
        self._counter("cancelled_cycles_total").inc()

    def failed(self, error: str) -> None:
        """The work for one gang ended with an error."""
        self._counter("gang_failures_total").labels(error).inc()

    def searched_longer(self, outcome: str) -> None:
        """A search beside the cycles has ended."""
        self._counter("longer_searches_total").labels(outcome).inc()

    def gave_up_the_lease(self) -> None:
        """This replica got nowhere."""
        self._counter("lease_given_up_total").inc()

    def decided(self, seconds: float) -> None:
        """A plan answered a change this long after it."""
        self._histogram("decision_latency_seconds").observe(seconds)

    def bound(self, role: Role, seconds: float) -> None:
        """The API server took a binding."""
        self._counter("bindings_total").labels(role).inc()
        self._histogram("bind_duration_seconds").observe(seconds)

    def bind_failed(self, reason: str, seconds: float) -> None:
        """The API server refused a binding, or did not answer."""
        self._counter("bind_failures_total").labels(reason).inc()
        self._histogram("bind_duration_seconds").observe(seconds)

    def evicted(self, reason: EvictionReason) -> None:
        """A pod is on its way out."""
        self._counter("evictions_total").labels(reason).inc()

    def eviction_failed(self, reason: str) -> None:
        """A budget or the API server said no."""
        self._counter("eviction_failures_total").labels(reason).inc()

    def conflict(self, resource: str) -> None:
        """An object had changed since it was read."""
        self._counter("conflicts_total").labels(resource).inc()

    def event_dropped(self, reason: str) -> None:
        """An Event was not sent, or not taken."""
        self._counter("events_dropped_total").labels(reason).inc()

    def nominated(self) -> None:
        """A place was noted on a pod."""
        self._counter("nominations_total").inc()

    def watch(self, resource: str, lag: Clock) -> None:
        """A watch will begin; its lag is asked for at each scrape, as a dead one would not tell."""
        self._gauge("watch_lag_seconds").labels(resource).set_function(lag)
        self._counter("watch_restarts_total").labels(resource)

    def watch_restarted(self, resource: str) -> None:
        """A watch ended, and another one begins."""
        self._counter("watch_restarts_total").labels(resource).inc()

    def queues(self, division: Division) -> None:
        """What every queue holds, asks for and deserves; queues that are gone are forgotten."""
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

    def leads(self, now: Callable[[], bool]) -> None:
        """Whether this replica acts is asked for at each scrape: a lease runs out without a word."""
        self._gauge("leader").set_function(lambda: int(now()))

    def answered(self, path: str, result: str, seconds: float) -> None:
        """The webhook answered."""
        self._counter("webhook_requests_total").labels(path, result).inc()
        self._histogram("webhook_duration_seconds").labels(path).observe(seconds)

    def certificate(self, expires: float) -> None:
        """The webhook shows a certificate that holds until then."""
        self._gauge("certificate_expiry_timestamp_seconds").set(expires)

    def _gauge(self, name: str) -> Gauge:
        return cast("Gauge", self._made[name])

    def _counter(self, name: str) -> Counter:
        return cast("Counter", self._made[name])

    def _histogram(self, name: str) -> Histogram:
        return cast("Histogram", self._made[name])


def in_base_units(resource: str, amount: int) -> tuple[float, str]:
    """An amount as Prometheus wants it: cores, bytes or devices."""
    if resource == "cpu":
        return amount / 1000, "core"
    return amount, "byte" if in_bytes(resource) else "device"


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
    """`/metrics`, as text or as OpenMetrics, whatever is asked for."""
    return Route("/metrics", _answer(metrics))


def _answer(metrics: Metrics) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        encode, kind = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(metrics.registry), headers={"content-type": kind})

    return answer


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

<!-- Made from src/muster/observability/metrics.py by `make golden`; change it there. -->

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

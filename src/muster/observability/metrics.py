"""Counts what happens: loops call the methods of `Metrics`, one for each thing that can happen, and know no names of
metrics. The names are in `metric_table`.
"""

import asyncio
import platform
import time
from collections import Counter as Counts
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, cast

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, disable_created_metrics
from prometheus_client.exposition import choose_encoder
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from muster import __version__
from muster.model.gang.types import walk_leaves
from muster.observability.access_reviews import bearer_token
from muster.observability.cycle_trace import CycleTrace
from muster.observability.metric_table import (
    EVICTION_REASONS,
    OUTCOMES,
    PHASES,
    PREFIX,
    TABLE,
    Metric,
    status_reason,
)
from muster.observability.metrics_access import Authorize
from muster.observability.queue_metrics import OTHER_QUEUES, QueueCollector, find_gang
from muster.observability.tallies import CounterTally, HistogramTally, Tallies
from muster.planning.decision import CyclePlan, GangPlan, Role
from muster.planning.disturbance import EvictionReason

Clock = Callable[[], float]
MOST_QUEUES = 100
disable_created_metrics()  # type: ignore[no-untyped-call]  # one more for each counter, which no query reads


class Metrics:
    """Counts what happens. Every method is cheap, and fails for no value of its arguments."""

    def __init__(self, most_queues: int = MOST_QUEUES, wall: Clock = time.time) -> None:
        self._wall = wall  # seconds since 1970
        self.registry = CollectorRegistry()
        self._collectors: dict[str, Any] = {
            metric.name: _make(metric, self.registry)
            for metric in TABLE
            if not (metric.is_collected or metric.is_tallied)
        }
        self._queues = QueueCollector(most_queues)
        self.registry.register(self._queues)
        self._tallies = Tallies()
        self.registry.register(self._tallies)
        ProcessCollector(namespace=PREFIX, registry=self.registry)
        self._requests: dict[tuple[str, str], tuple[CounterTally, HistogramTally]] = {}  # by verb and code
        self._bindings: dict[Role, CounterTally] = {}
        self._bind_duration = self._tallies.histogram("bind_duration_seconds")
        self._gauge("build_info").labels(__version__, platform.python_version()).set(1)
        self._begin_at_zero()

    def _begin_at_zero(self) -> None:
        """A counter that appears with its first count shows no increase."""
        for reason in EVICTION_REASONS:
            self._counter("evictions_total").labels(reason, OTHER_QUEUES)
        for how in ("evicted", "moved"):
            self._counter("disturbed_pods_total").labels(how)
        for outcome in OUTCOMES:
            self._counter("longer_searches_total").labels(outcome)
        for phase in PHASES:
            self._histogram("cycle_phase_duration_seconds").labels(phase)
        for problem in ("WatchDead", "CycleStuck", "WritesUnanswered"):
            self._counter("lease_given_up_total").labels(problem)

    # cycles and plans -------------------------------------------------------------------------------------------------

    def cycle(self, plan: CyclePlan, seconds: float) -> None:
        """A cycle ended with this plan."""
        self._histogram("cycle_duration_seconds").observe(seconds)
        for queue in self._queues.show(plan):
            self._forget_queue(queue)
        steps = self._histogram("search_steps")
        for search in plan.searches:
            steps.observe(search)
        self._counter("searches_cut_short_total").inc(sum(each.verdict == "Unknown" for each in plan.gangs))
        self._counter("disturbed_pods_total").labels("evicted").inc(plan.disturbance.evicted)
        self._counter("disturbed_pods_total").labels("moved").inc(plan.disturbance.moved)
        self._gauge("disturbance_allowed_pods").set(plan.disturbance.allowed)
        self._count_admissions(plan)

    def traced(self, trace: CycleTrace) -> None:
        """A cycle took so many seconds for each of its phases."""
        for phase in trace.phases:
            self._histogram("cycle_phase_duration_seconds").labels(phase.name).observe(phase.seconds)

    def leadership_lost(self) -> None:
        """Another replica reports gangs and queues: sums over replicas must not count them twice."""
        self._queues.show(None)
        self._gauge("disturbance_allowed_pods").set(0)

    def cancelled(self) -> None:
        """A plan was cancelled."""
        self._counter("cancelled_cycles_total").inc()

    def failed(self, error: str) -> None:
        """The work for one gang ended with an error."""
        self._counter("gang_failures_total").labels(error).inc()

    def longer_search_ended(self, outcome: str) -> None:
        """A search beside the cycles ended."""
        self._counter("longer_searches_total").labels(outcome).inc()

    def decided(self, seconds: float) -> None:
        """A plan took a change into account this long after it."""
        self._histogram("decision_latency_seconds").observe(seconds)

    def _count_admissions(self, plan: CyclePlan) -> None:
        """Gangs whose pods on nodes are all bound by this plan."""
        bound = Counts(binding.gang for binding in plan.bindings)
        now = self._wall()
        for key, number in bound.items():
            gang_plan = find_gang(plan, key)
            if gang_plan is not None and gang_plan.verdict == "Scheduled" and gang_plan.gang.standing.placed == number:
                self._counter("admitted_gangs_total").labels(self._queues.labels.of(gang_plan.gang.queue)).inc()
                self._histogram("admission_wait_seconds").observe(max(now - _oldest(gang_plan, now), 0.0))

    def _forget_queue(self, queue: str) -> None:
        """Series of a queue that is gone would stay for ever."""
        with suppress(KeyError):
            self._counter("admitted_gangs_total").remove(queue)
        for reason in EVICTION_REASONS:
            with suppress(KeyError):
                self._counter("evictions_total").remove(reason, queue)

    # writes -----------------------------------------------------------------------------------------------------------

    def bound(self, role: Role, seconds: float) -> None:
        """The API server confirmed a binding."""
        count = self._bindings.get(role)
        if count is None:
            count = self._bindings[role] = self._tallies.counter("bindings_total", role)
        count.number += 1
        self._bind_duration.observe(seconds)

    def bind_failed(self, reason: str, seconds: float) -> None:
        """The API server rejected a binding, or sent no response."""
        self._counter("bind_failures_total").labels(status_reason(reason)).inc()
        self._bind_duration.observe(seconds)

    def evicted(self, reason: EvictionReason, gang: str) -> None:
        """The API server accepted an eviction of a pod of this gang."""
        self._counter("evictions_total").labels(reason, self._queues.queue_of(gang)).inc()

    def eviction_failed(self, reason: str) -> None:
        """A PodDisruptionBudget or the API server rejected an eviction."""
        self._counter("eviction_failures_total").labels(status_reason(reason)).inc()

    def nominated(self) -> None:
        """A pod was nominated to a node."""
        self._counter("nominations_total").inc()

    def conflict(self, resource: str) -> None:
        """An object had changed since it was read."""
        self._counter("conflicts_total").labels(resource).inc()

    def event_dropped(self, reason: str) -> None:
        """An Event was not sent, or rejected."""
        self._counter("events_dropped_total").labels(reason).inc()

    def backlog(self, name: str, length: Clock) -> None:
        """Each scrape reads the length of what waits: `writes_in_flight`, `unconfirmed_bindings` and so on."""
        self._gauge(name).set_function(length)

    def requested(self, verb: str, code: str, seconds: float) -> None:
        """The API server answered a request; code is `none` where it did not."""
        series = self._requests.get((verb, code))
        if series is None:
            count = self._tallies.counter("api_requests_total", verb, code)
            series = count, self._tallies.histogram("api_request_duration_seconds", verb)
            self._requests[verb, code] = series
        series[0].number += 1
        series[1].observe(seconds)

    # watches and leadership -------------------------------------------------------------------------------------------

    def watch(self, resource: str, lag: Clock) -> None:
        """Registers a watch; each scrape reads its lag, as a dead watch could not report it."""
        self._gauge("watch_lag_seconds").labels(resource).set_function(lag)
        self._counter("watch_restarts_total").labels(resource)

    def watch_restarted(self, resource: str) -> None:
        """A watch ended, and is resumed."""
        self._counter("watch_restarts_total").labels(resource).inc()

    def leads(self, now: Callable[[], bool]) -> None:
        """Each scrape reads whether this replica leads: a lease expires without an event."""
        self._gauge("leader").set_function(lambda: int(now()))

    def lease_given_up(self, reason: str) -> None:
        """This replica led, and gave the lease up."""
        self._counter("lease_given_up_total").labels(reason).inc()

    def loop_lagged(self, seconds: float) -> None:
        """A timer of the event loop fired this late."""
        self._histogram("event_loop_lag_seconds").observe(seconds)

    # the pod grouper --------------------------------------------------------------------------------------------------

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
        self._counter("grouping_failures_total").labels(status_reason(reason)).inc()

    def grouping_report_dropped(self) -> None:
        """A report on a pod was dropped."""
        self._counter("grouping_reports_dropped_total").inc()

    # the webhook ------------------------------------------------------------------------------------------------------

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


def _oldest(gang_plan: GangPlan, now: float) -> float:
    """When the first of its pods was created."""
    created = (member.created for leaf in walk_leaves(gang_plan.gang.root) for member in leaf.members)
    return min((moment for moment in created if moment), default=now)


def _make(metric: Metric, registry: CollectorRegistry) -> Counter | Gauge | Histogram:
    name, about, labels = f"{PREFIX}_{metric.name}", metric.about, metric.labels
    match metric.kind:
        case "counter":
            return Counter(name, about, labels, registry=registry)
        case "gauge":
            return Gauge(name, about, labels, registry=registry)
        case "histogram":
            return Histogram(name, about, labels, registry=registry, buckets=metric.buckets)


def route(metrics: Metrics, authorize: Authorize | None = None) -> Route:
    """`/metrics`, as text or as OpenMetrics, by the Accept header; `authorize` None: for any client."""
    return Route("/metrics", _respond(metrics, authorize))


def _respond(metrics: Metrics, authorize: Authorize | None) -> Callable[[Request], Awaitable[Response]]:
    async def respond(request: Request) -> Response:
        refusal = await authorize(bearer_token(request.headers.get("authorization", ""))) if authorize else None
        if refusal is not None:
            challenge = {"www-authenticate": "Bearer"} if refusal.status == 401 else {}
            return PlainTextResponse(f"{refusal.message}\n", refusal.status, challenge)
        encode, kind = choose_encoder(request.headers.get("accept", ""))
        names = request.query_params.getlist("name[]")  # as in the clients of Prometheus: only these
        registry = metrics.registry.restricted_registry(names) if names else metrics.registry
        text = await asyncio.to_thread(encode, registry)  # some 10 ms: the webhook answers meanwhile
        return Response(text, headers={"content-type": kind})

    return respond

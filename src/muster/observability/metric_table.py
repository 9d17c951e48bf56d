"""Every metric, once: one table, one prefix, base units; docs/reference/metrics.md is generated from it.

Rule: the values of a label are bounded. Gangs, pods, nodes and users are no labels; queues and reasons that others
choose are bounded by `queue_metrics` and `status_reason`.
"""

from typing import Final, Literal

from msgspec import Struct

from muster.kube.errors import REASONS as API_REASONS
from muster.observability.cycle_trace import PLAN_PHASES
from muster.planning.decision import Verdict
from muster.planning.disturbance import EvictionReason

PREFIX: Final = "muster"
Kind = Literal["counter", "gauge", "histogram"]
VERDICTS: tuple[Verdict, ...] = ("Scheduled", "Waiting", "Infeasible", "Unknown", "Invalid")
EVICTION_REASONS: tuple[EvictionReason, ...] = ("Preempt", "Reclaim", "Consolidate", "Stale")
OUTCOMES: Final = ("found", "infeasible", "unknown")
PHASES: Final = ("snapshot", *PLAN_PHASES, "report", "apply")
OTHER_REASON: Final = "Other"
# of API servers, beside one for each status, and of muster itself
STATUS_REASONS: Final = frozenset(
    {*API_REASONS.values(), "AlreadyExists", "Gone", "ServerTimeout", "StorageReadError", "Refused"}
)

_CYCLE = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_CALL = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_REQUEST = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_RESPONSE = (0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0)
_STEPS = (1.0, 10.0, 100.0, 1_000.0, 10_000.0, 100_000.0, 1_000_000.0)
_WAIT = (1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0, 86_400.0)
_LOOP = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)


class Metric(Struct, frozen=True):
    """One metric, without the prefix."""

    name: str
    kind: Kind
    about: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    is_collected: bool = False  # made from the last plan when it is scraped, and of no cost before
    is_tallied: bool = False  # see `tallies`


def status_reason(reason: str) -> str:
    """The reason of a rejected request as a label: admission webhooks may invent others."""
    return reason if reason in STATUS_REASONS else OTHER_REASON


TABLE = (
    Metric("cycle_duration_seconds", "histogram", "One scheduling cycle, from the snapshot to the plan.", (), _CYCLE),
    Metric(
        "cycle_phase_duration_seconds",
        "histogram",
        "One phase of a cycle: snapshot; allocate, relocate, release and explain, which make the plan; report; apply, "
        "until its writes are answered.",
        ("phase",),
        _CYCLE,
    ),
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
    Metric("gangs", "gauge", "Gangs by the verdict of the last cycle.", ("verdict",), is_collected=True),
    Metric(
        "queue_waiting_gangs",
        "gauge",
        "Gangs of a queue that wait, by the reason of the last cycle (E3).",
        ("queue", "reason"),
        is_collected=True,
    ),
    Metric(
        "queue_scheduled_gangs",
        "gauge",
        "Gangs of a queue that run, or that the last cycle placed.",
        ("queue",),
        is_collected=True,
    ),
    Metric(
        "queue_pending_pods",
        "gauge",
        "Pods of a queue's gangs that could be placed and are not, extras too.",
        ("queue",),
        is_collected=True,
    ),
    Metric(
        "admitted_gangs_total",
        "counter",
        "Gangs that a plan placed and of which no pod ran before; an evicted gang counts again.",
        ("queue",),
    ),
    Metric(
        "admission_wait_seconds",
        "histogram",
        "From the creation of the oldest pod of an admitted gang to the plan that placed it.",
        (),
        _WAIT,
    ),
    Metric(
        "searches_cut_short_total", "counter", "Gangs whose verdict in a cycle was Unknown, as a budget ran out (X7)."
    ),
    Metric("bindings_total", "counter", "Pods bound; role is core or extra.", ("role",), is_tallied=True),
    Metric(
        "bind_failures_total",
        "counter",
        "Bindings that failed, by the API server's reason.",
        ("reason",),
    ),
    Metric(
        "bind_duration_seconds",
        "histogram",
        "One binding, from the request to the response.",
        (),
        _CALL,
        is_tallied=True,
    ),
    Metric(
        "unconfirmed_bindings", "gauge", "Bindings without a clear answer: the pod is read until it shows the outcome."
    ),
    Metric("assumed_pods", "gauge", "Pods bound or evicted by this replica that its cache does not show yet."),
    Metric("writes_in_flight", "gauge", "Bindings, evictions and nominations that were sent and not answered."),
    Metric(
        "evictions_total",
        "counter",
        "Pods evicted: Preempt, Reclaim, Consolidate or Stale; queue is that of the victim.",
        ("reason", "queue"),
    ),
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
    Metric("events_queued", "gauge", "Events that wait to be sent."),
    Metric(
        "api_requests_total",
        "counter",
        "Requests to the API server, retries too; code is the HTTP status, or none without an answer.",
        ("verb", "code"),
        is_tallied=True,
    ),
    Metric(
        "api_request_duration_seconds",
        "histogram",
        "One request to the API server, until its answer begins.",
        ("verb",),
        _REQUEST,
        is_tallied=True,
    ),
    Metric(
        "watch_lag_seconds",
        "gauge",
        "Time since the last event, bookmark or new stream of a watch; -1: no list yet.",
        ("resource",),
    ),
    Metric("watch_restarts_total", "counter", "Watches that ended, and were resumed or relisted.", ("resource",)),
    Metric(
        "queue_allocated",
        "gauge",
        "Requests of the placed pods of a queue and of the queues below it; unit is core, byte or device.",
        ("queue", "resource", "unit"),
        is_collected=True,
    ),
    Metric(
        "queue_share",
        "gauge",
        "The fair share of a queue (Q3), in the same units.",
        ("queue", "resource", "unit"),
        is_collected=True,
    ),
    Metric(
        "queue_quota",
        "gauge",
        "The quota of a queue, in the same units; +Inf: unlimited.",
        ("queue", "resource", "unit"),
        is_collected=True,
    ),
    Metric(
        "queue_limit",
        "gauge",
        "The limit of a queue, in the same units; +Inf: unlimited.",
        ("queue", "resource", "unit"),
        is_collected=True,
    ),
    Metric(
        "cluster_capacity",
        "gauge",
        "What queues share: allocatable on ready nodes, without pods outside of gangs; in the same units.",
        ("resource", "unit"),
        is_collected=True,
    ),
    Metric(
        "queue_requested",
        "gauge",
        "Requests of the running and waiting pods of a queue, in the same units.",
        ("queue", "resource", "unit"),
        is_collected=True,
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
    Metric(
        "event_loop_lag_seconds",
        "histogram",
        "How late a timer of the event loop fires: leases, probes and the webhook wait as long.",
        (),
        _LOOP,
    ),
    Metric("build_info", "gauge", "Always 1; the labels hold the versions.", ("version", "python")),
)


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

<!-- Generated from src/muster/observability/metric_table.py by `make golden`; change it there. -->

`GET /metrics` on the port of `observability` ([configuration](config.md)), as Prometheus text or OpenMetrics. One
prefix, base units (seconds, cores, bytes, devices), and labels whose number of values is bounded: gangs, pods, nodes
and users are no labels. `observability.maxQueues` queues have series of their own, parents first; the others are
counted together as queue `_other` (of amounts, the sum of those without children). At most 16 resources are shown,
those that the cluster has first; reasons of the API server that Kubernetes does not define are `Other`.

| metric | type | labels | what it says |
|---|---|---|---|
"""
_TAIL = """
Beside them stand those of the process: `muster_process_cpu_seconds_total`, `muster_process_resident_memory_bytes`,
`muster_process_virtual_memory_bytes`, `muster_process_open_fds`, `muster_process_max_fds` and
`muster_process_start_time_seconds`.
"""

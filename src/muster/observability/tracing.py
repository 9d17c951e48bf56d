"""Traces of cycles for OpenTelemetry: a span for each cycle, and one for each of its phases.

Rule: spans are made of a cycle that has ended, so that nothing waits for them, and nothing of OpenTelemetry is imported
where no endpoint is configured. They are exported by a thread, from a bounded queue: the oldest are dropped.
"""

from typing import TYPE_CHECKING, Any

from muster import __version__
from muster.config.settings import Tracing
from muster.errors import InputError
from muster.observability.cycle_trace import PLAN_PHASES, CyclePhase, CycleTrace

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

EXPORT_SECONDS = 5.0
FLUSH_SECONDS = 2.0  # at the end of the process, for spans that wait
NANOSECONDS = 10**9


class CycleTracer:
    """Makes spans of cycles and exports them."""

    def __init__(self, exporter: "SpanExporter", identity: str = "", sample_percent: int = 100) -> None:
        from opentelemetry import trace
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.sampling import TraceIdRatioBased

        about = {"service.name": "muster", "service.version": __version__, "service.instance.id": identity}
        self._provider = TracerProvider(
            sampler=TraceIdRatioBased(sample_percent / 100), resource=Resource.create(about), shutdown_on_exit=False
        )
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("muster")
        self._inside = trace.set_span_in_context

    def export(self, cycle: CycleTrace) -> None:
        """Queues the spans of a cycle; the plan is one of them, around the phases that make it."""
        began = round(cycle.began.timestamp() * NANOSECONDS)
        attributes = {f"muster.{name}": value for name, value in cycle.attributes.items()}
        span = self._tracer.start_span("cycle", start_time=began, attributes=attributes)
        inside = self._inside(span)
        planning = [phase for phase in cycle.phases if phase.name in PLAN_PHASES]
        if planning:
            plan = self._tracer.start_span("plan", context=inside, start_time=began + _begin(planning[0]))
            for phase in planning:
                self._add(phase, began, self._inside(plan))
            plan.end(began + _end(planning[-1]))
        for phase in cycle.phases:
            if phase.name not in PLAN_PHASES:
                self._add(phase, began, inside)
        span.end(began + max(map(_end, cycle.phases), default=0))

    def flush(self) -> None:
        """Exports what waits, for a bounded time; to be called at the end, beside the event loop."""
        self._provider.force_flush(int(FLUSH_SECONDS * 1000))

    def _add(self, phase: CyclePhase, began: int, context: Any) -> None:
        self._tracer.start_span(phase.name, context=context, start_time=began + _begin(phase)).end(began + _end(phase))


def _begin(phase: CyclePhase) -> int:
    return round(phase.began * NANOSECONDS)


def _end(phase: CyclePhase) -> int:
    return round((phase.began + phase.seconds) * NANOSECONDS)


def connect_tracer(settings: Tracing, identity: str) -> CycleTracer | None:
    """A tracer for this endpoint, over OTLP; None: none is configured. InputError without the packages it needs."""
    if not settings.endpoint:
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError:
        hint = "install `muster[otel]`, or leave `tracing.endpoint` empty"
        raise InputError("traces need packages of OpenTelemetry that are not installed", hint=hint) from None
    exporter = OTLPSpanExporter(endpoint=settings.endpoint, timeout=EXPORT_SECONDS)
    return CycleTracer(exporter, identity, settings.sample_percent)

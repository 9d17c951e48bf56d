"""Traces of cycles: spans of what happened, sent over OTLP; and nothing of it is loaded where none is configured."""

import asyncio
import subprocess
import sys
import time
from datetime import UTC, datetime

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from muster.cli.assemble import control_plane
from muster.config.settings import Tracing
from muster.errors import InputError
from muster.observability.cycle_trace import CyclePhases, CycleTrace
from muster.observability.tracing import FLUSH_SECONDS, CycleTracer, connect_tracer
from tests.support.live.objects import gpu_node, group
from tests.support.live.world import World
from tests.support.otlp import Collector

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PLAN = ["allocate", "relocate", "release", "explain"]


def cycle() -> CycleTrace:
    """Seven phases of one second each."""
    now = [100.0]
    phases = CyclePhases(NOW, lambda: now[0])
    for name in ("snapshot", *PLAN, "report", "apply"):
        phases.begin(name)
        now[0] += 1
    return phases.finish(gangs=3, bound=2)


def parents(spans: list[ReadableSpan]) -> dict[str, str]:
    names = {span.context.span_id: span.name for span in spans if span.context}
    return {span.name: names[span.parent.span_id] if span.parent else "" for span in spans}


def test_a_cycle_is_a_span_with_its_phases_below_it() -> None:
    """The plan is one of them; times are those of the cycle, whenever it is exported."""
    exporter = InMemorySpanExporter()
    tracer = CycleTracer(exporter, "me")
    tracer.export(cycle())
    tracer.flush()
    spans = list(exporter.get_finished_spans())
    assert parents(spans) == {
        "cycle": "",
        "snapshot": "cycle",
        "plan": "cycle",
        **dict.fromkeys(PLAN, "plan"),
        "report": "cycle",
        "apply": "cycle",
    }
    seconds = {span.name: ((span.start_time or 0) / 1e9 - NOW.timestamp(), span.end_time) for span in spans}
    assert [seconds[name][0] for name in ("cycle", "snapshot", "plan", "explain", "apply")] == [0, 0, 1, 4, 6]
    assert [(span.end_time or 0) - (span.start_time or 0) for span in spans if span.name in ("cycle", "plan")] == [
        4 * 10**9,
        7 * 10**9,
    ]
    (root,) = [span for span in spans if span.name == "cycle"]
    assert root.attributes == {"muster.gangs": 3, "muster.bound": 2}
    assert (root.resource.attributes["service.name"], root.resource.attributes["service.instance.id"]) == (
        "muster",
        "me",
    )


async def test_every_cycle_of_the_loop_is_traced() -> None:
    """With its size, and what came of it."""
    world, exporter = World([gpu_node("a")]), InMemorySpanExporter()
    tracer = CycleTracer(exporter)
    async with world.running() as live:
        live.scheduler.runner.tracers.append(tracer.export)
        world.submit(group("g", minMember=2), {"": 2})
        await live.settle()
    await asyncio.to_thread(tracer.flush)
    spans = list(exporter.get_finished_spans())
    cycles = [span.attributes or {} for span in spans if span.name == "cycle"]
    assert sum(int(str(one.get("muster.bound", 0))) for one in cycles) == 2
    assert {"snapshot", "plan", *PLAN, "report", "apply"} <= {span.name for span in spans}


def test_spans_reach_a_collector_over_otlp() -> None:
    with Collector().open() as collector:
        tracer = connect_tracer(Tracing(endpoint=collector.url), "me")
        assert tracer is not None
        tracer.export(cycle())
        tracer.flush()
        spans = collector.spans()
    assert len(spans) == 9
    assert len({span.trace_id for span in spans}) == 1


async def test_a_collector_that_hangs_holds_up_no_shutdown() -> None:
    with Collector(answers=False).open() as collector:
        tracer = connect_tracer(Tracing(endpoint=collector.url), "me")
        assert tracer is not None
        tracer.export(cycle())
        began = time.monotonic()
        await control_plane._flush(tracer)
        assert time.monotonic() - began < 2 * FLUSH_SECONDS


def test_a_share_of_the_cycles_is_traced() -> None:
    exporter = InMemorySpanExporter()
    tracer = CycleTracer(exporter, sample_percent=20)
    for _ in range(200):
        tracer.export(cycle())
    tracer.flush()
    cycles = [span for span in exporter.get_finished_spans() if span.name == "cycle"]
    assert 5 < len(cycles) < 120


def test_without_an_endpoint_nothing_of_it_is_loaded() -> None:
    assert connect_tracer(Tracing(), "me") is None
    code = "import sys, muster.cli.assemble.control_plane; print(sorted(m for m in sys.modules if 'telemetry' in m))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout == "[]\n"


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(InputError, match=r"muster\[otel\]"):
        connect_tracer(Tracing(endpoint="http://127.0.0.1:1/v1/traces"), "me")

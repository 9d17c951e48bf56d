"""What a cycle decided, in the log: a line a gang, with its key, when it changed. Each pod is logged at `debug`."""

from collections import Counter, defaultdict
from collections.abc import Iterator

import structlog

from muster.planning.decision import Binding, CyclePlan, Eviction, Failure, GangPlan
from muster.reporting.explain import sentence

log = structlog.get_logger()
Known = tuple[object, ...]


class DecisionLog:
    """Logs plans. Skips what has not changed: a dry run decides the same in every cycle."""

    def __init__(self, dry_run: bool = False) -> None:
        self._log = log.bind(dry_run=True) if dry_run else log
        self._logged: dict[str, Known] = {}  # by gang
        self._failed: dict[str, tuple[str, str]] = {}  # by gang: the error that ended its work in the last plan

    def write(self, plan: CyclePlan) -> None:
        """Logs what was decided, before it is applied."""
        self._log_failures(plan.failures)
        bound, nominated = _by_gang(plan.bindings), _by_gang(plan.nominations)
        evicted: dict[str, list[Eviction]] = defaultdict(list)
        for eviction in plan.evictions:
            evicted[eviction.gang].append(eviction)
        logged, self._logged = self._logged, {}
        for gang_plan in plan.gangs:
            key = gang_plan.gang.key
            decisions = bound.get(key, []), nominated.get(key, []), evicted.get(key, [])
            self._logged[key] = current = (gang_plan.verdict, _reason(gang_plan), *decisions)
            if current != logged.get(key):
                self._gang(gang_plan, logged.get(key), *decisions)

    def _log_failures(self, failures: tuple[Failure, ...]) -> None:
        """Internal errors, each once for as long as it stays the same."""
        before, self._failed = self._failed, {failure.gang: (failure.error, failure.message) for failure in failures}
        for failure in failures:
            if before.get(failure.gang) != (failure.error, failure.message):
                about = {"error": failure.error, "what": failure.message, "traceback": failure.traceback}
                self._log.error("work for a gang failed", gang=failure.gang, **about)

    def _gang(
        self,
        gang_plan: GangPlan,
        before: Known | None,
        bound: list[Binding],
        nominated: list[Binding],
        evicted: list[Eviction],
    ) -> None:
        about = self._log.bind(gang=gang_plan.gang.key)
        if bound or nominated or (before or ("Scheduled", ""))[:2] != (gang_plan.verdict, _reason(gang_plan)):
            about.info("decided", **dict(_decided(gang_plan, before, bound, nominated)))
        for (reason, preemptor), number in Counter((victim.reason, victim.preemptor) for victim in evicted).items():
            about.info("evict pods", pods=number, reason=reason, whom=preemptor)
        for what, bindings in (("bind", bound), ("nominate", nominated)):
            for binding in bindings:
                where = {"pod": binding.pod, "node": binding.node, "sub_group": binding.sub_group}
                about.debug(what, **where, role=binding.role)
        for victim in evicted:
            more = {"move_to": victim.move_to} if victim.move_to else {}
            about.debug("evict", pod=victim.pod, node=victim.node, reason=victim.reason, whom=victim.preemptor, **more)


def _decided(
    gang_plan: GangPlan, before: Known | None, bound: list[Binding], nominated: list[Binding]
) -> Iterator[tuple[str, object]]:
    yield "verdict", gang_plan.verdict
    if before is not None and before[0] != gang_plan.verdict:
        yield "was", before[0]
    if bound:
        yield "bind", len(bound)
        yield "nodes", len({binding.node for binding in bound})
    if nominated:
        yield "nominate", len(nominated)
    if gang_plan.refusals:
        yield "reason", gang_plan.refusals[0].reason
        yield "why", sentence(gang_plan.refusals[0])


def _reason(gang_plan: GangPlan) -> str:
    return gang_plan.refusals[0].reason if gang_plan.refusals else ""


def _by_gang(bindings: tuple[Binding, ...]) -> dict[str, list[Binding]]:
    bindings_of: dict[str, list[Binding]] = defaultdict(list)
    for binding in bindings:
        bindings_of[binding.gang].append(binding)
    return bindings_of

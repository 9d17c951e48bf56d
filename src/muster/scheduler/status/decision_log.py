"""What a cycle decided, in the log: a line a gang, with its key, when it changed. Each pod is logged at `debug`."""

from collections import Counter, defaultdict
from collections.abc import Iterator

import structlog

from muster.planning.decision import Binding, CyclePlan, Eviction, Failure, GangPlan
from muster.reporting.explain import sentence

log = structlog.get_logger()
Known = tuple[object, ...]


class DecisionLog:
    """Logs plans. What has not changed is not logged again: a dry run decides the same in every cycle."""

    def __init__(self, dry_run: bool = False) -> None:
        self._log = log.bind(dry_run=True) if dry_run else log
        self._logged: dict[str, Known] = {}  # by gang
        self._failed: dict[str, tuple[str, str]] = {}  # by gang: what its work ended with in the last plan

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
            mine = bound.get(key, []), nominated.get(key, []), evicted.get(key, [])
            self._logged[key] = stands = (gang_plan.verdict, _reason(gang_plan), *mine)
            if stands != logged.get(key):
                self._gang(gang_plan, logged.get(key), *mine)

    def _log_failures(self, failures: tuple[Failure, ...]) -> None:
        """Errors inside, each once for as long as it stays the same."""
        before, self._failed = self._failed, {one.gang: (one.error, one.message) for one in failures}
        for one in failures:
            if before.get(one.gang) != (one.error, one.message):
                about = {"error": one.error, "what": one.message, "traceback": one.traceback}
                self._log.error("work for a gang failed", gang=one.gang, **about)

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
        for (reason, whom), number in Counter((one.reason, one.preemptor) for one in evicted).items():
            about.info("evict pods", pods=number, reason=reason, whom=whom)
        for what, bindings in (("bind", bound), ("nominate", nominated)):
            for one in bindings:
                about.debug(what, pod=one.pod, node=one.node, sub_group=one.sub_group, role=one.role)
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
        yield "nodes", len({one.node for one in bound})
    if nominated:
        yield "nominate", len(nominated)
    if gang_plan.refusals:
        yield "reason", gang_plan.refusals[0].reason
        yield "why", sentence(gang_plan.refusals[0])


def _reason(gang_plan: GangPlan) -> str:
    return gang_plan.refusals[0].reason if gang_plan.refusals else ""


def _by_gang(bindings: tuple[Binding, ...]) -> dict[str, list[Binding]]:
    bindings_of: dict[str, list[Binding]] = defaultdict(list)
    for one in bindings:
        bindings_of[one.gang].append(one)
    return bindings_of

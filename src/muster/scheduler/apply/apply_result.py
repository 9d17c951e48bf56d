"""What came of a plan: how much was done, what failed, and the plan without the bindings that failed (E1)."""

from collections.abc import Callable

import structlog
from msgspec import Struct
from msgspec.structs import replace

from muster.planning.decision import Binding, CyclePlan, Eviction, GangPlan
from muster.planning.refusal import BindingFailed

log = structlog.get_logger()
Record = Callable[[Binding | Eviction, str, int], None]  # a decision that was carried out, the pod's uid, the term
ANOTHER_LEADER = "another leader may be acting"
MOST_LOGGED = 5  # failures of a cycle


class ApplyResult(Struct, frozen=True):
    """What came of a plan."""

    bound: int = 0
    evicted: int = 0
    nominated: int = 0
    failures: tuple[str, ...] = ()  # in sentences


class BindingFailure(Struct, frozen=True):
    """Why a gang did not get what a plan gave it."""

    message: str
    is_core: bool  # it concerns what the gang needs to run at all


class ApplyTally:
    """What came of a plan so far."""

    def __init__(self) -> None:
        self.bound: set[str] = set()  # pods
        self.evicted = self.nominated = 0
        self.binding_failures: dict[str, BindingFailure] = {}  # by gang
        self._failures: list[str] = []

    def add_failure(self, gang: str, message: str) -> None:
        """A write failed; the first few are logged."""
        self._failures.append(message)
        if len(self._failures) <= MOST_LOGGED:
            log.warning("not done", gang=gang, what=message)

    def add_binding_failure(self, binding: Binding, why: str) -> None:
        """A binding failed, or is unconfirmed."""
        before = self.binding_failures.get(binding.gang)
        if before is None or not before.is_core:
            message = f"pod `{binding.pod}` was not bound to `{binding.node}`: {why}"
            self.binding_failures[binding.gang] = BindingFailure(message, binding.role == "core")
        self.add_failure(binding.gang, f"{binding.key}: not bound to {binding.node}: {why}")

    def add_unsent(self, owner: str, is_core: bool) -> None:
        """Some writes of this owner were not sent."""
        why = "not sent yet: the API server does not answer"
        self.binding_failures.setdefault(owner, BindingFailure(why, is_core))
        self._failures.append(f"{owner}: {why}")

    def result(self) -> ApplyResult:
        """What came of it, without what is settled later."""
        return ApplyResult(len(self.bound), self.evicted, self.nominated, tuple(sorted(self._failures)))


def applied_plan(plan: CyclePlan, tally: ApplyTally) -> CyclePlan:
    """A plan without the bindings that failed: their gangs wait, with the reason (E1)."""
    failures = tally.binding_failures
    if not failures:
        return plan
    failed = {binding for binding in plan.bindings if binding.gang in failures and binding.key not in tally.bound}
    gangs = tuple(_with_failure(gang_plan, failures.get(gang_plan.gang.key)) for gang_plan in plan.gangs)
    return replace(plan, bindings=tuple(binding for binding in plan.bindings if binding not in failed), gangs=gangs)


def _with_failure(gang_plan: GangPlan, failure: BindingFailure | None) -> GangPlan:
    if failure is None:
        return gang_plan
    refusals = (BindingFailed(failure.message), *gang_plan.refusals)
    return replace(gang_plan, verdict="Waiting" if failure.is_core else gang_plan.verdict, refusals=refusals)

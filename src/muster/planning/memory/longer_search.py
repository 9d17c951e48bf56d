"""One longer search for a gang that was cut short, beside the cycles (X7). Its answer is a hint, never a decision.

Rule: it searches free capacity only. Victims are chosen in a cycle, where every gang is tried.
"""

from collections.abc import Callable, Container, Iterator

from msgspec import Struct
from msgspec.structs import replace

from muster.api.names import PREEMPTIBLE
from muster.model.gang.gang import Gang
from muster.model.snapshot import Snapshot
from muster.placement.budget import OutOfSteps
from muster.placement.requirements.tree import pod_classes
from muster.placement.requirements.types import Requirement
from muster.planning.cycle_state import CycleState
from muster.planning.decision import CyclePlan
from muster.planning.gang_state import GangState
from muster.planning.memory.answer_cache import AnswerCache, Hint
from muster.planning.policy import Policy
from muster.planning.preemption.nominations import Nominations
from muster.planning.refusal import SearchCutShort


class LongerAnswer(Struct, frozen=True):
    """The answer of a longer search."""

    question: bytes  # a digest of all that it depends on
    steps: int
    hint: Hint | None = None
    is_known: bool = True  # False: cut short again


def cut_short(plan: CyclePlan) -> Iterator[str]:
    """Gangs whose search on free capacity was cut short, in plan order; moves are searched in cycles only."""
    for gang_plan in plan.gangs:
        is_cut_short = any(isinstance(refusal, SearchCutShort) and not refusal.moves for refusal in gang_plan.refusals)
        if gang_plan.verdict == "Unknown" and is_cut_short:
            yield gang_plan.gang.key


def search_longer(
    snapshot: Snapshot,
    policy: Policy,
    gang: str,
    steps: int,
    is_cancelled: Callable[[], bool] | None = None,
    tried: Container[bytes] = (),
) -> LongerAnswer | None:
    """Search free capacity for the core of one gang; Cancelled: the caller gave up.

    None: there is nothing to search, or this question is among those already `tried`.
    """
    cycle_state = CycleState(snapshot, replace(policy, steps=steps, cycle_steps=steps), is_cancelled, AnswerCache())
    before = cycle_state.before.get(gang)
    if before is None or before.broken or before.queue not in cycle_state.usage.tree.nodes or before.standing.satisfied:
        return None
    nominations = Nominations(cycle_state)
    nominations.release(gang)  # what is reserved for other gangs is not free
    nominations.release_moves(before)
    cycle_state.charge_to(gang)
    allowance = cycle_state.usage.allowance(before.queue, protected=before.preemptibility != PREEMPTIBLE)
    question = b""
    try:
        for requirement in _open_requirements(cycle_state, before):
            if (
                not question
                and (question := cycle_state.recall.digest(cycle_state.now, requirement, allowance)) in tried
            ):
                return None
            placement = cycle_state.find_core(cycle_state.now, requirement, allowance)
            if placement is not None and cycle_state.quota_excess(before, placement.core) is None:
                bound = cycle_state.bind(GangState(before, "Scheduled"), placement.core, "core")
                hint = Hint(gang, tuple((binding.pod, binding.node) for binding in bound.bindings))
                return LongerAnswer(question, cycle_state.gang_budget.spent, hint)
    except OutOfSteps:
        return LongerAnswer(question, cycle_state.gang_budget.spent, is_known=False)
    return LongerAnswer(question, cycle_state.gang_budget.spent) if question else None


def _open_requirements(cycle_state: CycleState, gang: Gang) -> Iterator[Requirement]:
    """What the core still needs. Pods with inter-pod rules are left to the cycles: no hint could be checked."""
    touched = cycle_state.now.inter_pod.touched
    requirements = cycle_state.requirements(gang)
    if requirements.invalid() is None:
        for requirement in requirements.core_requirements():
            cycle_state.budget.spend()
            if isinstance(requirement, Requirement) and touched.isdisjoint(pod_classes(requirement)):
                yield requirement

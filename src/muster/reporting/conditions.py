"""Conditions in the Kubernetes form (E3): stable reasons for programs, one sentence for people."""

from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from datetime import UTC, datetime

from msgspec.structs import replace

from muster.api.meta import Condition
from muster.api.podgroup import PodGroup
from muster.model.gang.gang import Gang
from muster.model.gang.pod_state import PodState
from muster.model.gang.types import Branch, Leaf, walk
from muster.model.queues import QueueTree
from muster.model.roles import leftovers
from muster.planning import staleness
from muster.reporting.explain import message, messages
from muster.reporting.grove.hints import refusals_of
from muster.reporting.outcome import Outcome
from muster.reporting.text import many
from muster.validation.pods.membership import Stray

SCHEDULED, STALE, SUBGROUPS_STALE, STRAYS = "Scheduled", "Stale", "SubGroupsStale", "StrayPods"
READY = "Ready"
ON_PODS = "PodScheduled"
ON_POD_GROUPS = frozenset((SCHEDULED, STALE, SUBGROUPS_STALE, STRAYS))
ON_QUEUES = frozenset((READY,))
EXTRA = "the gang runs without this pod: it is an extra and waits for a place"
LONGEST = 32768  # characters of a message, as the CRD has it
LISTED = 5  # names in one sentence


FREED = "its places are on room that is still being freed"


def pod_group_conditions(outcome: Outcome) -> Iterator[Condition]:
    """`Scheduled` always; the others only while something is wrong."""
    yield scheduled(outcome)
    if outcome.is_short:
        yield Condition(STALE, "True", "BelowMinimum", _short_words(outcome))
    if outcome.short_subgroups:
        yield Condition(SUBGROUPS_STALE, "True", "SubGroupBelowMinimum", _parts_words(outcome))
    if strays := outcome.gang.strays:
        yield Condition(STRAYS, "True", strays[0].why, _cut(stray_words(strays, _running(outcome.gang))))


def scheduled(outcome: Outcome) -> Condition:
    """Whether every minimum is met by pods that are placed, or why not, with what would help (E1)."""
    verdict, refusals, says = outcome.plan.verdict, outcome.plan.refusals, messages(outcome.plan)
    word = refusals[0].reason if refusals else verdict
    if outcome.satisfied and verdict != "Invalid":
        met = "; ".join(filter(None, ("every minimum is met", says)))
        return Condition(SCHEDULED, "True", "Scheduled" if verdict == "Scheduled" else word, _cut(met))
    if verdict == "Scheduled":
        return Condition(SCHEDULED, "False", "Nominated", _freed(outcome))
    status = "Unknown" if verdict == "Unknown" else "False"
    return Condition(SCHEDULED, status, word, _cut(says))


def _freed(outcome: Outcome) -> str:
    """What it waits for, and what that costs others (P8)."""
    cost = outcome.disturbance
    if cost is None:
        return FREED
    pods = f"{many(cost.evicted, 'pod')} evicted, {cost.moved} moved"
    return f"{FREED}: {pods} for it, where one cycle may disturb {cost.allowed}, or what one gang needs"


def stray_words(strays: Iterable[Stray], running: Collection[str] = ()) -> str:
    """Pods that belong to no leaf: those that wait, and leftovers that run until they are evicted (N4)."""
    words: dict[str, list[str]] = {}
    for stray in strays:
        state = "leftovers that leave first" if stray.pod in running else "never scheduled"
        words.setdefault(state, []).append(f"pod `{stray.pod}` {stray.says}")
    return "; ".join(f"{state}: {_listed(pods)}" for state, pods in words.items())


def _running(gang: Gang) -> set[str]:
    return {f"{gang.namespace}/{pod.name}" for pod in leftovers(gang)}


def _short_words(outcome: Outcome) -> str:
    placed, more, grace = outcome.root.placed, outcome.root.missing, _grace(outcome)
    then = f"unless these follow within {grace}, all are released together" if grace else "none is ever released"
    return f"below its minimum: {many(placed, 'pod')} placed, {more} more needed; {then}"


def _parts_words(outcome: Outcome) -> str:
    parts, grace = _listed([f"`{name}`" for name in outcome.short_subgroups], ", "), _grace(outcome)
    then = f"unless the missing pods follow within {grace}, each is released" if grace else "none is ever released"
    return f"placed only in part: {parts}; {then}"


def _grace(outcome: Outcome) -> str:
    """How long it may be short; empty: for ever."""
    grace = staleness.grace_period(outcome.gang)
    if grace is None:
        return ""
    seconds = grace.total_seconds()
    return f"{int(seconds) if seconds.is_integer() else seconds}s"


def _listed(words: list[str], between: str = "; ") -> str:
    more = [f"and {len(words) - LISTED} more"] if len(words) > LISTED else []
    return between.join((*words[:LISTED], *more))


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


# pods ---------------------------------------------------------------------------------------------------------------


def pod_conditions(outcome: Outcome, old: PodGroup) -> dict[str, Condition]:
    """`PodScheduled=False` for every waiting pod, by `namespace/name` (E1, N4); none where the PodGroup opts out (S4).

    The API server itself reports on gated pods. The writer of a condition sets its transition time.
    """
    if not old.spec.mark_unschedulable:
        return {}
    says, extras = _why_pods_wait(outcome), _why_extras_wait(outcome)
    waiting = {
        f"{outcome.gang.namespace}/{pod.name}": unschedulable(extras.get(leaf.name, says))
        for leaf in walk(outcome.gang.root)
        if isinstance(leaf, Leaf)
        for pod in leaf.members_in(PodState.PENDING)
    }
    return waiting | {stray.pod: of_stray(stray) for stray in outcome.strays}


def _why_pods_wait(outcome: Outcome) -> str:
    """The gang's sentence; where the gang runs, pods that no reason speaks of are extras."""
    plan = outcome.plan
    own = replace(plan, refusals=tuple(refusal for refusal in plan.refusals if refusal.extra is None))
    status = scheduled(outcome)
    return messages(own) or (EXTRA if status.status == "True" else status.message)


def _why_extras_wait(outcome: Outcome) -> dict[str, str]:
    """By leaf, the reason of the further part that it belongs to."""
    why: dict[str, str] = {}
    for refusal in refusals_of(outcome.plan):
        if (part := refusal.extra) is not None and part.name is not None:
            why |= dict.fromkeys((part.name, *part.alike), message(refusal))
    if not why:
        return {}
    for group in walk(outcome.gang.root):
        if isinstance(group, Branch) and group.name in why:
            why |= {child.name: why[group.name] for child in group.children if child.name not in why}
    return why


def unschedulable(says: str) -> Condition:
    """What Kubernetes writes on a pod that found no place."""
    return Condition(ON_PODS, "False", "Unschedulable", _cut(says))


def of_stray(stray: Stray) -> Condition:
    """A pod that no node would help: `Unschedulable` would have autoscalers add some in vain (N4)."""
    return Condition(ON_PODS, "False", stray.why, _cut(stray.sentence))


# queues -------------------------------------------------------------------------------------------------------------


def queue_ready(queue: str, tree: QueueTree, parents: Mapping[str, str]) -> Condition:
    """Whether the parents of a queue lead to a top queue (Q1)."""
    if queue in tree.nodes:
        return Condition(READY, "True", "InTree", "its way up ends at a top queue")
    return Condition(READY, "False", "QueueNotInTree", _no_way_up(queue, parents))


def _no_way_up(queue: str, parents: Mapping[str, str]) -> str:
    seen: list[str] = []
    name = queue
    while name in parents and name not in seen:
        seen.append(name)
        name = parents[name]
    if name in parents:
        return f"nothing is scheduled from it: its parents go round in a circle at `{name}`"
    return f"nothing is scheduled from it: `{name}`, the parent queue of `{seen[-1]}`, does not exist"


# times --------------------------------------------------------------------------------------------------------------


def with_transition_times(
    fresh: Iterable[Condition], old: Iterable[Condition], ours: Container[str], generation: int, now: datetime
) -> tuple[Condition, ...]:
    """Conditions with what they are about and when their status last changed; those of other writers as they are."""
    old = tuple(old)
    since = {(condition.type, condition.status): condition.last_transition_time for condition in old}
    second = now.astimezone(UTC).replace(microsecond=0)  # Kubernetes stores whole seconds
    dated = (
        replace(
            condition,
            observed_generation=generation,
            last_transition_time=since.get((condition.type, condition.status)) or second,
        )
        for condition in fresh
    )
    return (*dated, *(condition for condition in old if condition.type not in ours))

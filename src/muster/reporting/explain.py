"""Sentences for refusals, made once (E1): what is needed, the best there is, what is missing, and what would help."""

from collections.abc import Iterable, Iterator
from typing import Any, assert_never

from muster.api.quantity import format_amount
from muster.fairness.entitlement import Excess
from muster.model.shortage import NOT_COUNTED, Shortage
from muster.placement.claims import ClaimTrouble
from muster.planning.decision import GangPlan
from muster.planning.refusal import (
    AttemptRefusal,
    BackedOff,
    BestDomain,
    BindingFailed,
    ClosedQueueRefusal,
    DisturbanceLimit,
    DoesNotFit,
    Evicted,
    ExtraPart,
    FitRefusal,
    GangRefusal,
    InternalError,
    InvalidSpec,
    MoreExtrasWait,
    NodeUnknown,
    NoDomain,
    NoNodeMatches,
    NonPreemptibleOverQuota,
    NoRoom,
    NotEnoughPods,
    NotTried,
    OtherScheduler,
    OverLimit,
    PriorityClassDoesNotExist,
    QueueClosed,
    QueueDoesNotExist,
    QueueExceeded,
    QueueNotALeaf,
    QueueNotInTree,
    QuotaRefusal,
    Refusal,
    RulesBetweenPods,
    SearchCutShort,
    SmallerRequest,
    UnevictablePods,
    Unsupported,
    VolumeNotBound,
)
from muster.reporting.grove.hints import refusals_of
from muster.reporting.refusal_details import refusal_json
from muster.reporting.text import many

FILTER_WORDS = {
    "nodeSelector": "do not match the node selector",
    "nodeAffinity": "do not match the node affinity",
    "taints": "have taints that are not tolerated",
    "ready": "are not ready",
    "volumes": "cannot reach the volumes",
    "podAffinity": "have no pod nearby that it must be near to",
    "podAntiAffinity": "are near pods that it keeps away from, or that keep it away",
    "topologySpread": "lack the label that it spreads over",
    "resources": "lack the room for even one pod",
}
CLAIM_WORDS = {
    "missing": "which does not exist",
    "volume missing": "which is bound to a volume that does not exist",
    "unbound": "which is not bound yet",
    "static": "which waits for one of the volumes of a class without a provisioner: muster does not choose among them",
    "shared": "which is not bound yet and is used by several pods: its volume would hold all of them to one node",
}
CLAIM_HINTS = {
    "static": "bind the claim to a volume (`spec.volumeName`), or use a class with a provisioner",
    "shared": "have the claim bound before, by one pod that uses it or a class with `volumeBindingMode: Immediate`",
}
CUT_SHORT_WORDS = {
    False: "unknown: the search used up its budget of steps before it found a placement or a proof",
    True: "unknown: there is no free room, and not every way to move other pods aside was tried",
}


def message(refusal: Refusal) -> str:
    """The sentence, and what would help."""
    return "; ".join([sentence(refusal), *helps(refusal)])


def messages(plan: GangPlan) -> str:
    """All refusals of a gang."""
    return "; ".join(map(message, refusals_of(plan)))


def reasons(plan: GangPlan) -> list[dict[str, Any]]:
    """A gang's refusals for programs."""
    return [refusal_json(refusal, message(refusal)) for refusal in refusals_of(plan)]


def is_worth_an_event(refusal: Refusal) -> bool:
    """Not how many more extras wait, and not that an optional SubGroup was never created: nothing of it waits.

    Nor that pods are behind gates: who gated them holds them up, and says why; nothing is wrong with the gang.
    """
    match refusal:
        case MoreExtrasWait():
            return False
        case NotEnoughPods(shortages=shortages) if shortages and all(map(_is_only_gated, shortages)):
            return False
        case NotEnoughPods(extra=ExtraPart()):
            first = next(iter(refusal.shortages), None)
            return first is not None and bool(first.exist or _not_counted(first))
        case _:
            return True


def sentence(refusal: Refusal) -> str:
    """A refusal in one sentence; that of an extra starts with the part it is about (E1)."""
    if refusal.extra is None or isinstance(refusal, MoreExtrasWait):
        return _sentence(refusal)
    return f"{_waiting_part(refusal.extra)}: {_sentence(refusal)}"


def _waiting_part(part: ExtraPart) -> str:
    """The further SubGroups, or the leaf with further pods."""
    alike = len(part.alike)
    like = f" and {alike} like it" if alike else ""
    if not part.further_pods:
        return f"extra `{part.name}`{like} {_wait(1 + alike)}" if part.name else "extras wait"
    of = f" of `{part.name}`{like}" if part.name else ""
    return f"{many(part.further_pods, 'further pod')}{of} {_wait(part.further_pods + alike)}"


def _wait(number: int) -> str:
    return "waits" if number == 1 else "wait"


def _sentence(refusal: Refusal) -> str:
    match refusal:
        case NotEnoughPods() | InvalidSpec() | Unsupported() | NodeUnknown():
            return _not_tried(refusal, _part(refusal))
        case DoesNotFit():
            return _does_not_fit(refusal, _part(refusal))
        case QueueClosed() | QueueExceeded():
            return _queue(refusal)
        case Evicted() | OtherScheduler() | PriorityClassDoesNotExist():
            return _gang(refusal)
        case _:
            return _attempt(refusal)


def _part(refusal: Refusal) -> str:
    return f"`{refusal.sub_group}`" if refusal.sub_group else "the gang"


def _level_name(label: str) -> str:
    """A level without the prefix of its label."""
    return label.rsplit("/", 1)[-1]


# not tried ------------------------------------------------------------------------------------------------------------


def _not_tried(refusal: NotTried, part: str) -> str:
    match refusal:
        case NotEnoughPods():
            return f"not enough pods: {_not_enough_pods(refusal, part)}"
        case InvalidSpec():
            return f"invalid: {refusal.detail or part}"
        case Unsupported():
            return f"not supported yet: pods of {part} use {refusal.detail}, which muster does not decide"
        case NodeUnknown():
            level = _level_name(refusal.level)
            there = f"its pod `{refusal.pod}` is on node `{refusal.node}`, which does not exist"
            return f"{part} takes no more pods for now: all must be in one {level}, and {there}"
        case _:
            assert_never(refusal)


def _not_enough_pods(refusal: NotEnoughPods, part: str) -> str:
    if not refusal.shortages:
        return f"{part} waits for pods that do not exist or cannot be placed yet"
    first, *others = refusal.shortages
    return "; ".join((existing_pods(first), *map(_existing_of_minimum, others)))


def existing_pods(shortage: Shortage) -> str:
    """How many pods a minimum counts and how many of them exist: `3 of 4 pods of `a` exist`."""
    not_counted = _not_counted(shortage)
    return _existing_of_minimum(shortage) + (f" ({', '.join(not_counted)} not counted)" if not_counted else "")


def _existing_of_minimum(shortage: Shortage) -> str:
    of = f" of `{shortage.group}`" if shortage.group else ""
    verb = "exists" if shortage.need == 1 else "exist"
    return f"{shortage.exist} of {many(shortage.need, 'pod')}{of} {verb}"


def _is_only_gated(shortage: Shortage) -> bool:
    """Whether enough pods would exist without gates."""
    return shortage.exist + shortage.gated >= shortage.need


def _not_counted(shortage: Shortage) -> list[str]:
    numbers = ((getattr(shortage, state), state) for state in NOT_COUNTED)
    return [f"{number} {state}" for number, state in numbers if number]


# does not fit ---------------------------------------------------------------------------------------------------------


def _does_not_fit(refusal: FitRefusal, part: str) -> str:
    match refusal:
        case VolumeNotBound():
            return f"no volume: pods of {part} use {_claim(refusal.claim)}"
        case NoNodeMatches():
            return f"no node matches {part}: {_refused_nodes(refusal)}"
        case RulesBetweenPods():
            return _rules_between_pods(refusal, part)
        case NoDomain():
            return _no_domain(refusal.need, refusal.best, part)
        case NoRoom():
            return _no_room(refusal.need, refusal.best, part)
        case _:
            assert_never(refusal)


def _claim(trouble: ClaimTrouble) -> str:
    """The claim that keeps pods from every node, and why (X5)."""
    of = f" of storage class `{trouble.storage_class}`" if trouble.storage_class else ""
    node_gone = f"whose volume is made on node `{trouble.node}`, which does not exist"
    return f"claim `{trouble.claim}`{of}, {CLAIM_WORDS.get(trouble.why, node_gone)}"


def _refused_nodes(refusal: NoNodeMatches) -> str:
    counts = (
        f"{count} of {refusal.nodes} nodes {FILTER_WORDS.get(name, name)}" for name, count in refusal.refused_nodes
    )
    return "; ".join(counts) or f"there are {refusal.nodes} nodes"


def _rules_between_pods(refusal: RulesBetweenPods, part: str) -> str:
    """The inter-pod rule that stands in the way, and where."""
    rule = f"{refusal.rule.rule} over `{refusal.rule.key}`"
    skew = f" with maxSkew {refusal.rule.skew}" if refusal.rule.skew else ""
    level = f" in one {_level_name(refusal.best.level)}" if refusal.best.level else ""
    fits = f"{many(refusal.need, 'pod')} would fit{level}, but not with {rule}{skew}"
    return f"rules between pods keep {part} out: {fits}"


def _no_domain(need: int, best: BestDomain, part: str) -> str:
    level = _level_name(best.level)
    if best.is_apart:
        return f"no {level} holds {part}: its placed pods are not in one {level} themselves"
    if not best.domain:
        return f"no node is in any {level}: {part} needs {many(need, 'pod')} in one"
    pinned = " (where its other pods are)" if best.is_pinned else ""
    if best.fits >= need:
        return f"no {level} holds {part}: its parts fit one by one, but not together in any {level}{pinned}"
    offer = f"best is `{best.domain}`{pinned} with room for {best.fits}"
    together = " together" if need > 1 else ""
    return f"no {level} holds {part}: needs {many(need, 'pod')}{together}, {offer}{_missing(best)}"


def _no_room(need: int, best: BestDomain, part: str) -> str:
    if best.fits >= need:
        return f"no room for {part}: its parts fit one by one, but not all together"
    offer = f"the cluster has room for {best.fits}{_missing(best)}"
    return f"no room for {part}: needs {many(need, 'pod')}, {offer}"


def _missing(best: BestDomain) -> str:
    return f", {format_amount(best.resource, best.missing)} {best.resource} short" if best.resource else ""


# queues ---------------------------------------------------------------------------------------------------------------


def _queue(refusal: ClosedQueueRefusal | QuotaRefusal) -> str:
    match refusal:
        case QueueDoesNotExist(queue=queue):
            return f"queue `{queue}` does not exist"
        case QueueNotInTree(queue=queue):
            return f"queue `{queue}` has no way up: a queue above it is missing, or they go round in a circle"
        case QueueNotALeaf(queue=queue):
            return f"queue `{queue}` has queues below it: workloads go to those"
        case OverLimit(excess=excess):
            return f"queue `{excess.queue}` would pass its limit: {_amounts(excess)}"
        case NonPreemptibleOverQuota(excess=excess):
            return f"queue `{excess.queue}` would exceed its quota with non-preemptible pods: {_amounts(excess)}"
        case _:
            assert_never(refusal)


def _amounts(excess: Excess) -> str:
    allowed, held, extra = (
        format_amount(excess.resource, amount) for amount in (excess.allowed, excess.held, excess.extra)
    )
    return f"{allowed} {excess.resource}, of which {held} are held and {extra} more are asked for"


# the gang, and the attempt --------------------------------------------------------------------------------------------


def _gang(refusal: GangRefusal) -> str:
    match refusal:
        case Evicted():
            pods = many(refusal.pods, "pod")
            return f"{pods} had to leave ({refusal.by.lower()}) to make room for `{refusal.preemptor}`"
        case OtherScheduler():
            return left_to(refusal.schedulers, is_all=refusal.is_all)
        case PriorityClassDoesNotExist():
            return f"priority class `{refusal.priority_class}` does not exist"
        case _:
            assert_never(refusal)


def left_to(schedulers: Iterable[str], *, is_all: bool) -> str:
    """The schedulers that the pods name (N6)."""
    names = ", ".join(f"`{name}`" for name in schedulers)
    return f"left to another scheduler: {'its pods ask' if is_all else 'some of its pods ask'} for {names}"


def _attempt(refusal: AttemptRefusal) -> str:
    match refusal:
        case SearchCutShort():
            return CUT_SHORT_WORDS[refusal.moves]
        case MoreExtrasWait():
            return f"{many(refusal.parts, 'more extra')} {_wait(refusal.parts)}"
        case BackedOff():
            why = f" ({refusal.message})" if refusal.message else ""
            unchanged = "neither the podgroup nor what is free has changed since"
            return f"not tried again: one attempt failed{why}, and {unchanged}"
        case BindingFailed():
            return f"decided, but not done: {refusal.detail}"
        case DisturbanceLimit():
            return _disturbance_limit(refusal)
        case InternalError():
            what = f"{refusal.error}: {refusal.message}" if refusal.message else refusal.error
            return f"unknown: an error inside muster ended the work for this gang ({what}); its log has more"
        case _:
            assert_never(refusal)


def _disturbance_limit(refusal: DisturbanceLimit) -> str:
    verb = "leaves or moves" if refusal.disturbed == 1 else "leave or move"
    already = f"{many(refusal.disturbed, 'pod')} {verb} for others already"
    allowed = f"one cycle may disturb {refusal.allowed}, or as many as one gang needs"
    return f"room for it is left to a later cycle: {already}, and {allowed}"


# what would help ------------------------------------------------------------------------------------------------------


def helps(refusal: Refusal) -> Iterator[str]:
    """Changes that would let the gang in now, smallest first."""
    match refusal:
        case DoesNotFit():
            yield from _helps_to_fit(refusal)
        case QueueExceeded():
            yield from map(_change, refusal.changes or ())
        case NodeUnknown():
            yield f"it goes on once node `{refusal.node}` is back or pod `{refusal.pod}` is gone"
        case _:
            return


def _helps_to_fit(refusal: FitRefusal) -> Iterator[str]:
    if refusal.fits_soon:
        yield "wait: it fits once the pods that are being deleted are gone"
    if refusal.unevictable is not None:
        yield f"{_unevictable(refusal.unevictable)} cannot be evicted for it, as budgets or the API server keep them"
    if isinstance(refusal, VolumeNotBound) and (hint := CLAIM_HINTS.get(refusal.claim.why)):
        yield hint
    yield from map(_change, refusal.changes or ())


def _change(change: SmallerRequest) -> str:
    group = f" on `{change.group}`" if change.group else ""
    if change.field == "requiredTopologyLevel":
        instead = f"`requiredTopologyLevel: {change.fits}`" if change.fits else "no required level"
        return f"{instead}{group} instead of `{change.was}` fits now"
    return f"`{change.field}: {change.fits}`{group} instead of {change.was} fits now"


def _unevictable(pods: UnevictablePods) -> str:
    """How many pods, and a few of their names."""
    rest = pods.count - len(pods.names)
    names = ", ".join(f"`{pod}`" for pod in pods.names) + (f" and {rest} more" if rest else "")
    return f"{many(pods.count, 'pod')} ({names})"

"""A refusal as the contract shows it to programs: `reason`, `subGroup` and `details`. The only home of these keys."""

from typing import Any, assert_never

from msgspec.structs import asdict

from muster.placement.claims import ClaimTrouble
from muster.planning.refusal import (
    AttemptRefusal,
    BackedOff,
    BestDomain,
    BindingFailed,
    BlockingRule,
    ClosedQueueRefusal,
    DisturbanceLimit,
    DoesNotFit,
    Evicted,
    ExtraPart,
    GangRefusal,
    InternalError,
    InvalidSpec,
    MoreExtrasWait,
    NodeUnknown,
    NotEnoughPods,
    NotTried,
    OtherScheduler,
    PriorityClassDoesNotExist,
    QueueClosed,
    QueueExceeded,
    QuotaRefusal,
    Refusal,
    SearchCutShort,
    SmallerRequest,
    UnevictablePods,
    Unsupported,
)

Details = dict[str, Any]


def refusal_json(refusal: Refusal, message: str) -> Details:
    """One entry of `reasons`."""
    return {
        "reason": refusal.reason,
        "message": message,
        "subGroup": refusal.sub_group,
        "details": details(refusal),
    }


def details(refusal: Refusal) -> Details:
    """The facts of a refusal."""
    extra = {} if refusal.extra is None else _extra(refusal.extra)
    if isinstance(refusal, MoreExtrasWait):
        return {**extra, "parts": refusal.parts}
    return {**_facts(refusal), **extra}


def _extra(part: ExtraPart) -> Details:
    shown: Details = {"role": "extra"}
    if part.name is not None:
        shown["part"] = part.name
    if part.further_pods is not None:
        shown["further"] = part.further_pods
    if part.alike:
        shown["alike"] = list(part.alike)
    return shown


def _facts(refusal: Refusal) -> Details:
    match refusal:
        case NotEnoughPods() | InvalidSpec() | Unsupported() | NodeUnknown():
            return _not_tried(refusal)
        case DoesNotFit():
            return _does_not_fit(refusal)
        case QueueClosed() | QueueExceeded():
            return _queue(refusal)
        case Evicted() | OtherScheduler() | PriorityClassDoesNotExist():
            return _gang(refusal)
        case _:
            return _attempt(refusal)


def _not_tried(refusal: NotTried) -> Details:
    match refusal:
        case NotEnoughPods(shortages=(first, *others)):
            counts = {name: number for name, number in asdict(first).items() if name != "group"}
            rest = [{"subGroup": shortage.group, "need": shortage.need, "exist": shortage.exist} for shortage in others]
            return counts | ({"others": rest} if rest else {})
        case NotEnoughPods() | InvalidSpec() | Unsupported():
            return {"detail": refusal.detail}
        case NodeUnknown():
            return {"detail": "", "pod": refusal.pod, "node": refusal.node, "level": refusal.level}
        case _:
            assert_never(refusal)


def _does_not_fit(refusal: DoesNotFit) -> Details:
    return {
        "need": refusal.need,
        **_best_domain(refusal.best),
        "refused": dict(refusal.refused_nodes),
        "nodes": refusal.nodes,
        **({} if refusal.claim is None else _claim(refusal.claim)),
        **({} if refusal.rule is None else _rule(refusal.rule)),
        **_changes(refusal.changes),
        **({"soon": True} if refusal.fits_soon else {}),
        **({} if refusal.unevictable is None else {"kept": _unevictable(refusal.unevictable)}),
    }


def _best_domain(best: BestDomain) -> Details:
    if best.level and best.is_pinned is None:
        return {"level": best.level, "domain": "", "room": 0, **({"apart": True} if best.is_apart else {})}
    level = {"level": best.level, "pinned": best.is_pinned} if best.level else {}
    missing = {"resource": best.resource, "missing": best.missing} if best.resource else {}
    return {"room": best.fits, "domain": best.domain, **level, **missing}


def _claim(trouble: ClaimTrouble) -> Details:
    return {
        "claim": trouble.claim,
        "storageClass": trouble.storage_class,
        "why": trouble.why,
        "node": trouble.node,
    }


def _rule(rule: BlockingRule) -> Details:
    return {"rule": rule.rule, "key": rule.key, "skew": rule.skew}


def _changes(changes: tuple[SmallerRequest, ...] | None) -> Details:
    if changes is None:
        return {}
    shown = [
        {"subGroup": change.group, "field": change.field, "from": change.was, "to": change.fits} for change in changes
    ]
    return {"changes": shown}


def _unevictable(pods: UnevictablePods) -> Details:
    return {"pods": pods.count, "some": list(pods.names)}


def _queue(refusal: ClosedQueueRefusal | QuotaRefusal) -> Details:
    match refusal:
        case QueueClosed():
            return {"queue": refusal.queue}
        case QueueExceeded():
            return {**asdict(refusal.excess), **_changes(refusal.changes)}
        case _:
            assert_never(refusal)


def _gang(refusal: GangRefusal) -> Details:
    match refusal:
        case Evicted():
            return {"for": refusal.preemptor, "by": refusal.by, "pods": refusal.pods}
        case OtherScheduler():
            return {"schedulers": list(refusal.schedulers), "all": refusal.is_all}
        case PriorityClassDoesNotExist():
            return {"priorityClass": refusal.priority_class}
        case _:
            assert_never(refusal)


def _attempt(refusal: AttemptRefusal) -> Details:
    match refusal:
        case SearchCutShort():
            return {"moves": True} if refusal.moves else {}
        case MoreExtrasWait():
            return {"parts": refusal.parts}
        case BackedOff():
            return {"reason": refusal.failed_reason, "message": refusal.message}
        case BindingFailed():
            return {"detail": refusal.detail}
        case DisturbanceLimit():
            return {"disturbed": refusal.disturbed, "allowed": refusal.allowed, "running": refusal.running}
        case InternalError():
            return {"error": refusal.error, "message": refusal.message}
        case _:
            assert_never(refusal)

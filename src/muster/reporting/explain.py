"""Words for decisions, made once (E1): what is needed, the best there is, what is missing, and what would help."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from muster.api.quantity import written
from muster.model.shortage import NOT_COUNTED
from muster.planning.decision import GangPlan, Refusal
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


def sentence(refusal: Refusal) -> str:
    """A refusal in one sentence; of an extra first which part it is about (E1)."""
    if refusal.reason == "MoreExtrasWait":
        return f"{many(refusal.details['parts'], 'more extra')} {_wait(refusal.details['parts'])}"
    if refusal.details.get("role") != "extra":
        return _sentence(refusal)
    return f"{_extra(refusal)}: {_sentence(refusal)}"


def _extra(refusal: Refusal) -> str:
    """Which further SubGroups, or further pods of which leaf."""
    part, further = refusal.details.get("part", ""), refusal.details.get("further", 0)
    alike = len(refusal.details.get("alike", ()))
    like = f" and {alike} like it" if alike else ""
    if not further:
        return f"extra `{part}`{like} {_wait(1 + alike)}" if part else "extras wait"
    of = f" of `{part}`{like}" if part else ""
    return f"{many(further, 'further pod')}{of} {_wait(further + alike)}"


def _wait(number: int) -> str:
    return "waits" if number == 1 else "wait"


def existing(group: str, facts: Mapping[str, Any]) -> str:
    """How many pods a minimum asks for and how many of them there are: `3 of 4 pods of `a` exist`."""
    of = f" of `{group}`" if group else ""
    out = [f"{facts[word]} {word}" for word in NOT_COUNTED if facts.get(word)]
    beside = f" ({', '.join(out)} not counted)" if out else ""
    return f"{facts['exist']} of {many(facts['need'], 'pod')}{of} {'exists' if facts['need'] == 1 else 'exist'}{beside}"


def _not_enough(refusal: Refusal, part: str) -> str:
    facts = refusal.details
    if "exist" not in facts:
        return f"{part} waits for pods that do not exist or cannot be placed yet"
    others = [existing(one["subGroup"], one) for one in facts.get("others", ())]
    return "; ".join((existing(refusal.sub_group, facts), *others))


CUT_SHORT_WORDS = {
    False: "unknown: the search used up its budget of steps before it found a placement or a proof",
    True: "unknown: there is no free room, and not every way to move other pods aside was tried",
}


def _sentence(refusal: Refusal) -> str:
    part = f"`{refusal.sub_group}`" if refusal.sub_group else "the gang"
    facts = refusal.details
    match refusal.reason:
        case "NotEnoughPods":
            return f"not enough pods: {_not_enough(refusal, part)}"
        case "InvalidSpec":
            return f"invalid: {facts.get('detail', part)}"
        case "Unsupported":
            return f"not supported yet: pods of {part} use {facts.get('detail')}, which muster does not decide"
        case "SearchCutShort":
            return CUT_SHORT_WORDS[bool(facts.get("moves"))]
        case "VolumeNotBound":
            return _claim(part, facts)
        case "NoNodeMatches":
            return f"no node matches {part}: {_refused(facts)}"
        case "NoDomain":
            return _no_domain(part, facts)
        case "NoRoom":
            return _no_room(part, facts)
        case "RulesBetweenPods":
            return _between(part, facts)
        case _:
            return _not_now(refusal.reason, part, facts)


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


def _claim(part: str, facts: dict[str, Any]) -> str:
    """Which claim keeps pods from every node, and why (X5)."""
    of = f" of storage class `{facts['storageClass']}`" if facts["storageClass"] else ""
    gone = f"whose volume is made on node `{facts['node']}`, which does not exist"
    why = CLAIM_WORDS.get(facts["why"], gone)
    return f"no volume: pods of {part} use claim `{facts['claim']}`{of}, {why}"


def _not_now(reason: str, part: str, facts: dict[str, Any]) -> str:
    """What has nothing to do with room."""
    match reason:
        case "Evicted":
            left = many(facts["pods"], "pod")
            return f"{left} had to leave ({facts['by'].lower()}) to make room for `{facts['for']}`"
        case "NodeUnknown":
            level = str(facts["level"]).rsplit("/", 1)[-1]
            there = f"its pod `{facts['pod']}` is on node `{facts['node']}`, which does not exist"
            return f"{part} takes no more pods for now: all must be in one {level}, and {there}"
        case "OtherScheduler":
            return left_to(facts["schedulers"], is_all=facts["all"])
        case "PriorityClassDoesNotExist":
            return f"priority class `{facts['priorityClass']}` does not exist"
        case "BindingFailed":
            return f"decided, but not done: {facts.get('detail')}"
        case "DisturbanceLimit":
            number = facts["disturbed"]
            already = (
                f"{many(number, 'pod')} {'leaves or moves' if number == 1 else 'leave or move'} for others already"
            )
            allowed = f"one cycle may disturb {facts['allowed']}, or as many as one gang needs"
            return f"room for it is left to a later cycle: {already}, and {allowed}"
        case "InternalError":
            what = f"{facts['error']}: {facts['message']}" if facts["message"] else facts["error"]
            return f"unknown: an error inside muster ended the work for this gang ({what}); its log has more"
        case "BackedOff":
            why = f" ({facts['message']})" if facts.get("message") else ""
            return (
                f"not tried again: one attempt failed{why}, and neither the podgroup nor what is free has changed since"
            )
        case _:
            return _queue(reason, facts)


def left_to(schedulers: Iterable[str], *, is_all: bool) -> str:
    """Whose pods they are, by name (N6)."""
    asked = ", ".join(f"`{name}`" for name in schedulers)
    return f"left to another scheduler: {'its pods ask' if is_all else 'some of its pods ask'} for {asked}"


def _no_domain(part: str, facts: dict[str, Any]) -> str:
    level = str(facts["level"]).rsplit("/", 1)[-1]
    if facts.get("apart"):
        return f"no {level} holds {part}: its placed pods are not in one {level} themselves"
    if not facts["domain"]:
        return f"no node is in any {level}: {part} needs {many(facts['need'], 'pod')} in one"
    held = " (where its other pods are)" if facts.get("pinned") else ""
    if facts["room"] >= facts["need"]:
        return f"no {level} holds {part}: its parts fit one by one, but not together in any {level}{held}"
    best = f"best is `{facts['domain']}`{held} with room for {facts['room']}"
    together = " together" if facts["need"] > 1 else ""
    return f"no {level} holds {part}: needs {many(facts['need'], 'pod')}{together}, {best}{_short(facts)}"


def _queue(reason: str, facts: dict[str, Any]) -> str:
    """What a queue says to it."""
    queue = facts["queue"]
    match reason:
        case "QueueDoesNotExist":
            return f"queue `{queue}` does not exist"
        case "QueueNotInTree":
            return f"queue `{queue}` has no way up: a queue above it is missing, or they go round in a circle"
        case "QueueNotALeaf":
            return f"queue `{queue}` has queues below it: workloads go to those"
        case "OverLimit":
            return f"queue `{queue}` would pass its limit: {_amounts(facts)}"
        case _:
            return f"queue `{queue}` would hold more that nobody may disturb than its quota: {_amounts(facts)}"


def _amounts(facts: dict[str, Any]) -> str:
    resource = facts["resource"]
    allowed, held, extra = (written(resource, facts[name]) for name in ("allowed", "held", "extra"))
    return f"{allowed} {resource}, of which {held} are held and {extra} more are asked for"


def _between(part: str, facts: dict[str, Any]) -> str:
    """Which rule between pods stands in the way, and where."""
    rule = f"{facts['rule']} over `{facts['key']}`"
    skew = f" with maxSkew {facts['skew']}" if facts["skew"] else ""
    level = f" in one {str(facts['level']).rsplit('/', 1)[-1]}" if facts.get("level") else ""
    return (
        f"rules between pods keep {part} out: {many(facts['need'], 'pod')} would fit{level}, but not with {rule}{skew}"
    )


def _no_room(part: str, facts: dict[str, Any]) -> str:
    if facts.get("room", 0) >= facts.get("need", 0):
        return f"no room for {part}: its parts fit one by one, but not all together"
    needs = many(facts["need"], "pod")
    return f"no room for {part}: needs {needs}, the cluster has room for {facts['room']}{_short(facts)}"


def _short(facts: dict[str, Any]) -> str:
    if "missing" not in facts:
        return ""
    return f", {written(facts['resource'], facts['missing'])} {facts['resource']} short"


def _refused(facts: dict[str, Any]) -> str:
    return (
        "; ".join(
            f"{count} of {facts['nodes']} nodes {FILTER_WORDS.get(name, name)}"
            for name, count in facts["refused"].items()
        )
        or f"there are {facts['nodes']} nodes"
    )


def helps(refusal: Refusal) -> Iterator[str]:
    """Changes that would let the gang in now, smallest first."""
    if refusal.details.get("soon"):
        yield "wait: it fits once the pods that are being deleted are gone"
    if kept := refusal.details.get("kept"):
        yield f"{_kept(kept)} cannot be evicted for it, as budgets or the API server keep them"
    if refusal.reason == "NodeUnknown":
        yield f"it goes on once node `{refusal.details['node']}` is back or pod `{refusal.details['pod']}` is gone"
    if refusal.reason == "VolumeNotBound" and (way_out := CLAIM_HINTS.get(refusal.details["why"])):
        yield way_out
    for change in refusal.details.get("changes", ()):
        group = f" on `{change['subGroup']}`" if change["subGroup"] else ""
        if change["field"] == "requiredTopologyLevel":
            instead = f"`requiredTopologyLevel: {change['to']}`" if change["to"] else "no required level"
            yield f"{instead}{group} instead of `{change['from']}` fits now"
        else:
            yield f"`{change['field']}: {change['to']}`{group} instead of {change['from']} fits now"


def _kept(kept: dict[str, Any]) -> str:
    """How many pods, and a few of their names."""
    rest = kept["pods"] - len(kept["some"])
    names = ", ".join(f"`{pod}`" for pod in kept["some"]) + (f" and {rest} more" if rest else "")
    return f"{many(kept['pods'], 'pod')} ({names})"


def is_worth_an_event(reason: str, details: Mapping[str, Any]) -> bool:
    """Not how many more extras wait, and not that an optional SubGroup was never created: nothing of it waits."""
    if details.get("role") != "extra":
        return True
    absent = reason == "NotEnoughPods" and not any(details.get(name) for name in ("exist", *NOT_COUNTED))
    return reason != "MoreExtrasWait" and not absent


def reasons(found: GangPlan) -> list[dict[str, Any]]:
    """A gang's refusals for programs."""
    return [
        {
            "reason": refusal.reason,
            "message": "; ".join([sentence(refusal), *helps(refusal)]),
            "subGroup": refusal.sub_group,
            "details": refusal.details,
        }
        for refusal in found.refusals
    ]

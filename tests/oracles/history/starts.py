"""I3: no gang is started below its minimums, and none stays in part for longer than its grace (S2)."""

from collections.abc import Iterator

from tests.oracles.history.timeline import Moment, Timeline, gang_key
from tests.oracles.objects import CheckedGang, Outcome

GRACE_SECONDS = 60.0  # where a PodGroup does not say (S2)
REPAIR_SECONDS = 60.0  # beyond its grace, to complete or release a gang: faults may go on for some of it


def hopeless_starts(timeline: Timeline) -> Iterator[str]:
    """A pod is bound only where the pods that its gang has could meet every minimum on its way down (G1, G2)."""
    for moment in timeline.bindings:
        seen = timeline.since(timeline.decided(moment), moment)
        if not any(_could_be_met(one, gang_key(moment)) for one in seen):
            yield f"{_pod_name(moment)} is bound, and its gang {gang_key(moment)} has too few pods for its minimums"


def _pod_name(moment: Moment) -> str:
    return str(moment.pod["metadata"]["name"])


def _could_be_met(moment: Moment, key: str) -> bool:
    """Whether the gang would be satisfied if all its pods were placed."""
    checked = moment.gang(key)
    if checked is None:
        return False
    everything = {pod: "anywhere" for pods in checked.waiting.values() for pod in pods}
    return CheckedGang(moment.index, key, Outcome(everything)).met()


def is_partial(moment: Moment, key: str) -> bool:
    """Whether some pods of a gang are placed, and it is below its minimums."""
    checked = moment.gang(key)
    return checked is not None and bool(checked.pods()) and not checked.met()


def partial_gangs(timeline: Timeline) -> Iterator[str]:
    """A gang that is there in part is completed or released within its grace and a bounded time."""
    since: dict[str, float] = {}
    for moment in timeline.moments:
        for key in _touched(moment):
            if is_partial(moment, key):
                since.setdefault(key, moment.at)
            else:
                yield from _too_long(moment, key, since.pop(key, moment.at), moment.at)
    for key, at in since.items():
        yield from _too_long(timeline.last, key, at, timeline.history.ended)


def _too_long(moment: Moment, key: str, since: float, until: float) -> Iterator[str]:
    if until - since > grace(moment, key) + REPAIR_SECONDS:
        yield f"{key} is below its minimums in part from {since:.1f} to {until:.1f}"


def _touched(moment: Moment) -> Iterator[str]:
    """Gangs whose state may differ after a change."""
    if moment.change.object["kind"] == "Pod":
        yield gang_key(moment)
    elif moment.change.object["kind"] == "PodGroup":
        meta = moment.change.object["metadata"]
        yield f"{meta['namespace']}/{meta['name']}"


def grace(moment: Moment, key: str) -> float:
    """Of a PodGroup, in seconds; negative: without end."""
    raw = moment.index.gangs.get(key)
    stated = str((raw or {"spec": {}})["spec"].get("stalenessGracePeriod") or "")
    seconds = float(stated.removesuffix("s")) if stated else GRACE_SECONDS
    return seconds if seconds >= 0 else float("inf")

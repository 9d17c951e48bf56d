"""Messages of events (E1): placements, evictions with preemptor and reason, releases."""

from collections.abc import Iterator, Sequence

from muster.planning.decision import Binding, Eviction
from muster.planning.disturbance import EvictionReason
from muster.reporting.text import many

SCHEDULED, RELEASED = "Scheduled", "Released"
DONE: dict[EvictionReason, str] = {
    "Preempt": "Preempted",
    "Reclaim": "Reclaimed",
    "Consolidate": "Consolidated",
    "Stale": RELEASED,
}
DOING: dict[EvictionReason, str] = {
    "Preempt": "Preempting",
    "Reclaim": "Reclaiming",
    "Consolidate": "Consolidating",
    "Stale": RELEASED,
}
WHY: dict[EvictionReason, str] = {
    "Preempt": "which has a higher priority",
    "Reclaim": "whose queue is below its fair share",
    "Consolidate": "which fits once running pods are moved together",
    "Stale": "",
}
LISTED = 3  # gangs in one message
Done = Binding | Eviction


def reason_of(done: Done) -> str:
    """The reason of the event on the pod and on its PodGroup."""
    return SCHEDULED if isinstance(done, Binding) else DONE[done.reason]


def is_normal(reason: str) -> bool:
    """A release means that something went wrong; the rest is how clusters work."""
    return reason != RELEASED


def group_events(done: Done) -> Iterator[tuple[str, str]]:
    """The PodGroups that get an event, each with its reason: the pod's own, and that of its preemptor."""
    yield done.gang, reason_of(done)
    if isinstance(done, Eviction) and done.reason != "Stale" and done.preemptor and done.preemptor != done.gang:
        yield done.preemptor, DOING[done.reason]


def pod_message(done: Done) -> str:
    """What happened to one pod."""
    if isinstance(done, Binding):
        return f"assigned to node `{done.node}` with its gang `{done.pod_group}` ({done.role})"
    if done.reason == "Stale":
        return f"released from node `{done.node}`: {_short_of_pods(done)}"
    moved = f"; its replacement has a place on node `{done.move_to}`" if done.move_to else ""
    return f"evicted from node `{done.node}` to make room for `{done.preemptor}`, {WHY[done.reason]}{moved}"


def group_message(group: str, done: Sequence[Done]) -> str:
    """What happened to the pods of a PodGroup, or for it; all with one reason."""
    bound = [item for item in done if isinstance(item, Binding)]
    if bound:
        return _placed(bound)
    evicted = [item for item in done if isinstance(item, Eviction)]
    own = [item for item in evicted if item.gang == group]
    return _left(own) if own else _preempting(evicted)


def _placed(bound: Sequence[Binding]) -> str:
    extras = sum(binding.role == "extra" for binding in bound)
    roles = f", {extras} of them extra" if extras else ""
    return f"{many(len(bound), 'pod')} assigned to {many(len({binding.node for binding in bound}), 'node')}{roles}"


def _left(own: Sequence[Eviction]) -> str:
    first = own[0]
    if first.reason == "Stale":
        return f"{many(len(own), 'pod')} released: {_short_of_pods(first)}"
    preemptors = _listed(eviction.preemptor for eviction in own)
    return f"{many(len(own), 'pod')} evicted to make room for {preemptors}{_moved(own)}"


def _preempting(evicted: Sequence[Eviction]) -> str:
    pods, gangs = many(len(evicted), "pod"), _listed(eviction.gang for eviction in evicted)
    return f"{pods} of {gangs} evicted to make room for it{_moved(evicted)}"


def _moved(evicted: Sequence[Eviction]) -> str:
    moved = sum(bool(eviction.move_to) for eviction in evicted)
    return f"; {moved} of them with a new place" if moved else ""


def _short_of_pods(eviction: Eviction) -> str:
    what = f"SubGroup `{eviction.short}`" if eviction.short else "the gang"
    return f"{what} was below its minimum for longer than its grace"


def _listed(gangs: Iterator[str]) -> str:
    names = sorted(set(gangs))
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(f"`{name}`" for name in names[:LISTED]) + more

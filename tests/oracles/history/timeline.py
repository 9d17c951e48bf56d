"""A history as the states that it went through, and what happened to pods from one to the next."""

from bisect import bisect_left
from collections.abc import Iterator
from functools import cached_property

from tests.oracles.history.records import Raw, RunHistory, SentWrite, StoredChange
from tests.oracles.objects import CheckedGang, ObjectIndex, Outcome, name, owner, phase

JUDGED = ("Node", "Pod", "PodGroup", "PriorityClass", "Queue", "Topology")
PLAN_SECONDS = 3.0  # from what a replica saw to the request that follows from it, on a busy machine
Key = tuple[str, str]  # kind and `namespace/name`


class Moment:
    """The cluster after one change."""

    def __init__(self, number: int, change: StoredChange, before: Raw | None, objects: dict[Key, Raw]) -> None:
        self.number, self.change, self.before, self._objects = number, change, before, objects

    @property
    def at(self) -> float:
        return self.change.at

    @property
    def pod(self) -> Raw:
        """What changed, where it is a pod."""
        return self.change.object

    @cached_property
    def index(self) -> ObjectIndex:
        return ObjectIndex(list(self._objects.values()))

    def gang(self, key: str, outcome: Outcome = Outcome()) -> CheckedGang | None:  # noqa: B008
        """A gang as it stands; None: it has no PodGroup now."""
        return CheckedGang(self.index, key, outcome) if key in self.index.gangs else None

    @property
    def is_binding(self) -> bool:
        """Whether this change gave a pod its node."""
        had_node = self.before is not None and self.before["spec"].get("nodeName")
        is_pod = self.change.object["kind"] == "Pod" and not self.change.is_deleted
        return is_pod and self.before is not None and not had_node and bool(self.pod["spec"].get("nodeName"))

    @property
    def is_eviction(self) -> bool:
        """Whether this change evicted a pod: the eviction subresource leaves a condition."""
        if self.change.object["kind"] != "Pod" or self.before is None:
            return False
        return is_evicted(self.pod) and not is_evicted(self.before)


def is_evicted(pod: Raw) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "DisruptionTarget" and one["status"] == "True" for one in conditions)


def holds_resources(pod: Raw) -> bool:
    """On a node, terminating or not, until it has ended."""
    return bool(pod["spec"].get("nodeName")) and phase(pod) not in ("Succeeded", "Failed")


class Timeline:
    """Every state in order; states of a small run are kept whole, as finders look back."""

    def __init__(self, history: RunHistory) -> None:
        self.history = history
        self.moments = list(_moments(history))
        self._times = [moment.at for moment in self.moments]
        self._bindings: dict[str, list[SentWrite]] = {}
        for write in history.writes:
            if write.subresource == "binding":
                self._bindings.setdefault(write.body.get("metadata", {}).get("uid", ""), []).append(write)

    @property
    def bindings(self) -> Iterator[Moment]:
        return (moment for moment in self.moments if moment.is_binding)

    @property
    def evictions(self) -> Iterator[Moment]:
        return (moment for moment in self.moments if moment.is_eviction)

    @property
    def last(self) -> Moment:
        return self.moments[-1]

    def since(self, at: float, moment: Moment) -> list[Moment]:
        """The states from a time up to a moment; the one that stood at that time first."""
        first = max(bisect_left(self._times, at) - 1, 0)
        return self.moments[min(first, moment.number) : moment.number + 1]

    def after(self, moment: Moment) -> list[Moment]:
        return self.moments[moment.number + 1 :]

    def binding_requests(self, pod: Raw) -> list[SentWrite]:
        """Every request to bind a pod, whatever became of it."""
        return self._bindings.get(pod["metadata"].get("uid", "-"), [])

    def decided(self, moment: Moment) -> float:
        """The earliest time of what the decision behind a binding or an eviction was made from."""
        first = min((one.started for one in self.requests_behind(moment)), default=moment.at)
        return min(first, moment.at) - PLAN_SECONDS

    def requests_behind(self, moment: Moment) -> list[SentWrite]:
        """The requests that may have made a binding or an eviction: to this node, of this pod, and not refused."""
        if moment.is_binding:
            sent = self.binding_requests(moment.pod)
            node = moment.pod["spec"]["nodeName"]
            return [one for one in sent if not one.is_refused and one.body["target"]["name"] == node]
        pod = name(moment.pod)
        return [
            one
            for one in self.history.writes
            if one.subresource == "eviction" and not one.is_dry_run and not one.is_refused
            if f"{one.namespace}/{one.name}" == pod and one.started <= moment.at
        ]


def _moments(history: RunHistory) -> Iterator[Moment]:
    objects: dict[Key, Raw] = {}
    judged = (change for change in history.changes if change.object["kind"] in JUDGED)
    for number, change in enumerate(judged):
        key = change.object["kind"], name(change.object)
        before, objects = objects.get(key), dict(objects)
        if change.is_deleted:
            objects.pop(key, None)
        else:
            objects[key] = change.object
        yield Moment(number, change, before, objects)


def gang_key(moment: Moment) -> str:
    """The gang of the pod that changed."""
    return owner(moment.pod)

"""What holds at every revision at which a pod gets its node: I1, I2, I4 and I7."""

from collections import Counter, defaultdict
from collections.abc import Iterator

from tests.oracles.fair_shares import base_units
from tests.oracles.history.timeline import Timeline, gang_key, holds_resources
from tests.oracles.objects import CheckedGang, ObjectIndex, Outcome, Raw, apart, asks, name, overfull, owner


def bound_twice(timeline: Timeline) -> Iterator[str]:
    """I1: of one uid the API server accepts one binding, and the node of a pod never changes."""
    accepted = Counter(
        one.body["metadata"].get("uid", "")
        for one in timeline.history.writes
        if one.subresource == "binding" and one.is_accepted
    )
    for uid, count in accepted.items():
        if count > 1:
            yield f"{count} bindings of the pod with uid {uid} were accepted"
    for moment in timeline.moments:
        if moment.before is None or moment.change.object["kind"] != "Pod" or moment.change.is_deleted:
            continue
        old, new = moment.before["spec"].get("nodeName"), moment.pod["spec"].get("nodeName")
        is_same = moment.before["metadata"].get("uid") == moment.pod["metadata"].get("uid")
        if is_same and old and old != new:
            yield f"{name(moment.pod)} was on {old} and is on {new or 'none'}"


def overfull_nodes(timeline: Timeline) -> Iterator[str]:
    """I2: no node over its allocatable, with pods of all schedulers, terminating ones included."""
    for moment in timeline.bindings:
        node = moment.pod["spec"]["nodeName"]
        if node in moment.index.nodes:
            for text in overfull(moment.index, Outcome({name(moment.pod): node})):
                yield f"revision {moment.change.revision}, {name(moment.pod)}: {text}"


def scattered(timeline: Timeline) -> Iterator[str]:
    """I4: all pods below a group with a required level are in one domain, whenever they came."""
    for moment in timeline.bindings:
        lost = frozenset(key for key, pod in moment.index.pods.items() if not _is_known(moment.index, pod))
        checked = moment.gang(gang_key(moment), Outcome(gone=lost))
        for group in checked.tree if checked else ():
            assert checked is not None
            if name(moment.pod) in checked.pods(group):
                yield from (
                    f"revision {moment.change.revision}: {text}" for text in apart(moment.index, checked, group)
                )


def _is_known(index: ObjectIndex, pod: Raw) -> bool:
    """A pod on a node that is gone is in no domain that could be judged."""
    return pod["spec"].get("nodeName", "") in ("", *index.nodes)


def over_limit(timeline: Timeline) -> Iterator[str]:
    """I7: no queue and none above it holds more than its limit, terminating pods included."""
    for moment in timeline.bindings:
        for queue, used, limit, resource in exceeded(moment.index):
            yield f"revision {moment.change.revision}: `{queue}` holds {used} {resource}, its limit is {limit}"


def exceeded(index: ObjectIndex, more: dict[str, dict[str, int]] | None = None) -> Iterator[tuple[str, int, int, str]]:
    """Queues over a limit, with what they hold; `more`: what leaf queues would get on top."""
    for queue, amounts in usage(index, more or {}).items():
        for resource, used in amounts.items():
            limit = index.queues.says(queue, resource).limit
            if limit is not None and used > limit and index.queues.governs(queue, resource):
                yield queue, used, limit, resource


def usage(index: ObjectIndex, more: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    """What every queue holds with those below it."""
    held: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for pod in filter(holds_resources, index.pods.values()):
        if owner(pod) in index.gangs:
            for resource, amount in base_units(asks(pod)).items():
                held[CheckedGang(index, owner(pod)).queue][resource] += amount
    for queue, amounts in more.items():
        for resource, amount in amounts.items():
            held[queue][resource] += amount
    return index.queues.summed(held)

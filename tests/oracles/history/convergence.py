"""I8 and I11: where a run ends once faults are over. A fixpoint: all that fits runs, and nothing is there in part."""

from collections.abc import Iterator, Mapping

from tests.oracles.fair_shares import base_units
from tests.oracles.gang_puzzle import gang_puzzle
from tests.oracles.history.bindings import exceeded
from tests.oracles.history.starts import is_partial
from tests.oracles.history.timeline import Timeline, holds_resources
from tests.oracles.objects import CheckedGang, ObjectIndex, Outcome, Raw, apart, asks, name, terminating
from tests.oracles.placement import feasible

GPU = "nvidia.com/gpu"  # what is scarce in these runs; of all else there is plenty


def unsettled(timeline: Timeline) -> Iterator[str]:
    """Gangs in part, pods that still terminate, and pods on nodes that are gone."""
    index = timeline.last.index
    for key in index.gangs:
        if is_partial(timeline.last, key):
            yield f"{key} rests below its minimums in part"
    for key, pod in index.pods.items():
        if terminating(pod):
            yield f"{key} still terminates"
        elif holds_resources(pod) and pod["spec"]["nodeName"] not in index.nodes:
            yield f"{key} is on {pod['spec']['nodeName']}, which is gone"


def gangs_that_fit(timeline: Timeline) -> Iterator[str]:
    """Cores that fit on what is free now, within the limits of their queues; and pods beyond a core."""
    index = timeline.last.index
    for key in index.gangs:
        checked = CheckedGang(index, key)
        if _is_beyond_judgement(index, checked):
            continue
        if not checked.met() and _fits(index, checked, free_gpus(index)):
            yield f"{key} fits on what is free, and does not run"
        elif checked.met():
            yield from _spare_pods_that_fit(index, checked)


def highest_priority_waits(timeline: Timeline) -> Iterator[str]:
    """I11: the waiting gang of highest priority in a queue fits once what it may preempt there is gone."""
    index = timeline.last.index
    gangs = [CheckedGang(index, key) for key in index.gangs]
    waiting = [one for one in gangs if not one.met() and one.kind == "preemptible" and _has_pods(index, one)]
    for queue in sorted({one.queue for one in waiting}):
        first = max((one for one in waiting if one.queue == queue), key=lambda one: one.priority)
        victims = frozenset(pod for one in gangs for pod in _preemptible(one, first))
        if (
            victims
            and not _is_beyond_judgement(index, first)
            and _fits(index, first, free_gpus(index, victims), victims)
        ):
            yield f"{first.key} has the highest priority of those that wait in `{queue}`, fits, and does not run"


def _preemptible(victim: CheckedGang, preemptor: CheckedGang) -> set[str]:
    """P5: pods of lower priority in the same queue that are not protected."""
    if victim.queue != preemptor.queue or victim.priority >= preemptor.priority:
        return set()
    return set(victim.pods()) - victim.protected()


def _has_pods(index: ObjectIndex, checked: CheckedGang) -> bool:
    everything = {pod: "anywhere" for pods in checked.waiting.values() for pod in pods}
    return CheckedGang(index, checked.key, Outcome(everything)).met()


def _is_beyond_judgement(index: ObjectIndex, checked: CheckedGang) -> bool:
    """A gang of no open queue, or one with pods on nodes that are gone (0010)."""
    return not index.queues.is_open(checked.queue) or not set(checked.pods().values()) <= index.nodes.keys()


def free_gpus(index: ObjectIndex, without: frozenset[str] = frozenset()) -> dict[str, int]:
    """By node, once some pods are gone; a cordoned node has none."""
    free = {}
    for key, node in index.nodes.items():
        is_closed = (node.get("spec") or {}).get("unschedulable") or not _is_ready(node)
        free[key] = 0 if is_closed else int(node["status"]["allocatable"].get(GPU, 0))
    for key, pod in index.pods.items():
        if holds_resources(pod) and key not in without and free.get(pod["spec"]["nodeName"]):
            free[pod["spec"]["nodeName"]] -= gpus(pod)
    return free


def _is_ready(node: Raw) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or []
    return all(one["status"] == "True" for one in conditions if one["type"] == "Ready")


def gpus(pod: Raw) -> int:
    return int(asks(pod).get(GPU, 0))


def _fits(
    index: ObjectIndex, checked: CheckedGang, free: Mapping[str, int], victims: frozenset[str] = frozenset()
) -> bool:
    """Whether the core fits, and its queues allow all its waiting pods: where only some pass a limit, it may wait."""
    waiting = [index.pods[pod] for pods in checked.waiting.values() for pod in pods]
    left = ObjectIndex([raw for raw in _everything(index) if raw["kind"] != "Pod" or name(raw) not in victims])
    wanted: dict[str, int] = {}
    for pod in waiting:
        for resource, amount in base_units(asks(pod)).items():
            wanted[resource] = wanted.get(resource, 0) + amount
    if any(exceeded(left, {checked.queue: wanted})):
        return False
    return feasible(gang_puzzle(index, checked, free, lambda pod: gpus(index.pods[pod])))


def _everything(index: ObjectIndex) -> Iterator[Raw]:
    for kind in (index.pods, index.gangs, index.classes, index.topologies, index.nodes):
        yield from kind.values()
    yield from (index.queues.raws.values() if not index.queues.alone else ())


def _spare_pods_that_fit(index: ObjectIndex, checked: CheckedGang) -> Iterator[str]:
    """Further pods of satisfied leaves (G3), one by one, in the domains that the gang is pinned to (T3)."""
    for leaf, pods in checked.waiting.items():
        if leaf not in checked.tree or checked.children.get(leaf) or not checked.met(leaf):
            continue
        for pod in pods:
            wanted = {checked.queue: base_units(asks(index.pods[pod]))}
            nodes = [node for node, left in free_gpus(index).items() if left >= gpus(index.pods[pod])]
            if any(_is_inside(index, checked, pod, node) for node in nodes) and not any(exceeded(index, wanted)):
                yield f"{pod} fits beside its gang, and does not run"
                break


def _is_inside(index: ObjectIndex, checked: CheckedGang, pod: str, node: str) -> bool:
    """Whether a pod on a node would be where its groups have to be together."""
    with_pod = CheckedGang(index, checked.key, Outcome({pod: node}))
    return not any(apart(index, with_pod, group) for group in with_pod.tree if pod in with_pod.pods(group))

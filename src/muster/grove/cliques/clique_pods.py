"""The pods of a PodClique as its controller reads them, each once; and the indexes that new ones take.

Rule 1: a pod that was deleted does not count, and gives its index back. Rule 2: a pod that failed counts as little: it
is replaced; one that succeeded has done its part, and counts as scheduled and ready (N5). Rule 3: every function here
is linear in pods.
"""

from collections.abc import Collection, Iterable, Iterator
from itertools import count, islice

from msgspec import Struct

from muster.api import names
from muster.api.fields import integer, items, number, text, texts
from muster.workloads.conditions import find_condition, is_condition_true
from muster.workloads.pod_templates import is_terminating, phase
from muster.workloads.types import Raw

FAILED, SUCCEEDED = "Failed", "Succeeded"  # phases


class CliquePod(Struct, frozen=True):
    """What counts about one pod."""

    raw: Raw
    name: str
    index: int | None  # None: its label states none
    phase: str
    created: str  # times of one form: they compare as texts
    is_updated: bool  # it was made of the current template
    is_gated: bool
    is_bound: bool
    is_ready: bool
    is_broken: bool  # it is not ready though it started, or a container of it failed
    is_unschedulable: bool  # the scheduler finds no node for it


class CliquePods(Struct, frozen=True):
    """The pods of a clique that were not deleted, oldest first."""

    live: tuple[CliquePod, ...]
    failed: tuple[Raw, ...] = ()

    @property
    def outdated(self) -> list[CliquePod]:
        """Pods of an older template."""
        return [pod for pod in self.live if not pod.is_updated]

    @property
    def ready(self) -> int:
        """How many are ready or have succeeded, of any template."""
        return sum(pod.is_ready for pod in self.live)

    @property
    def scheduled(self) -> int:
        """How many are bound to a node."""
        return sum(pod.is_bound for pod in self.live)


def read_pods(clique: Raw, pods: Iterable[Raw]) -> CliquePods:
    """The pods of a clique."""
    current = texts(clique, "metadata.labels").get(names.TEMPLATE_HASH, "")
    present = [pod for pod in pods if not is_terminating(pod)]
    live = tuple(_read(pod, current) for pod in present if phase(pod) != FAILED)
    return CliquePods(live, tuple(pod for pod in present if phase(pod) == FAILED))


def _read(pod: Raw, current_hash: str) -> CliquePod:
    labels = texts(pod, "metadata.labels")
    has_succeeded = phase(pod) == SUCCEEDED
    is_bound = has_succeeded or bool(text(pod, "spec.nodeName"))
    is_ready = has_succeeded or is_condition_true(pod, "Ready")
    return CliquePod(
        raw=pod,
        name=text(pod, "metadata.name"),
        index=number(labels.get(names.POD_INDEX, "")),
        phase=phase(pod),
        created=text(pod, "metadata.creationTimestamp"),
        is_updated=labels.get(names.TEMPLATE_HASH, "") == current_hash,
        is_gated=not is_bound and bool(items(pod, "spec.schedulingGates")),
        is_bound=is_bound,
        is_ready=is_ready,
        is_broken=not is_ready and _is_broken(pod),
        is_unschedulable=not is_bound and _is_unschedulable(pod),
    )


def _is_unschedulable(pod: Raw) -> bool:
    condition = find_condition(pod, "PodScheduled") or {}
    return condition.get("status") == "False" and condition.get("reason") == "Unschedulable"


def _is_broken(pod: Raw) -> bool:
    """Whether a container failed before, or has started and is not ready; one that still starts is neither."""
    containers = items(pod, "status.containerStatuses")
    if any(container.get("started") is True and container.get("ready") is not True for container in containers):
        return True
    every = (*containers, *items(pod, "status.initContainerStatuses"))
    return any(integer(container, "lastState.terminated.exitCode") for container in every)


def free_indexes(taken: Iterable[int | None], wanted: int) -> Iterator[int]:
    """The lowest indexes that no pod has. `taken`: the indexes of pods."""
    held: Collection[int | None] = {*taken}
    return islice((index for index in count() if index not in held), wanted)

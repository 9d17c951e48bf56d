"""The cliques of a PodGang with their pods, read once a reconciliation.

Rule 1: pods are found through their PodClique, never by name or by a scan. Rule 2: a pod is *live* unless it is
terminating or failed; it is *scheduled* once it has a node. Rule 3: pods of a PodClique that was deleted count for
nothing, though they are there until the garbage collector comes.
"""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from muster.api.fields import at, integer, items, text
from muster.api.names import GANG_GATE
from muster.api.resources import POD_CLIQUES, PODS
from muster.grove.health import was_healthy
from muster.workloads.pod_templates import is_terminating
from muster.workloads.types import Children, Raw

_RUNS = ("Running", "Succeeded")


class GangClique(Struct, frozen=True):
    """One PodGroup of a PodGang."""

    name: str  # of the PodClique
    entry: Raw  # as the PodGang has it
    minimum: int  # pods that must be scheduled together; 0: the clique is scaled to zero, or has no minimum
    replicas: int | None  # that the clique is to have; None: it does not exist
    scheduler: str  # that its pods name; empty: they name none
    live: Sequence[Raw]  # sorted by name
    terminating: Sequence[Raw]
    scheduled: int
    running: int
    ready: int
    was_healthy: bool = False  # its status says so

    @property
    def is_covered(self) -> bool:
        """Whether enough pods exist."""
        return len(self.live) >= self.minimum

    @property
    def is_scheduled(self) -> bool:
        """Whether enough pods have a node."""
        return self.scheduled >= self.minimum


def read_cliques(gang: Raw, children: Children) -> tuple[GangClique, ...]:
    """The cliques of a gang with all their pods."""
    return tuple(_read(gang, entry, children, None) for entry in items(gang, "spec.podgroups"))


def read_referenced(gang: Raw, children: Children) -> tuple[GangClique, ...]:
    """The cliques of a gang with the pods that it references: another operator says which these are."""
    return tuple(
        _read(gang, entry, children, {text(reference, "name") for reference in items(entry, "podReferences")})
        for entry in items(gang, "spec.podgroups")
    )


def _read(gang: Raw, entry: Raw, children: Children, referenced: set[str] | None) -> GangClique:
    name, clique = text(entry, "name"), _clique_of(gang, entry, children)
    pods = children.of(clique, PODS) if clique is not None else ()
    live = sorted((pod for pod in pods if is_live(pod) and _is_among(pod, referenced)), key=pod_name)
    return GangClique(
        name=name,
        entry=entry,
        minimum=_minimum(entry, clique),
        replicas=None if clique is None else integer(clique, "spec.replicas", 1),
        scheduler=_scheduler_of(live) or text(clique, "spec.podSpec.schedulerName"),
        live=live,
        terminating=[pod for pod in pods if is_terminating(pod)],
        scheduled=sum(map(is_scheduled, live)),
        running=sum(_phase(pod) in _RUNS for pod in live),
        ready=sum(map(_is_ready, live)),
        was_healthy=clique is not None and was_healthy(clique),
    )


def _clique_of(gang: Raw, entry: Raw, children: Children) -> Raw | None:
    """The PodClique of a PodGroup; None: it does not exist, or is being deleted."""
    clique = children.get(POD_CLIQUES, text(gang, "metadata.namespace"), text(entry, "name"))
    return None if clique is None or is_terminating(clique) else clique


def _scheduler_of(pods: Sequence[Raw]) -> str:
    """The scheduler that pods name, all of them the same one; empty: there are none."""
    return text(pods[0], "spec.schedulerName") if pods else ""


def _is_among(pod: Raw, referenced: set[str] | None) -> bool:
    return referenced is None or pod_name(pod) in referenced


def _minimum(entry: Raw, clique: Raw | None) -> int:
    """A clique that is scaled to zero needs no pods: the others of its gang run without it."""
    is_zero = clique is not None and at(clique, "spec.replicas") == 0
    return 0 if is_zero else integer(entry, "minReplicas")


# pods: read directly, as a reconciliation reads every pod of a gang ---------------------------------------------------


def pod_name(pod: Raw) -> str:
    """The name of a pod."""
    name: str = pod["metadata"]["name"]
    return name


def _phase(pod: Raw) -> str:
    status = pod.get("status")
    return (status.get("phase") or "") if isinstance(status, dict) else ""


def _is_ready(pod: Raw) -> bool:
    if _phase(pod) == "Succeeded":
        return True
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(condition.get("type") == "Ready" and condition.get("status") == "True" for condition in conditions)


def is_live(pod: Raw) -> bool:
    """Whether a pod counts for its gang: it runs, may run, or has done its part."""
    return not pod["metadata"].get("deletionTimestamp") and _phase(pod) != "Failed"


def is_scheduled(pod: Raw) -> bool:
    """Whether a pod has a node; one that runs has."""
    return bool(node_name(pod)) or _phase(pod) in _RUNS


def node_name(pod: Raw) -> str:
    """The node of a pod; empty: it has none."""
    return (pod.get("spec") or {}).get("nodeName") or ""


def is_gated(pod: Raw) -> bool:
    """Whether the gate of its gang holds a pod."""
    gates = (pod.get("spec") or {}).get("schedulingGates") or ()
    return any(gate.get("name") == GANG_GATE for gate in gates)


def gated_pods(cliques: Sequence[GangClique]) -> Iterator[Raw]:
    """Live pods of a gang that its gate holds."""
    return (pod for clique in cliques for pod in clique.live if is_gated(pod))


# other gangs --------------------------------------------------------------------------------------------------------


def clique_uid(gang: Raw, entry: Raw, children: Children) -> str:
    """The uid of the PodClique of a PodGroup; empty: it does not exist, or is being deleted."""
    return text(_clique_of(gang, entry, children), "metadata.uid")


def is_counted(pod: Raw, clique: str) -> bool:
    """Whether a pod is live, and its PodClique is the one with this uid."""
    owners = pod["metadata"].get("ownerReferences") or ()
    return is_live(pod) and any(owner.get("controller") and owner.get("uid") == clique for owner in owners)


def referenced_pods(gang: Raw, entry: Raw, children: Children) -> Iterator[Raw]:
    """Live pods that a gang references in one of its PodGroups, as far as they are known."""
    clique = clique_uid(gang, entry, children)
    for reference in items(entry, "podReferences") if clique else ():
        pod = children.get(PODS, text(gang, "metadata.namespace"), text(reference, "name"))
        if pod is not None and is_counted(pod, clique):
            yield pod


def has_scheduled_minimums(gang: Raw, children: Children) -> bool:
    """Whether every PodGroup of a gang has its minimum scheduled; reads no more pods than that takes.

    A gang without any is not scheduled: a set makes no such gang, so a user removed them.
    """
    entries = items(gang, "spec.podgroups")
    return bool(entries) and all(has_scheduled(gang, entry, children) for entry in entries)


def minimum_in(gang: Raw, entry: Raw, children: Children) -> int:
    """How many pods of a PodGroup must be scheduled."""
    return _minimum(entry, _clique_of(gang, entry, children))


def has_scheduled(gang: Raw, entry: Raw, children: Children) -> bool:
    """Whether a PodGroup of a gang has its minimum scheduled."""
    missing = minimum_in(gang, entry, children)
    for pod in referenced_pods(gang, entry, children) if missing else ():
        missing -= is_scheduled(pod)
        if missing <= 0:
            return True
    return missing <= 0


def labels_of(raw: Raw) -> Mapping[str, str]:
    """The labels of an object, as they are: quicker than to check each."""
    labels = at(raw, "metadata.labels")
    return labels if isinstance(labels, dict) else {}

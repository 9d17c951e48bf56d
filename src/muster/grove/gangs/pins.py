"""Where scaled gangs may be: in the domain of their base gang, where the PodCliqueSet requires one for all (R3).

Rule 1: the pin is a node selector that is added while a pod is gated, so that the scheduler needs to know of no other
gang. Rule 2: a pod that is pinned to a domain that the base gang has left is deleted, so that its replacement is pinned
to the new one; a pod that is in the domain already stays, whatever labels it was pinned by.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from muster.api.fields import items, mapping, text
from muster.api.resources import POD_CLIQUES, PODS
from muster.grove.gangs.cliques import GangClique, is_gated, is_scheduled, node_name, referenced_pods
from muster.grove.gangs.domains import domain_of, level_labels, topology_name
from muster.grove.gangs.gates import GateHold
from muster.workloads.types import Children, Raw, Remove

TOPOLOGY_NOT_FOUND, DOMAIN_UNKNOWN, PIN_CONFLICT = "TopologyNotFound", "BaseDomainUnknown", "NodeSelectorConflict"
PLACE_UNKNOWN = (TOPOLOGY_NOT_FOUND, DOMAIN_UNKNOWN)  # reasons that no change of a pod ends
Pin = Mapping[str, str]  # node labels; empty: nothing is required


def find_pin(base: Raw, children: Children) -> Pin | GateHold:
    """The labels of the domain that a scheduled base gang is in, or why that is not known."""
    level = text(base, "spec.topologyConstraint.packConstraint.required")
    if not level:
        return {}
    topology = topology_name(base, _scheduler(base, children), children)
    labels = level_labels(topology, level, children)
    if labels is None:
        return GateHold(TOPOLOGY_NOT_FOUND, f"Topology `{topology}` does not exist, or has no level `{level}`")
    return _domain_labels(base, labels, children)


def _scheduler(base: Raw, children: Children) -> str:
    first = next((text(entry, "name") for entry in items(base, "spec.podgroups")), "")
    clique = children.get(POD_CLIQUES, text(base, "metadata.namespace"), first)
    return text(clique, "spec.podSpec.schedulerName")


def _domain_labels(base: Raw, labels: Sequence[str], children: Children) -> Pin | GateHold:
    has_nodes = False
    for pod in _scheduled_pods(base, children):
        if domain := domain_of(node_name(pod), labels, children):
            return dict(zip(labels, domain, strict=True))
        has_nodes |= bool(node_name(pod))
    if not has_nodes:  # pods of a manifest that count as running: where they are is not decided yet
        return {}
    name = text(base, "metadata.name")
    return GateHold(DOMAIN_UNKNOWN, f"no node of base PodGang `{name}` has the labels {', '.join(labels)}")


def _scheduled_pods(base: Raw, children: Children) -> Iterator[Raw]:
    for entry in items(base, "spec.podgroups"):
        yield from (pod for pod in referenced_pods(base, entry, children) if is_scheduled(pod))


def conflict(pods: Iterable[Raw], pin: Pin) -> GateHold | None:
    """A gated pod whose own node selector excludes the domain; None: all can be pinned."""
    for pod in pods if pin else ():
        own = mapping(pod, "spec.nodeSelector")
        for label, value in pin.items():
            if own.get(label, value) != value:
                return GateHold(
                    PIN_CONFLICT,
                    f"the node selector of its pods wants `{label}={own[label]}`, and the base PodGang is in `{value}`",
                )
    return None


def pinned_elsewhere(cliques: Iterable[GangClique], pin: Pin, children: Children) -> Iterator[Remove]:
    """Deletes pods whose gate was lifted for another domain."""
    for pod in (pod for clique in cliques for pod in clique.live) if pin else ():
        if not is_gated(pod) and _contradicts(pod, pin) and not _is_inside(pod, pin, children):
            metadata = pod["metadata"]
            yield Remove(PODS, metadata.get("namespace", ""), metadata["name"], metadata.get("uid", ""))


def _contradicts(pod: Raw, pin: Pin) -> bool:
    own = mapping(pod, "spec.nodeSelector")
    return any(own.get(label, value) != value for label, value in pin.items())


def _is_inside(pod: Raw, pin: Pin, children: Children) -> bool:
    """Whether the node of a pod has the labels: they may have been renamed since."""
    return domain_of(node_name(pod), tuple(pin), children) == tuple(pin.values())

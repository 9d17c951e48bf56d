"""Where scaled gangs may be: in the domain of their base gang, where the PodCliqueSet requires one for all (R3).

Rule 1: the pin is a node selector that is added while a pod is gated, so that the scheduler needs to know of no other
gang. Rule 2: a domain stays that of a scaled gang as long as a scheduled pod of the base is in it. Rule 3: a pod that
is pinned to a domain that the base gang has left is deleted, so that its replacement is pinned to the new one; but not
one that is in the new domain already, whatever labels it was pinned by, nor one whose own selector holds it elsewhere.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from muster.api.fields import items, mapping, text, texts
from muster.api.names import PINNED_BY
from muster.api.resources import PODS
from muster.grove.gangs.cliques import (
    GangClique,
    has_scheduled_minimums,
    is_scheduled,
    node_name,
    referenced_pods,
)
from muster.grove.gangs.domains import domain_of, level_labels, topology_name
from muster.grove.gangs.gates import GateHold
from muster.workloads.operators.objects import removal
from muster.workloads.types import Children, Raw, Remove

TOPOLOGY_NOT_FOUND, DOMAIN_UNKNOWN, PIN_CONFLICT = "TopologyNotFound", "BaseDomainUnknown", "NodeSelectorConflict"
PLACE_UNKNOWN = (TOPOLOGY_NOT_FOUND, DOMAIN_UNKNOWN)  # reasons that no change of a pod ends
Pin = Mapping[str, str]  # node labels; empty: nothing is required


def find_pin(base: Raw, cliques: Sequence[GangClique], children: Children) -> Pin | GateHold:
    """The labels of the domain that a scheduled base gang is in, or why that is not known.

    Where the base is in several, it is the one that pods of this gang are pinned to already.
    """
    labels = _required_labels(base, cliques, children)
    if isinstance(labels, GateHold):
        return labels
    for pin in dict.fromkeys(_selected(pod, labels) for pod in _pinned_pods(cliques)):
        if pin and len(pin) == len(labels) and _is_held(dict(pin), base, labels, children):
            return dict(pin)
    return _domain_labels(base, labels, children) if labels else {}


def _required_labels(base: Raw, cliques: Sequence[GangClique], children: Children) -> tuple[str, ...] | GateHold:
    """The labels from the top level down to the one that is required of all gangs; empty: none is."""
    level = text(base, "spec.topologyConstraint.packConstraint.required")
    if not level:
        return ()
    scheduler = next((clique.scheduler for clique in cliques), "")  # that of the base: a set has one
    topology = topology_name(base, scheduler, children)
    labels = level_labels(topology, level, children)
    if labels is None:
        return GateHold(TOPOLOGY_NOT_FOUND, f"Topology `{topology}` does not exist, or has no level `{level}`")
    return labels


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


def _is_held(pin: Pin, base: Raw, labels: Sequence[str], children: Children) -> bool:
    """Whether a scheduled pod of the base is in the domain of these labels."""
    domains = (domain_of(node_name(pod), labels, children) for pod in _scheduled_pods(base, children))
    return any(domain and _agrees(pin, dict(zip(labels, domain, strict=True))) for domain in domains)


def _agrees(pin: Pin, domain: Pin) -> bool:
    return all(domain.get(label, value) == value for label, value in pin.items())


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


# pods that are pinned -----------------------------------------------------------------------------------------------


def _pinned_pods(cliques: Iterable[GangClique]) -> list[Raw]:
    """Pods of a gang that were pinned."""
    pods = (pod for clique in cliques for pod in clique.live)
    return [pod for pod in pods if PINNED_BY in (pod["metadata"].get("annotations") or ())]


def _selected(pod: Raw, labels: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """What the node selector of a pod says of these labels."""
    own = texts(pod, "spec.nodeSelector")
    return tuple((label, own[label]) for label in labels if label in own)


def _pin_of(pod: Raw) -> tuple[tuple[str, str], ...]:
    """The labels that were added to the node selector of a pod."""
    return _selected(pod, texts(pod, "metadata.annotations").get(PINNED_BY, "").split(","))


def pinned_elsewhere(cliques: Sequence[GangClique], base: Raw, children: Children) -> Iterator[Remove]:
    """Deletes pods that are pinned to a domain that a scheduled base gang has left."""
    pods = _pinned_pods(cliques)
    labels = _required_labels(base, cliques, children) if pods else ()
    if isinstance(labels, GateHold) or not labels:
        return
    left = {pin for pin in {*map(_pin_of, pods)} if not _is_held(dict(pin), base, labels, children)}
    if not left or not has_scheduled_minimums(base, children):
        return
    domain = _domain_labels(base, labels, children)
    if isinstance(domain, GateHold) or not domain:
        return
    for pod in pods:
        if _pin_of(pod) in left and not _is_inside(pod, domain, children):
            yield removal(PODS, pod)


def _is_inside(pod: Raw, pin: Pin, children: Children) -> bool:
    """Whether the node of a pod has the labels: they may have been renamed since."""
    return domain_of(node_name(pod), tuple(pin), children) == tuple(pin.values())

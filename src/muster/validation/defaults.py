"""Values of a PodGroup that its spec leaves out: from labels and annotations, else the defaults of the rules."""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from muster.api import names
from muster.api.core import PriorityClass
from muster.api.podgroup import PodGroup, TopologyConstraint
from muster.validation.podgroup import parents_first

Constraints = Mapping[str, TopologyConstraint]  # by place, parents before children
PRIORITY = 50  # P1: where neither a class nor a global default says otherwise
PREEMPTIBLE_BELOW = 100  # P1
BUILT_IN = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def queue(group: PodGroup) -> str:
    """The queue that its resources count in (Q2)."""
    return group.spec.queue or group.metadata.labels.get(names.QUEUE, "") or names.DEFAULT_QUEUE


def priority_class(group: PodGroup) -> str:
    """The PriorityClass it names; empty: none."""
    return group.spec.priority_class_name or group.metadata.labels.get(names.PRIORITY_CLASS, "")


def unknown_class(group: PodGroup, classes: Iterable[PriorityClass]) -> str:
    """P1: the PriorityClass that it names if that does not exist; else empty."""
    named = priority_class(group)
    exists = named in BUILT_IN or any(known.metadata.name == named for known in classes)
    return "" if exists else named


def priority(group: PodGroup, classes: Iterable[PriorityClass]) -> int:
    """P1: the value of the class it names, else of the global default, else 50."""
    classes = tuple(classes)
    values = BUILT_IN | {known.metadata.name: known.value for known in classes}
    if priority_class(group) in values:
        return values[priority_class(group)]
    defaults = sorted((known.value, known.metadata.name) for known in classes if known.global_default)
    return defaults[0][0] if defaults else PRIORITY


def preemptibility(group: PodGroup, classes: Iterable[PriorityClass]) -> str:
    """P1: as stated, else preemptible where the priority is below 100."""
    stated = group.spec.preemptibility or group.metadata.labels.get(names.PREEMPTIBILITY, "")
    if stated:
        return stated
    return names.PREEMPTIBLE if priority(group, classes) < PREEMPTIBLE_BELOW else names.NON_PREEMPTIBLE


def constraint(group: PodGroup) -> TopologyConstraint:
    """The constraint of the whole workload; annotations fill what the spec leaves out."""
    stated = group.spec.topology_constraint or TopologyConstraint()
    notes = group.metadata.annotations
    return TopologyConstraint(
        topology=stated.topology or notes.get(names.TOPOLOGY, ""),
        required_topology_level=stated.required_topology_level or notes.get(names.TOPOLOGY_REQUIRED, ""),
        preferred_topology_level=stated.preferred_topology_level or notes.get(names.TOPOLOGY_PREFERRED, ""),
    )


def constraints(group: PodGroup) -> Constraints:
    """The constraint at every place, `""` being the PodGroup, with the Topology of the nearest ancestor (T4).

    Equal ones are one object: rules check each once.
    """
    resolved = {"": constraint(group)}
    different: dict[TopologyConstraint, TopologyConstraint] = {}
    for part in parents_first(group.spec):
        inherited = _inherit(part.topology_constraint, resolved[part.parent])
        resolved[part.name] = different.setdefault(inherited, inherited)
    return resolved


def _inherit(own: TopologyConstraint | None, above: TopologyConstraint) -> TopologyConstraint:
    if own is None or not own.topology:
        return replace(own or TopologyConstraint(), topology=above.topology)
    return own

"""From domains that people name to node labels that a scheduler reads, through a ClusterTopologyBinding.

Rule: what the binding does not have is no constraint: pods run without it, and the set says so.
"""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from muster.api.decoding import decode
from muster.api.grove.pod_clique_set import PackTopologyConstraint, PodCliqueSet
from muster.api.grove.topology_binding import ClusterTopologyBinding
from muster.api.resources import CLUSTER_TOPOLOGY_BINDINGS
from muster.grove.health import FALSE, TRUE, UNKNOWN, HealthCondition
from muster.workloads.types import Children, Raw

LEVELS_UNAVAILABLE = "TopologyLevelsUnavailable"  # condition


class SetTopology(Struct, frozen=True):
    """The node label of each domain that a set may name."""

    binding: str = ""  # its name; empty: the set names none
    is_found: bool = False  # whether there is such a binding
    keys: Mapping[str, str] = {}
    missing: tuple[str, ...] = ()  # domains that the set names and the binding does not have


def topology_of(pcs: PodCliqueSet, children: Children) -> SetTopology | None:
    """The topology of a set; None: it has no constraints."""
    constraints = list(_constraints(pcs))
    if not constraints:
        return None
    binding = next((constraint.topology_name for constraint in constraints if constraint.topology_name), "")
    domains = dict.fromkeys(domain for constraint in constraints for domain in domains_of(constraint) if domain)
    raw = children.get(CLUSTER_TOPOLOGY_BINDINGS, "", binding) if binding else None
    if raw is None:
        return SetTopology(binding, missing=tuple(domains))
    keys = {level.domain: level.key for level in decode(raw, ClusterTopologyBinding)[0].spec.levels}
    return SetTopology(binding, True, keys, tuple(domain for domain in domains if domain not in keys))


def _constraints(pcs: PodCliqueSet) -> Iterator[PackTopologyConstraint]:
    template = pcs.spec.template
    groups = (group.topology_constraint for group in template.pod_clique_scaling_groups)
    cliques = (clique.topology_constraint for clique in template.cliques)
    for constraint in (template.topology_constraint, *groups, *cliques):
        if constraint is not None and any(domains_of(constraint)):
            yield constraint


def names_binding(pcs: PodCliqueSet, binding: str) -> bool:
    """Whether a set has a constraint by this binding."""
    return any(constraint.topology_name == binding for constraint in _constraints(pcs))


def domains_of(constraint: PackTopologyConstraint) -> tuple[str, str]:
    """The required and the preferred domain; empty: none."""
    if constraint.pack is None:
        return constraint.pack_domain, ""
    return constraint.pack.required or constraint.pack_domain, constraint.pack.preferred


def gang_constraint(constraint: PackTopologyConstraint | None, topology: SetTopology | None) -> Raw | None:
    """A constraint of a set as a PodGang holds it; None: there is none that the binding could translate."""
    if constraint is None or topology is None:
        return None
    required, preferred = domains_of(constraint)
    pack = {"required": topology.keys.get(required, ""), "preferred": topology.keys.get(preferred, "")}
    pack = {kind: key for kind, key in pack.items() if key}
    return {"packConstraint": pack} if pack else None


def levels_condition(topology: SetTopology) -> HealthCondition:
    """Whether a set has the levels that it names."""
    if not topology.binding:
        message = "no constraint names a ClusterTopologyBinding; pods are placed without constraints"
        return HealthCondition(LEVELS_UNAVAILABLE, UNKNOWN, "TopologyNameMissing", message)
    if not topology.is_found:
        message = f"ClusterTopologyBinding `{topology.binding}` does not exist; pods are placed without constraints"
        return HealthCondition(LEVELS_UNAVAILABLE, UNKNOWN, "ClusterTopologyNotFound", message)
    if topology.missing:
        missing, known = ", ".join(topology.missing), ", ".join(topology.keys)
        message = f"ClusterTopologyBinding `{topology.binding}` has no domain {missing}; known: {known}"
        return HealthCondition(LEVELS_UNAVAILABLE, TRUE, "ClusterTopologyLevelsUnavailable", message)
    message = f"ClusterTopologyBinding `{topology.binding}` has every domain of this set"
    return HealthCondition(LEVELS_UNAVAILABLE, FALSE, "AllClusterTopologyLevelsAvailable", message)

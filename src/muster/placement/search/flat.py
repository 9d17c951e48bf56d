"""Gangs of one pod class that may be anywhere, or in any one domain of a level: most gangs. They need no search.

Rule: the same assignments as the search finds, tight domains and nodes first (X4); a property holds the two equal.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from muster.model.topology import TopologyTree
from muster.placement.capacity import Capacity
from muster.placement.packing.fit_index import DomainFitIndex, FitIndex
from muster.placement.requirements.types import Requirement
from muster.placement.search.search_state import PodsOnNode

Ints = NDArray[np.int64]


def applies(capacity: Capacity, requirement: Requirement, growing: bool = False) -> bool:
    """Whether a requirement has one pod class, no preferred level or nodes, and no inter-pod rules.

    `growing`: the domain must leave capacity for extras, which only the search can choose.
    """
    if requirement.children or not requirement.need or len(requirement.pods) != 1:
        return False
    if requirement.preferred is not None or requirement.tight is not None:
        return False
    pod_class, available = requirement.pods[0]
    if (
        growing
        and requirement.required is not None
        and requirement.required.pinned is None
        and available > requirement.need
    ):
        return False
    return pod_class not in capacity.inter_pod.touched and capacity.tiers(pod_class) is None


def assign_nodes(
    capacity: Capacity, requirement: Requirement, topologies: Mapping[str, TopologyTree], allowance: Ints | None = None
) -> tuple[PodsOnNode, ...] | None:
    """Assign pods to the tightest nodes of the tightest domain; None: they do not fit."""
    pod_class = requirement.pods[0][0]
    if allowance is not None and (capacity.pod_classes.requests[pod_class] * requirement.need > allowance).any():
        return None
    index = find_fit_index(capacity, requirement, topologies)
    assignment = None if index is None else index.tightest(requirement.need)
    return (
        None
        if assignment is None
        else tuple(PodsOnNode(requirement.name, pod_class, node, pods) for node, pods in assignment)
    )


def find_fit_index(
    capacity: Capacity, requirement: Requirement, topologies: Mapping[str, TopologyTree]
) -> FitIndex | DomainFitIndex | None:
    """The fit index of all nodes, of any one domain, or of the domain of its placed pods (T3); None: no domain."""
    pod_class, constraint = requirement.pods[0][0], requirement.required
    if constraint is None:
        return capacity.fit_index(pod_class)
    index = capacity.domain_fit_index(pod_class, topologies[constraint.topology].levels[constraint.level])
    if constraint.pinned is None:
        return index
    return index.inside(constraint.pinned) if constraint.pinned >= 0 else None

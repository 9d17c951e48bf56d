"""Gangs of one pod class that may be anywhere, or in any one domain of a level: most gangs. They need no search.

A tree that needs all of its pods is such a gang, too, where only its root has a constraint: leader and workers of one
class, for example.

Rule: the same assignments as the search finds, tight domains and nodes first (X4); a property holds the two equal.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from muster.model.topology import TopologyTree
from muster.placement.capacity import Capacity
from muster.placement.packing.fit_index import DomainFitIndex, FitIndex
from muster.placement.requirements.tree import leaves, subtree
from muster.placement.requirements.types import Requirement
from muster.placement.search.search_state import PodsOnNode

Ints = NDArray[np.int64]
MOST_GROUPS = 64  # below a requirement that is flattened


def applies(capacity: Capacity, requirement: Requirement, growing: bool = False) -> bool:
    """Whether a requirement has one pod class, no preferred level or nodes, and no inter-pod rules.

    `growing`: the domain must leave capacity for extras, which only the search can choose.
    """
    requirement = flatten(requirement)
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


def flatten(requirement: Requirement) -> Requirement:
    """A branch as one leaf, where that makes no difference to where its pods may sit; otherwise the requirement.

    That is where it needs everything below it, only itself has constraints, and all pods are of one class. Large trees
    are left to the search: this is asked of every part of a tree.
    """
    if not requirement.children or requirement.total:
        return requirement
    below = list(islice(subtree(requirement), 1, MOST_GROUPS + 2))
    pod_classes = {pod_class for part in below for pod_class, _ in part.pods}
    if len(below) > MOST_GROUPS or len(pod_classes) != 1 or requirement.need < len(requirement.children):
        return requirement
    if not all(map(_is_free, below)):
        return requirement
    pods = sum(part.need for part in below if part.is_leaf)
    return replace(requirement, need=pods, pods=((pod_classes.pop(), pods),), children=())


def _is_free(part: Requirement) -> bool:
    """Whether a group needs all of its pods or children, and has no constraint of its own."""
    if part.required is not None or part.preferred is not None or part.tight is not None or part.total or part.within:
        return False
    if part.is_leaf:
        return len(part.pods) == 1 and part.pods[0][1] == part.need
    return part.need == len(part.children)


def assign_nodes(
    capacity: Capacity, requirement: Requirement, topologies: Mapping[str, TopologyTree], allowance: Ints | None = None
) -> tuple[PodsOnNode, ...] | None:
    """Assign pods to the tightest nodes of the tightest domain; None: they do not fit."""
    flattened = flatten(requirement)
    assignment = _assign_nodes(capacity, flattened, topologies, allowance)
    return assignment if assignment is None or flattened is requirement else tuple(_spread(requirement, assignment))


def _spread(requirement: Requirement, assignment: Sequence[PodsOnNode]) -> Iterator[PodsOnNode]:
    """The nodes of a flattened requirement among its leaves, large ones first: they stay together more often."""
    left = [[assigned.node, assigned.pods] for assigned in reversed(assignment)]
    for leaf in sorted(leaves(requirement), key=lambda leaf: -leaf.need):
        need = leaf.need
        while need:
            node, free = left[-1]
            pods = min(need, free)
            yield PodsOnNode(leaf.name, leaf.pods[0][0], node, pods)
            need -= pods
            left[-1][1] -= pods
            if not left[-1][1]:
                left.pop()


def _assign_nodes(
    capacity: Capacity, requirement: Requirement, topologies: Mapping[str, TopologyTree], allowance: Ints | None
) -> tuple[PodsOnNode, ...] | None:
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

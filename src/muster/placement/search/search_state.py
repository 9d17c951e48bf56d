"""The state of one search: decisions so far, and the assignments that prove them."""

from msgspec import Struct

from muster.placement.capacity import SupposedCapacity
from muster.placement.packing.packing import Demand, NodeSet
from muster.placement.requirements.types import Requirement

Rank = tuple[bool, int, int, int]


class PodsOnNode(Struct, frozen=True):
    """Pods of one class of one leaf on one node."""

    leaf: str
    pod_class: int
    node: int
    pods: int


class Open(Struct, frozen=True, eq=False):
    """A group that still needs a node set inside another one; the most constrained have the lowest rank."""

    rank: Rank
    requirement: Requirement
    node_set: NodeSet


class SearchState(Struct, frozen=True, eq=False):
    """Decisions so far: groups that still need a node set, demands that have one, and a packing that proves them."""

    agenda: tuple[Open, ...]
    demands: tuple[Demand, ...]
    capacity: SupposedCapacity  # without what the packing of the demands takes
    assignments: tuple[tuple[tuple[int, int], ...], ...]  # of every demand

"""Which nodes are in other domains than before: a gang that is the same value is in other domains only with them."""

from operator import is_

from muster.model.gang.gang import Gang
from muster.model.gang.types import walk_leaves
from muster.model.snapshot import Snapshot
from muster.model.topology import NOWHERE, Level

MovedNodes = frozenset[str] | None  # None: any of them
NONE_MOVED: MovedNodes = frozenset()
Levels = tuple[tuple[str, tuple[str, ...]], ...]  # of every Topology: its name, and its labels


class NodeMoves:
    """The domains of every node in the last snapshot."""

    def __init__(self) -> None:
        self._made_of: tuple[object, object] | None = None
        self._levels: Levels | None = None  # None: nothing is known
        self._places: dict[str, tuple[str, ...]] = {}

    def find_moved(self, snapshot: Snapshot) -> MovedNodes:
        """Nodes that are new, gone, or in other domains than in the last snapshot; the same values are in the same."""
        made_of = snapshot.node_index, snapshot.topologies
        if self._made_of is not None and all(map(is_, made_of, self._made_of)):
            return NONE_MOVED
        levels, places = levels_in(snapshot), places_of(snapshot)
        is_comparable = levels == self._levels
        moved = frozenset(name for name, _ in places.items() ^ self._places.items()) if is_comparable else None
        self._made_of, self._levels, self._places = made_of, levels, places
        return moved

    def forget(self) -> None:
        """Nothing is known: any node may have moved."""
        self._made_of = self._levels = None


def levels_in(snapshot: Snapshot) -> Levels:
    """The levels that gangs may name."""
    return tuple((name, tuple(level.label for level in tree.levels)) for name, tree in snapshot.topologies.items())


def places_of(snapshot: Snapshot) -> dict[str, tuple[str, ...]]:
    """The domain of every node, on each level of each Topology; empty: none."""
    columns = [_domains(level) for tree in snapshot.topologies.values() for level in tree.levels]
    places = zip(*columns, strict=True) if columns else [()] * len(snapshot.node_index)
    return dict(zip(snapshot.node_index, places, strict=True))


def _domains(level: Level) -> list[str]:
    paths = dict(enumerate(level.paths)) | {NOWHERE: ""}
    return [paths[domain] for domain in level.domain.tolist()]


def join(first: MovedNodes, second: MovedNodes) -> MovedNodes:
    """Nodes that have moved with either."""
    return None if first is None or second is None else first | second


def is_touched(gang: Gang, moved: MovedNodes) -> bool:
    """Whether some pod of a gang may be on a node that has moved."""
    if moved is None:
        return True
    return bool(moved) and any(pod.node in moved for leaf in walk_leaves(gang.root) for pod in leaf.members)

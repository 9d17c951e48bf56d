"""From classes back to pods: which pods of a gang take the nodes that the search chose for their class (M4)."""

from collections import Counter
from collections.abc import Sequence

from msgspec.structs import replace

from muster.model.gang.gang import Gang
from muster.model.gang.pod_state import PodState
from muster.model.gang.types import Leaf, Member, walk
from muster.model.gang.updates import with_members
from muster.model.snapshot import Snapshot
from muster.placement.search.search_state import PodsOnNode
from muster.planning.decision import Binding, Role


def assign_pods(snapshot: Snapshot, gang: Gang, seats: Sequence[PodsOnNode], role: Role) -> tuple[list[Binding], Gang]:
    """Classes back to pods, first come first (M4)."""
    waiting = _first_pods(snapshot, gang, seats)
    bindings: list[Binding] = []
    placed: dict[tuple[str, str], Member] = {}
    for seat in seats:
        node = snapshot.nodes[seat.node].metadata.name
        line = waiting[seat.leaf, seat.pod_class]
        for member in line[: seat.pods]:
            bindings.append(Binding(gang.namespace, member.name, node, gang.name, seat.leaf, role))
            placed[seat.leaf, member.name] = replace(member, state=PodState.PLACED, node=node)
        del line[: seat.pods]
    return bindings, with_members(gang, placed)


def _first_pods(snapshot: Snapshot, gang: Gang, seats: Sequence[PodsOnNode]) -> dict[tuple[str, int], list[Member]]:
    """By leaf and class, as many pods that wait as there are seats for, first come first (M4)."""
    chosen: dict[tuple[str, int], list[Member]] = {(seat.leaf, seat.pod_class): [] for seat in seats}
    lacking: Counter[str] = Counter()
    for seat in seats:
        lacking[seat.leaf] += seat.pods
    left = dict.fromkeys(chosen, 0)
    for seat in seats:
        left[seat.leaf, seat.pod_class] += seat.pods
    for leaf in walk(gang.root):
        if not isinstance(leaf, Leaf) or leaf.name not in lacking:
            continue
        for member in leaf.members:
            if member.state is PodState.PENDING and left.get(
                kind := (leaf.name, snapshot.class_of[f"{gang.namespace}/{member.name}"]), 0
            ):
                chosen[kind].append(member)
                left[kind] -= 1
                lacking[leaf.name] -= 1
                if not lacking[leaf.name]:
                    break
    return chosen

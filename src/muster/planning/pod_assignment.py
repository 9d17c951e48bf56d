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


def assign_pods(
    snapshot: Snapshot, gang: Gang, assignment: Sequence[PodsOnNode], role: Role
) -> tuple[list[Binding], Gang]:
    """Bindings for an assignment, and the gang with these pods placed; in the order of the pods (M4)."""
    waiting = _first_pods(snapshot, gang, assignment)
    bindings: list[Binding] = []
    placed: dict[tuple[str, str], Member] = {}
    for assigned in assignment:
        node = snapshot.nodes[assigned.node].metadata.name
        line = waiting[assigned.leaf, assigned.pod_class]
        for member in line[: assigned.pods]:
            bindings.append(Binding(gang.namespace, member.name, node, gang.name, assigned.leaf, role))
            placed[assigned.leaf, member.name] = replace(member, state=PodState.PLACED, node=node)
        del line[: assigned.pods]
    return bindings, with_members(gang, placed)


def _first_pods(
    snapshot: Snapshot, gang: Gang, assignment: Sequence[PodsOnNode]
) -> dict[tuple[str, int], list[Member]]:
    """By leaf and class, as many waiting pods as the assignment has, in order (M4)."""
    chosen: dict[tuple[str, int], list[Member]] = {(assigned.leaf, assigned.pod_class): [] for assigned in assignment}
    lacking: Counter[str] = Counter()
    for assigned in assignment:
        lacking[assigned.leaf] += assigned.pods
    left = dict.fromkeys(chosen, 0)
    for assigned in assignment:
        left[assigned.leaf, assigned.pod_class] += assigned.pods
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

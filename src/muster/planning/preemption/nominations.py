"""Nominations: places that stay reserved for a gang from cycle to cycle (P7).

Waiting pods have theirs in `status.nominatedNodeName`; pods that move, whose replacements have other names, on their
PodGroup (`moved_places`). Reserved places are not free to other gangs, and count in the gang's queue.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from muster.api.quantity import Resources
from muster.fairness.entitlement import why_closed
from muster.model.gang.gang import Gang
from muster.model.gang.pod_state import PodState
from muster.model.gang.state import is_satisfied
from muster.model.gang.types import Leaf, Member, walk
from muster.model.gang.updates import replace_members
from muster.model.topology import NOWHERE
from muster.placement.requirements.builder import Requirements
from muster.placement.requirements.types import RequiredLevel
from muster.placement.search.search_state import PodsOnNode
from muster.planning.cycle_state import CycleState
from muster.planning.decision import Failure
from muster.planning.gang_state import GangState
from muster.planning.preemption.relocation.moved_places import PODS, PromisedPlace, open_places

Ints = NDArray[np.int64]
Held = tuple[PodsOnNode, ...]
Reserved = tuple[tuple[int, Ints], ...]  # node, and amounts by column


class Nominations:
    """The places that earlier cycles nominated, as far as they still hold."""

    def __init__(self, cycle_state: CycleState) -> None:
        self.cycle_state = cycle_state
        self._held: dict[str, Held] = {}  # by gang: the assignment of its waiting core
        self._moves: dict[str, Reserved] = {}  # by gang: for the replacements of its moved pods
        self._hold_nominated()
        self._hold_moves()

    # pods that wait -------------------------------------------------------------------------------------------------

    def _hold_nominated(self) -> None:
        cycle_state = self.cycle_state
        gangs = [gang for gang in cycle_state.snapshot.gangs if gang.has_nominations and not gang.is_settled]
        nominated = dict(self._nominated(gangs))
        if nominated:
            cycle_state.split_later()
        for gang in gangs if nominated else ():
            held = self.cycle_state.attempt(gang.key, partial(self._nominated_assignment, gang, nominated))
            if held and not isinstance(held, Failure):
                self._held[gang.key] = held
                self._take(gang, held, 1)

    def _nominated(self, gangs: Iterable[Gang]) -> Iterator[tuple[str, str]]:
        """Waiting pods with a nominated node, and that node."""
        snapshot = self.cycle_state.snapshot
        for gang in gangs:
            for leaf in walk(gang.root):
                for member in leaf.members_in(PodState.PENDING) if isinstance(leaf, Leaf) else ():
                    name = f"{gang.namespace}/{member.name}"
                    node = snapshot.pods[name].status.nominated_node_name
                    if node in snapshot.node_index:
                        yield name, node

    def _nominated_assignment(self, gang: Gang, nominated: Mapping[str, str]) -> Held:
        """The nominated assignment of a gang; empty where it no longer satisfies the gang."""
        assignment: list[PodsOnNode] = []
        placed: dict[tuple[str, str], Member] = {}
        for leaf in walk(gang.root):
            for member in leaf.members_in(PodState.PENDING) if isinstance(leaf, Leaf) else ():
                node = nominated.get(f"{gang.namespace}/{member.name}")
                if node is not None:
                    pod_class = self.cycle_state.pod_class(gang, member.name)
                    assignment.append(PodsOnNode(leaf.name, pod_class, self.cycle_state.snapshot.node_index[node], 1))
                    placed[leaf.name, member.name] = replace(member, state=PodState.PLACED, node=node)
        if not assignment or why_closed(self.cycle_state.usage.tree, gang.queue) or is_satisfied(gang.root):
            return ()
        after = replace(gang, root=replace_members(gang.root, placed))
        good = is_satisfied(after.root) and self._is_together(after) and self._fit(assignment, later=True)
        return tuple(assignment) if good and self._is_allowed(gang, tuple(assignment), later=True) else ()

    def _take(self, gang: Gang, held: Held, sign: int) -> None:
        """Take an assignment from nodes and queue, or with `sign=-1` give it back."""
        self.cycle_state.take(
            ((assigned.node, assigned.pod_class, assigned.pods) for assigned in held), sign, is_promised=True
        )
        requests, protected = self.cycle_state.requested(held), self._protected(gang, held)
        more, more_protected = (
            {name: sign * number for name, number in amount.items()} for amount in (requests, protected)
        )
        self.cycle_state.usage = self.cycle_state.usage.with_(gang.queue, more, more_protected, is_promised=True)

    def _protected(self, gang: Gang, held: Held) -> Mapping[str, int]:
        return self.cycle_state.protected_increase(
            gang, self.cycle_state.with_placed(gang, held), self.cycle_state.requested(held)
        )

    def _is_allowed(self, gang: Gang, held: Held, later: bool) -> bool:
        """Whether it is within the limits and quotas of its queue (Q4); `later`: once terminating pods are gone."""
        requests = self.cycle_state.requested(held)
        return self.cycle_state.usage.excess(gang.queue, requests, self._protected(gang, held), later) is None

    def _is_together(self, gang: Gang) -> bool:
        """Whether every required level is met (T1), as far as the nodes of its pods exist."""
        requirements = Requirements(gang, self.cycle_state.snapshot)
        if requirements.invalid() or any(requirements.find_lost_pod(group) for group in walk(gang.root)):
            return False
        spots = (
            requirements.resolve_level(group, group.constraint.required_topology_level) for group in walk(gang.root)
        )
        return all(isinstance(spot, RequiredLevel) and spot.pinned != NOWHERE for spot in spots if spot is not None)

    def _fit(self, assignment: list[PodsOnNode] | Held, later: bool) -> bool:
        """Whether an assignment is free now, or once terminating pods are gone."""
        capacity = (self.cycle_state.later if later else self.cycle_state.now).copy()
        for assigned in assignment:
            if not capacity.fits(assigned.pod_class)[assigned.node]:
                return False
            capacity.put(assigned.node, assigned.pod_class, 1)
        return True

    def free_now(self) -> Iterator[tuple[str, Held]]:
        """Gangs whose nominated places have become free, with the assignment: they are bound first (P7).

        Gangs with inter-pod rules are searched for later, with their places free to them.
        """
        touched = self.cycle_state.now.inter_pod.touched
        for name, held in sorted(self._held.items()):
            if any(assigned.pod_class in touched for assigned in held):
                continue
            gang = self.cycle_state.before[name]
            self._take(gang, held, -1)
            if self._fit(held, later=False) and self._is_allowed(gang, held, later=False):
                del self._held[name]
                yield name, held
            else:
                self._take(gang, held, 1)

    def has_reserved(self, gang: str) -> bool:
        """Whether places are reserved for a gang."""
        return gang in self._held or gang in self._moves

    def release(self, gang: str) -> Held:
        """Release the nominated places of a gang, so that its own search may use them."""
        held = self._held.pop(gang, ())
        if held:
            self.cycle_state.save()
            self._take(self.cycle_state.before[gang], held, -1)
        return held

    def renominate(self, gang_state: GangState, held: Held) -> GangState:
        """Nominate the same places again: the gang fits nowhere else yet."""
        return self.cycle_state.nominate(gang_state, held)

    def renominate_victim(self, gang_state: GangState) -> GangState:
        """Nominate the places of a preempted gang again, where they still satisfy it."""
        held = self._held.get(gang_state.gang.key, ())
        if not held or not is_satisfied(self.cycle_state.with_placed(gang_state.gang, held).root):
            return gang_state
        return self.renominate(gang_state, self.release(gang_state.gang.key))

    # pods that move -------------------------------------------------------------------------------------------------

    def _hold_moves(self) -> None:
        unseen = self.cycle_state.policy.moved
        for gang in self.cycle_state.snapshot.gangs:
            if gang.has_nominations or gang.key in unseen:
                held = self._held.get(gang.key, ())  # a pod that moved and is nominated needs one place, not two
                self.hold_moves(self.cycle_state.with_placed(gang, held) if held else gang)

    def hold_moves(self, gang: Gang) -> None:
        """Reserve the promised places of a gang's moved pods whose replacements have not come yet."""
        places = open_places(gang, self.cycle_state.snapshot.now, self.cycle_state.policy.moved.get(gang.key, ""))
        if not places or why_closed(self.cycle_state.usage.tree, gang.queue):
            return
        reserved = tuple(self._reservable(places))
        if reserved and self.cycle_state.usage.excess(gang.queue, self._total(reserved), {}, later=True) is None:
            self._moves[gang.key] = reserved
            self._hold(gang, reserved, 1)

    def _reservable(self, places: Iterable[PromisedPlace]) -> Iterator[tuple[int, Ints]]:
        """By node, the amounts of as many promised pods as fit once terminating pods are gone."""
        index, left = self.cycle_state.snapshot.node_index, dict[int, Ints]()
        for place in places:
            if place.node in index:
                node, each = index[place.node], self._by_column({**place.requests, PODS: 1})
                free = left.get(node, self.cycle_state.later.free[node])
                pods = min(place.pods, int((free[each > 0] // each[each > 0]).min()))
                if pods > 0:
                    left[node] = free - each * pods
                    yield node, each * pods

    def release_moves(self, gang: Gang) -> bool:
        """Release the places of its moved pods, so that its own search may use them. Whether there were any."""
        reserved = self._moves.pop(gang.key, ())
        if reserved:
            self.cycle_state.save()
            self._hold(gang, reserved, -1)
        return bool(reserved)

    def _hold(self, gang: Gang, reserved: Reserved, sign: int) -> None:
        for node, amounts in reserved:
            self.cycle_state.reserve(node, sign * amounts)
        requests = {name: sign * amount for name, amount in self._total(reserved).items()}
        self.cycle_state.usage = self.cycle_state.usage.with_(gang.queue, requests, is_promised=True)

    def _by_column(self, amounts: Mapping[str, int]) -> Ints:
        columns = self.cycle_state.snapshot.columns
        return np.array([amounts.get(name, 0) for name in columns], dtype=np.int64)

    def _total(self, reserved: Reserved) -> Resources:
        total = np.sum([amounts for _, amounts in reserved], axis=0)
        columns = self.cycle_state.snapshot.columns
        return Resources({name: int(total[i]) for i, name in enumerate(columns) if total[i] and name != PODS})

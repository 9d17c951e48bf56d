"""Places that were freed for a gang are kept for it (P7): `status.nominatedNodeName` of its waiting pods."""

from collections.abc import Mapping

from msgspec.structs import replace

from muster.api.objects import key
from muster.model.gang import Gang, Leaf, Member, State, changed, satisfied, walk
from muster.model.topology import NOWHERE
from muster.placement.goal import Goals, Spot
from muster.placement.search import Seat
from muster.planning.board import Board, Turn

Held = tuple[Seat, ...]


class Nominations:
    """What earlier cycles nominated, as far as it still makes a gang whole once those who leave have left."""

    def __init__(self, board: Board) -> None:
        self.board = board
        self._held: dict[str, Held] = {}
        nominated = {
            key(pod.metadata): pod.status.nominated_node_name
            for pod in board.snapshot.objects.pods
            if pod.status.nominated_node_name in board.snapshot.node_index and not pod.spec.node_name
        }
        for gang in board.snapshot.gangs if nominated else ():
            held = self._held_by(gang, nominated)
            if held:
                self._held[gang.key] = held
                self._take(gang, held, 1)

    def _take(self, gang: Gang, held: Held, sign: int) -> None:
        """Room on nodes and in the queue."""
        self.board.put(((seat.node, seat.shape, seat.pods) for seat in held), sign)
        asked, protected = self.board.asked(held), self._protected(gang, held)
        signed = ({name: sign * number for name, number in amount.items()} for amount in (asked, protected))
        self.board.usage = self.board.usage.with_(gang.queue, *signed)

    def _protected(self, gang: Gang, held: Held) -> Mapping[str, int]:
        return self.board.more_protected(gang, self.board.seated(gang, held), self.board.asked(held))

    def _held_by(self, gang: Gang, nominated: dict[str, str]) -> Held:
        """The nominated seats of a gang; none where it changed, or they would not be enough."""
        seats: list[Seat] = []
        placed: dict[tuple[str, str], Member] = {}
        for leaf in walk(gang.root):
            for member in leaf.those(State.PENDING) if isinstance(leaf, Leaf) else ():
                node = nominated.get(f"{gang.namespace}/{member.name}")
                if node is not None:
                    shape = self.board.shape(gang, member.name)
                    seats.append(Seat(leaf.name, shape, self.board.snapshot.node_index[node], 1))
                    placed[leaf.name, member.name] = replace(member, state=State.PLACED, node=node)
        if not seats or gang.queue not in self.board.usage.tree.nodes or satisfied(gang.root):
            return ()
        after = replace(gang, root=changed(gang.root, placed))
        good = satisfied(after.root) and self._together(after) and self._room(seats)
        return tuple(seats) if good and self._allowed(gang, tuple(seats)) else ()

    def _allowed(self, gang: Gang, held: Held) -> bool:
        """Within the limits and quotas of its queue (Q4)."""
        asked = self.board.asked(held)
        return self.board.usage.excess(gang.queue, asked, self._protected(gang, held), later=True) is None

    def _together(self, gang: Gang) -> bool:
        """Every required level is met (T1), for all that anybody knows."""
        goals = Goals(gang, self.board.snapshot)
        if goals.invalid() or any(goals.lost(group) for group in walk(gang.root)):
            return False
        spots = (goals.spot(group, group.constraint.required_topology_level) for group in walk(gang.root))
        return all(isinstance(spot, Spot) and spot.pinned != NOWHERE for spot in spots if spot is not None)

    def _room(self, seats: list[Seat]) -> bool:
        """Whether they fit once those who leave have left."""
        ledger = self.board.later.copy()
        for seat in seats:
            if not ledger.fits(seat.shape)[seat.node]:
                return False
            ledger.put(seat.node, seat.shape, 1)
        return True

    def release(self, gang: str) -> Held:
        """The gang's turn has come: what was kept for it is free to it."""
        held = self._held.pop(gang, ())
        if held:
            self._take(self.board.before[gang], held, -1)
        return held

    def keep(self, turn: Turn, held: Held) -> Turn:
        """It could not go elsewhere: it waits for the places that are kept for it."""
        return self.board.nominate(turn, held)

"""New places of pods that move, from the plan that grants them until the cache shows them on their PodGroups (P7).

The status writer stores them as annotations after the evictions, and no cycle waits for it: until then they are here.
"""

from collections.abc import Callable
from datetime import datetime

from muster.api import names
from muster.api.podgroup import PodGroup
from muster.model.snapshot import Snapshot
from muster.planning.decision import CyclePlan, Eviction
from muster.planning.preemption.relocation.moved_places import annotation, is_newer

Stored = Callable[[str], PodGroup | None]


class UnseenPromises:
    """Annotations by gang that a plan decided and that the cache does not have yet."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def note(self, snapshot: Snapshot, plan: CyclePlan, now: datetime) -> None:
        """Remember the moves of a new plan."""
        moves: dict[str, list[Eviction]] = {}
        for eviction in plan.evictions:
            if eviction.move_to:
                moves.setdefault(eviction.gang, []).append(eviction)
        for gang in snapshot.gangs if moves else ():
            if gang.key in moves and (text := annotation(gang, moves[gang.key], now)) is not None:
                self._texts[gang.key] = text

    def unseen(self, stored: Stored) -> dict[str, str]:
        """Those that no PodGroup carries yet; forgets those that are stored, or whose PodGroup is gone."""
        for key in list(self._texts):
            group = stored(key)
            text = None if group is None else group.metadata.annotations.get(names.MOVED_TO, "")
            if text is None or not is_newer(self._texts[key], text):
                del self._texts[key]
        return dict(self._texts)

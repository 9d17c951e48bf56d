"""What the current cycle has decided about each gang so far."""

from collections.abc import Mapping

from msgspec import Struct

from muster.model.gang.gang import Gang
from muster.planning.decision import Binding, Eviction, Verdict
from muster.planning.refusal import Refusal


class GangState(Struct, frozen=True, eq=False):
    """A gang as it stands in this cycle."""

    gang: Gang  # with what this cycle places, nominates and evicts
    verdict: Verdict
    refusals: tuple[Refusal, ...] = ()
    bindings: tuple[Binding, ...] = ()
    nominations: tuple[Binding, ...] = ()
    evictions: tuple[Eviction, ...] = ()
    unplaceable: frozenset[str] = frozenset()  # parts that do not fit any more


class GangStates(dict[str, GangState]):
    """States by gang. Settled gangs get one when it is first read, and are not listed before that."""

    def __init__(self, gangs: Mapping[str, Gang]) -> None:
        super().__init__((key, GangState(gang, "Waiting")) for key, gang in gangs.items() if not gang.is_settled)
        self._gangs = gangs

    def __missing__(self, key: str) -> GangState:
        gang_state = self[key] = GangState(self._gangs[key], "Scheduled")
        return gang_state

    def copy(self) -> "GangStates":
        """A shallow copy, for a checkpoint."""
        copied = GangStates({})
        copied._gangs = self._gangs
        copied.update(self)
        return copied

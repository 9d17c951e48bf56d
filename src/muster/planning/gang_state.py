"""A gang as it stands in the cycle under way, with all that the cycle has decided about it so far."""

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
    """By gang; those that run and want nothing have one as soon as it is asked for, and are not listed until then."""

    def __init__(self, gangs: Mapping[str, Gang]) -> None:
        super().__init__((key, GangState(gang, "Waiting")) for key, gang in gangs.items() if not gang.is_settled)
        self._gangs = gangs

    def __missing__(self, key: str) -> GangState:
        gang_state = self[key] = GangState(self._gangs[key], "Scheduled")
        return gang_state

    def copy(self) -> "GangStates":
        """The same, to go back to."""
        copied = GangStates({})
        copied._gangs = self._gangs
        copied.update(self)
        return copied

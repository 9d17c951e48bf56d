"""Why running pods are evicted, and how many of them one cycle evicts or moves (P8)."""

from typing import Literal

from msgspec import Struct

EvictionReason = Literal["Preempt", "Reclaim", "Consolidate", "Stale"]
Proof = Literal["exact", "irreducible", ""]  # of a set of victims: no smaller one would do, or none of it can stay


class GangDisturbance(Struct, frozen=True, order=True):
    """How many running pods one gang's placement evicts or moves."""

    gang: str  # namespace/name
    evicted: int
    moved: int
    proof: Proof


class CycleDisturbance(Struct, frozen=True):
    """How many pods a cycle disturbs, and how many it may. Pods that are released as stale do not count."""

    running: int = 0  # pods of gangs on nodes, terminating ones too
    allowed: int = 0  # the share of them that one cycle may disturb; one gang's worth is allowed in any case
    gangs: tuple[GangDisturbance, ...] = ()  # the gangs that get the places

    @property
    def evicted(self) -> int:
        """Victims without a new place."""
        return sum(gang.evicted for gang in self.gangs)

    @property
    def moved(self) -> int:
        """Victims with a new place in the same plan."""
        return sum(gang.moved for gang in self.gangs)

"""What was decided, as data (CONTRACT: `plan -o json`)."""

from typing import Any, Literal

from msgspec import Struct

from muster.fairness.shares import Division
from muster.model.gang.gang import Gang
from muster.model.snapshot import Snapshot
from muster.placement.requirements import Requirements

Verdict = Literal["Scheduled", "Waiting", "Infeasible", "Unknown", "Invalid"]
Role = Literal["core", "extra"]
EvictionReason = Literal["Preempt", "Reclaim", "Consolidate", "Stale"]
Proof = Literal["exact", "irreducible", ""]  # of a set of victims: no smaller one would do, or none of it can stay


class Seat(Struct, frozen=True, order=True, gc=False):
    """A pod of a gang, and a node."""

    namespace: str
    pod: str
    node: str
    pod_group: str
    sub_group: str

    @property
    def key(self) -> str:
        """The pod, by `namespace/name`."""
        return f"{self.namespace}/{self.pod}"

    @property
    def gang(self) -> str:
        """Its PodGroup, by `namespace/name`."""
        return f"{self.namespace}/{self.pod_group}"


class Binding(Seat, frozen=True, order=True, gc=False):
    """A pod and the node it goes to."""

    role: Role


class Eviction(Seat, frozen=True, order=True, gc=False):
    """A pod that has to leave, why, and for whom; `move_to`: where its replacement has a proven place."""

    reason: EvictionReason
    whom: str  # namespace/name of the gang it makes room for; its own where it is stale
    move_to: str = ""
    proof: Proof = ""  # empty: it is released as stale


class MadeRoom(Struct, frozen=True, order=True):
    """What one gang's place costs others: pods that leave, and pods that move."""

    gang: str  # namespace/name
    evicted: int
    moved: int
    proof: Proof


class CycleDisturbance(Struct, frozen=True):
    """How much a cycle disturbs, and how much it may (P8). Pods that are released as stale do not count."""

    running: int = 0  # pods of gangs on nodes, terminating ones too
    allowed: int = 0  # the share of them that one cycle may disturb; one gang's worth is allowed in any case
    gangs: tuple[MadeRoom, ...] = ()  # for which gangs

    @property
    def evicted(self) -> int:
        """Pods that leave."""
        return sum(one.evicted for one in self.gangs)

    @property
    def moved(self) -> int:
        """Pods that have a new place in the same plan."""
        return sum(one.moved for one in self.gangs)


class Refusal(Struct, frozen=True):
    """Why a gang, or a part of it, is not placed; `details` are facts, words are made in `reporting`."""

    reason: str
    sub_group: str = ""
    details: dict[str, Any] = {}


class Failure(Struct, frozen=True):
    """An error in the work for one gang: a bug, which is that gang's verdict and nobody else's; to be logged."""

    gang: str  # namespace/name
    error: str  # the type of the exception
    message: str
    traceback: str = ""

    @property
    def refusal(self) -> Refusal:
        """What people read: the traceback is for the log."""
        return Refusal("InternalError", details={"error": self.error, "message": self.message})


class GangPlan(Struct, frozen=True, eq=False):
    """What a cycle decided about one gang."""

    gang: Gang  # with what this cycle places, nominates and evicts
    verdict: Verdict
    refusals: tuple[Refusal, ...] = ()
    snapshot: Snapshot | None = None  # what it was decided on
    position: int = 0  # in its queue, of the gangs that wait: 1 is next; 0: it does not wait
    ahead: tuple[str, ...] = ()  # the nearest gangs before it there, by namespace/name

    @property
    def domains(self) -> dict[str, str]:
        """For every group with a level: the domain that its placed pods share."""
        return {} if self.snapshot is None else Requirements(self.gang, self.snapshot).domains()


class CyclePlan(Struct, frozen=True, eq=False):
    """One scheduling cycle. Lists are sorted: the same input gives the same bytes (X3)."""

    bindings: tuple[Binding, ...] = ()
    nominations: tuple[Binding, ...] = ()  # places on room that is still being freed
    evictions: tuple[Eviction, ...] = ()
    gangs: tuple[GangPlan, ...] = ()
    searches: tuple[int, ...] = ()  # the steps that were taken for each gang whose turn came (X7)
    disturbance: CycleDisturbance = CycleDisturbance()
    division: Division | None = None  # the queues before it, as they share the cluster (Q3)
    failures: tuple[Failure, ...] = ()  # gangs for which the work ended with an error, by key

    def gang(self, key: str) -> GangPlan:
        """What was decided about one gang, by `namespace/name`."""
        for found in self.gangs:
            if found.gang.key == key:
                return found
        known = ", ".join(found.gang.key for found in self.gangs[:12]) or "none"
        raise KeyError(f"there is no podgroup `{key}` in this plan; known: {known}")

    def verdict(self, key: str) -> Verdict:
        """The verdict on one gang."""
        return self.gang(key).verdict

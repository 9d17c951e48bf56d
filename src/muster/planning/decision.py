"""The decisions of a cycle as data (CONTRACT: `plan -o json`)."""

from typing import Literal

from msgspec import Struct

from muster.fairness.shares import Division
from muster.model.gang.gang import Gang
from muster.model.snapshot import Snapshot
from muster.placement.requirements.builder import Requirements
from muster.planning.disturbance import CycleDisturbance, EvictionReason, Proof
from muster.planning.refusal import InternalError, Refusal

Verdict = Literal["Scheduled", "Waiting", "Infeasible", "Unknown", "Invalid"]
Role = Literal["core", "extra"]


class PodDecision(Struct, frozen=True, order=True, gc=False):
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


class Binding(PodDecision, frozen=True, order=True, gc=False):
    """A pod and the node it goes to."""

    role: Role


class Eviction(PodDecision, frozen=True, order=True, gc=False):
    """A victim, why, and the gang that preempts it; `move_to`: the node reserved for its replacement."""

    reason: EvictionReason
    preemptor: str  # namespace/name of the gang that gets its place; its own gang where it is stale
    move_to: str = ""
    proof: Proof = ""  # empty: it is released as stale
    short: str = ""  # of a release: the SubGroup that was below its minimum; empty: the gang has none


class Failure(Struct, frozen=True):
    """An error in the work for one gang: a bug, which becomes the verdict of that gang only; to be logged."""

    gang: str  # namespace/name
    error: str  # the type of the exception
    message: str
    traceback: str = ""

    @property
    def refusal(self) -> InternalError:
        """The refusal of the gang, without the traceback, which is for the log."""
        return InternalError(self.error, self.message)


class GangPlan(Struct, frozen=True, eq=False):
    """What a cycle decided about one gang."""

    gang: Gang  # with what this cycle places, nominates and evicts
    verdict: Verdict
    refusals: tuple[Refusal, ...] = ()
    snapshot: Snapshot | None = None  # that the decision is based on
    position: int = 0  # among the waiting gangs of its queue: 1 is next; 0: it does not wait
    ahead: tuple[str, ...] = ()  # the nearest gangs before it there, by namespace/name

    @property
    def domains(self) -> dict[str, str]:
        """For every group with a level: the domain that its placed pods share."""
        return {} if self.snapshot is None else Requirements(self.gang, self.snapshot).domains()


class CyclePlan(Struct, frozen=True, eq=False):
    """One scheduling cycle. Lists are sorted: the same input gives the same bytes (X3)."""

    bindings: tuple[Binding, ...] = ()
    nominations: tuple[Binding, ...] = ()  # on capacity that is still being freed
    evictions: tuple[Eviction, ...] = ()
    gangs: tuple[GangPlan, ...] = ()
    searches: tuple[int, ...] = ()  # the steps taken for each gang that was tried (X7)
    disturbance: CycleDisturbance = CycleDisturbance()
    division: Division | None = None  # the queues before it, as they share the cluster (Q3)
    failures: tuple[Failure, ...] = ()  # gangs for which the work ended with an error, by key

    def gang(self, key: str) -> GangPlan:
        """What was decided about one gang, by `namespace/name`."""
        for plan in self.gangs:
            if plan.gang.key == key:
                return plan
        known = ", ".join(plan.gang.key for plan in self.gangs[:12]) or "none"
        raise KeyError(f"there is no podgroup `{key}` in this plan; known: {known}")

    def verdict(self, key: str) -> Verdict:
        """The verdict on one gang."""
        return self.gang(key).verdict

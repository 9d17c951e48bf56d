"""Why a gang, or a part of it, is not placed: one type per reason, with the facts and no words.

Rule 1: the class name is the reason of the contract. Rule 2: `reporting.explain` makes the sentences and
`reporting.refusal_details` the JSON; both match on the union, so a new reason without words does not type-check.
Eviction could help a `DoesNotFit` only: preemption is tried before one is reported.
"""

from msgspec import Struct

from muster.fairness.entitlement import Excess
from muster.model.shortage import Shortage
from muster.placement.claims import ClaimTrouble
from muster.planning.disturbance import EvictionReason


class ExtraPart(Struct, frozen=True):
    """The further part of a running gang that a refusal is about (G3)."""

    name: str | None = None  # None: no part in particular; empty: pods of the PodGroup itself
    further_pods: int | None = None  # pending pods of a satisfied leaf; None: a SubGroup that is not satisfied
    alike: tuple[str, ...] = ()  # further parts that wait for the same reason


class BaseRefusal(Struct, frozen=True, kw_only=True):
    """The fields of every refusal."""

    sub_group: str = ""  # empty: the PodGroup itself
    extra: ExtraPart | None = None  # None: it is about the core, or the gang as a whole

    @property
    def reason(self) -> str:
        """The reason of the contract."""
        return type(self).__name__


# not tried: pods are missing, or the spec cannot be met ---------------------------------------------------------------


class NotEnoughPods(BaseRefusal, frozen=True):
    """A minimum counts pods that do not exist, or that cannot be placed yet (N5)."""

    shortages: tuple[Shortage, ...] = ()  # that of `sub_group` first; none: counts are not known
    detail: str = ""


class InvalidSpec(BaseRefusal, frozen=True):
    """The spec is not a tree, or names what does not exist (T6)."""

    detail: str = ""


class Unsupported(BaseRefusal, frozen=True):
    """Pods use a scheduling rule that muster does not implement."""

    detail: str = ""


class NodeUnknown(BaseRefusal, frozen=True):
    """A group must stay in one domain, and one of its pods is on a node that does not exist (decision 0010)."""

    pod: str
    node: str
    level: str


# does not fit ---------------------------------------------------------------------------------------------------------


class BestDomain(Struct, frozen=True):
    """The domain that takes the most pods of a requirement; without a required level, the whole cluster."""

    fits: int = 0  # pods of the requirement that it takes
    domain: str = ""
    level: str = ""  # empty: no level is required
    is_pinned: bool | None = None  # placed pods leave no other domain; None: no level is required, or no domain exists
    is_apart: bool = False  # placed pods are in several domains already
    resource: str = ""  # that is missing most; empty: not known
    missing: int = 0


class BlockingRule(Struct, frozen=True):
    """The inter-pod rule without which the requirement would fit."""

    rule: str
    key: str  # the topology key
    skew: int


class SmallerRequest(Struct, frozen=True):
    """A change of one field with which the gang would fit now (E1)."""

    group: str
    field: str  # minMember, minSubGroup or requiredTopologyLevel
    was: int | str
    fits: int | str  # the level: empty where none may be required
    lost: int = 0  # pods that it no longer needs; for a level, how many levels coarser it is

    @property
    def weight(self) -> tuple[bool, int]:
        """Smallest first: minimums by the pods that they give up, then levels."""
        return self.field == "requiredTopologyLevel", self.lost


class UnevictablePods(Struct, frozen=True):
    """Pods whose eviction might have helped, but budgets or the API server forbid it (P6)."""

    count: int
    names: tuple[str, ...]  # the first of them


class DoesNotFit(BaseRefusal, frozen=True, kw_only=True):
    """The search found no placement: the smallest part that does not fit, and the best that the cluster offers."""

    need: int
    best: BestDomain
    refused_nodes: tuple[tuple[str, int], ...] = ()  # by filter, the nodes that it refuses
    nodes: int = 0
    claim: ClaimTrouble | None = None  # a claim that keeps some of its pods from every node
    rule: BlockingRule | None = None
    changes: tuple[SmallerRequest, ...] | None = None  # None: none were tried
    fits_soon: bool = False  # once the terminating pods are gone
    unevictable: UnevictablePods | None = None


class VolumeNotBound(DoesNotFit, frozen=True, kw_only=True):
    """A claim of its pods has no usable volume (X5)."""

    claim: ClaimTrouble


class NoNodeMatches(DoesNotFit, frozen=True):
    """Every node fails a filter."""


class RulesBetweenPods(DoesNotFit, frozen=True, kw_only=True):
    """Only an inter-pod rule stands in the way."""

    rule: BlockingRule


class NoDomain(DoesNotFit, frozen=True):
    """No domain of the required level holds it."""


class NoRoom(DoesNotFit, frozen=True):
    """The cluster has too little free."""


# queues ---------------------------------------------------------------------------------------------------------------


class QueueClosed(BaseRefusal, frozen=True):
    """A queue from which nothing is scheduled (Q1, Q2)."""

    queue: str


class QueueDoesNotExist(QueueClosed, frozen=True):
    """There is no such queue."""


class QueueNotInTree(QueueClosed, frozen=True):
    """A queue above it is missing, or its parents form a cycle."""


class QueueNotALeaf(QueueClosed, frozen=True):
    """It has child queues, and workloads go to those."""


class QueueExceeded(BaseRefusal, frozen=True):
    """A queue would hold more than it may (Q4)."""

    excess: Excess
    changes: tuple[SmallerRequest, ...] | None = None  # None: none were tried


class OverLimit(QueueExceeded, frozen=True):
    """More than its limit."""


class NonPreemptibleOverQuota(QueueExceeded, frozen=True):
    """More non-preemptible pods than its quota."""


# everything else ------------------------------------------------------------------------------------------------------


class SearchCutShort(BaseRefusal, frozen=True):
    """The budget of steps ran out before the search found a placement or a proof (X2, X7)."""

    moves: bool = False  # there is no free capacity, and not every way to move other pods was tried


class MoreExtrasWait(BaseRefusal, frozen=True):
    """Further parts that wait, beyond those with a reason of their own."""

    parts: int


class Evicted(BaseRefusal, frozen=True):
    """Its pods are victims of this cycle."""

    preemptor: str  # namespace/name of the gang that gets their place
    by: EvictionReason
    pods: int


class OtherScheduler(BaseRefusal, frozen=True):
    """Some or all of its pods name other schedulers (N6)."""

    schedulers: tuple[str, ...]
    is_all: bool


class PriorityClassDoesNotExist(BaseRefusal, frozen=True):
    """It names a PriorityClass that does not exist."""

    priority_class: str


class BackedOff(BaseRefusal, frozen=True):
    """Its one attempt failed, and nothing has changed since (S4)."""

    failed_reason: str
    message: str


class BindingFailed(BaseRefusal, frozen=True):
    """The plan placed it, and the API server did not accept every binding."""

    detail: str


class DisturbanceLimit(BaseRefusal, frozen=True):
    """Its victims would be too many for one cycle (P8)."""

    disturbed: int  # pods that this cycle evicts or moves already
    allowed: int
    running: int = 0


class InternalError(BaseRefusal, frozen=True):
    """The work for this gang ended with an error: a bug."""

    error: str  # the type of the exception
    message: str


NotTried = NotEnoughPods | InvalidSpec | Unsupported | NodeUnknown
FitRefusal = VolumeNotBound | NoNodeMatches | RulesBetweenPods | NoDomain | NoRoom
ClosedQueueRefusal = QueueDoesNotExist | QueueNotInTree | QueueNotALeaf
QuotaRefusal = OverLimit | NonPreemptibleOverQuota
AttemptRefusal = SearchCutShort | MoreExtrasWait | BackedOff | BindingFailed | DisturbanceLimit | InternalError
GangRefusal = Evicted | OtherScheduler | PriorityClassDoesNotExist
Refusal = NotTried | FitRefusal | ClosedQueueRefusal | QuotaRefusal | AttemptRefusal | GangRefusal

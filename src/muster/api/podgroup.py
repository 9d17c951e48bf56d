"""PodGroup: the root of a tree of SubGroups (N, M), as KAI's with muster's additions."""

from typing import Annotated, Any

from muster.api.meta import Condition, ObjectMeta, Wire, doc
from muster.api.quantity import Resources

_LARGEST = 2**31 - 1
_LABEL = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"


class TopologyConstraint(Wire, frozen=True):
    """In which domain the pods of a group must, or should, sit together (T1, T2)."""

    topology: Annotated[str, doc("The Topology to use; unset: the nearest ancestor's, else the only one there is.")] = (
        ""
    )
    required_topology_level: Annotated[
        str, doc("All pods of the group sit in one domain of this level, named by its node label or its last part.")
    ] = ""
    preferred_topology_level: Annotated[
        str, doc("The pods of the group sit in one domain of this level whenever some placement allows it.")
    ] = ""


class SubGroup(Wire, frozen=True):
    """A part of the workload. With children it is a branch and counts them; without, it is a leaf and has pods."""

    name: Annotated[
        str,
        doc(
            "Unique in the PodGroup; pods name a leaf with it.",
            required=True,
            minLength=1,
            maxLength=63,
            pattern=_LABEL,
        ),
    ] = ""
    parent: Annotated[str, doc("The SubGroup above; unset: directly under the PodGroup.", maxLength=63)] = ""
    min_member: Annotated[
        int | None, doc("Leaf: how many pods must run before any may.", minimum=0, maximum=_LARGEST)
    ] = None
    min_sub_group: Annotated[
        int | None,
        doc(
            "Branch: how many of the direct children must run before any may; unset: all.", minimum=0, maximum=_LARGEST
        ),
    ] = None
    topology_constraint: Annotated[
        TopologyConstraint | None, doc("The topology domain that the pods of this SubGroup share.")
    ] = None


class PodGroupSpec(Wire, frozen=True):
    """What must run together, where, and what preemption may evict."""

    queue: Annotated[str, doc("The queue whose quota the pods use; unset: `default`.")] = ""
    priority_class_name: Annotated[str, doc("The PriorityClass; unset: the global default, else 50.")] = ""
    preemptibility: Annotated[
        str,
        doc(
            "What may be evicted: all pods, none, or only those above the minimums. "
            "Unset: preemptible where the priority is below 100.",
            enum=["preemptible", "non-preemptible", "semi-preemptible"],
        ),
    ] = ""
    min_member: Annotated[
        int | None,
        doc(
            "How many pods must run before any may; unset: 1. Beside subGroups, which are then all needed: how many in "
            "total.",
            minimum=0,
            maximum=_LARGEST,
        ),
    ] = None
    min_sub_group: Annotated[
        int | None,
        doc("How many of the top SubGroups must run before any may; unset: all.", minimum=0, maximum=_LARGEST),
    ] = None
    topology_constraint: Annotated[
        TopologyConstraint | None, doc("The topology domain that all pods of the workload share.")
    ] = None
    staleness_grace_period: Annotated[
        str | int | None,
        doc(
            "How long a gang below its minimum may wait for replacements before all its pods are evicted: "
            "a duration such as `60s`, or whole seconds; negative: for ever.",
        ),
    ] = None
    mark_unschedulable: Annotated[bool, doc("Write PodScheduled=False on pods that wait.", default=True)] = True
    scheduling_backoff: Annotated[
        int,
        doc("-1: keep trying; 1: stop after one failed attempt until something changes.", enum=[-1, 1], default=-1),
    ] = -1
    sub_groups: Annotated[
        tuple[SubGroup, ...],
        doc(
            "The parts, as a flat list; `parent` makes the tree. Order matters: earlier comes first.",
            maxItems=10000,
            **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        ),
    ] = ()
    subgroups: Annotated[Any, doc("Older form of subGroups (D4); read only to be refused.")] = None
    topology_constraints: Annotated[
        Any, doc("Older form of topologyConstraint on groups (D3); read only to be refused.")
    ] = None


class ResourcesStatus(Wire, frozen=True):
    """What the gang requests and what it uses (E2)."""

    requested: Annotated[Resources, doc("Of every pod that runs or waits.")] = Resources()
    allocated: Annotated[Resources, doc("Of every pod that is placed, leftovers too.")] = Resources()
    allocated_non_preemptible: Annotated[Resources, doc("Of the placed pods that preemption may not evict.")] = (
        Resources()
    )


class LevelStatus(Wire, frozen=True):
    """One level of the tree; the name is empty for the PodGroup itself (E2)."""

    name: Annotated[str, doc("The SubGroup, or empty for the PodGroup itself.")] = ""
    min_member: Annotated[
        int, doc("Pods that must run: of a leaf; of a branch of an older PodGroup, below it in all (M5).")
    ] = 0
    min_sub_group: Annotated[int, doc("Branch: direct children that must be satisfied; 0 on a leaf.")] = 0
    sub_groups: Annotated[int, doc("Branch: direct children that there are.")] = 0
    satisfied_sub_groups: Annotated[int, doc("Branch: direct children that are satisfied.")] = 0
    satisfied: Annotated[bool, doc("Every minimum of this level is met, and of as many levels below as it needs.")] = (
        False
    )
    placed: Annotated[int, doc("Pods placed at or below this level.")] = 0
    succeeded: Annotated[int, doc("Pods at or below this level that succeeded; they count for the minimum.")] = 0
    pending: Annotated[int, doc("Pods at or below this level that wait and could be placed.")] = 0
    gated: Annotated[int, doc("Pods at or below this level behind scheduling gates.")] = 0
    domain: Annotated[str, doc("Where the pods of this level sit together, from the top level down.")] = ""


class DisturbanceStatus(Wire, frozen=True):
    """What the places of a gang cost others (P8)."""

    evicted: Annotated[int, doc("Pods of others that leave for it.")] = 0
    moved: Annotated[int, doc("Pods of others that move for it: their replacements have proven places.")] = 0
    allowed: Annotated[int, doc("Pods that one cycle was allowed to disturb, for all gangs together.")] = 0
    proof: Annotated[
        str, doc("exact: no smaller set of victims would do; irreducible: none of this set could stay.")
    ] = ""


class PodGroupStatus(Wire, frozen=True):
    """What muster last found."""

    phase: Annotated[str, doc("Pending, Running, Succeeded or Failed.")] = ""
    satisfied: Annotated[bool | None, doc("Every minimum from the root down is met.")] = None
    running: Annotated[int, doc("Pods that are placed.")] = 0
    pending: Annotated[int, doc("Pods that wait, those behind scheduling gates too.")] = 0
    succeeded: Annotated[int, doc("Pods that have done their part.")] = 0
    failed: Annotated[int, doc("Pods that failed.")] = 0
    leftovers: Annotated[
        int,
        doc("Pods that run in no leaf, as their SubGroup was removed (N4): they count for nothing and leave first."),
    ] = 0
    resources_status: Annotated[ResourcesStatus, doc("What the gang asks for and what it has.")] = ResourcesStatus()
    levels: Annotated[tuple[LevelStatus, ...], doc("Every level of the tree, parents before children.")] = ()
    conditions: Annotated[
        tuple[Condition, ...],
        doc(
            "In the Kubernetes form.",
            **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
        ),
    ] = ()
    disturbance: Annotated[
        DisturbanceStatus | None, doc("Set while places are being freed for the gang: what that costs others.")
    ] = None
    scheduler_name: Annotated[
        str, doc("The scheduler that reports here; set where pods of the gang ask for several.")
    ] = ""


class PodGroup(Wire, frozen=True):
    """A workload whose pods start together: nothing starts until enough have mustered, at every level."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus | None = None  # None: no scheduler has written it yet

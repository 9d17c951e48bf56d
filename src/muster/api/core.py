"""Kubernetes' own objects, as much of them as muster reads."""

from muster.api.meta import LabelSelector, ObjectMeta, Wire
from muster.api.quantity import Resources


class ResourceRequirements(Wire, frozen=True):
    """What a container, or a pod as a whole, asks for and may use at most."""

    requests: Resources = Resources()
    limits: Resources = Resources()


class Container(Wire, frozen=True):
    """A container; `restart_policy: Always` makes an init container a sidecar."""

    name: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str = ""


class SchedulingGate(Wire, frozen=True):
    """As long as a pod has one, it must not be placed (N5)."""

    name: str = ""


class PodSpec(Wire, frozen=True):
    """What a pod asks for."""

    node_name: str = ""  # empty: not bound
    scheduler_name: str = ""
    priority_class_name: str = ""
    priority: int | None = None
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    overhead: Resources = Resources()
    resources: ResourceRequirements = ResourceRequirements()  # pod-level: cpu, memory and huge pages only
    scheduling_gates: tuple[SchedulingGate, ...] = ()


class PodStatus(Wire, frozen=True):
    """How far a pod has come."""

    phase: str = ""  # empty: as good as Pending
    nominated_node_name: str = ""


class Pod(Wire, frozen=True):
    """A pod, whoever schedules it."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class Taint(Wire, frozen=True):
    """Keeps pods off a node unless they tolerate it."""

    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(Wire, frozen=True):
    """What an operator says about a node."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeCondition(Wire, frozen=True):
    """One condition of a node, such as Ready."""

    type: str = ""
    status: str = ""


class NodeStatus(Wire, frozen=True):
    """What a node offers."""

    allocatable: Resources = Resources()
    capacity: Resources = Resources()
    conditions: tuple[NodeCondition, ...] = ()


class Node(Wire, frozen=True):
    """A host."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class PriorityClass(Wire, frozen=True):
    """A named priority (P1)."""

    metadata: ObjectMeta = ObjectMeta()
    value: int = 0
    global_default: bool = False


class PodDisruptionBudgetSpec(Wire, frozen=True):
    """How many of the selected pods must stay, or may go."""

    selector: LabelSelector | None = None  # None: selects nothing
    min_available: int | str | None = None
    max_unavailable: int | str | None = None


class PodDisruptionBudgetStatus(Wire, frozen=True):
    """What the disruption controller last found."""

    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0


class PodDisruptionBudget(Wire, frozen=True):
    """A limit on voluntary evictions (P6)."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()

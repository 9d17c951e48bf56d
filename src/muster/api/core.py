"""Kubernetes' own objects, as much of them as muster reads."""

import msgspec

from muster.api.meta import LabelSelector, ObjectMeta, Wire
from muster.api.quantity import Resources


class ResourceRequirements(Wire, frozen=True):
    """Requests and limits of a container, or of a pod as a whole."""

    requests: Resources = Resources()
    limits: Resources = Resources()


class ContainerPort(Wire, frozen=True):
    """A port; with a `host_port` no two pods of a node may share it."""

    container_port: int = 0
    host_port: int = 0
    host_ip: str = msgspec.field(name="hostIP", default="")
    protocol: str = "TCP"


class Container(Wire, frozen=True):
    """A container; `restart_policy: Always` makes an init container a sidecar."""

    name: str = ""
    ports: tuple[ContainerPort, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str = ""


class SchedulingGate(Wire, frozen=True):
    """As long as a pod has one, it must not be placed (N5)."""

    name: str = ""


class NodeSelectorRequirement(Wire, frozen=True):
    """One expression over the labels, or the name, of a node."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Wire, frozen=True):
    """Expressions that must all hold; an empty term matches no node."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(Wire, frozen=True):
    """Terms of which one must hold."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredSchedulingTerm(Wire, frozen=True):
    """A preferred term and its weight."""

    weight: int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Wire, frozen=True):
    """Which nodes a pod must, or should, be on."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredSchedulingTerm, ...] = ()


class PodAffinityTerm(Wire, frozen=True):
    """Other pods, and the label whose value makes nodes one place."""

    topology_key: str = ""
    label_selector: LabelSelector | None = None  # None: selects no pod
    namespaces: tuple[str, ...] = ()  # empty, with no selector: the pod's own
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class PodAffinity(Wire, frozen=True):
    """Pods to be near to, or away from."""

    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()


class Affinity(Wire, frozen=True):
    """Node affinity, pod affinity and pod anti-affinity."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(Wire, frozen=True):
    """A taint that a pod tolerates."""

    key: str = ""
    operator: str = ""  # empty: Equal
    value: str = ""
    effect: str = ""  # empty: every effect


class TopologySpreadConstraint(Wire, frozen=True):
    """How evenly pods are spread over the values of a label."""

    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    match_label_keys: tuple[str, ...] = ()
    node_affinity_policy: str = ""
    node_taints_policy: str = ""


class ClaimSource(Wire, frozen=True):
    """The claim behind a volume."""

    claim_name: str = ""


class EphemeralSource(Wire, frozen=True):
    """A claim that is made for the pod."""


class Volume(Wire, frozen=True):
    """A volume of a pod, as far as it can pin it to a place."""

    name: str = ""
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: EphemeralSource | None = None


class PodResourceClaim(Wire, frozen=True):
    """A device claimed through dynamic resource allocation."""

    name: str = ""


class PodSpec(Wire, frozen=True):
    """What a pod requests, and where it may run."""

    node_name: str = ""  # empty: not bound
    scheduler_name: str = ""
    priority_class_name: str = ""
    priority: int | None = None
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    overhead: Resources = Resources()
    resources: ResourceRequirements = ResourceRequirements()  # pod-level: cpu, memory and huge pages only
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    node_selector: dict[str, str] = msgspec.field(default_factory=dict)
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    volumes: tuple[Volume, ...] = ()
    host_network: bool = False
    resource_claims: tuple[PodResourceClaim, ...] = ()


class PodStatus(Wire, frozen=True):
    """How far a pod has come."""

    phase: str = ""  # empty: as good as Pending
    nominated_node_name: str = ""


class Pod(Wire, frozen=True):
    """A pod of any scheduler."""

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


class Namespace(Wire, frozen=True):
    """A namespace; rules between pods may select it by its labels."""

    metadata: ObjectMeta = ObjectMeta()


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
    status: PodDisruptionBudgetStatus | None = None


class VolumeNodeAffinity(Wire, frozen=True):
    """The nodes from which a volume can be reached."""

    required: NodeSelector | None = None


class PersistentVolumeSpec(Wire, frozen=True):
    """Where a volume is."""

    node_affinity: VolumeNodeAffinity | None = None


class PersistentVolume(Wire, frozen=True):
    """A volume; it may be bound to a zone or a node."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeSpec = PersistentVolumeSpec()


class PersistentVolumeClaimSpec(Wire, frozen=True):
    """The storage class, and the volume that is bound."""

    volume_name: str = ""  # empty: not bound yet
    storage_class_name: str = ""


class PersistentVolumeClaim(Wire, frozen=True):
    """A claim on a volume."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()


class TopologySelectorRequirement(Wire, frozen=True):
    """A node label and the values that do."""

    key: str = ""
    values: tuple[str, ...] = ()


class TopologySelectorTerm(Wire, frozen=True):
    """Nodes with every one of these labels."""

    match_label_expressions: tuple[TopologySelectorRequirement, ...] = ()


class StorageClass(Wire, frozen=True):
    """How volumes are made, when, and where."""

    metadata: ObjectMeta = ObjectMeta()
    provisioner: str = ""
    volume_binding_mode: str = ""  # empty: Immediate
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()  # none: everywhere

"""PodClique: pods of one role, and how few of them are of use."""

from typing import Annotated, Any

from muster.api.grove.progress import LastError, PodCliqueUpdateProgress
from muster.api.meta import Condition, ObjectMeta, Wire, doc

_LARGEST = 2**31 - 1
CONDITIONS = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
PRESERVED = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
MOST_TEMPLATES = 256  # cliques or groups of a set: a role each, and what CEL can compare within its budget
MOST_CLIQUES = 5_000  # PodCliques of one set: it is reconciled as a whole, in a third of a second when it is that large
NAMES = {"maxItems": MOST_TEMPLATES, "items": {"type": "string", "maxLength": 63}}


class AutoScalingConfig(Wire, frozen=True):
    """How far a HorizontalPodAutoscaler may scale, and by which metrics."""

    min_replicas: Annotated[int | None, doc("Lower limit; unset: the replicas of the template.", minimum=0)] = None
    max_replicas: Annotated[int, doc("Upper limit.", required=True, maximum=_LARGEST)] = 0
    metrics: Annotated[
        tuple[Any, ...], doc("Metrics of autoscaling/v2; unset: 80 % of the requested CPU.", items=PRESERVED)
    ] = ()


class PodCliqueSpec(Wire, frozen=True):
    """The pods of one role."""

    role_name: Annotated[str, doc("What these pods do; unique in a PodCliqueSet.", required=True, maxLength=253)] = ""
    pod_spec: Annotated[Any, doc("The spec of each pod.", required=True, **PRESERVED)] = None
    replicas: Annotated[int, doc("How many pods there are.", minimum=0, maximum=_LARGEST, default=1)] = 1
    min_available: Annotated[
        int | None,
        doc("How many must be scheduled together, and stay available; unset: the replicas of the template.", minimum=0),
    ] = None
    starts_after: Annotated[
        tuple[str, ...], doc("Cliques that start first, where the startup type is Explicit.", **NAMES)
    ] = ()
    auto_scaling_config: Annotated[
        AutoScalingConfig | None, doc("Set: a HorizontalPodAutoscaler scales the clique.")
    ] = None


class PodCliqueStatus(Wire, frozen=True):
    """What the operator last found of a clique."""

    observed_generation: Annotated[int, doc("The generation that this status is about.")] = 0
    replicas: Annotated[int, doc("Pods that are not terminating.")] = 0
    ready_replicas: Annotated[int, doc("Pods that are ready.", default=0)] = 0
    updated_replicas: Annotated[int, doc("Pods of the latest template.", default=0)] = 0
    schedule_gated_replicas: Annotated[int, doc("Pods behind scheduling gates.", default=0)] = 0
    scheduled_replicas: Annotated[int, doc("Pods that are bound to a node.", default=0)] = 0
    hpa_pod_selector: Annotated[str, doc("Selects the pods of the clique, for autoscalers.")] = ""
    current_pod_clique_set_generation_hash: Annotated[str, doc("The set's template that every pod has.")] = ""
    current_pod_template_hash: Annotated[str, doc("The pod template that every pod has.")] = ""
    update_progress: Annotated[
        PodCliqueUpdateProgress | None, doc("The update that is under way, or the last one.")
    ] = None
    last_errors: Annotated[tuple[LastError, ...], doc("What the operator failed to do last.")] = ()
    conditions: Annotated[tuple[Condition, ...], doc("In the Kubernetes form.", **CONDITIONS)] = ()


class PodClique(Wire, frozen=True):
    """A set of equal pods; the operator makes it from a PodCliqueSet."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodCliqueSpec = PodCliqueSpec()
    status: PodCliqueStatus | None = None

"""PodCliqueScalingGroup: cliques of a set that scale together."""

from typing import Annotated

from muster.api.grove.pod_clique import CONDITIONS, MOST_CLIQUES
from muster.api.grove.progress import LastError, ScalingGroupUpdateProgress
from muster.api.meta import Condition, ObjectMeta, Wire, doc


class PodCliqueScalingGroupSpec(Wire, frozen=True):
    """How many replicas of which cliques."""

    replicas: Annotated[int, doc("How many replicas there are.", minimum=0, maximum=MOST_CLIQUES, default=1)] = 1
    min_available: Annotated[
        int, doc("How many replicas are in the base gang, and must stay available.", minimum=0, default=1)
    ] = 1
    clique_names: Annotated[tuple[str, ...], doc("The cliques of each replica.", required=True)] = ()


class PodCliqueScalingGroupStatus(Wire, frozen=True):
    """What the operator last found of a group."""

    observed_generation: Annotated[int, doc("The generation that this status is about.")] = 0
    replicas: Annotated[int, doc("Replicas that exist.")] = 0
    scheduled_replicas: Annotated[int, doc("Replicas whose cliques have their minimum scheduled.", default=0)] = 0
    available_replicas: Annotated[int, doc("Replicas whose cliques have their minimum ready.", default=0)] = 0
    updated_replicas: Annotated[int, doc("Replicas of the latest template.", default=0)] = 0
    selector: Annotated[str, doc("Selects the pods of the group, for autoscalers.")] = ""
    current_pod_clique_set_generation_hash: Annotated[str, doc("The set's template that every replica has.")] = ""
    update_progress: Annotated[
        ScalingGroupUpdateProgress | None, doc("The update that is under way, or the last one.")
    ] = None
    last_errors: Annotated[tuple[LastError, ...], doc("What the operator failed to do last.")] = ()
    conditions: Annotated[tuple[Condition, ...], doc("In the Kubernetes form.", **CONDITIONS)] = ()


class PodCliqueScalingGroup(Wire, frozen=True):
    """Replicas of several cliques; the operator makes it from a PodCliqueSet."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodCliqueScalingGroupSpec = PodCliqueScalingGroupSpec()
    status: PodCliqueScalingGroupStatus | None = None

"""PodCliqueSet: cliques and scaling groups, replicated as wholes."""

from typing import Annotated, Any

from muster.api.grove.pod_clique import (
    CONDITIONS,
    MOST_CLIQUES,
    MOST_TEMPLATES,
    NAMES,
    AutoScalingConfig,
    PodCliqueSpec,
)
from muster.api.grove.pod_gang import PodGangStatus
from muster.api.grove.progress import LastError, PodCliqueSetUpdateProgress
from muster.api.meta import Condition, ObjectMeta, Wire, doc

_LARGEST = 2**31 - 1
_DOMAIN = "^[a-z][a-z0-9-]*$"
ANY_ORDER, IN_ORDER, EXPLICIT = "CliqueStartupTypeAnyOrder", "CliqueStartupTypeInOrder", "CliqueStartupTypeExplicit"
ROLLING_RECREATE, ON_DELETE = "RollingRecreate", "OnDelete"
BY_NAME = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "maxItems": MOST_TEMPLATES}


class PackConstraint(Wire, frozen=True):
    """Domains of a ClusterTopologyBinding in which pods sit together."""

    required: Annotated[str, doc("All pods sit in one domain of this name.", pattern=_DOMAIN, maxLength=63)] = ""
    preferred: Annotated[str, doc("They do whenever some placement allows it.", pattern=_DOMAIN, maxLength=63)] = ""


class PackTopologyConstraint(Wire, frozen=True):
    """Which binding, and which of its domains."""

    topology_name: Annotated[str, doc("The ClusterTopologyBinding; unset: the one of the set.")] = ""
    pack: Annotated[PackConstraint | None, doc("The domains.")] = None
    pack_domain: Annotated[
        str, doc("Older form of pack.required, which it becomes.", pattern=_DOMAIN, maxLength=63)
    ] = ""


class PodCliqueTemplate(Wire, frozen=True):
    """A clique of a set."""

    name: Annotated[str, doc("Unique in the set.", required=True)] = ""
    labels: Annotated[dict[str, str], doc("Of the clique and its pods.")] = {}  # noqa: RUF012 - frozen; never written to
    annotations: Annotated[dict[str, str], doc("Of the clique and its pods.")] = {}  # noqa: RUF012 - frozen; never written to
    topology_constraint: Annotated[
        PackTopologyConstraint | None, doc("Where the pods of this clique sit together.")
    ] = None
    resource_sharing: Annotated[Any, doc("Shared resource claims; not supported yet, and refused.")] = None
    spec: Annotated[PodCliqueSpec, doc("The pods.", required=True)] = PodCliqueSpec()


class ScalingGroupTemplate(Wire, frozen=True):
    """Cliques of a set that scale together."""

    name: Annotated[str, doc("Unique in the set.", required=True)] = ""
    clique_names: Annotated[
        tuple[str, ...], doc("The cliques; each is in one group at most.", required=True, **NAMES)
    ] = ()
    annotations: Annotated[dict[str, str], doc("Of the group.")] = {}  # noqa: RUF012 - frozen; never written to
    replicas: Annotated[int, doc("How many there are of all its cliques.", maximum=_LARGEST, default=1)] = 1
    min_available: Annotated[
        int, doc("How many replicas are in the base gang, and must stay available.", maximum=_LARGEST, default=1)
    ] = 1
    scale_config: Annotated[AutoScalingConfig | None, doc("Set: a HorizontalPodAutoscaler scales the group.")] = None
    topology_constraint: Annotated[PackTopologyConstraint | None, doc("Where each replica of the group sits.")] = None
    resource_sharing: Annotated[Any, doc("Shared resource claims; not supported yet, and refused.")] = None


class HeadlessServiceConfig(Wire, frozen=True):
    """The headless Service of each replica."""

    publish_not_ready_addresses: Annotated[bool, doc("Names resolve before pods are ready.", default=True)] = True


class PodCliqueSetTemplate(Wire, frozen=True):
    """What each replica of a set consists of."""

    cliques: Annotated[tuple[PodCliqueTemplate, ...], doc("At least one.", required=True, **BY_NAME)] = ()
    clique_startup_type: Annotated[
        str, doc("In which order cliques start.", enum=[ANY_ORDER, IN_ORDER, EXPLICIT], default=ANY_ORDER)
    ] = ANY_ORDER
    priority_class_name: Annotated[str, doc("The PriorityClass of every gang.")] = ""
    headless_service_config: Annotated[HeadlessServiceConfig | None, doc("The headless Service of each replica.")] = (
        None
    )
    termination_delay: Annotated[
        str, doc("How long a gang may be below its minimum before it is recreated; unset: `4h`.")
    ] = ""
    topology_constraint: Annotated[PackTopologyConstraint | None, doc("Where each replica of the set sits.")] = None
    pod_clique_scaling_groups: Annotated[
        tuple[ScalingGroupTemplate, ...], doc("Cliques that scale together.", **BY_NAME)
    ] = ()
    resource_claim_templates: Annotated[Any, doc("Claims to share; not supported yet, and refused.")] = None
    resource_sharing: Annotated[Any, doc("Shared resource claims; not supported yet, and refused.")] = None


class UpdateStrategy(Wire, frozen=True):
    """How a new template reaches pods."""

    type: Annotated[
        str,
        doc("Replica by replica, or as pods are deleted.", enum=[ROLLING_RECREATE, ON_DELETE]),
    ] = ROLLING_RECREATE


class PodCliqueSetSpec(Wire, frozen=True):
    """How many replicas of what."""

    replicas: Annotated[int, doc("How many replicas there are.", minimum=0, maximum=MOST_CLIQUES, default=0)] = 0
    update_strategy: Annotated[UpdateStrategy | None, doc("Unset: RollingRecreate.")] = None
    template: Annotated[PodCliqueSetTemplate, doc("What each replica consists of.", required=True)] = (
        PodCliqueSetTemplate()
    )

    @property
    def updates_on_delete(self) -> bool:
        """Whether pods get the latest template only when they are deleted."""
        return self.update_strategy is not None and self.update_strategy.type == ON_DELETE


class GangSummary(PodGangStatus, frozen=True):
    """The status of one gang of a set."""

    name: Annotated[str, doc("The PodGang.")] = ""


class PodCliqueSetStatus(Wire, frozen=True):
    """What the operator last found of a set."""

    observed_generation: Annotated[int, doc("The generation that this status is about.")] = 0
    replicas: Annotated[int, doc("Replicas that exist.")] = 0
    updated_replicas: Annotated[int, doc("Replicas of the latest template.", default=0)] = 0
    available_replicas: Annotated[int, doc("Replicas with every minimum ready.", default=0)] = 0
    hpa_pod_selector: Annotated[str, doc("Selects the pods of the set, for autoscalers.")] = ""
    pod_gang_statuses: Annotated[
        tuple[GangSummary, ...], doc("Gangs of the set; those that do not run come first where there are many.")
    ] = ()
    current_generation_hash: Annotated[str, doc("The template that is rolled out.")] = ""
    update_progress: Annotated[
        PodCliqueSetUpdateProgress | None, doc("The update that is under way, or the last one.")
    ] = None
    last_errors: Annotated[tuple[LastError, ...], doc("What the operator failed to do last.")] = ()
    conditions: Annotated[tuple[Condition, ...], doc("In the Kubernetes form.", **CONDITIONS)] = ()


class PodCliqueSet(Wire, frozen=True):
    """Cliques that are scheduled, started, scaled and recreated as gangs."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodCliqueSetSpec = PodCliqueSetSpec()
    status: PodCliqueSetStatus | None = None

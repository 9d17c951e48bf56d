"""Every kind of object that muster reads, writes or serves: group, version, plural and kind, each once."""

from typing import Final

from msgspec import Struct


class Resource(Struct, frozen=True, cache_hash=True):
    """A kind of object as an API server names it."""

    group: str  # empty: the core group
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """Group and version as `apiVersion` holds them."""
        return f"{self.group}/{self.version}" if self.group else self.version


# muster's own
POD_GROUPS: Final = Resource("scheduling.run.ai", "v2alpha2", "podgroups", "PodGroup")
QUEUES: Final = Resource("scheduling.run.ai", "v2", "queues", "Queue", namespaced=False)
TOPOLOGIES: Final = Resource("kai.scheduler", "v1alpha1", "topologies", "Topology", namespaced=False)

# core
PODS: Final = Resource("", "v1", "pods", "Pod")
NODES: Final = Resource("", "v1", "nodes", "Node", namespaced=False)
NAMESPACES: Final = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
EVENTS: Final = Resource("", "v1", "events", "Event")
SERVICES: Final = Resource("", "v1", "services", "Service")
SERVICE_ACCOUNTS: Final = Resource("", "v1", "serviceaccounts", "ServiceAccount")
CONFIG_MAPS: Final = Resource("", "v1", "configmaps", "ConfigMap")
SECRETS: Final = Resource("", "v1", "secrets", "Secret")
VOLUMES: Final = Resource("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)
CLAIMS: Final = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")

# workloads
DEPLOYMENTS: Final = Resource("apps", "v1", "deployments", "Deployment")
REPLICA_SETS: Final = Resource("apps", "v1", "replicasets", "ReplicaSet")
STATEFUL_SETS: Final = Resource("apps", "v1", "statefulsets", "StatefulSet")
CONTROLLER_REVISIONS: Final = Resource("apps", "v1", "controllerrevisions", "ControllerRevision")
DAEMON_SETS: Final = Resource("apps", "v1", "daemonsets", "DaemonSet")
JOBS: Final = Resource("batch", "v1", "jobs", "Job")
CRON_JOBS: Final = Resource("batch", "v1", "cronjobs", "CronJob")

# workloads of other projects' operators
LEADER_WORKER_SETS: Final = Resource("leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "LeaderWorkerSet")
JOB_SETS: Final = Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet")
PYTORCH_JOBS: Final = Resource("kubeflow.org", "v1", "pytorchjobs", "PyTorchJob")
TF_JOBS: Final = Resource("kubeflow.org", "v1", "tfjobs", "TFJob")
XGBOOST_JOBS: Final = Resource("kubeflow.org", "v1", "xgboostjobs", "XGBoostJob")
JAX_JOBS: Final = Resource("kubeflow.org", "v1", "jaxjobs", "JAXJob")
PADDLE_JOBS: Final = Resource("kubeflow.org", "v1", "paddlejobs", "PaddleJob")
MPI_JOBS: Final = Resource("kubeflow.org", "v2beta1", "mpijobs", "MPIJob")
RAY_CLUSTERS: Final = Resource("ray.io", "v1", "rayclusters", "RayCluster")
RAY_JOBS: Final = Resource("ray.io", "v1", "rayjobs", "RayJob")
RAY_SERVICES: Final = Resource("ray.io", "v1", "rayservices", "RayService")

# Grove
POD_CLIQUE_SETS: Final = Resource("grove.io", "v1alpha1", "podcliquesets", "PodCliqueSet")
POD_CLIQUES: Final = Resource("grove.io", "v1alpha1", "podcliques", "PodClique")
POD_CLIQUE_SCALING_GROUPS: Final = Resource("grove.io", "v1alpha1", "podcliquescalinggroups", "PodCliqueScalingGroup")
CLUSTER_TOPOLOGY_BINDINGS: Final = Resource(
    "grove.io", "v1alpha1", "clustertopologybindings", "ClusterTopologyBinding", namespaced=False
)
POD_GANGS: Final = Resource("scheduler.grove.io", "v1alpha1", "podgangs", "PodGang")

# what governs pods
BUDGETS: Final = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
PRIORITY_CLASSES: Final = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
STORAGE_CLASSES: Final = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False)
AUTOSCALERS: Final = Resource("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler")
LEASES: Final = Resource("coordination.k8s.io", "v1", "leases", "Lease")
NEW_EVENTS: Final = Resource("events.k8s.io", "v1", "events", "Event")  # the same objects as EVENTS

# extensions of the API server
DEFINITIONS: Final = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
VALIDATING_WEBHOOKS: Final = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)
MUTATING_WEBHOOKS: Final = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    namespaced=False,
)

# parts of a pod that are posted to, and a part of workloads; the plural is the subresource's path
BINDINGS: Final = Resource("", "v1", "pods/binding", "Binding")
EVICTIONS: Final = Resource("policy", "v1", "pods/eviction", "Eviction")
SCALES: Final = Resource("autoscaling", "v1", "scale", "Scale")

# answered, never stored
SELF_SUBJECT_REVIEWS: Final = Resource(
    "authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False
)
SELF_SUBJECT_ACCESS_REVIEWS: Final = Resource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False
)
SELF_SUBJECT_RULES_REVIEWS: Final = Resource(
    "authorization.k8s.io", "v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview", namespaced=False
)
SUBJECT_ACCESS_REVIEWS: Final = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)
TOKEN_REVIEWS: Final = Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False)
ADMISSION_REVIEWS: Final = Resource("admission.k8s.io", "v1", "", "AdmissionReview", namespaced=False)

# parameters of requests
LIST_OPTIONS: Final = Resource("meta.k8s.io", "v1", "", "ListOptions", namespaced=False)

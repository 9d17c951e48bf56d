"""Every kind of workload that muster knows, once: its rule, and the resource by which its objects are read.

A kind is one line here and one small module in `kinds`; kinds with the default rule are a line only.
"""

from collections.abc import Mapping

from msgspec import Struct

from muster.grouping.kinds import (
    cron_job,
    default,
    deployment,
    job,
    job_set,
    knative_revision,
    kubeflow_job,
    leader_worker_set,
    mpi_job,
    notebook,
    pod,
    pytorch_job,
    ray_cluster,
    spark,
)
from muster.grouping.types import Rule


class KindRule(Struct, frozen=True):
    """How the pods of a kind are grouped."""

    group: str  # API group; empty: core
    kind: str
    plural: str
    rule: Rule = default.group
    is_wrapper: bool = False  # the owner below it chooses the rule, and it fills labels and annotations

    @property
    def resource(self) -> str:
        """As `grouping.owners` lists it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


UNKNOWN = KindRule("", "default", "")


def _wrapper(group: str, kind: str) -> KindRule:
    return KindRule(group, kind, f"{kind.lower()}s", is_wrapper=True)


_TABLE = (
    # Kubernetes
    KindRule("", "Pod", "pods", pod.group),
    KindRule("apps", "Deployment", "deployments", deployment.group),
    KindRule("apps", "ReplicaSet", "replicasets"),
    KindRule("apps", "StatefulSet", "statefulsets"),
    KindRule("apps", "DaemonSet", "daemonsets"),
    KindRule("", "ReplicationController", "replicationcontrollers"),
    KindRule("batch", "Job", "jobs", job.group),
    KindRule("batch", "CronJob", "cronjobs", cron_job.group),
    # gangs
    KindRule("leaderworkerset.x-k8s.io", "LeaderWorkerSet", "leaderworkersets", leader_worker_set.group),
    KindRule("jobset.x-k8s.io", "JobSet", "jobsets", job_set.group),
    KindRule("kubeflow.org", "PyTorchJob", "pytorchjobs", pytorch_job.group),
    KindRule("kubeflow.org", "TFJob", "tfjobs", kubeflow_job.by_roles("tfReplicaSpecs")),
    KindRule("kubeflow.org", "XGBoostJob", "xgboostjobs", kubeflow_job.by_roles("xgbReplicaSpecs")),
    KindRule("kubeflow.org", "JAXJob", "jaxjobs", kubeflow_job.by_roles("jaxReplicaSpecs")),
    KindRule("kubeflow.org", "PaddleJob", "paddlejobs", kubeflow_job.by_roles("paddleReplicaSpecs")),
    KindRule("kubeflow.org", "MPIJob", "mpijobs", mpi_job.group),
    KindRule("ray.io", "RayCluster", "rayclusters", ray_cluster.group),
    KindRule("sparkoperator.k8s.io", "SparkApplication", "sparkapplications", spark.group),
    KindRule("sparkoperator.k8s.io", "SparkConnect", "sparkconnects", spark.group),
    # services and tools
    KindRule("serving.knative.dev", "Revision", "revisions", knative_revision.group),
    KindRule("kubeflow.org", "Notebook", "notebooks", notebook.group),
    KindRule("machinelearning.seldon.io", "SeldonDeployment", "seldondeployments"),
    KindRule("kubevirt.io", "VirtualMachine", "virtualmachines"),
    KindRule("kubevirt.io", "VirtualMachineInstance", "virtualmachineinstances"),
    KindRule("workspace.devfile.io", "DevWorkspace", "devworkspaces"),
    KindRule("tekton.dev", "PipelineRun", "pipelineruns"),
    KindRule("tekton.dev", "TaskRun", "taskruns"),
    # what owns workloads
    _wrapper("ray.io", "RayJob"),
    _wrapper("ray.io", "RayService"),
    _wrapper("ray.io", "RayCronJob"),
    _wrapper("disaggregatedset.x-k8s.io", "DisaggregatedSet"),
    _wrapper("serving.knative.dev", "Service"),
    _wrapper("serving.knative.dev", "Configuration"),
    _wrapper("trainer.kubeflow.org", "TrainJob"),
    _wrapper("argoproj.io", "Workflow"),
    _wrapper("argoproj.io", "CronWorkflow"),
    _wrapper("kubeflow.org", "ScheduledWorkflow"),
    _wrapper("sparkoperator.k8s.io", "ScheduledSparkApplication"),
    _wrapper("nvidia.com", "DynamoGraphDeployment"),
    _wrapper("nvidia.com", "DynamoComponentDeployment"),
    _wrapper("run.ai", "TrainingWorkload"),
    _wrapper("run.ai", "InteractiveWorkload"),
    _wrapper("run.ai", "DistributedWorkload"),
    _wrapper("run.ai", "InferenceWorkload"),
    _wrapper("run.ai", "DistributedInferenceWorkload"),
    _wrapper("run.ai", "WorkloadRunner"),
)

KINDS: Mapping[tuple[str, str], KindRule] = {(kind.group, kind.kind): kind for kind in _TABLE}
RESOURCES = tuple(kind.resource for kind in _TABLE if kind.kind != "Pod")  # pods are read anyway

"""What differs between Kubeflow's training kinds: roles, defaults, and which role decides how the job ends."""

from msgspec import Struct

from muster.api.fields import integer, mapping, text
from muster.api.resources import JAX_JOBS, PADDLE_JOBS, PYTORCH_JOBS, TF_JOBS, XGBOOST_JOBS, Resource
from muster.workloads.operators.objects import MOST_CHILDREN
from muster.workloads.types import Raw

WORKER = "Worker"


class TrainingKind(Struct, frozen=True):
    """A kind of training job."""

    resource: Resource
    specs: str  # the field of `spec` that holds the roles
    roles: tuple[str, ...]  # in the order of creation
    masters: tuple[str, ...]  # roles that decide how the job ends; without them the workers do
    first_worker_leads: bool  # without a master role, worker 0 is labelled as master
    container: str  # whose exit code counts
    port: tuple[str, int]  # of the services, where the container names none
    restart_policy: str  # of roles that have none

    @property
    def operator(self) -> str:
        """The name of its controller, as labels have it."""
        return f"{self.resource.kind.lower()}-controller"


class TrainingRole(Struct, frozen=True):
    """A role of a job."""

    name: str  # as the API spells it
    replicas: int
    restart_policy: str
    template: Raw

    @property
    def label(self) -> str:
        """The role as labels and names have it."""
        return self.name.lower()


PYTORCH = TrainingKind(
    PYTORCH_JOBS,
    "pytorchReplicaSpecs",
    ("Master", WORKER),
    ("Master",),
    True,
    "pytorch",
    ("pytorchjob-port", 23456),
    "OnFailure",
)
TENSORFLOW = TrainingKind(
    TF_JOBS,
    "tfReplicaSpecs",
    ("Chief", "Master", "PS", WORKER, "Evaluator"),
    ("Chief", "Master"),
    True,
    "tensorflow",
    ("tfjob-port", 2222),
    "Never",
)
XGBOOST = TrainingKind(
    XGBOOST_JOBS,
    "xgbReplicaSpecs",
    ("Master", WORKER),
    ("Master",),
    False,
    "xgboost",
    ("xgboostjob-port", 9999),
    "Never",
)
JAX = TrainingKind(JAX_JOBS, "jaxReplicaSpecs", (WORKER,), (), True, "jax", ("jaxjob-port", 6666), "Never")
PADDLE = TrainingKind(
    PADDLE_JOBS,
    "paddleReplicaSpecs",
    ("Master", WORKER),
    ("Master",),
    False,
    "paddle",
    ("master", 36543),
    "OnFailure",
)
TRAINING_KINDS: tuple[TrainingKind, ...] = (PYTORCH, TENSORFLOW, XGBOOST, JAX, PADDLE)


def roles_of(kind: TrainingKind, job: Raw) -> tuple[TrainingRole, ...]:
    """The roles that a job has. The API server accepts their names in any case."""
    specs = {name.lower(): spec for name, spec in mapping(job, f"spec.{kind.specs}").items() if isinstance(spec, dict)}
    return tuple(_role(kind, name, specs[name.lower()]) for name in kind.roles if name.lower() in specs)


def _role(kind: TrainingKind, name: str, spec: Raw) -> TrainingRole:
    replicas = min(integer(spec, "replicas", 1), MOST_CHILDREN)
    policy = text(spec, "restartPolicy") or kind.restart_policy
    return TrainingRole(name, replicas, policy, mapping(spec, "template"))

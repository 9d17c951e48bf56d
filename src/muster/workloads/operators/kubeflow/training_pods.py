"""The pods and services of a training job: one of each for every replica, both of the same name."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from muster.api.fields import integer, items, number, text, texts
from muster.api.resources import SERVICES
from muster.workloads.operators.kubeflow.training_kinds import PYTORCH, WORKER, TrainingKind, TrainingRole
from muster.workloads.operators.objects import child, name_of
from muster.workloads.pod_templates import new_pod, phase
from muster.workloads.types import Raw

_PREFIX = "training.kubeflow.org"
JOB_NAME, OPERATOR_NAME, JOB_ROLE = f"{_PREFIX}/job-name", f"{_PREFIX}/operator-name", f"{_PREFIX}/job-role"
REPLICA_TYPE, REPLICA_INDEX = f"{_PREFIX}/replica-type", f"{_PREFIX}/replica-index"
FIRST_RETRYABLE = 128  # exit codes from here on are those of signals
_UNKNOWN_CODE = 0xBEEF  # where a pod failed and its container tells no exit code


class ReplicaName(Struct, frozen=True):
    """Which replica of a job an object belongs to."""

    role: str  # in lower case
    index: int


def replica_of(raw: Raw) -> ReplicaName | None:
    """The replica that an object's labels name; None: they name none."""
    labels = texts(raw, "metadata.labels")
    index = number(labels.get(REPLICA_INDEX, ""))
    return None if index is None else ReplicaName(labels.get(REPLICA_TYPE, ""), index)


def by_replica(raws: Sequence[Raw]) -> Mapping[ReplicaName, Raw]:
    """Pods or services by the replica that they belong to."""
    return {replica: raw for raw in raws if (replica := replica_of(raw))}


def job_labels(kind: TrainingKind, job: Raw, role: str) -> dict[str, str]:
    """The labels that all replicas of a role share."""
    return {OPERATOR_NAME: kind.operator, JOB_NAME: name_of(job), REPLICA_TYPE: role}


def new_replica_pod(kind: TrainingKind, job: Raw, roles: Sequence[TrainingRole], role: TrainingRole, index: int) -> Raw:
    """The pod of a replica."""
    labels = {**job_labels(kind, job, role.label), REPLICA_INDEX: str(index)}
    if _is_master(kind, roles, role, index):
        labels[JOB_ROLE] = "master"
    pod = new_pod(job, role.template, name=f"{name_of(job)}-{role.label}-{index}", labels=labels)
    pod["spec"]["restartPolicy"] = "Never" if role.restart_policy == "ExitCode" else role.restart_policy
    if kind is PYTORCH:
        _connect_pytorch(job, roles, role, index, pod["spec"])
    return pod


def _is_master(kind: TrainingKind, roles: Sequence[TrainingRole], role: TrainingRole, index: int) -> bool:
    if any(present.name in kind.masters for present in roles):
        return role.name in kind.masters
    return kind.first_worker_leads and role.name == WORKER and index == 0


def new_replica_service(kind: TrainingKind, job: Raw, role: TrainingRole, index: int) -> Raw:
    """The service of a replica: it gives the pod its name."""
    labels = {**job_labels(kind, job, role.label), REPLICA_INDEX: str(index)}
    spec = {"clusterIP": "None", "selector": labels, "ports": _ports(kind, role)}
    return child(job, SERVICES, f"{name_of(job)}-{role.label}-{index}", spec, labels=labels)


def _ports(kind: TrainingKind, role: TrainingRole) -> list[Raw]:
    containers = items(role.template, "spec.containers")
    container = next((one for one in containers if one.get("name") == kind.container), {})
    ports = [{"name": text(port, "name"), "port": integer(port, "containerPort")} for port in items(container, "ports")]
    name, number = kind.port
    return ports if any(port["name"] == name for port in ports) else [*ports, {"name": name, "port": number}]


def may_restart(kind: TrainingKind, role: TrainingRole, pod: Raw) -> bool:
    """Whether a failed pod is replaced by another one."""
    if role.restart_policy == "ExitCode":
        return _exit_code(kind, pod) >= FIRST_RETRYABLE
    return role.restart_policy in ("OnFailure", "Always")


def _exit_code(kind: TrainingKind, pod: Raw) -> int:
    for status in items(pod, "status.containerStatuses"):
        if status.get("name") == kind.container:
            return integer(status, "state.terminated.exitCode", _UNKNOWN_CODE)
    return _UNKNOWN_CODE


def restart_count(pod: Raw) -> int:
    """How often containers of a running pod were restarted."""
    if phase(pod) != "Running":
        return 0
    statuses = [*items(pod, "status.initContainerStatuses"), *items(pod, "status.containerStatuses")]
    return sum(integer(status, "restartCount") for status in statuses)


def _connect_pytorch(job: Raw, roles: Sequence[TrainingRole], role: TrainingRole, index: int, spec: Raw) -> None:
    """Ranks, and an init container that makes workers wait for their master's name."""
    total = sum(each.replicas for each in roles)
    variables = {"PET_NNODES": str(total)}
    if any(each.name == "Master" for each in roles):
        master, rank = f"{name_of(job)}-master-0", str(index + (role.name == WORKER))
        address = {"MASTER_ADDR": master, "MASTER_PORT": str(PYTORCH.port[1])}
        variables |= {**address, "WORLD_SIZE": str(total), "RANK": rank, "PET_NODE_RANK": rank}
        if role.name == WORKER:
            spec["initContainers"] = [*items(spec, "initContainers"), _wait_for(master)]
    added = [{"name": name, "value": value} for name, value in variables.items()]
    for container in items(spec, "containers"):
        container["env"] = [*items(container, "env"), *added]


def _wait_for(master: str) -> Raw:
    return {
        "name": "init-pytorch",
        "image": "alpine:3.10",
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", f"until nslookup {master}; do sleep 2; done"],
        "resources": {
            "limits": {"cpu": "100m", "memory": "20Mi"},
            "requests": {"cpu": "50m", "memory": "10Mi"},
        },
    }

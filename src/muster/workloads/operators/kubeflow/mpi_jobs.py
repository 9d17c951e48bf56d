"""MPIJobs (v2beta1) as their operator (v0.6) reconciles them: worker pods, and a Job that launches the program.

Rule: the launcher decides how the job ends. With `launcherCreationPolicy: WaitForWorkersReady` it waits for workers.

Simpler than the operator: no keys for SSH, and the pods do not mount them or the list of hosts.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain

from msgspec import Struct

from muster.api.fields import at, integer, mapping, text
from muster.api.resources import CONFIG_MAPS, JOBS, MPI_JOBS, PODS, SERVICES
from muster.workloads.conditions import find_condition, is_condition_true, timestamp
from muster.workloads.operators.kubeflow import training_status as states
from muster.workloads.operators.kubeflow.training_pods import JOB_NAME, JOB_ROLE, OPERATOR_NAME, REPLICA_INDEX
from muster.workloads.operators.objects import MOST_CHILDREN, bounded, child, flag, labelled_template, name_of, removal
from muster.workloads.pod_templates import is_ready, is_terminating, new_pod, phase
from muster.workloads.types import Action, Children, Controller, Create, Raw, Reconciliation, Update

_KIND = MPI_JOBS.kind
_OPERATOR = "mpi-operator"


class MpiView(Struct, frozen=True):
    """An MPIJob and what there is of it."""

    raw: Raw
    launcher: Raw | None  # the Job
    launcher_pods: Sequence[Raw]
    workers: Mapping[str, Raw]  # by name

    @property
    def is_suspended(self) -> bool:
        """Whether it is to have no pods."""
        return flag(self.raw, "spec.runPolicy.suspend")

    @property
    def replicas(self) -> int:
        """How many workers it wants."""
        return min(integer(self.raw, "spec.mpiReplicaSpecs.Worker.replicas"), MOST_CHILDREN)

    @property
    def names(self) -> list[str]:
        """The workers that it wants."""
        return [f"{name_of(self.raw)}-worker-{index}" for index in range(self.replicas)]


def reconcile(job: Raw, children: Children, now: datetime) -> Reconciliation:
    """Creates the service, the list of hosts, the workers and the launcher; suspends, cleans up and reports."""
    if is_terminating(job) or text(job, "spec.runPolicy.managedBy") not in ("", "kubeflow.org/mpi-operator"):
        return Reconciliation()
    launcher = next(iter(children.of(job, JOBS)), None)
    pods = children.of(launcher, PODS) if launcher else ()
    view = MpiView(job, launcher, pods, {name_of(pod): pod for pod in children.of(job, PODS)})
    if states.is_finished(job):
        return Reconciliation(tuple(_cleaning(view)))
    return bounded(chain(_actions(view, children), _suspension(view)), len(view.workers), _status(view, now))


def _actions(view: MpiView, children: Children) -> Iterator[Action]:
    if view.launcher and _has_ended(view.launcher):
        return
    if not children.of(view.raw, SERVICES):
        yield Create(SERVICES, _service(view.raw))
    if not children.of(view.raw, CONFIG_MAPS):
        yield Create(CONFIG_MAPS, _hosts(view))
    if not view.is_suspended:
        yield from _worker_actions(view)
    if view.launcher is None and _may_launch(view):
        yield Create(JOBS, _launcher(view.raw))


def _has_ended(launcher: Raw) -> bool:
    return is_condition_true(launcher, "Complete") or is_condition_true(launcher, "Failed")


def _may_launch(view: MpiView) -> bool:
    if view.is_suspended or text(view.raw, "spec.launcherCreationPolicy") != "WaitForWorkersReady":
        return True
    return all(name in view.workers and is_ready(view.workers[name]) for name in view.names)


def _worker_actions(view: MpiView) -> Iterator[Action]:
    names = view.names
    wanted = set(names)
    for name, pod in view.workers.items():
        if name not in wanted and not is_terminating(pod):
            yield removal(PODS, pod)
    for index, name in enumerate(names):
        if name not in view.workers:
            yield Create(PODS, _worker(view.raw, name, index))


def _suspension(view: MpiView) -> Iterator[Action]:
    if view.launcher is not None and flag(view.launcher, "spec.suspend") != view.is_suspended:
        patch = {"spec": {"suspend": view.is_suspended}}
        yield Update(JOBS, text(view.raw, "metadata.namespace"), name_of(view.launcher), patch)
    if view.is_suspended:
        yield from (removal(PODS, pod) for pod in view.workers.values() if not is_terminating(pod))


def _cleaning(view: MpiView) -> Iterator[Action]:
    policy = text(view.raw, "spec.runPolicy.cleanPodPolicy")
    for pod in view.workers.values():
        is_cleaned = policy == "All" or (policy == "Running" and phase(pod) in ("Pending", "Running"))
        if is_cleaned and not is_terminating(pod):
            yield removal(PODS, pod)


# objects ------------------------------------------------------------------------------------------------------------


def _labels(job: Raw, role: str) -> dict[str, str]:
    return {OPERATOR_NAME: _OPERATOR, JOB_NAME: name_of(job), JOB_ROLE: role}


def _service(job: Raw) -> Raw:
    spec = {"clusterIP": "None", "selector": {OPERATOR_NAME: _OPERATOR, JOB_NAME: name_of(job)}}
    return child(job, SERVICES, name_of(job), spec, labels={"app": name_of(job)})


def _hosts(view: MpiView) -> Raw:
    name, slots = name_of(view.raw), integer(view.raw, "spec.slotsPerWorker", 1)
    domain = f"{name}.{text(view.raw, 'metadata.namespace')}.svc"
    lines = [f"{worker}.{domain} slots={slots}" for worker in view.names]
    config = child(view.raw, CONFIG_MAPS, f"{name}-config", {}, labels={"app": name})
    del config["spec"]
    return {**config, "data": {"hostfile": "".join(f"{line}\n" for line in lines)}}


def _worker(job: Raw, name: str, index: int) -> Raw:
    role = mapping(job, "spec.mpiReplicaSpecs.Worker")
    labels = {**_labels(job, "worker"), REPLICA_INDEX: str(index)}
    pod = new_pod(job, mapping(role, "template"), name=name, labels=labels)
    policy = _restart_policy(role, "Never")
    pod["spec"] |= {"hostname": name, "subdomain": name_of(job), "restartPolicy": policy}
    return pod


def _launcher(job: Raw) -> Raw:
    role = mapping(job, "spec.mpiReplicaSpecs.Launcher")
    name = f"{name_of(job)}-launcher"
    template = labelled_template(mapping(role, "template"), _labels(job, "launcher"))
    place = {"hostname": name, "subdomain": name_of(job), "restartPolicy": _restart_policy(role, "OnFailure")}
    template["spec"] = {**mapping(template, "spec"), **place}
    limits = ("ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit")
    given = {limit: value for limit in limits if (value := at(job, f"spec.runPolicy.{limit}")) is not None}
    suspension = {"suspend": True} if flag(job, "spec.runPolicy.suspend") else {}
    return child(job, JOBS, name, {**given, "template": template, **suspension}, labels={"app": name_of(job)})


def _restart_policy(role: Raw, default: str) -> str:
    policy = text(role, "restartPolicy") or default
    return "Never" if policy == "ExitCode" else policy


# status -------------------------------------------------------------------------------------------------------------


def _status(view: MpiView, now: datetime) -> Raw:
    status = states.first_status(view.raw, _KIND, now)
    status = _with_suspension(view, status, now)
    if not view.is_suspended and not text(status, "startTime"):
        status = {**status, "startTime": timestamp(now)}
    status = {**status, "replicaStatuses": _replica_statuses(view)}
    if view.launcher is not None and _has_ended(view.launcher):
        return _ended(view.raw, view.launcher, status, now)
    is_running = _running(view.launcher_pods) >= 1 and _running(view.workers.values()) == view.replicas
    if is_running and not view.is_suspended:
        return states.with_job_condition(status, _KIND, states.RUNNING, f"MPIJob {name_of(view.raw)} is running.", now)
    return status


def _with_suspension(view: MpiView, status: Raw, now: datetime) -> Raw:
    if view.is_suspended:
        suspended = states.with_job_condition(status, _KIND, states.SUSPENDED, "MPIJob suspended", now)
        if not is_condition_true(view.raw, states.RUNNING):
            return suspended
        reason = states.SUSPENDED
        return states.with_job_condition(
            suspended, _KIND, states.RUNNING, "MPIJob suspended", now, reason=reason, is_true=False
        )
    if not is_condition_true(view.raw, states.SUSPENDED):
        return status
    message = "MPIJob resumed"
    resumed = states.with_job_condition(status, _KIND, states.SUSPENDED, message, now, reason="Resumed", is_true=False)
    return {**resumed, "startTime": timestamp(now)}


def _replica_statuses(view: MpiView) -> Raw:
    workers = [phase(pod) for pod in view.workers.values()]
    statuses: Raw = {}
    if view.launcher is not None:
        has_succeeded = is_condition_true(view.launcher, "Complete")
        statuses["Launcher"] = {
            "active": 0 if _has_ended(view.launcher) else _running(view.launcher_pods),
            "succeeded": int(has_succeeded),
            "failed": integer(view.launcher, "status.failed"),
        }
    fates = {"active": "Running", "succeeded": "Succeeded", "failed": "Failed"}
    return {**statuses, "Worker": {fate: workers.count(word) for fate, word in fates.items()}}


def _running(pods: Iterable[Raw]) -> int:
    return sum(phase(pod) == "Running" for pod in pods)


def _ended(job: Raw, launcher: Raw, status: Raw, now: datetime) -> Raw:
    failure = find_condition(launcher, "Failed")
    if is_condition_true(launcher, "Failed"):
        reason = text(failure, "reason") or "its launcher failed"
        return states.end_job(status, _KIND, states.FAILED, f"MPIJob {name_of(job)} failed: {reason}.", now)
    return states.end_job(status, _KIND, states.SUCCEEDED, f"MPIJob {name_of(job)} is successfully completed.", now)


CONTROLLER = Controller(MPI_JOBS, reconcile, children=(PODS, JOBS, SERVICES, CONFIG_MAPS))

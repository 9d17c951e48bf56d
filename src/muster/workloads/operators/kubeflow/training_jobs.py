"""PyTorchJob, TFJob, XGBoostJob, JAXJob and PaddleJob as Kubeflow's training operator (v1.8, v1.9) reconciles them.

Rule: a replica is a pod and a service of one name. A failed pod is deleted and made again where its role restarts.

Simpler than the operator: no HorizontalPodAutoscaler for elastic jobs, and of the environment variables only the ranks
of PyTorch. `backoffLimit` counts restarts of containers, not retries of the operator's queue.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from itertools import chain

from muster.api.fields import at, integer, mapping, text
from muster.api.moment import parse_time
from muster.api.resources import PODS, SERVICES
from muster.workloads.conditions import is_condition_true, timestamp
from muster.workloads.operators.kubeflow import training_status as states
from muster.workloads.operators.kubeflow.training_kinds import TRAINING_KINDS, TrainingKind, TrainingRole, roles_of
from muster.workloads.operators.kubeflow.training_pods import (
    ReplicaName,
    by_replica,
    may_restart,
    new_replica_pod,
    new_replica_service,
    restart_count,
)
from muster.workloads.operators.objects import bounded, flag, name_of, removal
from muster.workloads.pod_templates import is_terminating, phase
from muster.workloads.types import Action, Children, Controller, Create, Raw, Reconciliation

_FOREVER = 10**9  # seconds


def reconcile(kind: TrainingKind, job: Raw, children: Children, now: datetime) -> Reconciliation:
    """Creates, restarts and deletes pods and services; suspends, ends and reports."""
    manager = text(job, "spec.runPolicy.managedBy")
    if is_terminating(job) or manager not in ("", "kubeflow.org/training-operator"):
        return Reconciliation()
    roles = roles_of(kind, job)
    pods, services = children.of(job, PODS), children.of(job, SERVICES)
    status = states.first_status(job, kind.resource.kind, now)
    if states.is_finished(job):
        return _after_the_end(kind, job, pods, services, now)
    if flag(job, "spec.runPolicy.suspend"):
        return bounded(_deletions(pods, services), len(pods), _suspended(kind, job, status, now))
    status = _started(kind, job, status, now)
    if reason := _excess(job, roles, pods, status, now):
        ended = states.end_job(status, kind.resource.kind, states.FAILED, reason, now)
        return Reconciliation(tuple(_deletions(pods, services)), ended)
    return _reconcile_replicas(kind, job, roles, (by_replica(pods), by_replica(services)), status, now)


def _reconcile_replicas(
    kind: TrainingKind,
    job: Raw,
    roles: Sequence[TrainingRole],
    present: tuple[Mapping[ReplicaName, Raw], Mapping[ReplicaName, Raw]],
    status: Raw,
    now: datetime,
) -> Reconciliation:
    pods, services = present
    actions = chain(
        chain.from_iterable(
            chain(_pod_actions(kind, job, roles, role, pods), _service_actions(kind, job, role, services))
            for role in roles
        ),
        _surplus(roles, pods, services),
    )
    counts = {role.name: states.count_pods(role, pods) for role in roles}
    status = {**status, "replicaStatuses": states.replica_statuses(kind, job, counts)}
    status = states.update_conditions(kind, job, roles, pods, status, now)
    return bounded(actions, len(pods) + len(services), status, _seconds_to_deadline(job, status, now))


# replicas -----------------------------------------------------------------------------------------------------------


def _pod_actions(
    kind: TrainingKind, job: Raw, roles: Sequence[TrainingRole], role: TrainingRole, pods: Mapping[ReplicaName, Raw]
) -> Iterator[Action]:
    for index in range(role.replicas):
        pod = pods.get(ReplicaName(role.label, index))
        if pod is None:
            yield Create(PODS, new_replica_pod(kind, job, roles, role, index))
        elif phase(pod) == "Failed" and may_restart(kind, role, pod) and not is_terminating(pod):
            yield removal(PODS, pod)


def _service_actions(
    kind: TrainingKind, job: Raw, role: TrainingRole, services: Mapping[ReplicaName, Raw]
) -> Iterator[Action]:
    for index in range(role.replicas):
        if ReplicaName(role.label, index) not in services:
            yield Create(SERVICES, new_replica_service(kind, job, role, index))


def _surplus(
    roles: Sequence[TrainingRole], pods: Mapping[ReplicaName, Raw], services: Mapping[ReplicaName, Raw]
) -> Iterator[Action]:
    """Replicas beyond the size of their role, and of roles that are gone."""
    sizes = {role.label: role.replicas for role in roles}
    for resource, present in ((PODS, pods), (SERVICES, services)):
        for replica, raw in present.items():
            if replica.index >= sizes.get(replica.role, 0) and not is_terminating(raw):
                yield removal(resource, raw)


def _deletions(pods: Sequence[Raw], services: Sequence[Raw]) -> Iterator[Action]:
    yield from (removal(PODS, pod) for pod in pods if not is_terminating(pod))
    yield from (removal(SERVICES, service) for service in services)


# suspension, limits and the end -------------------------------------------------------------------------------------


def _suspended(kind: TrainingKind, job: Raw, status: Raw, now: datetime) -> Raw:
    word, message = kind.resource.kind, f"{kind.resource.kind} {name_of(job)} is suspended."
    if is_condition_true(job, states.RUNNING):
        reason = states.SUSPENDED
        status = states.with_job_condition(status, word, states.RUNNING, message, now, reason=reason, is_true=False)
    counts = {role: {**count, "active": 0} for role, count in _counts(status)}
    if counts:
        status = {**status, "replicaStatuses": counts}
    return states.with_job_condition(status, word, states.SUSPENDED, message, now)


def _started(kind: TrainingKind, job: Raw, status: Raw, now: datetime) -> Raw:
    if is_condition_true(job, states.SUSPENDED):
        word, message = kind.resource.kind, f"{kind.resource.kind} {name_of(job)} is resumed."
        status = states.with_job_condition(
            status, word, states.SUSPENDED, message, now, reason="Resumed", is_true=False
        )
        return {**status, "startTime": timestamp(now)}
    return {**status, "startTime": text(status, "startTime") or timestamp(now)}


def _excess(job: Raw, roles: Sequence[TrainingRole], pods: Sequence[Raw], status: Raw, now: datetime) -> str:
    """Why the job fails as a whole; empty: it does not."""
    limit = at(job, "spec.runPolicy.backoffLimit")
    restarts = sum(map(restart_count, pods)) if any(role.restart_policy != "Never" for role in roles) else 0
    if isinstance(limit, int) and restarts >= max(limit, 1):
        return f"{name_of(job)} failed: its containers were restarted as often as its backoff limit allows."
    remaining = _seconds_to_deadline(job, status, now)
    if remaining is not None and remaining <= 0:
        return f"{name_of(job)} failed: it was active for longer than its deadline allows."
    return ""


def _seconds_to_deadline(job: Raw, status: Raw, now: datetime) -> float | None:
    return _remaining(at(job, "spec.runPolicy.activeDeadlineSeconds"), text(status, "startTime"), now)


def _remaining(seconds: object, since: str, now: datetime) -> float | None:
    start = parse_time(since)
    if not isinstance(seconds, int) or start is None:
        return None
    return (start + timedelta(seconds=min(max(seconds, 0), _FOREVER)) - now).total_seconds()


def _after_the_end(
    kind: TrainingKind, job: Raw, pods: Sequence[Raw], services: Sequence[Raw], now: datetime
) -> Reconciliation:
    """Pods go as `cleanPodPolicy` says, the job once its time to live is over."""
    cleaned = [pod for pod in pods if _is_cleaned(job, pod)]
    names = {name_of(pod) for pod in cleaned}
    actions = tuple(_deletions(cleaned, [service for service in services if name_of(service) in names]))
    status = dict(mapping(job, "status"))
    if is_condition_true(job, states.SUCCEEDED):
        status["replicaStatuses"] = {role: _all_succeeded(count) for role, count in _counts(status)}
    remaining = _remaining(at(job, "spec.runPolicy.ttlSecondsAfterFinished"), text(status, "completionTime"), now)
    if remaining is not None and remaining <= 0:
        return Reconciliation((*actions, removal(kind.resource, job)), status)
    return Reconciliation(actions, status, remaining)


def _is_cleaned(job: Raw, pod: Raw) -> bool:
    policy = text(job, "spec.runPolicy.cleanPodPolicy")
    return policy == "All" or (policy == "Running" and phase(pod) in ("Pending", "Running"))


def _counts(status: Raw) -> list[tuple[str, Raw]]:
    counts = mapping(status, "replicaStatuses").items()
    return [(role, count) for role, count in counts if isinstance(count, dict)]


def _all_succeeded(count: Raw) -> Raw:
    return {**count, "succeeded": integer(count, "succeeded") + integer(count, "active"), "active": 0}


CONTROLLERS: tuple[Controller, ...] = tuple(
    Controller(kind.resource, partial(reconcile, kind), children=(PODS, SERVICES)) for kind in TRAINING_KINDS
)

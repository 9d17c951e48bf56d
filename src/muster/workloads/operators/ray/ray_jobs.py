"""RayJobs as KubeRay reconciles them: a RayCluster, and once it is ready a Job that submits the work to it.

Rule: `status.jobDeploymentStatus` is the state of a machine, and each reconciliation takes at most one step. The name
of the cluster is in the status before the cluster is created.

Simpler than KubeRay: the submitter's end is the job's end, as there is no Ray dashboard to ask; no retries.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from muster.api.fields import at, integer, items, mapping, text, texts
from muster.api.moment import parse_time
from muster.api.resources import JOBS, RAY_CLUSTERS, RAY_JOBS
from muster.workloads.conditions import is_condition_true, timestamp
from muster.workloads.operators.objects import child, flag, name_of, removal
from muster.workloads.operators.ray.ray_pods import ORIGIN_KIND, ORIGIN_NAME
from muster.workloads.pod_templates import is_terminating, template_hash
from muster.workloads.types import Action, Children, Controller, Create, Raw, Reconciliation

_OPERATOR = "ray.io/kuberay-operator"
_FOREVER = 10**9  # seconds


def reconcile(job: Raw, children: Children, now: datetime) -> Reconciliation:
    """Takes the next step of the job."""
    if is_terminating(job) or text(job, "spec.managedBy") not in ("", _OPERATOR):
        return Reconciliation()
    match text(job, "status.jobDeploymentStatus"):
        case "":
            return _initialize(job, now)
        case "Initializing":
            return _prepare(job, children, now)
        case "Running":
            return _watch_submitter(job, children, now)
        case "Suspending":
            return _suspend(job, children)
        case "Suspended" if not flag(job, "spec.suspend"):
            return _initialize(job, now)
        case "Complete" | "Failed":
            return _shut_down(job, children, now)
        case _:
            return Reconciliation()


def _with_state(job: Raw, state: str, **fields: str) -> Raw:
    return {**mapping(job, "status"), "jobDeploymentStatus": state, **fields}


def _initialize(job: Raw, now: datetime) -> Reconciliation:
    suffix = template_hash([text(job, "metadata.uid"), now.isoformat()])[:5]
    selected = texts(job, "spec.clusterSelector").get("ray.io/cluster", "")
    names = {
        "jobId": text(job, "spec.jobId") or f"{name_of(job)}-{suffix}",
        "rayClusterName": selected or f"{name_of(job)}-{suffix}",
    }
    return Reconciliation((), _with_state(job, "Initializing", startTime=timestamp(now), **names))


def _prepare(job: Raw, children: Children, now: datetime) -> Reconciliation:
    """Creates the cluster, and the submitter once the cluster is ready."""
    if flag(job, "spec.suspend"):
        return Reconciliation((), _with_state(job, "Suspending"))
    if late := _past_deadline(job, now):
        return late
    again = _seconds_to_deadline(job, now)
    if not mapping(job, "spec.clusterSelector"):
        cluster = _cluster_of(job, children)
        if cluster is None:
            return Reconciliation((Create(RAY_CLUSTERS, _new_cluster(job)),), None, again)
        if text(cluster, "status.state") != "ready":
            return Reconciliation((), None, again)
    return Reconciliation(tuple(_submission(job, children)), _with_state(job, "Running", jobStatus="RUNNING"), again)


def _cluster_of(job: Raw, children: Children) -> Raw | None:
    clusters = children.of(job, RAY_CLUSTERS)
    return next((raw for raw in clusters if name_of(raw) == text(job, "status.rayClusterName")), None)


def _new_cluster(job: Raw) -> Raw:
    labels = {**texts(job, "metadata.labels"), **_origin(job)}
    name, spec = text(job, "status.rayClusterName"), mapping(job, "spec.rayClusterSpec")
    return child(job, RAY_CLUSTERS, name, spec, labels=labels, annotations=texts(job, "metadata.annotations"))


def _origin(job: Raw) -> dict[str, str]:
    return {ORIGIN_NAME: name_of(job), ORIGIN_KIND: "RayJob"}


def _submission(job: Raw, children: Children) -> Sequence[Action]:
    if text(job, "spec.submissionMode") not in ("", "K8sJobMode") or children.of(job, JOBS):
        return ()
    limit = at(job, "spec.submitterConfig.backoffLimit")
    spec = {"backoffLimit": limit if isinstance(limit, int) else 2, "template": _submitter(job)}
    labels = {**_origin(job), "app.kubernetes.io/created-by": "kuberay-operator"}
    return (Create(JOBS, child(job, JOBS, name_of(job), spec, labels=labels)),)


def _submitter(job: Raw) -> Raw:
    """The user's template for the submitter, else one with the image of the head."""
    template = mapping(job, "spec.submitterPodTemplate")
    if template:
        return {**template, "spec": {"restartPolicy": "Never", **mapping(template, "spec")}}
    head = next(iter(items(job, "spec.rayClusterSpec.headGroupSpec.template.spec.containers")), {})
    container = {
        "name": "ray-job-submitter",
        "image": text(head, "image"),
        "command": ["ray", "job", "submit", "--", text(job, "spec.entrypoint")],
        "resources": {
            "limits": {"cpu": "1", "memory": "1Gi"},
            "requests": {"cpu": "500m", "memory": "200Mi"},
        },
    }
    return {"spec": {"restartPolicy": "Never", "containers": [container]}}


def _watch_submitter(job: Raw, children: Children, now: datetime) -> Reconciliation:
    if flag(job, "spec.suspend"):
        return Reconciliation((), _with_state(job, "Suspending"))
    submitter = next(iter(children.of(job, JOBS)), {})
    end = timestamp(now)
    if is_condition_true(submitter, "Failed"):
        return Reconciliation((), _with_state(job, "Failed", jobStatus="FAILED", endTime=end, reason="AppFailed"))
    if is_condition_true(submitter, "Complete"):
        return Reconciliation((), _with_state(job, "Complete", jobStatus="SUCCEEDED", endTime=end))
    return _past_deadline(job, now) or Reconciliation((), None, _seconds_to_deadline(job, now))


def _past_deadline(job: Raw, now: datetime) -> Reconciliation | None:
    remaining = _seconds_to_deadline(job, now)
    if remaining is None or remaining > 0:
        return None
    return Reconciliation((), _with_state(job, "Failed", endTime=timestamp(now), reason="DeadlineExceeded"))


def _seconds_to_deadline(job: Raw, now: datetime) -> float | None:
    return _remaining(at(job, "spec.activeDeadlineSeconds"), text(job, "status.startTime"), now)


def _remaining(seconds: object, since: str, now: datetime) -> float | None:
    start = parse_time(since)
    if not isinstance(seconds, int) or start is None:
        return None
    return (start + timedelta(seconds=min(max(seconds, 0), _FOREVER)) - now).total_seconds()


def _suspend(job: Raw, children: Children) -> Reconciliation:
    """Deletes the cluster and the submitter; the job is suspended once both are gone."""
    owned = [(resource, raw) for resource in (RAY_CLUSTERS, JOBS) for raw in children.of(job, resource)]
    if owned:
        return Reconciliation(tuple(removal(*one) for one in owned if not is_terminating(one[1])))
    gone = ("rayClusterName", "jobId", "jobStatus", "reason")
    status = {field: value for field, value in mapping(job, "status").items() if field not in gone}
    return Reconciliation((), {**status, "jobDeploymentStatus": "Suspended"})


def _shut_down(job: Raw, children: Children, now: datetime) -> Reconciliation:
    if not flag(job, "spec.shutdownAfterJobFinishes"):
        return Reconciliation()
    remaining = _remaining(integer(job, "spec.ttlSecondsAfterFinished"), text(job, "status.endTime"), now)
    if remaining is None or remaining > 0:
        return Reconciliation((), None, remaining)
    clusters = [raw for raw in children.of(job, RAY_CLUSTERS) if not is_terminating(raw)]
    return Reconciliation(tuple(removal(RAY_CLUSTERS, cluster) for cluster in clusters))


CONTROLLER = Controller(RAY_JOBS, reconcile, children=(RAY_CLUSTERS, JOBS))

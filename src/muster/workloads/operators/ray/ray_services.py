"""RayServices in their simplest form: one RayCluster, which serves once it is ready.

Simpler than KubeRay: a change of the configuration makes no second cluster, and no Ray Serve application is deployed.
"""

from datetime import datetime

from muster.api.fields import items, mapping, text, texts
from muster.api.resources import RAY_CLUSTERS, RAY_SERVICES
from muster.workloads.operators.conditions import WorkloadCondition, set_condition
from muster.workloads.operators.objects import child, name_of
from muster.workloads.operators.ray.ray_pods import ORIGIN_KIND, ORIGIN_NAME
from muster.workloads.pod_templates import is_terminating, template_hash
from muster.workloads.types import Children, Controller, Create, Raw, Reconciliation

_READY = WorkloadCondition("Ready", "NonZeroServeEndpoints", "the cluster serves")
_STARTING = WorkloadCondition("Ready", "Initializing", "the cluster is not ready", is_true=False)
_PENDING, _ACTIVE = "pendingServiceStatus", "activeServiceStatus"


def reconcile(service: Raw, children: Children, now: datetime) -> Reconciliation:
    """Names the cluster in the status, then creates it; it becomes active once it is ready."""
    if is_terminating(service):
        return Reconciliation()
    name = text(service, f"status.{_ACTIVE}.rayClusterName") or text(service, f"status.{_PENDING}.rayClusterName")
    if not name:
        suffix = template_hash([text(service, "metadata.uid"), now.isoformat()])[:5]
        pending = {"rayClusterName": f"{name_of(service)}-{suffix}"}
        return Reconciliation((), {**mapping(service, "status"), _PENDING: pending})
    cluster = next((raw for raw in children.of(service, RAY_CLUSTERS) if name_of(raw) == name), None)
    if cluster is None:
        return Reconciliation((Create(RAY_CLUSTERS, _new_cluster(service, name)),))
    return Reconciliation((), _status(service, cluster, now))


def _new_cluster(service: Raw, name: str) -> Raw:
    labels = {**texts(service, "metadata.labels"), ORIGIN_NAME: name_of(service), ORIGIN_KIND: "RayService"}
    annotations = {**texts(service, "metadata.annotations"), "ray.io/enable-serve-service": "true"}
    spec = mapping(service, "spec.rayClusterConfig")
    return child(service, RAY_CLUSTERS, name, spec, labels=labels, annotations=annotations)


def _status(service: Raw, cluster: Raw, now: datetime) -> Raw:
    is_ready = text(cluster, "status.state") == "ready"
    status = {field: value for field, value in mapping(service, "status").items() if field not in (_PENDING, _ACTIVE)}
    status[_ACTIVE if is_ready else _PENDING] = {"rayClusterName": name_of(cluster)}
    if is_ready:
        status["serviceStatus"] = "Running"
    condition = _READY if is_ready else _STARTING
    return {**status, "conditions": set_condition(items(service, "status.conditions"), condition, now)}


CONTROLLER = Controller(RAY_SERVICES, reconcile, children=(RAY_CLUSTERS,))

"""How a pod waits for cliques that start before it.

Rule: all pods of a gang are bound first; then an init container of each pod waits until an annotation of its pod says
that it may start. The annotation is a file in the container: no credentials, no network, no address.
"""

from muster.api import names
from muster.api.fields import items, mapping, texts
from muster.workloads.types import Raw

CONTAINER = "muster-wait-for-cliques"  # the init container
VOLUME = "muster-startup"
FOLDER, FILE = "/etc/muster/startup", "startup"
START = "start"  # the annotation of a pod that may start
USER = 65532  # of muster's image


def add_wait(spec: Raw, image: str) -> Raw:
    """A pod spec with the init container that waits; it comes last, so that others download and prepare meanwhile."""
    field = {"fieldPath": f"metadata.annotations['{names.STARTUP}']"}
    volume = {"name": VOLUME, "downwardAPI": {"items": [{"path": FILE, "fieldRef": field}]}}
    return {
        **spec,
        "initContainers": [*items(spec, "initContainers"), _container(spec, image)],
        "volumes": [*items(spec, "volumes"), volume],
    }


def _container(spec: Raw, image: str) -> Raw:
    return {
        "name": CONTAINER,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "args": ["wait-for-cliques", f"{FOLDER}/{FILE}"],
        "resources": _resources(spec),
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumeMounts": [{"name": VOLUME, "mountPath": FOLDER, "readOnly": True}],
    }


def _resources(spec: Raw) -> Raw:
    """CPU and memory of the first container: the pod needs no more than before, and keeps its QoS class."""
    first = next(iter(items(spec, "containers")), {})
    resources: Raw = {}
    for field in ("requests", "limits"):
        amounts = {name: value for name, value in mapping(first, f"resources.{field}").items() if name in _KEPT}
        if amounts:
            resources[field] = amounts
    return resources


_KEPT = ("cpu", "memory")


def is_waiting(pod: Raw) -> bool:
    """Whether a pod has to wait for other cliques before its containers start."""
    return _waits(pod) and texts(pod, "metadata.annotations").get(names.STARTUP) != START


def _waits(pod: Raw) -> bool:
    return any(container.get("name") == CONTAINER for container in items(pod, "spec.initContainers"))

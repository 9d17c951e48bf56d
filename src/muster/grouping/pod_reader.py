"""Pods from plain objects: what grouping reads of them, and nothing that kubelets and agents change all the time."""

from msgspec.structs import replace

from muster.api import names
from muster.api.decoding import decode
from muster.grouping.types import Raw, WorkloadPod, WorkloadPodStatus

# Annotations of owned pods that rules read; a pod without owners is a workload itself and keeps all of its own.
READ_PREFIXES = ("kai.scheduler/", "muster.dev/", "leaderworkerset.sigs.k8s.io/", "jobset.sigs.k8s.io/")
FINISHED_PHASES = ("Succeeded", "Failed")


def read_pod(raw: Raw) -> WorkloadPod:
    """The pod that a plain object describes; values of wrong types count as missing."""
    decoded, _ = decode(raw, WorkloadPod)
    meta, phase = decoded.metadata, decoded.status.phase
    annotations = {
        name: text
        for name, text in meta.annotations.items()
        if name == names.POD_GROUP
        or name.startswith(READ_PREFIXES)
        or (not meta.owner_references and name != names.LAST_APPLIED)
    }
    return WorkloadPod(
        replace(meta, resource_version="", generation=0, annotations=annotations),
        replace(decoded.spec, node_name=""),
        WorkloadPodStatus(phase if phase in FINISHED_PHASES else ""),
    )

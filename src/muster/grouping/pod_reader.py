"""Pods from plain objects: what grouping reads of them, and nothing that kubelets and agents change all the time."""

from typing import Protocol

from msgspec.structs import replace

from muster.api import names
from muster.api.core import PodStatus
from muster.api.decoding import decode
from muster.api.meta import ObjectMeta
from muster.grouping.types import Raw, WorkloadPod, WorkloadPodSpec, WorkloadPodStatus

# Annotations of owned pods that rules read; a pod without owners is a workload itself and keeps all of its own.
READ_PREFIXES = ("kai.scheduler/", "muster.dev/", "leaderworkerset.sigs.k8s.io/", "jobset.sigs.k8s.io/")
FINISHED_PHASES = ("Succeeded", "Failed")


class DecodedSpec(Protocol):
    """The fields of a spec that grouping reads."""

    @property
    def scheduler_name(self) -> str:
        """The scheduler of the pod."""

    @property
    def priority_class_name(self) -> str:
        """Its priority class; empty: none."""


class DecodedPod(Protocol):
    """A pod as any struct that has these fields."""

    @property
    def metadata(self) -> ObjectMeta:
        """Identity, labels, annotations and owners."""

    @property
    def spec(self) -> DecodedSpec:
        """What it asks for."""

    @property
    def status(self) -> PodStatus:
        """Its phase."""


def read_pod(raw: Raw) -> WorkloadPod:
    """The pod that a plain object describes; values of wrong types count as missing."""
    decoded, _ = decode(raw, WorkloadPod)
    return WorkloadPod(
        _read_metadata(decoded.metadata), replace(decoded.spec, node_name=""), _read_status(decoded.status.phase)
    )


def pod_of(pod: DecodedPod) -> WorkloadPod:
    """What grouping reads of a pod that is decoded already."""
    spec = WorkloadPodSpec(pod.spec.scheduler_name, pod.spec.priority_class_name)
    return WorkloadPod(_read_metadata(pod.metadata), spec, _read_status(pod.status.phase))


def _read_metadata(meta: ObjectMeta) -> ObjectMeta:
    annotations = {
        name: text
        for name, text in meta.annotations.items()
        if name == names.POD_GROUP
        or name.startswith(READ_PREFIXES)
        or (not meta.owner_references and name != names.LAST_APPLIED)
    }
    return replace(meta, resource_version="", generation=0, annotations=annotations)


def _read_status(phase: str) -> WorkloadPodStatus:
    return WorkloadPodStatus(phase if phase in FINISHED_PHASES else "")

"""Pods as small as muster needs them: fields that no rule reads are dropped, and equal parts are stored once.

The pods of a workload differ in their names; nearly everything else is the same object in memory. 100,000 pods take
less than 400 MB, with everything that is derived from them.
"""

import sys
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from muster.api import names
from muster.api.core import (
    Namespace,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodSpec,
    PodStatus,
    StorageClass,
)
from muster.api.meta import ObjectMeta, Wire
from muster.kube.listed_pod import ListedPod, ListedSpec, decode_spec, encode_spec, with_pinning_volumes

T = TypeVar("T")
READ_ANNOTATIONS = frozenset((names.POD_GROUP, names.GROUPED_BY, names.SKIP_GROUPING, *names.SHARED_GPU))  # of pods
SHARED_FIELDS = (  # of a spec
    "containers",
    "init_containers",
    "node_selector",
    "affinity",
    "tolerations",
    "topology_spread_constraints",
    "volumes",
)
MAX_PARTS = 50_000  # parts that are remembered; beyond it the table starts again, and parts in use stay in use
SPARE_PARTS, PARTS_OF_A_POD = 1_000, 4


def strip(decoded: Wire) -> Wire:
    """Without `resourceVersion`, which differs after every write.

    Nodes, volumes, claims, classes and namespaces also without annotations that no rule reads: agents write many.
    """
    meta: ObjectMeta = decoded.metadata  # type: ignore[attr-defined]  # every watched kind has it
    if isinstance(decoded, Node | PersistentVolume | PersistentVolumeClaim | StorageClass | Namespace):
        node = meta.annotations.get(names.SELECTED_NODE, "")
        read = {names.SELECTED_NODE: node} if node and isinstance(decoded, PersistentVolumeClaim) else {}
        meta = replace(meta, annotations=read, owner_references=())
    return replace(decoded, metadata=replace(meta, resource_version=""))


class PodInterner:
    """Makes pods small: equal parts of different pods become one object."""

    def __init__(self) -> None:
        self._parts: dict[object, object] = {}

    def __len__(self) -> int:
        return len(self._parts)

    def intern(self, pod: Pod) -> Pod:
        """A pod that every rule reads in the same way."""
        spec = self._share_parts(with_pinning_volumes(pod.spec))
        return Pod(self._metadata(pod.metadata), spec, self._share_status(pod.status))

    def intern_listed(self, pod: ListedPod) -> Pod | None:
        """The same of a pod as lists bring it, at less cost; None: a part does not fit."""
        about = encode_spec(pod.spec)
        spec: PodSpec | None = self._parts.get(about)  # type: ignore[assignment]
        if spec is None:
            try:
                spec = self._parts[about] = self._read_spec(pod.spec, about)
            except msgspec.ValidationError:
                return None
        return Pod(self._metadata(pod.metadata), spec, self._share_status(pod.status))

    def _read_spec(self, listed: ListedSpec, about: bytes) -> PodSpec:
        """A spec that is seen first on its node: mostly one that is known without a node, on another one."""
        if listed.node_name:
            about = encode_spec(replace(listed, node_name=""))
        template: PodSpec | None = self._parts.get(about)  # type: ignore[assignment]
        if template is None:
            template = self._parts[about] = self._share_parts(decode_spec(about))
        return replace(template, node_name=sys.intern(listed.node_name)) if listed.node_name else template

    def drop_unused(self, pods: int) -> None:
        """Forget the parts of pods that are gone, once they outnumber by far those of so many that are there."""
        if len(self._parts) > SPARE_PARTS + PARTS_OF_A_POD * pods:
            self._parts = {}

    def _metadata(self, meta: ObjectMeta) -> ObjectMeta:
        return replace(
            meta,
            generate_name="",
            resource_version="",
            namespace=sys.intern(meta.namespace),
            labels=self._shared("labels", meta.labels),
            annotations=self._share_annotations(meta.annotations),
            owner_references=(),
        )

    def _share_annotations(self, annotations: dict[str, str]) -> dict[str, str]:
        """Those that a rule reads; they are their own key."""
        read = tuple([(name, text) for name, text in annotations.items() if name in READ_ANNOTATIONS])
        if not read:
            return {}
        shared: dict[str, str] | None = self._parts.get(read)  # type: ignore[assignment]
        if shared is None:
            shared = self._parts[read] = dict(read)
        return shared

    def _share_status(self, status: PodStatus) -> PodStatus:
        """There are few: a status is its own key."""
        return self._parts.setdefault(status, status)  # type: ignore[return-value]

    def _share_parts(self, spec: PodSpec) -> PodSpec:
        shared = {field: self._shared(field, getattr(spec, field)) for field in SHARED_FIELDS}
        return replace(spec, node_name=sys.intern(spec.node_name), **shared)

    def _shared(self, field: str, value: T) -> T:
        """An equal value: the same object for all that are equal in this field."""
        if not value:
            return value
        if len(self._parts) > MAX_PARTS:
            self._parts = {}
        part: T = self._parts.setdefault((field, msgspec.json.encode(value)), value)  # type: ignore[assignment]
        return part

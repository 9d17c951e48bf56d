"""Pods as small as muster needs them: what no rule reads is left out, and equal parts are kept once.

The pods of a workload differ in their names; nearly everything else is the same object in memory. 100,000 pods take
less than 400 MB with everything that is known about them.
"""

import sys
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from muster.api import names
from muster.api.core import Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, StorageClass
from muster.api.meta import Wire

T = TypeVar("T")
MOST = 50_000  # parts that are remembered; then they are collected anew, and what is in use stays where it is used


def bare(found: Wire) -> Wire:
    """Nodes, volumes, claims, classes and namespaces without annotations that no rule reads: agents write many."""
    if isinstance(found, Node | PersistentVolume | PersistentVolumeClaim | StorageClass | Namespace):
        node = found.metadata.annotations.get(names.SELECTED_NODE, "")
        read = {names.SELECTED_NODE: node} if node and isinstance(found, PersistentVolumeClaim) else {}
        return replace(found, metadata=replace(found.metadata, annotations=read, owner_references=()))
    return found


class Slim:
    """Makes pods small."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, bytes], object] = {}

    def pod(self, pod: Pod) -> Pod:
        """The same pod for every rule."""
        meta, spec, status = pod.metadata, pod.spec, pod.status
        gang = meta.annotations.get(names.POD_GROUP)
        return Pod(
            replace(
                meta,
                generate_name="",
                namespace=sys.intern(meta.namespace),
                labels=self._one("labels", meta.labels),
                annotations=self._one("annotations", {names.POD_GROUP: gang} if gang else {}),
                creation_timestamp=self._one("creation_timestamp", meta.creation_timestamp),
                owner_references=(),
            ),
            replace(
                spec,
                node_name=sys.intern(spec.node_name),
                containers=self._one("containers", spec.containers),
                init_containers=self._one("init_containers", spec.init_containers),
                node_selector=self._one("node_selector", spec.node_selector),
                affinity=self._one("affinity", spec.affinity),
                tolerations=self._one("tolerations", spec.tolerations),
                topology_spread_constraints=self._one("topology_spread_constraints", spec.topology_spread_constraints),
                volumes=self._one(
                    "volumes", tuple(one for one in spec.volumes if one.persistent_volume_claim or one.ephemeral)
                ),
            ),
            self._one("status", status),
        )

    def _one(self, field: str, value: T) -> T:
        """A value that is equal, and the same object for all that are equal in this field."""
        if not value:
            return value
        if len(self._known) > MOST:
            self._known = {}
        found: T = self._known.setdefault((field, msgspec.json.encode(value)), value)  # type: ignore[assignment]
        return found

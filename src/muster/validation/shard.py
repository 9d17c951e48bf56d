"""Which nodes, queues, PodGroups and pods belong to a shard: a pool of nodes that has a muster of its own.

Rule: files, live verbs, the cache and the pod grouper ask here. A label decides, as with KAI's SchedulingShard.
"""

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from muster.api import names
from muster.api.core import Node, Pod
from muster.api.objects import Objects, key
from muster.api.podgroup import PodGroup
from muster.validation.pods.membership import gang_of


class Shard(Struct, frozen=True):
    """All objects whose label has this value; those without the label, or with an empty one, are the default shard."""

    value: str = ""  # empty: the default shard
    label: str = names.NODE_POOL

    @property
    def is_default(self) -> bool:
        """Whether it has the objects without the label, and what is done once for the whole cluster."""
        return not self.value

    @property
    def title(self) -> str:
        """Its name in a sentence."""
        return f"the shard `{self.value}`" if self.value else "the default shard"

    def has(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels belongs to it; every object belongs to exactly one shard."""
        return labels.get(self.label, "") == self.value

    def has_gang(self, pod: Pod, group: PodGroup | None) -> bool:
        """Whether a pod's gang belongs to it: the PodGroup decides; without one, the pod's own label."""
        return self.has((group or pod).metadata.labels)

    def has_pod(self, pod: Pod, group: PodGroup | None, node: Node | None) -> bool:
        """Whether a plan of this shard reads a pod: one of its gangs, or one that uses resources of its nodes (N6)."""
        return self.has_gang(pod, group) or (node is not None and self.has(node.metadata.labels))


def select(objects: Objects, shard: Shard | None) -> Objects:
    """What a plan of this shard reads, as a value; None: everything. Kinds without pools are read by all shards."""
    if shard is None:
        return objects
    groups = {key(group.metadata): group for group in objects.pod_groups}
    nodes = {node.metadata.name: node for node in objects.nodes}
    return replace(
        objects,
        nodes=tuple(node for node in objects.nodes if shard.has(node.metadata.labels)),
        queues=tuple(queue for queue in objects.queues if shard.has(queue.metadata.labels)),
        pod_groups=tuple(group for group in objects.pod_groups if shard.has(group.metadata.labels)),
        pods=tuple(
            pod
            for pod in objects.pods
            if shard.has_pod(pod, groups.get(gang_of(pod) or ""), nodes.get(pod.spec.node_name))
        ),
    )

"""Which gangs the grouper of a shard writes, and which pods it reports. Every shard assigns all pods; one writes each.

Rule: what decides is the same for all shards: the PodGroup as it is stored, else as it will be.
"""

from collections.abc import Callable

from muster.api.meta import ObjectMeta
from muster.api.podgroup import PodGroup
from muster.config.settings import ShardSettings
from muster.controllers.grouper.gang_record import representative
from muster.controllers.grouper.members import MemberIndex
from muster.grouping.group import pool_of


class ShardScope:
    """The gangs of a shard, or all of them."""

    def __init__(
        self, settings: ShardSettings, pod_group: Callable[[str], PodGroup | None], members: MemberIndex
    ) -> None:
        self._shard, self.pool_label = settings.chosen, settings.node_pool_label_key
        self._pod_group, self._members = pod_group, members

    def has_gang(self, gang: str) -> bool:
        """Whether a gang is of the shard: by the label of its PodGroup, else by the one that this will get."""
        if self._shard is None:
            return True
        existing = self._pod_group(gang)
        if existing is not None:
            return self._shard.has(existing.metadata.labels)
        active = [member for member in self._members.of_gang(gang) if member.is_active]
        return bool(active) and pool_of(representative(active), self.pool_label) == self._shard.value

    def reports(self, pod: ObjectMeta, gang: str | None = None) -> bool:
        """Whether a pod is reported here: by its gang, else by its own label."""
        return self._shard is None or (self.has_gang(gang) if gang else self._shard.has(pod.labels))

"""What if these workloads were submitted: their PodGroups and pods, added to or replacing what there is.

Rule: pods that exist stay, as their nodes run them; pods that do not exist yet follow the new manifest.
"""

from collections.abc import Sequence
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from muster.api.meta import Wire
from muster.api.objects import Objects, key
from muster.grouping.manifests.settings import GroupingSettings
from muster.grouping.manifests.types import GroupedObjects
from muster.planning.grove.grouped_sets import group_workloads
from muster.planning.whatif import add_objects

T = TypeVar("T", bound=Wire)


class SupposedWorkloads(Struct, frozen=True, eq=False):
    """Objects with the PodGroups and pods of their workloads, and what is added to them."""

    before: Objects
    base: Objects  # `before`, without pods and PodGroups that a changed workload no longer has
    added: Objects | None
    grouped: GroupedObjects  # of all workloads, those that are added as well


def suppose_workloads(given: Objects, more: Objects | None, settings: GroupingSettings) -> SupposedWorkloads:
    """The workloads of the objects, and those that are added."""
    before = group_workloads(given, settings)
    if more is None:
        return SupposedWorkloads(before.objects, before.objects, None, before)
    after = group_workloads(add_objects(given, more)[0], settings)
    old, new = before.objects, after.objects
    added = replace(
        more,
        pods=_changed(old.pods, new.pods, more.pods),
        pod_groups=_changed(old.pod_groups, new.pod_groups, more.pod_groups),
        topologies=_changed(old.topologies, new.topologies, more.topologies),
        others=(),
    )
    base = replace(old, pods=_left(old.pods, new.pods), pod_groups=_left(old.pod_groups, new.pod_groups))
    return SupposedWorkloads(old, base, added, after)


def _changed(before: Sequence[T], after: Sequence[T], more: Sequence[T]) -> tuple[T, ...]:
    """Objects that are given, new or different; of those without a name, the ones that come after all old ones."""
    old, given, nameless = _by_key(before), _by_key(more), sum(not _name(item) for item in before)
    named = [item for item in after if _name(item) and (_key(item) in given or old.get(_key(item)) != item)]
    return (*named, *[item for item in after if not _name(item)][nameless:])


def _left(before: Sequence[T], after: Sequence[T]) -> tuple[T, ...]:
    """Objects that are still there."""
    new = _by_key(after)
    return tuple(item for item in before if not _name(item) or _key(item) in new)


def _by_key(items: Sequence[T]) -> dict[str, T]:
    return {_key(item): item for item in items}


def _key(item: Any) -> str:
    return key(item.metadata)


def _name(item: Any) -> str:
    name: str = item.metadata.name
    return name

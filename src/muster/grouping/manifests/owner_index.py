"""The owners of pods, among the objects that were given and those that are still to be made.

Rule 1: an object without a uid is the one that pods mean by its kind and name. Rule 2: what does not exist yet has no
uid in the end: PodGroups are named after its kind, and name no owner that a cluster does not have.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from muster.api import names
from muster.api.fields import text
from muster.api.meta import OwnerReference
from muster.api.resources import PODS
from muster.grouping.manifests.settings import GroupingSettings, group_kind
from muster.grouping.owner_reader import read_owner
from muster.grouping.owners import Missing, OwnerChain, OwnersUnsynced, walk_owners
from muster.grouping.types import Owner, Raw, Ungrouped, WorkloadPod
from muster.workloads.expansion import PLANNED

Place = tuple[str, str, str, str]  # API group, kind, namespace and name
MISSING: Missing = "NotFound"


class OwnerIndex:
    """Looks owners up as the live loop does."""

    def __init__(self, raws: Iterable[Raw], settings: GroupingSettings) -> None:
        self._raws = {_place(raw): raw for raw in raws}
        self._kinds, self._unread, self._is_live = settings.kinds, settings.unread, settings.is_live
        self._owners: dict[tuple[Place, str], Owner] = {}  # by the uid, too, by which they were asked for
        self._unnamed: dict[int, Owner] = {}  # without uid, by the identity of the owner with one

    def chain_of(self, pod: WorkloadPod) -> OwnerChain | Ungrouped:
        """The owners of a pod; those that do not exist yet without uid."""
        chain = walk_owners(pod.metadata, self._lookup)
        assert not isinstance(chain, OwnersUnsynced)  # nothing here is read later
        if isinstance(chain, Ungrouped):
            return _not_given(chain) if chain.reason == "OwnerNotFound" and not self._is_live else chain
        return OwnerChain(tuple(map(self._without_planned_uid, chain.owners)), chain.notes)

    def _lookup(self, reference: OwnerReference, namespace: str) -> Owner | Missing:
        kind = reference.api_version.rpartition("/")[0], reference.kind
        if kind not in self._kinds and kind != (PODS.group, PODS.kind):
            return "Unlisted"
        place = (*kind, namespace or names.DEFAULT_NAMESPACE, reference.name)
        known = self._owners.get((place, reference.uid))
        if known is None and place in self._raws:
            known = self._read(self._raws[place], reference.uid)
            self._owners[place, reference.uid] = known
        return known if known is not None else self._unread.get(kind, MISSING)

    @staticmethod
    def _read(raw: Raw, uid: str) -> Owner:
        owner = read_owner(raw)
        if owner.metadata.uid:
            return owner
        return replace(owner, metadata=replace(owner.metadata, uid=uid))

    def _without_planned_uid(self, owner: Owner) -> Owner:
        """The same object for the same owner: trees are remembered in it."""
        if not owner.metadata.uid.startswith(PLANNED):
            return owner
        if id(owner) not in self._unnamed:
            self._unnamed[id(owner)] = replace(owner, metadata=replace(owner.metadata, uid=""))
        return self._unnamed[id(owner)]


def _place(raw: Raw) -> Place:
    namespace = text(raw, "metadata.namespace") or names.DEFAULT_NAMESPACE
    return (*group_kind(raw), namespace, text(raw, "metadata.name"))


def _not_given(why: Ungrouped) -> Ungrouped:
    return Ungrouped(
        why.reason,
        why.message.replace("does not exist", "is not among the objects"),
        "add its manifest, and those of its owners: `kubectl get KIND NAME -o yaml`",
    )

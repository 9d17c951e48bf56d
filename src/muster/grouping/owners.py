"""The owners of a pod, from its controller up to the workload that a user created.

Rule: where an owner may not be read, the last one that was read counts, and the pod says so. An owner that is not the
one that was meant (another uid) is never guessed.
"""

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from muster.api.meta import ObjectMeta, OwnerReference
from muster.grouping.types import Owner, Ungrouped

MOST_OWNERS = 16  # between a pod and its workload
Missing = Literal["Unlisted", "Forbidden", "NoSuchKind", "NotFound", "Unsynced"]
Lookup = Callable[[OwnerReference, str], Owner | Missing]  # a reference, and the namespace of what names it


class OwnerChain(Struct, frozen=True):
    """What is known of the owners of a pod."""

    owners: tuple[Owner, ...] = ()  # from the pod upwards
    notes: tuple[Ungrouped, ...] = ()  # why it ends before the top


class OwnersUnsynced(Struct, frozen=True):
    """An owner of this kind was not listed yet: the answer comes later."""

    reference: OwnerReference


def walk_owners(pod: ObjectMeta, lookup: Lookup) -> OwnerChain | Ungrouped | OwnersUnsynced:
    """Follows the controller references upwards."""
    owners: list[Owner] = []
    current, seen = pod, {pod.uid}
    while True:
        reference = controller_of(current)
        if reference is None:
            return OwnerChain(tuple(owners))
        if isinstance(reference, Ungrouped):
            return reference
        if reference.uid in seen or len(owners) == MOST_OWNERS:
            return _endless(reference)
        owner = lookup(reference, pod.namespace)
        if isinstance(owner, str):
            return _without(reference, owner, owners)
        if owner.metadata.uid != reference.uid:
            return _other_uid(reference)
        seen.add(reference.uid)
        owners.append(owner)
        current = owner.metadata


def _without(
    reference: OwnerReference, missing: Missing, owners: list[Owner]
) -> OwnerChain | Ungrouped | OwnersUnsynced:
    match missing:
        case "Unsynced":
            return OwnersUnsynced(reference)
        case "NotFound":
            return _not_found(reference)
        case "Unlisted" | "Forbidden" | "NoSuchKind":
            return OwnerChain(tuple(owners), (_unreadable(reference, missing, owners),))


def controller_of(metadata: ObjectMeta) -> OwnerReference | Ungrouped | None:
    """The controller of an object; without one, its only owner. None: it has no owner."""
    references = metadata.owner_references
    controllers = [reference for reference in references if reference.controller]
    candidates = controllers or references
    if len(candidates) > 1:
        names = ", ".join(_named(reference) for reference in candidates[:5])
        return Ungrouped(
            "SeveralOwners",
            f"`{metadata.name}` has {len(candidates)} owners and none of them alone controls it: {names}",
            "set `controller: true` on the owner reference that makes its pods",
        )
    return candidates[0] if candidates else None


def _named(reference: OwnerReference) -> str:
    return f"{reference.kind} `{reference.name}`"


def _unreadable(reference: OwnerReference, why: str, owners: list[Owner]) -> Ungrouped:
    last = f"{owners[-1].kind} `{owners[-1].metadata.name}`" if owners else "the pod alone"
    kind = f"{reference.kind} ({reference.api_version})"
    grouped = f"the pod is grouped by {last}"
    if why == "Unlisted":
        hint = (
            "add its resource to `grouping.owners` (Helm: `config.grouping.owners`), or, if muster does not know the "
            "kind, describe it in `grouping.kinds`"
        )
        return Ungrouped("OwnerNotListed", f"{_named(reference)} is not read, as {kind} is not listed: {grouped}", hint)
    if why == "Forbidden":
        hint = f"let muster get, list and watch {kind}: the chart does so for every kind in `grouping.owners`"
        return Ungrouped("OwnerForbidden", f"muster may not read {_named(reference)}: {grouped}", hint)
    hint = f"install the CRD of {kind}, or delete what it left behind"
    return Ungrouped("OwnerKindMissing", f"{_named(reference)}: the cluster does not know {kind}: {grouped}", hint)


def _not_found(reference: OwnerReference) -> Ungrouped:
    return Ungrouped(
        "OwnerNotFound",
        f"owner {_named(reference)} does not exist: the pod is not grouped",
        "Kubernetes deletes pods without owners; to keep this one, remove its owner reference",
    )


def _other_uid(reference: OwnerReference) -> Ungrouped:
    return Ungrouped(
        "OwnerUidDiffers",
        f"owner {_named(reference)} exists with another uid than `{reference.uid}`: the pod is not grouped",
        "its owner was deleted and created again; delete the pod, and its new owner makes another one",
    )


def unread_owner(kind: str, why: str) -> Ungrouped:
    """A pod that waits for an owner of a kind, `apiVersion kind`, that cannot be listed or read."""
    return Ungrouped(
        "OwnerNotRead",
        f"an owner of the pod ({kind}) cannot be read yet: {why[:300]}: the pod is not grouped",
        "it is grouped as soon as its owner can be read; `kubectl get` of that kind shows more",
    )


def _endless(reference: OwnerReference) -> Ungrouped:
    return Ungrouped(
        "OwnersWithoutEnd",
        f"the owner references of the pod lead in a circle, or further than {MOST_OWNERS} owners: {_named(reference)}",
        "correct the owner references",
    )

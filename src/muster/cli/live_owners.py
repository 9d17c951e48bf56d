"""Reads the owners of pods in a live cluster: kind by kind, from the pods upwards, and only what pods ask for."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from msgspec import Struct

from muster.api.codec import Document
from muster.api.core import Pod
from muster.api.fields import items, text
from muster.api.objects import Objects, OtherObject, key
from muster.api.resources import PODS, Resource
from muster.cli import live
from muster.grouping.eligibility import is_grouped
from muster.grouping.manifests.future_pods import workload_of
from muster.grouping.manifests.settings import GroupingSettings, GroupKind
from muster.grouping.owners import MOST_OWNERS, Missing
from muster.grouping.pod_reader import pod_of
from muster.grouping.table import KINDS
from muster.kube.cluster import Raw
from muster.kube.errors import ApiError
from muster.validation.pods.membership import gang_of

REFUSALS: Mapping[int, Missing] = {401: "Forbidden", 403: "Forbidden", 404: "NoSuchKind"}
Wanted = dict[tuple[str, str], set[str]]  # `apiVersion` and `kind` of owners -> uids


class LiveOwners(Struct, frozen=True):
    """Owners of pods, and kinds of owners that cannot be read."""

    objects: tuple[OtherObject, ...] = ()
    unread: Mapping[GroupKind, Missing] = {}


def read(
    kubeconfig: str | None, context: str | None, objects: Objects, settings: GroupingSettings, *, reads_all: bool
) -> LiveOwners:
    """The owners of pods that are grouped here, up to the top. `reads_all`: of pods that have their PodGroup, too."""
    existing = frozenset() if reads_all else {key(group.metadata) for group in objects.pod_groups}
    wanted = _wanted_by(pod for pod in objects.pods if gang_of(pod) not in existing and _is_grouped(pod, settings))
    if not wanted:
        return LiveOwners()
    cluster = live.connect(kubeconfig, context)
    return asyncio.run(_read(cluster, wanted, settings))


def beside(given: Sequence[OtherObject], owners: Iterable[OtherObject]) -> tuple[OtherObject, ...]:
    """What was given, and owners of the cluster that were not."""
    known = {workload_of(other.raw) for other in given}
    return (*given, *(owner for owner in owners if workload_of(owner.raw) not in known))


def _is_grouped(pod: Pod, settings: GroupingSettings) -> bool:
    return bool(pod.metadata.owner_references) and is_grouped(pod_of(pod), settings.schedulers)


def _wanted_by(pods: Iterable[Pod]) -> Wanted:
    wanted: Wanted = {}
    for pod in pods:
        for reference in pod.metadata.owner_references:
            wanted.setdefault((reference.api_version, reference.kind), set()).add(reference.uid)
    return wanted


async def _read(cluster: live.LiveCluster, wanted: Wanted, settings: GroupingSettings) -> LiveOwners:
    """Owners of owners as well, for as many levels as a pod may have."""
    plurals = {(rule.group, rule.kind): rule.plural for rule in (*KINDS.values(), *settings.rules)}
    owners: dict[str, Raw] = {}  # by uid
    unread: dict[GroupKind, Missing] = {}
    try:
        for _ in range(MOST_OWNERS):
            level, wanted = wanted, {}
            for (api_version, kind), uids in level.items():
                group, _, version = api_version.rpartition("/")
                is_read = (group, kind) in settings.kinds and (group, kind) != (PODS.group, PODS.kind)
                if not is_read or uids <= owners.keys():
                    continue
                raws = await _list(cluster, Resource(group, version, plurals[group, kind], kind), uids)
                if isinstance(raws, str):
                    unread[group, kind] = raws
                    continue
                owners |= raws
                _add_owners(wanted, raws.values())
    finally:
        await cluster.close()
    others = tuple(OtherObject("the live cluster", raw, is_live=True) for raw in owners.values())
    return LiveOwners(others, unread)


async def _list(cluster: live.LiveCluster, resource: Resource, uids: set[str]) -> dict[str, Raw] | Missing:
    """The objects of a kind with these uids, or why they cannot be read."""
    try:
        pages = await live.list_pages(cluster, resource, partial(_select, uids))
    except ApiError as error:
        if error.status in REFUSALS:
            return REFUSALS[error.status]
        raise live.unreadable(error, cluster.server, resource) from error
    return {uid: raw for page in pages for uid, raw in page.items()}


def _select(uids: set[str], page: list[Document]) -> dict[str, Raw]:
    return {uid: document.raw for document in page if (uid := text(document.raw, "metadata.uid")) in uids}


def _add_owners(wanted: Wanted, raws: Iterable[Raw]) -> None:
    for raw in raws:
        for reference in items(raw, "metadata.ownerReferences"):
            kind = text(reference, "apiVersion"), text(reference, "kind")
            wanted.setdefault(kind, set()).add(text(reference, "uid"))

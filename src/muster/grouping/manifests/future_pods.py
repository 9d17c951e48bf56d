"""The pods that manifests will have, beside those that exist.

Rule: pods that exist count instead of future ones, though the objects between them and a manifest are not given.
"""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from muster.api.codec import Document, format_misfits
from muster.api.core import Pod
from muster.api.decoding import decode, encode
from muster.api.fields import items, text
from muster.api.names import DEFAULT_NAMESPACE
from muster.api.objects import Objects, OtherObject, key
from muster.api.resources import CRON_JOBS, PODS, RAY_JOBS, RAY_SERVICES
from muster.errors import InputError
from muster.grouping.manifests.checks import no_containers
from muster.grouping.manifests.replica_sets import missing_replica_sets, with_current_templates
from muster.grouping.manifests.settings import GroupingSettings, group_kind
from muster.grouping.manifests.types import ExpandedWorkload, Workload
from muster.grouping.owners import MOST_OWNERS
from muster.grouping.types import Raw
from muster.workloads.expansion import ExpandedPod, Expansion, expand_objects

ONE_AT_A_TIME = {(resource.group, resource.kind) for resource in (CRON_JOBS, RAY_JOBS, RAY_SERVICES)}
FINISHED = ("Succeeded", "Failed")


class FuturePods(Struct, frozen=True):
    """Pods that do not exist yet, and the owners of all pods."""

    pods: tuple[Pod, ...]
    owners: tuple[Raw, ...]
    expanded: tuple[ExpandedWorkload, ...]


def make_pods(objects: Objects, manifests: Sequence[OtherObject], settings: GroupingSettings) -> FuturePods:
    """The pods of manifests. InputError: a template is no pod, or there are too many pods."""
    if not manifests:
        return FuturePods((), (), ())
    existing = [plain_pod(pod) for pod in objects.pods if pod.metadata.owner_references]
    running = _names_of_owners(existing + [manifest.raw for manifest in manifests])
    raws = [manifest.raw for manifest in _without_live(manifests) if not _has_run(manifest.raw, running)]
    between = missing_replica_sets(objects.pods, raws)
    workloads = with_current_templates([*raws, *between], objects.pods)
    expansion = _expand([*existing, *workloads], manifests, settings)
    made = _without_existing(expansion.pods, objects)
    by_workload = {workload_of(manifest.raw): manifest for manifest in manifests}
    pods = tuple(_decode(each, by_workload) for each in made)
    expanded = _expanded(by_workload, made, running, settings)
    return FuturePods(pods, expansion.owners, tuple(expanded))


def _without_existing(made: Sequence[ExpandedPod], objects: Objects) -> list[ExpandedPod]:
    """Without pods that a controller would replace by one of the same name: those that exist stay."""
    existing = {key(pod.metadata) for pod in objects.pods}
    return [each for each in made if _key(each.pod) not in existing]


def _key(raw: Raw) -> str:
    place = workload_of(raw)
    return f"{place.namespace}/{place.name}"


def _expand(raws: Sequence[Raw], manifests: Sequence[OtherObject], settings: GroupingSettings) -> Expansion:
    try:
        return expand_objects(raws, settings.controllers)
    except InputError as error:  # several workloads may be too large together
        files = [manifest.where for manifest in manifests if manifest.kind in settings.makers]
        more = f" and {len(files) - 1} more" if len(files) > 1 else ""
        raise InputError(f"{files[0]}{more}: {error.message}", hint=error.hint) from None


def _without_live(manifests: Sequence[OtherObject]) -> Iterator[OtherObject]:
    """Without objects of a cluster, whose controllers make their pods, unless what is above them is in a file."""
    by_workload = {workload_of(manifest.raw): manifest for manifest in manifests}
    for manifest in manifests:
        top, levels = manifest, MOST_OWNERS
        while levels and top.is_live and (above := next(iter(_names_of_owners([top.raw])), None)) in by_workload:
            top, levels = by_workload[above], levels - 1
        if not top.is_live:
            yield manifest


def workload_of(raw: Raw) -> Workload:
    """A manifest by its name."""
    meta = raw.get("metadata") or {}
    name = text(meta, "name") or text(meta, "generateName")
    return Workload(text(meta, "namespace") or DEFAULT_NAMESPACE, name, raw["kind"], raw["apiVersion"])


def plain_pod(pod: Pod) -> Raw:
    """What controllers read of a pod; one that has not ended counts as ready, so that those after it are made, too."""
    status = {"phase": pod.status.phase} if pod.status.phase in FINISHED else {}
    meta, spec = encode(pod.metadata), {"nodeName": pod.spec.node_name}
    return {"apiVersion": PODS.api_version, "kind": PODS.kind, "metadata": meta, "spec": spec, "status": status}


def _names_of_owners(raws: Sequence[Raw]) -> set[Workload]:
    """What objects name as their owners."""
    return {
        Workload(workload_of(raw).namespace, text(owner, "name"), text(owner, "kind"), text(owner, "apiVersion"))
        for raw in raws
        for owner in items(raw, "metadata.ownerReferences")
    }


def _has_run(raw: Raw, running: set[Workload]) -> bool:
    """Whether it makes one object at a time, and has one already: the next Job or RayCluster may come much later."""
    return group_kind(raw) in ONE_AT_A_TIME and workload_of(raw) in running


def _decode(made: ExpandedPod, manifests: Mapping[Workload, OtherObject]) -> Pod:
    """The pod, without uid and age: it does not exist yet."""
    top = made.owners[-1] if made.owners else made.pod
    manifest = manifests.get(workload_of(top)) or OtherObject("the manifests", top)
    if not items(made.pod, "spec.containers"):
        raise no_containers(manifest)
    try:
        pod, misfits = decode(made.pod, Pod)
    except (UnicodeError, ValueError, OverflowError):
        raise InputError(f"{manifest.where}: holds text or numbers that cannot be written out") from None
    if misfits:
        raise InputError(
            format_misfits(Document(manifest.where, made.pod), misfits),
            hint=f"the pod template of {workload_of(top)} says so",
        )
    return replace(pod, metadata=replace(pod.metadata, uid="", creation_timestamp=None))


# what became of manifests -------------------------------------------------------------------------------------------


def _expanded(
    manifests: Mapping[Workload, OtherObject],
    pods: Sequence[ExpandedPod],
    running: set[Workload],
    settings: GroupingSettings,
) -> Iterator[ExpandedWorkload]:
    """Every manifest that gets pods, and those that get none although nothing exists of them."""
    schedulers: dict[Workload, dict[str, int]] = {}
    for made in pods:
        for owner in {workload_of(owner): None for owner in made.owners}:
            names = schedulers.setdefault(owner, {})
            name = text(made.pod, "spec.schedulerName")
            names[name] = names.get(name, 0) + 1
    for workload, manifest in manifests.items():
        is_owned = bool(items(manifest.raw, "metadata.ownerReferences"))
        if workload in schedulers or not (is_owned or workload in running):
            made_for = schedulers.get(workload, {})
            yield ExpandedWorkload(workload, manifest.where, made_for, manifest.kind in settings.makers)

"""The objects that a verb works on: from files, and from a live cluster where the user names one."""

from collections import Counter
from collections.abc import Collection, Iterable
from itertools import groupby
from operator import itemgetter

import click
from msgspec import Struct
from msgspec.structs import replace

from muster.api import codec
from muster.api.objects import Objects, OtherObject
from muster.cli.options import target
from muster.cli.printing import note
from muster.config.settings import Config
from muster.grouping.manifests.custom_pods import custom_controller
from muster.grouping.manifests.group_objects import DEFAULTS
from muster.grouping.manifests.settings import GroupingSettings, group_kind
from muster.grouping.manifests.types import GroupedObjects
from muster.kube.manifest_files import ManifestFile, sources
from muster.planning.grove.grouped_sets import group_workloads
from muster.planning.grove.set_objects import is_grove, place_of
from muster.reporting import grouping
from muster.validation.pods.membership import Stray


class LoadedObjects(Struct, frozen=True, eq=False):
    """Objects as they were read, and what decides about their grouping."""

    objects: Objects
    settings: GroupingSettings


def read(paths: Iterable[str], most_mib: int) -> list[codec.Document]:
    """Every object in the files behind these paths."""
    return [document for source in sources(paths, most_mib) for document in read_source(source)]


def read_source(source: ManifestFile) -> list[codec.Document]:
    """Every object of one file."""
    return codec.read(source.data, source.name)


def load(paths: Iterable[str], most_mib: int, settings: GroupingSettings = DEFAULTS) -> Objects:
    """Decode the objects of the files, and of the live cluster if one is named; note unknown kinds on stderr."""
    kubeconfig, context = target()
    documents, live_objects = read(paths, most_mib), Objects()
    if kubeconfig or context:
        from muster.cli import live

        live_objects = live.objects(kubeconfig, context)
    elif not documents and not tuple(paths):
        raise click.UsageError(
            "Missing argument 'FILE…': a file, a folder or `-`; or name a cluster with --kubeconfig."
        )
    objects = codec.objects(documents, live_objects)
    note_unknown(objects, settings)
    return objects


def load_files(paths: Iterable[str], most_mib: int, settings: GroupingSettings) -> Objects:
    """Decode the objects of the files alone, even where a live cluster is named."""
    objects = codec.objects(read(paths, most_mib))
    note_unknown(objects, settings)
    return objects


def load_with_owners(
    paths: Iterable[str],
    most_mib: int,
    settings: GroupingSettings,
    *,
    reads_all: bool = False,
    reads_sets: bool = False,
) -> LoadedObjects:
    """What `load` gives, and of a live cluster the owners of pods without a PodGroup; `reads_all`: of all pods.

    Where files bring workloads, owners of all pods are read: pods that exist count instead of future ones. With
    `reads_sets`, or where files bring PodCliqueSets, those of the cluster and all that became of them, too.
    """
    objects = load(paths, most_mib, settings)
    kubeconfig, context = target()
    if not kubeconfig and not context:
        return LoadedObjects(objects, settings)
    from muster.cli import live_owners

    if reads_sets or any(map(is_grove, objects.others)):
        objects = replace(objects, others=_beside_sets(objects.others, kubeconfig, context))
    reads_all = reads_all or any(not is_grove(other) for other in objects.others)
    owners = live_owners.read(kubeconfig, context, objects, settings, reads_all=reads_all)
    others = live_owners.beside(objects.others, owners.objects)
    return LoadedObjects(replace(objects, others=others), replace(settings, is_live=True, unread=owners.unread))


def _beside_sets(
    given: tuple[OtherObject, ...], kubeconfig: str | None, context: str | None
) -> tuple[OtherObject, ...]:
    """What was given, and Grove's objects of the cluster that were not."""
    from muster.cli import live_grove

    known = {(other.kind, place_of(other.raw)) for other in given}
    read_ = live_grove.read(kubeconfig, context)
    return (*given, *(other for other in read_ if (other.kind, place_of(other.raw)) not in known))


def load_grouped(
    paths: Iterable[str], most_mib: int, settings: GroupingSettings, *, reads_sets: bool = False
) -> GroupedObjects:
    """The objects with the PodGroups and future pods of their workloads, with notes about these.

    `reads_sets`: with the PodCliqueSets of a live cluster.
    """
    loaded = load_with_owners(paths, most_mib, settings, reads_sets=reads_sets)
    grouped = group_workloads(loaded.objects, loaded.settings)
    note_workloads(grouped, settings.schedulers)
    return grouped


def grouping_settings(config: Config) -> GroupingSettings:
    """What the configuration says about grouping."""
    return GroupingSettings(
        schedulers=config.scheduling.scheduler_names,
        rules=config.grouping.rules,
        listed=frozenset(config.grouping.resources),
        own_controllers=tuple(map(custom_controller, config.grouping.kinds)),
        pool_label=config.scheduling.shard.node_pool_label_key,
    )


def note_workloads(grouped: GroupedObjects, schedulers: Collection[str]) -> None:
    """Note which pods were made from templates, and pods that get no PodGroup."""
    for text in (*grouping.notes(grouped, schedulers), *grouping.ungrouped_notes(grouped)):
        note(text)


def note_unknown(objects: Objects, settings: GroupingSettings = DEFAULTS) -> None:
    """Note the kinds that are neither read nor workloads; they are not an error."""
    others = [other for other in objects.others if not is_grove(other)]
    left = [other for other in others if group_kind(other.raw) not in settings.kinds]
    for why, others in (
        ("muster does not know them", [other for other in left if group_kind(other.raw) not in DEFAULTS.kinds]),
        ("`grouping.owners` does not list them", [other for other in left if group_kind(other.raw) in DEFAULTS.kinds]),
    ):
        if others:
            counted = sorted(Counter(other.title for other in others).items())
            note(f"left alone, as {why}: {', '.join(f'{count} {kind}' for kind, count in counted)}")


def note_unvalidated(objects: Objects) -> None:
    """Note workloads, which only the API server validates."""
    workloads = Counter(other.raw["kind"] for other in objects.others if group_kind(other.raw) in DEFAULTS.kinds)
    if workloads:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(workloads.items()))
        note(f"workloads are not validated: {kinds}; `muster group` shows their PodGroups")


def note_orphans(strays: Iterable[Stray]) -> None:
    """Note pods of ours that name a PodGroup which does not exist: nothing is dropped in silence (N4)."""
    orphans = sorted((stray.named, stray.pod) for stray in strays if stray.why == "NoSuchPodGroup")
    for pod_group, pairs in groupby(orphans, key=itemgetter(0)):
        pods = [pod for _, pod in pairs]
        more = f" and {len(pods) - 3} more" if len(pods) > 3 else ""
        note(f"podgroup `{pod_group}` does not exist, but pods name it: {', '.join(pods[:3])}{more}")

"""The objects that a verb works on: from files, and from a live cluster where the user names one."""

from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter

import click

from muster.api import codec
from muster.api.objects import Objects
from muster.cli.options import target
from muster.cli.printing import note
from muster.kube.manifest_files import ManifestFile, sources
from muster.validation.pods.membership import Stray


def read(paths: Iterable[str], most_mib: int) -> list[codec.Document]:
    """Every object in the files behind these paths."""
    return [document for source in sources(paths, most_mib) for document in read_source(source)]


def read_source(source: ManifestFile) -> list[codec.Document]:
    """Every object of one file."""
    return codec.read(source.data, source.name)


def load(paths: Iterable[str], most_mib: int) -> Objects:
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
    return _decode(documents, live_objects)


def load_files(paths: Iterable[str], most_mib: int) -> Objects:
    """Decode the objects of the files alone, even where a live cluster is named."""
    return _decode(read(paths, most_mib), Objects())


def _decode(documents: list[codec.Document], live_objects: Objects) -> Objects:
    objects = codec.objects(documents, live_objects)
    note_unknown(objects)
    return objects


def note_unknown(objects: Objects) -> None:
    """Note the kinds that muster does not know; they are not an error."""
    if objects.unknown:
        kinds = ", ".join(f"{count} {kind}" for kind, count in objects.unknown.items())
        note(f"left alone, as muster does not know them: {kinds}")


def note_orphans(strays: Iterable[Stray]) -> None:
    """Note pods of ours that name a PodGroup which does not exist: nothing is dropped in silence (N4)."""
    orphans = sorted((stray.named, stray.pod) for stray in strays if stray.why == "NoSuchPodGroup")
    for pod_group, pairs in groupby(orphans, key=itemgetter(0)):
        pods = [pod for _, pod in pairs]
        more = f" and {len(pods) - 3} more" if len(pods) > 3 else ""
        note(f"podgroup `{pod_group}` does not exist, but pods name it: {', '.join(pods[:3])}{more}")

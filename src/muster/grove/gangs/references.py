"""`podReferences` of a PodGang: its live pods, sorted by name.

Rule: the structure stays as the PodCliqueSet wrote it, and the whole list is written at once, on the version that it
was made from: a structure that changed meanwhile is never overwritten.
"""

from collections.abc import Iterable, Sequence

from muster.api.fields import integer, items, text
from muster.api.resources import POD_GANGS
from muster.grove.gangs.cliques import GangClique, pod_name
from muster.workloads.types import Raw, Update


def references_update(gang: Raw, cliques: Sequence[GangClique]) -> Update | None:
    """What to write into the PodGang; None: it references its live pods already."""
    podgroups = [{**clique.entry, "podReferences": pod_references(gang, clique.live)} for clique in cliques]
    if podgroups == items(gang, "spec.podgroups"):
        return None
    patch: Raw = {"spec": {"podgroups": podgroups}}
    if version := text(gang, "metadata.resourceVersion"):
        patch["metadata"] = {"resourceVersion": version}
    return Update(POD_GANGS, text(gang, "metadata.namespace"), text(gang, "metadata.name"), patch)


def pod_references(gang: Raw, pods: Iterable[Raw]) -> list[Raw]:
    """What a PodGang says of these pods."""
    namespace = text(gang, "metadata.namespace")
    return [{"namespace": namespace, "name": name} for name in sorted(map(pod_name, pods))]


def has_references(gang: Raw) -> bool:
    """Whether a PodGang references any pod."""
    return any(items(entry, "podReferences") for entry in items(gang, "spec.podgroups"))


def as_updated(gang: Raw, update: Update | None) -> Raw:
    """The PodGang as it will be once its references are written: its status is about that generation."""
    metadata = gang["metadata"]
    generation = integer(gang, "metadata.generation") + 1
    return gang if update is None else {**gang, "metadata": {**metadata, "generation": generation}}

"""Which PodGroup and which leaf the pods of another operator join: an annotation and a label that it does not write.

Rule 1: only pods of our schedulers are marked (N6). Rule 2: a pod that joined another PodGroup is left alone.
"""

from collections.abc import Collection, Iterable, Iterator

from muster.api import names
from muster.api.fields import text, texts
from muster.api.resources import PODS
from muster.grove.gangs.cliques import GangClique, labels_of
from muster.workloads.types import Raw, Update


def membership_actions(gang: Raw, cliques: Iterable[GangClique], schedulers: Collection[str]) -> Iterator[Update]:
    """Marks pods that another operator made with the PodGroup and the leaf that they join, by one patch each."""
    for clique in cliques:
        for pod in clique.live:
            if text(pod, "spec.schedulerName") in schedulers and (patch := _missing(gang, clique, pod)):
                yield Update(PODS, text(pod, "metadata.namespace"), text(pod, "metadata.name"), {"metadata": patch})


def has_our_pods(gang: Raw, cliques: Iterable[GangClique], schedulers: Collection[str]) -> bool:
    """Whether a pod of the gang names one of our schedulers, and no other PodGroup."""
    name = text(gang, "metadata.name")
    return any(
        text(pod, "spec.schedulerName") in schedulers and _joined(pod) in ("", name)
        for clique in cliques
        for pod in clique.live
    )


def _joined(pod: Raw) -> str:
    return texts(pod, "metadata.annotations").get(names.POD_GROUP, "")


def _missing(gang: Raw, clique: GangClique, pod: Raw) -> Raw:
    """What a pod lacks; empty: nothing, or it joined another PodGroup."""
    name, notes, labels = text(gang, "metadata.name"), texts(pod, "metadata.annotations"), labels_of(pod)
    if _joined(pod) not in ("", name):
        return {}
    annotations = {names.POD_GROUP: name, names.SKIP_GROUPING: "true"}
    missing = {key: value for key, value in annotations.items() if not notes.get(key)}
    leaf = {} if labels.get(names.SUBGROUP) == clique.name else {names.SUBGROUP: clique.name}
    patch = {"annotations": missing, "labels": leaf}
    fields = {field: value for field, value in patch.items() if value}
    return {"uid": text(pod, "metadata.uid"), **fields} if fields else {}

"""Which PodGangs a change concerns: the one that a pod or a clique names, and the scaled gangs of a base.

Rule 1: scaled gangs are found by name and not by a scan. Rule 2: they are looked at when the last pod that their base
needs gets a node, whatever the status of the base says by then; and when that says so, those that are not scheduled.
Rule 3: a pod that gets a node costs few reads, and all others none: those beside it tell soon that more are missing.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from muster.api.fields import at, integer, items, number, text
from muster.api.names import BASE_POD_GANG, PART_OF, POD_CLIQUE, POD_GANG, SET_REPLICA
from muster.api.resources import (
    POD_CLIQUE_SCALING_GROUPS,
    POD_CLIQUES,
    POD_GANGS,
    POD_GROUPS,
    PODS,
    Resource,
)
from muster.grove.gangs.cliques import (
    clique_uid,
    has_scheduled,
    is_counted,
    is_scheduled,
    labels_of,
    minimum_in,
    node_name,
)
from muster.grove.gangs.gates import SCHEDULED
from muster.grove.gangs.scaled_groups import scaled_groups
from muster.grove.naming import base_gang_name
from muster.grove.nearest import outwards
from muster.workloads.conditions import is_condition_true
from muster.workloads.pod_templates import phase
from muster.workloads.types import Children, Raw

MOST_READ = 500  # pods of a clique with extras; above, the status of the base says it


def related(resource: Resource, raw: Raw, children: Children) -> Iterator[tuple[str, str]]:
    """Namespace and name of the gangs that a changed object concerns."""
    namespace = text(raw, "metadata.namespace")
    if resource in (PODS, POD_CLIQUES):
        if name := labels_of(raw).get(POD_GANG):
            yield namespace, name
            if resource == PODS and _is_just_bound(raw):
                yield from ((namespace, scaled) for scaled in _freed_gangs(raw, namespace, name, children))
    elif resource == POD_GROUPS:
        if children.get(POD_GANGS, namespace, text(raw, "metadata.name")) is not None:
            yield namespace, text(raw, "metadata.name")
    elif resource == POD_CLIQUE_SCALING_GROUPS and _is_rescaled(raw):
        yield from ((namespace, name) for name in _waiting_base(labels_of(raw), namespace, children))
    elif resource == POD_GANGS and is_condition_true(raw, SCHEDULED) and BASE_POD_GANG not in labels_of(raw):
        for scaled in _scaled_gangs(labels_of(raw), namespace, children):
            gang = children.get(POD_GANGS, namespace, scaled)
            if gang is not None and not is_condition_true(gang, SCHEDULED):
                yield namespace, scaled


def _is_rescaled(group: Raw) -> bool:
    return integer(group, "metadata.generation", 1) != integer(group, "status.observedGeneration")


def _waiting_base(labels: Mapping[str, str], namespace: str, children: Children) -> Iterator[str]:
    """The base gang of a replica of a set, while it waits for a domain in which its scaled gangs fit, too."""
    replica = number(labels.get(SET_REPLICA, ""))
    name = base_gang_name(labels.get(PART_OF, ""), replica) if replica is not None else ""
    base = children.get(POD_GANGS, namespace, name) if name else None
    level = text(base, "spec.topologyConstraint.packConstraint.required")
    if base is not None and level and not is_condition_true(base, SCHEDULED):
        yield name


def _scaled_gangs(labels: Mapping[str, str], namespace: str, children: Children) -> Iterator[str]:
    """The scaled gangs of a replica of a set, by labels of its base gang or of a pod of that."""
    for group in scaled_groups(labels, namespace, children):
        yield from group.gangs


# the last pod that a base needs -------------------------------------------------------------------------------------


def _is_just_bound(pod: Raw) -> bool:
    """Whether a pod of a base gang has a node that has not reported on it yet: that is seen once a pod."""
    is_new = bool(node_name(pod)) and not at(pod, "status.startTime") and phase(pod) == "Pending"
    return is_new and BASE_POD_GANG not in labels_of(pod)


def _freed_gangs(pod: Raw, namespace: str, name: str, children: Children) -> Iterator[str]:
    """The scaled gangs of a base that has its minimums scheduled by this pod."""
    base, labels = children.get(POD_GANGS, namespace, name), labels_of(pod)
    if base is None or next(_scaled_gangs(labels, namespace, children), None) is None:
        return
    if completes_minimums(base, pod, children):
        yield from _scaled_gangs(labels, namespace, children)


def completes_minimums(gang: Raw, pod: Raw, children: Children) -> bool:
    """Whether a gang has every minimum scheduled by this pod of it, and had not without."""
    clique, others = None, []
    for entry in items(gang, "spec.podgroups"):
        if text(entry, "name") == labels_of(pod).get(POD_CLIQUE):
            clique = entry
        else:
            others.append(entry)
    if clique is None or not _completes_clique(gang, clique, pod, children):
        return False
    return all(has_scheduled(gang, entry, children) for entry in others)


def _completes_clique(gang: Raw, entry: Raw, pod: Raw, children: Children) -> bool:
    """Whether exactly the minimum of a clique is scheduled; pods beside this one are read first."""
    references, minimum = at(entry, "podReferences"), minimum_in(gang, entry, children)
    extras = len(references) - minimum if isinstance(references, list) else -1
    if extras < 0 or not minimum:
        return False
    namespace, clique = text(gang, "metadata.namespace"), clique_uid(gang, entry, children)
    scheduled = waiting = 0
    for index in islice(_nearest(references, text(pod, "metadata.name")), MOST_READ if extras else None):
        other = children.get(PODS, namespace, text(references[index], "name"))
        has_node = other is not None and is_counted(other, clique) and is_scheduled(other)
        scheduled, waiting = scheduled + has_node, waiting + (not has_node)
        if scheduled > minimum or waiting > extras:
            return False
    return scheduled == minimum and waiting == extras


def _nearest(references: Sequence[Any], name: str) -> Iterator[int]:
    """Positions in references, which are sorted by name, from this pod outwards; none where it is not among them."""
    own = bisect_left(references, name, key=lambda reference: text(reference, "name"))
    if own == len(references) or text(references[own], "name") != name:
        return
    yield from outwards(own, len(references))

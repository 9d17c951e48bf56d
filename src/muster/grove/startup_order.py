"""The order in which cliques start: what a clique waits for, and when its pods may start.

Rule 1: a parent counts by `minAvailable` ready pods, or not at all while it is scaled to zero; one that is being
deleted has not started. Rule 2: a pod that may start always may. Rule 3: a clique is looked at when the last one of a
template that it waits for has started, and only if its pods may wait: else thousands of replicas would be looked at as
often as there are parents.
"""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from muster.api import names
from muster.api.fields import integer, items, number, text, texts
from muster.api.grove.pod_clique import MOST_CLIQUES
from muster.api.grove.pod_clique_set import EXPLICIT, IN_ORDER
from muster.api.resources import POD_CLIQUE_SCALING_GROUPS, POD_CLIQUE_SETS, POD_CLIQUES, PODS
from muster.grove.cliques.clique_pods import CliquePod
from muster.grove.health import minimum_of
from muster.grove.naming import base_cliques_name, clique_name, group_name, names_in_base
from muster.grove.nearest import outwards
from muster.grove.startup import START, is_waiting
from muster.workloads.operators.objects import name_of, strings
from muster.workloads.pod_templates import is_terminating
from muster.workloads.types import Children, Raw, Update

LONGEST_TEXT = 2_000


def parents_of(clique: Raw) -> list[str]:
    """The PodCliques that a clique starts after; a name with a star stands for those of a scaling group."""
    return strings(clique, "spec.startsAfter")


def describe_wait(clique: Raw) -> str:
    """The annotation of a pod that waits."""
    description = f"after {', '.join(parents_of(clique))}"
    return description if len(description) <= LONGEST_TEXT else f"{description[:LONGEST_TEXT]}…"


def release_pods(clique: Raw, pods: Iterable[CliquePod], pcs: Raw | None, children: Children) -> Iterator[Update]:
    """Lets bound pods start once the parents of their clique have."""
    waiting = [pod for pod in pods if pod.is_bound and is_waiting(pod.raw)]
    if waiting and may_start(clique, pcs, children):
        patch = {"metadata": {"annotations": {names.STARTUP: START}}}
        for pod in waiting:
            yield Update(PODS, text(clique, "metadata.namespace"), pod.name, patch)


def may_start(clique: Raw, pcs: Raw | None, children: Children) -> bool:
    """Whether every parent of a clique has enough ready pods."""
    namespace, missing = text(clique, "metadata.namespace"), []
    for name in _named_parents(clique, pcs):
        parent = children.get(POD_CLIQUES, namespace, name)
        if parent is None:
            missing.append(name)
        elif not has_started(parent):
            return False
    return not missing or set(missing) <= _scaled_away(clique, pcs, children)


def has_started(clique: Raw) -> bool:
    """Whether enough pods of a clique are ready for those that start after it, and stay so."""
    return integer(clique, "status.readyReplicas") >= minimum_of(clique) and not is_terminating(clique)


def first_to_start(cliques: Sequence[Raw]) -> list[Raw]:
    """Those of these cliques that start after none of the others; all of them where each does, in a circle."""
    present = {name_of(clique) for clique in cliques}
    indexes = {index for clique in cliques if (index := _label(clique, names.SCALING_GROUP_REPLICA)) is not None}
    parents = {parent for clique in cliques for parent in parents_of(clique)}
    waited = {parent for parent in parents if not present.isdisjoint(names_in_base(parent, indexes))}
    return [clique for clique in cliques if waited.isdisjoint(parents_of(clique))] or [*cliques]


def _named_parents(clique: Raw, pcs: Raw | None) -> Iterator[str]:
    """The parents of a clique, each by its name."""
    groups = [*_groups(clique, pcs)]
    starred = {
        base_cliques_name(group.name, template): (group, template) for group in groups for template in group.templates
    }
    for name in parents_of(clique):
        if name in starred:
            group, template = starred[name]
            yield from group.cliques(template, range(group.minimum))
        else:
            yield name


def _scaled_away(clique: Raw, pcs: Raw | None, children: Children) -> set[str]:
    """Cliques of the base gang that do not exist because their scaling group has fewer replicas."""
    namespace = text(clique, "metadata.namespace")
    return {
        name
        for group in _groups(clique, pcs)
        for template in group.templates
        for name in group.cliques(template, range(group.base_replicas(namespace, children), group.minimum))
    }


class _Group(Struct, frozen=True):
    """A scaling group of one replica of a set."""

    name: str
    minimum: int
    templates: list[str]

    def base_replicas(self, namespace: str, children: Children) -> int:
        """How many replicas of it are in the base gang: its minimum, unless it is scaled to fewer."""
        scaled = children.get(POD_CLIQUE_SCALING_GROUPS, namespace, self.name)
        return min(self.minimum, integer(scaled, "spec.replicas", 1)) if scaled else self.minimum

    def cliques(self, template: str, replicas: Iterable[int]) -> Iterator[str]:
        """The PodCliques of a template in these replicas."""
        return (clique_name(self.name, index, template) for index in replicas)


def _groups(clique: Raw, pcs: Raw | None) -> Iterator[_Group]:
    """The scaling groups of the replica that a clique belongs to."""
    replica = _label(clique, names.SET_REPLICA)
    for group in items(pcs, "spec.template.podCliqueScalingGroups") if replica is not None else ():
        name = group_name(name_of(pcs or {}), replica or 0, text(group, "name"))
        minimum = min(max(1, integer(group, "minAvailable", 1)), MOST_CLIQUES)
        yield _Group(name, minimum, strings(group, "cliqueNames"))


def _label(clique: Raw, name: str) -> int | None:
    return number(texts(clique, "metadata.labels").get(name, ""))


# what waits for a clique --------------------------------------------------------------------------------------------


def dependents_of(clique: Raw, children: Children) -> Iterator[tuple[str, str]]:
    """Namespace and name of cliques that may wait for this one, where all of its template have started.

    Scaled replicas wait for cliques of the same replica only, so that the base gang and that replica are all.
    """
    namespace, set_name = text(clique, "metadata.namespace"), texts(clique, "metadata.labels").get(names.PART_OF, "")
    pcs = children.get(POD_CLIQUE_SETS, namespace, set_name)
    if (
        pcs is None
        or text(pcs, "spec.template.cliqueStartupType") not in (IN_ORDER, EXPLICIT)
        or not has_started(clique)
    ):
        return
    template, group = _template_of(clique, pcs)
    after = _templates_after(pcs, template)
    if not after or not _have_started(clique, template, group, children):
        return
    for name in _dependents(clique, pcs, group, after, children):
        other = children.get(POD_CLIQUES, namespace, name)
        if other is not None and _may_wait(other):
            yield namespace, name


def _template_of(clique: Raw, pcs: Raw) -> tuple[str, _Group | None]:
    """The template of a clique, empty where the set has none, and the scaling group that it is a member of."""
    own, replica = name_of(clique), _label(clique, names.SET_REPLICA)
    if group := _group_of(clique, pcs):
        index = _label(clique, names.SCALING_GROUP_REPLICA) or 0
        return next((each for each in group.templates if clique_name(group.name, index, each) == own), ""), group
    templates = (text(each, "name") for each in items(pcs, "spec.template.cliques"))
    return next((each for each in templates if clique_name(name_of(pcs), replica or 0, each) == own), ""), None


def _group_of(clique: Raw, pcs: Raw) -> _Group | None:
    name = texts(clique, "metadata.labels").get(names.SCALING_GROUP)
    return next((group for group in _groups(clique, pcs) if group.name == name), None)


def _templates_after(pcs: Raw, template: str) -> list[str]:
    """The templates of cliques that start after those of one."""
    cliques = items(pcs, "spec.template.cliques")
    if text(pcs, "spec.template.cliqueStartupType") == EXPLICIT:
        return [text(each, "name") for each in cliques if template in strings(each, "spec.startsAfter")]
    ordered = [text(each, "name") for each in cliques]
    return ordered[ordered.index(template) + 1 :][:1] if template in ordered else []


def _have_started(clique: Raw, template: str, group: _Group | None, children: Children) -> bool:
    """Whether all cliques of this one's template that the same cliques wait for have started, as it has."""
    index = _label(clique, names.SCALING_GROUP_REPLICA) or 0
    if group is None or index >= group.minimum:
        return True
    namespace = text(clique, "metadata.namespace")
    near = outwards(index, group.base_replicas(namespace, children))
    others = (children.get(POD_CLIQUES, namespace, name) for name in group.cliques(template, near))
    return all(other is not None and has_started(other) for other in others)


def _dependents(clique: Raw, pcs: Raw, own: _Group | None, templates: list[str], children: Children) -> Iterator[str]:
    """The cliques of these templates in the base gang; for a clique of a scaled replica, those of that replica."""
    index = _label(clique, names.SCALING_GROUP_REPLICA) or 0
    if own is not None and index >= own.minimum:
        yield from (clique_name(own.name, index, each) for each in templates if each in own.templates)
        return
    groups = {each: group for group in _groups(clique, pcs) for each in group.templates}
    for each in templates:
        if group := groups.get(each):
            replicas = group.base_replicas(text(clique, "metadata.namespace"), children)
            yield from group.cliques(each, range(replicas))
        else:
            yield clique_name(name_of(pcs), _label(clique, names.SET_REPLICA) or 0, each)


def _may_wait(clique: Raw) -> bool:
    """Whether a pod of a clique may wait: one that does is not ready."""
    is_new = not integer(clique, "status.observedGeneration")
    return is_new or integer(clique, "status.readyReplicas") < integer(clique, "spec.replicas", 1)

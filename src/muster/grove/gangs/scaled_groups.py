"""The scaling groups of a replica of a set, as far as they have scaled gangs: those above the minimum of the base."""

import json
from collections.abc import Iterator, Mapping

from msgspec import Struct

from muster.api.fields import integer, items, number, text
from muster.api.grove.pod_clique import MOST_CLIQUES
from muster.api.names import BASE_POD_GANG, PART_OF, SET_REPLICA
from muster.api.resources import POD_CLIQUE_SCALING_GROUPS, POD_CLIQUE_SETS
from muster.grove.gangs.cliques import labels_of
from muster.grove.naming import clique_name, group_name, scaled_gang_name
from muster.workloads.operators.objects import strings
from muster.workloads.types import Children, Raw


class ScaledGroup(Struct, frozen=True):
    """A PodCliqueScalingGroup with replicas above its minimum."""

    name: str
    minimum: int
    replicas: int
    cliques: tuple[str, ...]  # of its template

    @property
    def gangs(self) -> Iterator[str]:
        """The names of its scaled gangs."""
        return (scaled_gang_name(self.name, index, self.minimum) for index in range(self.minimum, self.replicas))

    @property
    def first_cliques(self) -> list[str]:
        """The PodCliques of its first replica, which is in the base gang: every scaled gang is like them."""
        return [clique_name(self.name, 0, clique) for clique in self.cliques]


def scaled_groups(labels: Mapping[str, str], namespace: str, children: Children) -> Iterator[ScaledGroup]:
    """The scaled groups of a replica of a set, by labels of its base gang or of a pod of that."""
    set_name, replica = labels.get(PART_OF, ""), number(labels.get(SET_REPLICA, ""))
    if not set_name or replica is None:
        return
    pcs = children.get(POD_CLIQUE_SETS, namespace, set_name)
    for template in items(pcs, "spec.template.podCliqueScalingGroups"):
        name = group_name(set_name, replica, text(template, "name"))
        group = children.get(POD_CLIQUE_SCALING_GROUPS, namespace, name)
        minimum = max(1, integer(group, "spec.minAvailable", 1))
        replicas = min(integer(group, "spec.replicas", 1), MOST_CLIQUES) if group is not None else 0
        if replicas > minimum:
            yield ScaledGroup(name, minimum, replicas, tuple(strings(group, "spec.cliqueNames")))


def describe_followers(gang: Raw, children: Children) -> str:
    """Which gangs are held to the domain of this one (R3), as the scheduler reads it; empty: none."""
    if BASE_POD_GANG in labels_of(gang) or not text(gang, "spec.topologyConstraint.packConstraint.required"):
        return ""
    followers = [
        {"like": group.first_cliques, "count": group.replicas - group.minimum}
        for group in scaled_groups(labels_of(gang), text(gang, "metadata.namespace"), children)
    ]
    return json.dumps(followers) if followers else ""

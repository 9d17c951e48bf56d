"""A PodCliqueSet with what belongs to it, replica by replica: what every part of its controller reads."""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from muster.api.decoding import decode
from muster.api.fields import integer
from muster.api.grove.pod_clique_set import PodCliqueSet
from muster.api.resources import POD_CLIQUE_SCALING_GROUPS, POD_CLIQUES, Resource
from muster.grove.clique_objects import TemplateHashes, template_hashes
from muster.grove.health import CliqueHealth, all_of, clique_health, group_health
from muster.grove.layout import ReplicaLayout, lay_out
from muster.grove.topology import SetTopology, topology_of
from muster.workloads.operators.objects import name_of
from muster.workloads.pod_templates import is_terminating
from muster.workloads.types import Children, Raw


class SetReplicaView(Struct, frozen=True):
    """A replica of a set."""

    layout: ReplicaLayout
    cliques: tuple[Raw | None, ...]  # standalone, in the order of the layout; None: it does not exist
    groups: tuple[Raw | None, ...]
    health: CliqueHealth
    scheduled_pods: int  # at least

    @property
    def index(self) -> int:
        """Which replica it is."""
        return self.layout.index

    def parts(self) -> Iterator[Raw]:
        """Its standalone cliques and its groups, as far as they exist and are not terminating."""
        return (part for part in (*self.cliques, *self.groups) if part is not None and not is_terminating(part))


class SetView(Struct, frozen=True):
    """A set as its controller sees it."""

    raw: Raw
    pcs: PodCliqueSet
    hashes: TemplateHashes  # of the latest template
    topology: SetTopology | None
    cliques: Mapping[str, Raw]  # standalone, by name
    groups: Mapping[str, Raw]
    members: Mapping[str, Raw]  # cliques of groups, by name
    replicas: tuple[SetReplicaView, ...]
    unscaled: tuple[int, ...] = ()  # indexes of replicas whose scaled gangs are left out

    def clique(self, name: str) -> Raw | None:
        """A clique of the set, standalone or not; None: it does not exist."""
        return self.cliques.get(name) or self.members.get(name)


def view_set(raw: Raw, own: Mapping[Resource, Mapping[str, Raw]], children: Children) -> SetView:
    """A set with what belongs to it. `own`: its direct children, by kind and name."""
    pcs = decode(raw, PodCliqueSet)[0]
    cliques, groups = own[POD_CLIQUES], own[POD_CLIQUE_SCALING_GROUPS]
    members = {name_of(clique): clique for group in groups.values() for clique in children.of(group, POD_CLIQUES)}
    layout = lay_out(pcs, {name: integer(group, "spec.replicas", 1) for name, group in groups.items()})
    hashes = template_hashes(pcs)
    return SetView(
        raw=raw,
        pcs=pcs,
        hashes=hashes,
        topology=topology_of(pcs, children),
        cliques=cliques,
        groups=groups,
        members=members,
        replicas=tuple(_replica(replica, hashes, cliques, groups) for replica in layout.replicas),
        unscaled=layout.unscaled,
    )


def _replica(
    layout: ReplicaLayout, hashes: TemplateHashes, cliques: Mapping[str, Raw], groups: Mapping[str, Raw]
) -> SetReplicaView:
    own_cliques = tuple(cliques.get(clique.name) for clique in layout.cliques)
    own_groups = tuple(groups.get(group.name) for group in layout.groups)
    health = [clique_health(raw, hashes.of(clique)) for raw, clique in zip(own_cliques, layout.cliques, strict=True)]
    health += [group_health(group, hashes.generation) for group in own_groups]
    scheduled = sum(integer(raw, "status.scheduledReplicas") for raw in (*own_cliques, *own_groups) if raw is not None)
    return SetReplicaView(layout, own_cliques, own_groups, all_of(health), scheduled)

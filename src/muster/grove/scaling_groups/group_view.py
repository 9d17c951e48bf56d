"""A PodCliqueScalingGroup with its set and its cliques, replica by replica: what every part of its controller reads."""

from collections.abc import Iterator

from msgspec import Struct

from muster.api.decoding import decode
from muster.api.fields import integer, number, text, texts
from muster.api.grove.pod_clique_set import PodCliqueSet
from muster.api.names import GENERATION_HASH, PART_OF, SET_REPLICA
from muster.api.resources import POD_CLIQUE_SETS, POD_CLIQUES
from muster.grove.clique_objects import TemplateHashes, template_hashes
from muster.grove.health import CliqueHealth, all_of, clique_health
from muster.grove.layout import CliqueLayout, group_minimum, lay_out_group
from muster.workloads.operators.objects import name_of
from muster.workloads.pod_templates import is_terminating
from muster.workloads.types import Children, Raw


class MemberView(Struct, frozen=True):
    """A clique that a replica of a group consists of."""

    layout: CliqueLayout
    clique: Raw | None  # None: it does not exist


class GroupReplicaView(Struct, frozen=True):
    """A replica of a group."""

    index: int
    members: tuple[MemberView, ...]
    health: CliqueHealth

    def present(self) -> Iterator[Raw]:
        """Its cliques that are not terminating."""
        cliques = (member.clique for member in self.members)
        return (clique for clique in cliques if clique is not None and not is_terminating(clique))

    @property
    def is_outdated(self) -> bool:
        """Whether one of its cliques has an older template."""
        return not self.health.has_template


class GroupView(Struct, frozen=True):
    """A group as its controller sees it."""

    pcsg: Raw
    pcs: PodCliqueSet
    hashes: TemplateHashes  # of the set's latest template
    minimum: int
    replicas: tuple[GroupReplicaView, ...]
    surplus: tuple[Raw, ...]  # cliques that belong to no replica, the highest first

    @property
    def may_update(self) -> bool:
        """Whether the set lets this group have the latest template."""
        return texts(self.pcsg, "metadata.labels").get(GENERATION_HASH) == self.hashes.generation


def view_group(pcsg: Raw, children: Children) -> GroupView | None:
    """A group with what belongs to it; None: its set is gone or going, or has no such group."""
    labels, namespace = texts(pcsg, "metadata.labels"), text(pcsg, "metadata.namespace")
    raw, index = children.get(POD_CLIQUE_SETS, namespace, labels.get(PART_OF, "")), number(labels.get(SET_REPLICA, ""))
    if raw is None or is_terminating(raw) or index is None:
        return None
    pcs = decode(raw, PodCliqueSet)[0]
    layout = lay_out_group(pcs, index, name_of(pcsg), integer(pcsg, "spec.replicas", 1))
    if layout is None:
        return None
    cliques = {name_of(clique): clique for clique in children.of(pcsg, POD_CLIQUES)}
    hashes = template_hashes(pcs)
    replicas = tuple(_replica(row, hashes, cliques) for row in layout.replicas)
    wanted = {clique.name for row in layout.replicas for clique in row}
    return GroupView(
        pcsg=pcsg,
        pcs=pcs,
        hashes=hashes,
        minimum=group_minimum(layout.template) if layout.replicas else 0,
        replicas=replicas,
        surplus=tuple(clique for name, clique in reversed(cliques.items()) if name not in wanted),
    )


def _replica(row: tuple[CliqueLayout, ...], hashes: TemplateHashes, cliques: dict[str, Raw]) -> GroupReplicaView:
    members = tuple(MemberView(clique, cliques.get(clique.name)) for clique in row)
    health = all_of([clique_health(member.clique, hashes.of(member.layout)) for member in members])
    return GroupReplicaView(row[0].group_replica if row else 0, members, health)

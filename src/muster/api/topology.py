"""Topology: which node labels make the levels of a cluster, coarse to fine, as KAI's."""

from typing import Annotated

from muster.api.meta import ObjectMeta, Wire, doc

MOST_LEVELS = 16
LABEL_KEY = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"
)


class TopologyLevel(Wire, frozen=True):
    """One level: nodes with the same value, and the same values above, are in one domain."""

    node_label: Annotated[
        str, doc("The node label of the level.", required=True, minLength=1, maxLength=317, pattern=LABEL_KEY)
    ] = ""


class TopologySpec(Wire, frozen=True):
    """The levels of the cluster."""

    levels: Annotated[
        tuple[TopologyLevel, ...],
        doc("From the coarsest level to the finest.", required=True, minItems=1, maxItems=MOST_LEVELS),
    ] = ()


class Topology(Wire, frozen=True):
    """How nodes are nested: zones of blocks of racks of hosts."""

    metadata: ObjectMeta = ObjectMeta()
    spec: TopologySpec = TopologySpec()

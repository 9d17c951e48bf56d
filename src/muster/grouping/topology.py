"""Topology constraints that annotations of workloads and of pod templates state (T1, T2)."""

from collections.abc import Mapping

from muster.api import names
from muster.api.podgroup import TopologyConstraint
from muster.grouping.fields import texts
from muster.grouping.types import Owner, Raw


def constraint_of(annotations: Mapping[str, str]) -> TopologyConstraint | None:
    """The constraint of a workload or a role; None: they name no level."""
    return _constraint(annotations, names.TOPOLOGY_REQUIRED, names.TOPOLOGY_PREFERRED)


def segment_constraint(annotations: Mapping[str, str], owner: Owner) -> TopologyConstraint | None:
    """The constraint of every segment; the Topology may stand on the workload."""
    above = {names.TOPOLOGY: owner.metadata.annotations.get(names.TOPOLOGY, "")}
    return _constraint(above | dict(annotations), names.SEGMENT_TOPOLOGY_REQUIRED, names.SEGMENT_TOPOLOGY_PREFERRED)


def template_constraint(template: Raw) -> TopologyConstraint | None:
    """The constraint on the pod template of a role."""
    return constraint_of(texts(template, "metadata.annotations"))


def _constraint(annotations: Mapping[str, str], required: str, preferred: str) -> TopologyConstraint | None:
    levels = annotations.get(required, ""), annotations.get(preferred, "")
    return TopologyConstraint(annotations.get(names.TOPOLOGY, ""), *levels) if any(levels) else None

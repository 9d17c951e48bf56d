"""Grove's kinds as CRDs: CEL rules, further fields and printer columns.

CEL holds what one object, or its change, says by itself and at little cost: the scale of PodCliques and groups (R9),
also on the `scale` subresource, which no webhook sees; minimums; what may not change (R6); what is unsupported (R8).
"""

from collections.abc import Mapping
from typing import Any

from muster.api.grove.pod_clique import MOST_CLIQUES, PodClique, PodCliqueSpec
from muster.api.grove.pod_clique_scaling_group import PodCliqueScalingGroup, PodCliqueScalingGroupSpec
from muster.api.grove.pod_clique_set import (
    PackConstraint,
    PackTopologyConstraint,
    PodCliqueSet,
    PodCliqueSetSpec,
    PodCliqueSetTemplate,
    PodCliqueTemplate,
    ScalingGroupTemplate,
)
from muster.api.grove.pod_gang import PodGang
from muster.api.grove.topology_binding import ClusterTopologyBinding
from muster.api.meta import Wire
from muster.validation.grove.unsupported import CLIQUE_FIELDS, GROUP_FIELDS, SET_FIELDS

Schema = dict[str, Any]
_ANY: Schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_LIST: Schema = {"type": "array", "items": _ANY}
_RATE: Schema = {**_ANY, "description": "How fast an update goes; not supported, and refused."}
_DELAY: Schema = {"type": "string", "description": "A delay of the group alone; not supported, and refused."}

# Fields whose schema is not that of their type, and fields that are known only to be refused: the API server would
# silently drop them otherwise.
FIELDS: Mapping[type[Wire], Mapping[str, Schema]] = {
    PodCliqueSetTemplate: {"resourceClaimTemplates": _LIST, "resourceSharing": _LIST},
    PodCliqueTemplate: {"resourceSharing": _LIST, "rollingUpdate": _RATE},
    ScalingGroupTemplate: {"resourceSharing": _LIST, "rollingUpdate": _RATE, "terminationDelay": _DELAY},
}


def _rule(rule: str, message: str, field: str = "") -> Schema:
    path = {"fieldPath": field} if field else {}
    return {"rule": rule, "message": message, **path}


def _on_create(rule: str, message: str) -> Schema:
    """Holds for new objects only; what is stored stays as it is."""
    return {"rule": f"oldSelf.hasValue() || ({rule})", "message": message, "optionalOldSelf": True}


def _kept(field: str, called: str = "") -> Schema:
    """A field that an update may not add, change or remove."""
    has, had = f"has(self.{field})", f"has(oldSelf.{field})"
    rule = f"{has} == {had} && (!{has} || self.{field} == oldSelf.{field})"
    return {"rule": rule, "message": f"{called or field} cannot change (R6)"}


def _unsupported(fields: Mapping[str, str]) -> list[Schema]:
    return [
        _on_create(f"!has(self.{field})", f"{field} is not supported by muster: {way_out} (R8)")
        for field, way_out in fields.items()
    ]


CEL: Mapping[type[Wire], list[Schema]] = {
    PodCliqueSpec: [
        _rule(
            "self.replicas == 0 || !has(self.minAvailable) || self.replicas >= self.minAvailable",
            "replicas is 0, or at least minAvailable: fewer are never scheduled (R9)",
            ".replicas",
        ),
    ],
    PodCliqueScalingGroupSpec: [
        _rule(
            "self.replicas == 0 || self.replicas >= self.minAvailable",
            "replicas is 0, or at least minAvailable: fewer are never scheduled (R9)",
            ".replicas",
        ),
    ],
    PackTopologyConstraint: [
        _on_create("has(self.pack) || has(self.packDomain)", "a constraint names a domain: set pack.required (R5)"),
    ],
    PackConstraint: [
        _on_create("has(self.required) || has(self.preferred)", "pack names a required or a preferred domain (R5)"),
    ],
    PodCliqueTemplate: [
        _kept("spec.roleName", "roleName"),
        _kept("spec.startsAfter", "startsAfter"),
        _rule(
            "!has(oldSelf.spec.minAvailable) || !has(self.spec.minAvailable) || "
            "self.spec.minAvailable == oldSelf.spec.minAvailable",
            "minAvailable cannot change (R6)",
        ),
        *_unsupported(CLIQUE_FIELDS),
    ],
    ScalingGroupTemplate: [
        _rule("self.replicas > 0", "replicas must be greater than 0 (R4)", ".replicas"),
        _rule("self.minAvailable > 0", "minAvailable must be greater than 0 (R4)", ".minAvailable"),
        _rule("self.minAvailable <= self.replicas", "minAvailable is more than there are replicas (R4)"),
        _kept("minAvailable"),
        _kept("cliqueNames"),
        *_unsupported(GROUP_FIELDS),
    ],
    PodCliqueSetSpec: [
        {
            "rule": f"self.replicas * size(self.template.cliques) <= {MOST_CLIQUES} || "
            "(oldSelf.hasValue() && self.replicas <= oldSelf.value().replicas)",  # one that was stored before the limit
            "message": f"one set has at most {MOST_CLIQUES} PodCliques: use several sets (R4)",
            "fieldPath": ".replicas",
            "optionalOldSelf": True,
        },
    ],
    PodCliqueSetTemplate: [
        _rule("size(self.cliques) > 0", "a PodCliqueSet has at least one clique (R4)", ".cliques"),
        _rule("size(self.cliques) == size(oldSelf.cliques)", "cliques cannot be added or removed (R6)", ".cliques"),
        _kept("cliqueStartupType"),
        *_unsupported(SET_FIELDS),
    ],
}


def _column(name: str, path: str, kind: str = "integer", *, wide: bool = False) -> Schema:
    return {"name": name, "type": kind, "jsonPath": path, **({"priority": 1} if wide else {})}


_AGE = _column("Age", ".metadata.creationTimestamp", "date")
_REPLICAS = _column("Replicas", ".spec.replicas")
_UPDATED = _column("Updated", ".status.updatedReplicas")
_MINIMUM = _column("MinAvail", ".spec.minAvailable")
_AVAILABLE = _column("Available", ".status.availableReplicas")
_SCHEDULED = _column("Scheduled", ".status.scheduledReplicas")
_BREACHED = '.status.conditions[?(@.type=="MinAvailableBreached")].status'
PRINTER_COLUMNS: Mapping[type[Wire], list[Schema]] = {
    PodCliqueSet: [_REPLICAS, _AVAILABLE, _UPDATED, _AGE],
    PodClique: [
        _MINIMUM,
        _REPLICAS,
        _column("Ready", ".status.readyReplicas"),
        _SCHEDULED,
        _UPDATED,
        _column("Gated", ".status.scheduleGatedReplicas", wide=True),
        _column("MinBreached", _BREACHED, "string", wide=True),
        _AGE,
    ],
    PodCliqueScalingGroup: [_MINIMUM, _REPLICAS, _AVAILABLE, _SCHEDULED, _UPDATED, _AGE],
    PodGang: [_column("Phase", ".status.phase", "string"), _AGE],
    ClusterTopologyBinding: [_column("Domains", ".spec.levels[*].domain", "string"), _AGE],
}

# where the `scale` subresource finds the selector of pods, for autoscalers
SELECTORS: Mapping[type[Wire], str] = {
    PodCliqueSet: ".status.hpaPodSelector",
    PodClique: ".status.hpaPodSelector",
    PodCliqueScalingGroup: ".status.selector",
}

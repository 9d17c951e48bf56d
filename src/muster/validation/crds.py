"""CRDs from the types: structural OpenAPI v3 schemas, with the rules that CEL can hold as well (V1-V3).

CEL's cost grows with the largest list. With up to 10,000 SubGroups only rules that read each of them once fit into its
budget; the webhook holds those that compare SubGroups with each other.
"""

from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec

from muster.api import names
from muster.api.grove.pod_clique import PodClique
from muster.api.grove.pod_clique_scaling_group import PodCliqueScalingGroup
from muster.api.grove.pod_clique_set import PodCliqueSet
from muster.api.grove.pod_gang import PodGang
from muster.api.grove.topology_binding import ClusterTopologyBinding
from muster.api.meta import Wire
from muster.api.podgroup import PodGroup, PodGroupSpec, SubGroup
from muster.api.quantity import Resources
from muster.api.queue import Queue, QueueResource, QueueSpec
from muster.api.resources import (
    CLUSTER_TOPOLOGY_BINDINGS,
    DEFINITIONS,
    POD_CLIQUE_SCALING_GROUPS,
    POD_CLIQUE_SETS,
    POD_CLIQUES,
    POD_GANGS,
    POD_GROUPS,
    QUEUES,
    TOPOLOGIES,
    Resource,
)
from muster.api.topology import Topology, TopologySpec
from muster.validation import grove_crd_rules

Schema = dict[str, Any]
QUANTITY: Schema = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "x-kubernetes-int-or-string": True,
}
_SCALARS: Mapping[Any, Schema] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer", "format": "int32"},
    float: {"type": "number"},
}


def _ratchet(rule: str, message: str) -> Schema:
    """V4: an update passes a rule that the stored object already breaks."""
    before = rule.replace("self", "oldSelf.value()")
    return {"rule": f"({rule}) || (oldSelf.hasValue() && !({before}))", "message": message, "optionalOldSelf": True}


def _rule(rule: str, message: str) -> Schema:
    return {"rule": rule, "message": message}


# Fields of older dialects (D3, D4). Kubernetes silently drops fields that a schema does not know, and a PodGroup
# without its tree would start far too early. So the schema knows them, for a converting webhook, and refuses them.
_ANY: Schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
FIELDS: Mapping[type[Wire], Mapping[str, Schema]] = {
    **grove_crd_rules.FIELDS,
    PodGroupSpec: {
        "subgroups": {
            "type": "array",
            "maxItems": 10000,
            "items": _ANY,
            "description": "Older form of subGroups (D4).",
        },
        "topologyConstraints": _ANY,
    },
}

# V1: minimums exclude each other and are greater than 0; a 0 beside the other one counts as unset.
_ONE_MINIMUM = [
    _ratchet(
        "!has(self.minMember) || !has(self.minSubGroup) || self.minMember == 0 || self.minSubGroup == 0",
        "minMember and minSubGroup exclude each other (V1)",
    ),
    _ratchet(
        "!has(self.minMember) || self.minMember > 0 || (has(self.minSubGroup) && self.minSubGroup > 0)",
        "minMember must be greater than 0 (V1)",
    ),
    _ratchet(
        "!has(self.minSubGroup) || self.minSubGroup > 0 || (has(self.minMember) && self.minMember > 0)",
        "minSubGroup must be greater than 0 (V1)",
    ),
]
_TOP = "self.subGroups.filter(g, !has(g.parent) || g.parent == '')"
CEL: Mapping[type[Wire], list[Schema]] = {
    **grove_crd_rules.CEL,
    PodGroupSpec: [
        *_ONE_MINIMUM,
        _ratchet(
            "!has(self.minSubGroup) || self.minSubGroup == 0 || (has(self.subGroups) && size(self.subGroups) > 0)",
            "minSubGroup counts children, but there are no subGroups (V2)",
        ),
        _ratchet(
            f"!has(self.minSubGroup) || !has(self.subGroups) || self.minSubGroup <= size({_TOP})",
            "minSubGroup is more than there are top subGroups (V2)",
        ),
        _rule(
            f"!has(self.subGroups) || size(self.subGroups) == 0 || size({_TOP}) > 0",
            "parents go round in a circle: no subGroup is directly under the PodGroup (V3)",
        ),
        _rule("!has(self.subgroups)", "subgroups is the older form of subGroups: run `muster convert` (D4)"),
        _rule(
            "!has(self.topologyConstraints)",
            "topologyConstraints is the older form of topologyConstraint on groups: run `muster convert` (D3)",
        ),
    ],
    SubGroup: [
        *_ONE_MINIMUM,
        _rule("!has(self.parent) || self.parent != self.name", "a subGroup cannot be its own parent (V3)"),
    ],
    QueueSpec: [
        _rule(
            "!has(self.resources) || self.resources.all(r, r in ['cpu', 'memory', 'gpu'] || r.contains('/'))",
            "queues share cpu, memory, gpu, and extended resources by their full name (Q1)",
        ),
    ],
    QueueResource: [
        _rule(
            "!has(self.limit) || self.limit < 0 || !has(self.quota) || (self.quota >= 0 && self.quota <= self.limit)",
            "quota is above the limit (Q1)",
        ),
    ],
    TopologySpec: [
        _rule(
            "self.levels.all(a, self.levels.exists_one(b, a.nodeLabel == b.nodeLabel))",
            "each level has a label of its own (T4)",
        ),
        _rule(
            f"self.levels.filter(l, l.nodeLabel == '{names.HOSTNAME}').size() == 0 || "
            f"self.levels[self.levels.size() - 1].nodeLabel == '{names.HOSTNAME}'",
            f"{names.HOSTNAME} is the finest level and comes last (T4)",
        ),
    ],
}


def _column(name: str, path: str, kind: str = "string") -> Schema:
    return {"name": name, "type": kind, "jsonPath": path}


_AGE = _column("Age", ".metadata.creationTimestamp", "date")
PRINTER_COLUMNS: Mapping[type[Wire], list[Schema]] = {
    **grove_crd_rules.PRINTER_COLUMNS,
    PodGroup: [
        _column("Queue", ".spec.queue"),
        _column("Min-Pods", ".spec.minMember", "integer"),
        _column("Min-Groups", ".spec.minSubGroup", "integer"),
        _column("Satisfied", ".status.satisfied", "boolean"),
        _column("Phase", ".status.phase"),
        _column("Reason", '.status.conditions[?(@.type=="Scheduled")].reason'),
        _AGE,
    ],
    Queue: [
        _column("Parent", ".spec.parentQueue"),
        _column("Priority", ".spec.priority", "integer"),
        _column("GPU-Quota", ".spec.resources.gpu.quota", "number"),
        _column("GPU-Limit", ".spec.resources.gpu.limit", "number"),
        _AGE,
    ],
    Topology: [_column("Levels", ".spec.levels[*].nodeLabel"), _AGE],
}
_SPEC_OPTIONAL = (PodGroup, Queue)


def crds() -> list[Schema]:
    """Every CRD that muster serves, in the order of installation."""
    return [*own_crds(), *grove_crds()]


def own_crds() -> list[Schema]:
    """The CRDs of what muster schedules by."""
    return [
        _crd(PodGroup, POD_GROUPS, "pg"),
        _crd(Queue, QUEUES, "q"),
        _crd(Topology, TOPOLOGIES, "topo"),
    ]


def grove_crds() -> list[Schema]:
    """The CRDs of Grove's kinds; beside Grove's own operator, that one installs them."""
    return [
        _crd(PodCliqueSet, POD_CLIQUE_SETS, "pcs"),
        _crd(PodClique, POD_CLIQUES, "pclq"),
        _crd(PodCliqueScalingGroup, POD_CLIQUE_SCALING_GROUPS, "pcsg"),
        _crd(PodGang, POD_GANGS, "pgang"),
        _crd(ClusterTopologyBinding, CLUSTER_TOPOLOGY_BINDINGS, "ct"),
    ]


def _crd(kind: type[Wire], resource: Resource, short_name: str) -> Schema:
    subresources = _subresources(kind)
    return {
        "apiVersion": DEFINITIONS.api_version,
        "kind": DEFINITIONS.kind,
        "metadata": {"name": f"{resource.plural}.{resource.group}"},
        "spec": {
            "group": resource.group,
            "names": {
                "kind": resource.kind,
                "listKind": f"{resource.kind}List",
                "plural": resource.plural,
                "singular": resource.kind.lower(),
                "shortNames": [short_name],
            },
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "versions": [
                {
                    "name": resource.version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": _object(kind)},
                    **({"subresources": subresources} if subresources else {}),
                    "additionalPrinterColumns": PRINTER_COLUMNS[kind],
                }
            ],
        },
    }


def _subresources(kind: type[Wire]) -> Schema:
    """The status, where the type has one, and the scale of what autoscalers may scale."""
    status: Schema = {"status": {}} if "status" in kind.__struct_fields__ else {}
    if kind not in grove_crd_rules.SELECTORS:
        return status
    paths = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    return {**status, "scale": {**paths, "labelSelectorPath": grove_crd_rules.SELECTORS[kind]}}


def _object(kind: type[Wire]) -> Schema:
    """The schema of a struct; Kubernetes itself defines the metadata of a whole object."""
    whole = "metadata" in kind.__struct_fields__
    properties: dict[str, Schema] = {}
    required: list[str] = []
    if whole:
        properties = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}}
        required = ["spec"] if kind not in _SPEC_OPTIONAL else []
    stated = FIELDS.get(kind, {})
    for field in msgspec.structs.fields(kind):
        if field.name == "metadata":
            continue
        given = stated.get(field.encode_name)
        properties[field.encode_name] = _annotate(given, field.type) if given else schema(field.type)
        required += [field.encode_name] if _required(field.type) else []
    properties |= {name: given for name, given in stated.items() if name not in properties}
    return {
        "type": "object",
        "description": " ".join((kind.__doc__ or "").split()),
        **({"required": sorted(required)} if required else {}),
        "properties": properties,
        **({"x-kubernetes-validations": CEL[kind]} if kind in CEL else {}),
    }


def schema(kind: Any) -> Schema:
    """The structural schema of one type: no references, absent instead of null."""
    if get_origin(kind) is Annotated:
        return _annotate(schema(get_args(kind)[0]), kind)
    if get_origin(kind) in (Union, UnionType):
        return _union([part for part in get_args(kind) if part is not NoneType])
    if get_origin(kind) is tuple:
        return {"type": "array", "items": schema(get_args(kind)[0])}
    if get_origin(kind) is dict:
        return {"type": "object", "additionalProperties": schema(get_args(kind)[1])}
    if kind is Resources:
        return {"type": "object", "additionalProperties": QUANTITY}
    if isinstance(kind, type) and issubclass(kind, Wire):
        return _object(kind)
    return dict(_SCALARS.get(kind, {"type": "string", "format": "date-time"}))


def _union(parts: list[Any]) -> Schema:
    if len(parts) == 1:
        return schema(parts[0])
    if str in parts:
        return dict(QUANTITY)
    return {"type": "number"}


def _annotate(base: Schema, kind: Any) -> Schema:
    """Add what the type's annotations say: descriptions and further keywords."""
    for meta in kind.__metadata__:
        description = {"description": meta.description} if meta.description else {}
        base = {**base, **description, **(meta.extra_json_schema or {})}
    return base


def _required(kind: Any) -> bool:
    return any((meta.extra or {}).get("required") for meta in getattr(kind, "__metadata__", ()))

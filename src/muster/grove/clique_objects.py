"""PodCliques as sets and scaling groups make them, and what of them changes later.

Rule 1: replicas are copied from the template at creation only; afterwards the scale of the clique itself rules.
Rule 2: the pod template of a clique changes only when its owner lets it, all of it at once and with its hash.
"""

from collections.abc import Mapping

from msgspec import Struct

from muster.api.decoding import encode
from muster.api.fields import mapping, text, texts
from muster.api.grove.pod_clique_set import PodCliqueSet
from muster.api.names import (
    BASE_POD_GANG,
    GENERATION_HASH,
    POD_GANG,
    SCALING_GROUP,
    SCALING_GROUP_REPLICA,
    TEMPLATE_HASH,
)
from muster.api.resources import POD_CLIQUES
from muster.grove.layout import CliqueLayout, clique_replicas, starts_after
from muster.grove.naming import GROUP_CLIQUE, SET_CLIQUE, child_labels
from muster.grove.template_hash import clique_hash, generation_hash
from muster.workloads.operators.objects import child, merge_patch, name_of
from muster.workloads.types import Raw, Update


class TemplateHashes(Struct, frozen=True):
    """The digests of the latest template of a set."""

    generation: str
    by_template: Mapping[str, str]

    def of(self, clique: CliqueLayout) -> str:
        """The template that the pods of a clique are to have."""
        return self.by_template[clique.template.name]


def template_hashes(pcs: PodCliqueSet) -> TemplateHashes:
    """The digests of a set, each taken once."""
    template = pcs.spec.template
    hashes = {clique.name: clique_hash(clique, template.priority_class_name) for clique in template.cliques}
    return TemplateHashes(generation_hash(pcs), hashes)


def clique_object(owner: Raw, pcs: PodCliqueSet, clique: CliqueLayout, hashes: TemplateHashes) -> Raw:
    """A PodClique of the latest template. `owner`: the set, or the scaling group."""
    labels = {
        **clique.template.labels,
        **clique_labels(pcs.metadata.name, clique),
        TEMPLATE_HASH: hashes.of(clique),
        GENERATION_HASH: hashes.generation,
    }
    return child(
        owner, POD_CLIQUES, clique.name, _spec(pcs, clique), labels=labels, annotations=clique.template.annotations
    )


def clique_labels(set_name: str, clique: CliqueLayout) -> dict[str, str]:
    """Labels that say where a clique belongs."""
    component = GROUP_CLIQUE if clique.group else SET_CLIQUE
    labels = {**child_labels(set_name, clique.name, component, clique.set_replica), POD_GANG: clique.gang}
    if clique.base:
        labels[BASE_POD_GANG] = clique.base
    if clique.group:
        labels |= {SCALING_GROUP: clique.group, SCALING_GROUP_REPLICA: str(clique.group_replica)}
    return labels


def _spec(pcs: PodCliqueSet, clique: CliqueLayout) -> Raw:
    spec = clique.template.spec
    written: Raw = {
        "roleName": spec.role_name,
        "podSpec": spec.pod_spec or {},
        "replicas": clique_replicas(clique.template),
        "minAvailable": clique.min_available,
        "startsAfter": list(starts_after(pcs, clique)),
    }
    if spec.auto_scaling_config is not None:
        written["autoScalingConfig"] = encode(spec.auto_scaling_config)
    return written


def clique_update(present: Raw, wanted: Raw, *, with_template: bool) -> Update | None:
    """What of a PodClique has to change; None: nothing. Without the template, its pods stay as they are."""
    before, after = texts(present, "metadata.labels"), texts(wanted, "metadata.labels")
    is_new = with_template and before.get(TEMPLATE_HASH) != after[TEMPLATE_HASH]
    patch = _spec_patch(present, wanted, with_template=is_new)
    if is_new:
        patch["metadata"] = _metadata_patch(present, wanted)
    elif with_template and before.get(GENERATION_HASH) != after[GENERATION_HASH]:
        patch["metadata"] = {"labels": {GENERATION_HASH: after[GENERATION_HASH]}}
    if not patch:
        return None
    return Update(POD_CLIQUES, text(present, "metadata.namespace"), name_of(present), patch)


def _spec_patch(present: Raw, wanted: Raw, *, with_template: bool) -> Raw:
    kept = {"replicas"} if with_template else {"replicas", "podSpec"}
    before = {field: value for field, value in mapping(present, "spec").items() if field not in kept}
    after = {field: value for field, value in wanted["spec"].items() if field not in kept}
    if not after["startsAfter"] and "startsAfter" not in before:
        del after["startsAfter"]
    return {"spec": merge_patch(before, after)} if before != after else {}


def _metadata_patch(present: Raw, wanted: Raw) -> Raw:
    return {
        field: merge_patch(texts(present, f"metadata.{field}"), texts(wanted, f"metadata.{field}"))
        for field in ("labels", "annotations")
    }

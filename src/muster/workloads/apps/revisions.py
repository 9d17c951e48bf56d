"""ControllerRevisions: the templates that a StatefulSet has had."""

from collections.abc import Sequence
from typing import Any

from muster.api.fields import integer, mapping, text, texts
from muster.api.resources import CONTROLLER_REVISIONS
from muster.workloads.pod_templates import controller_reference, is_terminating, template_hash
from muster.workloads.types import Action, Create, Raw, Remove, Update

REVISION_HASH = "controller-revision-hash"  # label: of pods the name, of ControllerRevisions the hash
HASH_LABEL = "controller.kubernetes.io/hash"  # label of ControllerRevisions
LONGEST_PREFIX = 223


def sorted_revisions(revisions: Sequence[Raw]) -> list[Raw]:
    """Oldest first."""
    return sorted(revisions, key=lambda raw: (integer(raw, "revision"), text(raw, "metadata.name")))


def new_revision(workload: Raw, revisions: Sequence[Raw]) -> Raw:
    """The revision of the workload's template, with the next number."""
    template = mapping(workload, "spec.template")
    data = {"spec": {"template": {**template, "$patch": "replace"}}}
    digest, name = template_hash(data), text(workload, "metadata.name")
    metadata = {
        "name": f"{name[:LONGEST_PREFIX]}-{digest}",
        "namespace": text(workload, "metadata.namespace"),
        "labels": {**texts(template, "metadata.labels"), HASH_LABEL: digest},
        "annotations": texts(workload, "metadata.annotations"),
        "ownerReferences": [controller_reference(workload)],
    }
    last = max((integer(raw, "revision") for raw in revisions), default=0)
    return {
        "apiVersion": CONTROLLER_REVISIONS.api_version,
        "kind": CONTROLLER_REVISIONS.kind,
        "metadata": metadata,
        "data": data,
        "revision": last + 1,
    }


def update_revision(workload: Raw, revisions: Sequence[Raw]) -> tuple[Raw, Sequence[Action]]:
    """The revision of the workload's template, and what makes it the latest one. `revisions`: oldest first."""
    proposed = new_revision(workload, revisions)
    equal = [raw for raw in revisions if _template(raw) == _template(proposed)]
    if not equal:
        return proposed, [Create(CONTROLLER_REVISIONS, proposed)]
    if equal[-1] is revisions[-1]:
        return equal[-1], ()
    metadata = equal[-1]["metadata"]
    patch = {"revision": proposed["revision"]}
    return equal[-1], [Update(CONTROLLER_REVISIONS, metadata.get("namespace", ""), metadata["name"], patch)]


def _template(revision: Raw) -> Any:
    return mapping(revision, "data.spec.template")


def template_of(revision: Raw) -> Raw:
    """The template that a revision holds."""
    return {name: value for name, value in mapping(revision, "data.spec.template").items() if name != "$patch"}


def surplus_revisions(revisions: Sequence[Raw], used: set[str], limit: int) -> Sequence[Action]:
    """Deletes the oldest revisions that nothing uses, beyond the limit of the history."""
    unused = [raw for raw in revisions if text(raw, "metadata.name") not in used and not is_terminating(raw)]
    return [
        Remove(
            CONTROLLER_REVISIONS,
            text(raw, "metadata.namespace"),
            text(raw, "metadata.name"),
            text(raw, "metadata.uid"),
        )
        for raw in unused[: max(0, len(unused) - limit)]
    ]

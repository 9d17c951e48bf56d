"""Which template a pod was made of: digests that tell whether a set has changed.

Rule: a digest is taken over what the user wrote and nothing else, so that no release of ours changes it and no pod is
replaced by an upgrade. Replicas, minimums and topology do not count: they do not change a pod.
"""

from collections.abc import Mapping
from typing import Any

from muster.api.grove.pod_clique_set import PodCliqueSet, PodCliqueTemplate
from muster.workloads.pod_templates import template_hash


def clique_hash(template: PodCliqueTemplate, priority_class: str) -> str:
    """The digest of the pods of one clique: pod spec, labels, annotations and priority class."""
    return pod_template_hash(template.spec.pod_spec, template.labels, template.annotations, priority_class)


def pod_template_hash(
    pod_spec: Any, labels: Mapping[str, str], annotations: Mapping[str, str], priority_class: str
) -> str:
    """The digest of pods with this spec, these labels and annotations, in a gang of this priority class."""
    return template_hash([pod_spec or {}, dict(labels), dict(annotations), priority_class])


def generation_hash(pcs: PodCliqueSet) -> str:
    """The digest of a set: those of its cliques, in their order."""
    template = pcs.spec.template
    return template_hash([clique_hash(clique, template.priority_class_name) for clique in template.cliques])

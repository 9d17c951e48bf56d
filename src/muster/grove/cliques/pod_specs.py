"""The pods of a PodClique: names, labels, gate, environment and host name as Grove gives them.

Rule 1: everything that equal pods share is built once for all of them. Rule 2: what Grove sets wins over the template;
gates of the template stay, and the gate of the gang is added.
"""

from copy import deepcopy

from msgspec import Struct

from muster import __version__
from muster.api import names
from muster.api.fields import integer, items, mapping, number, text, texts
from muster.api.resources import PODS
from muster.grove.naming import group_name, pod_hostname, pod_name_prefix, service_address, service_name, set_labels
from muster.grove.startup import add_wait
from muster.grove.startup_order import describe_wait, parents_of
from muster.workloads.operators.objects import name_of, strings, with_environment
from muster.workloads.pod_templates import controller_reference
from muster.workloads.types import Raw

_INDEXED = "metadata.labels['{}']"


class CliqueSettings(Struct, frozen=True):
    """What pods of cliques get from the configuration."""

    scheduler_name: str = names.DEFAULT_SCHEDULER  # of pods that name none
    startup_image: str = f"muster:{__version__}"  # of the init container that waits for other cliques


class CliquePodTemplate(Struct, frozen=True):
    """What all pods of a clique share."""

    clique: str
    metadata: Raw
    spec: Raw

    def pod(self, index: int, failures: int = 0) -> Raw:
        """The pod with this index, in place of so many that failed; the API server completes its name."""
        labels = {**self.metadata["labels"], names.POD_INDEX: str(index)}
        notes = self.metadata["annotations"]
        notes = {**notes, names.FAILURES: str(failures)} if failures else notes
        return {
            "apiVersion": PODS.api_version,
            "kind": PODS.kind,
            "metadata": {**self.metadata, "labels": labels, "annotations": notes},
            "spec": {**self.spec, "hostname": pod_hostname(self.clique, index)},
        }


def pod_template(clique: Raw, pcs: Raw | None, settings: CliqueSettings) -> CliquePodTemplate:
    """The template of a clique's pods. `pcs`: its set; None: it belongs to none."""
    metadata = {
        "generateName": pod_name_prefix(name_of(clique)),
        "namespace": text(clique, "metadata.namespace"),
        "labels": _labels(clique, pcs),
        "annotations": _annotations(clique),
        "ownerReferences": [controller_reference(clique)],
    }
    return CliquePodTemplate(name_of(clique), metadata, _spec(clique, pcs, settings))


def _labels(clique: Raw, pcs: Raw | None) -> dict[str, str]:
    labels = texts(clique, "metadata.labels")
    queue = texts(pcs, "metadata.labels").get(names.QUEUE) or texts(pcs, "metadata.annotations").get(names.QUEUE)
    return {
        **labels,
        **set_labels(labels.get(names.PART_OF, "")),
        names.POD_CLIQUE: name_of(clique),
        names.SUBGROUP: name_of(clique),
        names.SKIP_GROUPING: "true",
        **({names.QUEUE: queue} if queue else {}),
    }


def _annotations(clique: Raw) -> dict[str, str]:
    own = {name: value for name, value in texts(clique, "metadata.annotations").items() if name != names.LAST_APPLIED}
    gang = texts(clique, "metadata.labels").get(names.POD_GANG, "")
    wait = {names.STARTUP: describe_wait(clique)} if parents_of(clique) else {}
    return {**own, names.POD_GROUP: gang, names.SKIP_GROUPING: "true", **wait}


def _spec(clique: Raw, pcs: Raw | None, settings: CliqueSettings) -> Raw:
    spec = deepcopy(mapping(clique, "spec.podSpec"))
    variables = _variables(clique, pcs)
    for field in ("initContainers", "containers"):
        if items(spec, field):
            spec[field] = [with_environment(container, variables) for container in items(spec, field)]
    gates = [gate for gate in items(spec, "schedulingGates") if gate.get("name") != names.GANG_GATE]
    labels = texts(clique, "metadata.labels")
    changed = {
        "schedulingGates": [*gates, {"name": names.GANG_GATE}],
        "subdomain": service_name(labels.get(names.PART_OF, ""), _set_replica(labels)),
        "schedulerName": text(spec, "schedulerName") or settings.scheduler_name,
    }
    if priority := text(spec, "priorityClassName") or text(pcs, "spec.template.priorityClassName"):
        changed["priorityClassName"] = priority
    spec = {**spec, **changed}
    return add_wait(spec, settings.startup_image) if parents_of(clique) else spec


def _variables(clique: Raw, pcs: Raw | None) -> list[Raw]:
    labels, namespace = texts(clique, "metadata.labels"), text(clique, "metadata.namespace")
    set_name, replica = labels.get(names.PART_OF, ""), _set_replica(labels)
    variables: list[Raw] = [
        {"name": "GROVE_PCS_NAME", "value": set_name},
        {"name": "GROVE_PCS_INDEX", "value": str(replica)},
        {"name": "GROVE_PCLQ_NAME", "value": name_of(clique)},
        {"name": "GROVE_HEADLESS_SERVICE", "value": service_address(set_name, replica, namespace)},
        {"name": "GROVE_PCLQ_POD_INDEX", "valueFrom": _label(names.POD_INDEX)},
    ]
    if names.SCALING_GROUP not in labels:
        return variables
    return [
        *variables,
        {"name": "GROVE_PCSG_NAME", "valueFrom": _label(names.SCALING_GROUP)},
        {"name": "GROVE_PCSG_INDEX", "valueFrom": _label(names.SCALING_GROUP_REPLICA)},
        {"name": "GROVE_PCSG_TEMPLATE_NUM_PODS", "value": str(_group_pods(labels, pcs))},
    ]


def _label(name: str) -> Raw:
    return {"fieldRef": {"fieldPath": _INDEXED.format(name)}}


def _set_replica(labels: dict[str, str]) -> int:
    return number(labels.get(names.SET_REPLICA, "")) or 0


def _group_pods(labels: dict[str, str], pcs: Raw | None) -> int:
    """How many pods the template of the scaling group has in one replica."""
    if pcs is None:
        return 0
    group = next(
        (
            group
            for group in items(pcs, "spec.template.podCliqueScalingGroups")
            if group_name(name_of(pcs), _set_replica(labels), text(group, "name")) == labels[names.SCALING_GROUP]
        ),
        {},
    )
    members = set(strings(group, "cliqueNames"))
    cliques = (clique for clique in items(pcs, "spec.template.cliques") if text(clique, "name") in members)
    return sum(max(1, integer(clique, "spec.replicas", 1)) for clique in cliques)

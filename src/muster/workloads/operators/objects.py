"""Objects as an operator makes them: a child with its owner reference, a service, a labelled template.

Rule: labels and annotations of the operator win over those of the user's template, as in every operator.
"""

import copy
import hashlib
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from muster.api.fields import at, items, mapping, text, texts
from muster.api.resources import SERVICES, Resource
from muster.workloads.bursts import burst_beside
from muster.workloads.pod_templates import controller_reference
from muster.workloads.types import Action, Raw, Reconciliation, Remove

MOST_CHILDREN = 200_000  # of one workload: a typing error in `replicas` must not fill the memory
MOST_ACTIONS = 1_000  # of the first reconciliation; the next one follows at once


def name_of(raw: Raw) -> str:
    """The name of an object."""
    return text(raw, "metadata.name")


def read_version(raw: Raw) -> Raw:
    """Metadata of a patch that is refused where the object has changed since; empty where its version is not known."""
    version = text(raw, "metadata.resourceVersion")
    return {"resourceVersion": version} if version else {}


def flag(raw: Any, path: str, default: bool = False) -> bool:
    """A truth value; the default where there is none."""
    value = at(raw, path)
    return value if isinstance(value, bool) else default


def strings(raw: Any, path: str) -> list[str]:
    """The texts of a list."""
    value = at(raw, path)
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def child(
    owner: Raw,
    resource: Resource,
    name: str,
    spec: Raw,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Raw:
    """An object that the owner controls; without labels or annotations, those fields are left out."""
    metadata: Raw = {"name": name, "namespace": text(owner, "metadata.namespace")}
    if labels:
        metadata["labels"] = dict(labels)
    if annotations:
        metadata["annotations"] = dict(annotations)
    metadata["ownerReferences"] = [controller_reference(owner)]
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec}


def labelled_template(template: Raw, labels: Mapping[str, str], annotations: Mapping[str, str] | None = None) -> Raw:
    """A pod template with labels and annotations of the operator added."""
    labelled = copy.deepcopy(template)
    metadata = dict(mapping(template, "metadata"))
    metadata["labels"] = texts(template, "metadata.labels") | dict(labels)
    metadata["annotations"] = texts(template, "metadata.annotations") | dict(annotations or {})
    labelled["metadata"] = {field: value for field, value in metadata.items() if value}
    return labelled


def headless_service(
    owner: Raw, name: str, selector: Mapping[str, str], labels: Mapping[str, str] | None = None
) -> Raw:
    """A service that only gives pods their names, ready or not."""
    spec = {"clusterIP": "None", "selector": dict(selector), "publishNotReadyAddresses": True}
    return child(owner, SERVICES, name, spec, labels=labels)


def removal(resource: Resource, raw: Raw) -> Remove:
    """The deletion of exactly this object."""
    return Remove(resource, text(raw, "metadata.namespace"), name_of(raw), text(raw, "metadata.uid"))


def bounded(
    actions: Iterable[Action], existing: int, status: Raw | None, again_after_seconds: float | None = None
) -> Reconciliation:
    """A reconciliation of the first of these actions; with more of them, the next one follows at once.

    `existing`: how many objects it counts.
    """
    most = burst_beside(existing, MOST_ACTIONS)
    first = tuple(islice(actions, most + 1))
    if len(first) > most:
        return Reconciliation(first[:most], status, 0.0)
    return Reconciliation(first, status, again_after_seconds)


def with_variables(spec: Raw, variables: Mapping[str, str]) -> Raw:
    """A pod spec whose containers have these environment variables first, in place of their own of the same name."""
    first = [{"name": name, "value": value} for name, value in variables.items()]
    changed = dict(spec)
    for field in ("initContainers", "containers"):
        if items(spec, field):
            changed[field] = [with_environment(container, first) for container in items(spec, field)]
    return changed


def with_environment(container: Raw, variables: list[Raw]) -> Raw:
    """A container with these variables first, so that others may refer to them, and in place of its own of the name."""
    taken = {variable["name"] for variable in variables}
    rest = [variable for variable in items(container, "env") if variable.get("name") not in taken]
    return {**container, "env": [*variables, *rest]}


def merge_patch(before: Any, after: Any) -> Any:
    """The merge patch (RFC 7386) that turns one value into another."""
    if not isinstance(before, dict) or not isinstance(after, dict):
        return copy.deepcopy(after)
    patch: Raw = dict.fromkeys(before.keys() - after.keys())
    for name, value in after.items():
        if name not in before:
            patch[name] = copy.deepcopy(value)
        elif before[name] != value:
            patch[name] = merge_patch(before[name], value)
    return patch


def sha1_of(text: str) -> str:
    """The hash that LeaderWorkerSet and JobSet write into labels."""
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()

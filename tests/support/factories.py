"""Objects for tests, written the way people write manifests."""

from collections.abc import Iterable, Mapping
from typing import Any

from muster.api.core import Pod
from muster.api.decoding import decode
from muster.api.podgroup import PodGroup
from muster.model.gang.builder import build_gang
from muster.model.gang.gang import Gang

Raw = dict[str, Any]
NONE: Mapping[str, Any] = {}


def group(name: str, minimum: int | None = None, *, parent: str = "", of: int | None = None, **more: Any) -> Raw:
    """A SubGroup: `minimum` pods of a leaf, or `of` children of a branch."""
    raw: Raw = {"name": name}
    raw |= {"parent": parent} if parent else {}
    raw |= {"minMember": minimum} if minimum is not None else {}
    raw |= {"minSubGroup": of} if of is not None else {}
    return raw | more


def podgroup(*groups: Raw, name: str = "gang", namespace: str = "team", **spec: Any) -> Raw:
    """A PodGroup manifest; keyword arguments are fields of its spec."""
    return {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec | ({"subGroups": list(groups)} if groups else {}),
    }


def pod(
    name: str,
    leaf: str = "",
    *,
    on: str = "",
    phase: str = "",
    gated: bool = False,
    terminating: bool = False,
    created: str = "",
    priority: int | str | None = None,
    gang: str = "gang",
    namespace: str = "team",
    scheduler: str = "",
    image: str = "",
    labels: Mapping[str, str] = NONE,
    limits: Mapping[str, Any] = NONE,
    **requests: Any,
) -> Raw:
    """A pod of a gang; `on` is its node, other keywords are its requests. An empty string leaves a field out."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _pod_metadata(name, namespace, leaf, gang, priority, labels)
        | ({"creationTimestamp": created} if created else {})
        | ({"deletionTimestamp": "2026-01-01T00:00:00Z"} if terminating else {}),
        "spec": {"containers": [_container(image, requests, limits)]}
        | ({"schedulerName": scheduler} if scheduler else {})
        | ({"nodeName": on} if on else {})
        | ({"schedulingGates": [{"name": "wait"}]} if gated else {}),
        "status": {"phase": phase} if phase else {},
    }


def _pod_metadata(
    name: str, namespace: str, leaf: str, gang: str, priority: int | str | None, labels: Mapping[str, str]
) -> Raw:
    all_labels = dict(labels) | ({"kai.scheduler/subgroup-name": leaf} if leaf else {})
    all_labels |= {"kai.scheduler/task-priority": str(priority)} if priority is not None else {}
    meta: Raw = {"name": name, "labels": all_labels}
    meta |= {"namespace": namespace} if namespace else {}
    return meta | ({"annotations": {"pod-group-name": gang}} if gang else {})


def _container(image: str, requests: Mapping[str, Any], limits: Mapping[str, Any]) -> Raw:
    """Without requests the API server takes the limits as requests, so that only the limits are stated."""
    resources = {"requests": dict(requests)} if requests or not limits else {}
    resources |= {"limits": dict(limits)} if limits else {}
    return {"name": "main", "resources": resources} | ({"image": image} if image else {})


def stored_pod(name: str = "a", version: int = 1, *, uid: str = "", **more: Any) -> Raw:
    """A pod outside any gang with the uid and the resourceVersion that an API server gives it."""
    raw = pod(name, gang="", **more)
    raw["metadata"] |= {"uid": uid or f"uid-{name}", "resourceVersion": str(version)}
    return raw


def pods(number: int, leaf: str = "", *, on: str = "", first: int = 0, **more: Any) -> list[Raw]:
    """Several pods of one leaf, named `leaf-0`, `leaf-1`, …"""
    return [pod(f"{leaf or 'pod'}-{i}", leaf, on=on, **more) for i in range(first, first + number)]


def node(
    name: str,
    *,
    cpu: int = 8,
    allocatable: Mapping[str, Any] = NONE,
    labels: Mapping[str, str] = NONE,
    **levels: str,
) -> Raw:
    """A node; `rack="r1"` is the label `topology/rack`. An `allocatable` replaces CPU, memory and pods."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {f"topology/{level}": value for level, value in levels.items()} | dict(labels),
        },
        "status": {"allocatable": dict(allocatable) or {"cpu": str(cpu), "memory": "64Gi", "pods": "110"}},
    }


def topology(*levels: str, name: str = "cluster") -> Raw:
    """A Topology by its node labels, coarse to fine."""
    return {
        "apiVersion": "kai.scheduler/v1alpha1",
        "kind": "Topology",
        "metadata": {"name": name},
        "spec": {"levels": [{"nodeLabel": level} for level in levels]},
    }


def queue(name: str, parent: str = "", **resources: Raw) -> Raw:
    """A Queue; keyword arguments are its resources."""
    return {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": ({"parentQueue": parent} if parent else {}) | {"resources": resources},
    }


def priority_class(name: str, value: int, *, default: bool = False) -> Raw:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        "globalDefault": default,
    }


def gang(manifest: Raw, members: Iterable[Raw] = ()) -> Gang:
    """The tree of a PodGroup with these pods; every value must be of the right type."""
    owner, wrong = decode(manifest, PodGroup)
    assert not wrong, wrong
    return build_gang(owner, [typed_pod(raw) for raw in members])


def typed_pod(raw: Raw) -> Pod:
    decoded, wrong = decode(raw, Pod)
    assert not wrong, wrong
    return decoded

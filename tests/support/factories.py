"""Objects for tests, written the way people write manifests."""

from collections.abc import Iterable
from typing import Any

from muster.api.core import Pod
from muster.api.decoding import decode
from muster.api.podgroup import PodGroup
from muster.model.gang.builder import build_gang
from muster.model.gang.gang import Gang

Raw = dict[str, Any]


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
    **requests: Any,
) -> Raw:
    """A pod of a gang; `on` is the node it is bound to, and other keywords are what it asks for."""
    labels = {"kai.scheduler/subgroup-name": leaf} if leaf else {}
    labels |= {"kai.scheduler/task-priority": str(priority)} if priority is not None else {}
    meta: Raw = {"name": name, "namespace": namespace, "labels": labels}
    meta |= {"annotations": {"pod-group-name": gang}} if gang else {}
    meta |= {"creationTimestamp": created} if created else {}
    meta |= {"deletionTimestamp": "2026-01-01T00:00:00Z"} if terminating else {}
    spec: Raw = {"containers": [{"name": "main", "resources": {"requests": requests}}]}
    spec |= {"nodeName": on} if on else {}
    spec |= {"schedulingGates": [{"name": "wait"}]} if gated else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": spec,
        "status": {"phase": phase} if phase else {},
    }


def pods(number: int, leaf: str = "", *, on: str = "", first: int = 0, **more: Any) -> list[Raw]:
    """Several pods of one leaf, named `leaf-0`, `leaf-1`, …"""
    return [pod(f"{leaf or 'pod'}-{i}", leaf, on=on, **more) for i in range(first, first + number)]


def node(name: str, *, cpu: int = 8, **labels: str) -> Raw:
    """A node; `rack="r1"` is the label `topology/rack`."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {f"topology/{level}": value for level, value in labels.items()}},
        "status": {"allocatable": {"cpu": str(cpu), "memory": "64Gi", "pods": "110"}},
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

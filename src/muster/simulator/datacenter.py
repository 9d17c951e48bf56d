"""The built-in data centre: nodes in nested topology domains, and the Dynamo example as a workload."""

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise

from muster.api.resources import POD_GROUPS, TOPOLOGIES
from muster.errors import InputError
from muster.kube.cluster import Raw

TOPOLOGY = "datacenter-topology"
PREFIX = "topology/"
GPU = "nvidia.com/gpu"
LEVEL = re.compile(r"(?P<name>[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)=(?P<number>[0-9]{1,6})")
LEVELS_HINT = "levels are name=number, coarse to fine, such as zone=2,rack=8"


def parse_levels(text: str) -> dict[str, int]:
    """`zone=2,block=4,rack=8`: the number of domains of each level, coarse to fine."""
    domains_by_level: dict[str, int] = {}
    for part in filter(None, text.split(",")):
        level = LEVEL.fullmatch(part.strip())
        if level is None or not int(level["number"]):
            raise InputError(f"--topology: `{part}` is no level", hint=f"{LEVELS_HINT}; names are like those of labels")
        if level["name"] in domains_by_level:
            raise InputError(f"--topology: level `{level['name']}` is there twice", hint="keep one of them")
        domains_by_level[level["name"]] = int(level["number"])
    if not domains_by_level:
        raise InputError("--topology: there is no level", hint=LEVELS_HINT)
    for (coarse, few), (fine, many) in pairwise(domains_by_level.items()):
        if many % few:
            raise InputError(
                f"--topology: {many} {fine}s cannot be shared evenly by {few} {coarse}s",
                hint=f"make the number of {fine}s a multiple of {few}; levels go from coarse to fine",
            )
    return domains_by_level


def topology(domains_by_level: dict[str, int]) -> Raw:
    """The Topology over these levels."""
    return {
        "apiVersion": TOPOLOGIES.api_version,
        "kind": TOPOLOGIES.kind,
        "metadata": {"name": TOPOLOGY},
        "spec": {"levels": [{"nodeLabel": f"{PREFIX}{name}"} for name in domains_by_level]},
    }


def nodes(number: int, gpus: int, domains_by_level: dict[str, int]) -> Iterator[Raw]:
    """Nodes, distributed evenly over the domains of every level."""
    for i in range(number):
        labels = domain_labels(i, number, domains_by_level)
        name = f"node-{i:03}"
        allocatable = {"cpu": "96", "memory": "1Ti", "pods": "110"} | ({GPU: str(gpus)} if gpus else {})
        yield {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
            "status": {"capacity": allocatable, "allocatable": allocatable},
        }


def domain_labels(i: int, number: int, domains_by_level: Mapping[str, int]) -> dict[str, str]:
    """The labels of one of `number` nodes: its domain of every level."""
    return {f"{PREFIX}{name}": f"{name[0]}{i * count // number}" for name, count in domains_by_level.items()}


# the example --------------------------------------------------------------------------------------------------------

NAMESPACE, GANG = "inference", "dynamo"
REPLICAS = {"prefill": (4, 3, 8), "decode": (2, 1, 4)}  # replicas, minimum of them, pods of each


def dynamo() -> Iterator[Raw]:
    """Prefill and decode, each in a zone, each replica in a rack; 3 of 4 and 1 of 2 replicas are its core."""
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    groups: list[Raw] = []
    for role, (replicas, minimum, pods) in REPLICAS.items():
        groups.append({"name": role, "minSubGroup": minimum, "topologyConstraint": _in("zone")})
        groups += [
            {"name": f"{role}-{i}", "parent": role, "minMember": pods, "topologyConstraint": _in("rack")}
            for i in range(replicas)
        ]
    spec = {
        "preemptibility": "semi-preemptible",
        "minSubGroup": len(REPLICAS),
        "topologyConstraint": {"topology": TOPOLOGY},
        "subGroups": groups,
    }
    meta = {"name": GANG, "namespace": NAMESPACE}
    yield {"apiVersion": POD_GROUPS.api_version, "kind": POD_GROUPS.kind, "metadata": meta, "spec": spec}
    for role, (replicas, _, pods) in REPLICAS.items():
        for i in range(replicas):
            yield from (_pod(f"{role}-{i}", j) for j in range(pods))


def _in(level: str) -> Raw:
    return {"topology": TOPOLOGY, "requiredTopologyLevel": level}


def _pod(leaf: str, number: int) -> Raw:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{leaf}-{number}",
            "namespace": NAMESPACE,
            "labels": {"kai.scheduler/subgroup-name": leaf, "app": GANG},
            "annotations": {"pod-group-name": GANG},
        },
        "spec": {
            "schedulerName": "muster",
            "containers": [{"name": "main", "image": "dynamo", "resources": {"limits": {GPU: "1"}}}],
        },
    }

"""A cluster as a picture, a gang by its roles, and where its pods go: spec tests that can be read at a glance.

One line a domain, coarse to fine, then its nodes as `name:GPUs`; `-` stands for nodes without a label:

    z1/r1  a:2 b:2
    z1/r2  c:1
    -      spare:4
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import muster
from tests.support.factories import Raw, group, node, pod, podgroup, pods, topology

GPU = "nvidia.com/gpu"
LEVELS = ("zone", "rack")  # a path of one part is a rack, of two a rack in a zone
UNLABELLED = "-"


def draw(picture: str) -> list[Raw]:
    """The Topology and the nodes of a picture."""
    lines = [line.split() for line in picture.splitlines() if line.strip()]
    levels = LEVELS[-max(len(_path(domain)) for domain, *_ in lines) :]
    drawn = [(domain, *node.split(":")) for domain, *nodes in lines for node in nodes]
    nodes = [_gpu_node(name, gpus, domain, levels) for domain, name, gpus in drawn]
    return [topology(*(f"topology/{level}" for level in levels)), *nodes]


def draw_node(name: str, gpus: int, domain: str = "z1/r1") -> Raw:
    """One node of a picture, without a Topology."""
    return draw(f"{domain} {name}:{gpus}")[1]


def roles(*, within: str = "", each_in: str = "", prefer: str = "", at_least: int = 0, **leaves: int) -> list[Raw]:
    """A gang of one leaf for each keyword, with as many pods of one GPU as its minimum.

    `within` and `prefer` are the required and preferred level of the gang, `each_in` is the required level of every
    leaf, `at_least` is `minSubGroup`; 0: unset.
    """
    parts = [group(name, minimum, **_level(required=each_in)) for name, minimum in leaves.items()]
    spec = _level(required=within, preferred=prefer) | ({"minSubGroup": at_least} if at_least else {})
    return [podgroup(*parts, **spec), *waiting(**leaves)]


def waiting(**leaves: int) -> list[Raw]:
    """So many pods of each leaf that wait, one GPU each."""
    requests: Any = {GPU: 1}
    return [member for name, number in leaves.items() for member in pods(number, name, **requests)]


def worker(name: str, gpus: int = 1, leaf: str = "", **spec: Any) -> Raw:
    """A pod of the gang that waits and asks for GPUs; other keywords are fields of its spec."""
    requests: Any = {GPU: gpus}
    raw = pod(name, leaf, **requests)
    raw["spec"] |= spec
    return raw


def running(on: str, number: int = 1, leaf: str = "", **more: Any) -> list[Raw]:
    """Pods of a leaf that run on a node, one GPU each, named after it."""
    requests: Any = {GPU: 1}
    made = pods(number, leaf, on=on, phase="Running", **requests, **more)
    for member in made:
        member["metadata"]["name"] += f"-on-{on}"
    return made


def placement(*objects: Raw | Sequence[Raw]) -> dict[str, str]:
    """The domain that the bound pods of each leaf are in; several are joined by `+`, and `` is the PodGroup itself."""
    manifests = list(_flat(objects))
    domain_of = {raw["metadata"]["name"]: _domain(raw) for raw in manifests if raw["kind"] == "Node"}
    domains: dict[str, set[str]] = defaultdict(set)
    for binding in muster.plan(muster.objects(manifests)).bindings:
        domains[binding.sub_group].add(domain_of[binding.node])
    return {leaf: "+".join(sorted(names)) for leaf, names in sorted(domains.items())}


def bindings(*objects: Raw | Sequence[Raw]) -> dict[str, str]:
    """The node that each pod is bound to."""
    return {binding.pod: binding.node for binding in muster.plan(muster.objects(_flat(objects))).bindings}


def verdict(*objects: Raw | Sequence[Raw]) -> str:
    """What the plan says about the gang `team/gang`."""
    return muster.plan(muster.objects(_flat(objects))).verdict("team/gang")


def _flat(objects: Iterable[Raw | Sequence[Raw]]) -> Iterable[Raw]:
    for item in objects:
        if isinstance(item, dict):
            yield item
        else:
            yield from item


def _path(domain: str) -> list[str]:
    return [] if domain == UNLABELLED else domain.split("/")


def _gpu_node(name: str, gpus: str, domain: str, levels: Sequence[str]) -> Raw:
    labels = dict(zip((f"topology/{level}" for level in levels), _path(domain), strict=False))
    return node(name, allocatable={GPU: gpus, "cpu": "64", "pods": "110"}, labels=labels)


def _domain(node: Raw) -> str:
    return "/".join(node["metadata"]["labels"].values()) or UNLABELLED


def _level(required: str = "", preferred: str = "") -> Raw:
    levels = {"requiredTopologyLevel": required, "preferredTopologyLevel": preferred}
    stated = {field: level for field, level in levels.items() if level}
    return {"topologyConstraint": stated} if stated else {}

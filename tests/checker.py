"""An independent judge of plans: plain manifests and a plan as JSON in, every broken promise out.

Shares no code with the engine: it has its own reading of quantities, labels and trees.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

Raw = dict[str, Any]
SUFFIXES: dict[str, Fraction] = {
    "m": Fraction(1, 1000),
    **{suffix: Fraction(10 ** (3 * i)) for i, suffix in enumerate(("", "k", "M", "G", "T"))},
    **{suffix: Fraction(2 ** (10 * i)) for i, suffix in enumerate(("Ki", "Mi", "Gi", "Ti"), 1)},
}


def broken(objects: list[Raw], plan: Raw) -> list[str]:
    """Every promise that the plan does not keep."""
    world = World(objects)
    return [*_bound_once(world, plan), *_overfull(world, plan), *_misplaced(world, plan), *_half_started(world, plan)]


class World:
    """The objects, by what the promises are about."""

    def __init__(self, objects: list[Raw]) -> None:
        kinds: dict[str, list[Raw]] = defaultdict(list)
        for raw in objects:
            kinds[raw["kind"]].append(raw)
        self.nodes = {raw["metadata"]["name"]: raw for raw in kinds["Node"]}
        self.pods = {name(raw): raw for raw in kinds["Pod"]}
        self.gangs = {name(raw): raw for raw in kinds["PodGroup"]}
        self.topologies = {raw["metadata"]["name"]: raw for raw in kinds["Topology"]}


def name(raw: Raw) -> str:
    return f"{raw['metadata'].get('namespace', 'default')}/{raw['metadata']['name']}"


def quantity(text: Any) -> Fraction:
    text = str(text)
    suffix = text.lstrip("0123456789.")
    return Fraction(text[: len(text) - len(suffix)]) * SUFFIXES[suffix]


def asks(pod: Raw) -> dict[str, Fraction]:
    total: dict[str, Fraction] = defaultdict(Fraction)
    for container in pod["spec"].get("containers", ()):
        resources = container.get("resources", {})
        for resource, text in {**resources.get("limits", {}), **resources.get("requests", {})}.items():
            total[resource] += quantity(text)
    total["pods"] = Fraction(1)
    return total


def _bound_once(world: World, plan: Raw) -> Iterator[str]:
    """I1: a pod is bound once, and only if it waits."""
    times = Counter(f"{b['namespace']}/{b['pod']}" for b in plan["bindings"])
    for pod, count in times.items():
        raw = world.pods.get(pod)
        if count > 1:
            yield f"{pod} is bound {count} times"
        if raw is None or raw["spec"].get("nodeName") or raw["spec"].get("schedulingGates"):
            yield f"{pod} cannot be bound"
        elif raw["metadata"].get("deletionTimestamp") or raw.get("status", {}).get("phase") in ("Succeeded", "Failed"):
            yield f"{pod} has ended"


def _overfull(world: World, plan: Raw) -> Iterator[str]:
    """I2: no node over its allocatable, other schedulers' pods included."""
    used: dict[str, dict[str, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
    new = {f"{b['namespace']}/{b['pod']}": b["node"] for b in plan["bindings"]}
    for key, pod in world.pods.items():
        node = new.get(key) or pod["spec"].get("nodeName")
        if node and pod.get("status", {}).get("phase") not in ("Succeeded", "Failed"):
            for resource, amount in asks(pod).items():
                used[node][resource] += amount
    for node in set(new.values()):
        room = world.nodes[node]["status"]["allocatable"]
        for resource, amount in used[node].items():
            if resource == "pods" and "pods" not in room:
                continue
            if amount > quantity(room.get(resource, 0)):
                yield f"{node} has {room.get(resource, 0)} {resource}, but {amount} are asked of it"


def _misplaced(world: World, plan: Raw) -> Iterator[str]:
    """Selectors and taints of every bound pod (X5)."""
    for binding in plan["bindings"]:
        pod, node = world.pods[f"{binding['namespace']}/{binding['pod']}"], world.nodes[binding["node"]]
        labels = node["metadata"].get("labels", {})
        for key, value in pod["spec"].get("nodeSelector", {}).items():
            if labels.get(key) != value:
                yield f"{binding['pod']} wants {key}={value}, but is on {binding['node']}"
        if node.get("spec", {}).get("unschedulable"):
            yield f"{binding['pod']} is on {binding['node']}, which is unschedulable"


def _half_started(world: World, plan: Raw) -> Iterator[str]:
    """I3, I4, G1, G2: minimums and domains at every level, for what is placed and what is bound now together."""
    for key, gang in world.gangs.items():
        nodes, new = _where(world, plan, key, gang)
        tree = {"": dict(gang["spec"], name="", parent=None)} | {
            g["name"]: g for g in gang["spec"].get("subGroups", ())
        }
        children: dict[str, list[str]] = defaultdict(list)
        for group in gang["spec"].get("subGroups", ()):
            children[group.get("parent") or ""].append(group["name"])
        met = {group: _met(group, tree, children, nodes) for group in tree}
        for group in tree:
            inside = _inside(group, children)
            if any(new[leaf] for leaf in inside) and not met[group]:
                yield f"{key}: pods of `{group}` are bound, but it is not satisfied"
            yield from _apart(world, key, tree, group, [n for leaf in inside for n in nodes[leaf]], new, inside)
        if any(new.values()) and not met[""]:
            yield f"{key}: is started below its minimum"
        said = next(one for one in plan["podGroups"] if f"{one['namespace']}/{one['name']}" == key)
        if (said["verdict"] == "Scheduled") != met[""]:
            yield f"{key}: verdict {said['verdict']}, but satisfied is {met['']}"


def _where(world: World, plan: Raw, key: str, gang: Raw) -> tuple[dict[str, list[str]], dict[str, int]]:
    """Nodes of every leaf's pods that count, and how many of them are new."""
    nodes: dict[str, list[str]] = defaultdict(list)
    new: dict[str, int] = defaultdict(int)
    bound = {f"{b['namespace']}/{b['pod']}": b["node"] for b in plan["bindings"]}
    for pod_key, pod in world.pods.items():
        meta = pod["metadata"]
        owner = f"{meta.get('namespace', 'default')}/{meta.get('annotations', {}).get('pod-group-name')}"
        phase = pod.get("status", {}).get("phase")
        if owner != key or meta.get("deletionTimestamp") or phase == "Failed":
            continue
        leaf = meta.get("labels", {}).get("kai.scheduler/subgroup-name", "")
        if phase == "Succeeded":
            nodes[leaf].append("")
        elif pod["spec"].get("nodeName") or pod_key in bound:
            nodes[leaf].append(pod["spec"].get("nodeName") or bound[pod_key])
            new[leaf] += pod_key in bound
    return nodes, new


def _met(group: str, tree: Raw, children: dict[str, list[str]], nodes: dict[str, list[str]]) -> bool:
    below = children.get(group, [])
    if not below:
        return len(nodes[group]) >= (tree[group].get("minMember") or 1)
    good = sum(_met(child, tree, children, nodes) for child in below)
    pods = sum(len(nodes[leaf]) for leaf in _inside(group, children))
    return good >= (tree[group].get("minSubGroup") or len(below)) and pods >= (tree[group].get("minMember") or 0)


def _inside(group: str, children: dict[str, list[str]]) -> list[str]:
    found, ahead = [], [group]
    while ahead:
        one = ahead.pop()
        found.append(one)
        ahead += children.get(one, [])
    return found


def _apart(
    world: World, key: str, tree: Raw, group: str, nodes: list[str], new: dict[str, int], inside: list[str]
) -> Iterator[str]:
    """T1: every pod of the group in one domain of its required level."""
    level = (tree[group].get("topologyConstraint") or {}).get("requiredTopologyLevel")
    if not level or not any(new[leaf] for leaf in inside):
        return
    named = (tree[group].get("topologyConstraint") or {}).get("topology")
    topology = world.topologies[named] if named else next(iter(world.topologies.values()))
    labels = [one["nodeLabel"] for one in topology["spec"]["levels"]]
    at = next(i for i, label in enumerate(labels) if level in (label, label.rsplit("/", 1)[-1]))
    domains = {
        tuple(world.nodes[node]["metadata"].get("labels", {}).get(label) for label in labels[: at + 1])
        for node in nodes
        if node
    }
    if len(domains) > 1 or any(None in domain for domain in domains):
        yield f"{key}: pods of `{group}` are in {sorted(map(str, domains))}, not in one {level}"

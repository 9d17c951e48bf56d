"""An independent judge of plans: plain manifests and a plan as JSON in, every broken promise out.

Rule 1: shares no code with the engine; it has its own reading of quantities, labels, selectors and trees.
Rule 2: where the order of steps matters and the plan does not tell it, the judge is lenient.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import combinations
from typing import Any, NamedTuple

Raw = dict[str, Any]
Amounts = dict[str, Fraction]
HOSTNAME = "kubernetes.io/hostname"
SUFFIXES: dict[str, Fraction] = {
    "m": Fraction(1, 1000),
    **{suffix: Fraction(10 ** (3 * i)) for i, suffix in enumerate(("", "k", "M", "G", "T"))},
    **{suffix: Fraction(2 ** (10 * i)) for i, suffix in enumerate(("Ki", "Mi", "Gi", "Ti"), 1)},
}


def broken(objects: list[Raw], plan: Raw) -> list[str]:
    """Every promise that the plan does not keep."""
    world = World(objects)
    seats = _seats(world, plan)
    return [
        *_bound_once(world, plan),
        *_overfull(world, plan),
        *_misplaced(world, seats),
        *_ports_clash(seats),
        *_too_close(world, seats),
        *_alone(world, seats),
        *(_uneven(world, seats) + _scattered(world, seats) if _at_once(world, plan) else ()),
        *_half_started(world, plan),
    ]


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
        self.claims = {name(raw): raw for raw in kinds["PersistentVolumeClaim"]}
        self.volumes = {raw["metadata"]["name"]: raw for raw in kinds["PersistentVolume"]}
        self.namespaces = {raw["metadata"]["name"]: labels(raw) for raw in kinds["Namespace"]}


class Seat(NamedTuple):
    """A pod that holds room on a node once the plan is carried out."""

    pod: Raw
    node: Raw
    new: bool

    def __str__(self) -> str:
        return f"{name(self.pod)} on {self.node['metadata']['name']}"


def name(raw: Raw) -> str:
    return f"{raw['metadata'].get('namespace', 'default')}/{raw['metadata']['name']}"


def quantity(text: Any) -> Fraction:
    text = str(text)
    suffix = text.lstrip("0123456789.")
    return Fraction(text[: len(text) - len(suffix)]) * SUFFIXES[suffix]


def labels(raw: Raw) -> dict[str, str]:
    return raw["metadata"].get("labels") or {}


def namespace(raw: Raw) -> str:
    return str(raw["metadata"].get("namespace", "default"))


def asks(pod: Raw) -> Amounts:
    """What runs together, or the hungriest moment of the start if that is more; sidecars stay once started."""
    spec = pod["spec"]
    lasting: Amounts = {}
    peak: Amounts = {}
    for container in spec.get("initContainers") or ():
        moment = _joined(sum, lasting, _requests(container))
        peak = _joined(max, peak, moment)
        if container.get("restartPolicy") == "Always":
            lasting = moment
    running = _joined(sum, lasting, *(_requests(container) for container in spec.get("containers") or ()))
    return _joined(sum, _joined(max, running, peak), _amounts(spec.get("overhead"))) | {"pods": Fraction(1)}


def _requests(container: Raw) -> Amounts:
    resources = container.get("resources") or {}
    return _amounts(resources.get("limits")) | _amounts(resources.get("requests"))


def _amounts(raw: Raw | None) -> Amounts:
    return {resource: quantity(text) for resource, text in (raw or {}).items()}


def _joined(how: Callable[[list[Fraction]], Any], *given: Amounts) -> Amounts:
    return {name: how([one.get(name, Fraction()) for one in given]) for name in {key for one in given for key in one}}


def _seats(world: World, plan: Raw) -> list[Seat]:
    """Every pod that holds room on a known node after the plan."""
    new = {f"{b['namespace']}/{b['pod']}": b["node"] for b in plan["bindings"]}
    found = []
    for key, pod in world.pods.items():
        node = world.nodes.get(new.get(key) or pod["spec"].get("nodeName") or "")
        if node and pod.get("status", {}).get("phase") not in ("Succeeded", "Failed"):
            found.append(Seat(pod, node, key in new))
    return found


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


def _misplaced(world: World, seats: list[Seat]) -> Iterator[str]:
    """What a bound pod and its node say about each other (X5)."""
    for seat in seats:
        for rule, holds in NODE_RULES.items() if seat.new else ():
            if not holds(world, seat.pod, seat.node):
                yield f"{seat}: {rule}"


def _selected(world: World, pod: Raw, node: Raw) -> bool:
    return (pod["spec"].get("nodeSelector") or {}).items() <= labels(node).items()


def _has_affinity(world: World, pod: Raw, node: Raw) -> bool:
    required = _affinity(pod, "nodeAffinity").get("requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or _any_term(required, node)


def _volumes_reach(world: World, pod: Raw, node: Raw) -> bool:
    """Bound claims only: where an unbound one will be is not known."""
    for volume in pod["spec"].get("volumes") or ():
        claim = world.claims.get(f"{namespace(pod)}/{_claim(pod, volume)}")
        bound = world.volumes.get(claim["spec"].get("volumeName") or "") if claim else None
        required = (bound["spec"].get("nodeAffinity") or {}).get("required") if bound else None
        if required is not None and not _any_term(required, node):
            return False
    return True


def _claim(pod: Raw, volume: Raw) -> str:
    if "ephemeral" in volume:
        return f"{pod['metadata']['name']}-{volume['name']}"
    return str((volume.get("persistentVolumeClaim") or {}).get("claimName", ""))


def _taints_tolerated(world: World, pod: Raw, node: Raw) -> bool:
    taints = (node.get("spec") or {}).get("taints") or ()
    return all(_tolerated(pod, taint) for taint in taints if taint["effect"] in ("NoSchedule", "NoExecute"))


def _tolerated(pod: Raw, taint: Raw) -> bool:
    return any(_tolerates(one, taint) for one in pod["spec"].get("tolerations") or ())


def _tolerates(toleration: Raw, taint: Raw) -> bool:
    exists: bool = toleration.get("operator", "Equal") == "Exists"
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if not toleration.get("key"):
        return exists
    same: bool = exists or (toleration.get("value") or "") == (taint.get("value") or "")
    return same and str(toleration["key"]) == taint["key"]


def _open(world: World, pod: Raw, node: Raw) -> bool:
    cordon = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    return not (node.get("spec") or {}).get("unschedulable") or _tolerated(pod, cordon)


def _ready(world: World, pod: Raw, node: Raw) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return all(one["status"] == "True" for one in conditions if one["type"] == "Ready")


NODE_RULES: dict[str, Callable[[World, Raw, Raw], bool]] = {
    "its nodeSelector says another node": _selected,
    "its node affinity says another node": _has_affinity,
    "a volume of its cannot be reached from there": _volumes_reach,
    "a taint there is not tolerated": _taints_tolerated,
    "the node is unschedulable": _open,
    "the node is not ready": _ready,
}


def _affinity(pod: Raw, kind: str) -> Raw:
    return (pod["spec"].get("affinity") or {}).get(kind) or {}


def _any_term(selector: Raw, node: Raw) -> bool:
    """A node selector: terms are alternatives, and an empty term selects nothing."""
    return any(_term(term, node) for term in selector.get("nodeSelectorTerms") or ())


def _term(term: Raw, node: Raw) -> bool:
    by_label, by_field = term.get("matchExpressions") or (), term.get("matchFields") or ()
    field = {"metadata.name": node["metadata"]["name"]}
    return (
        bool(by_label or by_field)
        and all(_expression(one, labels(node)) for one in by_label)
        and all(_expression(one, field) for one in by_field)
    )


def _expression(one: Raw, given: dict[str, str]) -> bool:
    value, values = given.get(one["key"]), [str(v) for v in one.get("values") or ()]
    match one["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return value is not None and int(value) > int(values[0])
        case "Lt":
            return value is not None and int(value) < int(values[0])
        case _:
            raise AssertionError(one)


def _ports_clash(seats: list[Seat]) -> Iterator[str]:
    """A port of a node is taken once; on every address means on each."""
    for one, other in combinations(seats, 2):
        if (one.new or other.new) and one.node is other.node:
            for mine in _ports(one.pod):
                if any(_same_port(mine, theirs) for theirs in _ports(other.pod)):
                    yield f"{one} and {name(other.pod)} both want host port {mine[1]}"


def _ports(pod: Raw) -> list[tuple[str, int, str]]:
    sidecars = [one for one in pod["spec"].get("initContainers") or () if one.get("restartPolicy") == "Always"]
    return [
        (port.get("protocol") or "TCP", port["hostPort"], port.get("hostIP") or "0.0.0.0")
        for container in (*(pod["spec"].get("containers") or ()), *sidecars)
        for port in container.get("ports") or ()
        if port.get("hostPort")
    ]


def _same_port(one: tuple[str, int, str], other: tuple[str, int, str]) -> bool:
    return one[:2] == other[:2] and (one[2] == other[2] or "0.0.0.0" in (one[2], other[2]))


def _terms(pod: Raw, kind: str) -> list[Raw]:
    return _affinity(pod, kind).get("requiredDuringSchedulingIgnoredDuringExecution") or []


def _place(node: Raw, key: str) -> str | None:
    """A node without the label is nowhere, but for its hostname it needs none."""
    return labels(node).get(key) or (node["metadata"]["name"] if key == HOSTNAME else None)


def _together(one: Seat, other: Seat, key: str) -> bool:
    place = _place(one.node, key)
    return place is not None and place == _place(other.node, key)


def _looks_at(world: World, pod: Raw, term: Raw, other: Raw) -> bool:
    """Whether a term that `pod` carries selects `other`."""
    where, chosen = namespace(other), term.get("namespaceSelector")
    if not term.get("namespaces") and chosen is None:
        inside = where == namespace(pod)
    else:
        known = world.namespaces.get(where, {"kubernetes.io/metadata.name": where})
        inside = where in (term.get("namespaces") or ()) or (chosen is not None and _matches(chosen, known))
    return inside and _alike(term, pod, other)


def _alike(term: Raw, pod: Raw, other: Raw) -> bool:
    """The label selector, and the keys in which both must agree or differ; without a selector nothing is selected."""
    if term.get("labelSelector") is None:
        return False
    own, theirs = labels(pod), labels(other)
    agree = all(theirs.get(key) == own[key] for key in term.get("matchLabelKeys") or () if key in own)
    differ = all(theirs.get(key) != own[key] for key in term.get("mismatchLabelKeys") or () if key in own)
    return agree and differ and _matches(term["labelSelector"], theirs)


def _matches(selector: Raw, given: dict[str, str]) -> bool:
    expressions = selector.get("matchExpressions") or ()
    return (selector.get("matchLabels") or {}).items() <= given.items() and all(
        _expression(one, given) for one in expressions
    )


def _too_close(world: World, seats: list[Seat]) -> Iterator[str]:
    """Anti-affinity, both ways, for every pair with a new pod."""
    for one in seats:
        for term in _terms(one.pod, "podAntiAffinity"):
            for other in seats:
                concerns = other is not one and (one.new or other.new) and _together(one, other, term["topologyKey"])
                if concerns and _looks_at(world, one.pod, term, other.pod):
                    yield f"{one} keeps away from {other} in one {term['topologyKey']}"


def _alone(world: World, seats: list[Seat]) -> Iterator[str]:
    """Affinity: a selected pod beside each new carrier, or one that may have started a place."""
    for one in seats:
        for term in _terms(one.pod, "podAffinity") if one.new else ():
            key = term["topologyKey"]
            if _place(one.node, key) is None:
                yield f"{one}: affinity by {key}, which the node does not have"
            elif not _looks_at(world, one.pod, term, one.pod) and not _company(world, one, term, seats):
                yield f"{one}: nobody there that its affinity by {key} asks for"


def _company(world: World, one: Seat, term: Raw, seats: list[Seat]) -> list[Seat]:
    """Other pods in the place of a carrier that its term selects."""
    key = term["topologyKey"]
    return [
        other
        for other in seats
        if other is not one and _together(one, other, key) and _looks_at(world, one.pod, term, other.pod)
    ]


def _at_once(world: World, plan: Raw) -> bool:
    """Whether the plan is one step: the core of one gang of which nothing was placed before."""
    gangs = {f"{b['namespace']}/{b['podGroup']}" for b in plan["bindings"]}
    placed = {
        f"{namespace(pod)}/{(pod['metadata'].get('annotations') or {}).get('pod-group-name')}"
        for pod in world.pods.values()
        if pod["spec"].get("nodeName")
    }
    return len(gangs) == 1 and not gangs & placed and all(b["role"] != "extra" for b in plan["bindings"])


def _scattered(world: World, seats: list[Seat]) -> list[str]:
    """Affinity of a gang that came at once: a series starts one place, and only where no outside pod is selected."""
    started: dict[str, set[str]] = defaultdict(set)
    found = []
    for one in seats:
        for term in _terms(one.pod, "podAffinity") if one.new else ():
            if not any(_stands(other, _series(one.pod, term)) for other in _company(world, one, term, seats)):
                started[_series(one.pod, term)].add(str(_place(one.node, term["topologyKey"])))
                elsewhere = [other for other in seats if not other.new and _place(other.node, term["topologyKey"])]
                if any(_looks_at(world, one.pod, term, other.pod) for other in elsewhere):
                    found.append(f"{one}: a place is started though its affinity selects a pod elsewhere")
    return found + [f"{term} is started in {sorted(places)}" for term, places in started.items() if len(places) > 1]


def _stands(other: Seat, series: str) -> bool:
    """Whether a selected pod is there for another reason than the series itself."""
    return not other.new or all(_series(other.pod, term) != series for term in _terms(other.pod, "podAffinity"))


def _series(pod: Raw, term: Raw) -> str:
    """One term of pods that see each other by it."""
    keys = (*(term.get("matchLabelKeys") or ()), *(term.get("mismatchLabelKeys") or ()))
    return f"{namespace(pod)} {term} {[(key, labels(pod).get(key)) for key in keys]}"


def _uneven(world: World, seats: list[Seat]) -> list[str]:
    """Topology spread of a gang that came at once."""
    return [
        f"{one}: spread by {rule['topologyKey']}: {problem}"
        for one in seats
        if one.new
        for rule in one.pod["spec"].get("topologySpreadConstraints") or ()
        if rule.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule"
        if (problem := _skew(world, one, rule, seats))
    ]


def _skew(world: World, one: Seat, rule: Raw, seats: list[Seat]) -> str:
    key = rule["topologyKey"]
    here = _place(one.node, key)
    if here is None:
        return "the node does not have it"
    counts = {
        place: 0
        for node in world.nodes.values()
        if (place := _place(node, key)) is not None and _counts(world, one.pod, rule, node)
    }
    for other in seats:
        seen = namespace(other.pod) == namespace(one.pod) and not other.pod["metadata"].get("deletionTimestamp")
        place = _place(other.node, key)
        if seen and place in counts and _counts(world, one.pod, rule, other.node) and _alike(rule, one.pod, other.pod):
            counts[place] += 1
    floor = 0 if len(counts) < (rule.get("minDomains") or 1) else min(counts.values(), default=0)
    return "" if counts.get(here, 0) - floor <= rule["maxSkew"] else f"{here} has too many of {counts}"


def _counts(world: World, pod: Raw, rule: Raw, node: Raw) -> bool:
    """Whether a node is one of those that a pod's spread is about."""
    chosen = _selected(world, pod, node) and _has_affinity(world, pod, node)
    affinity = chosen or rule.get("nodeAffinityPolicy") == "Ignore"
    return affinity and (rule.get("nodeTaintsPolicy") != "Honor" or _taints_tolerated(world, pod, node))


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
    named = _named(tree, group)
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


def _named(tree: Raw, group: str | None) -> str:
    """T4: the topology that a group names, else its nearest ancestor."""
    while group is not None:
        if own := (tree[group].get("topologyConstraint") or {}).get("topology"):
            return str(own)
        group = (tree[group].get("parent") or "") if group else None
    return ""

"""What plain manifests say: objects by kind, amounts, selectors, gangs as they stand. No code of the engine."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, Literal, NamedTuple

from tests.oracles.fair_shares import Queues

Raw = dict[str, Any]
Amounts = dict[str, Fraction]
SUFFIXES: dict[str, Fraction] = {
    "m": Fraction(1, 1000),
    **{suffix: Fraction(10 ** (3 * i)) for i, suffix in enumerate(("", "k", "M", "G", "T"))},
    **{suffix: Fraction(2 ** (10 * i)) for i, suffix in enumerate(("Ki", "Mi", "Gi", "Ti"), 1)},
}


class ObjectIndex:
    """The objects, by what the promises are about."""

    def __init__(self, objects: list[Raw]) -> None:
        kinds: dict[str, list[Raw]] = defaultdict(list)
        for raw in objects:
            kinds[raw["kind"]].append(raw)
        self.nodes = {raw["metadata"]["name"]: raw for raw in kinds["Node"]}
        self.pods = {name(raw): raw for raw in kinds["Pod"]}
        self.gangs = {name(raw): raw for raw in kinds["PodGroup"]}
        self.topologies = {raw["metadata"]["name"]: raw for raw in kinds["Topology"]}
        self.members: dict[str, list[Raw]] = defaultdict(list)  # pods by gang, in the order of M4
        for pod in sorted(kinds["Pod"], key=preference):
            self.members[owner(pod)].append(pod)
        self.claims = {name(raw): raw for raw in kinds["PersistentVolumeClaim"]}
        self.volumes = {raw["metadata"]["name"]: raw for raw in kinds["PersistentVolume"]}
        self.namespaces = {raw["metadata"]["name"]: labels(raw) for raw in kinds["Namespace"]}
        self.queues = Queues(kinds["Queue"])
        self.classes = {raw["metadata"]["name"]: raw for raw in kinds["PriorityClass"]}
        self.budgets = {name(raw): raw for raw in kinds["PodDisruptionBudget"]}


def name(raw: Raw) -> str:
    return f"{raw['metadata'].get('namespace', 'default')}/{raw['metadata']['name']}"


def key_of(one: Raw) -> str:
    """The pod that an entry of a plan is about."""
    return f"{one['namespace']}/{one['pod']}"


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


def matches(selector: Raw, given: dict[str, str]) -> bool:
    expressions = selector.get("matchExpressions") or ()
    return (selector.get("matchLabels") or {}).items() <= given.items() and all(
        expression(one, given) for one in expressions
    )


def expression(one: Raw, given: dict[str, str]) -> bool:
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


# gangs --------------------------------------------------------------------------------------------------------------


class Outcome(NamedTuple):
    """What changes: pods that are somewhere else or somewhere at last, and pods that are gone."""

    places: Mapping[str, str] = {}
    gone: frozenset[str] = frozenset()


class Unit(NamedTuple):
    """What leaves together (0008); `around` is the unit that it is inside of, by index."""

    kind: Literal["core", "group", "spare"]
    group: str
    own: frozenset[str]
    around: int | None


def owner(pod: Raw) -> str:
    return f"{namespace(pod)}/{(pod['metadata'].get('annotations') or {}).get('pod-group-name')}"


def leaf_of(pod: Raw) -> str:
    return labels(pod).get("kai.scheduler/subgroup-name", "")


def phase(pod: Raw) -> str:
    return str((pod.get("status") or {}).get("phase") or "")


def terminating(pod: Raw) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp"))


def preference(pod: Raw) -> tuple[int, str, str]:
    """M4: who of a leaf comes first."""
    meta = pod["metadata"]
    return -int(labels(pod).get("kai.scheduler/task-priority", 0)), meta.get("creationTimestamp", ""), meta["name"]


class CheckedGang:
    """A gang as it stands once something has changed."""

    def __init__(self, index: ObjectIndex, key: str, outcome: Outcome = Outcome()) -> None:  # noqa: B008
        raw = index.gangs[key]
        spec = raw["spec"]
        self.key, self.spec, self.notes = key, spec, raw["metadata"].get("annotations") or {}
        self.created = raw["metadata"].get("creationTimestamp", "")
        self.queue = spec.get("queue") or labels(raw).get("kai.scheduler/queue") or "default"
        self.priority = _priority(index, spec.get("priorityClassName") or labels(raw).get("priorityClassName", ""))
        unset = "preemptible" if self.priority < 100 else "non-preemptible"
        self.kind = spec.get("preemptibility") or labels(raw).get("kai.scheduler/preemptibility") or unset
        self.tree: dict[str, Raw] = {"": dict(spec, name="", parent=None)}
        self.children: dict[str, list[str]] = defaultdict(list)
        for group in spec.get("subGroups") or ():
            self.tree[group["name"]] = group
            self.children[group.get("parent") or ""].append(group["name"])
        self.places = outcome.places
        self.placed: dict[str, dict[str, str]] = defaultdict(dict)  # leaf -> pod -> node, in the order of M4
        self.done: dict[str, int] = defaultdict(int)
        self.waiting: dict[str, list[str]] = defaultdict(list)
        for pod in index.members[key]:
            self._count(pod, outcome)

    def _count(self, pod: Raw, outcome: Outcome) -> None:
        """N5: terminating and failed pods count for nothing, finished ones for their leaf."""
        pod_key, leaf = name(pod), leaf_of(pod)
        if terminating(pod) or phase(pod) == "Failed" or pod_key in outcome.gone:
            return
        if phase(pod) == "Succeeded":
            self.done[leaf] += 1
        elif node := outcome.places.get(pod_key) or pod["spec"].get("nodeName"):
            self.placed[leaf][pod_key] = node
        elif not pod["spec"].get("schedulingGates"):
            self.waiting[leaf].append(pod_key)

    def inside(self, group: str) -> list[str]:
        """A group and all groups below it."""
        return [group, *(one for child in self.children.get(group, ()) for one in self.inside(child))]

    def above(self, group: str) -> list[str]:
        """The groups on the way up, the nearest first."""
        path = []
        while group:
            group = self.tree[group].get("parent") or ""
            path.append(group)
        return path

    def pods(self, group: str = "") -> dict[str, str]:
        """Placed pods at and below a group, with their nodes."""
        return {pod: node for leaf in self.inside(group) for pod, node in self.placed[leaf].items()}

    def need(self, group: str) -> int:
        below = self.children.get(group, [])
        own: int | None = self.tree[group].get("minSubGroup" if below else "minMember")
        return own or (len(below) if below else 1)

    def met(self, group: str = "") -> bool:
        """M1, M2, M5."""
        below = self.children.get(group, [])
        if not below:
            return len(self.placed[group]) + self.done[group] >= self.need(group)
        in_all = sum(len(self.placed[leaf]) + self.done[leaf] for leaf in self.inside(group))
        return sum(map(self.met, below)) >= self.need(group) and in_all >= (self.tree[group].get("minMember") or 0)

    def new(self, group: str = "") -> set[str]:
        """Pods at and below a group that were not there before."""
        return {pod for pod in self.pods(group) if pod in self.places}

    @property
    def totals(self) -> bool:
        """M5: a branch counts pods; which pods are core then is not decided here."""
        return any(self.children.get(group) and raw.get("minMember") for group, raw in self.tree.items())

    def units(self) -> list[Unit]:
        """P2, 0008: the core first; every placed pod is in exactly one."""
        own: list[tuple[Literal["core", "group", "spare"], str, set[str], int | None]] = [("core", "", set(), None)]
        ahead = [("", 0)]
        for group, unit in ahead:
            if not self.children.get(group):
                pods = list(self.placed[group])
                stay = max(self.need(group) - self.done[group], 0)
                own[unit][2].update(pods[:stay])
                own += [("spare", group, {pod}, unit) for pod in pods[stay:]]
                continue
            good = [child for child in self.children[group] if self.met(child)]
            for child in self.children[group]:
                if child in good[: self.need(group)]:
                    ahead.append((child, unit))
                elif child in good:
                    own.append(("group", child, set(), unit))
                    ahead.append((child, len(own) - 1))
                elif self.pods(child):
                    own.append(("group", child, set(self.pods(child)), unit))
        return [Unit(kind, group, frozenset(pods), around) for kind, group, pods, around in own]

    def protected(self) -> set[str]:
        """The pods that are never evicted (P3, E2)."""
        if self.kind == "preemptible":
            return set()
        return set(self.pods()) if self.kind == "non-preemptible" else set(self.units()[0].own)

    def eviction_order(self) -> list[int]:
        """P4: units by index, first to leave first: spare pods, the fullest leaf first; further SubGroups; the core."""
        units, order = self.units(), list(self.tree)
        left = {leaf: len(self.placed[leaf]) + self.done[leaf] for leaf in order if not self.children.get(leaf)}
        spare = {leaf: [i for i, one in enumerate(units) if (one.kind, one.group) == ("spare", leaf)] for leaf in left}
        order_of_units = []
        while any(spare.values()):
            fullest = max(
                (leaf for leaf in spare if spare[leaf]),
                key=lambda leaf: (Fraction(left[leaf], self.need(leaf)), order.index(leaf)),
            )
            order_of_units.append(spare[fullest].pop())
            left[fullest] -= 1
        groups = [i for i, one in enumerate(units) if one.kind == "group"]
        order_of_units += sorted(groups, key=lambda i: self._arrival(units, i, order), reverse=True)
        return [*order_of_units, 0]

    def _arrival(self, units: list[Unit], i: int, order: list[str]) -> tuple[int, int]:
        """Spec order, but one inside another leaves before it."""
        around = units[i].around
        outer = self._arrival(units, around, order) if around else (-1, 0)
        return max(outer[0], order.index(units[i].group)), outer[1] + 1


def closure(units: list[Unit], i: int) -> frozenset[str]:
    """A unit with everything inside it."""
    inner = (closure(units, j) for j, one in enumerate(units) if one.around == i)
    return units[i].own.union(*inner)


def _priority(index: ObjectIndex, named: str) -> int:
    """P1."""
    if named in index.classes:
        return int(index.classes[named]["value"])
    return min((int(raw["value"]) for raw in index.classes.values() if raw.get("globalDefault")), default=50)


def apart(index: ObjectIndex, checked: CheckedGang, group: str) -> list[str]:
    """T1: every pod of the group in one domain of its required level; where that is not known, none is added (0010)."""
    level = (checked.tree[group].get("topologyConstraint") or {}).get("requiredTopologyLevel")
    if not level:
        return []
    named = next((stated for one in (group, *checked.above(group)) if (stated := _topology(checked.tree[one]))), "")
    topology = index.topologies[named] if named else next(iter(index.topologies.values()))
    keys = [one["nodeLabel"] for one in topology["spec"]["levels"]]
    at = next(i for i, label in enumerate(keys) if level in (label, label.rsplit("/", 1)[-1]))
    if lost := sorted(set(checked.pods(group).values()) - index.nodes.keys()):
        return [f"{checked.key}: pods of `{group}` are on {lost}, which are not known to be in any {level}"]
    nodes = [index.nodes[node] for node in checked.pods(group).values()]
    domains = {tuple(labels(node).get(label) for label in keys[: at + 1]) for node in nodes}
    if len(domains) > 1 or any(None in domain for domain in domains):
        return [f"{checked.key}: pods of `{group}` are in {sorted(map(str, domains))}, not in one {level}"]
    return []


def _topology(group: Raw) -> str:
    """T4: the topology that a group names itself."""
    return str((group.get("topologyConstraint") or {}).get("topology") or "")


def overfull(index: ObjectIndex, outcome: Outcome) -> list[str]:
    """I2: no node that takes a pod is over its allocatable, other schedulers' pods included."""
    used: dict[str, dict[str, Fraction]] = {node: defaultdict(Fraction) for node in set(outcome.places.values())}
    for key, pod in index.pods.items():
        node = outcome.places.get(key) or pod["spec"].get("nodeName")
        if node in used and phase(pod) not in ("Succeeded", "Failed") and key not in outcome.gone:
            for resource, amount in asks(pod).items():
                used[node][resource] += amount
    findings = []
    for node in sorted(used):
        allocatable = {"pods": 10**9} | index.nodes[node]["status"]["allocatable"]
        for resource, amount in used[node].items():
            if amount > quantity(allocatable.get(resource, 0)):
                findings.append(f"{node} has {allocatable.get(resource, 0)} {resource}, but {amount} are asked of it")
    return findings

"""Random small puzzles with rules between pods, an oracle that decides them by CP-SAT, and their manifests.

Rule 1: written from docs/decisions/0007; shares no code with the engine.
Rule 2: the core comes alone: exactly `need` pods of each of exactly `need` leaves; with spread, more could matter.

Long because: an oracle, its random puzzles and their manifests share one vocabulary.
"""

import random
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

from ortools.sat.python import cp_model

from tests.support import factories
from tests.support.factories import Raw

ZONE, RACK, HOST = KEYS = ("topology/zone", "topology/rack", "kubernetes.io/hostname")
TEAM, OTHER = "team", "other"


class Host(NamedTuple):
    name: str
    labels: dict[str, str]
    gpus: int
    tainted: bool = False


class Term(NamedTuple):
    """Affinity or anti-affinity: pods of these apps in one value of the key."""

    key: str
    apps: tuple[str, ...]
    anywhere: bool = False  # in all namespaces; else in the carrier's
    same_rev: bool = False  # matchLabelKeys


class Spread(NamedTuple):
    key: str
    apps: tuple[str, ...]
    skew: int = 1
    places: int = 0  # minDomains; 0: unset
    same_rev: bool = False
    every_node: bool = False  # nodeAffinityPolicy: Ignore
    untainted: bool = False  # nodeTaintsPolicy: Honor


class Pod(NamedTuple):
    name: str
    app: str
    rev: str = ""
    asks: int = 0
    disk: str = ""  # only hosts with this label; empty: any
    tolerates: bool = False
    apart: tuple[Term, ...] = ()
    beside: tuple[Term, ...] = ()
    spread: tuple[Spread, ...] = ()
    namespace: str = TEAM
    on: str = ""  # outside pods: their host
    terminating: bool = False


class Leaf(NamedTuple):
    name: str
    need: int
    level: int | None
    pods: tuple[Pod, ...]


class Puzzle(NamedTuple):
    hosts: tuple[Host, ...]
    outside: tuple[Pod, ...]
    leaves: tuple[Leaf, ...]  # one named "": the root itself
    need: int  # leaves
    level: int | None

    @property
    def pods(self) -> tuple[Pod, ...]:
        return tuple(pod for leaf in self.leaves for pod in leaf.pods)


# What the rules say about two pods, or about a pod and a host.


def place(host: Host, key: str) -> str | None:
    """The host's value of a key; for its hostname it needs no label."""
    return host.labels.get(key) or (host.name if key == HOST else None)


def selects(carrier: Pod, rule: Term | Spread, other: Pod) -> bool:
    near = other.namespace == carrier.namespace or (isinstance(rule, Term) and rule.anywhere)
    kin = not rule.same_rev or not carrier.rev or other.rev == carrier.rev
    return near and kin and other.app in rule.apps


def series(carrier: Pod, term: Term) -> tuple[Term, str]:
    """What makes two pods carriers of the same term."""
    return term, carrier.rev if term.same_rev else ""


def takes(pod: Pod, host: Host) -> bool:
    return _wanted(pod, host) and (pod.tolerates or not host.tainted)


def counts(pod: Pod, rule: Spread, host: Host) -> bool:
    """Whether a host is one of those that the pod's spread is about."""
    return (rule.every_node or _wanted(pod, host)) and (not rule.untainted or pod.tolerates or not host.tainted)


def _wanted(pod: Pod, host: Host) -> bool:
    return not pod.disk or host.labels.get("disk") == pod.disk


def domain(host: Host, level: int) -> tuple[str, ...] | None:
    """The path of labels down to a level, or nothing where one is missing (T5)."""
    path = [host.labels.get(key) for key in KEYS[: level + 1]]
    return tuple(str(value) for value in path) if all(path) else None


# The oracle.


def feasible(puzzle: Puzzle) -> bool:
    """Whether every minimum can be met at once, by 0007."""
    seating = Seating(puzzle)
    for rule in (_minimums, _free, _levels, _apart, _beside, _spread):
        rule(seating)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    status = solver.solve(seating.model)
    assert status in (cp_model.OPTIMAL, cp_model.FEASIBLE, cp_model.INFEASIBLE), status
    return status != cp_model.INFEASIBLE


class Seating:
    """One yes or no per pod and host it may be on."""

    def __init__(self, puzzle: Puzzle) -> None:
        self.puzzle = puzzle
        self.model = cp_model.CpModel()
        self.on = {
            pod.name: {host.name: self.model.new_bool_var("") for host in puzzle.hosts if takes(pod, host)}
            for pod in puzzle.pods
        }
        self.hosts = {host.name: host for host in puzzle.hosts}

    def within(self, pod: Pod, hosts: list[Host]) -> Any:
        """1 if the pod is on one of these hosts, else 0."""
        on = self.on[pod.name]
        return sum(on[host.name] for host in hosts if host.name in on)

    def places(self, key: str) -> dict[str, list[Host]]:
        hosts_of: dict[str, list[Host]] = defaultdict(list)
        for host in self.puzzle.hosts:
            if (value := place(host, key)) is not None:
                hosts_of[value].append(host)
        return hosts_of

    def nowhere(self, key: str) -> list[Host]:
        return [host for host in self.puzzle.hosts if place(host, key) is None]

    def outside(self, carrier: Pod, term: Term) -> list[Pod]:
        return [pod for pod in self.puzzle.outside if selects(carrier, term, pod)]


def _minimums(seating: Seating) -> None:
    met = {leaf.name: seating.model.new_bool_var("") for leaf in seating.puzzle.leaves}
    seating.model.add(sum(met.values()) == seating.puzzle.need)
    for leaf in seating.puzzle.leaves:
        for pod in leaf.pods:
            seating.model.add(seating.within(pod, [*seating.puzzle.hosts]) <= 1)
        placed = sum(seating.within(pod, [*seating.puzzle.hosts]) for pod in leaf.pods)
        seating.model.add(placed == leaf.need * met[leaf.name])


def _free(seating: Seating) -> None:
    for host in seating.puzzle.hosts:
        seating.model.add(sum(pod.asks * seating.within(pod, [host]) for pod in seating.puzzle.pods) <= host.gpus)


def _levels(seating: Seating) -> None:
    groups = [(leaf.level, leaf.pods) for leaf in seating.puzzle.leaves] + [(seating.puzzle.level, seating.puzzle.pods)]
    for level, pods in groups:
        if level is None:
            continue
        domains: dict[tuple[str, ...] | None, list[Host]] = defaultdict(list)
        for host in seating.puzzle.hosts:
            domains[domain(host, level)].append(host)
        chosen = {at: seating.model.new_bool_var("") if at is not None else 0 for at in domains}
        seating.model.add(sum(chosen.values()) <= 1)
        for pod in pods:
            for at, hosts in domains.items():
                seating.model.add(seating.within(pod, hosts) <= chosen[at])


def _apart(seating: Seating) -> None:
    """No new pod in one place with a pod its term selects, nor with one whose term selects it."""
    for pod, term in _carried(seating.puzzle, "apart"):
        taken = {place(seating.hosts[other.on], term.key) for other in seating.outside(pod, term)}
        for value, hosts in seating.places(term.key).items():
            if value in taken:
                seating.model.add(seating.within(pod, hosts) == 0)
            for other in seating.puzzle.pods:
                if other is not pod and selects(pod, term, other):
                    seating.model.add(seating.within(pod, hosts) + seating.within(other, hosts) <= 1)
    for other in seating.puzzle.outside:
        for term in other.apart:
            hosts = seating.places(term.key).get(place(seating.hosts[other.on], term.key) or "", [])
            for pod in seating.puzzle.pods:
                if selects(other, term, pod):
                    seating.model.add(seating.within(pod, hosts) == 0)


def _beside(seating: Seating) -> None:
    """Each carrier has a selected pod in its place that is there for another reason, or its series starts there."""
    started: dict[tuple[tuple[Term, str], str], cp_model.IntVar] = {}
    for pod, term in _carried(seating.puzzle, "beside"):
        seating.model.add(seating.within(pod, seating.nowhere(term.key)) == 0)
        selected = [other for other in seating.puzzle.pods if selects(pod, term, other)]
        kin = [other for other in selected if series(pod, term) in {series(other, one) for one in other.beside}]
        outside = seating.outside(pod, term)
        held = {place(seating.hosts[other.on], term.key) for other in outside}
        for value, hosts in seating.places(term.key).items():
            if value in held:
                continue
            support = sum(seating.within(other, hosts) for other in selected if other not in kin)
            if not held - {None}:
                start = started.setdefault((series(pod, term), value), seating.model.new_bool_var(""))
                seating.model.add(start <= sum(seating.within(other, hosts) for other in kin))
                support += start
            seating.model.add(seating.within(pod, hosts) <= support)
    for one in {key for key, _ in started}:
        seating.model.add(sum(variable for (key, _), variable in started.items() if key == one) <= 1)


def _spread(seating: Seating) -> None:
    """In every place of a carrier, at most `skew` more selected pods than in the place that counts with the fewest."""
    for pod, rule in _carried(seating.puzzle, "spread"):
        seating.model.add(seating.within(pod, seating.nowhere(rule.key)) == 0)
        places = {
            value: counted
            for value, hosts in seating.places(rule.key).items()
            if (counted := [host for host in hosts if counts(pod, rule, host)])
        }
        number = {value: _number(seating, pod, rule, hosts) for value, hosts in places.items()}
        floors = [0] if len(places) < rule.places else [*number.values()]
        for value, hosts in seating.places(rule.key).items():
            here = seating.within(pod, hosts)
            if isinstance(here, int):  # no host of this place takes the pod
                continue
            for floor in floors:
                slack = len(seating.puzzle.pods) + len(seating.puzzle.outside)
                seating.model.add(number[value] <= floor + rule.skew + slack * (1 - here))


def _number(seating: Seating, carrier: Pod, rule: Spread, hosts: list[Host]) -> Any:
    """Selected pods on these hosts, old and new."""
    names = {host.name for host in hosts}
    old = sum(pod.on in names and not pod.terminating and selects(carrier, rule, pod) for pod in seating.puzzle.outside)
    return old + sum(seating.within(pod, hosts) for pod in seating.puzzle.pods if selects(carrier, rule, pod))


def _carried(puzzle: Puzzle, kind: str) -> Iterator[tuple[Pod, Any]]:
    for pod in puzzle.pods:
        for rule in getattr(pod, kind):
            yield pod, rule


# Puzzles.


def puzzle(seed: int, hosts: int = 8, pods: int = 12) -> Puzzle:
    """Small enough to decide, tight enough that a rule too many or too few shows."""
    rng = random.Random(seed)
    made = _hosts(rng, rng.randint(max(2, hosts // 2), hosts))
    leaves = _leaves(rng, pods)
    outside = tuple(_outside(rng, i, made) for i in range(rng.choice((0, 1, 2, 3, 4))))
    need = len(leaves) if rng.random() < 0.8 else rng.randint(1, len(leaves))
    return Puzzle(made, outside, leaves, need, rng.choice((None,) * 7 + (0,)) if leaves[0].name else None)


def _hosts(rng: random.Random, number: int) -> tuple[Host, ...]:
    zones, racks = rng.randint(2, 3), rng.randint(1, 3)
    same_names = rng.random() < 0.3  # rack `r0` in two zones: one place, two domains
    hostnames = rng.random() < 0.6
    most = rng.choice((2, 2, 3, 4))
    slow, tainted = rng.choice(("", "z0", "z1")), rng.choice(("", "", "z1"))  # a zone without disks, one all tainted
    hosts = []
    for i in range(number):
        zone, rack = f"z{rng.randrange(zones)}", f"r{rng.randrange(racks)}"
        labels = {ZONE: zone, RACK: rack if same_names else f"{zone}-{rack}"}
        labels |= {HOST: f"n{i}"} if hostnames else {}
        labels |= {"disk": "ssd"} if zone != slow and rng.random() < 0.7 else {}
        if rng.random() < 0.1:
            labels.pop(rng.choice(KEYS), None)
        hosts.append(Host(f"n{i}", labels, rng.randint(1, most), zone == tainted or rng.random() < 0.1))
    return tuple(hosts)


def _leaves(rng: random.Random, most: int) -> tuple[Leaf, ...]:
    number = min(rng.choice((1, 2, 2, 3)), most)
    sizes = [rng.randint(1, min(4, most // number)) for _ in range(number)]
    apps = "abc"[:number]
    leaves = []
    for app, size in zip(apps, sizes, strict=True):
        model = Pod(
            "",
            app,
            rev=rng.choice(("", "1", "2")),
            asks=rng.choice((1, 1, 1, 1, 2)),
            disk=rng.choice(("", "", "ssd")),
            tolerates=rng.random() < 0.6,
        )
        model = _ruled(rng, model, apps)
        pods = tuple(_varied(rng, model, apps)._replace(name=f"{app}-{i}") for i in range(size))
        level = rng.choice((None,) * 12 + (0, 1, 2))
        need = size if rng.random() < 0.7 else rng.randint(1, size)
        leaves.append(Leaf(app if number > 1 else "", need, level, pods))
    return tuple(leaves)


def _varied(rng: random.Random, model: Pod, apps: str) -> Pod:
    """Most pods of a leaf are alike."""
    if rng.random() < 0.92:
        return model
    change: Raw = rng.choice(
        ({"rev": "1"}, {"rev": "2"}, {"app": rng.choice(apps)}, {"apart": ()}, {"beside": ()}, {"spread": ()})
    )
    return model._replace(**change)


def _ruled(rng: random.Random, pod: Pod, apps: str) -> Pod:
    for _ in range(rng.choice((0, 1, 1, 2))):
        match rng.choice(("apart", "beside", "spread", "spread")):
            case "apart":
                pod = pod._replace(apart=(*pod.apart, _term(rng, pod, apps)))
            case "beside":
                pod = pod._replace(beside=(*pod.beside, _term(rng, pod, apps)))
            case _:
                pod = pod._replace(spread=(*pod.spread, _even(rng, pod, apps)))
    return pod


def _targets(rng: random.Random, pod: Pod, apps: str) -> tuple[str, ...]:
    return rng.choice(
        ((pod.app,), (pod.app,), (pod.app,), (rng.choice(apps),), ("x",), (pod.app, "x"), tuple(sorted(apps)))
    )


def _term(rng: random.Random, pod: Pod, apps: str) -> Term:
    return Term(rng.choice(KEYS), _targets(rng, pod, apps), rng.random() < 0.3, rng.random() < 0.25)


def _even(rng: random.Random, pod: Pod, apps: str) -> Spread:
    return Spread(
        rng.choice(KEYS),
        _targets(rng, pod, apps),
        rng.choice((1, 1, 2)),
        rng.choice((0, 0, 0, 2, 3, 4)),
        rng.random() < 0.25,
        rng.random() < 0.35,
        rng.random() < 0.5,
    )


def _outside(rng: random.Random, number: int, hosts: tuple[Host, ...]) -> Pod:
    pod = Pod(
        f"out-{number}",
        rng.choice("xxxaab"),
        rev=rng.choice(("", "1", "2")),
        namespace=rng.choice((TEAM, TEAM, OTHER)),
        on=rng.choice(hosts).name,
        terminating=rng.random() < 0.15,
    )
    if rng.random() < 0.3:
        pod = pod._replace(apart=(Term(rng.choice(KEYS), (rng.choice("ab"),), rng.random() < 0.4),))
    return pod


# Manifests.


def manifests(puzzle: Puzzle) -> list[Raw]:
    """The same puzzle as Kubernetes objects."""
    levels = [{"nodeLabel": key} for key in KEYS]
    return [
        {
            "apiVersion": "kai.scheduler/v1alpha1",
            "kind": "Topology",
            "metadata": {"name": "t"},
            "spec": {"levels": levels},
        },
        *(_host_node(host) for host in puzzle.hosts),
        *(_pod_manifest(pod, None) for pod in puzzle.outside),
        _pod_group(puzzle),
        *(_pod_manifest(pod, leaf.name) for leaf in puzzle.leaves for pod in leaf.pods),
    ]


def _host_node(host: Host) -> Raw:
    raw = factories.node(host.name, allocatable={"nvidia.com/gpu": str(host.gpus)}, labels=host.labels)
    return raw | {"spec": {"taints": [{"key": "kept", "effect": "NoSchedule"}] if host.tainted else []}}


def _pod_group(puzzle: Puzzle) -> Raw:
    groups = [{"name": leaf.name, "minMember": leaf.need, **_level(leaf.level)} for leaf in puzzle.leaves]
    spec: Raw = {"minSubGroup": puzzle.need, "subGroups": groups, **_level(puzzle.level)}
    if not puzzle.leaves[0].name:
        spec = groups[0]
        del spec["name"]
    return {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "gang", "namespace": TEAM},
        "spec": spec,
    }


def _level(level: int | None) -> Raw:
    return {} if level is None else {"topologyConstraint": {"requiredTopologyLevel": KEYS[level]}}


def _pod_manifest(pod: Pod, leaf: str | None) -> Raw:
    """One pod; without a leaf it runs outside the gang."""
    is_member = leaf is not None
    requests: Raw = {"nvidia.com/gpu": str(pod.asks)}
    raw = factories.pod(
        pod.name,
        leaf or "",
        gang="gang" if is_member else "",
        namespace=pod.namespace,
        on=pod.on,
        terminating=pod.terminating,
        scheduler="muster" if is_member else "default-scheduler",
        labels={"app": pod.app} | ({"rev": pod.rev} if pod.rev else {}),
        **requests,
    )
    raw["spec"] |= {
        "affinity": {"podAffinity": _terms(pod.beside), "podAntiAffinity": _terms(pod.apart)},
        "topologySpreadConstraints": [_constraint(rule) for rule in pod.spread],
    }
    raw["spec"] |= {"nodeSelector": {"disk": pod.disk}} if pod.disk else {}
    raw["spec"] |= {"tolerations": [{"key": "kept", "operator": "Exists"}]} if pod.tolerates else {}
    return raw


def _terms(terms: tuple[Term, ...]) -> Raw:
    rendered = [_selector(term) | ({"namespaceSelector": {}} if term.anywhere else {}) for term in terms]
    return {"requiredDuringSchedulingIgnoredDuringExecution": rendered} if rendered else {}


def _selector(rule: Term | Spread) -> Raw:
    chosen: Raw = {"matchExpressions": [{"key": "app", "operator": "In", "values": [*rule.apps]}]}
    if len(rule.apps) == 1:
        chosen = {"matchLabels": {"app": rule.apps[0]}}
    return {"topologyKey": rule.key, "labelSelector": chosen} | ({"matchLabelKeys": ["rev"]} if rule.same_rev else {})


def _constraint(rule: Spread) -> Raw:
    rendered = _selector(rule) | {"maxSkew": rule.skew, "whenUnsatisfiable": "DoNotSchedule"}
    rendered |= {"minDomains": rule.places} if rule.places else {}
    rendered |= {"nodeAffinityPolicy": "Ignore"} if rule.every_node else {}
    return rendered | ({"nodeTaintsPolicy": "Honor"} if rule.untainted else {})

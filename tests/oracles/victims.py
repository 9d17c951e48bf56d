"""Which pods have to be evicted, decided by CP-SAT from a plain description (0008); and random puzzles near the edge.

Nothing of the engine is used, and of the judge only how queues divide what there is.

Long because: an oracle, its random puzzles and their manifests share one vocabulary.
"""

import random
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Literal, NamedTuple

from ortools.sat.python import cp_model

from tests.oracles.fair_shares import GPU, Queues
from tests.support.factories import Raw, node, pod

Expr = Any  # the stubs of ortools know too many kinds of numbers
Kind = Literal["preemptible", "semi-preemptible", "non-preemptible"]
Action = Literal["nobody", "consolidate", "reclaim", "preempt"]
NOW = "2026-01-02T00:00:00+00:00"
MOST_MOVED = 16
FRESH, LONG_AGO = "2026-01-01T23:59:50Z", "2026-01-01T00:00:00Z"
KINDS: tuple[Kind, ...] = ("preemptible", "preemptible", "preemptible", "semi-preemptible", "non-preemptible")


class Host(NamedTuple):
    name: str
    rack: str
    gpus: int


class Lot(NamedTuple):
    """A leaf of a running gang."""

    name: str
    need: int
    asks: int
    hosts: tuple[str, ...]  # of its pods, in the order of M4


class Running(NamedTuple):
    name: str
    queue: str
    priority: int
    kind: Kind
    lots: tuple[Lot, ...]  # one without a name: the gang is a leaf itself
    need: int = 1  # lots
    together: bool = False  # in one rack
    fresh: bool = False  # started just now: its core is no victim
    budgeted: bool = False


class Leaf(NamedTuple):
    name: str
    need: int
    asks: int
    pods: int
    together: bool = False


class Waiting(NamedTuple):
    queue: str
    priority: int
    kind: Kind
    leaves: tuple[Leaf, ...]
    need: int = 1
    together: bool = False


class Queue(NamedTuple):
    name: str
    parent: str = ""
    quota: int = 0
    limit: int = -1
    weight: int = 1


class Puzzle(NamedTuple):
    hosts: tuple[Host, ...]
    queues: tuple[Queue, ...]
    running: tuple[Running, ...]  # older ones first
    waiting: Waiting
    budget: int | None = None  # disruptions that pods of budgeted gangs can take
    cpu: bool = False  # every pod asks for one cpu, of which there is plenty


class Unit(NamedTuple):
    """What leaves together, without what is inside it."""

    gang: int
    core: bool
    own: tuple[tuple[int, str], ...]  # lot and host of each pod
    around: int | None


def units(puzzle: Puzzle) -> list[Unit]:
    """All of 0008's units, the protected ones too; a unit comes after the one around it."""
    made: list[Unit] = []
    for g, gang in enumerate(puzzle.running):
        core, taken, first = len(made), 0, []
        further: list[tuple[int, Lot]] = []
        spares: list[tuple[int, int, str]] = []
        for i, lot in enumerate(gang.lots):
            good = len(lot.hosts) >= lot.need
            taken += good
            if (good and taken <= gang.need) or not lot.name:
                first += [(i, host) for host in lot.hosts[: lot.need]]
                spares += [(core, i, host) for host in lot.hosts[lot.need :]]
            elif lot.hosts:
                further.append((i, lot))
        made.append(Unit(g, True, tuple(first), None))
        for i, lot in further:
            spares += [(len(made), i, host) for host in lot.hosts[lot.need :]]
            made.append(Unit(g, False, tuple((i, host) for host in lot.hosts[: lot.need]), core))
        made += [Unit(g, False, ((i, host),), around) for around, i, host in spares]
    return made


# the oracle ---------------------------------------------------------------------------------------------------------


def fewest(puzzle: Puzzle, action: Action) -> int | None:
    """The smallest number of pods that leave so that the gang that waits has its core; None: no set is enough."""
    return Model(puzzle, action).solve()


class Model:
    """One question as a program of whole numbers."""

    def __init__(self, puzzle: Puzzle, action: Action) -> None:
        self.puzzle, self.action, self.model = puzzle, action, cp_model.CpModel()
        self.units = units(puzzle)
        self.chosen = [self.model.new_bool_var("") for _ in self.units]
        self.seats = {
            (i, host.name): self.model.new_int_var(0, leaf.pods, "")
            for i, leaf in enumerate(puzzle.waiting.leaves)
            for host in puzzle.hosts
        }
        self.moves: dict[tuple[int, int, str], cp_model.IntVar] = {}  # gang, lot, host
        self.queues = Queues(queue_manifests(puzzle))
        self._leave()
        self._place()
        if action == "consolidate":
            self._move()
        self._fit()
        self._stay_within()
        if action == "reclaim":
            self._reclaim()

    def solve(self) -> int | None:
        self.model.minimize(sum(one * len(unit.own) for one, unit in zip(self.chosen, self.units, strict=True)))
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        status = solver.solve(self.model)
        assert status in (cp_model.OPTIMAL, cp_model.INFEASIBLE), status
        return None if status == cp_model.INFEASIBLE else round(solver.objective_value)

    # who may leave

    def _leave(self) -> None:
        for i, unit in enumerate(self.units):
            if not self._may_leave(unit):
                self.model.add(self.chosen[i] == 0)
            if unit.around is not None:
                self.model.add_implication(self.chosen[unit.around], self.chosen[i])
        if self.action == "consolidate":
            self._move_little()
        if self.puzzle.budget is not None:
            named = [i for i, unit in enumerate(self.units) if self.puzzle.running[unit.gang].budgeted]
            self.model.add(sum(self.chosen[i] * len(self.units[i].own) for i in named) <= self.puzzle.budget)

    def _move_little(self) -> None:
        """P8: few pods, and no more resources than the gang asks for; of cpu only where it asks for some."""
        pods = sum(one * len(unit.own) for one, unit in zip(self.chosen, self.units, strict=True))
        self.model.add(pods <= MOST_MOVED)
        for resource in self.resources:
            moved = sum(one * self.size(unit, resource) for one, unit in zip(self.chosen, self.units, strict=True))
            self.model.add(moved <= self.gain(resource))

    def _may_leave(self, unit: Unit) -> bool:
        gang, waiting = self.puzzle.running[unit.gang], self.puzzle.waiting
        if gang.kind == "non-preemptible" or (unit.core and (gang.fresh or gang.kind == "semi-preemptible")):
            return False
        match self.action:
            case "preempt":
                return gang.queue == waiting.queue and gang.priority < waiting.priority
            case "reclaim":
                return gang.queue != waiting.queue
            case "consolidate":  # who comes back whole: not what was short before
                good = [len(lot.hosts) >= lot.need for lot in gang.lots]
                return sum(good) >= gang.need and all(good[i] for i, _ in unit.own)
            case _:
                return False

    # where every pod goes

    def _place(self) -> None:
        """Exactly the core: as many leaves as are needed, each with its minimum."""
        waiting, met = self.puzzle.waiting, []
        for i, leaf in enumerate(waiting.leaves):
            met.append(self.model.new_bool_var(""))
            seats = [seat for (j, _), seat in self.seats.items() if j == i]
            self.model.add(sum(seats) == leaf.need * met[-1])
            if leaf.pods < leaf.need:
                self.model.add(met[-1] == 0)
            if leaf.together:
                self._in_one_rack({key: seat for key, seat in self.seats.items() if key[0] == i})
        self.model.add(sum(met) == waiting.need)
        if waiting.together:
            self._in_one_rack(self.seats)

    def _in_one_rack(self, seats: dict[tuple[int, str], cp_model.IntVar]) -> dict[str, cp_model.IntVar]:
        racks = {host.name: host.rack for host in self.puzzle.hosts}
        here = {rack: self.model.new_bool_var("") for rack in sorted(set(racks.values()))}
        self.model.add_exactly_one(here.values())
        for (_, host), seat in seats.items():
            self.model.add(seat == 0).only_enforce_if(~here[racks[host]])
        return here

    def _move(self) -> None:
        """Every pod that leaves is somewhere again, its gang in one rack if it has to be."""
        racks = {host.name: host.rack for host in self.puzzle.hosts}
        for g, gang in enumerate(self.puzzle.running):
            mine: dict[tuple[int, str], cp_model.IntVar] = {}
            for i in range(len(gang.lots)):
                leave = [
                    self.chosen[u] for u, unit in enumerate(self.units) if unit.gang == g for j, _ in unit.own if j == i
                ]
                for host in self.puzzle.hosts:
                    mine[i, host.name] = self.moves[g, i, host.name] = self.model.new_int_var(0, len(leave), "")
                self.model.add(sum(mine[i, host.name] for host in self.puzzle.hosts) == sum(leave))
            if gang.together:
                here = self._in_one_rack(mine)
                for u, unit in enumerate(self.units):
                    for _, at in unit.own if unit.gang == g else ():
                        self.model.add_bool_or(self.chosen[u], here[racks[at]])

    def _fit(self) -> None:
        asks = {(g, i): lot.asks for g, gang in enumerate(self.puzzle.running) for i, lot in enumerate(gang.lots)}
        for host in self.puzzle.hosts:
            new = [seat * self.puzzle.waiting.leaves[i].asks for (i, at), seat in self.seats.items() if at == host.name]
            new += [move * asks[g, i] for (g, i, at), move in self.moves.items() if at == host.name]
            stay = [
                (1 - self.chosen[u]) * asks[unit.gang, i]
                for u, unit in enumerate(self.units)
                for i, at in unit.own
                if at == host.name
            ]
            self.model.add(sum(new) + sum(stay) <= host.gpus)

    # queues

    @property
    def resources(self) -> tuple[str, ...]:
        return (GPU, "cpu") if self.puzzle.cpu else (GPU,)

    def size(self, unit: Unit, resource: str) -> int:
        lots = self.puzzle.running[unit.gang].lots
        return sum(lots[i].asks if resource == GPU else 1000 for i, _ in unit.own)

    def path(self, gang: int) -> list[str]:
        return self.queues.path(self.puzzle.running[gang].queue)

    @cached_property
    def ours(self) -> list[str]:
        return self.queues.path(self.puzzle.waiting.queue)

    @cached_property
    def held(self) -> dict[str, dict[str, int]]:
        return self.queues.summed(self._by_leaf(waiting=False))

    @cached_property
    def shares(self) -> dict[str, dict[str, int]]:
        pool = {GPU: sum(host.gpus for host in self.puzzle.hosts), "cpu": 1000 * 100 * len(self.puzzle.hosts)}
        return self.queues.shares(self._by_leaf(waiting=True), pool)

    def _by_leaf(self, waiting: bool, protected: bool = False) -> dict[str, dict[str, int]]:
        totals: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        for unit in self.units:
            gang = self.puzzle.running[unit.gang]
            counts = gang.kind == "non-preemptible" or (gang.kind == "semi-preemptible" and unit.core)
            for resource in self.resources if counts or not protected else ():
                totals[gang.queue][resource] += self.size(unit, resource)
        for leaf in self.puzzle.waiting.leaves if waiting else ():
            totals[self.puzzle.waiting.queue][GPU] += leaf.pods * leaf.asks
            totals[self.puzzle.waiting.queue]["cpu"] += leaf.pods * 1000 * self.puzzle.cpu
        return totals

    def gain(self, resource: str) -> Expr:
        leaves = self.puzzle.waiting.leaves
        return sum(seat * (leaves[i].asks if resource == GPU else 1000) for (i, _), seat in self.seats.items())

    def lost(self, queue: str, resource: str) -> Expr:
        inside = [u for u, unit in enumerate(self.units) if queue in self.path(unit.gang)]
        return sum(self.chosen[u] * self.size(self.units[u], resource) for u in inside)

    def after(self, queue: str, resource: str) -> Expr:
        gain = self.gain(resource) if queue in self.ours else 0
        return self.held[queue][resource] + gain - self.lost(queue, resource)

    def _stay_within(self) -> None:
        """Q4 on the way up: limits, and the quota for what is never evicted."""
        protected = self.queues.summed(self._by_leaf(waiting=False, protected=True))
        for queue in self.ours:
            for resource in self.resources:
                says = self.queues.says(queue, resource)
                back = self.lost(queue, resource) if self.action == "consolidate" else 0
                if says.limit is not None:
                    self.model.add(self.after(queue, resource) + back <= says.limit)
                if says.quota is not None and self.puzzle.waiting.kind != "preemptible":
                    self.model.add(protected[queue][resource] + self.gain(resource) <= says.quota)

    def _reclaim(self) -> None:
        above = {queue: self._above_share(queue) for queue in self.queues.raws}
        for u, unit in enumerate(self.units):
            theirs = [queue for queue in self.path(unit.gang) if queue not in self.ours]
            ours = [queue for queue in self.ours if queue not in self.path(unit.gang)]
            leaves = self.chosen[u]
            if not theirs or not ours:
                continue
            for queue in theirs:
                self.model.add_bool_or(above[queue]).only_enforce_if(leaves)
            for resource in self.resources:
                for queue in ours:  # entitled
                    within = self.after(queue, resource) <= self.shares[queue][resource]
                    self.model.add(within).only_enforce_if(leaves)
                self._spare_quotas(leaves, theirs, ours[-1], resource)

    def _above_share(self, queue: str) -> list[cp_model.IntVar]:
        """For each resource: with all but the largest unit gone, it still holds more than its share and its quota."""
        conditions = []
        inside = [u for u, unit in enumerate(self.units) if queue in self.path(unit.gang)]
        for resource in self.resources:
            largest = []
            for u in inside:
                picked, around = self.model.new_bool_var(""), self.units[u].around
                self.model.add_implication(picked, self.chosen[u])
                if around is not None:  # part of a larger one
                    self.model.add_bool_or(~picked, ~self.chosen[around])
                largest.append((picked, self.size(self.units[u], resource)))  # what is inside has left before
            self.model.add_at_most_one(picked for picked, _ in largest)
            conditions.append(self.model.new_bool_var(""))
            remaining = (
                self.held[queue][resource] - self.lost(queue, resource) + sum(one * size for one, size in largest)
            )
            quota = self.queues.says(queue, resource).quota
            if quota is None:  # unlimited: it never holds more
                self.model.add(conditions[-1] == 0)
            else:
                most = max(self.shares[queue][resource], quota)
                self.model.add(remaining >= most + 1).only_enforce_if(conditions[-1])
        return conditions

    def _spare_quotas(self, leaves: cp_model.IntVar, theirs: list[str], ours: str, resource: str) -> None:
        """A queue above its own quota takes no queue below its quota."""
        own = self.queues.says(ours, resource).quota
        if own is None:
            return
        over = self.model.new_bool_var("")
        self.model.add(self.after(ours, resource) <= own).only_enforce_if(~over)
        for queue in theirs:
            quota, had = self.queues.says(queue, resource).quota, self.held[queue][resource]
            floor = had if quota is None else min(quota, had)
            self.model.add(self.after(queue, resource) >= floor).only_enforce_if(leaves, over)


# puzzles ------------------------------------------------------------------------------------------------------------


def puzzle(seed: int, hosts: int = 8, gangs: int = 8, largest: int = 8, keep: int | None = None) -> Puzzle:
    """A cluster that is nearly full, and a gang that asks for about as much as could be freed; `keep` stays free."""
    rng = random.Random(seed)
    racks = rng.randint(1, 3)
    rooms = tuple(
        Host(f"n{i}", f"r{rng.randrange(racks)}", rng.randint(1, largest)) for i in range(rng.randint(1, hosts))
    )
    queues = _queues(rng, sum(host.gpus for host in rooms))
    leaves = [queue.name for queue in queues if all(other.parent != queue.name for other in queues)]
    free = {host.name: host.gpus for host in rooms}
    keep, mine = rng.choice((0, 0, 1, 2, 4, 6)) if keep is None else keep, rng.choice(leaves)
    running: list[Running] = []
    for i in range(gangs):
        if sum(free.values()) > keep:
            others = [leaf for leaf in leaves if leaf != mine]  # they have more than the one that waits
            gang = _running(rng, f"old-{i}", rng.choice([mine, *others, *others]), rooms, free)
            running += [gang] if any(lot.hosts for lot in gang.lots) else []
    budget = rng.choice((None, None, None, 0, 1, 2, 4))
    waiting = _waiting(rng, mine, rooms)
    return Puzzle(rooms, queues, tuple(running), waiting, budget, rng.random() < 0.2)


def _queues(rng: random.Random, total: int) -> tuple[Queue, ...]:
    if rng.random() < 0.35:
        return (Queue("a", quota=rng.choice((-1, total, total // 2)), limit=rng.choice((-1, -1, -1, total // 2))),)
    names = ["a", "b", "c"][: rng.choice((2, 2, 3))]
    deep = rng.random() < 0.3
    parents = {name: rng.choice(("x", "x", "y", "")) if deep else "" for name in names}
    left, queues = total, []
    for name in names:
        quota = rng.randint(0, left)
        left -= quota
        limit = rng.choice((-1, -1, -1, rng.randint(quota, total)))
        queues.append(Queue(name, parents[name], quota, limit, rng.choice((1, 1, 2, 3, 0))))
    for parent in sorted(set(parents.values()) - {""}):
        inside = sum(queue.quota for queue in queues if queue.parent == parent)
        limit = rng.choice((-1, -1, rng.randint(inside, max(total, inside))))
        queues.append(Queue(parent, "", inside, limit, rng.choice((1, 1, 2))))
    return tuple(queues)


def _running(rng: random.Random, name: str, queue: str, hosts: tuple[Host, ...], free: dict[str, int]) -> Running:
    """A gang where there is room for it; what does not fit does not exist."""
    together = rng.random() < 0.2
    rack = rng.choice(hosts).rack
    reach = [host.name for host in hosts if not together or host.rack == rack]
    parts = rng.choice((1, 1, 2, 3))
    lots = []
    for i in range(parts):
        asks, places = rng.choice((1, 1, 1, 2, 3)), []
        for _ in range(rng.randint(1, 4)):
            if able := [host for host in reach if free[host] >= asks]:
                places.append(rng.choice(able))
                free[places[-1]] -= asks
        need = max(len(places) - rng.choice((0, 0, 1, 2)) + (rng.random() < 0.07), 1)
        lots.append(Lot(f"l{i}" if parts > 1 else "", need, asks, tuple(places)))
    good = sum(len(lot.hosts) >= lot.need for lot in lots)
    return Running(
        name,
        queue,
        rng.choice((10, 30, 50, 70)),
        rng.choice(KINDS),
        tuple(lots),
        need=max(good - rng.choice((0, 0, 1)), 1),
        together=together,
        fresh=rng.random() < 0.1,
        budgeted=rng.random() < 0.4,
    )


def _waiting(rng: random.Random, queue: str, hosts: tuple[Host, ...]) -> Waiting:
    largest = max(host.gpus for host in hosts)
    leaves = []
    for i in range(parts := rng.choice((1, 1, 2))):
        need = rng.randint(1, 3)
        asks = rng.choice([size for size in (1, 1, 2, 2, 3, 4) if size <= largest])
        leaves.append(
            Leaf(f"w{i}" if parts > 1 else "", need, asks, need + rng.choice((0, 0, 0, 1)), rng.random() < 0.2)
        )
    kind: Kind = rng.choice(("preemptible",) * 4 + ("semi-preemptible", "non-preemptible"))
    return Waiting(queue, rng.choice((40, 60, 60, 90)), kind, tuple(leaves), rng.randint(1, parts), rng.random() < 0.2)


def scarce(given: Puzzle) -> bool:
    """Whether less is free than the smallest core asks for: then no move could help."""
    used = sum(lot.asks * len(lot.hosts) for gang in given.running for lot in gang.lots)
    cores = sorted(leaf.need * leaf.asks for leaf in given.waiting.leaves)
    return sum(host.gpus for host in given.hosts) - used < sum(cores[: given.waiting.need])


# manifests ----------------------------------------------------------------------------------------------------------


def manifests(given: Puzzle) -> list[Raw]:
    """The same puzzle as Kubernetes objects."""
    objects: list[Raw] = [
        _object("kai.scheduler/v1alpha1", "Topology", "t", spec={"levels": [{"nodeLabel": "topology/rack"}]})
    ]
    objects += [_host_node(host) for host in given.hosts]
    objects += queue_manifests(given)
    for value in sorted({gang.priority for gang in given.running} | {given.waiting.priority}):
        objects.append(_object("scheduling.k8s.io/v1", "PriorityClass", f"p{value}", value=value))
    for age, gang in enumerate(given.running):
        objects += _gang(given, gang, age)
    objects += _newcomer(given)
    if given.budget is not None:
        objects.append(
            _object(
                "policy/v1",
                "PodDisruptionBudget",
                "budget",
                namespace="team",
                spec={"selector": {"matchLabels": {"budgeted": "yes"}}, "maxUnavailable": 1},
                status={"disruptionsAllowed": given.budget},
            )
        )
    return objects


def queue_manifests(given: Puzzle) -> list[Raw]:
    objects = []
    for age, queue in enumerate(given.queues):
        resources: Raw = {"gpu": {"quota": queue.quota, "limit": queue.limit, "overQuotaWeight": queue.weight}}
        if given.cpu:
            resources["cpu"] = {"quota": -1}
        spec: Raw = {"resources": resources, "preemptMinRuntime": "60s", "reclaimMinRuntime": "60s"}
        spec |= {"parentQueue": queue.parent} if queue.parent else {}
        created = f"2026-01-01T00:00:{age:02}Z"
        objects.append(_object("scheduling.run.ai/v2", "Queue", queue.name, created=created, spec=spec))
    return objects


def _object(version: str, kind: str, name: str, namespace: str = "", created: str = "", **more: Any) -> Raw:
    meta: Raw = {"name": name}
    meta |= {"namespace": namespace} if namespace else {}
    meta |= {"creationTimestamp": created} if created else {}
    return {"apiVersion": version, "kind": kind, "metadata": meta, **more}


def _host_node(host: Host) -> Raw:
    return node(host.name, allocatable={GPU: str(host.gpus), "cpu": "100"}, rack=host.rack)


def _gang(given: Puzzle, gang: Running, age: int) -> Iterator[Raw]:
    spec = _spec(gang.queue, gang.priority, gang.kind, gang.together)
    groups = [{"name": lot.name, "minMember": lot.need} for lot in gang.lots if lot.name]
    spec |= {"minSubGroup": gang.need, "subGroups": groups} if groups else {"minMember": gang.lots[0].need}
    created = f"2026-01-01T01:00:{age:02}Z"
    raw = _object("scheduling.run.ai/v2alpha2", "PodGroup", gang.name, namespace="team", created=created, spec=spec)
    raw["metadata"]["annotations"] = {"kai.scheduler/last-start-timestamp": FRESH if gang.fresh else LONG_AGO}
    yield raw
    for lot in gang.lots:
        for i, host in enumerate(lot.hosts):
            yield gpu_pod(gang.name, lot.name, i, lot.asks, host=host, cpu=given.cpu, budgeted=gang.budgeted)


def _newcomer(given: Puzzle) -> Iterator[Raw]:
    waiting = given.waiting
    spec = _spec(waiting.queue, waiting.priority, waiting.kind, waiting.together)
    groups = [
        {"name": leaf.name, "minMember": leaf.need, **_level(leaf.together)} for leaf in waiting.leaves if leaf.name
    ]
    if groups:
        spec |= {"minSubGroup": waiting.need, "subGroups": groups}
    else:
        spec |= {"minMember": waiting.leaves[0].need, **_level(waiting.together or waiting.leaves[0].together)}
    created = "2026-01-01T02:00:00Z"
    yield _object("scheduling.run.ai/v2alpha2", "PodGroup", "new", namespace="team", created=created, spec=spec)
    for leaf in waiting.leaves:
        for i in range(leaf.pods):
            yield gpu_pod("new", leaf.name, i, leaf.asks, cpu=given.cpu)


def _spec(queue: str, priority: int, kind: Kind, together: bool) -> Raw:
    return {"queue": queue, "priorityClassName": f"p{priority}", "preemptibility": kind, **_level(together)}


def _level(together: bool) -> Raw:
    return {"topologyConstraint": {"requiredTopologyLevel": "topology/rack"}} if together else {}


def gpu_pod(
    gang: str, leaf: str, i: int, asks: int, *, host: str = "", cpu: bool = False, budgeted: bool = False
) -> Raw:
    name = f"{gang}-{leaf}{'-' if leaf else ''}{i}"
    requests: Raw = {GPU: str(asks)} | ({"cpu": "1"} if cpu else {})
    labels = {"budgeted": "yes"} if budgeted else {}
    phase = "Running" if host else ""
    return pod(name, leaf, gang=gang, on=host, phase=phase, scheduler="muster", labels=labels, **requests)

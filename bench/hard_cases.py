"""Hard gangs, ten times the size of those in the tests: verdict, tier, steps and CPU of the search alone.

Steps stand for CPU: the figure to watch is seconds per 200,000 steps, which is what a gang may take in a cycle.
"""

import random
from collections.abc import Callable, Iterator
from itertools import product
from time import process_time
from typing import Any

from msgspec import Struct

import muster
from bench.model import Raw
from muster.model.snapshot import take
from muster.placement.budget import Budget, OutOfSteps
from muster.placement.capacity import Capacity, PodClasses
from muster.placement.exact import integer_program
from muster.placement.requirements.builder import Requirements
from muster.placement.requirements.types import Requirement, RequirementKinds
from muster.placement.search.nested_search import Search
from muster.placement.search.preferences import find_with_growth

STEPS = 200_000  # of a gang in a cycle, as the policy has it
PODS = "pods"


class HardCase(Struct, frozen=True):
    """A cluster and one gang that waits."""

    name: str
    objects: Callable[[], Iterator[Raw]]


class Figure(Struct, frozen=True):
    """What the search made of a case."""

    name: str
    verdict: str
    tier: str
    placed: int  # pods of the core
    extras: int  # pods that could follow
    steps: int
    seconds: float

    @property
    def seconds_per_200k(self) -> float:
        """Seconds for as many steps as a gang may take."""
        return self.seconds * STEPS / max(self.steps, 1)


# objects --------------------------------------------------------------------------------------------------------------


def numbered_node(i: int, free: dict[str, Any], **labels: str) -> Raw:
    allocatable = {PODS: "250"} | {name: str(value) for name, value in free.items()}
    meta = {"name": f"n{i:05}", "labels": {f"topology/{level}": value for level, value in labels.items()}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": {"allocatable": allocatable}}


def topology(*levels: str) -> Raw:
    spec = {"levels": [{"nodeLabel": f"topology/{level}"} for level in levels]}
    return {"apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology", "metadata": {"name": "t"}, "spec": spec}


def group(name: str, parent: str = "", required: str = "", preferred: str = "", **minimum: int) -> Raw:
    levels = {"requiredTopologyLevel": required, "preferredTopologyLevel": preferred}
    raw: Raw = {"name": name, **minimum, "topologyConstraint": {key: value for key, value in levels.items() if value}}
    return raw | ({"parent": parent} if parent else {})


def podgroup(*groups: Raw, **spec: Any) -> Raw:
    spec |= {"subGroups": list(groups)} if groups else {}
    return {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "gang", "namespace": "team"},
        "spec": spec,
    }


def pods(number: int, leaf: str, asks: dict[str, Any], first: int = 0) -> Iterator[Raw]:
    for i in range(first, first + number):
        labels = {"kai.scheduler/subgroup-name": leaf} if leaf else {}
        meta = {"name": f"{leaf or 'p'}-{i:05}", "namespace": "team", "labels": labels}
        meta["annotations"] = {"pod-group-name": "gang"}
        requests = {name: str(value) for name, value in asks.items()}
        spec = {"containers": [{"name": "main", "resources": {"requests": requests}}]}
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


# cases ----------------------------------------------------------------------------------------------------------------


def flat(classes: int, nodes: int, load: float, seed: int, resources: int = 2, types: int = 1) -> Iterator[Raw]:
    """Full nodes cut into pods of so many classes, then some left out: it fits by construction."""
    rng = random.Random(seed)
    names = [f"r{i}" for i in range(resources)]
    rooms = [{name: rng.randint(80, 160) if types > 1 else 100 for name in names} for _ in range(types)]
    kinds = [{name: rng.randint(9, 40) for name in names} for _ in range(classes)]
    members: list[int] = []
    requested = dict.fromkeys(names, 0)
    for i in range(nodes):
        yield numbered_node(i, rooms[i % types])
        cuts = [_cut(rng, kinds, rooms[i % types]) for _ in range(20)]
        fullest: list[int] = max(cuts, key=len)
        members += fullest
    rng.shuffle(members)
    whole = {name: sum(rooms[i % types][name] for i in range(nodes)) for name in names}
    remaining = []
    for kind in members:
        more = {name: requested[name] + kinds[kind][name] for name in names}
        if max(more[name] / whole[name] for name in names) <= load:
            remaining.append(kind)
            requested = more
    yield podgroup(minMember=len(remaining))
    for i, kind in enumerate(remaining):
        yield from pods(1, "", kinds[kind], first=i)


def _cut(rng: random.Random, kinds: list[dict[str, int]], free: dict[str, int]) -> list[int]:
    left, pieces = dict(free), []
    while fitting := [i for i, kind in enumerate(kinds) if all(kind[name] <= left[name] for name in left)]:
        pieces.append(rng.choice(fitting))
        left = {name: left[name] - kinds[pieces[-1]][name] for name in left}
    return pieces


def racks(number: int, each: int, gpus: int = 8, per_zone: int = 8) -> Iterator[Raw]:
    yield topology("zone", "rack")
    for i in range(number * each):
        rack = i // each
        yield numbered_node(i, {"gpu": gpus, "cpu": 96}, zone=f"z{rack // per_zone}", rack=f"k{rack:03}")


def growing(leaves: int, free: int, extras: int, seed: int = 0) -> Iterator[Raw]:
    """Leaves of one pod, each in a rack, each with extras; racks of one to `free` GPUs, enough for all of them."""
    rng = random.Random(seed)
    yield topology("zone", "rack")
    sizes = [1 + extras] * leaves + [rng.randint(1, free) for _ in range(leaves // 2)]
    rng.shuffle(sizes)
    for i, gpus in enumerate(sizes):
        yield numbered_node(i, {"gpu": gpus}, zone="z", rack=f"k{i:03}")
    yield podgroup(*(group(f"l{i:03}", required="rack", minMember=1) for i in range(leaves)))
    for i in range(leaves):
        yield from pods(1 + extras, f"l{i:03}", {"gpu": 1})


def growing_mixed(leaves: int, seed: int = 0) -> Iterator[Raw]:
    """The same with leaves of different needs, pods and extras, on racks that cannot hold all of them."""
    rng = random.Random(seed)
    yield topology("zone", "rack")
    for i in range(leaves):
        yield numbered_node(i, {"gpu": rng.randint(3, 8)}, zone="z", rack=f"k{i:03}")
    parts = [(f"l{i:03}", rng.randint(1, 2), rng.randint(0, 4), rng.randint(1, 2)) for i in range(leaves)]
    yield podgroup(*(group(name, required="rack", minMember=need) for name, need, _, _ in parts))
    for name, need, extras, gpus in parts:
        yield from pods(need + extras, name, {"gpu": gpus})


def roles(replicas: int, load: float, seed: int, required: str = "rack", of: int = 2) -> Iterator[Raw]:
    """Replicas of k of three roles with pods of different sizes, each replica in a rack; so much of all racks."""
    rng = random.Random(seed)
    sizes = [(rng.randint(1, 4), rng.choice((1, 2, 3, 4)), rng.randint(2, 20)) for _ in "abc"]
    gpus = [pods_of * each for pods_of, each, _ in sizes]
    wanted = sum(sorted(gpus)[3 - of :]) * replicas
    each = 4
    number = max(int(wanted / load / (8 * each)), 1)
    yield from racks(number, each)
    tree = []
    for i in range(replicas):
        tree.append(group(f"r{i:03}", required=required, minSubGroup=of))
        tree += [group(f"r{i:03}-{role}", f"r{i:03}", minMember=sizes[at][0]) for at, role in enumerate("abc")]
    yield podgroup(*tree)
    for i in range(replicas):
        for at, role in enumerate("abc"):
            count, gpu, cpu = sizes[at]
            yield from pods(count, f"r{i:03}-{role}", {"gpu": gpu, "cpu": cpu})


def too_many(replicas: int, nodes: int, per_rack: int, of: int = 0) -> Iterator[Raw]:
    """Replicas that take a node each, on fewer nodes."""
    yield topology("zone", "rack")
    for i in range(nodes):
        yield numbered_node(i, {"gpu": 8}, zone="z", rack=f"k{i // per_rack}")
    tree = []
    for i in range(replicas):
        tree.append(group(f"r{i:03}", required="rack"))
        tree += [group(f"r{i:03}-l", f"r{i:03}", minMember=1), group(f"r{i:03}-w", f"r{i:03}", minMember=3)]
    yield podgroup(*tree, **({"minSubGroup": of} if of else {}))
    for i in range(replicas):
        yield from pods(1, f"r{i:03}-l", {"gpu": 3})
        yield from pods(3, f"r{i:03}-w", {"gpu": 2})


def preferring(leaves: int, level: str, seed: int = 0) -> Iterator[Raw]:
    rng = random.Random(seed)
    yield from racks(max(leaves // 2, 2), 4)
    tree = [group(f"l{i:03}", preferred=level, minMember=rng.randint(4, 12)) for i in range(leaves)]
    yield podgroup(*tree, topologyConstraint={"preferredTopologyLevel": "zone"})
    for part in tree:
        yield from pods(part["minMember"], part["name"], {"gpu": rng.randint(1, 2), "cpu": 4})


def totals(leaves: int, seed: int = 0) -> Iterator[Raw]:
    """M5: one pod of each leaf, and twice as many in all, on nodes that hold just these."""
    rng = random.Random(seed)
    asks = [rng.randint(1, 3) for _ in range(leaves)]
    for i in range(-(-int(sum(asks) + 1.5 * leaves) // 5)):
        yield numbered_node(i, {"gpu": 5})
    yield podgroup(*(group(f"l{i:03}", minMember=1) for i in range(leaves)), minMember=2 * leaves)
    for i, gpus in enumerate(asks):
        yield from pods(3, f"l{i:03}", {"gpu": gpus})


def some_of(children: int, of: int, classes: int, seed: int, required: str = "rack") -> Iterator[Raw]:
    """k of n children of different classes, about as much as the racks hold."""
    rng = random.Random(seed)
    kinds = [(rng.randint(1, 6), rng.randint(1, 4), rng.randint(2, 24)) for _ in range(classes)]
    chosen = [kinds[rng.randrange(classes)] for _ in range(children)]
    wanted = sum(sorted(count * gpu for count, gpu, _ in chosen)[:of])
    yield from racks(max(int(wanted / 0.93 / 32), 1) + 1, 4)
    yield podgroup(
        *(group(f"l{i:03}", required=required, minMember=count) for i, (count, _, _) in enumerate(chosen)),
        minSubGroup=of,
    )
    for i, (count, gpu, cpu) in enumerate(chosen):
        yield from pods(count, f"l{i:03}", {"gpu": gpu, "cpu": cpu})


def large(size: int, classes: int, load: float, seed: int) -> Iterator[Raw]:
    return flat(classes, max(int(size / 4.2), 1), load, seed)


def clusters(nodes: int, types: int, resources: int, size: int, classes: int, seed: int) -> Iterator[Raw]:
    """A gang that takes a part of a large cluster of many node types, a third of it used."""
    rng = random.Random(seed)
    names = [f"r{i}" for i in range(resources)]
    yield topology("zone", "rack")
    rooms = [{name: rng.randint(20, 200) for name in names} for _ in range(types)]
    for i in range(nodes):
        used = rng.randint(0, 3) * 4
        free = {name: value - used for name, value in rooms[rng.randrange(types)].items()}
        yield numbered_node(i, free, zone=f"z{i // 500}", rack=f"k{i // 20}")
    kinds = [{name: rng.randint(5, 60) for name in names} for _ in range(classes)]
    tree = [group(f"l{i}", required="rack" if i % 2 else "zone", minMember=size // classes) for i in range(classes)]
    yield podgroup(*tree)
    for i, kind in enumerate(kinds):
        yield from pods(size // classes, f"l{i}", kind)


def case_of(name: str, make: Callable[..., Iterator[Raw]], *args: Any, **more: Any) -> HardCase:
    return HardCase(name, lambda: make(*args, **more))


def hard_cases() -> Iterator[HardCase]:
    """Every case."""
    yield from flat_cases()
    yield from nested_cases()
    yield from chosen_cases()
    for resources in (3, 6):
        yield case_of(f"5,000 nodes, 10 types, {resources} resources", clusters, 5_000, 10, resources, 80, 8, 1)
        yield case_of(
            f"5,000 nodes, 10 types, {resources} resources, large", clusters, 5_000, 10, resources, 240, 20, 2
        )


def flat_cases() -> Iterator[HardCase]:
    """One leaf."""
    for classes, nodes, load in product((4, 8, 16), (32, 64, 256), (0.92, 0.95, 0.99)):
        yield case_of(f"flat {classes} classes, {nodes} nodes, {load:.0%}", flat, classes, nodes, load, classes)
    yield case_of("flat 8 classes, 64 nodes of 10 types, 4 resources, 90%", flat, 8, 64, 0.9, 1, 4, 10)
    for size, classes in product((1_000, 5_000), (2, 6)):
        yield case_of(f"{size} pods of {classes} classes", large, size, classes, 0.9, 1)


def nested_cases() -> Iterator[HardCase]:
    """Leaves and replicas in racks."""
    for leaves in (10, 50, 200):
        yield case_of(f"growth of {leaves} leaves", growing, leaves, 3, 2)
        yield case_of(f"growth of {leaves} leaves by 7", growing, leaves, 6, 7)
        yield case_of(f"growth of {leaves} unequal leaves", growing_mixed, leaves)
    for replicas, load in product((4, 12, 36, 120), (0.7, 0.8, 0.9)):
        yield case_of(f"{replicas} replicas of 2 of 3 roles, {load:.0%}", roles, replicas, load, 1)
        yield case_of(f"{replicas} replicas of 3 of 3 roles, {load:.0%}", roles, replicas, load, 2, of=3)
        yield case_of(f"{replicas} replicas of 2 of 3 roles anywhere, {load:.0%}", roles, replicas, load, 3, "")
    for replicas in (20, 100):
        yield case_of(f"{replicas} replicas on one node less", too_many, replicas, replicas - 1, 4)
        yield case_of(
            f"{replicas} of more replicas on one node less", too_many, replicas + 10, replicas - 1, 4, replicas
        )
    for leaves in (4, 12, 40):
        yield case_of(f"{leaves} leaves that prefer a rack", preferring, leaves, "rack")


def chosen_cases() -> Iterator[HardCase]:
    """Some children of many, and pods in all."""
    for leaves in (20, 200):
        yield case_of(f"M5 over {leaves} leaves", totals, leaves)
    for children, classes in product((50, 200), (3, 20)):
        yield case_of(f"{children // 2} of {children}, {classes} classes", some_of, children, children // 2, classes, 1)
        yield case_of(f"{children - 5} of {children}, {classes} classes", some_of, children, children - 5, classes, 2)


# measuring ------------------------------------------------------------------------------------------------------------


def measure(case: HardCase, steps: int = STEPS) -> Figure:
    """The search of a core with its growth, on a ledger of its own."""
    snapshot = take(muster.objects(list(case.objects())))
    ledger, kinds, budget = Capacity(PodClasses(snapshot), snapshot.free), RequirementKinds(), Budget(steps)
    requirement = next(Requirements(snapshot.gangs[0], snapshot, kinds).core_requirements())
    assert isinstance(requirement, Requirement)
    tiers: list[str] = []
    solve, constructed = integer_program.solve, Search._constructed

    def solving(search: Search, requirement: Requirement) -> Any:
        tiers.append("exact")
        return solve(search, requirement)

    def constructing(search: Search, requirement: Requirement) -> Any:
        tiers.append("constructive")
        return constructed(search, requirement)

    integer_program.solve, Search._constructed = solving, constructing  # type: ignore[assignment, method-assign]
    start = process_time()
    try:
        solution = find_with_growth(Search(ledger, snapshot.topologies, kinds, budget), requirement)
        verdict = "Infeasible" if solution is None else "Scheduled"
    except OutOfSteps:
        solution, verdict = None, "Unknown"
    finally:
        integer_program.solve, Search._constructed = solve, constructed  # type: ignore[method-assign]
    taken = process_time() - start
    core, extras = (solution.core, solution.extras) if solution is not None else ((), ())
    tier = "bounds" if not tiers else "exact" if tiers[:2] == ["constructive", "exact"] else tiers[0]
    return Figure(
        case.name,
        verdict,
        f"{tier} ({len(tiers)})",
        sum(seat.pods for seat in core),
        sum(seat.pods for seat in extras),
        budget.spent,
        taken,
    )


def main(words: list[str]) -> None:
    """All cases whose name has the words in it."""
    for case in hard_cases():
        if all(word in case.name for word in words):
            one = measure(case)
            print(
                f"{one.name:52} {one.verdict:10} {one.tier:18} {one.placed:5}+{one.extras:<4} "
                f"{one.steps:8} steps {one.seconds:7.3f} s {one.seconds_per_200k:7.2f} s/200k",
                flush=True,
            )


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])

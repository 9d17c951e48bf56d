"""Preferred levels (T2): random wishes, what a placement is worth, and the best there is, decided by CP-SAT.

Shares no code with the engine. A placement is worth one pair for every group that prefers a level, groups nearer to
the root first: how many levels it is coarser than preferred, and how many domains of the preferred level it uses.
Less is better, from the first pair to the last.
"""

import random
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from ortools.sat.python import cp_model

from tests.oracles.placement import Host, Part, PodClass, Puzzle
from tests.support import puzzles

Worth = tuple[tuple[int, int], ...]
Pods = dict[tuple[str, int, int], cp_model.IntVar]  # how many, by leaf, pod_class and host


class Wishes(NamedTuple):
    puzzle: Puzzle
    levels: dict[str, int]  # of groups that are in every core; elsewhere what is best depends on who is chosen


# puzzles ------------------------------------------------------------------------------------------------------------


def wishes(seed: int) -> Wishes:
    """A small puzzle with few requirements, room just about enough, and levels preferred here and there."""
    rng = random.Random(seed)
    plain = puzzles.puzzle(seed, hosts=12, parts=6)
    made = Puzzle(_crowded(rng, plain), tuple(_eased(rng, part) for part in plain.parts))
    if rng.random() < 0.75:
        parts = (part._replace(need=len(below)) if (below := _below(made, part)) else part for part in made.parts)
        made = made._replace(parts=tuple(parts))
    able = list(_always_chosen(made))
    wishing = [part.name for part in able if rng.random() < 0.7] or [rng.choice(able).name]
    return Wishes(made, {name: rng.choice((0, 1, 2, 2, 3)) for name in wishing})


def _eased(rng: random.Random, part: Part) -> Part:
    """Most requirements and selectors taken away, and nothing else than this oracle knows about."""
    level = part.level if rng.random() < 0.3 else None
    pending = tuple(
        (PodClass(pod_class.asks, pod_class.label if rng.random() < 0.3 else ""), n) for pod_class, n in part.pending
    )
    return Part(part.name, part.parent, part.need, level, pending, part.placed)


def _crowded(rng: random.Random, puzzle: Puzzle) -> tuple[Host, ...]:
    """Hosts with about as much room as the pods ask for, a bit more or less."""
    requested = sum(pod_class.asks[0] * count for part in puzzle.parts for pod_class, count in part.pending)
    total = requested * rng.choice((1.0, 1.2, 1.5, 2.0))
    weights = [rng.choice((0, 1, 1, 2)) for _ in puzzle.hosts]
    gpus = [-(-total * weight // max(sum(weights), 1)) for weight in weights]
    cpus = [host.free[1] if rng.random() < 0.3 else 99 for host in puzzle.hosts]
    return tuple(
        Host(host.name, host.domains, (int(gpu), cpu), host.label)
        for host, gpu, cpu in zip(puzzle.hosts, gpus, cpus, strict=True)
    )


def _always_chosen(puzzle: Puzzle) -> Iterator[Part]:
    """Groups whose ancestors need all their children: no core is without them."""
    ahead = [puzzle.parts[0]]
    while ahead:
        part = ahead.pop()
        yield part
        below = _below(puzzle, part)
        ahead += below if part.need == len(below) else []


def manifests(given: Wishes) -> list[dict[str, Any]]:
    """The same as Kubernetes objects."""
    objects = puzzles.manifests(given.puzzle)
    spec = next(raw["spec"] for raw in objects if raw["kind"] == "PodGroup")
    for raw in (spec, *spec.get("subGroups", ())):
        level = given.levels.get(raw.get("name", ""))
        if level is not None:
            raw.setdefault("topologyConstraint", {})["preferredTopologyLevel"] = puzzles.LEVELS[level]
    return objects


# trees --------------------------------------------------------------------------------------------------------------


def _below(puzzle: Puzzle, part: Part) -> list[Part]:
    return [other for other in puzzle.parts if other.name and other.parent == part.name]


def _inside(puzzle: Puzzle, part: Part) -> list[Part]:
    return [part, *(one for child in _below(puzzle, part) for one in _inside(puzzle, child))]


def wishing(given: Wishes) -> list[Part]:
    """Groups that prefer a level, nearer to the root first; among siblings the order of M3, at most one is begun."""
    assert sum(bool(part.placed) for part in given.puzzle.parts) <= 1
    names, ahead = [], [given.puzzle.parts[0]]
    while ahead:
        part = ahead.pop(0)
        names += [part] if part.name in given.levels else []
        ahead += sorted(_below(given.puzzle, part), key=lambda child: not _placed(given.puzzle, child))
    return names


def _placed(puzzle: Puzzle, part: Part) -> list[Host]:
    hosts = {host.name: host for host in puzzle.hosts}
    return [hosts[name] for one in _inside(puzzle, part) for name in one.placed]


def _domain(host: Host, level: int) -> tuple[str, ...] | None:
    """By its path; None: the host is in no domain of that level (T5)."""
    return host.domains[: level + 1] if len(host.domains) > level else None


# the worth of a placement -------------------------------------------------------------------------------------------


def worth(given: Wishes, seats: Iterable[tuple[str, str]]) -> Worth:
    """Of new pods, each as its leaf and its host, together with those that are placed."""
    hosts = {host.name: host for host in given.puzzle.hosts}
    new = [(leaf, hosts[name]) for leaf, name in seats]
    pairs = []
    for part in wishing(given):
        inside = {one.name for one in _inside(given.puzzle, part)}
        mine = _placed(given.puzzle, part) + [host for leaf, host in new if leaf in inside]
        domains = [{_domain(host, level) for host in mine} for level in range(given.levels[part.name] + 1)]
        apart = sum(len(known) > 1 or None in known for known in domains)
        pairs.append((apart, len(domains[-1])))
    return tuple(pairs)


# the best there is --------------------------------------------------------------------------------------------------


def best(given: Wishes) -> Worth | None:
    """The least worth of all placements that keep every requirement; None: there is no placement."""
    model = cp_model.CpModel()
    pods = _core(model, given.puzzle)
    for part in given.puzzle.parts:
        if part.level is not None:
            _required(model, given.puzzle, part, pods)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    if solver.solve(model) == cp_model.INFEASIBLE:
        return None
    pairs = []
    for part in wishing(given):
        counts = _apart(model, given, part, pods), _used(model, given, part, pods)
        pair = []
        for count in counts:
            model.minimize(count)
            status = solver.solve(model)
            assert status == cp_model.OPTIMAL, status
            pair.append(round(solver.objective_value))
            model.add(count == pair[-1])
        pairs.append((pair[0], pair[1]))
    return tuple(pairs)


def _core(model: cp_model.CpModel, puzzle: Puzzle) -> Pods:
    """Pods on hosts that fit beside each other, enough of them for every minimum from the root down (M1, M2)."""
    pods = {
        (part.name, s, h): model.new_int_var(0, count, "")
        for part in puzzle.parts
        for s, (pod_class, count) in enumerate(part.pending)
        for h, host in enumerate(puzzle.hosts)
        if pod_class.label in ("", host.label)
    }
    asks = {(part.name, s): pod_class.asks for part in puzzle.parts for s, (pod_class, _) in enumerate(part.pending)}
    for h, host in enumerate(puzzle.hosts):
        for r, free in enumerate(host.free):
            model.add(sum(v * asks[leaf, s][r] for (leaf, s, at), v in pods.items() if at == h) <= free)
    met = {part.name: model.new_bool_var("") for part in puzzle.parts}
    for part in puzzle.parts:
        for s, (_, count) in enumerate(part.pending):
            model.add(sum(v for (leaf, kind, _), v in pods.items() if (leaf, kind) == (part.name, s)) <= count)
        children = sum(met[child.name] for child in _below(puzzle, part))
        new = sum(v for (leaf, _, _), v in pods.items() if leaf == part.name)
        have = children if _below(puzzle, part) else new + len(part.placed)
        model.add(have >= part.need).only_enforce_if(met[part.name])
    model.add(met[""] == 1)
    return pods


def _mine(puzzle: Puzzle, part: Part, pods: Pods) -> Iterator[tuple[Host, cp_model.IntVar]]:
    inside = {one.name for one in _inside(puzzle, part)}
    return ((puzzle.hosts[h], v) for (leaf, _, h), v in pods.items() if leaf in inside)


def _in_one(model: cp_model.CpModel, puzzle: Puzzle, part: Part, level: int, pods: Pods) -> dict[Any, cp_model.IntVar]:
    """For every domain of a level: a variable that holds the new pods of a group inside it."""
    chosen = {}
    for domain in sorted({domain for host in puzzle.hosts if (domain := _domain(host, level)) is not None}):
        chosen[domain] = model.new_bool_var("")
        for host, variable in _mine(puzzle, part, pods):
            if _domain(host, level) != domain:
                model.add(variable == 0).only_enforce_if(chosen[domain])
        if any(_domain(host, level) != domain for host in _placed(puzzle, part)):
            model.add(chosen[domain] == 0)
    return chosen


def _required(model: cp_model.CpModel, puzzle: Puzzle, part: Part, pods: Pods) -> None:
    """T1, T3: one domain, that of the placed pods; where these are apart already, no pod may join."""
    assert part.level is not None
    alone = model.new_bool_var("")
    for _, variable in _mine(puzzle, part, pods):
        model.add(variable == 0).only_enforce_if(alone)
    model.add_bool_or(alone, *_in_one(model, puzzle, part, part.level, pods).values())


def _apart(model: cp_model.CpModel, given: Wishes, part: Part, pods: Pods) -> cp_model.LinearExprT:
    """The levels, from the top down to the preferred one, on which the group is not in one domain."""
    apart = [model.new_bool_var("") for _ in range(given.levels[part.name] + 1)]
    for level, variable in enumerate(apart):
        model.add_bool_or(variable, *_in_one(model, given.puzzle, part, level, pods).values())
    return sum(apart)


def _used(model: cp_model.CpModel, given: Wishes, part: Part, pods: Pods) -> cp_model.LinearExprT:
    """Domains of the preferred level that have a pod of the group; hosts outside of any count as one more."""
    level = given.levels[part.name]
    used = {_domain(host, level): model.new_bool_var("") for host in given.puzzle.hosts}
    for host in _placed(given.puzzle, part):
        model.add(used[_domain(host, level)] == 1)
    for host, variable in _mine(given.puzzle, part, pods):
        model.add(variable == 0).only_enforce_if(used[_domain(host, level)].negated())
    return sum(used.values())

"""The oracle: whether a gang fits, decided by CP-SAT from a plain description. Shares no code with the engine."""

from typing import NamedTuple

from ortools.sat.python import cp_model


class Host(NamedTuple):
    name: str
    domains: tuple[str, ...]  # values from the top level down; shorter: unlabelled below
    free: tuple[int, ...]  # by resource
    label: str = ""  # what selectors look at


class PodClass(NamedTuple):
    asks: tuple[int, ...]
    label: str = ""  # only hosts with this label; empty: any


class Part(NamedTuple):
    name: str
    parent: str
    need: int  # pods of a leaf, children of a branch
    level: int | None  # required level
    pending: tuple[tuple[PodClass, int], ...] = ()  # of a leaf
    placed: tuple[str, ...] = ()  # of a leaf: hosts of its placed pods


class Puzzle(NamedTuple):
    hosts: tuple[Host, ...]
    parts: tuple[Part, ...]  # the root first, named ""


def feasible(puzzle: Puzzle) -> bool:
    """Whether every minimum from the root down can be met at once."""
    model = cp_model.CpModel()
    children = {
        part.name: [other for other in puzzle.parts if other.parent == part.name and other.name]
        for part in puzzle.parts
    }
    pods = {
        (part.name, s, h): model.new_int_var(0, count, "")
        for part in puzzle.parts
        for s, (pod_class, count) in enumerate(part.pending)
        for h, host in enumerate(puzzle.hosts)
        if not pod_class.label or host.label == pod_class.label
    }
    for part in puzzle.parts:
        for s, (_, count) in enumerate(part.pending):
            model.add(sum(v for (name, s2, _), v in pods.items() if (name, s2) == (part.name, s)) <= count)
    for h, host in enumerate(puzzle.hosts):
        for r, free in enumerate(host.free):
            model.add(
                sum(
                    v * part.pending[s][0].asks[r]
                    for part in puzzle.parts
                    for s in range(len(part.pending))
                    if (v := pods.get((part.name, s, h))) is not None
                )
                <= max(free, 0)
            )
    met = {part.name: model.new_bool_var("") for part in puzzle.parts}
    for part in puzzle.parts:
        below = children[part.name]
        if below:
            model.add(sum(met[child.name] for child in below) >= part.need).only_enforce_if(met[part.name])
        else:
            new = sum(v for (name, _, _), v in pods.items() if name == part.name)
            model.add(new + len(part.placed) >= part.need).only_enforce_if(met[part.name])
    for part in puzzle.parts:
        if part.level is not None:
            _together(model, puzzle, part, _inside(part.name, children), pods)
    model.add(met[""] == 1)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    status = solver.solve(model)
    assert status in (cp_model.OPTIMAL, cp_model.FEASIBLE, cp_model.INFEASIBLE), status
    return status != cp_model.INFEASIBLE


def _inside(name: str, children: dict[str, list[Part]]) -> set[str]:
    names, ahead = set(), [name]
    while ahead:
        one = ahead.pop()
        names.add(one)
        ahead += [child.name for child in children[one]]
    return names


def _together(
    model: cp_model.CpModel,
    puzzle: Puzzle,
    part: Part,
    inside: set[str],
    pods: dict[tuple[str, int, int], cp_model.IntVar],
) -> None:
    """All pods at and below a part, old and new, are in one domain of its level."""
    assert part.level is not None
    width = part.level + 1
    domains = sorted({host.domains[:width] for host in puzzle.hosts if len(host.domains) >= width})
    chosen = {domain: model.new_bool_var("") for domain in domains}
    model.add(sum(chosen.values()) <= 1)
    hosts = {host.name: host for host in puzzle.hosts}
    for other in puzzle.parts:
        for name in other.placed if other.name in inside else ():
            for domain, here in chosen.items():  # new pods join the placed ones, or stay away (T3)
                if hosts[name].domains[:width] != domain:
                    model.add(here == 0)
    for (name, _, h), variable in pods.items():
        if name in inside:
            domain = puzzle.hosts[h].domains[:width]
            if len(puzzle.hosts[h].domains) < width:
                model.add(variable == 0)
            else:
                model.add(variable == 0).only_enforce_if(chosen[domain].negated())

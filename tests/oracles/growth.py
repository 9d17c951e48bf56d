"""Growth (X4): how many pods of a gang alone on a cluster can be placed if its core sits where extras can follow.

Decided by CP-SAT from a plain description; shares no code with the engine. Every question is whether some placement
has all that was granted before and one thing more, in the order of the rules: children of the core (M3), further
SubGroups in spec order, then pods of the emptiest leaf (G3). Nothing is fixed in its place until the end, so the answer
is what the best place of the core allows. An engine that counts extras instead of taking them in order may place more,
never less.
"""

import random
from fractions import Fraction
from itertools import count
from typing import Any

from ortools.sat.python import cp_model

from tests.oracles.placement import Host, Part, PodClass, Puzzle

ZONE, RACK, HOSTNAME = 0, 2, 3  # levels, as `tests.support.puzzles.LEVELS` lists them
PLENTY = 99  # cpu, of which there is always enough


# puzzles ------------------------------------------------------------------------------------------------------------


def puzzle(seed: int) -> Puzzle:
    """Up to six nodes in three racks and two zones, and one gang with extras of several kinds."""
    rng = random.Random(seed)
    racks = rng.randint(1, 3)
    hosts = []
    for i in range(rng.randint(2, 6)):
        rack = rng.randrange(racks)
        path = (f"z{rack % 2}", "b", f"r{rack}", f"n{i}")
        hosts.append(Host(f"n{i}", path, (rng.randint(0, 4), PLENTY)))
    return Puzzle(tuple(hosts), _tree(rng))


def _tree(rng: random.Random) -> tuple[Part, ...]:
    top = rng.choice((None, None, ZONE, RACK))
    match rng.choice(("flat", "roles", "replicas")):
        case "flat":
            return (_leaf(rng, "", "", (None, ZONE, RACK, RACK)),)
        case "roles":
            parts = [_leaf(rng, f"g{i}", "", (None, None, RACK, HOSTNAME)) for i in range(rng.randint(2, 4))]
            return (Part("", "", rng.randint(1, len(parts)), top), *parts)
        case _:
            number, nested = rng.randint(2, 3), []
            for i in range(number):
                leaves = [_leaf(rng, f"g{i}{j}", f"g{i}", (None, None, RACK)) for j in range(rng.randint(1, 2))]
                nested += [Part(f"g{i}", "", rng.randint(1, len(leaves)), rng.choice((None, ZONE, RACK))), *leaves]
            return (Part("", "", rng.randint(1, number), rng.choice((None, ZONE))), *nested)


def _leaf(rng: random.Random, name: str, parent: str, levels: tuple[int | None, ...]) -> Part:
    need = rng.randint(1, 3)
    pod_class = PodClass((rng.choice((1, 1, 2)), 1))
    return Part(name, parent, need, rng.choice(levels), ((pod_class, need + rng.choice((0, 1, 2, 3))),))


# the most that can follow -------------------------------------------------------------------------------------------


class Growth:
    """One gang, and what is granted to it so far."""

    def __init__(self, given: Puzzle) -> None:
        self.given = given
        self.order = {part.name: i for i, part in enumerate(given.parts)}
        self.parts = {part.name: part for part in given.parts}
        self.model = cp_model.CpModel()
        self.pods = {
            (part.name, h): self.model.new_int_var(0, number, "")
            for part in given.parts
            for _, number in part.pending
            for h in range(len(given.hosts))
        }
        self.met = {name: self.model.new_bool_var("") for name in self.parts}
        self.granted: dict[str, int] = {}  # groups that are satisfied; of a leaf, how many pods
        self._rules()

    def children(self, name: str) -> list[Part]:
        """In spec order."""
        return [part for part in self.given.parts if part.name and part.parent == name]

    def _above(self, name: str) -> list[str]:
        path = [name]
        while name:
            name = self.parts[name].parent
            path.append(name)
        return path

    def _rules(self) -> None:
        """X5 for one resource, M1, M2, G2 and T1."""
        for h, host in enumerate(self.given.hosts):
            requested = (v * self.parts[leaf].pending[0][0].asks[0] for (leaf, at), v in self.pods.items() if at == h)
            self.model.add(sum(requested) <= host.free[0])
        for name, part in self.parts.items():
            below = self.children(name)
            have = sum(self.met[child.name] for child in below) if below else self._placed(name)
            self.model.add(have >= part.need).only_enforce_if(self.met[name])
            if not below:
                self.model.add(self._placed(name) <= part.pending[0][1])
                for group in self._above(name):
                    self.model.add(self._placed(name) == 0).only_enforce_if(self.met[group].negated())
            if part.level is not None:
                self._together(part, part.level)
        self.model.add(self.met[""] == 1)

    def _placed(self, leaf: str) -> cp_model.LinearExprT:
        return sum(v for (name, _), v in self.pods.items() if name == leaf)

    def _together(self, part: Part, level: int) -> None:
        domains = [host.domains[: level + 1] for host in self.given.hosts]
        chosen = {domain: self.model.new_bool_var("") for domain in sorted(set(domains))}
        self.model.add_exactly_one(chosen.values())
        for (leaf, h), variable in self.pods.items():
            if part.name in self._above(leaf):
                self.model.add(variable == 0).only_enforce_if(chosen[domains[h]].negated())

    def _can(self, expression: Any) -> bool:
        """Whether this is possible beside all that was granted; if so, it is granted."""
        trial = self.model.clone()
        trial.add(expression)
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        status = solver.solve(trial)
        assert status in (cp_model.OPTIMAL, cp_model.FEASIBLE, cp_model.INFEASIBLE), status
        if status == cp_model.INFEASIBLE:
            return False
        self.model.add(expression)
        return True

    def most(self) -> int | None:
        """Pods of the core and all extras that follow; None: not even the core fits."""
        if not self._can(self.met[""] == 1):
            return None
        self._take("")
        hopeless: set[str] = set()
        for _ in count():
            item = next((one for one in self._further() if one not in hopeless), None)
            if item is None:
                return sum(number for name, number in self.granted.items() if not self.children(name))
            if item.endswith("/"):
                leaf = item[:-1]
                fits = self._can(self._placed(leaf) >= self.granted[leaf] + 1)
                self.granted[leaf] += fits
            else:
                fits = self._can(self.met[item] == 1)
                if fits:
                    self._take(item)
            hopeless |= set() if fits else {item}
        raise AssertionError("items run out")

    def _take(self, group: str) -> None:
        """A group is satisfied, and below it the first children in spec order that fit (M3)."""
        ahead = [group]
        for name in ahead:
            below = self.children(name)
            self.granted[name] = 0 if below else self.parts[name].need
            chosen: list[str] = []
            for child in below:
                if len(chosen) < self.parts[name].need and self._can(self.met[child.name] == 1):
                    chosen.append(child.name)
            ahead += chosen

    def _further(self) -> list[str]:
        """G3: further SubGroups in spec order, then a pod (`leaf/`) of the emptiest satisfied leaf."""
        absent = [
            child.name for name in self.granted for child in self.children(name) if child.name not in self.granted
        ]
        leaves = [
            name
            for name, number in self.granted.items()
            if not self.children(name) and number < self.parts[name].pending[0][1]
        ]
        leaves.sort(key=lambda name: (Fraction(self.granted[name], self.parts[name].need), self.order[name]))
        return [*sorted(absent, key=self.order.__getitem__), *(f"{name}/" for name in leaves)]

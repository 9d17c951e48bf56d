"""`python -m bench.baselines SCENARIO [--folder PATH] [--report FILE]`: a scenario under muster and simple schedulers.

Each is a function from a snapshot to a plan, as `muster.planning.cycle.plan` is one, and sees the same arrivals. They
filter nodes, count resources and bind as muster does; what they leave out is what they are here to show:

- `pods_one_by_one`: no gangs. Every pod goes to the node that it fills best, whatever becomes of the others of its
  gang, in whatever domain.
- `first_k_of_n`: gangs, all or nothing, in spec order without backtracking: a group takes the domain it fills best by
  totals, a pod the node it fills best, and of `n` children that could run the first `k` must.
- `best_fit_in_order`: the same, but a child that does not fit is passed over for the next one.

None of them preempts, reclaims or consolidates, none knows quotas, and none tries a second choice. Gangs come by
priority, then by age. Beyond the minimum, pods and replicas are added in the same way, where their gang is.
"""

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from bench.cluster import say
from muster.model.gang.gang import Gang
from muster.model.gang.pod_state import PENDING, PLACED, PodState
from muster.model.gang.types import Branch, Group, Leaf, Member, walk_leaves
from muster.model.snapshot import Snapshot
from muster.placement.capacity import PodClasses
from muster.placement.requirements.builder import find_topology_level
from muster.planning.decision import Binding, CyclePlan, GangPlan, Role
from muster.reporting.simulation.render import render
from muster.simulator.engine.simulated_scheduler import Planner
from muster.simulator.engine.simulation import Hooks
from muster.simulator.results.report_input import describe_results
from muster.simulator.results.result import Result
from muster.simulator.scenario.loading import load_scenario
from muster.simulator.simulate import simulate

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
GPU = "nvidia.com/gpu"


class GreedyCluster:
    """Free capacity of the nodes, and what was given away of it."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot, self.pod_classes = snapshot, PodClasses(snapshot)
        self.free: Ints = snapshot.allocatable - snapshot.used
        self.everywhere: Mask = np.ones(len(snapshot.nodes), dtype=bool)
        columns = snapshot.columns
        self._scarce = columns.index(GPU) if GPU in columns else columns.index("pods")

    def best_node(self, pod_class: int, within: Mask) -> int | None:
        """The node that a pod fills best; None: it fits on none."""
        columns, requests = self.pod_classes.columns[pod_class], self.pod_classes.requests[pod_class]
        fits = within & self.pod_classes.allowed(pod_class)
        fits &= (self.free[:, columns] >= requests[columns]).all(axis=1)
        nodes = np.flatnonzero(fits)
        return int(nodes[self.free[nodes, self._scarce].argmin()]) if len(nodes) else None

    def take(self, node: int, pod_class: int, sign: int = 1) -> None:
        self.free[node] -= sign * self.pod_classes.requests[pod_class]

    def best_domain(self, domains: Ints, within: Mask, requests: Ints) -> Mask | None:
        """The nodes of the domain with the least free that still has enough in total; None: none has."""
        here = np.flatnonzero(within & (domains >= 0))
        if not len(here):
            return None
        totals = np.zeros((int(domains.max()) + 1, self.free.shape[1]), dtype=np.int64)
        np.add.at(totals, domains[here], np.maximum(self.free[here], 0))
        enough = np.flatnonzero((totals >= requests).all(axis=1))
        if not len(enough):
            return None
        best: Mask = within & (domains == int(enough[totals[enough, self._scarce].argmin()]))
        return best


class GreedyGang:
    """The pods of one gang, as far as they are placed."""

    def __init__(self, cluster: GreedyCluster, gang: Gang, *, first_only: bool) -> None:
        self._cluster, self._gang, self._first_only = cluster, gang, first_only
        self._nodes = {
            member.name: cluster.snapshot.node_index[member.node]
            for leaf in walk_leaves(gang.root)
            for member in leaf.members
            if member.state is PLACED and member.node in cluster.snapshot.node_index
        }
        self._new: list[tuple[Leaf, Member, int, Role]] = []

    @property
    def bindings(self) -> Iterator[Binding]:
        gang, nodes = self._gang, self._cluster.snapshot.nodes
        for leaf, member, node, role in self._new:
            name = nodes[node].metadata.name
            yield Binding(gang.namespace, member.name, name, gang.name, leaf.name, role)

    def place(self) -> bool:
        """The core, or nothing; then whatever else fits."""
        everywhere = self._cluster.everywhere
        if not self._is_satisfied(self._gang.root) and not self._place_core(self._gang.root, everywhere):
            return False
        self._place_extras(self._gang.root, everywhere)
        return True

    def _class_of(self, member: Member) -> int | None:
        return self._cluster.snapshot.class_of.get(f"{self._gang.namespace}/{member.name}")

    def _counts(self, member: Member) -> bool:
        return member.name in self._nodes or member.state is PodState.SUCCEEDED

    def _is_satisfied(self, group: Group) -> bool:
        if isinstance(group, Leaf):
            return sum(map(self._counts, group.members)) >= group.need
        return sum(map(self._is_satisfied, group.children)) >= group.need

    def _narrow(self, group: Group, within: Mask, requests: Ints) -> Mask | None:
        """The nodes of the group's domain: where its pods are, or else where it fits best; None: nowhere."""
        word = group.constraint.required_topology_level
        if not word:
            return within
        named_level = find_topology_level(self._cluster.snapshot, group.constraint.topology, word)
        if isinstance(named_level, str):
            return None
        tree, level = named_level
        domains = tree.levels[level].domain
        for leaf in walk_leaves(group):
            for member in leaf.members:
                if member.name in self._nodes:
                    same: Mask = within & (domains == domains[self._nodes[member.name]])
                    return same
        return self._cluster.best_domain(domains, within, requests)

    def _missing(self, group: Group) -> Ints:
        """The requests of the pods that the group still needs, the first ones in spec order."""
        total = np.zeros(self._cluster.free.shape[1], dtype=np.int64)
        if isinstance(group, Leaf):
            for member in self._needed(group):
                if (pod_class := self._class_of(member)) is not None:
                    total += self._cluster.pod_classes.requests[pod_class]
            return total
        unsatisfied = [child for child in group.children if not self._is_satisfied(child)]
        wanted = group.need - (len(group.children) - len(unsatisfied))
        return total + sum((self._missing(child) for child in unsatisfied[: max(wanted, 0)]), start=total)

    def _needed(self, leaf: Leaf) -> list[Member]:
        pending = [member for member in leaf.members if member.state is PENDING and member.name not in self._nodes]
        return pending[: max(leaf.need - sum(map(self._counts, leaf.members)), 0)]

    def _place_core(self, group: Group, within: Mask, role: Role = "core") -> bool:
        """What the group still needs, or nothing."""
        before = len(self._new)
        narrowed = self._narrow(group, within, self._missing(group))
        is_placed = narrowed is not None and (
            self._place_leaf(group, narrowed, role)
            if isinstance(group, Leaf)
            else self._place_branch(group, narrowed, role)
        )
        if not is_placed:
            self._undo(before)
        return is_placed

    def _place_leaf(self, leaf: Leaf, within: Mask, role: Role) -> bool:
        return all(self._place_pod(leaf, member, within, role) for member in self._needed(leaf)) and self._is_satisfied(
            leaf
        )

    def _place_branch(self, branch: Branch, within: Mask, role: Role) -> bool:
        unsatisfied = [child for child in branch.children if not self._is_satisfied(child)]
        wanted = branch.need - (len(branch.children) - len(unsatisfied))
        for child in unsatisfied:
            if wanted <= 0:
                break
            if self._place_core(child, within, role):
                wanted -= 1
            elif self._first_only:
                return False
        return wanted <= 0

    def _place_extras(self, group: Group, within: Mask) -> None:
        narrowed = self._narrow(group, within, self._missing(group))
        if narrowed is None:
            return
        if isinstance(group, Leaf):
            for member in group.members:
                is_waiting = member.state is PENDING and member.name not in self._nodes
                if is_waiting and not self._place_pod(group, member, narrowed, "extra"):
                    return
            return
        for child in group.children:
            if self._is_satisfied(child) or self._place_core(child, narrowed, "extra"):
                self._place_extras(child, narrowed)

    def _place_pod(self, leaf: Leaf, member: Member, within: Mask, role: Role) -> bool:
        pod_class = self._class_of(member)
        node = self._cluster.best_node(pod_class, within) if pod_class is not None else None
        if node is None or pod_class is None:
            return False
        self._cluster.take(node, pod_class)
        self._nodes[member.name] = node
        self._new.append((leaf, member, node, role))
        return True

    def _undo(self, length: int) -> None:
        while len(self._new) > length:
            _, member, node, _ = self._new.pop()
            pod_class = self._class_of(member)
            assert pod_class is not None
            self._cluster.take(node, pod_class, -1)
            del self._nodes[member.name]

    def place_pods(self) -> bool:
        """Every pod by itself; whether all are placed."""
        everywhere, is_complete = self._cluster.everywhere, True
        for leaf in walk_leaves(self._gang.root):
            for member in leaf.members_in(PENDING):
                is_complete = self._place_pod(leaf, member, everywhere, "core") and is_complete
        return is_complete


# plans ----------------------------------------------------------------------------------------------------------------


def pods_one_by_one(snapshot: Snapshot) -> CyclePlan:
    """See above."""
    return _plan(snapshot, first_only=False, is_gang=False)


def first_k_of_n(snapshot: Snapshot) -> CyclePlan:
    """See above."""
    return _plan(snapshot, first_only=True, is_gang=True)


def best_fit_in_order(snapshot: Snapshot) -> CyclePlan:
    """See above."""
    return _plan(snapshot, first_only=False, is_gang=True)


def _plan(snapshot: Snapshot, *, first_only: bool, is_gang: bool) -> CyclePlan:
    cluster, bindings, gangs = GreedyCluster(snapshot), list[Binding](), list[GangPlan]()
    for gang in sorted(snapshot.gangs, key=lambda gang: (-gang.priority, gang.created, gang.key)):
        if gang.broken or not gang.standing.pending:
            gangs.append(GangPlan(gang, "Scheduled" if gang.standing.satisfied else "Waiting", (), snapshot))
            continue
        greedy = GreedyGang(cluster, gang, first_only=first_only)
        is_placed = greedy.place() if is_gang else greedy.place_pods()
        bindings += greedy.bindings
        gangs.append(GangPlan(gang, "Scheduled" if is_placed else "Waiting", (), snapshot))
    return CyclePlan(bindings=tuple(sorted(bindings)), gangs=tuple(sorted(gangs, key=lambda plan: plan.gang.key)))


PLANNERS: dict[str, Planner | None] = {
    "muster": None,
    "best fit in order": best_fit_in_order,
    "first k of n": first_k_of_n,
    "pods one by one": pods_one_by_one,
}


def run_all(path: Path, folder: Path | None) -> dict[str, Result]:
    """The scenario under each of them."""
    scenario, results = load_scenario(path), dict[str, Result]()
    for name, planner in PLANNERS.items():
        say(f"{scenario.name or path.stem}: {name}")
        hooks = Hooks(cpu_clock=time.process_time, planner=planner)
        results[name] = simulate(replace(scenario, name=name), folder or path.parent, hooks)
    return results


COLUMNS = (
    *("gangs started", "never", "finished", "first wait mean", "p50", "p95"),
    *("CPU held", "working", "GPUs held", "working", "pods evicted or moved", "GPU-hours lost", "CPU of plans"),
)


def row(name: str, result: Result) -> str:
    """One line of docs/baselines.md."""
    figures = result.figures
    waits, gangs, evictions = figures["waitSeconds"]["all"], figures["gangs"], figures["evictions"]
    cells = [f"{waits['count']:,}", f"{waits['never']:,}", f"{gangs['finished']:,}"]
    cells += [f"{waits.get(part, 0):,.0f} s" for part in ("mean", "p50", "p95")]
    for resource in ("cpu", GPU):
        shares = figures["resources"].get(resource, {})
        cells += [f"{shares.get(kind, 0):.1%}" for kind in ("allocated", "utilised")]
    lost = evictions["gpuHoursLostToEvictions"]
    cells += [f"{evictions['evictedPods'] + evictions['movedPods']:,}", f"{lost:,.0f}"]
    cells.append(f"{result.planner_times['cpuSeconds']:.0f} s")
    return f"| {name} | {' | '.join(cells)} |"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("scenario", type=Path)
    arguments.add_argument("--folder", type=Path, help="where paths in the scenario begin")
    arguments.add_argument("--report", type=Path, help="the report of `muster simulate` with all of them")
    given = arguments.parse_args()
    results = run_all(given.scenario, given.folder)
    print(f"| scheduler | {' | '.join(COLUMNS)} |")
    print("|---|" + "---:|" * len(COLUMNS))
    for name, result in results.items():
        print(row(name, result))
    if given.report is not None:
        given.report.write_text(render(describe_results([*results.values()])), encoding="utf-8")


if __name__ == "__main__":
    main()

"""The requirements of a gang on a snapshot: the part of its tree that is not satisfied yet."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import takewhile

from msgspec import Struct

from muster.model.gang.demand import child_rank
from muster.model.gang.gang import Gang
from muster.model.gang.pod_state import PodState
from muster.model.gang.types import Branch, Group, Leaf, Member, walk
from muster.model.snapshot import Snapshot
from muster.model.topology import NOWHERE, TopologyTree
from muster.placement.requirements.tree import leaves
from muster.placement.requirements.types import Impossible, LostPod, RequiredLevel, Requirement, RequirementKinds
from muster.validation.topology import unknown_level, unknown_topology


class _Placed(Struct, frozen=True, eq=False):
    """The nodes of a gang's placed pods."""

    nodes: list[int]  # of all placed pods, leaf by leaf: each group's nodes are one slice
    runs: dict[str, tuple[int, int]]  # group -> start and end of its slice
    lost: dict[str, Member]  # group -> one of its pods whose node does not exist


class Requirements:
    """Requirements of one gang on one snapshot; kinds are numbered across it."""

    def __init__(self, gang: Gang, snapshot: Snapshot, kinds: RequirementKinds | None = None) -> None:
        self.gang = gang
        self.snapshot = snapshot
        self.standings = gang.standings
        self.kinds = kinds or RequirementKinds()

    @cached_property
    def _parents(self) -> dict[str, Branch]:
        branches = (group for group in walk(self.gang.root) if isinstance(group, Branch))
        return {child.name: branch for branch in branches for child in branch.children}

    @cached_property
    def _placed(self) -> "_Placed":
        """Built only where a group names a level. Linear in groups and pods, however deep the tree is."""
        nodes, runs, lost = list[int](), dict[str, tuple[int, int]](), dict[str, Member]()
        index = self.snapshot.node_index
        groups = list(walk(self.gang.root))
        for group in groups:
            if isinstance(group, Leaf):
                start = len(nodes)
                for member in group.placed:
                    if member.node in index:
                        nodes.append(index[member.node])
                    else:
                        lost.setdefault(group.name, member)
                runs[group.name] = start, len(nodes)
        for group in reversed(groups):
            if isinstance(group, Branch):
                runs[group.name] = runs[group.children[0].name][0], runs[group.children[-1].name][1]
                gone = next((child.name for child in group.children if child.name in lost), None)
                if gone is not None:
                    lost[group.name] = lost[gone]
        return _Placed(nodes, runs, lost)

    def _above(self, group: Group) -> Iterator[Branch]:
        """The ancestors of a group, nearest first."""
        name = group.name
        while name in self._parents:
            yield self._parents[name]
            name = self._parents[name].name

    def invalid(self) -> Impossible | None:
        """A spec that is not a tree, or a constraint that names what does not exist (T6)."""
        for problem in self.gang.broken:
            return Impossible("", "InvalidSpec", f"{problem.at}: {problem.says}")
        for group in walk(self.gang.root):
            if isinstance(group, Branch) and group.need > len(group.children):
                says = f"`{group.name or self.gang.name}` needs {group.need} children and has {len(group.children)}"
                return Impossible(group.name, "InvalidSpec", says)
            for level in (group.constraint.required_topology_level, group.constraint.preferred_topology_level):
                if level and isinstance(known := self._find_level(group, level), Impossible):
                    return known
        return None

    def find_lost_pod(self, group: Group) -> Impossible | None:
        """Why a group's required domain is unknown: the node of one of its pods does not exist (decision 0010)."""
        level = group.constraint.required_topology_level
        pod = self._placed.lost.get(group.name) if level else None
        if pod is None:
            return None
        return Impossible(group.name, "NodeUnknown", lost=LostPod(pod.name, pod.node, level))

    def domains(self) -> dict[str, str]:
        """For every group with a level: the tightest domain, up to that level, that all its placed pods share."""
        domains: dict[str, str] = {}
        for group in walk(self.gang.root):
            level = group.constraint.required_topology_level or group.constraint.preferred_topology_level
            resolved = self.resolve_level(group, level)
            if isinstance(resolved, RequiredLevel) and resolved.path:
                levels = self.snapshot.topologies[resolved.topology].levels
                domains[group.name] = levels[len(resolved.path) - 1].paths[resolved.path[-1]]
        return domains

    def core_requirements(self) -> "Iterator[Requirement | Impossible]":
        """What the root still needs, if anything."""
        requirement = self._build(self.gang.root)
        if requirement is not None:
            yield requirement

    def done(self) -> dict[str, int]:
        """How much of its minimum every group has already: pods of a leaf, satisfied children of a branch."""
        return {
            group.name: self.standings[group.name].counted
            if isinstance(group, Leaf)
            else sum(self.standings[child.name].satisfied for child in group.children)
            for group in walk(self.gang.root)
        }

    def further_requirement(self, group: Group, pods: int = 0) -> "Requirement | Impossible | None":
        """What the next extra needs (G3): a SubGroup as a gang of its own, or `pods` more pods of a leaf.

        It stays inside the domains of its ancestors (T1).
        """
        requirement = self._leaf(group, pods) if isinstance(group, Leaf) and pods else self._build(group)
        for around in self._above(group):
            constraint = around.constraint
            held = constraint.required_topology_level or constraint.preferred_topology_level
            if isinstance(requirement, Requirement) and held:
                requirement = self._derive(around, 1, children=(requirement,))
        return requirement

    def restoring_requirement(self, pods: Collection[tuple[str, str]]) -> "Requirement | Impossible":
        """The requirement that places all of these pending pods, by (leaf, pod), again, with their levels."""
        wanted: dict[str, int] = {}
        for leaf, _ in pods:
            wanted[leaf] = wanted.get(leaf, 0) + 1
        by_name: dict[str, Requirement | Impossible] = {}
        for group in reversed(list(walk(self.gang.root))):
            if isinstance(group, Leaf):
                if group.name in wanted:
                    by_name[group.name] = self._leaf_of(group, wanted[group.name])
                continue
            inside = [by_name.pop(child.name) for child in group.children if child.name in by_name]
            requirements = tuple(child for child in inside if isinstance(child, Requirement))
            if inside:
                broken = [child for child in inside if isinstance(child, Impossible)]
                by_name[group.name] = (
                    broken[0] if broken else self._derive(group, len(requirements), children=requirements)
                )
        return by_name[self.gang.root.name]

    def _build(self, group: Group) -> "Requirement | Impossible | None":
        """What a group needs; below a branch with a total of pods (M5), also pods that its leaves could contribute."""
        within = self._totals_above(group)
        by_name: dict[str, Requirement | Impossible | None] = {}
        for part in reversed(list(walk(group))):
            around = within.get(part.name, ())
            if isinstance(part, Leaf):
                by_name[part.name] = self._leaf(part, within=around)
            elif self.standings[part.name].satisfied and not around:
                by_name[part.name] = None
            else:
                by_name[part.name] = self._branch(part, by_name, around)
        return by_name[group.name]

    def _totals_above(self, root: Group) -> dict[str, tuple[str, ...]]:
        """For every group below a branch that lacks pods in its total (M5): such branches by name, outermost first."""
        within: dict[str, tuple[str, ...]] = {}
        for group in walk(root):
            if not isinstance(group, Branch):
                continue
            around = within.get(group.name, ())
            if group.need_pods > self.standings[group.name].counted:
                around = (*around, group.name)
            if around:
                within |= {child.name: around for child in group.children}
        return within

    def _leaf(self, leaf: Leaf, more: int = 0, within: tuple[str, ...] = ()) -> Requirement | Impossible | None:
        need = self.standings[leaf.name].missing + more
        if not need and not (within and self.standings[leaf.name].pending):
            return None
        requirement = self._leaf_of(leaf, need, within)
        # A leaf that needs no more pods, and has none to contribute, has no requirement.
        return requirement if need or isinstance(requirement, Requirement) else None

    def _leaf_of(self, leaf: Leaf, need: int, within: tuple[str, ...] = ()) -> Requirement | Impossible:
        """`need` of its pending pods. Any will do (M4), so pods with unsupported rules do not block the others."""
        waiting = leaf.members_in(PodState.PENDING)
        if len(waiting) < need:
            return Impossible(leaf.name, "NotEnoughPods", f"{len(waiting)} of {need}")
        runs = tuple(self._runs(waiting))
        rules = [rule for pod_class, _ in runs if (rule := self.snapshot.unsupported[pod_class])]
        if rules:
            runs = tuple(run for run in runs if not self.snapshot.unsupported[run[0]])
            if sum(length for _, length in runs) < max(need, 1):
                return Impossible(leaf.name, "Unsupported", rules[0])
        return self._derive(leaf, need, pods=runs, within=within)

    def _branch(
        self, branch: Branch, by_name: Mapping[str, Requirement | Impossible | None], within: tuple[str, ...]
    ) -> Requirement | Impossible | None:
        done = sum(by_name[child.name] is None for child in branch.children)
        wanted = sorted(branch.children, key=lambda child: child_rank(child, self.standings[child.name]))
        requirements = tuple(
            requirement for child in wanted if isinstance(requirement := by_name[child.name], Requirement)
        )
        need = max(branch.need - done, 0)
        if not requirements and not need:
            return None
        if len(requirements) < need:
            broken = [impossible for child in wanted if isinstance(impossible := by_name[child.name], Impossible)]
            return broken[0] if broken else Impossible(branch.name, "NotEnoughPods")
        total = max(branch.need_pods - self.standings[branch.name].counted, 0)
        there = (
            sum(length for requirement in requirements for leaf in leaves(requirement) for _, length in leaf.pods)
            if total
            else 0
        )
        if there < total:
            return Impossible(branch.name, "NotEnoughPods", f"{there} of {total}")
        return self._derive(branch, need, children=requirements, total=total, within=within)

    def _derive(
        self,
        group: Group,
        need: int,
        pods: tuple[tuple[int, int], ...] = (),
        children: tuple[Requirement, ...] = (),
        total: int = 0,
        within: tuple[str, ...] = (),
    ) -> Requirement | Impossible:
        resolved_levels = []
        for level in (group.constraint.required_topology_level, group.constraint.preferred_topology_level):
            resolved = self.resolve_level(group, level)
            if isinstance(resolved, Impossible):
                return resolved
            resolved_levels.append(resolved)
        if (lost := self.find_lost_pod(group)) is not None:
            return lost
        requirement = Requirement(
            group.name, need, resolved_levels[0], resolved_levels[1], pods, children, total=total, within=within
        )
        return self.kinds.derive(requirement)

    def resolve_level(self, group: Group, level: str) -> RequiredLevel | Impossible | None:
        """A level of a group, with the domains of its placed pods; None where it names no level."""
        if not level:
            return None
        known = self._find_level(group, level)
        if isinstance(known, Impossible):
            return known
        tree, number = known
        nodes = self._placed.nodes[slice(*self._placed.runs[group.name])]
        if not nodes:
            return RequiredLevel(tree.topology.metadata.name, number)
        by_level = [
            sorted({int(domain) for domain in known_level.domain[nodes]}) for known_level in tree.levels[: number + 1]
        ]
        shared = tuple(domains[0] for domains in takewhile(lambda d: len(d) == 1 and d[0] != NOWHERE, by_level))
        pinned = shared[number] if len(shared) > number else NOWHERE
        return RequiredLevel(tree.topology.metadata.name, number, pinned, shared, tuple(by_level[number]))

    def _find_level(self, group: Group, level: str) -> tuple[TopologyTree, int] | Impossible:
        """The level that a group names, or why it is invalid (T6)."""
        known = find_topology_level(self.snapshot, group.constraint.topology, level)
        if isinstance(known, str):
            return Impossible(group.name, "InvalidSpec", f"`{group.name}`: {known}" if group.name else known)
        return known

    def _runs(self, members: Sequence[Member]) -> Iterator[tuple[int, int]]:
        """Pods in order, as runs of (class, count): consecutive pods of one class form a run."""
        pod_class, length = -1, 0
        for member in members:
            own_class = self.snapshot.class_of[f"{self.gang.namespace}/{member.name}"]
            if own_class != pod_class and length:
                yield pod_class, length
                length = 0
            pod_class, length = own_class, length + 1
        if length:
            yield pod_class, length


def find_topology_level(snapshot: Snapshot, topology: str, level: str) -> tuple[TopologyTree, int] | str:
    """A level of a Topology (T4), or a message that says which name is unknown (T6)."""
    trees = snapshot.topologies
    tree = trees.get(topology) if topology or len(trees) != 1 else next(iter(trees.values()))
    if tree is None:
        return unknown_topology(topology, trees)
    number = tree.find(level)
    return unknown_level(tree.topology, level) if number is None else (tree, number)

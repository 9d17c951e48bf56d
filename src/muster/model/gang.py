"""A PodGroup with its pods, as a tree of leaves and branches, and the questions everyone asks of it.

Rule 1: a question is pure and linear in groups and pods, at any depth; nothing recurses. Rule 2: no pod is lost: it is
in a leaf, or it is a stray with a reason (N4).
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from operator import is_
from typing import Any, Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from muster.api import names
from muster.api.core import Pod, PriorityClass
from muster.api.objects import Objects, key
from muster.api.podgroup import PodGroup, PodGroupSpec, SubGroup, TopologyConstraint
from muster.api.quantity import Resources
from muster.validation import defaults
from muster.validation.podgroup import from_the_top, senseless
from muster.validation.pods.membership import OURS, Stray, gang_of, is_ours, leaf_of, orphan
from muster.validation.pods.requests import requests
from muster.validation.problem import Problem


class PodState(StrEnum):
    """What a pod counts for (N5)."""

    PLACED = "placed"  # on a node: counts
    SUCCEEDED = "succeeded"  # has done its part: counts for its leaf's minimum, holds nothing
    PENDING = "pending"  # can be placed
    GATED = "gated"  # exists, but cannot be placed yet
    TERMINATING = "terminating"  # holds its resources, counts for nothing
    FAILED = "failed"  # counts for nothing, holds nothing


PLACED, PENDING = PodState.PLACED, PodState.PENDING  # a name of a module is read faster than one of an enum


class Member(Struct, frozen=True, eq=False, gc=False):
    """A pod of a gang."""

    name: str
    state: PodState
    node: str = ""  # empty: it is on none, or its work there is done
    task_priority: int = 0
    created: float = 0.0  # seconds; a pod without an age counts as the oldest
    requests: Resources = Resources()

    @property
    def rank(self) -> tuple[int, float, str]:
        """M4: who comes first in a leaf."""
        return (-self.task_priority, self.created, self.name)


class Leaf(Struct, frozen=True, eq=False):
    """A group of pods."""

    name: str
    need: int  # pods
    order: int = -1  # place in spec order; -1: the PodGroup itself
    constraint: TopologyConstraint = TopologyConstraint()
    members: tuple[Member, ...] = ()  # in the order of M4

    def those(self, *states: PodState) -> tuple[Member, ...]:
        """Its pods in these states, first come first."""
        return tuple(member for member in self.members if member.state in states)

    def is_all(self, state: PodState) -> bool:
        """Whether it has pods, and all of them are in this state."""
        for member in self.members:
            if member.state is not state:
                return False
        return bool(self.members)

    @property
    def placed(self) -> tuple[Member, ...]:
        """Its pods on nodes."""
        return self.those(PLACED)


class Branch(Struct, frozen=True, eq=False):
    """A group of groups."""

    name: str
    need: int  # children
    order: int = -1
    constraint: TopologyConstraint = TopologyConstraint()
    children: tuple["Leaf | Branch", ...] = ()
    need_pods: int = 0  # pods in all below it, in addition (M5)


Group = Leaf | Branch


class Standing(Struct, frozen=True):
    """How one group stands: counts at and below it."""

    satisfied: bool
    counted: int  # pods that count
    placed: int  # pods on nodes
    succeeded: int
    pending: int  # pods that could be placed
    gated: int
    missing: int  # the fewest pods that would still satisfy it


class Want(Struct, frozen=True):
    """Pods that a leaf still lacks, and those that could fill the gap, first come first."""

    leaf: str
    pods: int
    candidates: tuple[Member, ...]


T = TypeVar("T")


class once(Generic[T]):  # noqa: N801
    """A property that is worked out once; `functools.cached_property` takes a lock for it before Python 3.12."""

    def __init__(self, work: Callable[[Any], T]) -> None:
        self._work = work
        self.__doc__ = work.__doc__

    def __set_name__(self, _owner: type, name: str) -> None:
        self._name = name

    def __get__(self, gang: Any, _owner: type) -> T:
        found = gang.__dict__[self._name] = self._work(gang)
        return found


class Gang(Struct, frozen=True, eq=False, dict=True):
    """A PodGroup, its tree and its pods. What is asked of it in every cycle is worked out once."""

    namespace: str
    name: str
    root: Group
    queue: str = names.DEFAULT_QUEUE
    priority: int = defaults.PRIORITY
    unknown_class: str = ""  # the PriorityClass that it names and that does not exist (P1)
    preemptibility: str = names.PREEMPTIBLE
    created: float = 0.0  # seconds; a PodGroup without an age counts as the oldest
    strays: tuple[Stray, ...] = ()
    leftovers: tuple[Member, ...] = ()  # strays on nodes: they run, or are terminating (N4)
    other_schedulers: tuple[str, ...] = ()  # that pods which name it ask for, instead of ours (N6)
    broken: tuple[Problem, ...] = ()  # no tree, or no meaning: nothing else about it can be relied on
    has_promises: bool = False  # places may be kept for it (P7): pods are nominated, or noted as moved
    source: PodGroup = PodGroup()  # as it is stored: annotations, status and what only some questions need

    @once
    def key(self) -> str:
        """Identity everywhere (N3)."""
        return f"{self.namespace}/{self.name}"

    @once
    def is_settled(self) -> bool:
        """It runs, whole in every part, and waits for nothing: most gangs of a busy cluster."""
        if self.broken or self.strays:
            return False
        if isinstance(self.root, Leaf):
            is_placed = self.uniform is not None and self.uniform[0] is PLACED
            return is_placed and len(self.root.members) >= self.root.need
        now = self.standing
        if now.pending or now.gated or not now.placed:
            return False
        return all(one.satisfied for one in self.standings.values())

    @once
    def uniform(self) -> "tuple[PodState, tuple[tuple[str, int], ...]] | None":
        """The state of all its pods, and what they ask for together by name; None: they differ, or it has SubGroups."""
        if not isinstance(self.root, Leaf) or not self.root.members or self.leftovers:
            return None
        state = self.root.members[0].state
        return (state, tuple(sorted(_together(self.root, state).items()))) if self.root.is_all(state) else None

    @once
    def waiting(self) -> tuple[str, ...]:
        """The pods of a gang of one leaf that all wait, by namespace/name; none: it is another gang."""
        if self.uniform is None or self.uniform[0] is not PENDING or not isinstance(self.root, Leaf):
            return ()
        return tuple([f"{self.namespace}/{member.name}" for member in self.root.members])

    @once
    def constraints(self) -> tuple[TopologyConstraint, ...]:
        """The levels that its groups name, each once."""
        if isinstance(self.root, Leaf):
            return (self.root.constraint,) if self.root.constraint != NO_CONSTRAINT else ()
        named = (group.constraint for group in walk(self.root))
        return tuple(dict.fromkeys(one for one in named if one != NO_CONSTRAINT))

    @once
    def is_foreign(self) -> bool:
        """All pods that name it are another scheduler's: it is left alone (N6). One without any pods is reported."""
        if not self.other_schedulers or self.strays:
            return False
        return not any(group.members for group in walk(self.root) if isinstance(group, Leaf))

    @once
    def standings(self) -> "Mapping[str, Standing]":
        """How every group stands, by name."""
        if isinstance(self.root, Leaf) and self.uniform is not None:
            return {self.root.name: _uniform_standing(self.root, self.uniform[0])}
        return standings(self.root)

    @property
    def standing(self) -> Standing:
        """How the whole stands."""
        return self.standings[self.root.name]

    @once
    def held(self) -> Resources:
        """What its placed pods ask for together, leftovers too (N4)."""
        left = (one.requests for one in self.leftovers if one.state is PodState.PLACED)
        return added_up((_together(self.root, PodState.PLACED), *left))

    @once
    def protected(self) -> Resources:
        """What the placed pods of its leaves ask for together: leftovers leave first, whatever the gang is (N4)."""
        return _together(self.root, PodState.PLACED) if self.leftovers else self.held

    @once
    def terminating(self) -> Resources:
        """What pods that are terminating still hold on their nodes (N5, Q4)."""
        left = (one.requests for one in self.leftovers if one.state is PodState.TERMINATING)
        return added_up((self.terminating_members, *left))

    @once
    def terminating_members(self) -> Resources:
        """The part of it that is of pods in its leaves."""
        return added_up(
            one.requests
            for leaf in walk(self.root)
            if isinstance(leaf, Leaf)
            for one in leaf.members
            if one.state is PodState.TERMINATING and one.node
        )

    @once
    def wanted(self) -> Resources:
        """What its pending pods ask for together."""
        return _together(self.root, PodState.PENDING)


NO_CONSTRAINT = TopologyConstraint()


class Muster(Struct, frozen=True):
    """Every gang of the input, and the pods of ours that belong to none."""

    gangs: tuple[Gang, ...]
    foreign: tuple[Stray, ...]  # they name no PodGroup, or one that is not there


# building -----------------------------------------------------------------------------------------------------------


def muster(objects: Objects, schedulers: Collection[str] = OURS) -> Muster:
    """Gather the gangs: every PodGroup with the pods that join it (N3, N6)."""
    groups = {key(group.metadata): group for group in objects.pod_groups}
    joining: dict[str, list[Pod]] = defaultdict(list)
    foreign: list[Stray] = []
    for pod in objects.pods:
        gang = gang_of(pod)
        if gang is not None and gang in groups:
            joining[gang].append(pod)
        elif is_ours(pod, schedulers):
            foreign.append(orphan(pod))
    classes = objects.priority_classes
    gangs = (build(group, joining[name], classes, schedulers) for name, group in sorted(groups.items()))
    return Muster(tuple(gangs), tuple(sorted(foreign, key=lambda stray: stray.pod)))


def build(
    group: PodGroup,
    pods: Iterable[Pod] = (),
    classes: Iterable[PriorityClass] = (),
    schedulers: Collection[str] = OURS,
) -> Gang:
    """One gang from its PodGroup and the pods that name it, whichever scheduler they ask for."""
    parts = from_the_top(group.spec)
    branches = {part.parent for part in parts}
    leaves = {part.name for part in parts if part.name not in branches} or {""}
    members: dict[str, list[Member]] = defaultdict(list)
    strays: list[Stray] = []
    leftovers: list[Member] = []
    others: set[str] = set()
    pods = tuple(pods)
    for pod in pods:
        if not is_ours(pod, schedulers):
            others.add(pod.spec.scheduler_name)
            continue
        leaf = leaf_of(pod, leaves, branches)
        if isinstance(leaf, Stray):
            strays.append(leaf)
            leftovers += [member(pod)] if is_leftover(pod) else []
        else:
            members[leaf].append(member(pod))
    classes = tuple(classes)
    is_nominated = any(pod.status.nominated_node_name for pod in pods)
    built = Gang(
        namespace=group.metadata.namespace or names.DEFAULT_NAMESPACE,
        name=group.metadata.name,
        root=_tree(group, parts, members),
        queue=defaults.queue(group),
        priority=defaults.priority(group, classes),
        unknown_class=defaults.unknown_class(group, classes),
        preemptibility=defaults.preemptibility(group, classes),
        created=_seconds(group.metadata.creation_timestamp),
        strays=tuple(sorted(strays, key=lambda stray: stray.pod)),
        leftovers=tuple(sorted(leftovers, key=lambda one: one.rank)),
        other_schedulers=tuple(sorted(others)),
        broken=tuple(senseless(group)),
        has_promises=is_nominated or names.MOVED_TO in group.metadata.annotations,
        source=group,
    )
    # once, while its pods are at hand: every cycle asks for them
    _ = built.key, built.is_settled, built.constraints, built.waiting
    return built


def member(pod: Pod) -> Member:
    """A pod as its gang sees it."""
    return Member(
        name=pod.metadata.name,
        state=state(pod),
        node=pod.spec.node_name if _holds(pod) else "",
        task_priority=_whole(pod.metadata.labels.get(names.TASK_PRIORITY, "")),
        created=_seconds(pod.metadata.creation_timestamp),
        requests=requests(pod.spec),
    )


def state(pod: Pod) -> PodState:
    """N5, the strongest fact first."""
    if pod.status.phase == "Failed":
        return PodState.FAILED
    if pod.metadata.deletion_timestamp is not None:
        return PodState.TERMINATING
    if pod.status.phase == "Succeeded":
        return PodState.SUCCEEDED
    if pod.spec.node_name:
        return PodState.PLACED
    return PodState.GATED if pod.spec.scheduling_gates else PodState.PENDING


def is_leftover(stray: Pod) -> bool:
    """Whether a pod that belongs to no leaf is on a node all the same: its SubGroup was removed while it ran (N4)."""
    return bool(stray.spec.node_name) and state(stray) in (PodState.PLACED, PodState.TERMINATING) and _holds(stray)


def _holds(pod: Pod) -> bool:
    """Whether a pod on a node still takes room there: until it has finished, deleted or not (N5)."""
    return pod.status.phase not in ("Succeeded", "Failed")


def _seconds(moment: datetime | None) -> float:
    return moment.timestamp() if moment else 0.0


def _whole(text: str) -> int:
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) <= 9 else 0


def _tree(group: PodGroup, parts: tuple[SubGroup, ...], members: Mapping[str, list[Member]]) -> Group:
    """From the bottom up, so that depth costs no stack."""
    order = {part.name: i for i, part in reversed(list(enumerate(group.spec.sub_groups)))}
    constraints = defaults.constraints(group)
    below: dict[str, list[Group]] = defaultdict(list)
    all_parts: tuple[SubGroup | PodGroupSpec, ...] = (*reversed(parts), group.spec)
    for part in all_parts:
        name, parent = (part.name, part.parent) if isinstance(part, SubGroup) else ("", "")
        children = tuple(reversed(below.pop(name, ())))
        shared = {"name": name, "order": order.get(name, -1), "constraint": constraints[name]}
        made: Group
        if children:
            made = Branch(
                need=_stated(part.min_sub_group) or len(children),
                need_pods=_stated(part.min_member),
                children=children,
                **shared,  # type: ignore[arg-type]
            )
        else:
            made = Leaf(
                need=_stated(part.min_member) or 1,
                members=tuple(sorted(members.get(name, ()), key=lambda one: one.rank)),
                **shared,  # type: ignore[arg-type]
            )
        if not isinstance(part, SubGroup):
            return made
        below[parent].append(made)
    raise AssertionError("the PodGroup itself comes last")


def _stated(minimum: int | None) -> int:
    """A stored zero or less states nothing (V1)."""
    return max(minimum or 0, 0)


# asking -------------------------------------------------------------------------------------------------------------

States = tuple[PodState, ...]
RUNNING: States = (PodState.PLACED, PodState.SUCCEEDED)
EXISTING: States = (PodState.PLACED, PodState.SUCCEEDED, PodState.PENDING)


def walk(root: Group) -> Iterator[Group]:
    """Every group, parents before children, siblings in spec order."""
    ahead: list[Group] = [root]
    while ahead:
        group = ahead.pop()
        yield group
        if isinstance(group, Branch):
            ahead += reversed(group.children)


def standings(root: Group, counting: States = RUNNING) -> dict[str, Standing]:
    """How every group stands, by name, if a leaf's pods in these states count (M1, M2, M5)."""
    if isinstance(root, Leaf):
        return {root.name: _leaf_standing(root, counting)}
    found: dict[str, Standing] = {}
    for group in reversed(list(walk(root))):
        match group:
            case Leaf():
                found[group.name] = _leaf_standing(group, counting)
            case Branch():
                found[group.name] = _branch_standing(group, [found[child.name] for child in group.children])
    return found


def _leaf_standing(leaf: Leaf, counting: States) -> Standing:
    states = [member.state for member in leaf.members]  # counted by `list`: an enum is slow to hash
    counted = sum(map(states.count, counting))
    return Standing(
        satisfied=counted >= leaf.need,
        counted=counted,
        placed=states.count(PodState.PLACED),
        succeeded=states.count(PodState.SUCCEEDED),
        pending=states.count(PodState.PENDING),
        gated=states.count(PodState.GATED),
        missing=max(leaf.need - counted, 0),
    )


def _uniform_standing(leaf: Leaf, state: PodState) -> Standing:
    """The same of a leaf whose pods are all in one state."""
    pods = len(leaf.members)
    counted = pods if state in RUNNING else 0
    return Standing(
        satisfied=counted >= leaf.need,
        counted=counted,
        placed=pods if state is PLACED else 0,
        succeeded=pods if state is PodState.SUCCEEDED else 0,
        pending=pods if state is PENDING else 0,
        gated=pods if state is PodState.GATED else 0,
        missing=max(leaf.need - counted, 0),
    )


def _branch_standing(branch: Branch, children: list[Standing]) -> Standing:
    counted = sum(child.counted for child in children)
    lacking = sum(sorted(child.missing for child in children)[: branch.need]) + max(branch.need - len(children), 0)
    short = max(lacking, branch.need_pods - counted)
    return Standing(
        satisfied=sum(child.satisfied for child in children) >= branch.need and short <= 0,
        counted=counted,
        placed=sum(child.placed for child in children),
        succeeded=sum(child.succeeded for child in children),
        pending=sum(child.pending for child in children),
        gated=sum(child.gated for child in children),
        missing=max(short, 0),
    )


def _together(root: Group, state: PodState) -> Resources:
    if isinstance(root, Leaf):
        return added_up([member.requests for member in root.members if member.state is state])
    return added_up(
        member.requests
        for leaf in walk(root)
        if isinstance(leaf, Leaf)
        for member in leaf.members
        if member.state is state
    )


def added_up(amounts: Iterable[Mapping[str, int]]) -> Resources:
    """Amounts together; neighbours that are equal, as most are, are counted and added once."""
    total = Resources()
    last: Mapping[str, int] = {}
    count = 0
    for one in amounts:
        if one == last:
            count += 1
            continue
        _add(total, last, count)
        last, count = one, 1
    _add(total, last, count)
    return total


def _add(total: Resources, amount: Mapping[str, int], times: int) -> None:
    for name, number in amount.items():
        total[name] = total.get(name, 0) + number * times


def satisfied(root: Group) -> bool:
    """Every minimum is met, from the root down (M2)."""
    return standings(root)[root.name].satisfied


def missing(root: Group) -> int:
    """The fewest pods that would still have to be placed."""
    return standings(root)[root.name].missing


def ready_to_try(root: Group) -> bool:
    """Enough pods exist that can be placed, or are, to satisfy the root (N5)."""
    return standings(root, EXISTING)[root.name].satisfied


def wants(root: Group) -> tuple[Want, ...]:
    """Pods that still have to be placed for the children that come first (M3); none of them could be left out.

    A child that lacks pods never blocks one that has them.
    """
    now, later = standings(root), standings(root, EXISTING)
    chosen: list[Group] = []
    ahead: list[Group] = [root]
    while ahead:
        group = ahead.pop()
        chosen.append(group)
        if isinstance(group, Branch):
            open_ = [child for child in group.children if not now[child.name].satisfied]
            open_.sort(key=lambda c: (not later[c.name].satisfied, preference(c, now[c.name])))
            ahead += open_[: max(group.need - (len(group.children) - len(open_)), 0)]
    lacking = _lacking(chosen, now)
    leaves = sorted((leaf for leaf in walk(root) if isinstance(leaf, Leaf) and lacking[leaf.name]), key=_by_spec)
    return tuple(
        Want(leaf.name, lacking[leaf.name], leaf.those(PodState.PENDING)[: lacking[leaf.name]]) for leaf in leaves
    )


def _by_spec(group: Group) -> int:
    return group.order


def _lacking(chosen: list[Group], now: Mapping[str, Standing]) -> Counter[str]:
    """Pods that the chosen groups lack, from the bottom up; where a branch counts pods, that many in all (M5)."""
    lacking: Counter[str] = Counter()
    for group in reversed(chosen):
        if isinstance(group, Leaf):
            lacking[group.name] = now[group.name].missing
            continue
        lacking[group.name] = sum(lacking[child.name] for child in group.children)
        short = group.need_pods - now[group.name].counted - lacking[group.name]
        if short > 0 and not now[group.name].satisfied:
            _top_up(group, short, now, lacking)
            lacking[group.name] += short
    return lacking


def preference(child: Group, standing: Standing) -> tuple[bool, int, int]:
    """M3: children that are partly placed first, of these the one with the fewest pods missing; then spec order."""
    partly = standing.counted > 0
    return (not partly, standing.missing if partly else 0, child.order)


def _top_up(branch: Branch, short: int, now: Mapping[str, Standing], lacking: Counter[str]) -> None:
    """M5: more pods, from whichever leaves have some to spare; the rest of them does not exist yet."""
    leaves = [leaf for leaf in walk(branch) if isinstance(leaf, Leaf)]
    for leaf in leaves:
        spare = max(min(now[leaf.name].pending - lacking[leaf.name], short), 0)
        short -= spare
        lacking[leaf.name] += spare
    lacking[leaves[0].name] += short


def changed(root: Group, members: Mapping[tuple[str, str], Member]) -> Group:
    """The tree with some members replaced, by (leaf, pod)."""
    touched = {leaf for leaf, _ in members}
    made: dict[str, Group] = {}
    for group in reversed(list(walk(root))):
        match group:
            case Leaf():
                if group.name in touched:
                    now = tuple(members.get((group.name, one.name), one) for one in group.members)
                    group = replace(group, members=now)
                made[group.name] = group
            case Branch():
                children = tuple([made.pop(child.name) for child in group.children])
                same = all(map(is_, children, group.children))
                made[group.name] = group if same else replace(group, children=children)
    return made[root.name]


def with_members(gang: Gang, members: Mapping[tuple[str, str], Member]) -> Gang:
    """The gang with some members replaced, by (leaf, pod); leftovers by the name of the pod alone."""
    by_name = {name: one for (_, name), one in members.items()} if gang.leftovers else {}
    leftovers = tuple(by_name.get(one.name, one) for one in gang.leftovers)
    after = replace(gang, root=changed(gang.root, members), leftovers=leftovers)
    if isinstance(gang.root, Branch) and "standings" in gang.__dict__:
        after.__dict__["standings"] = _standings_after(gang.standings, gang.root, after.root)
    return after


def _standings_after(now: Mapping[str, Standing], before: Group, after: Group) -> dict[str, Standing]:
    """How groups stand once some members are replaced, given how they stood: only the groups around those differ."""
    found, others = dict(now), list[Group]()
    ahead = [] if before is after else [(before, after)]
    while ahead:
        was, group = ahead.pop()
        others.append(group)
        if isinstance(was, Branch) and isinstance(group, Branch):
            ahead += [pair for pair in zip(was.children, group.children, strict=True) if pair[0] is not pair[1]]
    for group in reversed(others):
        found[group.name] = (
            _leaf_standing(group, RUNNING)
            if isinstance(group, Leaf)
            else _branch_standing(group, [found[child.name] for child in group.children])
        )
    return found


def seated(root: Group, nodes: Mapping[tuple[str, str], str]) -> Group:
    """The tree with some pending pods placed, by (leaf, pod)."""
    made: dict[str, Group] = {}
    for group in reversed(list(walk(root))):
        match group:
            case Leaf():
                members = tuple(
                    replace(one, state=PodState.PLACED, node=nodes[group.name, one.name])
                    if (group.name, one.name) in nodes
                    else one
                    for one in group.members
                )
                made[group.name] = replace(group, members=members)
            case Branch():
                made[group.name] = replace(group, children=tuple(made.pop(child.name) for child in group.children))
    return made[root.name]

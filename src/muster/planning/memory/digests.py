"""Digests of everything that the answer to a question depends on: equal digests, equal answers (X7)."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from muster.api import names
from muster.api.duration import parse_nanoseconds
from muster.api.moment import parse_past_time
from muster.api.quantity import Resources
from muster.model.gang.gang import Gang
from muster.model.gang.pod_state import PodState
from muster.model.gang.types import Group, Leaf, walk
from muster.placement.capacity import Capacity
from muster.placement.filters import FILTERS
from muster.placement.requirements.builder import Requirements
from muster.placement.requirements.tree import pod_classes, subtree
from muster.placement.requirements.types import Requirement
from muster.planning.disturbance import EvictionReason

if TYPE_CHECKING:
    from muster.planning.cycle_state import CycleState

Ints = NDArray[np.int64]
DIGEST_BYTES = 16
PROMISES = ("preempt_min_runtime", "reclaim_min_runtime")
WRITTEN_APART = frozenset({"name", "kind", "pods", "children"})  # of a requirement: see `_requirement`


class Disruptions(Protocol):
    """PodDisruptionBudgets, as far as the choice of victims depends on them."""

    left: list[int]
    of: dict[str, tuple[int, ...]]
    stuck: set[str]


class QuestionDigests:
    """Digests of what the questions of one cycle depend on."""

    def __init__(self, cycle_state: "CycleState") -> None:
        self._cycle_state, self._snapshot, self._pod_classes = (
            cycle_state,
            cycle_state.snapshot,
            cycle_state.pod_classes,
        )
        self._structures: dict[int, bytes] = {}  # by kind
        self._requirements: dict[int, bytes] = {}
        self._classes: dict[int, bytes] = {}
        self._filtered: dict[int, bytes] = {}
        self._last_capacity: tuple[tuple[int, bool, int], bytes] = ((-1, False, -1), b"")
        self._state: tuple[int, bytes] = (-1, b"")
        self._selected: bytes | None = None  # the pods that budgets select: constant in a cycle

    # questions ------------------------------------------------------------------------------------------------------

    def free_capacity(self, capacity: Capacity, requirement: Requirement, allowance: Ints | None) -> bytes:
        """The requirement without names, the nodes that its pods may use, and what is free there."""
        return joined_digest(
            b"find", self._capacity(capacity, requirement), b"" if allowance is None else allowance.tobytes()
        )

    def diagnosis(
        self, capacity: Capacity, requirements: Requirements, requirement: Requirement, within: tuple[object, ...] = ()
    ) -> bytes:
        """The same, and what a diagnosis names: groups, domains, and the nodes that each filter refuses."""
        done, groups = sorted(requirements.done().items()), [group.name for group in subtree(requirement)]
        filters = [self._filters(pod_class) for pod_class in pod_classes(requirement)]
        return joined_digest(
            b"why",
            self._capacity(capacity, requirement),
            self._requirement(requirement),
            self._paths,
            _digest(groups, done, within),
            *filters,
        )

    def victims(
        self, gang: Gang, requirement: Requirement, reason: EvictionReason, disruptions: Disruptions, most_pods: int
    ) -> bytes:
        """Everything that runs, queue usage, budgets, and the placements and evictions of this cycle.

        Fair shares depend on waiting gangs, too: only reclaim uses them, so that a new gang changes few digests.
        """
        whose = _digest(reason, most_pods, gang.key, gang.queue, gang.priority, gang.preemptibility, gang.created)
        if self._selected is None:
            self._selected = _digest(sorted(disruptions.of.items()), sorted(disruptions.stuck))
        budgets = joined_digest(_digest(disruptions.left), self._selected)
        shares = self._shares if reason == "Reclaim" else b""
        capacity = self._capacity(self._cycle_state.later, requirement)
        return joined_digest(b"victims", whose, capacity, budgets, self._cluster, shares, self._cycle())

    # requirements ---------------------------------------------------------------------------------------------------

    def structure(self, requirement: Requirement) -> bytes:
        """A requirement by numbers alone: cheap, and equal wherever the question could be the same."""
        if requirement.kind not in self._structures:
            asks = self._snapshot.columns
            self._structures[requirement.kind] = _digest(
                [
                    (
                        group.need,
                        len(group.children),
                        [
                            ([(asks[i], n) for i, n in self._pod_classes.pairs[pod_class]], many)
                            for pod_class, many in group.pods
                        ],
                    )
                    for group in subtree(requirement)
                ]
            )
        return self._structures[requirement.kind]

    def _capacity(self, capacity: Capacity, requirement: Requirement) -> bytes:
        """The requirement and free capacity; computed once until the cycle state changes."""
        key = (requirement.kind, capacity is self._cycle_state.now, self._cycle_state.version)
        if capacity is not self._cycle_state.now and capacity is not self._cycle_state.later:
            return self._digest_capacity(capacity, requirement)
        if self._last_capacity[0] != key:
            self._last_capacity = key, self._digest_capacity(capacity, requirement)
        return self._last_capacity[1]

    def _digest_capacity(self, capacity: Capacity, requirement: Requirement) -> bytes:
        classes = pod_classes(requirement)
        usable = np.any([self._pod_classes.allowed(pod_class) for pod_class in classes], axis=0)
        columns = np.unique(np.concatenate([self._pod_classes.columns[pod_class] for pod_class in classes]))
        free = capacity.free[np.ix_(np.flatnonzero(usable), columns)]
        between = self._rules_among(capacity, classes) if not capacity.inter_pod.touched.isdisjoint(classes) else b""
        return joined_digest(self.requirement(requirement), self._topologies, usable.tobytes(), free.tobytes(), between)

    def requirement(self, requirement: Requirement) -> bytes:
        """A requirement with everything that placement depends on, without names. Children are in order (M3)."""
        if requirement.kind not in self._requirements:
            self._requirements[requirement.kind] = self._requirement(requirement)
        return self._requirements[requirement.kind]

    def _requirement(self, requirement: Requirement) -> bytes:
        fields = [field for field in requirement.__struct_fields__ if field not in WRITTEN_APART]
        return joined_digest(
            *(
                _digest(
                    len(group.children),
                    [getattr(group, field) for field in fields],
                    [(self._class(pod_class), many) for pod_class, many in group.pods],
                )
                for group in subtree(requirement)
            )
        )

    def _class(self, pod_class: int) -> bytes:
        """A pod class by its requests, the nodes that it may use, and those that it prefers."""
        if pod_class not in self._classes:
            asks = [(self._snapshot.columns[i], many) for i, many in self._pod_classes.pairs[pod_class]]
            wished = self._pod_classes.preferred_weights(pod_class)
            nodes = self._pod_classes.allowed(pod_class).tobytes()
            self._classes[pod_class] = joined_digest(_digest(asks), nodes, b"" if wished is None else wished.tobytes())
        return self._classes[pod_class]

    def _filters(self, pod_class: int) -> bytes:
        """Which filter refuses which node for a class."""
        if pod_class not in self._filtered:
            pods, scene = self._snapshot.classes[pod_class], self._pod_classes.scene
            self._filtered[pod_class] = joined_digest(*(keep(pods, scene).tobytes() for keep in FILTERS.values()))
        return self._filtered[pod_class]

    # the cluster ----------------------------------------------------------------------------------------------------

    @cached_property
    def _topologies(self) -> bytes:
        trees = sorted(self._snapshot.topologies.items())
        return joined_digest(
            *(joined_digest(name.encode(), *(level.domain.tobytes() for level in tree.levels)) for name, tree in trees)
        )

    @cached_property
    def _paths(self) -> bytes:
        trees = sorted(self._snapshot.topologies.items())
        return _digest([(name, [(level.label, level.paths) for level in tree.levels]) for name, tree in trees])

    def _rules_among(self, capacity: Capacity, classes: Sequence[int]) -> bytes:
        """The inter-pod rules that concern some classes, and the nodes of the pods that they select."""
        inter_pod = capacity.inter_pod
        rule_matches = [inter_pod.classes[pod_class] for pod_class in classes]
        numbers = sorted({number for matches in rule_matches for number in (*matches.selected_by, *matches.carries)})
        at = {number: i for i, number in enumerate(numbers)}
        who = [([at[n] for n in matches.selected_by], [at[n] for n in matches.carries]) for matches in rule_matches]
        parts = [_digest(who, [inter_pod.is_expected(number) for number in numbers])]
        for number in numbers:
            rule = inter_pod.rules[number]
            rows = (inter_pod.places(rule), inter_pod.selected.row(number), inter_pod.carriers.row(number))
            parts += [rule.signature(), *(row.tobytes() for row in rows)]
        return joined_digest(*parts)

    def _inter_pod(self, capacity: Capacity) -> bytes:
        """All inter-pod rules: the pods that they select, and how many of those are on every node."""
        inter_pod = capacity.inter_pod
        rule_matches = [(entry.selected_by, entry.carries) for entry in inter_pod.classes]
        counts = [list(entry.entries()) for entry in (inter_pod.selected, inter_pod.carriers)]
        return joined_digest(_digest(rule_matches, self._snapshot.inter_pod_rules.waiting, counts), self._rules)

    @cached_property
    def _rules(self) -> bytes:
        inter_pod = self._cycle_state.now.inter_pod
        places = {rule.key: inter_pod.places(rule).tobytes() for rule in inter_pod.rules}
        return joined_digest(*(rule.signature() for rule in inter_pod.rules), *(places[key] for key in sorted(places)))

    def _cycle(self) -> bytes:
        """What this cycle has placed, evicted and nominated so far."""
        cycle_state = self._cycle_state
        if self._state[0] != cycle_state.version:
            usage = cycle_state.usage
            fields = (usage.allocated, usage.promised, usage.protected)
            held = [_amounts(entry) for entry in (*fields, usage.terminating, usage.terminating_protected)]
            evicted = sorted(
                entry.key for gang_state in cycle_state.gang_states.values() for entry in gang_state.evictions
            )
            parts = [cycle_state.now.free.tobytes(), cycle_state.later.free.tobytes()]
            if cycle_state.snapshot.inter_pod_rules.rules:
                parts += [self._inter_pod(cycle_state.now), self._inter_pod(cycle_state.later)]
            self._state = cycle_state.version, joined_digest(_digest(held, cycle_state.busy, evicted), *parts)
        return self._state[1]

    @cached_property
    def _shares(self) -> bytes:
        return _digest(_amounts(self._cycle_state.usage.shares))

    @cached_property
    def _cluster(self) -> bytes:
        """Everything that runs, the queues, the policy, and run times as far as they matter."""
        cycle_state, inter_pod_rules = self._cycle_state, self._snapshot.inter_pod_rules
        queues = [
            (node.name, node.parent, node.priority, node.created, sorted(node.stated.items()), node.unstated)
            for node in cycle_state.usage.tree.nodes.values()
        ]
        rule_matches = sorted(
            (pod, matches.selected_by, matches.carries) for pod, matches in inter_pod_rules.running.items()
        )
        policy = (
            *(
                getattr(cycle_state.policy, field)
                for field in cycle_state.policy.__struct_fields__
                if field != "untouchable"
            ),
        )
        stated = _digest(queues, rule_matches, policy, sorted(cycle_state.policy.untouchable))
        return joined_digest(stated, _digest(self._snapshot.columns), self._ages(), *self._running())

    def _running(self) -> Iterable[bytes]:
        """Gangs with pods on nodes; one that is the same object as in the last cycle keeps its digest."""
        memory = self._cycle_state.recall.memory
        before = memory.gangs if memory is not None else {}
        digests: dict[str, tuple[Gang, bytes]] = {}
        for gang in self._snapshot.gangs:
            known = before.get(gang.key)
            digests[gang.key] = known if known is not None and known[0] is gang else (gang, gang_digest(gang))
        if memory is not None:
            memory.gangs = digests
        return (digest for _, digest in digests.values() if digest)

    def _ages(self) -> bytes:
        """For every running gang, how many of the minimum run times of queues it has reached."""
        stated = (getattr(queue.spec, name) for queue in self._snapshot.objects.queues for name in PROMISES)
        promised = sorted({number for text in stated if (number := _duration(text)) is not None})
        now = self._snapshot.now
        if not promised or now is None:
            return b""
        reached = []
        for gang in self._snapshot.gangs:
            since = parse_past_time(gang.source.metadata.annotations.get(names.LAST_START, ""), now)
            if since is not None:
                reached.append((gang.key, bisect_right(promised, (now - since) // timedelta(microseconds=1) * 1000)))
        return _digest(reached)


def gang_digest(gang: Gang) -> bytes:
    """A gang as far as preemption depends on it; empty where none of its pods is on a node."""
    if not any(member.node for leaf in walk(gang.root) if isinstance(leaf, Leaf) for member in leaf.members):
        return b""
    own = (gang.key, gang.queue, gang.priority, gang.preemptibility, gang.created, bool(gang.broken))
    notes = sorted(gang.source.metadata.annotations.items())
    return _digest(own, notes, [_group(group) for group in walk(gang.root)])


def _group(group: Group) -> tuple[object, ...]:
    if isinstance(group, Leaf):
        members = [
            (
                member.name,
                str(member.state),
                member.node,
                member.task_priority,
                member.created,
                sorted(member.requests.items()),
            )
            for member in group.members
            if member.state not in (PodState.PENDING, PodState.GATED)
        ]
        return (group.name, group.need, group.order, group.constraint, members)
    return (group.name, group.need, group.order, group.constraint, len(group.children), group.need_pods)


def _amounts(amounts: Mapping[str, Resources]) -> list[tuple[str, list[tuple[str, int]]]]:
    return [(name, sorted(amount.items())) for name, amount in sorted(amounts.items())]


def _duration(text: str | None) -> int | None:
    try:
        return parse_nanoseconds(text) if text else None
    except ValueError:
        return None


def _digest(*parts: object) -> bytes:
    try:
        written = msgspec.msgpack.encode(parts, enc_hook=repr)
    except OverflowError:  # a number of more than 64 bits
        written = repr(parts).encode()
    return blake2b(written, digest_size=DIGEST_BYTES).digest()


def joined_digest(*parts: bytes) -> bytes:
    """One digest of several byte strings; their lengths are part of it, so that it is unambiguous."""
    digest = blake2b(digest_size=DIGEST_BYTES)
    for part in parts:
        digest.update(len(part).to_bytes(8))
        digest.update(part)
    return digest.digest()

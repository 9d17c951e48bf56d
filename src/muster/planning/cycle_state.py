"""The state of a cycle: free capacity now and later, queue usage, and what was decided about each gang.

Two capacities: `now` can be bound to, `later` also has what terminating pods and victims will free. They are one
object until a pod terminates. Nominations take from `later`; bindings must fit both (P7, P8).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from traceback import format_exception
from typing import TypeVar

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from muster.api.names import NON_PREEMPTIBLE, PREEMPTIBLE, SEMI_PREEMPTIBLE
from muster.api.quantity import Resources
from muster.fairness.entitlement import Excess, over_quota_non_preemptible
from muster.fairness.queue_usage import QueueUsage, initial_usage
from muster.fairness.shares import divide_cluster
from muster.model.gang.gang import Gang
from muster.model.gang.pod_state import PodState
from muster.model.gang.types import Member
from muster.model.gang.updates import with_members
from muster.model.inter_pod_rules import RuleMatches
from muster.model.roles import non_preemptible, resources
from muster.model.snapshot import EXCLUSIVE, Snapshot
from muster.placement.budget import Budget, Cancelled, OutOfSteps
from muster.placement.capacity import Capacity, PodClasses, SupposedCapacity
from muster.placement.requirements.builder import Requirements
from muster.placement.requirements.types import Requirement, RequirementKinds
from muster.placement.search import flat
from muster.placement.search.growth import Placement
from muster.placement.search.nested_search import Search
from muster.placement.search.preferences import find, find_with_growth
from muster.placement.search.search_state import PodsOnNode
from muster.planning.decision import Eviction, Failure, Role
from muster.planning.disturbance import EvictionReason, Proof
from muster.planning.gang_state import GangState, GangStates
from muster.planning.memory.answer_cache import AnswerCache
from muster.planning.memory.recall import Recall
from muster.planning.pod_assignment import assign_pods
from muster.planning.policy import Policy

EASY_STEPS = 500  # for a gang once the steps of the cycle are used up: enough for most
EASY_PART = 2  # the steps beyond the cycle's that easy gangs may take: the cycle's divided by this

Ints = NDArray[np.int64]
Pods = Sequence[tuple[str, Member]]  # each with its leaf
T = TypeVar("T")
FRAMES = 20  # of a traceback: the last ones
LONGEST_MESSAGE = 200  # of an exception, as people read it


class Checkpoint(Struct, frozen=True, eq=False):
    """A copy of the state to roll back to."""

    now: Capacity
    later: Capacity
    unbound: Ints
    awaited: Ints
    usage: QueueUsage
    gang_states: GangStates
    busy: int


class CycleState:
    """The state of one cycle: the only place where its decisions are written."""

    def __init__(
        self,
        snapshot: Snapshot,
        policy: Policy,
        is_cancelled: Callable[[], bool] | None = None,
        memory: AnswerCache | None = None,
    ) -> None:
        self.snapshot = snapshot
        self.policy = policy
        self.kinds = RequirementKinds()
        self.pod_classes = PodClasses(snapshot)
        self.now = Capacity(self.pod_classes, snapshot.free)
        self.later = self.now
        self.division = divide_cluster(snapshot)
        self.usage = initial_usage(self.division, snapshot.columns)
        self.budget = Budget(policy.cycle_steps, is_cancelled=is_cancelled)
        self.gang_budgets: dict[str, Budget] = {}
        self.gang_budget = self.budget  # the budget of the gang that is worked on
        self.before = {gang.key: gang for gang in snapshot.gangs}
        self.gang_states = GangStates(self.before)
        self.busy: list[str] = []  # gangs that were placed in this cycle
        self._unbound = self._awaited = np.zeros((0, 0), dtype=np.int64)  # see `take` and `expect_later`
        self.failures: dict[str, Failure] = {}  # by gang
        self.version = 0  # how often something was written
        self.recall = Recall(memory, self)
        self._checkpoint: Checkpoint | None = None  # of an attempt, before the first of several writes
        self._is_attempting = False
        self._resources = [
            (i, name) for i, name in enumerate(snapshot.columns) if name != "pods" and not name.startswith(EXCLUSIVE)
        ]
        if snapshot.terminating.any():
            self.split_later()
            self.later.free_all(snapshot.terminating)
            for pod in snapshot.objects.pods:
                if pod.metadata.deletion_timestamp is not None and pod.spec.node_name in snapshot.node_index:
                    self._unmark_terminating(
                        f"{pod.metadata.namespace or 'default'}/{pod.metadata.name}", pod.spec.node_name
                    )

    # queries --------------------------------------------------------------------------------------------------------

    def requirements(self, gang: Gang) -> Requirements:
        """What a gang still needs."""
        return Requirements(gang, self.snapshot, self.kinds)

    def find(
        self, capacity: Capacity, requirement: Requirement, allowance: Ints | None = None
    ) -> tuple[PodsOnNode, ...] | None:
        """Nodes for a requirement; OutOfSteps: unknown."""
        if flat.applies(capacity, requirement):
            return flat.assign_nodes(capacity, requirement, self.snapshot.topologies, allowance)
        work = partial(find, self.search(capacity, allowance=allowance), requirement)
        return self.recall.find(capacity, requirement, allowance, work)

    def find_core(
        self, capacity: Capacity, requirement: Requirement, allowance: Ints | None = None
    ) -> Placement | None:
        """Nodes for a core, chosen so that most of its extras can follow (X4); OutOfSteps: unknown."""
        if flat.applies(capacity, requirement, growing=True):
            assignment = flat.assign_nodes(capacity, requirement, self.snapshot.topologies, allowance)
            return None if assignment is None else Placement(assignment)
        work = partial(find_with_growth, self.search(capacity, allowance=allowance), requirement)
        return self.recall.find(capacity, requirement, allowance, work)

    def are_free(self, assignment: Sequence[PodsOnNode]) -> bool:
        """Whether the whole assignment is free now."""
        supposed = SupposedCapacity(self.now)
        for assigned in assignment:
            if supposed.fits_in(assigned.pod_class, np.array([assigned.node]))[0] < assigned.pods:
                return False
            supposed.put(assigned.node, assigned.pod_class, assigned.pods)
        return True

    def charge_to(self, gang: str) -> None:
        """Charge all further searches to the budget of this gang (X7)."""
        gang_budget = self.gang_budgets.get(gang)
        if gang_budget is None:
            gang_budget = self.gang_budgets[gang] = self.budget.grant(self.policy.steps)
        if self.budget.is_used_up:
            is_beyond = self.budget.spent > self.policy.cycle_steps + self.policy.cycle_steps // EASY_PART
            gang_budget.keep(0 if is_beyond else EASY_STEPS)
        self.gang_budget = gang_budget

    def search(self, capacity: Capacity, allowance: Ints | None = None) -> Search:
        """A search on a capacity, paid from the budget of the current gang."""
        return Search(capacity, self.snapshot.topologies, self.kinds, self.gang_budget, allowance=allowance)

    def pod_class(self, gang: Gang, pod: str) -> int:
        """The class of a pod of a gang."""
        return self.snapshot.class_of[f"{gang.namespace}/{pod}"]

    def requested(self, assignment: Iterable[PodsOnNode]) -> Resources:
        """The total requests of an assignment."""
        total = np.zeros(len(self.snapshot.columns), dtype=np.int64)
        for assigned in assignment:
            total += self.pod_classes.requests[assigned.pod_class] * assigned.pods
        return self.amounts(total)

    def amounts(self, by_column: Ints) -> Resources:
        """Amounts by column as resources, without those that queues do not share."""
        return Resources({name: int(by_column[i]) for i, name in self._resources if by_column[i]})

    def allowance(self, gang: Gang, extra: bool = False) -> Ints | None:
        """What the queue still allows to a gang's core, or to its extras."""
        preemptible = gang.preemptibility == PREEMPTIBLE or (extra and gang.preemptibility != NON_PREEMPTIBLE)
        return self.usage.allowance(gang.queue, protected=not preemptible)

    def quota_excess(self, gang: Gang, assignment: Sequence[PodsOnNode]) -> Excess | None:
        """The quota that its non-preemptible pods would exceed (Q4): with new pods, placed ones may become core."""
        if gang.preemptibility == PREEMPTIBLE:
            return None
        more = self.protected_increase(gang, self.with_placed(gang, assignment), self.requested(assignment))
        return over_quota_non_preemptible(self.usage.tree, self.usage.protected, gang.queue, more)

    # one gang's work --------------------------------------------------------------------------------------------------

    def attempt(self, gang: str, work: Callable[[], T]) -> T | Failure:
        """Do work for one gang; where it fails, roll back and record the failure of that gang.

        Cancelled, OutOfSteps and MemoryError are no failures: they are raised.
        """
        self._checkpoint, self._is_attempting = None, True
        try:
            return work()
        except (Cancelled, OutOfSteps, MemoryError):
            self._roll_back()
            raise
        except Exception as error:
            self._roll_back()
            self.failures[gang] = _failure(gang, error)
            return self.failures[gang]
        finally:
            self._checkpoint, self._is_attempting = None, False

    def save(self) -> None:
        """Make a checkpoint before several writes that belong together; a single write needs none."""
        if self._is_attempting and self._checkpoint is None:
            now = self.now.copy()
            later = now if self.later is self.now else self.later.copy()
            rows = (self._unbound.copy(), self._awaited.copy())
            self._checkpoint = Checkpoint(now, later, *rows, self.usage, self.gang_states.copy(), len(self.busy))

    def _roll_back(self) -> None:
        if (saved := self._checkpoint) is not None:
            self.now, self.later, self.gang_states = saved.now, saved.later, saved.gang_states
            self._unbound, self._awaited, self.usage = saved.unbound, saved.awaited, saved.usage
            del self.busy[saved.busy :]
            self.version += 1

    # writing --------------------------------------------------------------------------------------------------------

    def split_later(self) -> None:
        """From here on `later` is a capacity of its own."""
        if self.later is self.now:
            self.later = self.now.copy()
            self._unbound = self.now.free.copy()
            self._awaited = np.zeros_like(self._unbound)

    def take(self, assignment: Iterable[tuple[int, int, int]], sign: int = 1, is_promised: bool = False) -> None:
        """Take capacity for (node, class, pods) now and later, or with `sign=-1` give it back.

        What is promised is taken from `later`; from `now` only as far as `later` has no more (P8).
        """
        self.version += 1
        for node, pod_class, count in assignment:
            if self.later is self.now:
                self.now.put(node, pod_class, sign * count)
                continue
            self.later.put(node, pod_class, sign * count)
            self.now.count_pods(node, pod_class, sign * count)
            if not is_promised:
                self._unbound[node] -= self.pod_classes.requests[pod_class] * sign * count
            self._update_now(node)

    def reserve(self, node: int, amounts: Ints) -> None:
        """Reserve amounts on a node for pods that do not exist yet; negative amounts give them back."""
        self.split_later()
        self.version += 1
        self.later.hold(node, amounts)
        self._update_now(node)

    def expect_later(self, assignment: Iterable[PodsOnNode], sign: int = 1) -> None:
        """Take from `later` alone what a gang will need once terminating pods are gone; `sign=-1` gives it back."""
        self.version += 1
        for assigned in assignment:
            self._awaited[assigned.node] += self.pod_classes.requests[assigned.pod_class] * assigned.pods * sign
            self.later.put(assigned.node, assigned.pod_class, assigned.pods * sign)

    def will_be_free(self, assignment: Iterable[PodsOnNode]) -> bool:
        """Whether no placement since took what was expected to become free."""
        return all((self.later.free[assigned.node] >= 0).all() for assigned in assignment)

    def _update_now(self, node: int) -> None:
        """Recompute what may be bound on a node: free now, and not reserved for a nomination."""
        self.now.set_free(node, np.minimum(self._unbound[node], self.later.free[node] + self._awaited[node]))

    def bind(self, gang_state: GangState, assignment: Sequence[PodsOnNode], role: Role) -> GangState:
        """Bind pods of a gang to free nodes."""
        bindings, gang = assign_pods(self.snapshot, gang_state.gang, assignment, role)
        requests = self.requested(assignment)
        self.grant(gang, assignment, requests, self.protected_increase(gang_state.gang, gang, requests))
        return replace(gang_state, gang=gang, bindings=(*gang_state.bindings, *bindings))

    def nominate(self, gang_state: GangState, assignment: Sequence[PodsOnNode]) -> GangState:
        """Nominate pods of a gang on nodes that are still being freed."""
        nominations, gang = assign_pods(self.snapshot, gang_state.gang, assignment, "core")
        requests = self.requested(assignment)
        protected = self.protected_increase(gang_state.gang, gang, requests)
        self.split_later()
        self.grant(gang, assignment, requests, protected, is_promised=True)
        return replace(gang_state, gang=gang, verdict="Scheduled", nominations=(*gang_state.nominations, *nominations))

    def grant(
        self,
        gang: Gang,
        assignment: Sequence[PodsOnNode],
        requests: Mapping[str, int],
        protected: Mapping[str, int],
        is_promised: bool = False,
    ) -> None:
        """Take an assignment from nodes and queue. Callers compute everything else before this first write."""
        self.busy.append(gang.key)
        self.take(
            ((assigned.node, assigned.pod_class, assigned.pods) for assigned in assignment), is_promised=is_promised
        )
        if gang.queue in self.usage.tree.nodes:
            self.usage = self.usage.with_(gang.queue, requests, protected, is_promised)

    def grant_all(
        self,
        gang_states: Mapping[str, GangState],
        pod_class: int,
        counts: Mapping[int, int],
        requests: Mapping[str, int],
    ) -> None:
        """Take the cores of equal gangs of one queue: pods of one class without inter-pod rules, counted by node."""
        gang = next(iter(gang_states.values())).gang
        self.version += 1
        if self.later is self.now:
            self.now.put_packed(pod_class, counts)
        else:
            self.take((node, pod_class, count) for node, count in counts.items())
        self.usage = self.usage.with_(gang.queue, requests, requests if gang.preemptibility == NON_PREEMPTIBLE else {})
        for key, gang_state in gang_states.items():
            self.charge_to(key)
            self.busy.append(key)
            self.gang_states[key] = gang_state

    def protected_increase(self, before: Gang, after: Gang, requests: Mapping[str, int]) -> Mapping[str, int]:
        """How much more of a gang is non-preemptible (P3, E2)."""
        match before.preemptibility:
            case kind if kind == NON_PREEMPTIBLE:
                return requests
            case kind if kind == SEMI_PREEMPTIBLE:
                had, has = resources(non_preemptible(before)), resources(non_preemptible(after))
                return {name: has.get(name, 0) - had.get(name, 0) for name in (*had, *has)}
            case _:
                return {}

    def with_placed(self, gang: Gang, assignment: Sequence[PodsOnNode]) -> Gang:
        """The gang with the assigned pods placed."""
        return assign_pods(self.snapshot, gang, assignment, "core")[1]

    def evict(
        self, key: str, pods: Pods, reason: EvictionReason, preemptor: str, proof: Proof = "", short: str = ""
    ) -> None:
        """Evict pods of a gang: their capacity is free later. `short`: the SubGroup for which a gang is released."""
        self.save()
        self.version += 1
        gang_state = self.gang_states[key]
        gang = gang_state.gang
        self.split_later()
        evictions = []
        for leaf, member in pods:
            identity = (gang.namespace, member.name, member.node, gang.name, leaf)
            evictions.append(Eviction(*identity, reason=reason, preemptor=preemptor, proof=proof, short=short))
            self.free(self.later, gang, member)
            if member.node in self.snapshot.node_index:
                self._update_now(self.snapshot.node_index[member.node])
        gone = {(leaf, member.name): replace(member, state=PodState.TERMINATING) for leaf, member in pods}
        after = with_members(gang, gone)
        if gang.queue in self.usage.tree.nodes:
            held = resources(member for _, member in pods)
            left = {member.name for member in gang.leftovers}  # never protected (N4)
            protectable = resources(member for _, member in pods if member.name not in left)
            less = self.protected_increase(gang, after, {name: -amount for name, amount in protectable.items()})
            terminating = protectable if gang.preemptibility == NON_PREEMPTIBLE else {}
            self.usage = self.usage.evicted(gang.queue, held, less, terminating)
        self.gang_states[key] = replace(gang_state, gang=after, evictions=(*gang_state.evictions, *evictions))

    def reserve_new_places(self, key: str, pods: Pods) -> None:
        """Reserve the new places of evicted pods, on nodes and in their queue."""
        gang = self.gang_states[key].gang
        nodes = self.snapshot.node_index
        places = ((nodes[member.node], self.pod_class(gang, member.name), 1) for _, member in pods)
        self.take(places, is_promised=True)
        if gang.queue in self.usage.tree.nodes:
            self.usage = self.usage.with_(gang.queue, resources(member for _, member in pods), is_promised=True)

    def free(self, capacity: Capacity, gang: Gang, member: Member) -> None:
        """Release the capacity of a placed pod; a node that no longer exists has none."""
        node = self.snapshot.node_index.get(member.node)
        if node is not None:
            capacity.release(node, self.pod_class(gang, member.name), self.rule_matches(gang, member))

    def rule_matches(self, gang: Gang, member: Member) -> RuleMatches:
        """The inter-pod rules that select or come with a placed pod."""
        return self.snapshot.inter_pod_rules.running.get(f"{gang.namespace}/{member.name}", RuleMatches())

    def _unmark_terminating(self, pod: str, node: str) -> None:
        rule_matches = self.snapshot.inter_pod_rules.running.get(pod)
        if rule_matches is not None:
            self.later.uncount_pod(self.snapshot.node_index[node], rule_matches)


def _failure(gang: str, error: Exception) -> Failure:
    message = " ".join(str(error).split())[:LONGEST_MESSAGE]
    return Failure(gang, type(error).__name__, message, "".join(format_exception(error, limit=-FRAMES)))

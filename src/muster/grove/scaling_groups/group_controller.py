"""PodCliqueScalingGroups as Grove's operator reconciles them: the cliques of each replica.

Rule 1: the number of replicas is the group's own, as it was scaled last. Rule 2: a replica that is below its minimum
for too long is recreated here, if the others are enough for the group; otherwise the set recreates all of it.
"""

from collections.abc import Iterator
from datetime import datetime
from itertools import chain

from msgspec.structs import replace

from muster.api.fields import integer
from muster.api.resources import POD_CLIQUE_SCALING_GROUPS, POD_CLIQUE_SETS, POD_CLIQUES, PODS, Resource
from muster.grove.clique_objects import clique_object, clique_update
from muster.grove.cliques.clique_status import holds_minimum
from muster.grove.events import GROUP_REPLICA_TERMINATED, scale_events, termination_event
from muster.grove.health import clique_health, is_breached
from muster.grove.last_errors import with_last_error
from muster.grove.scaling_groups.group_rollout import plan_group_rollout
from muster.grove.scaling_groups.group_status import group_status
from muster.grove.scaling_groups.group_view import GroupReplicaView, GroupView, MemberView, view_group
from muster.grove.termination import (
    BreachWait,
    next_removals,
    shortest,
    termination_delay,
    wait_for,
    wait_for_status,
)
from muster.workloads.operators.objects import bounded, name_of, removal
from muster.workloads.pod_templates import is_terminating
from muster.workloads.types import Action, Children, Controller, Create, Raw, Reconciliation


def reconcile(pcsg: Raw, children: Children, now: datetime) -> Reconciliation:
    """Creates, updates and removes the cliques of a group; reports how its replicas fare."""
    group = None if is_terminating(pcsg) else view_group(pcsg, children)
    if group is None:
        return Reconciliation()
    rollout = plan_group_rollout(group, now)
    waits = {} if rollout.is_under_way else _waits(group, children, now)
    expired = [group.replicas[index] for index, wait in waits.items() if wait.is_over]
    terminated = (clique for replica in expired for clique in _terminated(group, replica, children, now))
    actions = chain(
        (removal(POD_CLIQUES, clique) for clique in group.surplus if not is_terminating(clique)),
        (removal(POD_CLIQUES, clique) for clique in chain(rollout.doomed, terminated)),
        _updates(group),
        _creations(group),
    )
    existing = sum(len(replica.members) for replica in group.replicas)
    events = (*termination_event(GROUP_REPLICA_TERMINATED, [each.index for each in expired]), *scale_events(pcsg))
    status = group_status(group, rollout, now)
    again = shortest((*waits.values(), _late_status(group, children, now)))
    return replace(bounded(actions, existing, status, again), events=events)


def _waits(group: GroupView, children: Children, now: datetime) -> dict[int, BreachWait]:
    """How long it is until each replica is recreated; none is if the others would not be enough."""
    delay = termination_delay(group.pcs)
    waits = {replica.index: wait_for(_short(replica, children), delay, now) for replica in group.replicas}
    waits = {index: wait for index, wait in waits.items() if wait.seconds is not None}
    held = sum(
        replica.health.is_scheduled and not replica.health.is_breached and replica.index not in waits
        for replica in group.replicas
    )
    return waits if held >= group.minimum else {}


def _short(replica: GroupReplicaView, children: Children) -> Iterator[Raw]:
    """Cliques below their minimums, as their pods say, too: a status is written later."""
    for clique in replica.present():
        if is_breached(clique) and not holds_minimum(clique, children.of(clique, PODS)):
            yield clique


def _late_status(group: GroupView, children: Children, now: datetime) -> BreachWait:
    """How long it is until cliques are looked at again whose pods are back, though their status does not say so yet."""
    breached = (clique for replica in group.replicas for clique in replica.present() if is_breached(clique))
    back = (clique for clique in breached if holds_minimum(clique, children.of(clique, PODS)))
    return wait_for_status(back, termination_delay(group.pcs), now)


def _terminated(group: GroupView, replica: GroupReplicaView, children: Children, now: datetime) -> list[Raw]:
    """What goes now of a replica that is recreated."""
    delay = termination_delay(group.pcs)
    over = [clique for clique in _short(replica, children) if wait_for((clique,), delay, now).is_over]
    return next_removals(replica.present(), over)


def _updates(group: GroupView) -> Iterator[Action]:
    """What changes in place: all but the pods, or all of it where pods are replaced when they are deleted."""
    for member in _members(group):
        if member.clique is not None and not is_terminating(member.clique):
            wanted = clique_object(group.pcsg, group.pcs, member.layout, group.hashes)
            is_current = clique_health(member.clique, group.hashes.of(member.layout)).has_template
            with_template = group.may_update and (group.pcs.spec.updates_on_delete or is_current)
            if update := clique_update(member.clique, wanted, with_template=with_template):
                yield update


def _creations(group: GroupView) -> Iterator[Action]:
    for member in _members(group):
        if member.clique is None:
            yield Create(POD_CLIQUES, clique_object(group.pcsg, group.pcs, member.layout, group.hashes))


def _members(group: GroupView) -> Iterator[MemberView]:
    return (member for replica in group.replicas for member in replica.members)


def _related(_resource: Resource, pcs: Raw, children: Children) -> Iterator[tuple[str, str]]:
    """The groups of a set whose spec changed; its status, which changes with every replica, does not concern them."""
    if integer(pcs, "metadata.generation", 1) == integer(pcs, "status.observedGeneration"):
        return
    for group in children.of(pcs, POD_CLIQUE_SCALING_GROUPS):
        yield group["metadata"].get("namespace", ""), name_of(group)


CONTROLLER = Controller(
    POD_CLIQUE_SCALING_GROUPS,
    reconcile,
    children=(POD_CLIQUES,),
    failed=with_last_error,
    watches=(POD_CLIQUE_SETS,),
    related=_related,
)

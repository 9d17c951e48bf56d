"""The controller of PodGangs: references its pods, makes its PodGroup, lifts gates (R1), pins (R3), and reports.

`CONTROLLER` runs with muster's own operator. `bridge_controller` runs beside another operator of Grove: that one keeps
references and gates, and here the PodGroup is made, pods are marked and pinned, and the status is written.
Rule: a gang is looked at when something changes that concerns it, and again after some time only for what no event
announces.
"""

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from functools import partial
from itertools import chain

from muster.api import names
from muster.api.resources import (
    CLUSTER_TOPOLOGY_BINDINGS,
    NODES,
    POD_CLIQUE_SCALING_GROUPS,
    POD_CLIQUE_SETS,
    POD_CLIQUES,
    POD_GANGS,
    POD_GROUPS,
    PODS,
    TOPOLOGIES,
)
from muster.grove.gangs.bridge_pins import pin_actions, pinned_condition
from muster.grove.gangs.cliques import GangClique, gated_pods, read_cliques, read_referenced
from muster.grove.gangs.concerned_gangs import related
from muster.grove.gangs.domains import topology_name
from muster.grove.gangs.gang_status import ObservedGang, failed, gang_status, is_initialized
from muster.grove.gangs.gates import (
    BASE_NOT_SCHEDULED,
    GateHold,
    base_of,
    growing_seconds,
    lift_gate,
    missing_pods,
    pods_left,
    say_waiting,
    seconds_to_say,
    seconds_waited,
    unscheduled_base,
)
from muster.grove.gangs.membership import has_our_pods, membership_actions
from muster.grove.gangs.pins import PLACE_UNKNOWN, Pin, conflict, find_pin, pinned_elsewhere
from muster.grove.gangs.placement_score import placement_score
from muster.grove.gangs.pod_group_bridge import own_pod_group, pod_group_actions, unbridgeable
from muster.grove.gangs.references import as_updated, has_references, references_update
from muster.workloads.operators.objects import bounded
from muster.workloads.pod_templates import is_terminating
from muster.workloads.types import Action, Children, Controller, Raw, Reconciliation

LOOK_AGAIN_SECONDS, MOST_SECONDS = 15.0, 300.0
WATCHED_BESIDE = (
    PODS,
    POD_GROUPS,
    POD_CLIQUES,
    POD_CLIQUE_SETS,
    POD_CLIQUE_SCALING_GROUPS,
    CLUSTER_TOPOLOGY_BINDINGS,
    TOPOLOGIES,
    NODES,
)
WATCHED = (*WATCHED_BESIDE, POD_GANGS)


def reconcile(gang: Raw, children: Children, now: datetime, pool_label: str = names.NODE_POOL) -> Reconciliation:
    """References pods, makes the PodGroup, and lifts the gates of all pods, or says what they wait for."""
    if is_terminating(gang):
        return Reconciliation()
    cliques = read_cliques(gang, children)
    flaw, missing = unbridgeable(gang, cliques, children), missing_pods(cliques)
    if missing and not has_references(gang) and (seconds := growing_seconds(gang, cliques, now)) > 0:
        return Reconciliation(again_after_seconds=seconds)
    gated = [*gated_pods(cliques)]
    base = base_of(gang, cliques, children)
    pin = _find_pin(base, cliques, children) if gated else {}
    left = pods_left(gang, children) if gated else None
    hold = flaw or missing or left or (pin if isinstance(pin, GateHold) else conflict(gated, pin))
    labels = {} if isinstance(pin, GateHold) else pin
    update = references_update(gang, cliques)
    actions = chain(
        (update,) if update else (),
        () if flaw else _pod_group_actions(gang, cliques, children, pool_label),
        pinned_elsewhere(cliques, base, children) if isinstance(base, dict) else (),
        (lift_gate(pod, labels) for pod in gated) if hold is None else say_waiting(gated, hold, now),
    )
    state = ObservedGang(as_updated(gang, update), cliques, hold, own_pod_group(gang, children))
    again = _again(hold, gated, now) if hold is not None else None
    return bounded(actions, _count(cliques), _status(state, children, now), again)


def _again(hold: GateHold, gated: Sequence[Raw], now: datetime) -> float | None:
    """When to look again: labels of nodes and Topologies change without a word to gangs, and events may be missed."""
    waits = [seconds_to_say(gated, now)]
    if hold.reason in PLACE_UNKNOWN:
        waits.append(LOOK_AGAIN_SECONDS)
    elif hold.reason == BASE_NOT_SCHEDULED:
        waits.append(min(max(LOOK_AGAIN_SECONDS, seconds_waited(gated, now)), MOST_SECONDS))
    return min((seconds for seconds in waits if seconds is not None), default=None)


def _find_pin(base: Raw | GateHold | None, cliques: Sequence[GangClique], children: Children) -> Pin | GateHold:
    """The labels that pods of a scaled gang are pinned by, or what they wait for."""
    if base is None or isinstance(base, GateHold):
        return base or {}
    return unscheduled_base(base, children) or find_pin(base, cliques, children)


def _pod_group_actions(
    gang: Raw, cliques: Sequence[GangClique], children: Children, pool_label: str
) -> Iterator[Action]:
    """A gang is decided only when its pods were all there once, or are enough for every minimum."""
    is_decided = own_pod_group(gang, children) is not None or is_initialized(gang, cliques)
    if is_decided or all(clique.is_covered for clique in cliques):
        yield from pod_group_actions(gang, cliques, _topology(gang, cliques, children), children, pool_label)


def _topology(gang: Raw, cliques: Sequence[GangClique], children: Children) -> str:
    return topology_name(gang, next((clique.scheduler for clique in cliques), ""), children)


def _count(cliques: Sequence[GangClique]) -> int:
    return sum(len(clique.live) for clique in cliques)


def _status(state: ObservedGang, children: Children, now: datetime) -> Raw:
    score = None
    if state.is_scheduled:
        topology = _topology(state.gang, state.cliques, children)
        score = placement_score(state.gang, state.cliques, topology, children)
    return gang_status(state, score, now)


# beside another operator --------------------------------------------------------------------------------------------


def bridge_controller(schedulers: Collection[str], pool_label: str = names.NODE_POOL) -> Controller:
    """The controller beside another operator of Grove, for pods of these schedulers."""

    def bridge(gang: Raw, children: Children, now: datetime) -> Reconciliation:
        return reconcile_beside(gang, children, now, schedulers, pool_label)

    return Controller(POD_GANGS, bridge, (POD_GROUPS,), failed=failed, watches=WATCHED_BESIDE, related=related)


def reconcile_beside(
    gang: Raw, children: Children, now: datetime, schedulers: Collection[str], pool_label: str = names.NODE_POOL
) -> Reconciliation:
    """Makes the PodGroup, marks and pins pods of ours and reports; a gang that has none is left alone (N6)."""
    cliques = read_referenced(gang, children)
    pod_group = own_pod_group(gang, children)
    has_pods = has_our_pods(gang, cliques, schedulers)
    if is_terminating(gang) or not (has_pods or pod_group):
        return Reconciliation()
    flaw = unbridgeable(gang, cliques, children)
    base = base_of(gang, cliques, children)
    actions = chain(
        () if flaw else _pod_group_actions(gang, cliques, children, pool_label),
        membership_actions(gang, cliques, schedulers),
        pin_actions(base, cliques, schedulers, children),
    )
    pinned = pinned_condition(base, cliques, schedulers, children)
    state = ObservedGang(gang, cliques, flaw or missing_pods(cliques), pod_group, is_made_here=False, pinned=pinned)
    return bounded(actions, _count(cliques), _status(state, children, now))


def build_controller(pool_label: str = names.NODE_POOL) -> Controller:
    """The controller beside muster's own operator; `pool_label` names the shard of a set."""
    decide = partial(reconcile, pool_label=pool_label)
    return Controller(POD_GANGS, decide, (POD_GROUPS,), failed=failed, watches=WATCHED, related=related)


CONTROLLER = build_controller()

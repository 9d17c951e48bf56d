"""LeaderWorkerSets as their operator (v0.7) reconciles them.

A StatefulSet makes the leaders; each leader owns a StatefulSet of its workers, so that the workers go with it. With
`startupPolicy: LeaderReady` workers wait for a ready leader, with exclusive topology for one that has a node.
Rule: pods are made by StatefulSets alone; here they only get labels that the operator's webhook did not add.

Simpler than the operator: no ControllerRevisions (workers of a leader with an old template get the new one, until the
leader is updated as well), workers of an exclusive group follow their leader by affinity, not by a node selector, and
replicas have indexes, with `groupIdentity: Hash` too.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from itertools import chain

from msgspec import Struct

from muster.api.fields import at, integer, items, mapping, number, text, texts
from muster.api.resources import LEADER_WORKER_SETS, PODS, SERVICES, STATEFUL_SETS
from muster.workloads.operators import leader_worker_pods as pods
from muster.workloads.operators.conditions import (
    WorkloadCondition,
    has_restarted,
    is_running_and_ready,
    set_condition,
)
from muster.workloads.operators.leader_worker_rollout import GroupState, RolloutStep, next_step
from muster.workloads.operators.objects import (
    MOST_CHILDREN,
    bounded,
    child,
    headless_service,
    labelled_template,
    merge_patch,
    name_of,
    removal,
)
from muster.workloads.pod_templates import is_ready, is_terminating, template_hash
from muster.workloads.types import Action, Children, Controller, Create, Raw, Reconciliation, Update

_TEMPLATE = "spec.leaderWorkerTemplate"
_AVAILABLE = WorkloadCondition("Available", "AllGroupsReady", "every group is ready")
_PROGRESSING = WorkloadCondition("Progressing", "GroupsProgressing", "groups are being created")
_UPDATING = WorkloadCondition("UpdateInProgress", "GroupsUpdating", "groups are being updated")


class LeaderGroup(Struct, frozen=True):
    """One replica of a LeaderWorkerSet: a leader and what it owns."""

    index: int
    leader: Raw
    worker_set: Raw | None
    workers: Sequence[Raw]


def reconcile(lws: Raw, children: Children, now: datetime) -> Reconciliation:
    """Creates the leader StatefulSet, the service, and the workers of each leader; restarts groups; reports."""
    if is_terminating(lws):
        return Reconciliation()
    leader_set = next((raw for raw in children.of(lws, STATEFUL_SETS) if name_of(raw) == name_of(lws)), None)
    groups = [] if leader_set is None else [_group(pod, children) for pod in children.of(leader_set, PODS)]
    revision = _revision(lws)
    states = {group.index: _state(lws, group, revision) for group in groups if group.index >= 0}
    actions = chain(
        _leader_set_actions(lws, leader_set, states, revision),
        _service_actions(lws, children),
        _all_groups_actions(lws, groups, children),
    )
    return bounded(actions, len(groups), _status(lws, leader_set, groups, states, now))


def _size(lws: Raw) -> int:
    return max(1, min(integer(lws, f"{_TEMPLATE}.size", 1), MOST_CHILDREN))


def _replicas(lws: Raw) -> int:
    return min(integer(lws, "spec.replicas", 1), MOST_CHILDREN // _size(lws))


def _has_service_per_replica(lws: Raw) -> bool:
    return text(lws, "spec.networkConfig.subdomainPolicy") == pods.UNIQUE_PER_REPLICA


def _revision(lws: Raw) -> str:
    subdomain = text(lws, "spec.networkConfig.subdomainPolicy") or "Shared"
    return template_hash([mapping(lws, _TEMPLATE), subdomain])


def _group(leader: Raw, children: Children) -> LeaderGroup:
    worker_set = next(iter(children.of(leader, STATEFUL_SETS)), None)
    workers = children.of(worker_set, PODS) if worker_set else ()
    index = number(name_of(leader).rpartition("-")[2])
    return LeaderGroup(-1 if index is None else index, leader, worker_set, workers)


def _state(lws: Raw, group: LeaderGroup, revision: str) -> GroupState:
    parts = [group.leader] if _size(lws) == 1 else [group.leader, group.worker_set or {}]
    return GroupState(
        is_ready=is_running_and_ready(group.leader) and (_size(lws) == 1 or _are_workers_ready(group.worker_set)),
        is_updated=all(texts(part, "metadata.labels").get(pods.REVISION) == revision for part in parts),
    )


def _are_workers_ready(worker_set: Raw | None) -> bool:
    return worker_set is not None and integer(worker_set, "spec.replicas") == integer(
        worker_set, "status.readyReplicas"
    )


# the leader StatefulSet ---------------------------------------------------------------------------------------------


def _leader_set_actions(
    lws: Raw, leader_set: Raw | None, states: dict[int, GroupState], revision: str
) -> Iterator[Action]:
    is_new = leader_set is not None and texts(leader_set, "metadata.labels").get(pods.REVISION) != revision
    present = 0 if leader_set is None else min(integer(leader_set, "spec.replicas", 1), MOST_CHILDREN)
    ordered = [states.get(index, GroupState()) for index in range(present)]
    step = next_step(lws, _replicas(lws), leader_set, ordered, is_new=is_new)
    wanted = _leader_set(lws, step, revision)
    if leader_set is None:
        yield Create(STATEFUL_SETS, wanted)
    elif patch := _leader_set_patch(leader_set, wanted, is_new=is_new):
        yield Update(STATEFUL_SETS, text(lws, "metadata.namespace"), name_of(lws), patch)


def _leader_set(lws: Raw, step: RolloutStep, revision: str) -> Raw:
    labels = {pods.SET_NAME: name_of(lws), pods.REVISION: revision}
    selector = {pods.SET_NAME: name_of(lws), pods.WORKER_INDEX: pods.LEADER}
    template = mapping(lws, f"{_TEMPLATE}.leaderTemplate") or mapping(lws, f"{_TEMPLATE}.workerTemplate")
    unavailable = at(lws, "spec.rolloutStrategy.rollingUpdateConfiguration.maxUnavailable")
    strategy = {"maxUnavailable": unavailable if unavailable is not None else 1, "partition": step.partition}
    spec = {
        "serviceName": name_of(lws),
        "replicas": step.replicas,
        "podManagementPolicy": "Parallel",
        "template": labelled_template(template, {**selector, pods.REVISION: revision}, _leader_annotations(lws)),
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": strategy},
        "selector": {"matchLabels": selector},
    }
    annotations = {pods.REPLICAS: str(_replicas(lws))}
    return child(lws, STATEFUL_SETS, name_of(lws), spec, labels=labels, annotations=annotations)


def _leader_annotations(lws: Raw) -> dict[str, str]:
    annotations = {pods.SIZE: str(_size(lws)), **_exclusive_annotation(lws), **pods.subgroup_annotations(lws)}
    if mapping(lws, f"{_TEMPLATE}.subGroupPolicy"):
        kind = text(lws, f"{_TEMPLATE}.subGroupPolicy.subGroupPolicyType")
        annotations[pods.SUBGROUP_POLICY] = kind or "LeaderWorker"
    if _has_service_per_replica(lws):
        annotations[pods.SUBDOMAIN_POLICY] = pods.UNIQUE_PER_REPLICA
    return annotations


def _exclusive_annotation(lws: Raw) -> dict[str, str]:
    topology = texts(lws, "metadata.annotations").get(pods.EXCLUSIVE)
    return {pods.EXCLUSIVE: topology} if topology else {}


def _leader_set_patch(present: Raw, wanted: Raw, *, is_new: bool) -> Raw:
    """What changes in the leader StatefulSet: its size and its rollout; the template only with a new revision."""
    patch: Raw = {}
    metadata = {
        field: merge
        for field in ("labels", "annotations")
        if (merge := _differing(texts(present, f"metadata.{field}"), wanted["metadata"][field]))
    }
    spec = _differing({"replicas": at(present, "spec.replicas")}, {"replicas": wanted["spec"]["replicas"]})
    strategy = wanted["spec"]["updateStrategy"]
    partition = integer(present, "spec.updateStrategy.rollingUpdate.partition")
    if is_new or partition != strategy["rollingUpdate"]["partition"]:
        spec["updateStrategy"] = strategy
    if is_new:
        spec["template"] = merge_patch(mapping(present, "spec.template"), wanted["spec"]["template"])
    if metadata:
        patch["metadata"] = metadata
    if spec:
        patch["spec"] = spec
    return patch


def _differing(present: Raw, wanted: Raw) -> Raw:
    return {name: value for name, value in wanted.items() if present.get(name) != value}


# services -----------------------------------------------------------------------------------------------------------


def _service_actions(lws: Raw, children: Children) -> Iterator[Action]:
    if not _has_service_per_replica(lws) and not children.of(lws, SERVICES):
        labels = {pods.SET_NAME: name_of(lws)}
        yield Create(SERVICES, headless_service(lws, name_of(lws), labels, labels))


def _replica_service_actions(lws: Raw, leader: Raw, children: Children) -> Iterator[Action]:
    if not children.of(leader, SERVICES):
        labels = {pods.SET_NAME: name_of(lws)}
        selector = {**labels, pods.GROUP_INDEX: texts(leader, "metadata.labels").get(pods.GROUP_INDEX, "")}
        yield Create(SERVICES, headless_service(leader, name_of(leader), selector, labels))


# groups -------------------------------------------------------------------------------------------------------------


def _all_groups_actions(lws: Raw, groups: Sequence[LeaderGroup], children: Children) -> Iterator[Action]:
    """Actions of one type for all groups follow each other, so that they are performed at once."""
    for group in groups:
        yield from _label_actions(chain((group.leader,), group.workers))
    lost = {group.index for group in groups if _restarts_group(lws) and _has_lost_pods(group)}
    alive = [group for group in groups if not is_terminating(group.leader)]
    yield from (removal(PODS, group.leader) for group in alive if group.index in lost)
    whole = [(_completed(group.leader), group) for group in alive if group.index not in lost]
    if _has_service_per_replica(lws):
        for leader, _ in whole:
            yield from _replica_service_actions(lws, leader, children)
    for leader, group in whole:
        if _size(lws) > 1 and group.worker_set is None and _may_have_workers(lws, leader):
            yield Create(STATEFUL_SETS, _worker_set(lws, leader))


def _completed(leader: Raw) -> Raw:
    return pods.complete_pod(leader) if pods.missing_labels(leader) else leader


def _label_actions(members: Iterable[Raw]) -> Iterator[Action]:
    for pod in members:
        if labels := pods.missing_labels(pod):
            patch = {"metadata": {"labels": labels}}
            yield Update(PODS, text(pod, "metadata.namespace"), name_of(pod), patch)


def _restarts_group(lws: Raw) -> bool:
    policy = text(lws, f"{_TEMPLATE}.restartPolicy")
    return policy in ("", "RecreateGroupOnPodRestart")


def _has_lost_pods(group: LeaderGroup) -> bool:
    """Whether a container of the group restarted, or a worker is being deleted."""
    lost = [pod for pod in group.workers if pod["metadata"].get("deletionTimestamp") or has_restarted(pod)]
    revision = texts(group.leader, "metadata.labels").get(pods.REVISION)
    is_current = (texts(pod, "metadata.labels").get(pods.REVISION) == revision for pod in lost)
    return any(is_current) or has_restarted(group.leader)


def _may_have_workers(lws: Raw, leader: Raw) -> bool:
    if text(lws, "spec.startupPolicy") == "LeaderReady" and not is_ready(leader):
        return False
    is_scheduled = bool(text(leader, "spec.nodeName")) or is_ready(leader)
    return is_scheduled or not _exclusive_annotation(lws)


def _worker_set(lws: Raw, leader: Raw) -> Raw:
    own = texts(leader, "metadata.labels")
    selector = {
        pods.GROUP_INDEX: own.get(pods.GROUP_INDEX, ""),
        pods.SET_NAME: name_of(lws),
        pods.GROUP_KEY: own.get(pods.GROUP_KEY, ""),
    }
    labels = {**selector, pods.REVISION: own.get(pods.REVISION, "")}
    spec = {
        "serviceName": name_of(leader) if _has_service_per_replica(lws) else name_of(lws),
        "replicas": _size(lws) - 1,
        "podManagementPolicy": "Parallel",
        "template": _worker_template(lws, leader, labels),
        "ordinals": {"start": 1},
        "selector": {"matchLabels": selector},
    }
    return child(leader, STATEFUL_SETS, name_of(leader), spec, labels=labels)


def _worker_template(lws: Raw, leader: Raw, labels: dict[str, str]) -> Raw:
    exclusive = _exclusive_annotation(lws)
    annotations = {pods.SIZE: str(_size(lws)), pods.LEADER_NAME: name_of(leader), **exclusive}
    template = mapping(lws, f"{_TEMPLATE}.workerTemplate")
    template = labelled_template(template, labels, {**annotations, **pods.subgroup_annotations(lws)})
    if exclusive:
        spec, key = mapping(template, "spec"), labels[pods.GROUP_KEY]
        template["spec"] = pods.exclusive_affinity(spec, pods.GROUP_KEY, key, exclusive[pods.EXCLUSIVE])
    return template


# status -------------------------------------------------------------------------------------------------------------


def _status(
    lws: Raw, leader_set: Raw | None, groups: Sequence[LeaderGroup], states: dict[int, GroupState], now: datetime
) -> Raw:
    complete = [group for group in groups if group.worker_set is not None or _size(lws) == 1]
    counted = [(group.index, states.get(group.index, GroupState())) for group in complete]
    return {
        **mapping(lws, "status"),
        "replicas": integer(leader_set, "status.replicas"),
        "readyReplicas": sum(state.is_ready for _, state in counted),
        "updatedReplicas": sum(state.is_updated for _, state in counted),
        "hpaPodSelector": f"{pods.SET_NAME}={name_of(lws)},{pods.WORKER_INDEX}={pods.LEADER}",
        "conditions": _conditions(lws, counted, now),
    }


def _conditions(lws: Raw, counted: Sequence[tuple[int, GroupState]], now: datetime) -> list[Raw]:
    partition = integer(lws, "spec.rolloutStrategy.rollingUpdateConfiguration.partition")
    own = [(index, state) for index, state in counted if index < _replicas(lws)]
    rolled = [state for index, state in own if index >= partition]
    change = partial(set_condition, now=now)
    conditions: list[Raw] = items(lws, "status.conditions")
    if not all(state.is_updated for state in rolled):
        conditions = change(conditions, _UPDATING, excluded=("Available",))
        return change(conditions, _PROGRESSING, excluded=("Available",))
    is_available = sum(state.is_ready for _, state in own) == _replicas(lws)
    if is_available and all(state.is_ready for state in rolled):
        return change(conditions, _AVAILABLE, excluded=("Progressing", "UpdateInProgress"))
    return change(conditions, _PROGRESSING, excluded=("Available",))


CONTROLLER = Controller(LEADER_WORKER_SETS, reconcile, children=(STATEFUL_SETS, PODS, SERVICES))

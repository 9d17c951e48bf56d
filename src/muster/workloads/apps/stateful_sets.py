"""StatefulSets: pods with ordinals, started and updated in their order.

Claims of `volumeClaimTemplates` are created, and never deleted.
"""

import re
from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from muster.api.fields import at, integer, items, mapping, text, texts
from muster.api.resources import CLAIMS, CONTROLLER_REVISIONS, PODS, STATEFUL_SETS
from muster.workloads.apps.replica_sets import remove_pod
from muster.workloads.apps.revisions import (
    REVISION_HASH,
    sorted_revisions,
    surplus_revisions,
    template_of,
    update_revision,
)
from muster.workloads.bursts import burst_beside
from muster.workloads.conditions import without_zeros
from muster.workloads.pod_templates import (
    count_or_percent,
    is_available,
    is_finished,
    is_ready,
    is_terminating,
    new_pod,
    phase,
    seconds_to_available,
)
from muster.workloads.types import Action, Children, Controller, Create, Raw, Reconciliation

POD_NAME = "statefulset.kubernetes.io/pod-name"  # label
POD_INDEX = "apps.kubernetes.io/pod-index"  # label
_ORDINAL = re.compile(r"(.*)-([0-9]{1,9})")


class StatefulSetState(Struct, frozen=True):
    """A StatefulSet with its pods and revisions, as one reconciliation sees them."""

    owner: Raw
    replicas: dict[int, Raw]  # by ordinal
    condemned: Sequence[Raw]  # pods beyond the replicas, highest ordinal first
    current: Raw  # the revision of pods that are not to be updated
    update: Raw  # the revision of the template
    now: datetime

    @property
    def count(self) -> int:
        """How many pods it is to have."""
        return integer(self.owner, "spec.replicas", 1)

    @property
    def ordinals(self) -> range:
        """The ordinals of its pods."""
        return _ordinals(self.owner)

    @property
    def burst(self) -> int:
        """How many pods one reconciliation creates."""
        return burst_beside(len(self.replicas))

    @property
    def is_ordered(self) -> bool:
        """Whether each pod waits for the ones before it."""
        return text(self.owner, "spec.podManagementPolicy") != "Parallel"

    @property
    def partition(self) -> int:
        """The lowest place among the pods that an update reaches."""
        return integer(self.owner, "spec.updateStrategy.rollingUpdate.partition")

    def is_healthy(self, pod: Raw) -> bool:
        """Whether a pod runs and has been ready for long enough."""
        is_steady = phase(pod) == "Running" and not is_terminating(pod)
        return is_steady and is_available(pod, integer(self.owner, "spec.minReadySeconds"), self.now)


def reconcile(owner: Raw, children: Children, now: datetime) -> Reconciliation:
    """Creates missing pods, deletes surplus ones and those of an old revision, in the order of their ordinals."""
    pods = children.of(owner, PODS)
    revisions = sorted_revisions(children.of(owner, CONTROLLER_REVISIONS))
    update, revised = update_revision(owner, revisions)
    current = next((raw for raw in revisions if _name(raw) == text(owner, "status.currentRevision")), update)
    state = _state(owner, pods, current, update, now)
    if is_terminating(owner):
        return Reconciliation(status=_status(state, pods))
    used = {_name(current), _name(update), *(_revision_of(pod) for pod in pods)}
    limit = integer(owner, "spec.revisionHistoryLimit", 10)
    actions = (*revised, *_manage(state), *surplus_revisions(revisions, used, limit))
    again = seconds_to_available(pods, integer(owner, "spec.minReadySeconds"), now)
    is_partial = state.count - len(state.replicas) > state.burst and not state.is_ordered
    return Reconciliation(actions, _status(state, pods), 0.0 if is_partial else again)


def _state(owner: Raw, pods: Sequence[Raw], current: Raw, update: Raw, now: datetime) -> StatefulSetState:
    by_ordinal = {ordinal: pod for pod in pods if (ordinal := ordinal_of(owner, pod)) is not None}
    ordinals = _ordinals(owner)
    replicas = {ordinal: pod for ordinal, pod in by_ordinal.items() if ordinal in ordinals}
    condemned = [by_ordinal[ordinal] for ordinal in sorted(by_ordinal, reverse=True) if ordinal not in replicas]
    return StatefulSetState(owner, replicas, condemned, current, update, now)


def _ordinals(owner: Raw) -> range:
    start = integer(owner, "spec.ordinals.start")
    return range(start, start + integer(owner, "spec.replicas", 1))


def ordinal_of(owner: Raw, pod: Raw) -> int | None:
    """The ordinal of a pod; None: its name is not one of this StatefulSet."""
    match = _ORDINAL.fullmatch(text(pod, "metadata.name"))
    return int(match[2]) if match and match[1] == _name(owner) else None


def _name(raw: Raw) -> str:
    return text(raw, "metadata.name")


def _revision_of(pod: Raw) -> str:
    return texts(pod, "metadata.labels").get(REVISION_HASH, "")


# pods ---------------------------------------------------------------------------------------------------------------


def _manage(state: StatefulSetState) -> Sequence[Action]:
    actions, waits = _fill(state)
    if waits:
        return actions
    condemned, waits = _shrink(state)
    actions = [*actions, *condemned]
    return actions if waits or actions else _roll(state)


def _fill(state: StatefulSetState) -> tuple[list[Action], bool]:
    """Creates missing pods and deletes those that ended; whether all else has to wait."""
    actions: list[Action] = []
    claims: list[Action] = []
    for ordinal in state.ordinals:
        if len(actions) >= state.burst:
            break
        pod = state.replicas.get(ordinal)
        if pod is None:
            claims += [Create(CLAIMS, claim) for claim in _new_claims(state.owner, ordinal)]
            actions.append(Create(PODS, _new_pod(state, ordinal)))
        elif is_finished(pod) and not is_terminating(pod):
            actions.append(remove_pod(pod))
        elif state.is_healthy(pod):
            continue
        if state.is_ordered:
            return claims + actions, True
    return claims + actions, False


def _shrink(state: StatefulSetState) -> tuple[list[Action], bool]:
    """Deletes pods beyond the replicas; in order, the highest ordinal first, each when the one after it is gone."""
    if not state.is_ordered:
        return [remove_pod(pod) for pod in state.condemned if not is_terminating(pod)], False
    if not state.condemned:
        return [], False
    highest = state.condemned[0]
    unhealthy = [pod for pod in reversed(state.condemned) if not state.is_healthy(pod)]
    may_go = not is_terminating(highest) and (state.is_healthy(highest) or unhealthy[0] is highest)
    return [remove_pod(highest)] if may_go else [], True


def _roll(state: StatefulSetState) -> Sequence[Action]:
    """Deletes pods of an old revision from the highest ordinal down, no more than may be unavailable."""
    if text(state.owner, "spec.updateStrategy.type") == "OnDelete":
        return ()
    limit = at(state.owner, "spec.updateStrategy.rollingUpdate.maxUnavailable")
    allowed = max(1, count_or_percent(1 if limit is None else limit, state.count, rounds_up=False))
    unavailable = sum(not state.is_healthy(pod) for pod in state.replicas.values())
    outdated = [
        pod
        for ordinal in reversed(state.ordinals[state.partition :])
        if (pod := state.replicas.get(ordinal)) is not None
        and _revision_of(pod) != _name(state.update)
        and not is_terminating(pod)
    ]
    return [remove_pod(pod) for pod in outdated[: max(0, allowed - unavailable)]]


def _new_pod(state: StatefulSetState, ordinal: int) -> Raw:
    """A pod: of the old revision where the update does not reach it."""
    is_old = ordinal < state.ordinals.start + state.partition and _is_rolling(state)
    revision = state.current if is_old else state.update
    owner, name = state.owner, f"{_name(state.owner)}-{ordinal}"
    labels = {POD_NAME: name, POD_INDEX: str(ordinal), REVISION_HASH: _name(revision)}
    pod = new_pod(owner, template_of(revision), name=name, labels=labels)
    pod["metadata"]["generateName"] = f"{_name(owner)}-"
    pod["spec"] |= {"hostname": name, "subdomain": text(owner, "spec.serviceName")}
    claims = items(owner, "spec.volumeClaimTemplates")
    if claims:
        pod["spec"]["volumes"] = _volumes(owner, pod["spec"], claims, ordinal)
    return pod


def _is_rolling(state: StatefulSetState) -> bool:
    return text(state.owner, "spec.updateStrategy.type") != "OnDelete"


def _volumes(owner: Raw, spec: Raw, claims: Sequence[Raw], ordinal: int) -> list[Raw]:
    named = {text(claim, "metadata.name"): claim_name(owner, claim, ordinal) for claim in claims}
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": claim}} for name, claim in named.items()]
    return [*volumes, *(volume for volume in items(spec, "volumes") if volume.get("name") not in named)]


def claim_name(owner: Raw, claim: Raw, ordinal: int) -> str:
    """The name of the claim of one pod."""
    return f"{text(claim, 'metadata.name')}-{_name(owner)}-{ordinal}"


def _new_claims(owner: Raw, ordinal: int) -> list[Raw]:
    """The claims of one pod, as their templates say, with the labels that select its pods."""
    return [_new_claim(owner, claim, ordinal) for claim in items(owner, "spec.volumeClaimTemplates")]


def _new_claim(owner: Raw, claim: Raw, ordinal: int) -> Raw:
    labels = {**texts(claim, "metadata.labels"), **texts(owner, "spec.selector.matchLabels")}
    metadata = {"name": claim_name(owner, claim, ordinal), "namespace": text(owner, "metadata.namespace")}
    return {
        "apiVersion": CLAIMS.api_version,
        "kind": CLAIMS.kind,
        "metadata": {**metadata, **({"labels": labels} if labels else {})},
        "spec": mapping(claim, "spec"),
    }


# status -------------------------------------------------------------------------------------------------------------


def _status(state: StatefulSetState, pods: Sequence[Raw]) -> Raw:
    running = [pod for pod in pods if phase(pod) == "Running"]
    lasting = [pod for pod in pods if not is_terminating(pod)]
    min_ready = integer(state.owner, "spec.minReadySeconds")
    counts = {
        "replicas": len(pods),
        "readyReplicas": sum(map(is_ready, running)),
        "availableReplicas": sum(is_available(pod, min_ready, state.now) for pod in running),
        "currentReplicas": sum(_revision_of(pod) == _name(state.current) for pod in lasting),
        "updatedReplicas": sum(_revision_of(pod) == _name(state.update) for pod in lasting),
    }
    current = _name(state.current)
    if {counts["updatedReplicas"], counts["readyReplicas"], counts["replicas"]} == {state.count}:
        current, counts["currentReplicas"] = _name(state.update), counts["updatedReplicas"]
    rest = {
        "observedGeneration": integer(state.owner, "metadata.generation"),
        "currentRevision": current,
        "updateRevision": _name(state.update),
        "conditions": at(state.owner, "status.conditions"),
    }
    return {"replicas": counts["replicas"], "collisionCount": 0, **without_zeros({**rest, **counts})}


CONTROLLER = Controller(STATEFUL_SETS, reconcile, (PODS, CONTROLLER_REVISIONS))

"""When the gates of a gang are lifted (R1), and what its pods wait for until then.

Rule 1: gates of a gang are lifted together, by one patch a pod; gates of others stay. Rule 2: no gate is ever added to
a pod. Rule 3: a pod that waits longer than a start takes says for what, in the annotation `muster.dev/waits-for`.
Rule 4: no gate is lifted while pods of a deleted PodClique are members of the gang: they would count for the minimums
by which the scheduler decides, and are about to go.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from msgspec import Struct

from muster.api.fields import items, mapping, text, texts
from muster.api.moment import parse_time
from muster.api.names import BASE_POD_GANG, GANG_GATE, PINNED_BY, POD_CLIQUE, POD_GANG, WAITS_FOR
from muster.api.resources import POD_GANGS, PODS
from muster.grove.gangs.cliques import GangClique, has_scheduled_minimums, is_gated, is_live, labels_of
from muster.workloads.types import Children, Raw, Update

SCHEDULED = "Scheduled"
CREATION_PENDING, BASE_NOT_SCHEDULED = "PodGangPodsCreationPending", "BasePodGangNotScheduled"
BELOW_MINIMUM, PODS_LEFT = "ScaledBelowMinimum", "PodsOfDeletedPodClique"
GROWING_SECONDS = 2.0  # after the last pod was made: the others follow soon, and one write serves all
SAID_AFTER_SECONDS = 10.0  # most gangs start sooner, and their pods need no further write


class GateHold(Struct, frozen=True):
    """Why the gates of a gang stay; in words that change only with the reason, as every pod may carry them."""

    reason: str
    message: str


def missing_pods(cliques: Iterable[GangClique]) -> GateHold | None:
    """The first clique that has fewer pods than its minimum; None: every clique has enough."""
    for clique in cliques:
        if clique.is_covered:
            continue
        if clique.replicas is not None and clique.replicas < clique.minimum:
            return GateHold(
                BELOW_MINIMUM,
                f"PodClique `{clique.name}` is scaled to {clique.replicas}, below its minimum of {clique.minimum}: "
                f"scale it to 0, or to {clique.minimum} and more",
            )
        return GateHold(
            CREATION_PENDING, f"PodClique `{clique.name}` has fewer pods than its minimum of {clique.minimum}"
        )
    return None


def pods_left(gang: Raw, children: Children) -> GateHold | None:
    """A pod that the garbage collector is about to delete, and that still counts for its gang; None: there is none."""
    place = text(gang, "metadata.namespace"), text(gang, "metadata.name")
    for pod in children.orphans(PODS):
        labels = labels_of(pod)
        if (text(pod, "metadata.namespace"), labels.get(POD_GANG)) == place and is_live(pod) and not is_gated(pod):
            says = f"pods of PodClique `{labels.get(POD_CLIQUE, '')}`, which was deleted, are still there"
            return GateHold(PODS_LEFT, says)
    return None


def growing_seconds(gang: Raw, cliques: Iterable[GangClique], now: datetime) -> float:
    """How much longer a new gang is left alone while its pods are being made; not above 0: it is not."""
    pods = (text(pod, "metadata.creationTimestamp") for clique in cliques for pod in clique.live)
    newest = parse_time(max((text(gang, "metadata.creationTimestamp"), *pods)))
    return GROWING_SECONDS - (now - newest).total_seconds() if newest else 0.0


def base_of(gang: Raw, cliques: Iterable[GangClique], children: Children) -> Raw | GateHold | None:
    """The base gang of a scaled gang, or that it does not exist yet; None: the gang has no base.

    Other operators name it on pods only. A gang of its name that another owner controls is not the base.
    """
    pod = next((pod for clique in cliques for pod in clique.live), {})
    name = labels_of(gang).get(BASE_POD_GANG, "") or labels_of(pod).get(BASE_POD_GANG, "")
    if not name:
        return None
    base = children.get(POD_GANGS, text(gang, "metadata.namespace"), name)
    if base is None:
        return GateHold(BASE_NOT_SCHEDULED, f"base PodGang `{name}` does not exist yet")
    if _controller_of(base) != _controller_of(gang):
        says = f"PodGang `{name}`, which is to be the base, exists and does not belong to this PodCliqueSet"
        return GateHold(BASE_NOT_SCHEDULED, f"{says}: rename one of them")
    return base


def _controller_of(gang: Raw) -> str:
    """The uid of the set that controls a gang; empty: none does."""
    owners = (owner for owner in items(gang, "metadata.ownerReferences") if owner.get("controller"))
    return next((text(owner, "uid") for owner in owners), "")


def unscheduled_base(base: Raw, children: Children) -> GateHold | None:
    """Why the gates of scaled gangs stay; None: the base has its minimums scheduled, as its pods say.

    Its status is not read: it is written later than pods change.
    """
    if has_scheduled_minimums(base, children):
        return None
    return GateHold(BASE_NOT_SCHEDULED, f"base PodGang `{text(base, 'metadata.name')}` is not scheduled yet")


def lift_gate(pod: Raw, selector: Mapping[str, str]) -> Update:
    """Lifts the gate of a pod and, by the same patch, adds labels to its node selector and says which."""
    gates = [gate for gate in items(pod, "spec.schedulingGates") if gate.get("name") != GANG_GATE]
    added = _added(pod, selector)
    spec: Raw = {"schedulingGates": gates or None, **({"nodeSelector": added} if added else {})}
    notes: Raw = {WAITS_FOR: None} if WAITS_FOR in texts(pod, "metadata.annotations") else {}
    notes |= {PINNED_BY: ",".join(added)} if added else {}
    return _pod_update(pod, {"metadata": {"annotations": notes} if notes else {}, "spec": spec})


def pin_pod(pod: Raw, selector: Mapping[str, str]) -> Update | None:
    """Adds labels to the node selector of a gated pod, whose gate stays; None: it has them."""
    if not (added := _added(pod, selector)):
        return None
    notes = {"annotations": {PINNED_BY: ",".join(added)}}
    return _pod_update(pod, {"metadata": notes, "spec": {"nodeSelector": added}})


def _added(pod: Raw, selector: Mapping[str, str]) -> dict[str, str]:
    own = mapping(pod, "spec.nodeSelector")
    return {label: value for label, value in selector.items() if label not in own}


def say_waiting(pods: Sequence[Raw], hold: GateHold, now: datetime) -> Iterator[Update]:
    """Writes on gated pods what they wait for, where they have waited for some time and do not say it yet."""
    for pod in pods:
        is_said = texts(pod, "metadata.annotations").get(WAITS_FOR) == hold.message
        if not is_said and _seconds_left(pod, now) <= 0:
            yield _pod_update(pod, {"metadata": {"annotations": {WAITS_FOR: hold.message}}})


def seconds_to_say(pods: Sequence[Raw], now: datetime) -> float | None:
    """When the next gated pod is to say what it waits for; None: none is left."""
    return min((left for pod in pods if (left := _seconds_left(pod, now)) > 0), default=None)


def seconds_waited(pods: Sequence[Raw], now: datetime) -> float:
    """How long the first of these pods has been there."""
    created = parse_time(text(pods[0], "metadata.creationTimestamp")) if pods else None
    return (now - created).total_seconds() if created else 0.0


def _seconds_left(pod: Raw, now: datetime) -> float:
    created = parse_time(text(pod, "metadata.creationTimestamp"))
    return SAID_AFTER_SECONDS - (now - created).total_seconds() if created else 0.0


def _pod_update(pod: Raw, patch: Raw) -> Update:
    """A patch of exactly this pod: one of the same name and another uid refuses it."""
    uid = text(pod, "metadata.uid")
    metadata = {**({"uid": uid} if uid else {}), **patch.get("metadata", {})}
    return Update(PODS, text(pod, "metadata.namespace"), text(pod, "metadata.name"), {**patch, "metadata": metadata})

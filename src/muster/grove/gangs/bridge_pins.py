"""R3 beside another operator: pods of scaled gangs are pinned to the domain of their base while that one gates them.

Rule 1: gates are the other operator's. It lifts those of a scaled gang some seconds after the base is scheduled; a pod
that it lets go before it is pinned may be placed elsewhere, and condition `Pinned` says so. Rule 2: only pods of our
schedulers are pinned, and none is deleted: the other operator would not know why.
"""

from collections.abc import Collection, Iterator, Sequence

from muster.api.fields import text, texts
from muster.api.names import PINNED_BY
from muster.grove.gangs.cliques import GangClique, is_gated, node_name
from muster.grove.gangs.domains import domain_of
from muster.grove.gangs.gates import GateHold, pin_pod, unscheduled_base
from muster.grove.gangs.pins import Pin, conflict, find_pin
from muster.grove.health import FALSE, TRUE, HealthCondition
from muster.workloads.types import Children, Raw, Update

PINNED = "Pinned"  # condition


def pin_actions(
    base: Raw | GateHold | None, cliques: Sequence[GangClique], schedulers: Collection[str], children: Children
) -> Iterator[Update]:
    """Pins gated pods of a scaled gang, once its base is scheduled."""
    pods = [pod for pod in _unpinned_pods(cliques, schedulers) if is_gated(pod)]
    if not pods or not isinstance(base, dict) or unscheduled_base(base, children) is not None:
        return
    pin = find_pin(base, cliques, children)
    if not isinstance(pin, GateHold) and conflict(pods, pin) is None:
        yield from (update for pod in pods if (update := pin_pod(pod, pin)))


def pinned_condition(
    base: Raw | GateHold | None, cliques: Sequence[GangClique], schedulers: Collection[str], children: Children
) -> HealthCondition | None:
    """Whether the pods of a scaled gang are held in the domain of its base; None: none is required of them."""
    pin = find_pin(base, cliques, children) if isinstance(base, dict) else {}
    if isinstance(pin, GateHold) or not pin:
        return None
    for pod in _unpinned_pods(cliques, schedulers):
        if not is_gated(pod) and not _is_inside(pod, pin, children):
            says = f"the gate of pod `{text(pod, 'metadata.name')}` was lifted before the domain of the base was known"
            return HealthCondition(PINNED, FALSE, "GateLiftedFirst", f"{says}: it may be placed elsewhere")
    return HealthCondition(PINNED, TRUE, "InDomainOfBase", "pods are held in the domain of the base PodGang")


def _unpinned_pods(cliques: Sequence[GangClique], schedulers: Collection[str]) -> Iterator[Raw]:
    for pod in (pod for clique in cliques for pod in clique.live):
        if PINNED_BY not in texts(pod, "metadata.annotations") and text(pod, "spec.schedulerName") in schedulers:
            yield pod


def _is_inside(pod: Raw, pin: Pin, children: Children) -> bool:
    """Whether a pod is in the domain: by its node, or by a selector of its own."""
    own = texts(pod, "spec.nodeSelector")
    if all(own.get(label) == value for label, value in pin.items()):
        return True
    return domain_of(node_name(pod), tuple(pin), children) == tuple(pin.values())

"""Events about gangs: why something waits, on the object that waits, as `kubectl describe` shows it (E1, N4).

`event_queue` sends events about bindings and evictions.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime

from muster.api.core import Pod
from muster.api.podgroup import PodGroup
from muster.api.resources import POD_GROUPS, PODS
from muster.kube.cluster import Raw
from muster.kube.event_recorder import event
from muster.model.gang.pod_state import PodState, pod_state
from muster.reporting.conditions import stray_words
from muster.reporting.explain import is_worth_an_event, message
from muster.reporting.grove.hints import refusals_of
from muster.reporting.outcome import Outcome
from muster.validation.pods.membership import Stray

STRAY_PODS = "StrayPods"


def about_gang(outcome: Outcome, group: PodGroup, pods: Mapping[str, Pod], now: datetime) -> Iterator[Raw]:
    """Why a gang waits; and its strays that wait, each on its pod and all on the PodGroup (N4)."""
    resource, meta = POD_GROUPS, group.metadata
    for refusal in refusals_of(outcome.plan):
        if is_worth_an_event(refusal):
            runs = refusal.extra is not None
            yield event(resource, meta, refusal.reason, message(refusal), now, is_normal=runs)
    strays = [
        stray for stray in outcome.gang.strays if pod_state(pods[stray.pod]) in (PodState.PENDING, PodState.GATED)
    ]
    if strays:
        yield event(resource, meta, STRAY_PODS, stray_words(strays), now)
    for stray in strays:
        yield about_stray(stray, pods[stray.pod], now)


def about_group(group: PodGroup, reason: str, message: str, now: datetime) -> Raw:
    """An Event on a PodGroup."""
    return event(POD_GROUPS, group.metadata, reason, message, now)


def about_stray(stray: Stray, pod: Pod, now: datetime) -> Raw:
    """Why a pod belongs to no gang."""
    return event(PODS, pod.metadata, stray.why, stray.sentence, now)

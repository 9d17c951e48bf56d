"""How a new template reaches the pods of a PodClique.

Rule 1: old pods that are not ready go at once; a ready pod stays, even if it crashed before. Rule 2: ready pods go one
at a time, the oldest first: the next one when the pod in place of the last one, known by its index, is ready, and only
while as many are ready as have to be. Rule 3: with OnDelete nothing goes by itself. Rule 4: a pod is selected in the
status before it is deleted, so that a restart goes on where it stopped.
"""

from datetime import datetime

from msgspec import Struct

from muster.api import names
from muster.api.fields import at, integer, mapping, text, texts
from muster.grove.cliques.clique_pods import CliquePod, CliquePods, free_indexes
from muster.grove.health import minimum_of
from muster.workloads.conditions import timestamp
from muster.workloads.operators.objects import strings
from muster.workloads.types import Raw

MOST_COMPLETED = 1_000  # names of replaced pods that the status holds: the latest ones


class CliqueRollout(Struct, frozen=True):
    """What to do about pods of an older template, and how far it is."""

    removed: tuple[CliquePod, ...] = ()
    progress: Raw | None = None  # status.updateProgress
    is_under_way: bool = False


def roll_out(clique: Raw, pods: CliquePods, is_automatic: bool, now: datetime) -> CliqueRollout:
    """The next step of the update of a clique. `is_automatic`: False with OnDelete."""
    outdated = pods.outdated
    progress = _current_progress(clique, bool(outdated), is_automatic, now)
    if progress is None or text(progress, "updateEndedAt"):
        return CliqueRollout((), progress)
    if not is_automatic:
        return CliqueRollout((), _ended(progress, now))
    unready = tuple(pod for pod in outdated if not pod.is_ready)
    if unready:
        return CliqueRollout(unready, progress, is_under_way=True)
    selected = _selected_pod(progress, pods)
    replicas = integer(clique, "spec.replicas", 1)
    is_allowed = pods.ready >= min(minimum_of(clique), replicas) and len(pods.live) <= replicas
    if selected is not None:
        return CliqueRollout((selected,) if is_allowed else (), progress, is_under_way=True)
    if not _is_replaced(progress, pods, replicas):
        return CliqueRollout((), progress, is_under_way=True)
    if not outdated:
        return CliqueRollout((), _ended(progress, now))
    if is_allowed:
        progress = _select(progress, pods, outdated[0], replicas)
    return CliqueRollout((), progress, is_under_way=True)


def _current_progress(clique: Raw, is_outdated: bool, is_automatic: bool, now: datetime) -> Raw | None:
    """The progress of the update to the current template, a new one where that begins now; None: there was none."""
    labels, before = texts(clique, "metadata.labels"), mapping(clique, "status.updateProgress")
    current, done = labels.get(names.TEMPLATE_HASH, ""), text(clique, "status.currentPodTemplateHash")
    is_same = text(before, "podTemplateHash") == current
    has_ended = bool(text(before, "updateEndedAt"))
    if is_same:
        begins = is_outdated and has_ended and is_automatic
    else:
        begins = is_outdated or (bool(done) and done != current) or (bool(before) and not has_ended)
    if not begins:
        return before or None
    generation = labels.get(names.GENERATION_HASH)
    return {
        "updateStartedAt": timestamp(now),
        "podTemplateHash": current,
        **({"podCliqueSetGenerationHash": generation} if generation else {}),
    }


def _ended(progress: Raw, now: datetime) -> Raw:
    kept = {field: value for field, value in progress.items() if field != "readyPodsSelectedToUpdate"}
    return {**kept, "updateEndedAt": timestamp(now)}


def _selected_pod(progress: Raw, pods: CliquePods) -> CliquePod | None:
    """The pod that was selected last, until it is deleted."""
    current = text(progress, "readyPodsSelectedToUpdate.current")
    return next((pod for pod in pods.live if pod.name == current and not pod.is_updated), None)


def _is_replaced(progress: Raw, pods: CliquePods, replicas: int) -> bool:
    """Whether a ready pod is in place of the one that was selected last, as far as the clique was not scaled in.

    Where the pod in its place finds no node, another new pod took that: then as many ready pods as before do.
    """
    selection = mapping(progress, "readyPodsSelectedToUpdate")
    if not text(selection, "current"):
        return True
    updated = [pod for pod in pods.live if pod.is_updated]
    index = at(selection, "currentIndex")
    if index is None:
        return all(pod.is_ready for pod in updated)
    successor = next((pod for pod in updated if pod.index == index), None)
    if successor is None:
        return len(pods.live) >= replicas
    before = min(integer(selection, "readyBefore", replicas), replicas)
    return successor.is_ready or (successor.is_unschedulable and pods.ready >= before)


def _select(progress: Raw, pods: CliquePods, pod: CliquePod, replicas: int) -> Raw:
    last = text(progress, "readyPodsSelectedToUpdate.current")
    completed = [*strings(progress, "readyPodsSelectedToUpdate.completed"), *([last] if last else [])]
    selection = {
        "current": pod.name,
        "currentIndex": _index_after(pods, pod, replicas),
        "readyBefore": pods.ready,
        "completed": completed[-MOST_COMPLETED:],
    }
    return {**progress, "readyPodsSelectedToUpdate": selection}


def _index_after(pods: CliquePods, pod: CliquePod, replicas: int) -> int:
    """The index of the pod in place of this one: the lowest that is free then, after pods that are missing already."""
    missing = [*free_indexes((one.index for one in pods.live), replicas - len(pods.live) + 1)]
    return missing[-1] if pod.index is None else min(missing[-1], pod.index)

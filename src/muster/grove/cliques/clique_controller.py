"""PodCliques: as many pods as `spec.replicas` says, each with an index; replaced when they fail or get old.

Rule 1: a pod is made behind the gate of its gang; `gangs` lifts it. One that failed is replaced by `failed_pods`.
Rule 2: without its set a clique makes no pods: the set is being deleted, or not known yet. Rule 3: a clique looks at
its own pods, and at the status of other cliques.
"""

from collections.abc import Iterator
from datetime import datetime
from functools import partial

from msgspec.structs import replace

from muster.api import names
from muster.api.fields import integer, text, texts
from muster.api.grove.pod_clique_set import ON_DELETE
from muster.api.resources import POD_CLIQUE_SCALING_GROUPS, POD_CLIQUE_SETS, POD_CLIQUES, PODS, Resource
from muster.grove.cliques.clique_pods import CliquePod, CliquePods, free_indexes, read_pods
from muster.grove.cliques.clique_rollout import roll_out
from muster.grove.cliques.clique_status import clique_status
from muster.grove.cliques.failed_pods import FailedPods, index_of, judge_failed
from muster.grove.cliques.pod_specs import CliqueSettings, pod_template
from muster.grove.cliques.scale_in import scale_in_order
from muster.grove.events import scale_events
from muster.grove.last_errors import with_last_error
from muster.grove.startup_order import dependents_of, release_pods
from muster.workloads.operators.objects import bounded, name_of, removal
from muster.workloads.pod_templates import is_terminating
from muster.workloads.types import Action, Children, Controller, Create, Raw, Reconciliation


def reconcile(clique: Raw, children: Children, now: datetime, settings: CliqueSettings) -> Reconciliation:
    """Deletes pods that failed, are too many or too old; creates missing ones; lets waiting ones start."""
    owned = children.of(clique, PODS)
    pods, pcs = read_pods(clique, owned), set_of(clique, children)
    rollout = roll_out(clique, pods, text(pcs, "spec.updateStrategy.type") != ON_DELETE, now)
    status = clique_status(clique, pods, rollout, now)
    if is_terminating(clique):
        return Reconciliation((), status)
    failed = judge_failed(clique, pods.failed, now)
    actions = _actions(clique, pods, failed, rollout.removed, pcs, children, settings)
    return replace(bounded(actions, len(owned), status, failed.seconds), events=tuple(scale_events(clique)))


def _actions(
    clique: Raw,
    pods: CliquePods,
    failed: FailedPods,
    outdated: tuple[CliquePod, ...],
    pcs: Raw | None,
    children: Children,
    settings: CliqueSettings,
) -> Iterator[Action]:
    removed = {pod.name for pod in outdated}
    left = [pod for pod in pods.live if pod.name not in removed]
    missing = integer(clique, "spec.replicas", 1) - len(left)
    surplus = scale_in_order(left)[:-missing] if missing < 0 else []
    waiting = failed.waiting[: max(0, missing)]
    yield from (removal(PODS, pod) for pod in (*failed.due, *failed.waiting[len(waiting) :]))
    yield from (removal(PODS, pod.raw) for pod in (*outdated, *surplus))
    if missing > len(waiting) and _may_create(clique, pcs):
        template = pod_template(clique, pcs, settings)
        taken = [*(pod.index for pod in left), *map(index_of, waiting)]
        indexes = free_indexes(taken, missing - len(waiting))
        yield from (Create(PODS, template.pod(index, failed.failures.get(index, 0))) for index in indexes)
    yield from release_pods(clique, left, pcs, children)


def _may_create(clique: Raw, pcs: Raw | None) -> bool:
    if not texts(clique, "metadata.labels").get(names.PART_OF):
        return True
    return pcs is not None and not is_terminating(pcs)


def set_of(clique: Raw, children: Children) -> Raw | None:
    """The set that a clique is part of; None: it is not there."""
    name = texts(clique, "metadata.labels").get(names.PART_OF, "")
    return children.get(POD_CLIQUE_SETS, text(clique, "metadata.namespace"), name)


# what concerns a clique ---------------------------------------------------------------------------------------------


def related(resource: Resource, raw: Raw, children: Children) -> Iterator[tuple[str, str]]:
    """Cliques that start after a changed one; and of a changed set those that may wait for its strategy."""
    if resource == POD_CLIQUES:
        yield from dependents_of(raw, children)
    elif resource == POD_CLIQUE_SETS:
        cliques = (clique for clique in _cliques_of(raw, children) if _may_wait(clique))
        yield from ((text(clique, "metadata.namespace"), name_of(clique)) for clique in cliques)


def _cliques_of(pcs: Raw, children: Children) -> Iterator[Raw]:
    yield from children.of(pcs, POD_CLIQUES)
    for group in children.of(pcs, POD_CLIQUE_SCALING_GROUPS):
        yield from children.of(group, POD_CLIQUES)


def _may_wait(clique: Raw) -> bool:
    """Whether it has old pods, or was not reconciled yet: every set changes often, and most cliques do not care."""
    is_new = not integer(clique, "status.observedGeneration")
    return is_new or integer(clique, "status.updatedReplicas") < integer(clique, "status.replicas")


def build_controller(settings: CliqueSettings = CliqueSettings()) -> Controller:  # noqa: B008
    """The controller of cliques whose pods get these settings."""
    return Controller(
        POD_CLIQUES,
        partial(reconcile, settings=settings),
        (PODS,),
        failed=with_last_error,
        watches=(POD_CLIQUE_SETS, POD_CLIQUES),
        related=related,
    )


CONTROLLER = build_controller()

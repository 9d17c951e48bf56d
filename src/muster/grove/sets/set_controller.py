"""PodCliqueSets as Grove's operator reconciles them: cliques, scaling groups, gangs, autoscalers and Services.

Rule 1: kinds are made in this order, each for all replicas at once, so that a Service whose name is taken holds up no
pod, and a gang once its pods exist; what is too many goes first, the highest index first of all. Rule 2: pods, and
cliques of scaling groups, are made by others. Rule 3: what is deleted is `set_deletion`'s.
"""

from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from datetime import datetime
from itertools import chain

from msgspec.structs import replace

from muster.api.decoding import decode
from muster.api.fields import number, text, texts
from muster.api.grove.pod_clique_set import PodCliqueSet
from muster.api.names import PART_OF, POD_GANG, SET_REPLICA
from muster.api.resources import (
    AUTOSCALERS,
    CLUSTER_TOPOLOGY_BINDINGS,
    POD_CLIQUE_SCALING_GROUPS,
    POD_CLIQUE_SETS,
    POD_CLIQUES,
    POD_GANGS,
    PODS,
    SERVICES,
    Resource,
)
from muster.grove.clique_objects import clique_object, clique_update
from muster.grove.gangs.cliques import labels_of
from muster.grove.last_errors import with_last_error
from muster.grove.layout import GangLayout
from muster.grove.sets.set_children import (
    autoscaler_objects,
    child_update,
    group_object,
    group_update,
    service_object,
)
from muster.grove.sets.set_deletion import CHILDREN, add_finalizer, delete_set
from muster.grove.sets.set_events import set_events
from muster.grove.sets.set_gangs import gang_layouts, gang_object, gang_update, new_gang, seconds_to_wait
from muster.grove.sets.set_rollout import SetRollout, plan_set_rollout
from muster.grove.sets.set_status import set_status
from muster.grove.sets.set_termination import plan_termination
from muster.grove.sets.set_view import SetView, view_set
from muster.grove.topology import names_binding
from muster.workloads.operators.objects import bounded, name_of, removal
from muster.workloads.pod_templates import is_terminating
from muster.workloads.types import Action, Children, Controller, Create, KnownObjects, Raw, Reconciliation, Update


def reconcile(raw: Raw, children: Children, now: datetime) -> Reconciliation:
    """Brings what belongs to a set in step with its spec; reports how its replicas fare."""
    seen = {kind: {name_of(child): child for child in children.of(raw, kind)} for kind in CHILDREN}
    existing = sum(len(objects) for objects in seen.values())
    if is_terminating(raw):
        return delete_set(raw, seen, children, now)
    view = view_set(raw, seen, children)
    rollout = plan_set_rollout(view, now)
    termination = plan_termination(view, children, rollout.current, now)
    gangs = {gang.name: gang for gang in gang_layouts(view)}
    new = (gang for name, gang in gangs.items() if name not in seen[POD_GANGS])
    waits = {gang.name: left for gang in new if (left := seconds_to_wait(view, gang, children, now))}
    actions = chain(
        add_finalizer(raw),
        _surplus(view, seen, gangs),
        (removal(POD_CLIQUES, clique) for clique in termination.cliques),
        _cliques(view, rollout),
        _groups(view, rollout),
        _gangs(view, gangs, seen[POD_GANGS], waits, children),
        _autoscalers(view, seen[AUTOSCALERS]),
        _services(view, seen[SERVICES]),
    )
    status = set_status(view, rollout, [seen[POD_GANGS][name] for name in gangs if name in seen[POD_GANGS]], now)
    events = tuple(set_events(view, rollout, termination.replicas))
    times = [*waits.values(), termination.again_after_seconds]
    again = min((seconds for seconds in times if seconds is not None), default=None)
    return replace(bounded(actions, existing, status, again), events=events)


# what goes ----------------------------------------------------------------------------------------------------------


def _surplus(view: SetView, seen: Mapping[Resource, Mapping[str, Raw]], gangs: Collection[str]) -> Iterator[Action]:
    """Children that the set does not have any more."""
    layouts = [replica.layout for replica in view.replicas]
    wanted: dict[Resource, Collection[str]] = {
        SERVICES: {layout.service for layout in layouts},
        POD_CLIQUES: {clique.name for layout in layouts for clique in layout.cliques},
        POD_CLIQUE_SCALING_GROUPS: {group.name for layout in layouts for group in layout.groups},
        POD_GANGS: gangs,
        AUTOSCALERS: {name_of(raw) for layout in layouts for raw in autoscaler_objects(view, layout)},
    }
    for kind in reversed(CHILDREN):
        unwanted = [child for name, child in seen[kind].items() if name not in wanted[kind]]
        for child in sorted(unwanted, key=_index, reverse=True):
            if not is_terminating(child):
                yield removal(kind, child)


def _index(raw: Raw) -> int:
    return number(texts(raw, "metadata.labels").get(SET_REPLICA, "")) or 0


# what comes and changes ---------------------------------------------------------------------------------------------


def _services(view: SetView, seen: Mapping[str, Raw]) -> Iterator[Action]:
    wanted = (service_object(view, replica.layout) for replica in view.replicas)
    return _in_step(SERVICES, wanted, seen)


def _autoscalers(view: SetView, seen: Mapping[str, Raw]) -> Iterator[Action]:
    wanted = (raw for replica in view.replicas for raw in autoscaler_objects(view, replica.layout))
    return _in_step(AUTOSCALERS, wanted, seen)


def _in_step(kind: Resource, wanted: Iterable[Raw], seen: Mapping[str, Raw]) -> Iterator[Action]:
    for raw in wanted:
        present = seen.get(name_of(raw))
        if present is None:
            yield Create(kind, raw)
        elif not is_terminating(present) and (update := child_update(kind, present, raw)):
            yield update


def _cliques(view: SetView, rollout: SetRollout) -> Iterator[Action]:
    for replica in view.replicas:
        for clique, present in zip(replica.layout.cliques, replica.cliques, strict=True):
            wanted = clique_object(view.raw, view.pcs, clique, view.hashes)
            may_update = replica.index in rollout.updating
            if present is None:
                yield Create(POD_CLIQUES, wanted)
            elif not is_terminating(present):
                yield from _given(clique_update(present, wanted, with_template=may_update))


def _groups(view: SetView, rollout: SetRollout) -> Iterator[Action]:
    for replica in view.replicas:
        for group, present in zip(replica.layout.groups, replica.groups, strict=True):
            wanted = group_object(view, group)
            may_update = replica.index in rollout.updating
            if present is None:
                yield Create(POD_CLIQUE_SCALING_GROUPS, wanted)
            elif not is_terminating(present):
                yield from _given(group_update(present, wanted, with_template=may_update))


def _gangs(
    view: SetView,
    wanted: Mapping[str, GangLayout],
    seen: Mapping[str, Raw],
    waiting: Container[str],
    children: Children,
) -> Iterator[Action]:
    for name, gang in wanted.items():
        present = seen.get(name)
        if present is None and name not in waiting:
            yield Create(POD_GANGS, new_gang(view, gang, children))
        elif present is not None and not is_terminating(present):
            yield from _given(gang_update(present, gang_object(view, gang)))


def _given(update: Update | None) -> Iterator[Action]:
    if update is not None:
        yield update


def _related(resource: Resource, raw: Raw, known: KnownObjects) -> Iterator[tuple[str, str]]:
    """The set of a pod whose gang is to be created, or that it waits for; those that name a ClusterTopologyBinding."""
    if resource == PODS:
        labels, namespace = labels_of(raw), text(raw, "metadata.namespace")
        name, gang = labels.get(PART_OF, ""), labels.get(POD_GANG, "")
        pcs = known.get(POD_CLIQUE_SETS, namespace, name)
        if pcs is not None and (is_terminating(pcs) or known.get(POD_GANGS, namespace, gang) is None):
            yield namespace, name
        return
    for pcs in known.every(POD_CLIQUE_SETS):
        if names_binding(decode(pcs, PodCliqueSet)[0], name_of(raw)):
            yield text(pcs, "metadata.namespace"), name_of(pcs)


CONTROLLER = Controller(
    POD_CLIQUE_SETS,
    reconcile,
    children=CHILDREN,
    failed=with_last_error,
    watches=(CLUSTER_TOPOLOGY_BINDINGS, PODS),
    related=_related,
)

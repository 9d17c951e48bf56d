"""How a PodCliqueSet is deleted: its pods, then all that was made for them, then the set.

Rule 1: what is deleted is found through owners and deleted by uid, so that nothing of others goes; a deletion that
leaves children alone deletes none. Rule 2: pods go first, and the rest waits a moment for them: an API server that is
busy with objects that take nothing would keep nodes and devices from those who wait. It does not wait for pods that
take long to terminate. Rule 3: every object that the operator made is deleted here, PodGroups too: the garbage
collector would read each of them first, and the scheduler report on gangs whose pods go.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import chain

from muster.api.fields import text
from muster.api.moment import parse_time
from muster.api.resources import (
    AUTOSCALERS,
    POD_CLIQUE_SCALING_GROUPS,
    POD_CLIQUE_SETS,
    POD_CLIQUES,
    POD_GANGS,
    POD_GROUPS,
    PODS,
    SERVICES,
    Resource,
)
from muster.grove.naming import SET_FINALIZER
from muster.workloads.operators.objects import bounded, name_of, read_version, removal, strings
from muster.workloads.pod_templates import is_terminating
from muster.workloads.types import Action, Children, Raw, Reconciliation, Update

CHILDREN = (SERVICES, POD_CLIQUES, POD_CLIQUE_SCALING_GROUPS, POD_GANGS, AUTOSCALERS)
ORPHAN = "orphan"  # finalizer of a deletion that leaves children alone
PODS_FIRST_SECONDS = 10.0  # since the set was deleted: how long the rest waits for pods
Seen = Mapping[Resource, Mapping[str, Raw]]  # children by kind and name


def add_finalizer(raw: Raw) -> Iterator[Action]:
    """Adds the finalizer of the operator, unless the set has it."""
    finalizers = strings(raw, "metadata.finalizers")
    if SET_FINALIZER not in finalizers:
        yield _with_finalizers(raw, [*finalizers, SET_FINALIZER])


def delete_set(raw: Raw, seen: Seen, children: Children, now: datetime) -> Reconciliation:
    """The next step of the deletion of a set. `seen`: its children."""
    finalizers = strings(raw, "metadata.finalizers")
    if SET_FINALIZER not in finalizers:
        return Reconciliation()
    last = _with_finalizers(raw, [name for name in finalizers if name != SET_FINALIZER])
    if ORPHAN in finalizers:
        return Reconciliation((last,))
    pods = [*_pods(seen, children)]
    count = len(pods) + sum(map(len, seen.values()))
    removals = (removal(PODS, pod) for pod in pods if not is_terminating(pod))
    if pods and (seconds := _seconds_left(raw, now)) > 0:
        return bounded(removals, count, None, seconds)
    return bounded(chain(removals, _parts(seen, children), (last,)), count, None)


def _pods(seen: Seen, children: Children) -> Iterator[Raw]:
    groups = seen[POD_CLIQUE_SCALING_GROUPS].values()
    members = (clique for group in groups for clique in children.of(group, POD_CLIQUES))
    for clique in chain(seen[POD_CLIQUES].values(), members):
        yield from children.of(clique, PODS)


def _seconds_left(raw: Raw, now: datetime) -> float:
    deleted = parse_time(text(raw, "metadata.deletionTimestamp"))
    return min(PODS_FIRST_SECONDS, PODS_FIRST_SECONDS - (now - deleted).total_seconds()) if deleted else 0.0


def _parts(seen: Seen, children: Children) -> Iterator[Action]:
    """Everything but pods that is not terminating yet; what it owns goes with a PodGang or a scaling group."""
    for gang in seen[POD_GANGS].values():
        yield from (removal(POD_GROUPS, raw) for raw in children.of(gang, POD_GROUPS) if not is_terminating(raw))
    for kind in reversed(CHILDREN):
        yield from (removal(kind, child) for child in seen[kind].values() if not is_terminating(child))


def _with_finalizers(raw: Raw, finalizers: list[str]) -> Update:
    """Written on the version that was read: a finalizer that was added or taken away meanwhile is not undone."""
    patch = {"metadata": {"finalizers": finalizers, **read_version(raw)}}
    return Update(POD_CLIQUE_SETS, text(raw, "metadata.namespace"), name_of(raw), patch)

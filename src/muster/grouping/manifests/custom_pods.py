"""Pods of a user's own kinds: as many as the paths of the configuration say, from the templates that they lead to.

The controller of such a kind is not known here: the names of its pods are guesses, their number and roles are not.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from itertools import islice

from msgspec import Struct

from muster.api.fields import mapping, text, texts
from muster.api.resources import PODS, Resource
from muster.grouping.custom_kinds import CustomKind, first_at, number_at, roles_of
from muster.workloads.bursts import burst_beside
from muster.workloads.pod_templates import new_pod
from muster.workloads.types import Children, Controller, Create, Raw, Reconciliation

TEMPLATE = "spec.template"  # of kinds without roles


class _Role(Struct, frozen=True):
    name: str  # empty: the kind has no roles
    replicas: int
    template: Raw


def custom_controller(custom: CustomKind) -> Controller:
    """What makes the pods of a user's own kind."""
    group, _, version = custom.api_version.rpartition("/")
    resource = Resource(group, version, custom.resource, custom.kind)
    return Controller(resource, partial(_reconcile, custom), (PODS,))


def _reconcile(custom: CustomKind, owner: Raw, children: Children, _now: datetime) -> Reconciliation:
    """Creates the pods that are missing; pods that are too many stay."""
    existing = children.of(owner, PODS)
    missing = (Create(PODS, pod) for role in _roles(owner, custom) for pod in _missing(owner, role, custom, existing))
    burst = burst_beside(len(existing))
    actions = tuple(islice(missing, burst))
    return Reconciliation(actions, again_after_seconds=0.0 if len(actions) == burst else None)


def _roles(owner: Raw, custom: CustomKind) -> Iterator[_Role]:
    if custom.wrapper:
        return
    if not custom.roles.path:
        replicas = number_at(owner, custom.replicas)
        yield _Role("", 1 if replicas is None else replicas, mapping(owner, TEMPLATE))
        return
    for name, role in roles_of(owner, custom.roles):
        replicas, template = number_at(role, custom.roles.replicas), first_at(role, custom.roles.template)
        if name:
            yield _Role(name, 1 if replicas is None else replicas, template if isinstance(template, dict) else {})


def _missing(owner: Raw, role: _Role, custom: CustomKind, existing: Sequence[Raw]) -> Iterator[Raw]:
    """Pods with the label of their role and a number, beside those of the role that exist."""
    labels = {custom.role_label: role.name} if role.name else {}
    there = sum(labels.items() <= texts(pod, "metadata.labels").items() for pod in existing)
    stem = "-".join(filter(None, (text(owner, "metadata.name"), role.name.lower())))
    for number in range(there, role.replicas):
        yield new_pod(owner, role.template, name=f"{stem}-{number}", labels=labels)

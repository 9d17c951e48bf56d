"""A controller as a function: a workload and its children in, what to write next out.

Rule 1: nothing here writes; `embedded/controllers` performs on any cluster, `workloads/expansion` on none. Rule 2:
names, labels, annotations, owner references and order of creation are those of the kind's real controller.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Protocol

from msgspec import Struct

from muster.api.resources import Resource

Raw = dict[str, Any]
Key = tuple[Resource, str, str]  # kind, namespace and name


class Create(Struct, frozen=True):
    """Create an object: with a name, or with `generateName`."""

    resource: Resource
    object: Raw


class Update(Struct, frozen=True):
    """Merge a patch into an object (RFC 7386)."""

    resource: Resource
    namespace: str
    name: str
    patch: Raw


class Remove(Struct, frozen=True):
    """Delete an object, if it is still the one with this uid."""

    resource: Resource
    namespace: str
    name: str
    uid: str


Action = Create | Update | Remove


class OwnerEvent(Struct, frozen=True):
    """What a controller has to say about a workload, once: at most one for each reason in a reconciliation."""

    reason: str
    message: str
    is_normal: bool = False  # no: a warning


class Reconciliation(Struct, frozen=True):
    """What a controller does about a workload now.

    Actions of one type on one kind that follow each other may be performed at once; what comes after them waits.
    """

    actions: tuple[Action, ...] = ()
    status: Raw | None = None  # the whole status; None: it stays as it is
    again_after_seconds: float | None = None  # look again then, even if nothing changes: a CronJob, a backoff
    events: tuple[OwnerEvent, ...] = ()  # of changes that the status shows, too; recorded after the actions


class Children(Protocol):
    """The objects around a workload, as last seen."""

    def of(self, owner: Raw, resource: Resource) -> Sequence[Raw]:
        """Objects of this kind that have the owner as their controller, oldest first; by name where ages are equal."""

    def get(self, resource: Resource, namespace: str, name: str) -> Raw | None:
        """Any object of a kind that some controller reconciles, owns or watches; None: it is not there."""

    def orphans(self, resource: Resource) -> Iterable[Raw]:
        """Objects of this kind whose controller is gone: the garbage collector is about to delete them."""


class KnownObjects(Children, Protocol):
    """All objects of all kinds that controllers read: for changes that are rare and concern many."""

    def every(self, resource: Resource) -> Iterable[Raw]:
        """All objects of a kind."""


Reconcile = Callable[[Raw, Children, datetime], Reconciliation]
Related = Callable[[Resource, Raw, KnownObjects], Iterable[tuple[str, str]]]
Release = Callable[[Raw], Raw | None]  # None: nothing is to be done
Failed = Callable[[Raw, Raw, str, str, datetime], Raw]  # workload, its next status, reason and message: the status then


class Controller(Struct, frozen=True):
    """The controller of one kind."""

    resource: Resource  # the kind that it reconciles
    reconcile: Reconcile
    children: tuple[Resource, ...]  # kinds whose changes concern their controller's owner, and its owners above
    failed: Failed | None = None  # how the status says that an action failed; every failure is an event as well
    watches: tuple[Resource, ...] = ()  # further kinds whose changes `related` is called with
    related: Related | None = None  # namespace and name of workloads that a changed object concerns, beside its owners
    release: Release | None = None  # what to merge into a child whose owner is gone, such as without a finalizer


def kinds_of(controller: Controller) -> tuple[Resource, ...]:
    """Every kind that a controller reads."""
    return controller.resource, *controller.children, *controller.watches


def related_keys(controllers: Iterable[Controller], resource: Resource, raw: Raw, known: KnownObjects) -> Iterator[Key]:
    """The workloads that a changed object concerns, beside its owners."""
    for controller in controllers:
        if controller.related is not None and resource in controller.watches:
            for namespace, name in controller.related(resource, raw, known):
                yield controller.resource, namespace, name

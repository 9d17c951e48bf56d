"""What a path under `/api` or `/apis` points at: a kind, and perhaps a namespace, a name, a subresource."""

from collections.abc import Sequence

from msgspec import Struct

from muster.api.resources import NAMESPACES, Resource
from muster.embedded.cluster_store import ClusterStore
from muster.embedded.rest.responses import refusal
from muster.embedded.rest.table.kind_columns import columns_of
from muster.embedded.rest.table.printer_columns import Column
from muster.embedded.rest.table.workload_columns import SCALE
from muster.embedded.store.kinds import Kind
from muster.kube.errors import ApiError

NOWHERE = "the server could not find the requested resource"
UNSIMULATED = ("log", "exec", "attach", "portforward", "proxy", "ephemeralcontainers", "resize")


class Target(Struct, frozen=True):
    """One object, or a collection of them where there is no name."""

    kind: Kind
    namespace: str = ""  # empty: of all namespaces, or of none
    name: str = ""
    subresource: str = ""

    @property
    def resource(self) -> Resource:
        """The kind as the store names it."""
        return self.kind.resource

    @property
    def columns(self) -> tuple[Column, ...]:
        """How it is shown in a table."""
        return SCALE if self.subresource == "scale" else columns_of(self.kind)


def target(store: ClusterStore, group: str, version: str, rest: Sequence[str]) -> Target:
    """404 for paths that lead nowhere."""
    namespace, parts = "", tuple(rest)
    if not all(parts):
        raise nowhere()
    own = len(parts) <= 2 or (len(parts) == 3 and parts[2] in ("status", "finalize"))
    if parts[0] == "namespaces" and not (own and not group):
        if len(parts) < 3:
            raise nowhere()
        namespace, parts = parts[1], parts[2:]
    plural, name, subresource = (*parts, "", "", "")[:3]
    if len(parts) > 3:
        raise nowhere()
    found = Target(_kind(store, group, version, plural), namespace, name, subresource)
    _check(found)
    return found


def nowhere(message: str = NOWHERE) -> ApiError:
    """404."""
    return refusal(404, message)


def _kind(store: ClusterStore, group: str, version: str, plural: str) -> Kind:
    try:
        return store.kind(group, version, plural)
    except ApiError as error:
        raise nowhere() if error.status == 404 else error from None


def _check(found: Target) -> None:
    if found.namespace and not found.resource.namespaced:
        raise nowhere()
    if found.name and found.resource.namespaced and not found.namespace and found.resource != NAMESPACES:
        raise nowhere()
    if found.subresource and found.subresource not in found.kind.subresources:
        told = f"`{found.resource.plural}/{found.subresource[:63]}`"
        raise nowhere(f"simulated pods have no {told}" if found.subresource in UNSIMULATED else NOWHERE)

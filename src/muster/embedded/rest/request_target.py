"""The target of a path under `/api` or `/apis`: a kind, with namespace, name and subresource where it has them."""

from collections.abc import Sequence

from msgspec import Struct

from muster.api.resources import NAMESPACES, Resource
from muster.embedded.cluster_store import ClusterStore
from muster.embedded.rest.responses import status_error
from muster.embedded.rest.table.kind_columns import columns_of
from muster.embedded.rest.table.printer_columns import Column
from muster.embedded.rest.table.workload_columns import SCALE
from muster.embedded.store.kinds import Kind
from muster.kube.errors import ApiError

NOT_FOUND = "the server could not find the requested resource"
UNSUPPORTED_SUBRESOURCES = ("log", "exec", "attach", "portforward", "proxy", "ephemeralcontainers", "resize")


class Target(Struct, frozen=True):
    """One object, or a collection where there is no name."""

    kind: Kind
    namespace: str = ""  # empty: of all namespaces, or of none
    name: str = ""
    subresource: str = ""

    @property
    def resource(self) -> Resource:
        """Group, version and plural of the kind."""
        return self.kind.resource

    @property
    def columns(self) -> tuple[Column, ...]:
        """The printer columns of its table."""
        return SCALE if self.subresource == "scale" else columns_of(self.kind)


def parse_target(store: ClusterStore, group: str, version: str, rest: Sequence[str]) -> Target:
    """The target of the path below group and version; ApiError 404 where there is none."""
    namespace, parts = "", tuple(rest)
    if not all(parts):
        raise not_found_error()
    is_namespace = len(parts) <= 2 or (len(parts) == 3 and parts[2] in ("status", "finalize"))
    if parts[0] == "namespaces" and not (is_namespace and not group):
        if len(parts) < 3:
            raise not_found_error()
        namespace, parts = parts[1], parts[2:]
    plural, name, subresource = (*parts, "", "", "")[:3]
    if len(parts) > 3:
        raise not_found_error()
    target = Target(_kind(store, group, version, plural), namespace, name, subresource)
    _check_scope(target)
    return target


def not_found_error(message: str = NOT_FOUND) -> ApiError:
    """The ApiError 404 of a path without a target."""
    return status_error(404, message)


def _kind(store: ClusterStore, group: str, version: str, plural: str) -> Kind:
    try:
        return store.kind(group, version, plural)
    except ApiError as error:
        raise not_found_error() if error.status == 404 else error from None


def _check_scope(target: Target) -> None:
    if target.namespace and not target.resource.namespaced:
        raise not_found_error()
    if target.name and target.resource.namespaced and not target.namespace and target.resource != NAMESPACES:
        raise not_found_error()
    if target.subresource and target.subresource not in target.kind.subresources:
        path = f"`{target.resource.plural}/{target.subresource[:63]}`"
        raise not_found_error(
            f"simulated pods have no {path}" if target.subresource in UNSUPPORTED_SUBRESOURCES else NOT_FOUND
        )

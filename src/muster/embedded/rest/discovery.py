"""Discovery: group by group, and aggregated (`APIGroupDiscoveryList`) for newer clients."""

import re
from collections.abc import Iterable, Sequence
from itertools import groupby

from msgspec import Struct

from muster.api.resources import (
    BINDINGS,
    EVICTIONS,
    NAMESPACES,
    SCALES,
    SELF_SUBJECT_ACCESS_REVIEWS,
    SELF_SUBJECT_REVIEWS,
    SELF_SUBJECT_RULES_REVIEWS,
    SUBJECT_ACCESS_REVIEWS,
    Resource,
)
from muster.embedded.rest.negotiation import parse_accept
from muster.embedded.rest.responses import status_error
from muster.embedded.store.kinds import Kind
from muster.kube.cluster import Raw

OBJECT_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
NAMESPACE_VERBS = tuple(verb for verb in OBJECT_VERBS if verb != "deletecollection")
_VERSION = re.compile(r"v([1-9][0-9]*)(?:(alpha|beta)([1-9][0-9]*))?")
DISCOVERY_VERSIONS = ("v2", "v2beta1")


class DiscoveryEntry(Struct, frozen=True):
    """One entry of discovery: a kind, or a subresource of it."""

    resource: Resource
    name: str  # `pods`, `pods/status`
    response: tuple[str, str, str]  # group, version and kind of its responses
    verbs: tuple[str, ...]
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()


def _response(resource: Resource) -> tuple[str, str, str]:
    return resource.group, resource.version, resource.kind


SUBRESOURCES: dict[str, tuple[tuple[str, str, str] | None, tuple[str, ...]]] = {
    "status": (None, ("get", "patch", "update")),
    "scale": (_response(SCALES), ("get", "patch", "update")),
    "binding": (_response(BINDINGS), ("create",)),
    "eviction": (_response(EVICTIONS), ("create",)),
    "finalize": (None, ("update",)),
}
# answered, never stored
REVIEWS = (SELF_SUBJECT_REVIEWS, SELF_SUBJECT_ACCESS_REVIEWS, SELF_SUBJECT_RULES_REVIEWS, SUBJECT_ACCESS_REVIEWS)


def entries(kinds: Iterable[Kind]) -> list[DiscoveryEntry]:
    """All served kinds and subresources, by group and version, the core group first."""
    served = [entry for kind in kinds for entry in _kind_entries(kind)]
    served += [
        DiscoveryEntry(review, review.plural, _response(review), ("create",), review.kind.lower()) for review in REVIEWS
    ]
    return sorted(served, key=lambda entry: (entry.resource.group, *_version_rank(entry.resource.version), entry.name))


def _version_rank(version: str) -> tuple[int, int, int, str]:
    """Most stable first, then newest first, as Kubernetes prefers them: v10, v2, v11beta2, v10beta3, v1alpha1, foo."""
    match = _VERSION.fullmatch(version)
    if not match:
        return 3, 0, 0, version
    stage = {"": 0, "beta": 1, "alpha": 2}[match[2] or ""]
    return stage, -int(match[1]), -int(match[3] or 0), version


def _kind_entries(kind: Kind) -> Iterable[DiscoveryEntry]:
    resource = kind.resource
    verbs = NAMESPACE_VERBS if resource == NAMESPACES else OBJECT_VERBS
    yield DiscoveryEntry(
        resource, resource.plural, _response(resource), verbs, kind.singular, kind.short_names, kind.categories
    )
    for name in kind.subresources:
        response, verbs = SUBRESOURCES[name]
        yield DiscoveryEntry(resource, f"{resource.plural}/{name}", response or _response(resource), verbs)


def _by_group(served: Iterable[DiscoveryEntry]) -> dict[str, dict[str, list[DiscoveryEntry]]]:
    """Entries by group, then by version; the preferred version comes first."""
    groups: dict[str, dict[str, list[DiscoveryEntry]]] = {}
    for (group, version), members in groupby(served, key=lambda entry: (entry.resource.group, entry.resource.version)):
        groups.setdefault(group, {})[version] = list(members)
    return groups


# group by group -----------------------------------------------------------------------------------------------------


def core_versions(address: str) -> Raw:
    """`/api`."""
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    }


def group_list(served: Sequence[DiscoveryEntry]) -> Raw:
    """`/apis`."""
    groups = _by_group(served)
    return {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [_group(name, versions) for name, versions in groups.items() if name],
    }


def group(served: Sequence[DiscoveryEntry], name: str) -> Raw:
    """`/apis/{group}`; ApiError 404 where it is not served."""
    versions = _by_group(served).get(name)
    if not name or versions is None:
        raise status_error(404, f"the server does not serve the group `{name[:253]}`")
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, versions)}


def _group(name: str, versions: Iterable[str]) -> Raw:
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def resource_list(served: Sequence[DiscoveryEntry], name: str, version: str) -> Raw:
    """`/api/v1` and `/apis/{group}/{version}`; ApiError 404 where it is not served."""
    members = _by_group(served).get(name, {}).get(version)
    if members is None:
        raise status_error(404, f"the server does not serve `{name[:253]}/{version[:63]}`")
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": members[0].resource.api_version,
        "resources": [_resource(entry) for entry in members],
    }


def _resource(entry: DiscoveryEntry) -> Raw:
    group_name, version, kind = entry.response
    is_foreign = (group_name, version) != (entry.resource.group, entry.resource.version)
    return {
        "name": entry.name,
        "singularName": entry.singular,
        "namespaced": entry.resource.namespaced,
        **({"group": group_name, "version": version} if is_foreign else {}),
        "kind": kind,
        "verbs": list(entry.verbs),
        **({"shortNames": list(entry.short_names)} if entry.short_names else {}),
        **({"categories": list(entry.categories)} if entry.categories else {}),
    }


# aggregated ---------------------------------------------------------------------------------------------------------


def aggregated_version(accept: str) -> str:
    """The version of aggregated discovery that the client prefers; empty: it prefers the plain form."""
    for media in parse_accept(accept):
        version, view = media.parameters.get("v", ""), media.parameters.get("as")
        if view == "APIGroupDiscoveryList" and media.parameters.get("g") == "apidiscovery.k8s.io":
            if media.type == "application/json" and version in DISCOVERY_VERSIONS:
                return version
        elif media.type in ("application/json", "*/*"):
            return ""
    return ""


def aggregated(served: Sequence[DiscoveryEntry], version: str, *, core: bool) -> Raw:
    """`/api` or `/apis` in one response."""
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": [
            _group_discovery(name, versions) for name, versions in _by_group(served).items() if core is (name == "")
        ],
    }


def _group_discovery(name: str, versions: dict[str, list[DiscoveryEntry]]) -> Raw:
    return {
        "metadata": {"name": name, "creationTimestamp": None} if name else {"creationTimestamp": None},
        "versions": [
            {"version": version, "freshness": "Current", "resources": list(_resource_discoveries(members))}
            for version, members in versions.items()
        ],
    }


def _resource_discoveries(members: Sequence[DiscoveryEntry]) -> Iterable[Raw]:
    for entry in members:
        if "/" in entry.name:
            continue
        subresources = [sub for sub in members if sub.name.startswith(f"{entry.name}/")]
        yield {
            "resource": entry.name,
            "responseKind": _kind(entry),
            "scope": "Namespaced" if entry.resource.namespaced else "Cluster",
            "singularResource": entry.singular,
            "verbs": list(entry.verbs),
            **({"shortNames": list(entry.short_names)} if entry.short_names else {}),
            **({"categories": list(entry.categories)} if entry.categories else {}),
            **({"subresources": [_subresource(sub) for sub in subresources]} if subresources else {}),
        }


def _subresource(entry: DiscoveryEntry) -> Raw:
    name = entry.name.partition("/")[2]
    return {"subresource": name, "responseKind": _kind(entry), "verbs": list(entry.verbs)}


def _kind(entry: DiscoveryEntry) -> Raw:
    name, version, kind = entry.response
    return {"group": name, "version": version, "kind": kind}

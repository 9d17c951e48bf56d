"""What is served, told twice: group by group as ever, and all at once (`APIGroupDiscoveryList`) for newer clients."""

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
from muster.embedded.rest.negotiation import accepted
from muster.embedded.rest.responses import refusal
from muster.embedded.store.kinds import Kind
from muster.kube.cluster import Raw

OBJECT_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
NAMESPACE_VERBS = tuple(verb for verb in OBJECT_VERBS if verb != "deletecollection")
_VERSION = re.compile(r"v([1-9][0-9]*)(?:(alpha|beta)([1-9][0-9]*))?")
DISCOVERY_VERSIONS = ("v2", "v2beta1")


class DiscoveryEntry(Struct, frozen=True):
    """One line of discovery: a kind, or a subresource of it."""

    resource: Resource
    name: str  # `pods`, `pods/status`
    response: tuple[str, str, str]  # group, version and kind of what it answers with
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
# answered without being stored, by group
REVIEWS = (SELF_SUBJECT_REVIEWS, SELF_SUBJECT_ACCESS_REVIEWS, SELF_SUBJECT_RULES_REVIEWS, SUBJECT_ACCESS_REVIEWS)


def entries(kinds: Iterable[Kind]) -> list[DiscoveryEntry]:
    """Everything that is served, by group and version, the core group first."""
    found = [entry for kind in kinds for entry in _of_kind(kind)]
    found += [DiscoveryEntry(one, one.plural, _response(one), ("create",), one.kind.lower()) for one in REVIEWS]
    return sorted(found, key=lambda entry: (entry.resource.group, *_rank(entry.resource.version), entry.name))


def _rank(version: str) -> tuple[int, int, int, str]:
    """Most stable first, then newest first, as Kubernetes prefers them: v10, v2, v11beta2, v10beta3, v1alpha1, foo."""
    found = _VERSION.fullmatch(version)
    if not found:
        return 3, 0, 0, version
    stage = {"": 0, "beta": 1, "alpha": 2}[found[2] or ""]
    return stage, -int(found[1]), -int(found[3] or 0), version


def _of_kind(kind: Kind) -> Iterable[DiscoveryEntry]:
    one = kind.resource
    verbs = NAMESPACE_VERBS if one == NAMESPACES else OBJECT_VERBS
    yield DiscoveryEntry(one, one.plural, _response(one), verbs, kind.singular, kind.short_names, kind.categories)
    for name in kind.subresources:
        response, verbs = SUBRESOURCES[name]
        yield DiscoveryEntry(one, f"{one.plural}/{name}", response or _response(one), verbs)


def _groups(found: Iterable[DiscoveryEntry]) -> dict[str, dict[str, list[DiscoveryEntry]]]:
    """By group, then by version; the version that is preferred comes first."""
    groups: dict[str, dict[str, list[DiscoveryEntry]]] = {}
    for (group, version), members in groupby(found, key=lambda entry: (entry.resource.group, entry.resource.version)):
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


def group_list(found: Sequence[DiscoveryEntry]) -> Raw:
    """`/apis`."""
    groups = _groups(found)
    return {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [_group(name, versions) for name, versions in groups.items() if name],
    }


def group(found: Sequence[DiscoveryEntry], name: str) -> Raw:
    """`/apis/{group}`; 404 where there is none."""
    versions = _groups(found).get(name)
    if not name or versions is None:
        raise refusal(404, f"the server does not serve the group `{name[:253]}`")
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, versions)}


def _group(name: str, versions: Iterable[str]) -> Raw:
    told = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": told, "preferredVersion": told[0]}


def resource_list(found: Sequence[DiscoveryEntry], name: str, version: str) -> Raw:
    """`/api/v1` and `/apis/{group}/{version}`; 404 where there is none."""
    members = _groups(found).get(name, {}).get(version)
    if members is None:
        raise refusal(404, f"the server does not serve `{name[:253]}/{version[:63]}`")
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": members[0].resource.api_version,
        "resources": [_resource(entry) for entry in members],
    }


def _resource(entry: DiscoveryEntry) -> Raw:
    group_name, version, kind = entry.response
    elsewhere = (group_name, version) != (entry.resource.group, entry.resource.version)
    return {
        "name": entry.name,
        "singularName": entry.singular,
        "namespaced": entry.resource.namespaced,
        **({"group": group_name, "version": version} if elsewhere else {}),
        "kind": kind,
        "verbs": list(entry.verbs),
        **({"shortNames": list(entry.short_names)} if entry.short_names else {}),
        **({"categories": list(entry.categories)} if entry.categories else {}),
    }


# all at once --------------------------------------------------------------------------------------------------------


def aggregated_version(accept: str) -> str:
    """The version of the aggregated form that the client prefers to the plain one; empty: the plain one."""
    for media in accepted(accept):
        version, asked = media.parameters.get("v", ""), media.parameters.get("as")
        if asked == "APIGroupDiscoveryList" and media.parameters.get("g") == "apidiscovery.k8s.io":
            if media.type == "application/json" and version in DISCOVERY_VERSIONS:
                return version
        elif media.type in ("application/json", "*/*"):
            return ""
    return ""


def aggregated(found: Sequence[DiscoveryEntry], version: str, *, core: bool) -> Raw:
    """`/api` or `/apis` in one answer."""
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": [_told(name, versions) for name, versions in _groups(found).items() if core is (name == "")],
    }


def _told(name: str, versions: dict[str, list[DiscoveryEntry]]) -> Raw:
    return {
        "metadata": {"name": name, "creationTimestamp": None} if name else {"creationTimestamp": None},
        "versions": [
            {"version": version, "freshness": "Current", "resources": list(_nested(members))}
            for version, members in versions.items()
        ],
    }


def _nested(members: Sequence[DiscoveryEntry]) -> Iterable[Raw]:
    for entry in members:
        if "/" in entry.name:
            continue
        subs = [one for one in members if one.name.startswith(f"{entry.name}/")]
        yield {
            "resource": entry.name,
            "responseKind": _kind(entry),
            "scope": "Namespaced" if entry.resource.namespaced else "Cluster",
            "singularResource": entry.singular,
            "verbs": list(entry.verbs),
            **({"shortNames": list(entry.short_names)} if entry.short_names else {}),
            **({"categories": list(entry.categories)} if entry.categories else {}),
            **({"subresources": [_sub(one) for one in subs]} if subs else {}),
        }


def _sub(entry: DiscoveryEntry) -> Raw:
    name = entry.name.partition("/")[2]
    return {"subresource": name, "responseKind": _kind(entry), "verbs": list(entry.verbs)}


def _kind(entry: DiscoveryEntry) -> Raw:
    name, version, kind = entry.response
    return {"group": name, "version": version, "kind": kind}

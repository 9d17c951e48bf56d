"""OpenAPI v3 of the served kinds, as far as kubectl reads it: for `explain`, and for server-side field validation.

Custom kinds have the schemas of their CRDs. Built-in kinds list the fields that muster and its store read; objects may
have more. OpenAPI v2 is an empty document: it has nothing that v3 lacks.
"""

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import msgspec

from muster.api.objects import KINDS
from muster.embedded.admission.builtin_schemas import METADATA, STRING, builtin_schema, fields
from muster.embedded.rest.responses import status_error
from muster.embedded.store.kinds import Kind
from muster.kube.cluster import Raw
from muster.validation.crds import schema

V2_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
# kubectl accepts the form with `@`, but Go cannot read it in a response
V2_PROTOBUF_ACCEPTED = (V2_PROTOBUF, "application/com.github.proto-openapi.spec.v2@v1.0+protobuf")
_TITLE, _VERSION = "muster", "v1"


def root(kinds: Sequence[Kind]) -> Raw:
    """`/openapi/v3`: the path of the document of each group and version."""
    paths = dict.fromkeys(_group_version_path(kind) for kind in kinds)
    kinds = tuple(kinds)
    return {"paths": {path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={_hash(kinds, path)}"} for path in paths}}


def document(kinds: Sequence[Kind], path: str) -> Raw:
    """`/openapi/v3/apis/{group}/{version}`; ApiError 404 where it is not served."""
    members = [kind for kind in kinds if _group_version_path(kind) == path]
    if not members:
        raise status_error(404, f"there is no OpenAPI document for `{path[:300]}`")
    return {
        "openapi": "3.0.0",
        "info": {"title": _TITLE, "version": _VERSION},
        "paths": {url: item for kind in members for url, item in _paths(kind).items()},
        "components": {"schemas": {_component(kind): _schema(kind) for kind in members}},
    }


def empty_v2() -> Raw:
    """`/openapi/v2` as JSON."""
    return {"swagger": "2.0", "info": {"title": _TITLE, "version": _VERSION}, "paths": {}}


def empty_v2_protobuf() -> bytes:
    """`/openapi/v2` as protobuf: swagger (field 1), info (2) with title (1) and version (2), paths (8)."""
    info = _field(1, _TITLE.encode()) + _field(2, _VERSION.encode())
    return _field(1, b"2.0") + _field(2, info) + _field(8, b"")


def _field(number: int, data: bytes) -> bytes:
    return bytes([number << 3 | 2, len(data)]) + data


def _group_version_path(kind: Kind) -> str:
    resource = kind.resource
    return f"apis/{resource.group}/{resource.version}" if resource.group else f"api/{resource.version}"


def _hash(kinds: Sequence[Kind], path: str) -> str:
    return sha256(msgspec.json.encode(document(kinds, path))).hexdigest()[:32].upper()


def _gvk(kind: Kind) -> Raw:
    return {"group": kind.resource.group, "version": kind.resource.version, "kind": kind.resource.kind}


def _component(kind: Kind) -> str:
    """`ai.run.scheduling.v2alpha2.PodGroup`, as Kubernetes names it."""
    resource = kind.resource
    return ".".join([*reversed((resource.group or "core.api.k8s.io").split(".")), resource.version, resource.kind])


def _schema(kind: Kind) -> Raw:
    wire_type = KINDS.get((kind.resource.api_version, kind.resource.kind))
    merged: Raw = kind.schema or (schema(wire_type) if wire_type else {"type": "object"})
    for addition in () if kind.is_custom else builtin_schema(kind.resource):
        merged = _merge_schemas(merged, addition)
    merged = _merge_schemas(merged, fields(apiVersion=STRING, kind=STRING, metadata=METADATA))
    return {**merged, "x-kubernetes-group-version-kind": [_gvk(kind)]}


def _merge_schemas(base: Raw, addition: Raw) -> Raw:
    """The fields of both schemas of a value; the first one prevails."""
    merged = {**addition, **base}
    if "properties" in addition:
        own = base.get("properties", {})
        added = addition["properties"].items()
        merged["properties"] = {**own, **{name: _merge_schemas(own.get(name, {}), field) for name, field in added}}
    if "items" in addition:
        merged["items"] = _merge_schemas(base.get("items", {}), addition["items"])
    return merged


# paths --------------------------------------------------------------------------------------------------------------

_QUERY = ("dryRun", "fieldManager", "fieldValidation")
_PATCHES = ("application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml")


def _paths(kind: Kind) -> Raw:
    """The operations with their query parameters and patch types."""
    resource = kind.resource
    scope = "namespaces/{namespace}/" if resource.namespaced else ""
    collection = f"/{_group_version_path(kind)}/{scope}{resource.plural}"
    return {
        collection: {"get": _operation(kind, "list"), "post": _operation(kind, "post", _QUERY)},
        f"{collection}/{{name}}": {
            "get": _operation(kind, "get"),
            "put": _operation(kind, "put", _QUERY),
            "patch": {
                **_operation(kind, "patch", (*_QUERY, "force")),
                "requestBody": {"content": {media: {"schema": {"type": "object"}} for media in _PATCHES}},
            },
            "delete": _operation(kind, "delete", ("dryRun", "gracePeriodSeconds", "propagationPolicy")),
        },
    }


def _operation(kind: Kind, action: str, query: Sequence[str] = ()) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{_component(kind)}"}}}
    return {
        "parameters": [{"name": name, "in": "query", "schema": {"type": "string"}} for name in query],
        "responses": {"200": {"description": "OK", "content": content}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": _gvk(kind),
    }

"""OpenAPI v3 of what is served, as far as kubectl reads it: `explain`, and that the server validates fields itself.

Custom kinds have the schemas of their CRDs. Of built-in kinds the fields are told that muster and its store read; more
may stand there as well. Version 2 is answered with an empty document: there is nothing in it that version 3 lacks.
"""

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import msgspec

from muster.api.objects import KINDS
from muster.embedded.admission.builtin_schemas import METADATA, STRING, builtin_schema, fields
from muster.embedded.rest.responses import refusal
from muster.embedded.store.kinds import Kind
from muster.kube.cluster import Raw
from muster.validation.crds import schema

V2_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
V2_ASKED = (V2_PROTOBUF, "application/com.github.proto-openapi.spec.v2@v1.0+protobuf")  # Go reads no `@` in answers
_TITLE, _VERSION = "muster", "v1"


def root(kinds: Sequence[Kind]) -> Raw:
    """`/openapi/v3`: where the document of each group and version is."""
    places = dict.fromkeys(_place(kind) for kind in kinds)
    kinds = tuple(kinds)
    return {
        "paths": {place: {"serverRelativeURL": f"/openapi/v3/{place}?hash={_hash(kinds, place)}"} for place in places}
    }


def document(kinds: Sequence[Kind], place: str) -> Raw:
    """`/openapi/v3/apis/{group}/{version}`; 404 where there is none."""
    members = [kind for kind in kinds if _place(kind) == place]
    if not members:
        raise refusal(404, f"there is no OpenAPI document for `{place[:300]}`")
    return {
        "openapi": "3.0.0",
        "info": {"title": _TITLE, "version": _VERSION},
        "paths": {path: item for kind in members for path, item in _paths(kind).items()},
        "components": {"schemas": {_component(kind): _schema(kind) for kind in members}},
    }


def empty_v2() -> Raw:
    """`/openapi/v2` as JSON."""
    return {"swagger": "2.0", "info": {"title": _TITLE, "version": _VERSION}, "paths": {}}


def empty_v2_protobuf() -> bytes:
    """The same, as kubectl asks for it: swagger (field 1), info (2) with title (1) and version (2), paths (8)."""
    info = _field(1, _TITLE.encode()) + _field(2, _VERSION.encode())
    return _field(1, b"2.0") + _field(2, info) + _field(8, b"")


def _field(number: int, data: bytes) -> bytes:
    return bytes([number << 3 | 2, len(data)]) + data


def _place(kind: Kind) -> str:
    one = kind.resource
    return f"apis/{one.group}/{one.version}" if one.group else f"api/{one.version}"


def _hash(kinds: Sequence[Kind], place: str) -> str:
    return sha256(msgspec.json.encode(document(kinds, place))).hexdigest()[:32].upper()


def _gvk(kind: Kind) -> Raw:
    return {"group": kind.resource.group, "version": kind.resource.version, "kind": kind.resource.kind}


def _component(kind: Kind) -> str:
    """`ai.run.scheduling.v2alpha2.PodGroup`, as Kubernetes names it."""
    one = kind.resource
    return ".".join([*reversed((one.group or "core.api.k8s.io").split(".")), one.version, one.kind])


def _schema(kind: Kind) -> Raw:
    known = KINDS.get((kind.resource.api_version, kind.resource.kind))
    found: Raw = kind.schema or (schema(known) if known else {"type": "object"})
    for more in () if kind.is_custom else builtin_schema(kind.resource):
        found = _joined(found, more)
    found = _joined(found, fields(apiVersion=STRING, kind=STRING, metadata=METADATA))
    return {**found, "x-kubernetes-group-version-kind": [_gvk(kind)]}


def _joined(one: Raw, other: Raw) -> Raw:
    """What either of two schemas of the same value knows; the first has the words."""
    found = {**other, **one}
    if "properties" in other:
        own = one.get("properties", {})
        found["properties"] = {
            **own,
            **{name: _joined(own.get(name, {}), more) for name, more in other["properties"].items()},
        }
    if "items" in other:
        found["items"] = _joined(one.get("items", {}), other["items"])
    return found


# paths --------------------------------------------------------------------------------------------------------------

_QUERY = ("dryRun", "fieldManager", "fieldValidation")
_PATCHES = ("application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml")


def _paths(kind: Kind) -> Raw:
    """Only what says which parameters and patches there are."""
    one = kind.resource
    whole = f"/{_place(kind)}/" + ("namespaces/{namespace}/" if one.namespaced else "") + one.plural
    return {
        whole: {"get": _operation(kind, "list"), "post": _operation(kind, "post", _QUERY)},
        f"{whole}/{{name}}": {
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

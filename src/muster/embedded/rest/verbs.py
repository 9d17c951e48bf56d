"""The write verbs, and the table of all verbs by kind of target."""

from collections.abc import Awaitable, Callable, Mapping
from typing import cast

from starlette.requests import Request
from starlette.responses import Response

from muster.api.resources import NAMESPACES, POD_CLIQUE_SETS, SCALES, Resource
from muster.embedded.rest.negotiation import (
    PATCH_TYPES,
    content_type,
    decode_body,
    negotiate_format,
    read_body,
    read_object,
)
from muster.embedded.rest.read_verbs import ServerContext, format_object, get_object, list_objects, object_list
from muster.embedded.rest.request_target import Target
from muster.embedded.rest.responses import object_response, status_error, success_status
from muster.embedded.rest.write_options import WriteOptions, eviction_options, parse_delete_options, parse_write_options
from muster.kube.cluster import PatchType, Raw
from muster.kube.errors import ApiError
from muster.validation.check import check
from muster.validation.context import ValidationContext

MOST_WARNINGS = 20
Verb = Callable[[ServerContext, Target, Request], Awaitable[Response]]


async def dispatch(context: ServerContext, target: Target, request: Request) -> Response:
    """Run the verb of the method on the target; ApiError 405 where there is none."""
    verb = _verbs(target).get(request.method)
    if verb is None:
        raise status_error(405, "the server does not allow this method on the requested resource")
    return await verb(context, target, request)


# create, update and patch --------------------------------------------------------------------------------------------


def _object_key(target: Target) -> tuple[Resource, str, str]:
    return target.resource, target.namespace, target.name


async def create(context: ServerContext, target: Target, request: Request) -> Response:
    """Create an object in a collection."""
    response_format, options = negotiate_format(request.headers.get("accept", "")), parse_write_options(request)
    raw = _with_kind(target, await read_object(request))
    stored = context.store.create(
        target.resource,
        raw,
        namespace=target.namespace,
        dry_run=options.dry_run,
        field_manager=options.field_manager,
        on_unknown_fields=options.on_unknown_fields,
    )
    return format_object(
        context, target, request, stored, response_format, 201, _warnings(context, target, stored, options)
    )


def _warnings(context: ServerContext, target: Target, stored: Raw, options: WriteOptions) -> list[str]:
    """About unknown fields and, as the webhook of a cluster would, about a PodCliqueSet."""
    if target.resource != POD_CLIQUE_SETS or target.subresource:
        return options.warnings
    problems = check(stored, None, ValidationContext(schedulers=context.schedulers))
    said = [str(problem).replace("\n  ", "; ") for problem in problems if problem.severity == "warning"]
    return [*options.warnings, *said[:MOST_WARNINGS]]


async def replace(context: ServerContext, target: Target, request: Request) -> Response:
    """Replace an object, its status or its scale."""
    response_format, options = negotiate_format(request.headers.get("accept", "")), parse_write_options(request)
    raw = _with_name(target, _with_kind(target, await read_object(request)))
    stored = context.store.replace(
        target.resource,
        raw,
        target.subresource,
        namespace=target.namespace,
        dry_run=options.dry_run,
        field_manager=options.field_manager,
        on_unknown_fields=options.on_unknown_fields,
    )
    return format_object(
        context, target, request, stored, response_format, warnings=_warnings(context, target, stored, options)
    )


async def patch(context: ServerContext, target: Target, request: Request) -> Response:
    """Patch an object; server-side apply may create it."""
    response_format = negotiate_format(request.headers.get("accept", ""))
    media = cast("PatchType", content_type(request, PATCH_TYPES))
    is_apply = media == "application/apply-patch+yaml"
    options = parse_write_options(request, is_apply=is_apply)
    document = decode_body(await read_body(request), media)
    if is_apply and isinstance(document, dict):
        document = _with_name(target, _with_kind(target, document))
    creates = is_apply and not target.subresource and not _exists(context, target)
    stored = context.store.patch(
        *_object_key(target),
        document,
        media,
        target.subresource,
        field_manager=options.field_manager,
        force=options.force,
        dry_run=options.dry_run,
        on_unknown_fields=options.on_unknown_fields,
    )
    warnings = _warnings(context, target, stored, options)
    return format_object(context, target, request, stored, response_format, 201 if creates else 200, warnings)


def _exists(context: ServerContext, target: Target) -> bool:
    try:
        context.store.get(*_object_key(target))
    except ApiError as error:
        if error.status == 404:
            return False
        raise
    return True


def _with_kind(target: Target, raw: Raw) -> Raw:
    """The object with apiVersion and kind; ApiError 400 where they differ from those of the path."""
    resource = SCALES if target.subresource == "scale" else target.resource
    for key, expected in (("apiVersion", resource.api_version), ("kind", resource.kind)):
        stated = raw.get(key, expected)
        if stated != expected:
            raise status_error(
                400, f"the {key} in the data ({str(stated)[:300]}) does not match the expected one ({expected})"
            )
    if not isinstance(raw.get("metadata", {}), dict):
        raise status_error(400, "metadata: must be an object")
    return {**raw, "apiVersion": resource.api_version, "kind": resource.kind}


def _with_name(target: Target, raw: Raw) -> Raw:
    """The object with the name and namespace of the path; ApiError 400 where it has others."""
    metadata = {**raw.get("metadata", {})}
    for key, expected in (("name", target.name), ("namespace", target.namespace)):
        stated = metadata.get(key) or expected
        if stated != expected:
            raise status_error(
                400, f"the {key} of the object ({str(stated)[:253]}) does not match the {key} on the URL ({expected})"
            )
        if expected:
            metadata[key] = expected
    return {**raw, "metadata": metadata}


# deletion -----------------------------------------------------------------------------------------------------------


async def delete(context: ServerContext, target: Target, request: Request) -> Response:
    """Delete an object; it may stay, terminating."""
    response_format, options = negotiate_format(request.headers.get("accept", "")), await parse_delete_options(request)
    result = context.store.delete(
        *_object_key(target),
        uid=options.uid,
        resource_version=options.resource_version,
        grace_seconds=options.grace_seconds,
        propagation=options.propagation,
        dry_run=options.dry_run,
    )
    return format_object(context, target, request, result, response_format)


async def delete_collection(context: ServerContext, target: Target, request: Request) -> Response:
    """Delete the objects that the selectors match."""
    query = request.query_params
    options = await parse_delete_options(request)
    listing = context.store.delete_collection(
        target.resource,
        target.namespace,
        labels=query.get("labelSelector", ""),
        fields=query.get("fieldSelector", ""),
        grace_seconds=options.grace_seconds,
        propagation=options.propagation,
        dry_run=options.dry_run,
    )
    return object_response(object_list(target, listing.items, {"resourceVersion": listing.resource_version}))


# pods ---------------------------------------------------------------------------------------------------------------


async def bind(context: ServerContext, target: Target, request: Request) -> Response:
    """Bind a pod: `pods/binding`."""
    options = parse_write_options(request)
    sent = _with_name(target, _require_kind(await read_object(request), "Binding"))
    node, metadata = sent.get("target"), sent["metadata"]
    if not isinstance(node, dict) or not isinstance(node.get("name"), str) or not node["name"]:
        raise status_error(422, "target.name: Required value: the node to bind to")
    uid = metadata.get("uid") or ""
    if not isinstance(uid, str):
        raise status_error(400, "metadata.uid: must be text")
    context.store.bind(target.namespace, target.name, uid, node["name"], dry_run=options.dry_run, metadata=metadata)
    return object_response(success_status(code=201), 201)


async def evict(context: ServerContext, target: Target, request: Request) -> Response:
    """Evict a pod: `pods/eviction`."""
    sent = _with_name(target, _require_kind(await read_object(request), "Eviction"))
    options = eviction_options(sent.get("deleteOptions"), request)
    context.store.evict(
        target.namespace, target.name, options.uid, grace_seconds=options.grace_seconds, dry_run=options.dry_run
    )
    return object_response(success_status(code=201), 201)


def _require_kind(raw: Raw, kind: str) -> Raw:
    if raw.get("kind", kind) != kind or not isinstance(raw.get("metadata", {}), dict):
        raise status_error(400, f"the body must be a {kind}")
    return raw


# all verbs ----------------------------------------------------------------------------------------------------------

COLLECTION: Mapping[str, Verb] = {"GET": list_objects, "POST": create, "DELETE": delete_collection}
ALL_NAMESPACES: Mapping[str, Verb] = {"GET": list_objects}  # no create and no deletecollection across namespaces
OBJECT: Mapping[str, Verb] = {"GET": get_object, "PUT": replace, "PATCH": patch, "DELETE": delete}
SUBRESOURCE: Mapping[str, Verb] = {"GET": get_object, "PUT": replace, "PATCH": patch}
ACTION_SUBRESOURCES: Mapping[str, Mapping[str, Verb]] = {
    "binding": {"POST": bind},
    "eviction": {"POST": evict},
    "finalize": {"PUT": replace},
}


def _verbs(target: Target) -> Mapping[str, Verb]:
    if not target.name:
        return _collection_verbs(target)
    if not target.subresource:
        return OBJECT
    return ACTION_SUBRESOURCES.get(target.subresource, SUBRESOURCE)


def _collection_verbs(target: Target) -> Mapping[str, Verb]:
    if target.resource.namespaced and not target.namespace:
        return ALL_NAMESPACES
    return {"GET": list_objects, "POST": create} if target.resource == NAMESPACES else COLLECTION

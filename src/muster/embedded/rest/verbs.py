"""What is done to a target: one function a verb, and the table that says which there are."""

from collections.abc import Awaitable, Callable, Mapping
from typing import cast

from starlette.requests import Request
from starlette.responses import Response

from muster.api.resources import NAMESPACES, SCALES, Resource
from muster.embedded.rest.negotiation import PATCHES, body, content_type, sent_object, value, wanted
from muster.embedded.rest.read_verbs import Face, listed, read, shown_as, whole_list
from muster.embedded.rest.request_target import Target
from muster.embedded.rest.responses import answer, refusal, success
from muster.embedded.rest.write_options import deleting, deleting_from, writing
from muster.kube.cluster import PatchType, Raw
from muster.kube.errors import ApiError

Verb = Callable[[Face, Target, Request], Awaitable[Response]]


async def act(face: Face, found: Target, request: Request) -> Response:
    """Whatever the method means for the target; 405 where it means nothing."""
    verb = _verbs(found).get(request.method)
    if verb is None:
        raise refusal(405, "the server does not allow this method on the requested resource")
    return await verb(face, found, request)


# writing ------------------------------------------------------------------------------------------------------------


def _place(found: Target) -> tuple[Resource, str, str]:
    return found.resource, found.namespace, found.name


async def create(face: Face, found: Target, request: Request) -> Response:
    """A new object in a collection."""
    form, options = wanted(request.headers.get("accept", "")), writing(request)
    raw = _fitting(found, await sent_object(request))
    stored = face.store.create(
        found.resource,
        raw,
        namespace=found.namespace,
        dry_run=options.dry_run,
        field_manager=options.manager,
        on_unknown_fields=options.on_unknown_fields,
    )
    return shown_as(face, found, request, stored, form, 201, options.warnings)


async def replace(face: Face, found: Target, request: Request) -> Response:
    """An object, its status or its scale as a whole."""
    form, options = wanted(request.headers.get("accept", "")), writing(request)
    raw = _named(found, _fitting(found, await sent_object(request)))
    stored = face.store.replace(
        found.resource,
        raw,
        found.subresource,
        namespace=found.namespace,
        dry_run=options.dry_run,
        field_manager=options.manager,
        on_unknown_fields=options.on_unknown_fields,
    )
    return shown_as(face, found, request, stored, form, warnings=options.warnings)


async def patch(face: Face, found: Target, request: Request) -> Response:
    """Part of an object; server-side apply may create it."""
    form, media = wanted(request.headers.get("accept", "")), cast("PatchType", content_type(request, PATCHES))
    applies = media == "application/apply-patch+yaml"
    options = writing(request, applies=applies)
    change = value(await body(request), media)
    if applies and isinstance(change, dict):
        change = _named(found, _fitting(found, change))
    created = applies and not found.subresource and not _exists(face, found)
    stored = face.store.patch(
        *_place(found),
        change,
        media,
        found.subresource,
        field_manager=options.manager,
        force=options.force,
        dry_run=options.dry_run,
        on_unknown_fields=options.on_unknown_fields,
    )
    return shown_as(face, found, request, stored, form, 201 if created else 200, options.warnings)


def _exists(face: Face, found: Target) -> bool:
    try:
        face.store.get(*_place(found))
    except ApiError as error:
        if error.status == 404:
            return False
        raise
    return True


def _fitting(found: Target, raw: Raw) -> Raw:
    """The object with its kind; 400 where it says another one than the path."""
    resource = SCALES if found.subresource == "scale" else found.resource
    for key, right in (("apiVersion", resource.api_version), ("kind", resource.kind)):
        said = raw.get(key, right)
        if said != right:
            raise refusal(400, f"the {key} in the data ({str(said)[:300]}) does not match the expected one ({right})")
    if not isinstance(raw.get("metadata", {}), dict):
        raise refusal(400, "metadata: must be an object")
    return {**raw, "apiVersion": resource.api_version, "kind": resource.kind}


def _named(found: Target, raw: Raw) -> Raw:
    """With the name and namespace of the path; 400 where it says others."""
    metadata = {**raw.get("metadata", {})}
    for key, right in (("name", found.name), ("namespace", found.namespace)):
        said = metadata.get(key) or right
        if said != right:
            raise refusal(
                400, f"the {key} of the object ({str(said)[:253]}) does not match the {key} on the URL ({right})"
            )
        if right:
            metadata[key] = right
    return {**raw, "metadata": metadata}


# letting go ---------------------------------------------------------------------------------------------------------


async def delete(face: Face, found: Target, request: Request) -> Response:
    """Gone, or on its way."""
    form, options = wanted(request.headers.get("accept", "")), await deleting(request)
    left = face.store.delete(
        *_place(found),
        uid=options.uid,
        resource_version=options.resource_version,
        grace_seconds=options.grace_seconds,
        propagation=options.propagation,
        dry_run=options.dry_run,
    )
    return shown_as(face, found, request, left, form)


async def delete_collection(face: Face, found: Target, request: Request) -> Response:
    """All that the selectors find."""
    query = request.query_params
    options = await deleting(request)
    listing = face.store.delete_collection(
        found.resource,
        found.namespace,
        labels=query.get("labelSelector", ""),
        fields=query.get("fieldSelector", ""),
        grace_seconds=options.grace_seconds,
        propagation=options.propagation,
        dry_run=options.dry_run,
    )
    return answer(whole_list(found, listing.items, {"resourceVersion": listing.resource_version}))


# pods ---------------------------------------------------------------------------------------------------------------


async def bind(face: Face, found: Target, request: Request) -> Response:
    """`pods/binding`."""
    options = writing(request)
    sent = _named(found, _of_kind(await sent_object(request), "Binding"))
    node, metadata = sent.get("target"), sent["metadata"]
    if not isinstance(node, dict) or not isinstance(node.get("name"), str) or not node["name"]:
        raise refusal(422, "target.name: Required value: the node to bind to")
    uid = metadata.get("uid") or ""
    if not isinstance(uid, str):
        raise refusal(400, "metadata.uid: must be text")
    face.store.bind(found.namespace, found.name, uid, node["name"], dry_run=options.dry_run, metadata=metadata)
    return answer(success(code=201), 201)


async def evict(face: Face, found: Target, request: Request) -> Response:
    """`pods/eviction`."""
    sent = _named(found, _of_kind(await sent_object(request), "Eviction"))
    options = deleting_from(sent.get("deleteOptions"), request)
    face.store.evict(
        found.namespace, found.name, options.uid, grace_seconds=options.grace_seconds, dry_run=options.dry_run
    )
    return answer(success(code=201), 201)


def _of_kind(raw: Raw, kind: str) -> Raw:
    if raw.get("kind", kind) != kind or not isinstance(raw.get("metadata", {}), dict):
        raise refusal(400, f"the body must be a {kind}")
    return raw


# the table ----------------------------------------------------------------------------------------------------------

COLLECTION: Mapping[str, Verb] = {"GET": listed, "POST": create, "DELETE": delete_collection}
EVERYWHERE: Mapping[str, Verb] = {"GET": listed}  # across namespaces nothing is made, and nothing goes at once
OBJECT: Mapping[str, Verb] = {"GET": read, "PUT": replace, "PATCH": patch, "DELETE": delete}
PART: Mapping[str, Verb] = {"GET": read, "PUT": replace, "PATCH": patch}
ACTIONS: Mapping[str, Mapping[str, Verb]] = {
    "binding": {"POST": bind},
    "eviction": {"POST": evict},
    "finalize": {"PUT": replace},
}


def _verbs(found: Target) -> Mapping[str, Verb]:
    if not found.name:
        return _of_many(found)
    if not found.subresource:
        return OBJECT
    return ACTIONS.get(found.subresource, PART)


def _of_many(found: Target) -> Mapping[str, Verb]:
    if found.resource.namespaced and not found.namespace:
        return EVERYWHERE
    return {"GET": listed, "POST": create} if found.resource == NAMESPACES else COLLECTION

"""The read verbs: get, list and watch, of whole objects, tables or partial metadata."""

from collections.abc import Callable, Sequence
from datetime import datetime

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from muster.embedded.cluster_store import ClusterStore
from muster.embedded.rest.answer_budget import AnswerBudget
from muster.embedded.rest.list_options import parse_list_options
from muster.embedded.rest.negotiation import ResponseFormat, negotiate_format
from muster.embedded.rest.request_target import Target
from muster.embedded.rest.responses import object_response
from muster.embedded.rest.table.tables import parse_include, partial_metadata, partial_metadata_list, to_table
from muster.embedded.rest.watch_stream import OpenWatches, watch_objects
from muster.kube.cluster import Listing, Raw


class ServerContext(Struct, frozen=True):
    """What the verbs share: the store, its clock, the open watches, the bytes of large answers, and the token."""

    store: ClusterStore
    clock: Callable[[], datetime]
    watches: OpenWatches
    budget: AnswerBudget
    token: str = ""  # empty: no authentication
    schedulers: Sequence[str] = ()  # ours, for warnings about objects of others; empty: there is no such warning

    def __repr__(self) -> str:
        return "ServerContext(…)"  # a token has no place in logs


async def get_object(context: ServerContext, target: Target, request: Request) -> Response:
    """Get one object."""
    response_format = negotiate_format(request.headers.get("accept", ""))
    version = request.query_params.get("resourceVersion", "")
    raw = context.store.get(target.resource, target.namespace, target.name, target.subresource, version=version)
    return format_object(context, target, request, raw, response_format)


async def list_objects(context: ServerContext, target: Target, request: Request) -> Response:
    """List a collection, or watch it."""
    query = request.query_params
    options = parse_list_options(query)
    if options.watch:
        return watch_objects(context.store, context.watches, target, request, options, context.clock)
    response_format = negotiate_format(request.headers.get("accept", ""))
    listing = context.store.list(
        target.resource,
        target.namespace,
        labels=options.labels,
        fields=options.fields,
        limit=options.limit,
        after=options.after,
        version=options.version,
        exact=options.exact,
    )
    metadata = _list_metadata(listing)
    match response_format.view:
        case "Table":
            include_object = parse_include(query.get("includeObject", ""))
            columns, version = target.columns, response_format.version
            shown = to_table(
                columns,
                listing.items,
                context.clock(),
                include_object=include_object,
                version=version,
                metadata=metadata,
            )
        case "PartialObjectMetadata":
            shown = partial_metadata_list(listing.items, metadata, response_format.version)
        case "Object":
            shown = object_list(target, listing.items, metadata)
    return object_response(shown, media=response_format.media)


def _list_metadata(listing: Listing) -> Raw:
    """The ListMeta of a page."""
    return {
        "resourceVersion": listing.resource_version,
        **({"continue": listing.more} if listing.more else {}),
        **({"remainingItemCount": listing.remaining} if listing.remaining else {}),
    }


def object_list(target: Target, items: tuple[Raw, ...], metadata: Raw) -> Raw:
    """Objects as a list of their kind."""
    return {
        "kind": target.kind.list_kind,
        "apiVersion": target.resource.api_version,
        "metadata": metadata,
        "items": items,
    }


def format_object(
    context: ServerContext,
    target: Target,
    request: Request,
    raw: Raw,
    response_format: ResponseFormat,
    code: int = 200,
    warnings: Sequence[str] = (),
) -> Response:
    """The response with an object in the negotiated format."""
    if raw.get("kind") == "Status" or response_format.view == "Object":
        return object_response(raw, code, response_format.media, warnings)
    if response_format.view == "PartialObjectMetadata":
        return object_response(partial_metadata(raw, response_format.version), code, response_format.media, warnings)
    include_object = parse_include(request.query_params.get("includeObject", ""))
    metadata = {"resourceVersion": raw["metadata"].get("resourceVersion", "")}
    shown = to_table(
        target.columns,
        [raw],
        context.clock(),
        include_object=include_object,
        version=response_format.version,
        metadata=metadata,
    )
    return object_response(shown, code, response_format.media, warnings)

"""Objects on their way out: one, many, or as they change; whole, as a table, or their metadata alone."""

from collections.abc import Callable, Sequence
from datetime import datetime

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from muster.embedded.cluster_store import ClusterStore
from muster.embedded.rest.list_options import asked
from muster.embedded.rest.negotiation import Wanted, wanted
from muster.embedded.rest.request_target import Target
from muster.embedded.rest.responses import answer
from muster.embedded.rest.table.tables import include, partial, partial_list, table
from muster.embedded.rest.watch_stream import Watches, watch
from muster.kube.cluster import Listing, Raw


class Face(Struct, frozen=True):
    """The store, and what its REST face keeps beside it."""

    store: ClusterStore
    clock: Callable[[], datetime]
    watches: Watches
    token: str = ""  # empty: whoever reaches it may

    def __repr__(self) -> str:
        return "Face(…)"


async def read(face: Face, found: Target, request: Request) -> Response:
    """One object."""
    form, version = wanted(request.headers.get("accept", "")), request.query_params.get("resourceVersion", "")
    raw = face.store.get(found.resource, found.namespace, found.name, found.subresource, version=version)
    return shown_as(face, found, request, raw, form)


async def listed(face: Face, found: Target, request: Request) -> Response:
    """Many objects, or their events."""
    query = request.query_params
    options = asked(query)
    if options.watch:
        return watch(face.store, face.watches, found, request, options, face.clock)
    form = wanted(request.headers.get("accept", ""))
    listing = face.store.list(
        found.resource,
        found.namespace,
        labels=options.labels,
        fields=options.fields,
        limit=options.limit,
        after=options.after,
        version=options.version,
        exact=options.exact,
    )
    metadata = _of_list(listing)
    match form.view:
        case "Table":
            carry = include(query.get("includeObject", ""))
            columns, version = found.columns, form.version
            shown = table(columns, listing.items, face.clock(), carry=carry, version=version, metadata=metadata)
        case "PartialObjectMetadata":
            shown = partial_list(listing.items, metadata, form.version)
        case "Object":
            shown = whole_list(found, listing.items, metadata)
    return answer(shown, media=form.media)


def _of_list(listing: Listing) -> Raw:
    """The metadata of a page."""
    return {
        "resourceVersion": listing.resource_version,
        **({"continue": listing.more} if listing.more else {}),
        **({"remainingItemCount": listing.remaining} if listing.remaining else {}),
    }


def whole_list(found: Target, items: tuple[Raw, ...], metadata: Raw) -> Raw:
    """Objects as the list of their kind."""
    return {
        "kind": found.kind.list_kind,
        "apiVersion": found.resource.api_version,
        "metadata": metadata,
        "items": items,
    }


def shown_as(
    face: Face, found: Target, request: Request, raw: Raw, form: Wanted, code: int = 200, warnings: Sequence[str] = ()
) -> Response:
    """An object as the client likes it."""
    if raw.get("kind") == "Status" or form.view == "Object":
        return answer(raw, code, form.media, warnings)
    if form.view == "PartialObjectMetadata":
        return answer(partial(raw, form.version), code, form.media, warnings)
    carry = include(request.query_params.get("includeObject", ""))
    metadata = {"resourceVersion": raw["metadata"].get("resourceVersion", "")}
    shown = table(found.columns, [raw], face.clock(), carry=carry, version=form.version, metadata=metadata)
    return answer(shown, code, form.media, warnings)

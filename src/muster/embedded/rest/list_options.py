"""ListOptions: the query parameters of a list or a watch.

Rule: contradicting options are rejected in Kubernetes' words (422), never ignored.
"""

from collections.abc import Iterator

from msgspec import Struct
from starlette.datastructures import QueryParams

from muster.api.resources import LIST_OPTIONS
from muster.embedded.api_errors import Cause, invalid
from muster.embedded.rest.negotiation import query_flag, query_int

EXACT, NOT_OLDER = "Exact", "NotOlderThan"
_MATCH = "resourceVersionMatch"


class ListOptions(Struct, frozen=True):
    """The options of a list or a watch."""

    watch: bool
    labels: str
    fields: str
    version: str  # empty: the latest
    match: str  # empty, Exact or NotOlderThan
    limit: int  # 0: all
    after: str  # the continue token
    timeout_seconds: int  # of a watch; 0: not set
    initial: bool | None  # sendInitialEvents; None: not set
    bookmarks: bool

    @property
    def exact(self) -> bool:
        """Whether to list at this very version; the default for pages of a version."""
        return self.match == EXACT or (not self.match and self.limit > 0 and self.version not in ("", "0"))


def parse_list_options(query: QueryParams) -> ListOptions:
    """The options of a query; ApiError 400 for a value of the wrong type, 422 for contradictions."""
    watch, version, match = query_flag(query, "watch"), query.get("resourceVersion", ""), query.get(_MATCH, "")
    initial = query_flag(query, "sendInitialEvents") if "sendInitialEvents" in query else None
    if watch and initial is None and not match and version in ("", "0"):
        initial, match = True, NOT_OLDER
    options = ListOptions(
        watch,
        query.get("labelSelector", ""),
        query.get("fieldSelector", ""),
        version,
        match,
        max(query_int(query, "limit") or 0, 0),
        query.get("continue", ""),
        max(query_int(query, "timeoutSeconds") or 0, 0),
        initial,
        query_flag(query, "allowWatchBookmarks"),
    )
    causes = tuple(_watch_problems(options) if watch else _list_problems(options))
    if causes:
        raise invalid(LIST_OPTIONS, "", causes)
    return options


def _forbidden(field: str, reason: str) -> Cause:
    return Cause(field, f"Forbidden: {reason}", "FieldValueForbidden")


def _unsupported(match: str, *supported: str) -> Cause:
    listed = ", ".join(f'"{value}"' for value in supported)
    message = f'Unsupported value: "{match[:60]}": supported values: {listed}'
    return Cause(_MATCH, message, "FieldValueNotSupported")


def _list_problems(options: ListOptions) -> Iterator[Cause]:
    if options.match and not options.version:
        yield _forbidden(_MATCH, "resourceVersionMatch is forbidden unless resourceVersion is provided")
    if options.match and options.after:
        yield _forbidden(_MATCH, "resourceVersionMatch is forbidden when continue is provided")
    if options.match not in ("", EXACT, NOT_OLDER):
        yield _unsupported(options.match, EXACT, NOT_OLDER, "")
    if options.match == EXACT and options.version == "0":
        yield _forbidden(_MATCH, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"')
    if options.initial is not None:
        yield _forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list")


def _watch_problems(options: ListOptions) -> Iterator[Cause]:
    if options.initial is not None and options.match != NOT_OLDER:
        yield _forbidden(_MATCH, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
    if options.match and options.initial is None:
        yield _forbidden(_MATCH, "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")
    if options.match not in ("", NOT_OLDER):
        yield _unsupported(options.match, NOT_OLDER)
    if options.match and options.after:
        yield _forbidden(_MATCH, "resourceVersionMatch is forbidden when continue is provided")

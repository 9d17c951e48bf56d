"""What a list or a watch asks for beside its target.

Rule: options that contradict one another are refused in Kubernetes' words (422), never passed over.
"""

from collections.abc import Iterator

from msgspec import Struct
from starlette.datastructures import QueryParams

from muster.api.resources import LIST_OPTIONS
from muster.embedded.api_errors import Cause, invalid
from muster.embedded.rest.negotiation import flag, whole

EXACT, NOT_OLDER = "Exact", "NotOlderThan"
_MATCH = "resourceVersionMatch"


class ListOptions(Struct, frozen=True):
    """ListOptions."""

    watch: bool
    labels: str
    fields: str
    version: str  # empty: the latest
    match: str  # empty, Exact or NotOlderThan
    limit: int  # 0: all
    after: str
    seconds: int  # of a watch; 0: nothing was said
    initial: bool | None  # whether a watch begins with what is there; None: nothing was said
    bookmarks: bool

    @property
    def exact(self) -> bool:
        """Whether this very version is meant: so it is for pages, where nothing else is said."""
        return self.match == EXACT or (not self.match and self.limit > 0 and self.version not in ("", "0"))


def asked(query: QueryParams) -> ListOptions:
    """400 for what is no number, 422 for what makes no sense together."""
    watch, version, match = flag(query, "watch"), query.get("resourceVersion", ""), query.get(_MATCH, "")
    initial = flag(query, "sendInitialEvents") if "sendInitialEvents" in query else None
    if watch and initial is None and not match and version in ("", "0"):
        initial, match = True, NOT_OLDER
    found = ListOptions(
        watch,
        query.get("labelSelector", ""),
        query.get("fieldSelector", ""),
        version,
        match,
        max(whole(query, "limit") or 0, 0),
        query.get("continue", ""),
        max(whole(query, "timeoutSeconds") or 0, 0),
        initial,
        flag(query, "allowWatchBookmarks"),
    )
    causes = tuple(_watched(found) if watch else _listed(found))
    if causes:
        raise invalid(LIST_OPTIONS, "", causes)
    return found


def _forbidden(field: str, why: str) -> Cause:
    return Cause(field, f"Forbidden: {why}", "FieldValueForbidden")


def _unsupported(match: str, *known: str) -> Cause:
    words = ", ".join(f'"{one}"' for one in known)
    said = f'Unsupported value: "{match[:60]}": supported values: {words}'
    return Cause(_MATCH, said, "FieldValueNotSupported")


def _listed(found: ListOptions) -> Iterator[Cause]:
    if found.match and not found.version:
        yield _forbidden(_MATCH, "resourceVersionMatch is forbidden unless resourceVersion is provided")
    if found.match and found.after:
        yield _forbidden(_MATCH, "resourceVersionMatch is forbidden when continue is provided")
    if found.match not in ("", EXACT, NOT_OLDER):
        yield _unsupported(found.match, EXACT, NOT_OLDER, "")
    if found.match == EXACT and found.version == "0":
        yield _forbidden(_MATCH, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"')
    if found.initial is not None:
        yield _forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list")


def _watched(found: ListOptions) -> Iterator[Cause]:
    if found.initial is not None and found.match != NOT_OLDER:
        yield _forbidden(_MATCH, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
    if found.match and found.initial is None:
        yield _forbidden(_MATCH, "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")
    if found.match not in ("", NOT_OLDER):
        yield _unsupported(found.match, NOT_OLDER)
    if found.match and found.after:
        yield _forbidden(_MATCH, "resourceVersionMatch is forbidden when continue is provided")

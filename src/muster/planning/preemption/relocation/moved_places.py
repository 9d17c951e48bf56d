"""Places reserved for pods that move (P7): stored on their PodGroup, as the new pods have other names.

Annotation `muster.dev/moved-to`, JSON: `{"places": [{"subGroup": "w", "node": "n1", "since": RFC 3339, "pods": 2,
"requests": {"cpu": 4000}}]}`; requests are of one pod, in base units. An earlier form had one `since` for all places.
A place stays reserved until as many new pods are placed, or for the grace period of S2 since it was reserved.
Rule: the only clock is the snapshot's `now`, the only memory is the annotation; values that no plan could have written
are ignored.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from muster.api import names
from muster.api.moment import format_time, parse_time
from muster.model.gang.gang import Gang
from muster.model.gang.types import Leaf, Member, walk
from muster.model.snapshot import MAX_AMOUNT
from muster.planning.decision import Eviction
from muster.planning.staleness import GRACE, grace_period

MOST_PLACES = 64  # that one annotation names
LONGEST = timedelta(hours=1)  # that a place stays reserved, whatever the grace period
PODS = "pods"


class PromisedPlace(Struct, frozen=True):
    """A place on a node for so many pods of a leaf that moved, and since when it is reserved."""

    leaf: str
    node: str
    since: datetime
    pods: int
    requests: Mapping[str, int]  # of one pod


def open_places(gang: Gang, now: datetime | None, unseen: str = "") -> tuple[PromisedPlace, ...]:
    """The places still reserved for a gang. `unseen`: an annotation that is not stored yet."""
    text = unseen or gang.source.metadata.annotations.get(names.MOVED_TO)
    if not text or gang.is_foreign:
        return ()
    lasting = min(grace_period(gang) or GRACE, LONGEST)
    # neither over, nor of a time that clocks do not differ by: that is no promise of ours
    valid = [place for place in _read(text) if now is None or abs(now - place.since) < lasting]
    return tuple(_outstanding(gang, valid))


def annotation(gang: Gang, evictions: Iterable[Eviction], now: datetime) -> str | None:
    """What is to stand on the PodGroup after a plan: earlier places that are open, and the new ones; None: nothing.

    `gang` has what the plan binds.
    """
    text = gang.source.metadata.annotations.get(names.MOVED_TO, "")
    before = open_places(gang, now)
    moves = [eviction for eviction in evictions if eviction.move_to and eviction.reason != "Stale"]
    if not moves and before and list(before) == _read(text):
        return text
    leaves = (leaf for leaf in walk(gang.root) if isinstance(leaf, Leaf))
    asks = {(leaf.name, member.name): member.requests for leaf in leaves for member in leaf.members}
    new = [
        PromisedPlace(eviction.sub_group, eviction.move_to, now, 1, asks.get((eviction.sub_group, eviction.pod), {}))
        for eviction in moves
    ]
    return _written([*before, *new])


def is_newer(annotation_text: str, than: str) -> bool:
    """Whether an annotation was made after another; one that cannot be read is the oldest."""
    first, second = ([place.since for place in _read(text)] for text in (annotation_text, than))
    return bool(first) and (not second or max(first) > max(second))


# pods that came -------------------------------------------------------------------------------------------------------

Match = Callable[[Member, PromisedPlace], bool]
MATCHES: tuple[Match, ...] = (  # which place a new pod fills: its own, if that is known; else any of its leaf
    lambda pod, place: pod.node == place.node and pod.requests == place.requests,
    lambda pod, place: pod.node == place.node,
    lambda pod, place: pod.requests == place.requests,
    lambda _pod, _place: True,
)


def _outstanding(gang: Gang, places: Iterable[PromisedPlace]) -> Iterator[PromisedPlace]:
    """The places without those that new pods have filled: one pod fills one place, whatever it requests."""
    leaves = {leaf.name: leaf for leaf in walk(gang.root) if isinstance(leaf, Leaf)}
    by_leaf: dict[str, list[PromisedPlace]] = {}
    for place in places:
        if place.leaf in leaves:
            by_leaf.setdefault(place.leaf, []).append(place)
    for name, left in by_leaf.items():
        begin = min(_second(place) for place in left)
        came = [member for member in leaves[name].placed if member.created >= begin]
        for matches in MATCHES:
            came = [member for member in came if not _fill(left, member, matches)]
        yield from left


def _fill(left: list[PromisedPlace], pod: Member, matches: Match) -> bool:
    """One pod less to wait for at a place that was promised before the pod was made; False: there is no such place."""
    for i, place in enumerate(left):
        if pod.created >= _second(place) and matches(pod, place):
            left[i : i + 1] = [replace(place, pods=place.pods - 1)] if place.pods > 1 else []
            return True
    return False


def _second(place: PromisedPlace) -> int:
    """Pods know their age in seconds."""
    return int(place.since.timestamp())


# the annotation -------------------------------------------------------------------------------------------------------


def _written(places: Iterable[PromisedPlace]) -> str | None:
    """Equal places as one, and the first so many of them: an annotation is small."""
    counts: dict[str, tuple[PromisedPlace, int]] = {}
    for place in places:
        key = repr((place.leaf, place.node, format_time(place.since), sorted(place.requests.items())))
        counts[key] = (place, counts[key][1] + place.pods if key in counts else place.pods)
    rows = [
        {
            "subGroup": place.leaf,
            "node": place.node,
            "since": format_time(place.since),
            "pods": pods,
            "requests": dict(place.requests),
        }
        for _, (place, pods) in sorted(counts.items())[:MOST_PLACES]
    ]
    return json.dumps({"places": rows}, sort_keys=True, separators=(",", ":")) if rows else None


def _read(text: str) -> list[PromisedPlace]:
    """What cannot be read promises nothing."""
    try:
        raw = json.loads(text or "null")
    except (ValueError, RecursionError):
        return []
    if not isinstance(raw, dict):
        return []
    return list(islice(filter(None, map(_place, _rows(raw))), MOST_PLACES))


def _rows(raw: dict[str, object]) -> Iterator[dict[str, object]]:
    """The places as rows, in either form."""
    match raw.get("places"):
        case list(rows):
            yield from (row for row in rows if isinstance(row, dict))
        case dict(leaves):
            for leaf, nodes in leaves.items():
                for node, amounts in nodes.items() if isinstance(nodes, dict) else ():
                    yield from _earlier_row(leaf, node, raw.get("since"), amounts)
        case _:
            return


def _earlier_row(leaf: str, node: str, since: object, amounts: object) -> Iterator[dict[str, object]]:
    """A place of the earlier form: amounts of all pods together, `pods` among them."""
    pods = amounts.get(PODS) if isinstance(amounts, dict) else None
    if isinstance(amounts, dict) and type(pods) is int and pods > 0:
        requests = {key: -(-amount // pods) for key, amount in amounts.items() if key != PODS and type(amount) is int}
        if len(requests) + 1 == len(amounts):
            yield {"subGroup": leaf, "node": node, "since": since, "pods": pods, "requests": requests}


def _place(row: Mapping[str, object]) -> PromisedPlace | None:
    match row:
        case {
            "subGroup": str(leaf),
            "node": str(node),
            "since": str(since),
            "pods": int(pods),
            "requests": dict(requests),
        }:
            begin = parse_time(since)
            sound = type(pods) is int and 0 < pods <= MAX_AMOUNT and PODS not in requests
            sound = sound and all(
                type(amount) is int and 0 <= amount * pods <= MAX_AMOUNT for amount in requests.values()
            )
            return PromisedPlace(leaf, node, begin, pods, requests) if begin is not None and sound else None
        case _:
            return None

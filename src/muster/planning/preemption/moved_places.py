"""Places promised to pods that move (P7): remembered on their PodGroup, as the new pods have other names.

Annotation `muster.dev/moved-to`, JSON: `{"since": RFC 3339, "places": {leaf: {node: {"pods": 2, "cpu": 4000}}}}`.
Amounts are in base units. A promise ends when as many new pods are placed, or with the grace of S2.
Rule: the only clock is the snapshot's `now`, the only memory is the annotation.
"""

import json
from collections.abc import Iterable, Mapping
from datetime import datetime

from msgspec import Struct

from muster.api import names
from muster.api.moment import moment, stamp
from muster.model.gang import Gang, Leaf, walk
from muster.model.snapshot import MOST
from muster.planning.decision import Eviction
from muster.planning.stale import GRACE, grace_of

Amounts = Mapping[str, int]  # `pods` is how many
Places = Mapping[str, Mapping[str, Amounts]]  # by leaf and node
MOST_PLACES = 64  # nodes that one promise names
PODS = "pods"


class Promise(Struct, frozen=True):
    """Places for pods that moved, and since when they are kept."""

    since: datetime
    places: Places


def promise_of(gang: Gang, now: datetime | None, unseen: str = "") -> Promise | None:
    """What is still to be kept for a gang; None: nothing, or no longer. `unseen`: an annotation on its way."""
    text = unseen or gang.source.metadata.annotations.get(names.MOVED_TO)
    found = _read(text) if text else None
    if found is None or gang.is_foreign:
        return None
    if now is not None and abs(now - found.since) >= (grace_of(gang) or GRACE):
        return None  # over, or of a time that clocks do not differ by: no promise of ours
    places = dict(_outstanding(gang, found))
    return Promise(found.since, places) if places else None


def annotation(gang: Gang, evictions: Iterable[Eviction], now: datetime) -> str | None:
    """What is to stand on the PodGroup after a plan: earlier promises that are open, and the new ones; None: nothing.

    `gang` has what the plan binds.
    """
    text = gang.source.metadata.annotations.get(names.MOVED_TO, "")
    before = promise_of(gang, now)
    moves = [one for one in evictions if one.move_to and one.reason != "Stale"]
    if not moves:
        return text if before is not None and before == _read(text) else _written(before)
    places = {leaf: dict(nodes) for leaf, nodes in (before.places if before else {}).items()}
    asks = {
        (leaf.name, member.name): member.requests
        for leaf in walk(gang.root)
        if isinstance(leaf, Leaf)
        for member in leaf.members
    }
    for one in moves:
        here = places.setdefault(one.sub_group, {})
        here[one.move_to] = _plus(here.get(one.move_to, {}), {PODS: 1, **asks.get((one.sub_group, one.pod), {})})
    return _written(Promise(now, places))


def is_newer(one: str, other: str) -> bool:
    """Whether an annotation was made after another; one that cannot be read is the oldest."""
    first, second = _read(one), _read(other)
    return first is not None and (second is None or first.since > second.since)


def _outstanding(gang: Gang, promise: Promise) -> Iterable[tuple[str, Mapping[str, Amounts]]]:
    """Without the places of pods that came since; on their own nodes first."""
    leaves = {leaf.name: leaf for leaf in walk(gang.root) if isinstance(leaf, Leaf)}
    begin = int(promise.since.timestamp())
    for name, nodes in promise.places.items():
        if name not in leaves:
            continue
        left = {node: dict(amounts) for node, amounts in nodes.items()}
        came = [member.node for member in leaves[name].placed if member.created >= begin]
        elsewhere = [node for node in came if not _fulfil(left, node)]
        for _ in elsewhere:
            _fulfil(left, min(left, default=""))
        if left:
            yield name, left


def _fulfil(left: dict[str, dict[str, int]], node: str) -> bool:
    """One pod less to wait for on a node; False: none is."""
    if node not in left:
        return False
    pods = left[node][PODS]
    left[node] = {name: amount * (pods - 1) // pods for name, amount in left[node].items()}
    if pods == 1:
        del left[node]
    return True


def _plus(one: Amounts, other: Amounts) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in sorted({*one, *other})}


# the annotation -------------------------------------------------------------------------------------------------------


def _written(promise: Promise | None) -> str | None:
    """The first so many places: an annotation is small."""
    if promise is None:
        return None
    rows = [(leaf, node) for leaf, nodes in sorted(promise.places.items()) for node in sorted(nodes)]
    places: dict[str, dict[str, Amounts]] = {}
    for leaf, node in rows[:MOST_PLACES]:
        places.setdefault(leaf, {})[node] = dict(promise.places[leaf][node])
    return json.dumps({"since": stamp(promise.since), "places": places}, sort_keys=True, separators=(",", ":"))


def _read(text: str) -> Promise | None:
    """What cannot be read promises nothing."""
    try:
        raw = json.loads(text or "null")
    except (ValueError, RecursionError):
        return None
    if not isinstance(raw, dict) or not isinstance(raw.get("since"), str) or not isinstance(raw.get("places"), dict):
        return None
    since = moment(raw["since"])
    if since is None:
        return None
    places = {leaf: _nodes(nodes) for leaf, nodes in raw["places"].items() if isinstance(nodes, dict)}
    few = dict(list(places.items())[:MOST_PLACES])
    return Promise(since, {leaf: nodes for leaf, nodes in few.items() if nodes})


def _nodes(raw: Mapping[str, object]) -> dict[str, Amounts]:
    found: dict[str, Amounts] = {}
    for node, amounts in list(raw.items())[:MOST_PLACES]:
        if isinstance(amounts, dict) and all(
            type(amount) is int and 0 <= amount <= MOST for amount in amounts.values()
        ):
            found |= {node: amounts} if amounts.get(PODS) else {}
    return found

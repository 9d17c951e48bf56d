"""Queues and fair shares a second time (Q1-Q4), from docs/concepts/queues.md alone; shares no code with the engine."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from math import ceil
from typing import Any, NamedTuple

Raw = dict[str, Any]
Held = Mapping[str, int]  # by resource, in base units: millicores, bytes, devices
GPU = "nvidia.com/gpu"
USUAL = ("cpu", "memory", GPU)
UNITS = {"cpu": 1000}  # base units in one of what pods ask for
SHORT = {"gpu": GPU}  # what a Queue calls it, and what pods do
MEGABYTE = 10**6


class Says(NamedTuple):
    """What a queue says about one resource; None is unlimited."""

    quota: int | None = 0
    limit: int | None = None
    weight: Fraction = Fraction(1)


class Claim(NamedTuple):
    """What one sibling brings to a division."""

    name: str
    want: int  # what it asks for, within its limit
    says: Says = Says()
    priority: int = 100
    created: str = ""  # RFC 3339 in UTC; empty: the oldest

    @property
    def deserves(self) -> int:
        return self.want if self.says.quota is None else min(self.says.quota, self.want)


def divide(amount: int, claims: list[Claim]) -> dict[str, int]:
    """First min(quota, demand, limit), then the surplus by weight; both by priority."""
    largest = Fraction(max([amount, 1, *(one.says.quota or 0 for one in claims)]))
    by_quota = {one.name: largest if one.says.quota is None else Fraction(one.says.quota) for one in claims}
    first = _by_priority(amount, claims, {one.name: one.deserves for one in claims}, by_quota)
    missing = {one.name: one.want - first[one.name] for one in claims}
    more = _by_priority(amount - sum(first.values()), claims, missing, {one.name: one.says.weight for one in claims})
    return {one.name: first[one.name] + more[one.name] for one in claims}


def _by_priority(
    amount: int, claims: list[Claim], missing: dict[str, int], weights: dict[str, Fraction]
) -> dict[str, int]:
    shares: dict[str, int] = {}
    for priority in sorted({one.priority for one in claims}, reverse=True):
        equals = [one for one in claims if one.priority == priority]
        shares |= _fill(amount - sum(shares.values()), equals, missing, weights)
    return shares


def _fill(amount: int, claims: list[Claim], missing: dict[str, int], weights: dict[str, Fraction]) -> dict[str, int]:
    """All at once until the first is full, then the others, until nothing is left; then whole numbers."""
    exact = {one.name: Fraction(0) for one in claims}
    left = Fraction(amount)
    while left > 0 and (open_ := [name for name in exact if weights[name] and exact[name] < missing[name]]):
        together = sum(weights[name] for name in open_)
        step = min(left / together, *((missing[name] - exact[name]) / weights[name] for name in open_))
        for name in open_:
            exact[name] += step * weights[name]
        left -= step * together
    shares = {name: int(part) for name, part in exact.items()}
    behind = sorted(claims, key=lambda one: (shares[one.name] - exact[one.name], one.created, one.name))
    for one in behind[: int(sum(exact.values())) - sum(shares.values())]:
        shares[one.name] += 1
    return shares


class Queues:
    """The tree; without any Queue, `default` is there by itself and unlimited (Q2)."""

    def __init__(self, raws: Iterable[Raw]) -> None:
        self.raws = {raw["metadata"]["name"]: raw for raw in raws}
        self.alone = not self.raws
        if self.alone:
            self.raws = {"default": {"metadata": {"name": "default"}, "spec": {}}}
        named = {_named(name) for raw in self.raws.values() for name in raw["spec"].get("resources") or {}}
        self.resources = (*USUAL, *sorted(named.difference(USUAL)))

    def path(self, name: str) -> list[str]:
        """The queue and those above it, up to the top; empty where it is in no tree."""
        names: list[str] = []
        while name in self.raws and name not in names:
            names.append(name)
            name = self.raws[name]["spec"].get("parentQueue") or ""
        return [] if name else names

    def below(self, name: str) -> list[str]:
        """Children; of the empty name the top queues."""
        return [one for one, raw in self.raws.items() if (raw["spec"].get("parentQueue") or "") == name]

    def is_open(self, name: str) -> bool:
        """Whether workloads can go there: a leaf of the tree."""
        return bool(self.path(name)) and not self.below(name)

    def governs(self, name: str, resource: str) -> bool:
        stated = self.raws[name]["spec"].get("resources") or {}
        return resource in USUAL or resource in map(_named, stated)

    def says(self, name: str, resource: str) -> Says:
        stated = self.raws[name]["spec"].get("resources") or {}
        raw = next((one for short, one in stated.items() if _named(short) == resource), None)
        if raw is None:
            return Says(quota=None) if self.alone else Says()
        unit = MEGABYTE if resource == "memory" else 1
        weight = Fraction(str(raw.get("overQuotaWeight", 1)))
        return Says(_amount(raw.get("quota", 0), unit), _amount(raw.get("limit", -1), unit), weight)

    def shares(self, requested: Mapping[str, Held], pool: Held) -> dict[str, dict[str, int]]:
        """The fair share of every queue, top down: top queues divide the pool, children what their parent has."""
        shares: dict[str, dict[str, int]] = defaultdict(dict)
        for resource in self.resources:
            ahead = [("", pool.get(resource, 0))]
            for name, amount in ahead:
                claims = [self._claim(child, resource, requested) for child in self.below(name)]
                for child, given in divide(amount, claims).items():
                    shares[child][resource] = given
                    ahead.append((child, given))
        return shares

    def _claim(self, name: str, resource: str, requested: Mapping[str, Held]) -> Claim:
        raw = self.raws[name]
        says, want = self.says(name, resource), self._want(name, resource, requested)
        created = raw["metadata"].get("creationTimestamp", "")
        return Claim(name, want, says, raw["spec"].get("priority", 100), created)

    def _want(self, name: str, resource: str, requested: Mapping[str, Held]) -> int:
        """What is requested for below, within the limits on the way."""
        children = self.below(name)
        inside = [self._want(child, resource, requested) for child in children]
        want = sum(inside) if children else requested.get(name, {}).get(resource, 0)
        limit = self.says(name, resource).limit
        return want if limit is None else min(want, limit)

    def summed(self, by_leaf: Mapping[str, Held]) -> dict[str, dict[str, int]]:
        """What every queue has with everything below it."""
        totals: dict[str, dict[str, int]] = {name: defaultdict(int) for name in self.raws}
        for leaf, amounts in by_leaf.items():
            for name in self.path(leaf):
                for resource, amount in amounts.items():
                    totals[name][resource] += amount
        return totals


def base_units(amounts: Mapping[str, Fraction], rounding: Callable[[Fraction], int] = ceil) -> dict[str, int]:
    """What a pod asks for, in whole numbers."""
    return {name: rounding(amount * UNITS.get(name, 1)) for name, amount in amounts.items()}


def _named(short: str) -> str:
    return SHORT.get(short, short)


def _amount(value: int, unit: int) -> int | None:
    return None if value == -1 else value * unit

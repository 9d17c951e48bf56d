"""The Python API, as CONTRACT states it. Thin: every function hands over to the part that does the work."""

import os
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from msgspec import Struct

from muster.api import codec
from muster.api.objects import Objects
from muster.cluster.files import MOST_MIB, sources
from muster.errors import InputError, Refused
from muster.model.snapshot import Snapshot, take
from muster.planning import cycle, decision
from muster.planning.policy import Policy
from muster.planning.whatif import Changes, Supposed, suppose
from muster.reporting import differences, plans, text, whatif
from muster.rules.around import Around
from muster.rules.check import check
from muster.rules.problem import Problem

_around = lru_cache(maxsize=4)(Around)  # many objects are judged against the same surroundings

__all__ = [
    "Objects",
    "Plan",
    "Policy",
    "Problem",
    "WhatIf",
    "explain",
    "load",
    "objects",
    "plan",
    "validate",
    "what_if",
]


class Plan(Struct, frozen=True, eq=False):
    """What one cycle would do, and why."""

    decided: decision.Plan
    snapshot: Snapshot

    @property
    def bindings(self) -> tuple[decision.Binding, ...]:
        """Pods and the nodes they go to."""
        return self.decided.bindings

    @property
    def nominations(self) -> tuple[decision.Binding, ...]:
        """Places on resources that are still being freed."""
        return self.decided.nominations

    @property
    def evictions(self) -> tuple[decision.Eviction, ...]:
        """Pods that have to leave."""
        return self.decided.evictions

    def verdict(self, key: str) -> str:
        """Of one gang, by `namespace/name`."""
        return self.decided.verdict(key)

    def to_dict(self) -> dict[str, Any]:
        """What `plan -o json` prints."""
        return plans.data(self.decided)


class WhatIf(Struct, frozen=True, eq=False):
    """The plan as it is and as it would be. Printed, it is what `muster plan` shows."""

    supposed: Supposed
    before: Plan
    after: Plan

    @property
    def changes(self) -> tuple[str, ...]:
        """What is supposed, in sentences."""
        return tuple(whatif.words(effect) for effect in self.supposed.effects)

    @property
    def differences(self) -> differences.Differences:
        """Gangs and pods that fare otherwise."""
        return differences.compare(self.before.decided, self.after.decided)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the rules say about the changes without refusing them."""
        return tuple(whatif.warnings(self.supposed.judged))

    def lines(self) -> Iterator[text.Line]:
        """For people, with roles that may become colours."""
        return whatif.lines(self.supposed, self.before.decided, self.after.decided)

    def to_dict(self) -> dict[str, Any]:
        """What `plan -o json` prints under a supposition."""
        return whatif.data(self.supposed, self.before.decided, self.after.decided)

    def __str__(self) -> str:
        return text.plain(self.lines())


def load(*paths: str | os.PathLike[str], max_file_mib: int = MOST_MIB) -> Objects:
    """Objects from files, folders, or `-`; InputError names file, document and path."""
    read = (document for source in sources(paths, max_file_mib) for document in codec.read(source.data, source.name))
    return codec.objects(read)


def objects(raws: Iterable[Mapping[str, Any]]) -> Objects:
    """Objects from plain dicts; `List` kinds are unfolded."""
    found: list[codec.Document] = []
    for i, raw in enumerate(raws):
        if not isinstance(raw, Mapping):
            raise InputError(f"object {i}: expected a dict, got {type(raw).__name__}")
        found += codec.unfold(dict(raw), f"object {i}")
    return codec.objects(found)


def plan(given: Objects, policy: Policy | None = None, now: datetime | None = None) -> Plan:
    """One scheduling cycle on these objects; nothing is changed anywhere. Timers are read at `now`, or today."""
    moment = datetime.now(UTC) if now is None else now
    snapshot = take(given, moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    return Plan(cycle.plan(snapshot, policy), snapshot)


def explain(given: Objects, key: str, policy: Policy | None = None, now: datetime | None = None) -> str:
    """Why a gang waits, or where it sits, and what would help. KeyError: there is no such gang."""
    decided = plan(given, policy, now)
    return text.plain(plans.gang_lines(decided.decided.gang(key)))


def what_if(
    given: Objects,
    *,
    with_: Objects | None = None,
    without: Iterable[str] = (),
    drain: Iterable[str] = (),
    set: Mapping[str, Any] | None = None,  # noqa: A002 (the word of the command line)
    policy: Policy | None = None,
    now: datetime | None = None,
) -> WhatIf:
    """The plan before and after: objects added, gangs gone, nodes drained, fields set (`{"d/g.minSubGroup": 2}`).

    InputError: a change names what is not there, or a value of a wrong type. Refused: a rule forbids the result.
    """
    changes = Changes(with_, _each(without), tuple((set or {}).items()), _each(drain))
    supposed = suppose(given, changes)
    if refused := whatif.refusal(supposed.judged):
        raise Refused(refused)
    return WhatIf(supposed, plan(given, policy, now), plan(supposed.objects, policy, now))


def _each(names: Iterable[str]) -> tuple[str, ...]:
    """One name is taken for a list of one."""
    return (names,) if isinstance(names, str) else tuple(names)


def validate(raw: Any, old: Any = None, around: Objects | None = None) -> list[Problem]:
    """Every problem of a PodGroup, Queue or Topology; as an update where `old` is given. Never raises."""
    return list(check(raw, old, _around(around)))

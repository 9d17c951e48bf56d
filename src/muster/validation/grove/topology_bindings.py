"""Rules of a ClusterTopologyBinding (R5): levels that a Topology can hold, each with a name and a label of its own."""

import re
from collections.abc import Iterator

from muster.api import names
from muster.api.grove.topology_binding import ClusterTopologyBinding
from muster.api.topology import LABEL_KEY, MOST_LEVELS
from muster.validation.problem import Problem

DOMAIN = re.compile(r"[a-z][a-z0-9-]*")
_KEY = re.compile(LABEL_KEY)
LEVELS = "spec.levels"


def judge(binding: ClusterTopologyBinding) -> Iterator[Problem]:
    """Every problem of a binding."""
    if not binding.metadata.name:
        yield Problem("metadata.name", "is missing", hint="every ClusterTopologyBinding has a name", rule="R5")
    levels = binding.spec.levels
    if not 1 <= len(levels) <= MOST_LEVELS:
        yield Problem(LEVELS, f"has {len(levels)} levels", hint=f"between 1 and {MOST_LEVELS}", rule="R5")
    yield from _unique("domain", [level.domain for level in levels])
    yield from _unique("key", [level.key for level in levels])
    for i, level in enumerate(levels):
        if len(level.domain) > 63 or not DOMAIN.fullmatch(level.domain):
            says = f"`{level.domain[:80]}` is not the name of a domain" if level.domain else "is missing"
            yield Problem(f"{LEVELS}[{i}].domain", says, hint="lower-case, such as `rack`", rule="R5")
        if len(level.key) > 316 or not _KEY.fullmatch(level.key):
            says = f"`{level.key[:80]}` is not a label key" if level.key else "is missing"
            yield Problem(f"{LEVELS}[{i}].key", says, hint="such as `topology.kubernetes.io/zone`", rule="R5")
    yield from _order([level.key for level in levels])
    yield from _schedulers(binding)


def _unique(field: str, values: list[str]) -> Iterator[Problem]:
    first: dict[str, int] = {}
    for i, value in enumerate(values):
        if value and first.setdefault(value, i) < i:
            says, hint = f"`{value[:80]}` is already level {first[value]}", f"each level has a {field} of its own"
            yield Problem(f"{LEVELS}[{i}].{field}", says, hint=hint, rule="R5")


def _order(keys: list[str]) -> Iterator[Problem]:
    """Well-known labels go from broad to narrow: region, zone, …, hostname."""
    if names.HOSTNAME in keys[:-1]:
        at, says = keys.index(names.HOSTNAME), f"`{names.HOSTNAME}` is the narrowest level there is, but others follow"
        yield Problem(f"{LEVELS}[{at}].key", says, hint="levels go from broad to narrow: put it last", rule="R5")
    if names.ZONE in keys and names.REGION in keys[keys.index(names.ZONE) :]:
        at, says = keys.index(names.REGION), f"`{names.REGION}` is broader than `{names.ZONE}`, but comes after it"
        yield Problem(f"{LEVELS}[{at}].key", says, hint="levels go from broad to narrow: put it first", rule="R5")


def _schedulers(binding: ClusterTopologyBinding) -> Iterator[Problem]:
    seen: set[str] = set()
    for i, bound in enumerate(binding.spec.scheduler_topology_bindings):
        at = f"spec.schedulerTopologyBindings[{i}]"
        for field, value in (("schedulerName", bound.scheduler_name), ("topologyReference", bound.topology_reference)):
            if not value:
                yield Problem(f"{at}.{field}", "is missing", hint="a scheduler and its Topology", rule="R5")
        if bound.scheduler_name in seen:
            says = f"scheduler `{bound.scheduler_name[:63]}` is bound already"
            yield Problem(f"{at}.schedulerName", says, hint="one Topology a scheduler", rule="R5")
        seen.add(bound.scheduler_name)

"""`placementScore` of a PodGang: how well its preferred levels are met, from 0 to 1.

For each constraint with a preferred level: how many of its scheduled pods are in the domain that has most of them. The
score is the sum of these over the sum of the pods; 1 where nothing is preferred.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from muster.api.fields import items, text
from muster.grove.gangs.cliques import GangClique, is_scheduled, node_name
from muster.grove.gangs.domains import Domain, domain_of, level_labels
from muster.workloads.operators.objects import strings
from muster.workloads.types import Children, Raw

_PREFERRED = "topologyConstraint.packConstraint.preferred"
_DIGITS = 4


def placement_score(gang: Raw, cliques: Sequence[GangClique], topology: str, children: Children) -> float:
    """The score of a gang whose minimums are scheduled."""
    together = scheduled = 0
    for level, members in _preferences(gang, cliques):
        nodes = Counter(node_name(pod) for clique in members for pod in clique.live if is_scheduled(pod))
        together += _fullest(nodes, level_labels(topology, level, children), children)
        scheduled += nodes.total()
    return round(together / scheduled, _DIGITS) if scheduled else 1.0


def _preferences(gang: Raw, cliques: Sequence[GangClique]) -> Iterator[tuple[str, Sequence[GangClique]]]:
    """Every preferred level, and the cliques that it is about."""
    by_name = {clique.name: clique for clique in cliques}
    if level := text(gang, f"spec.{_PREFERRED}"):
        yield level, cliques
    for config in items(gang, "spec.topologyConstraintGroupConfigs"):
        if level := text(config, _PREFERRED):
            yield level, [by_name[name] for name in strings(config, "podGroupNames") if name in by_name]
    for clique in cliques:
        if level := text(clique.entry, _PREFERRED):
            yield level, (clique,)


def _fullest(nodes: Mapping[str, int], labels: Sequence[str] | None, children: Children) -> int:
    """How many pods the fullest domain has; those in no domain are in none together."""
    counts: Counter[Domain] = Counter()
    for node, pods in nodes.items() if labels else ():
        if (domain := domain_of(node, labels or (), children)) is not None:
            counts[domain] += pods
    return max(counts.values(), default=0)

"""In how many domains a gang sits, against the least number that could hold it."""

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np

from muster.api.core import Pod
from muster.model.topology import NOWHERE
from muster.simulator.engine.gang_run import GangRun
from muster.simulator.engine.resource_usage import Ints, ResourceUsage
from muster.validation.pods.requests import requests


class DomainCounts:
    """Counts domains of the finest level above single nodes; without a topology there is nothing to count."""

    def __init__(self, usage: ResourceUsage) -> None:
        self._usage = usage
        domain_of = usage.domain_of
        self._largest: dict[str, Ints] = {}  # by resource: what the largest domains have, added up
        if domain_of is not None and (domain_of != NOWHERE).any():
            known = domain_of != NOWHERE
            for resource, amounts in usage.stated_by_node().items():
                sums = np.zeros(int(domain_of.max()) + 1, dtype=np.int64)
                np.add.at(sums, domain_of[known], amounts[known])
                self._largest[resource] = np.cumsum(np.sort(sums)[::-1])

    def count(self, run: GangRun, pods: Iterable[Pod]) -> None:
        """Writes both numbers at the first start of a gang."""
        domain_of = self._usage.domain_of
        if domain_of is None or run.starts != 1:
            return
        placed = [pod for pod in pods if pod.spec.node_name and pod.metadata.deletion_timestamp is None]
        domains = {int(domain_of[self._usage.node_number(pod.spec.node_name)]) for pod in placed}
        requested: Counter[str] = Counter(pods=len(placed))
        for pod in placed:
            requested.update(requests(pod.spec))
        run.domains = len(domains)
        run.least_domains = self._least(requested)

    def _least(self, requested: Mapping[str, int]) -> int:
        """The fewest domains that have as much of each resource: a bound, whatever else runs."""
        known = ((self._largest[name], amount) for name, amount in requested.items() if name in self._largest)
        return max((int(np.searchsorted(largest, amount)) + 1 for largest, amount in known), default=1)

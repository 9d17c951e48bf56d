"""In how many domains a gang sits, against the least number that could hold it."""

from collections.abc import Iterable

import numpy as np

from muster.api.core import Pod
from muster.api.names import GPU
from muster.model.topology import NOWHERE
from muster.simulator.engine.gang_run import GangRun
from muster.simulator.engine.resource_usage import ResourceUsage
from muster.validation.pods.requests import requests


class DomainCounts:
    """Counts domains of the finest level above single nodes; without a topology there is nothing to count."""

    def __init__(self, usage: ResourceUsage) -> None:
        self._usage = usage
        domain_of = usage.domain_of
        self._largest = np.zeros(0, dtype=np.int64)  # GPUs of the largest domains, added up
        if domain_of is not None and (domain_of != NOWHERE).any():
            known = domain_of != NOWHERE
            gpus = np.bincount(domain_of[known], weights=usage.gpus[known]).astype(np.int64)
            self._largest = np.cumsum(np.sort(gpus)[::-1])

    def count(self, run: GangRun, pods: Iterable[Pod]) -> None:
        """Writes both numbers at the first start of a gang."""
        domain_of = self._usage.domain_of
        if domain_of is None or run.starts != 1:
            return
        placed = [pod for pod in pods if pod.spec.node_name and pod.metadata.deletion_timestamp is None]
        domains = {int(domain_of[self._usage.node_number(pod.spec.node_name)]) for pod in placed}
        run.domains = len(domains)
        run.least_domains = self._least(sum(requests(pod.spec).get(GPU, 0) for pod in placed))

    def _least(self, gpus: int) -> int:
        """The fewest domains that have so many GPUs: a bound, whatever else runs."""
        return int(np.searchsorted(self._largest, gpus)) + 1 if gpus else 1

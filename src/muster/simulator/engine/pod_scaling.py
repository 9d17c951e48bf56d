"""What a workload controller does when more or fewer pods are wanted.

Rule: as a ReplicaSet does it. Pods without a node go first, then those that terminate already, then the newest.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime

from muster.api.core import Pod
from muster.api.objects import key
from muster.simulator.engine.simulated_cluster import SimulatedCluster
from muster.simulator.scenario.gang_template import GangArrival


def scale_pods(
    cluster: SimulatedCluster, gang: str, arrival: GangArrival, wanted: Sequence[int], now: datetime
) -> Iterator[str]:
    """Makes and deletes pods until each template has as many as are wanted; yields those that begin to terminate."""
    by_template: dict[int, list[Pod]] = defaultdict(list)
    for pod in cluster.pods_of(gang):
        if key(pod.metadata) not in cluster.retired:
            by_template[id(pod.spec.containers)].append(pod)  # pods of one template share them
    for template, number in zip(arrival.template.pods, wanted, strict=True):
        pods = by_template[id(template.spec.containers)]
        for _ in range(number - len(pods)):
            cluster.add_pod(arrival.name, template, now)
        surplus = sorted(pods, key=_last_to_go)[number:]
        yield from (name for name in map(_name, surplus) if cluster.retire(name, now))


def _name(pod: Pod) -> str:
    return key(pod.metadata)


def _last_to_go(pod: Pod) -> tuple[bool, bool, datetime | None, str]:
    """Pods that stay come first."""
    meta = pod.metadata
    return not pod.spec.node_name, meta.deletion_timestamp is not None, meta.creation_timestamp, meta.name

"""The policy of a platform, as a frozen value."""

from collections.abc import Mapping

from msgspec import Struct

from muster.api.names import DEFAULT_SCHEDULER
from muster.validation.shard import Shard


class Policy(Struct, frozen=True):
    """The settings of a plan."""

    scheduler_names: tuple[str, ...] = (DEFAULT_SCHEDULER,)  # of pods that are ours (N6)
    shard: Shard | None = None  # what of the cluster is planned; None: all of it
    steps: int = 200_000  # for one gang in a cycle, before its verdict is `Unknown` (X7)
    cycle_steps: int = 500_000  # the same for all gangs of a cycle together
    max_moved_pods: int = 16  # pods that consolidation moves for one gang (P8)
    max_disturbed_percent: int = 5  # of the running pods, that one cycle evicts or moves (P8)
    moved: Mapping[str, str] = {}  # by gang, the annotation with places of its moving pods that is not stored yet (P7)
    untouchable: frozenset[str] = frozenset()  # pods, by namespace/name, whose eviction failed lately: no victims

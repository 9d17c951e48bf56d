"""Grove's controllers beside a scheduler: they get every event of its watches."""

from muster.config.settings import GroveOperator
from muster.controllers.grove.operator import build_operator
from muster.kube.cluster import Cluster
from muster.kube.controller.controller_runtime import ControllerRuntime
from muster.scheduler.loop import Scheduler


def attach_operator(settings: GroveOperator, cluster: Cluster, scheduler: Scheduler) -> ControllerRuntime | None:
    """The operator beside this scheduler; None: it is switched off, or another shard's."""
    shard = scheduler.settings.shard
    if not settings.enabled or scheduler.settings.dry_run or not shard.serves_cluster:
        return None
    write_pool = scheduler.applier.write_pool
    names = scheduler.settings.scheduler_names
    operator = build_operator(
        cluster, settings, scheduler.leadership, names, lambda: write_pool.is_sending, shard.node_pool_label_key
    )
    scheduler.watched.listeners.append(operator.handle)
    scheduler.yield_to(lambda: operator.is_writing)
    return operator

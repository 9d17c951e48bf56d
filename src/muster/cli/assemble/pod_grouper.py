"""The pod grouper beside a scheduler: it gets every event of the scheduler's watches, and reads its cache."""

from muster.api import names
from muster.api.core import Pod
from muster.config.settings import Config
from muster.controllers.grouper.grouper import Grouper
from muster.controllers.grouper.grouping_observer import GroupingObserver
from muster.kube.cluster import Cluster
from muster.scheduler.loop import Scheduler
from muster.validation.pods.membership import is_skipped


def build_grouper(
    settings: Config, cluster: Cluster, scheduler: Scheduler, observer: GroupingObserver | None = None
) -> Grouper:
    """A grouper for the pods of this scheduler; it hears of pods through the scheduler's watches."""
    grouper = Grouper(
        cluster,
        settings.grouping,
        settings.scheduling.scheduler_names,
        scheduler.watched.cache.pod_group,
        scheduler.leadership,
        scheduler.clock,
        scheduler.wall,
        observer,
        settings.scheduling.namespaces,
        settings.scheduling.shard,
        scheduler.marked_bindings,
    )
    scheduler.watched.listeners.append(grouper.handle)
    scheduler.yield_to(lambda: grouper.is_writing)
    scheduler.wait_for(lambda: grouper.has_caught_up)
    return grouper


def reports_orphan(pod: Pod) -> bool:
    """Whether the scheduler reports a pod that has no gang; those that the grouper groups are left to it."""
    notes = pod.metadata.annotations
    is_hand_written = names.POD_GROUP in notes and names.GROUPED_BY not in notes
    return is_skipped(pod.metadata) or is_hand_written

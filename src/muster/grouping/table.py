"""Every kind of workload that muster knows, once: its rule, and the resource by which its objects are read.

A kind is one line here and one small module in `kinds`; kinds with the default rule are a line only.
"""

from collections.abc import Mapping

from msgspec import Struct

from muster.grouping.kinds import cron_job, default, deployment, job, leader_worker_set
from muster.grouping.types import Rule


class KindRule(Struct, frozen=True):
    """How the pods of a kind are grouped."""

    group: str  # API group; empty: core
    kind: str
    plural: str
    rule: Rule = default.group
    is_wrapper: bool = False  # the owner below it chooses the rule, and it fills labels and annotations

    @property
    def resource(self) -> str:
        """As `grouping.owners` lists it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


UNKNOWN = KindRule("", "default", "")

_TABLE = (
    KindRule("", "Pod", "pods"),
    KindRule("apps", "Deployment", "deployments", deployment.group),
    KindRule("apps", "ReplicaSet", "replicasets"),
    KindRule("apps", "StatefulSet", "statefulsets"),
    KindRule("batch", "Job", "jobs", job.group),
    KindRule("batch", "CronJob", "cronjobs", cron_job.group),
    KindRule("leaderworkerset.x-k8s.io", "LeaderWorkerSet", "leaderworkersets", leader_worker_set.group),
)

KINDS: Mapping[tuple[str, str], KindRule] = {(kind.group, kind.kind): kind for kind in _TABLE}
RESOURCES = tuple(kind.resource for kind in _TABLE if kind.kind != "Pod")  # pods are read anyway

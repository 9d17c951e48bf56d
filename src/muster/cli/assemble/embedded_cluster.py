"""The embedded cluster of `muster up`: API server, simulated kubelets and the scheduler, in one process."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct

from muster.api.codec import Document
from muster.api.resources import NAMESPACES, POD_GROUPS, PODS, PRIORITY_CLASSES
from muster.cli import tasks
from muster.cli.assemble.dashboard import build_dashboard
from muster.cli.assemble.grove_operator import attach_operator
from muster.cli.assemble.pod_grouper import build_grouper, reports_orphan
from muster.cli.assemble.process import configure_terminal
from muster.cli.tasks import Loop, Task
from muster.config.settings import Config, Dashboard, Scheduling
from muster.embedded.cluster_store import ClusterStore
from muster.embedded.controllers.replica_controller import ReplicaController
from muster.embedded.kubeconfig import remove_stale_kubeconfig
from muster.embedded.kubelet.kubelet import Kubelets
from muster.embedded.kubelet.pod_lifecycle import KubeletTimings
from muster.embedded.memory_cluster import MemoryCluster
from muster.embedded.server import serve
from muster.kube.cluster import Raw
from muster.kube.controller.controller_runtime import ControllerRuntime
from muster.scheduler.loop import Scheduler

SUBMITTED = {resource.kind: resource for resource in (NAMESPACES, POD_GROUPS, PODS)}


class ServedAt(Struct, frozen=True):
    """Where the API server listens, and the kubeconfig that it writes."""

    host: str
    port: int  # 0: any free one
    kubeconfig: Path

    def claim_kubeconfig(self) -> None:
        """Remove what an ended cluster left at this path; InputError where the file belongs to another."""
        remove_stale_kubeconfig(self.kubeconfig)


class EmbeddedCluster(Struct, frozen=True):
    """A cluster whose loops run."""

    address: str  # of its API server
    scheduler: Scheduler
    kubelets: Kubelets
    loops: Sequence[Task]
    memory: MemoryCluster
    dashboard: str = ""  # its address; empty: there is none

    async def submit(self, raw: Raw) -> None:
        """Create a namespace, a PodGroup or a pod."""
        await self.memory.create(SUBMITTED[raw["kind"]], raw)

    def pods(self, namespace: str) -> Sequence[Raw]:
        """The pods of this namespace."""
        return self.memory.store.list(PODS, namespace).items

    def gang_objects(self, namespace: str) -> list[Document]:
        """What gangs of this namespace are made of: PodGroups, pods and PriorityClasses."""
        return [
            Document(resource.plural, raw)
            for resource in (POD_GROUPS, PODS, PRIORITY_CLASSES)
            for raw in self.memory.store.list(resource, namespace).items
        ]


@asynccontextmanager
async def open_embedded_cluster(
    store: ClusterStore,
    served_at: ServedAt,
    config: Config,
    respawned: Sequence[str] = (),
    dashboard_port: int | None = None,
) -> AsyncIterator[EmbeddedCluster]:
    """Run a cluster on these objects while the context is open; pods of `respawned` namespaces come back when gone.

    Of the configuration, scheduler names, grouping and Grove count: the rest is about clusters that others use as well.
    `dashboard_port`: 0: any free one, None: no dashboard.
    """
    configure_terminal()
    memory = MemoryCluster(store)
    settings = Config(
        scheduling=Scheduling(scheduler_names=config.scheduling.scheduler_names),
        grouping=config.grouping,
        grove=config.grove,
        dashboard=Dashboard(enabled=dashboard_port is not None, port=dashboard_port or 0),
    )
    scheduler = Scheduler(memory, settings.scheduling, reports_orphan=reports_orphan)
    grouper = build_grouper(settings, memory, scheduler)
    operator = attach_operator(settings.grove, memory, scheduler)
    kubelets = Kubelets(memory, timings=KubeletTimings())
    loops: dict[str, Loop] = {
        "scheduler": scheduler.run,
        "pod grouper": grouper.run,
        "simulated kubelets": kubelets.run,
        "workload controllers": ControllerRuntime(memory).run,
    }
    if operator is not None:
        loops["grove operator"] = operator.run
    hint = "`--dashboard-port` says where; without it, any free port will do"
    dashboard = build_dashboard(settings, memory, scheduler, hint) if settings.dashboard.enabled else None
    if dashboard is not None:
        loops |= dashboard.loops
    if respawned:
        loops["replicas"] = ReplicaController(memory, list(respawned)).run
    started = tasks.start(loops)
    try:
        schedulers = settings.scheduling.scheduler_names
        kubeconfig = served_at.kubeconfig
        async with serve(
            memory, served_at.host, served_at.port, kubeconfig_path=kubeconfig, schedulers=schedulers
        ) as serving:
            try:
                address = dashboard.address if dashboard else ""
                yield EmbeddedCluster(serving.address, scheduler, kubelets, started, memory, address)
            finally:
                scheduler.stop()  # a plan may take minutes
    finally:
        await tasks.cancel(started)
        tasks.retrieve(started)

"""What a report of a simulation is made from: values only, columns of equal length wherever there are many rows.

Times are seconds of virtual time from the start of the simulation. Amounts are in base units (`muster.api.quantity`).
"""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

Unit = Literal["number", "share", "seconds", "gpu_seconds"]  # share: 0.5 is shown as 50 %
Better = Literal["lower", "higher", ""]  # empty: neither


class HeadlineFigure(Struct, frozen=True, kw_only=True):
    """A figure that people look at first; those of variants are compared by name."""

    name: str
    amount: float | None  # None: the simulation gives no answer
    unit: Unit = "number"
    better: Better = ""
    detail: str = ""  # a sentence below it


class ResourceColumns(Struct, frozen=True, kw_only=True):
    """One resource over the times of the timeline."""

    resource: str
    allocated: Sequence[float]
    working: Sequence[float]  # of pods whose gangs work
    capacity: Sequence[float]
    means: tuple[float, float] | None = None  # allocated and capacity over the whole time; None: of the samples


class TimelineColumns(Struct, frozen=True, kw_only=True):
    """The state after every moment at which something happened; it holds until the next one."""

    at_seconds: Sequence[float] = ()  # ascending
    resources: Sequence[ResourceColumns] = ()
    waiting_gangs: Sequence[float] = ()
    working_gangs: Sequence[float] = ()
    idle_gpus: Sequence[float] = ()
    stranded_gpus: Sequence[float] = ()  # idle GPUs that no waiting gang can use
    largest_free_node_gpus: Sequence[float] = ()  # may be left out
    largest_free_domain_gpus: Sequence[float] = ()  # may be left out


class GangColumns(Struct, frozen=True, kw_only=True):
    """Every gang that arrived."""

    name: Sequence[str] = ()  # namespace/name; the same gang has the same name in every variant
    queue: Sequence[str] = ()
    class_name: Sequence[str] = ()
    size: Sequence[int] = ()  # pods
    gpus: Sequence[float] = ()
    arrived_seconds: Sequence[float] = ()
    first_wait_seconds: Sequence[float | None] = ()  # from arrival to the first start; None: it never started
    finished_seconds: Sequence[float | None] = ()  # None: not by the horizon
    waited_seconds: Sequence[float] = ()  # in all, with waits after evictions
    starts: Sequence[int] = ()
    evicted_pods: Sequence[int] = ()
    moved_pods: Sequence[int] = ()
    lost_gpu_seconds: Sequence[float] = ()
    domains: Sequence[int] = ()  # that its pods were in at its first start; 0: it never started
    least_domains: Sequence[int] = ()  # that could have held them
    verdict: Sequence[str] = ()  # of the last cycle that judged it
    reason: Sequence[str] = ()  # why it waited, then


class QueueColumns(Struct, frozen=True, kw_only=True):
    """One resource of one queue, over the times of the timeline."""

    queue: str
    resource: str
    allocated: Sequence[float]
    fair_share: Sequence[float]
    means: tuple[float, float] | None = None  # of both over the whole time; None: of the samples


class DomainHeat(Struct, frozen=True, kw_only=True):
    """GPUs in use in every domain of one level, at sampled times."""

    level: str
    domains: Sequence[str]
    at_seconds: Sequence[float]
    used_gpus: Sequence[Sequence[float]]  # by time, then by domain
    capacity_gpus: Sequence[Sequence[float]]  # the same; 0: no node of the domain takes pods


class PlannerColumns(Struct, frozen=True, kw_only=True):
    """The work of the planner; a row stands for some plans in a row."""

    at_seconds: Sequence[float]  # ascending
    steps: Sequence[float]  # of search, a plan
    unknown: Sequence[float]  # share of the waiting gangs whose search was cut short
    cpu_milliseconds: Sequence[float] = ()  # a plan; empty: not shown, as it differs from run to run


class ElasticGang(Struct, frozen=True, gc=False):
    """A gang that may start with a part of its pods."""

    arrived_seconds: float
    full_size_seconds: float | None  # from arrival until all pods were bound; None: they never were


class WaitStretch(Struct, frozen=True, kw_only=True):
    """A time in which a gang waited for one reason."""

    from_seconds: float
    to_seconds: float
    reason: str


class LongWait(Struct, frozen=True, kw_only=True):
    """A gang that waited long."""

    gang: str
    queue: str
    size: int  # pods
    gpus: float
    waited_seconds: float
    stretches: Sequence[WaitStretch]  # in the order of time
    is_waiting: bool = False  # still, at the horizon


class ReportVariant(Struct, frozen=True, kw_only=True):
    """One simulated run."""

    name: str
    seed: str
    horizon_seconds: float  # how far the simulation came
    settings: Sequence[tuple[str, str]] = ()
    begins_at: float | None = None  # seconds since 1970 of the start; None: times are shown as days and hours
    figures: Sequence[HeadlineFigure] = ()
    timeline: TimelineColumns = TimelineColumns()
    gangs: GangColumns = GangColumns()
    queues: Sequence[QueueColumns] = ()
    planner: PlannerColumns | None = None  # None: it made no plan
    elastic_gangs: Sequence[ElasticGang] = ()
    heat: DomainHeat | None = None  # None: the cluster has no topology
    longest_waits: Sequence[LongWait] = ()  # longest first


class SimulationReport(Struct, frozen=True, kw_only=True):
    """One run, or several with the same arrivals that are compared with the first."""

    title: str
    variants: Sequence[ReportVariant]
    note: str = ""  # a sentence below the title, such as how far an interrupted simulation came

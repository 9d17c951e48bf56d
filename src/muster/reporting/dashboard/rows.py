"""The rows and pages of the dashboard as they travel: JSON in camelCase, every field always there."""

from typing import Any, Literal

from msgspec import Struct, field

UseState = Literal["core", "extra", "foreign", "terminating", "nominated"]
Flag = Literal["cordoned", "lost", "tainted"]
Unit = Literal["milli", "bytes", ""]  # thousandths, bytes, or whole devices
Use = tuple[str, UseState, dict[str, int]]  # the gang, what its pods are, and what they request
TextLine = tuple[dict[str, str], ...]  # pieces of a line: `text` and `role`


class Shown(Struct, frozen=True, rename="camel", gc=False):
    """Frozen inside, camelCase outside; unlike `Wire` with its defaults, as the page reads every field."""


class ResourceUnit(Shown, frozen=True):
    """A resource, and what its whole numbers count."""

    name: str
    unit: Unit


class NodeRow(Shown, frozen=True):
    """A node: where it is, what it has, and what uses it. Amounts are in the smallest unit."""

    domains: dict[str, str]  # by topology: as deep as it is labelled; empty: nowhere
    allocatable: dict[str, int]
    flags: tuple[Flag, ...] = ()
    used: tuple[Use, ...] = ()  # sorted; the gang is empty for pods outside of gangs


class OwnerName(Shown, frozen=True):
    """The workload that a gang belongs to."""

    kind: str
    namespace: str
    name: str


class GangRow(Shown, frozen=True):
    """A gang in a table."""

    queue: str
    priority: int
    verdict: str
    reason: str  # as in status conditions; empty: there is none
    message: str  # one sentence
    placed: int
    pending: int
    needs: str  # in words
    satisfied: bool
    core: int  # placed pods
    extra: int
    pods: int  # all of them
    created: str  # ISO 8601; empty: not known
    preemptibility: str
    position: int  # among the waiting gangs of its queue; 0: it does not wait
    owner: OwnerName | None
    domain: str  # that all its placed pods share, where it has a level


class PodLine(Shown, frozen=True):
    """A pod of a gang in its leaf."""

    name: str
    node: str
    state: str  # placed, pending, … (N5)
    role: str  # core, extra, or empty where it is not placed
    message: str = ""


class GangEvent(Shown, frozen=True):
    """An event about a gang, as the API server has it."""

    at: str
    type: str
    reason: str
    message: str
    object: str


class VerdictChange(Shown, frozen=True):
    """The cycle in which the verdict on a gang, or its reason, became this."""

    cycle: int
    at: str
    verdict: str
    reason: str
    message: str


class GangPage(Shown, frozen=True):
    """All about one gang."""

    key: str
    cycle: int
    row: GangRow
    tree: dict[str, Any]  # as in `muster tree -o json`, with domains, and pods on leaves
    data: dict[str, Any]  # as in `muster tree -o json`, without the tree
    explain: tuple[TextLine, ...]  # as `muster explain` prints it
    helps: tuple[str, ...]  # changes that would let it in, smallest first
    events: tuple[GangEvent, ...] = ()
    history: tuple[VerdictChange, ...] = ()  # newest first
    owner: OwnerName | None = None


class ConditionRow(Shown, frozen=True):
    """A condition of a node."""

    type: str
    status: str


class NodePod(Shown, frozen=True):
    """A pod on a node."""

    namespace: str
    name: str
    gang: str  # namespace/name; empty: it is in none
    sub_group: str
    state: UseState
    requests: dict[str, str]  # quantities


class NodePage(Shown, frozen=True):
    """All about one node."""

    name: str
    cycle: int
    row: NodeRow
    labels: dict[str, str]  # those of topologies
    taints: tuple[str, ...]
    conditions: tuple[ConditionRow, ...]
    pods: tuple[NodePod, ...]


class PodAct(Shown, frozen=True):
    """Something that a cycle decided about a pod."""

    pod: str  # namespace/name
    node: str
    gang: str
    preemptor: str = field(default="", name="for")  # the gang that gets its place
    to: str = ""  # where its replacement goes
    reason: str = ""


class GangRefusal(Shown, frozen=True):
    """A gang that a cycle did not schedule, where that was different before."""

    gang: str
    verdict: str
    reason: str
    message: str


class CycleRow(Shown, frozen=True):
    """What one cycle decided. Lists are cut; `counts` has all."""

    cycle: int
    at: str
    milliseconds: float
    steps: int
    bound: tuple[PodAct, ...] = ()
    evicted: tuple[PodAct, ...] = ()
    moved: tuple[PodAct, ...] = ()
    released: tuple[PodAct, ...] = ()
    nominated: tuple[PodAct, ...] = ()
    refused: tuple[GangRefusal, ...] = ()
    failures: int = 0
    counts: dict[str, int] = {}

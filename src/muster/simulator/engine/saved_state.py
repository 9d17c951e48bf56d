"""The state of a simulation between two moments, as values that can be written to a file and read back.

Rule 1: what follows from other parts is not saved: sums, snapshots, arrivals to come. Rule 2: equal pod specs are saved
once. Rule 3: a restored simulation goes on as if it had never ended: the same bytes in every result.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from muster.api import names
from muster.api.core import Node, Pod, PodSpec, PodStatus
from muster.api.meta import ObjectMeta
from muster.api.objects import Objects
from muster.api.podgroup import PodGroup
from muster.api.quantity import Resources
from muster.planning.memory.answer_cache import AnswerCache, RememberedAnswer
from muster.planning.refusal import Refusal
from muster.simulator.engine.events import ScheduledEvent
from muster.simulator.engine.gang_run import GangRun
from muster.simulator.engine.saved_recorder import SavedRecorder
from muster.simulator.engine.simulated_cluster import SimulatedCluster
from muster.simulator.scenario.gang_template import GangArrival
from muster.validation.pods.membership import gang_of

REFUSALS: dict[str, Any] = {kind.__name__: kind for kind in get_args(Refusal)}


class SavedPod(Struct, frozen=True, array_like=True):
    """A pod; its spec is one of a table."""

    metadata: ObjectMeta
    status: PodStatus
    spec: int
    node: str


class SavedAnswer(Struct, frozen=True, array_like=True):
    """An answer of the planner's memory; a refusal by its reason and its fields."""

    digest: bytes
    structure: bytes
    steps: int
    is_known: bool
    reason: str = ""  # empty: the answer is no
    refusal: Any = None


class SavedCluster(Struct, frozen=True):
    """The objects of a simulated cluster that change."""

    nodes: list[Node]
    groups: list[PodGroup]
    specs: list[PodSpec]
    pods: list[SavedPod]
    retired: list[str]
    number: int


class SavedSimulation(Struct, frozen=True):
    """A simulation between two moments."""

    epoch: datetime
    now_ms: int
    arrived: int  # of the arrivals
    changed: int  # of the changes of nodes
    needs_cycle: bool
    last_cycle_ms: int
    wake_ms: int | None
    unready: dict[str, int]
    cordoned: dict[str, int]
    events: list[ScheduledEvent]
    next_number: int
    cluster: SavedCluster
    runs: list[GangRun]  # without their arrivals
    recorder: SavedRecorder
    answers: list[SavedAnswer]


def encode_state(saved: SavedSimulation) -> bytes:
    """The state as bytes."""
    return msgspec.msgpack.encode(saved)


def decode_state(data: bytes) -> SavedSimulation:
    """The state that bytes hold; DecodeError or ValidationError: they hold none."""
    return msgspec.msgpack.decode(data, type=SavedSimulation, dec_hook=_hook)


def _hook(kind: type, value: Any) -> Any:
    """Amounts are saved in base units."""
    if kind is Resources and isinstance(value, dict):
        return Resources(value)
    raise NotImplementedError(kind)


# pods -----------------------------------------------------------------------------------------------------------------


def save_pods(pods: Iterable[Pod]) -> tuple[list[PodSpec], list[SavedPod]]:
    """A table of specs without nodes, and the pods."""
    numbers: dict[bytes, int] = {}
    specs: list[PodSpec] = []
    saved: list[SavedPod] = []
    for pod in pods:
        spec = replace(pod.spec, node_name="")
        number = numbers.setdefault(msgspec.msgpack.encode(spec), len(specs))
        if number == len(specs):
            specs.append(spec)
        saved.append(SavedPod(pod.metadata, pod.status, number, pod.spec.node_name))
    return specs, saved


def save_cluster(cluster: SimulatedCluster) -> SavedCluster:
    """The objects that change."""
    specs, pods = save_pods(cluster.pods.values())
    nodes, groups = list(cluster.objects.nodes), list(cluster.groups.values())
    return SavedCluster(nodes, groups, specs, pods, sorted(cluster.retired), cluster.number)


def load_objects(objects: Objects, cluster: SavedCluster, arrivals: Mapping[str, GangArrival]) -> Objects:
    """All objects: those that changed as they were saved, the rest as at the start."""
    pods = load_pods(cluster, arrivals)
    return replace(objects, nodes=tuple(cluster.nodes), pod_groups=tuple(cluster.groups), pods=pods)


def load_pods(cluster: SavedCluster, arrivals: Mapping[str, GangArrival]) -> tuple[Pod, ...]:
    """The pods; those of one template share its spec, as when they were made."""
    encoded = [msgspec.msgpack.encode(spec) for spec in cluster.specs]
    templates: dict[tuple[str, str, bytes], PodSpec] = {}
    for gang in {gang_of(Pod(metadata=pod.metadata)) or "" for pod in cluster.pods} & arrivals.keys():
        for template in arrivals[gang].template.pods:
            templates[gang, template.leaf, msgspec.msgpack.encode(template.spec)] = template.spec
    pods = []
    for saved in cluster.pods:
        gang, leaf = gang_of(Pod(metadata=saved.metadata)) or "", saved.metadata.labels.get(names.SUBGROUP, "")
        spec = templates.get((gang, leaf, encoded[saved.spec]), cluster.specs[saved.spec])
        bound = replace(spec, node_name=saved.node) if saved.node else spec
        pods.append(Pod(metadata=saved.metadata, spec=bound, status=saved.status))
    return tuple(pods)


# memory ---------------------------------------------------------------------------------------------------------------


def save_answers(memory: AnswerCache) -> list[SavedAnswer]:
    """What the planner remembers, least recently used first."""
    return [
        SavedAnswer(
            digest,
            answer.structure,
            answer.steps,
            answer.is_known,
            "" if answer.value is None else type(answer.value).__name__,
            None if answer.value is None else msgspec.to_builtins(answer.value),
        )
        for digest, answer in memory.items()
    ]


def load_answers(saved: Iterable[SavedAnswer]) -> AnswerCache:
    """A memory with these answers; ValidationError, KeyError: a refusal is none."""
    memory = AnswerCache()
    for one in saved:
        value = msgspec.convert(one.refusal, REFUSALS[one.reason], dec_hook=_hook) if one.reason else None
        memory.put(one.digest, RememberedAnswer(one.structure, one.steps, one.is_known, value))
    return memory

"""What if: the same objects with some added, removed, drained or changed. Objects in, objects out.

Rule 1: a hypothesis is a new value; the given objects stay as they are. Rule 2: changes are validated by the same rules
as an update in a cluster. Rule 3: there is no clock, so new objects are younger than all existing ones.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from muster.api.codec import title
from muster.api.core import Node, Pod, PodStatus
from muster.api.fields import text
from muster.api.meta import ObjectMeta, Wire
from muster.api.names import DEFAULT_NAMESPACE
from muster.api.objects import CLUSTER_SCOPED, FIELDS, KINDS, Objects, key
from muster.api.podgroup import PodGroup
from muster.api.queue import Queue
from muster.api.topology import Topology
from muster.errors import InputError
from muster.validation import update
from muster.validation.check import check
from muster.validation.context import ValidationContext
from muster.validation.fields import Value, set_field, suggest
from muster.validation.pods.membership import OURS, gang_of, is_ours
from muster.validation.problem import Problem
from muster.validation.queue_fields import set_queue_field

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)  # objects without an age count as that old
CHECKED_KINDS: Final[tuple[type[Wire], ...]] = (Topology, Queue, PodGroup, Pod)
FORM: Final = "NAMESPACE/NAME.FIELD=VALUE"
QUEUE: Final = "queue/"  # in place of a namespace: a Queue, which is in none


class Hypothesis(Struct, frozen=True, eq=False):
    """Hypothetical changes, in the order in which they are applied."""

    added: Objects | None = None
    without: tuple[str, ...] = ()  # gangs, by namespace/name
    settings: tuple[tuple[str, Value], ...] = ()  # (NAMESPACE/NAME.FIELD or queue/NAME.FIELD, value)
    drained: tuple[str, ...] = ()  # nodes


class AddedObjects(Struct, frozen=True):
    """Added objects by kind; some of them replace existing ones."""

    new: Mapping[str, int]
    replaced: Mapping[str, int]


class RemovedGang(Struct, frozen=True):
    """A gang that is removed with its pods."""

    gang: str
    pods: int


class DrainedNode(Struct, frozen=True):
    """A cordoned node, and what happened to the pods on it."""

    node: str
    again: int  # of gangs: pending, as if their controllers had recreated them
    gone: int  # of no gang, of another scheduler, or terminating anyway


class ChangedField(Struct, frozen=True):
    """A field of a PodGroup with another value."""

    gang: str
    field: str
    was: Value
    now: Value


class ChangedQueue(Struct, frozen=True):
    """A field of a Queue with another value."""

    queue: str
    field: str
    was: Value
    now: Value


Effect = AddedObjects | RemovedGang | DrainedNode | ChangedField | ChangedQueue
Step = Callable[[Objects], tuple[Objects, Effect]]


class CheckedObject(Struct, frozen=True):
    """An object that is new or changed, and its problems."""

    title: str
    problems: tuple[Problem, ...]


class HypotheticalObjects(Struct, frozen=True, eq=False):
    """The objects after the hypothesis."""

    objects: Objects
    effects: tuple[Effect, ...]
    touched: frozenset[str]  # gangs whose PodGroup is new or changed
    checked: tuple[CheckedObject, ...]


def apply_hypothesis(objects: Objects, changes: Hypothesis, schedulers: Collection[str] = OURS) -> HypotheticalObjects:
    """Add, take away, set, drain: in this order. InputError: a change names what is not there, or a wrong value."""
    after, effects = objects, list[Effect]()
    for step in _steps(changes):
        after, effect = step(after)
        effects.append(effect)
    after, drained = _drain(after, changes.drained, schedulers)
    effects += drained
    before = {key(group.metadata): group for group in objects.pod_groups}
    others = (key(group.metadata) for group in after.pod_groups if before.get(key(group.metadata)) is not group)
    return HypotheticalObjects(after, tuple(effects), frozenset(others), tuple(_check_changes(objects, after)))


def setting(text: str) -> tuple[str, str]:
    """`NAMESPACE/NAME.FIELD=VALUE` in two."""
    path, equals, value = text.partition("=")
    if not equals:
        raise InputError(f"set `{text[:120]}`: there is no `=` in it", hint=f"write {FORM}; an empty VALUE unsets")
    return path.strip(), value.strip()


def _steps(changes: Hypothesis) -> Iterator[Step]:
    if changes.added is not None:
        yield partial(add_objects, more=changes.added)
    yield from (partial(_remove, gang=gang) for gang in changes.without)
    yield from (partial(_set, path=path, value=value) for path, value in changes.settings)


# steps --------------------------------------------------------------------------------------------------------------


def add_objects(objects: Objects, more: Objects) -> tuple[Objects, Effect]:
    """Add objects; one of the same kind and name replaces the existing one and keeps its age."""
    now = _youngest(objects)
    made: dict[str, tuple[Any, ...]] = {}
    new: Counter[str] = Counter()
    replaced: Counter[str] = Counter()
    for kind, field in FIELDS.items():
        coming = {_identity(item) or f"?{i}": item for i, item in enumerate(getattr(more, field))}
        there = {_identity(item) or f"!{i}": item for i, item in enumerate(getattr(objects, field))}
        aged = {name: _aged(item, there.get(name), now) for name, item in coming.items()}
        made[field] = tuple((there | aged).values())
        replaced[kind.__name__] = len(there.keys() & coming.keys())
        new[kind.__name__] = len(coming) - replaced[kind.__name__]
    unknown = dict(sorted((Counter(objects.unknown) + Counter(more.unknown)).items()))
    others = {_other_identity(other.raw): other for other in (*objects.others, *more.others)}
    return Objects(**made, unknown=unknown, others=tuple(others.values())), AddedObjects(+new, +replaced)


def _other_identity(raw: dict[str, Any]) -> tuple[object, ...]:
    """By kind and name; one without a name is itself."""
    name, namespace = text(raw, "metadata.name"), text(raw, "metadata.namespace")
    return raw["kind"], raw["apiVersion"].rpartition("/")[0], namespace or DEFAULT_NAMESPACE, name or id(raw)


def _remove(objects: Objects, gang: str) -> tuple[Objects, Effect]:
    _must_exist(gang, [key(group.metadata) for group in objects.pod_groups], "podgroup", "without")
    groups = tuple(group for group in objects.pod_groups if key(group.metadata) != gang)
    pods = tuple(pod for pod in objects.pods if gang_of(pod) != gang)
    return replace(objects, pod_groups=groups, pods=pods), RemovedGang(gang, len(objects.pods) - len(pods))


def _set(objects: Objects, path: str, value: Value) -> tuple[Objects, Effect]:
    gangs = [key(group.metadata) for group in objects.pod_groups]
    if path.startswith(QUEUE) and not any(path.startswith(f"{gang}.") for gang in gangs):
        return _set_queue(objects, path, value)
    gang, field = _split(path, gangs)
    place = next(i for i, group in enumerate(objects.pod_groups) if key(group.metadata) == gang)
    group = objects.pod_groups[place]
    try:
        done = set_field(group.spec, field, value)
    except InputError as error:
        raise InputError(f"set `{path}`: {error.message}", hint=error.hint) from None
    metadata = replace(group.metadata, generation=group.metadata.generation + 1)  # as a write does, for S4
    now = replace(group, metadata=metadata, spec=done.part)
    groups = (*objects.pod_groups[:place], now, *objects.pod_groups[place + 1 :])
    return replace(objects, pod_groups=groups), ChangedField(gang, field, done.was, done.now)


def _set_queue(objects: Objects, path: str, value: Value) -> tuple[Objects, Effect]:
    queues = {queue.metadata.name: queue for queue in objects.queues}
    rest = path.removeprefix(QUEUE)
    name = max((name for name in queues if rest.startswith(f"{name}.")), key=len, default=rest.partition(".")[0])
    _must_exist(name, list(queues), "queue", "set")
    try:
        done = set_queue_field(queues[name].spec, rest[len(name) + 1 :], value)
    except InputError as error:
        raise InputError(f"set `{path[:120]}`: {error.message}", hint=error.hint) from None
    queues[name] = replace(queues[name], spec=done.part)
    return replace(objects, queues=tuple(queues.values())), ChangedQueue(
        name, rest[len(name) + 1 :], done.was, done.now
    )


def _drain(objects: Objects, drained: Sequence[str], schedulers: Collection[str]) -> tuple[Objects, list[Effect]]:
    """Nodes one after the other; pods that come again are younger than those of the nodes before."""
    if not drained:
        return objects, []
    names = [node.metadata.name for node in objects.nodes]
    for name in drained:
        _must_exist(name, names, "node", "drain")
    pods, effects, now = dict(enumerate(objects.pods)), list[Effect](), _youngest(objects)
    on_nodes = _drained_pods(objects, frozenset(drained), schedulers)
    for name in drained:
        on_node = on_nodes.pop(name, {})
        again = sum(on_node.values())
        for place, comes_again in on_node.items():
            if comes_again:
                pods[place] = _recreated(pods[place], now)
            else:
                del pods[place]
        now = _later(now) if again else now
        effects.append(DrainedNode(name, again, len(on_node) - again))
    return replace(objects, nodes=_cordoned(objects, frozenset(drained)), pods=tuple(pods.values())), effects


def _cordoned(objects: Objects, drained: Collection[str]) -> tuple[Node, ...]:
    return tuple(
        replace(node, spec=replace(node.spec, unschedulable=True)) if node.metadata.name in drained else node
        for node in objects.nodes
    )


def _drained_pods(
    objects: Objects, drained: Collection[str], schedulers: Collection[str]
) -> dict[str, dict[int, bool]]:
    """By node, the places of pods that leave it, and whether they come again.

    Finished pods stay: they hold nothing, and have done their part (N5).
    """
    gangs = {key(group.metadata) for group in objects.pod_groups}
    on_nodes: dict[str, dict[int, bool]] = defaultdict(dict)
    for place, pod in enumerate(objects.pods):
        if pod.spec.node_name in drained and pod.status.phase not in ("Succeeded", "Failed"):
            is_live = is_ours(pod, schedulers) and pod.metadata.deletion_timestamp is None
            on_nodes[pod.spec.node_name][place] = gang_of(pod) in gangs and is_live
    return on_nodes


def _recreated(pod: Pod, now: datetime) -> Pod:
    """The pod as its controller would recreate it."""
    metadata = replace(pod.metadata, uid="", resource_version="", creation_timestamp=now)
    return Pod(metadata, replace(pod.spec, node_name=""), PodStatus())


def _aged(item: Any, existing: Any, now: datetime) -> Any:
    if item.metadata.creation_timestamp is not None:
        return item
    age = existing.metadata.creation_timestamp if existing is not None else now
    return replace(item, metadata=replace(item.metadata, creation_timestamp=age))


def _youngest(objects: Objects) -> datetime:
    """A moment after the newest object was created."""
    ages = (item.metadata.creation_timestamp for field in FIELDS.values() for item in getattr(objects, field))
    return _later(max((age for age in ages if age is not None), default=EPOCH))


def _later(moment: datetime) -> datetime:
    try:
        return moment + timedelta(seconds=1)
    except OverflowError:  # the end of the calendar
        return moment


def _identity(item: Any) -> str:
    """The identity of an object within its kind; empty: it has no name yet."""
    metadata: ObjectMeta = item.metadata
    return metadata.name if type(item) in CLUSTER_SCOPED or not metadata.name else key(metadata)


# naming -------------------------------------------------------------------------------------------------------------


def _must_exist(name: str, names: list[str], kind: str, word: str) -> None:
    if name not in names:
        raise InputError(f"{word} `{name[:253]}`: there is no such {kind}", hint=suggest(name, names))


def _split(path: str, gangs: Iterable[str]) -> tuple[str, str]:
    """The gang and the field; names may have dots in them, so those that exist decide."""
    gangs = list(gangs)
    named = max((gang for gang in gangs if path == gang or path.startswith(f"{gang}.")), key=len, default="")
    if named:
        return named, path[len(named) + 1 :]
    namespace, slash, rest = path.partition("/")
    name = rest.partition(".")[0]
    if not (namespace and slash and name):
        hint = f"write {FORM}; {suggest(path.partition('.')[0], gangs)}"
        raise InputError(f"set `{path[:120]}`: names no gang", hint=hint)
    _must_exist(f"{namespace}/{name}", gangs, "podgroup", "set")
    raise AssertionError("a gang that exists was found before")


# validation ---------------------------------------------------------------------------------------------------------


def _check_changes(before: Objects, after: Objects) -> Iterator[CheckedObject]:
    """Every object that is new or changed, with its errors and new warnings."""
    was, will = ValidationContext(before), ValidationContext(after)
    for kind in CHECKED_KINDS:
        stored = {_identity(item): item for item in getattr(before, FIELDS[kind])}
        for item in getattr(after, FIELDS[kind]):
            old = stored.get(_identity(item))
            if old is not item and (problems := _problems(item, old, was, will)):
                yield CheckedObject(title(_raw(item)), problems)


def _problems(item: Wire, old: Wire | None, was: ValidationContext, will: ValidationContext) -> tuple[Problem, ...]:
    if old is None:
        return check(_raw(item), None, will)
    known_before = {(problem.at, problem.says) for problem in check(_raw(old), None, was)}
    problems = check(_raw(item), _stored(old, was), will)
    return tuple(new for new in problems if new.severity == "error" or (new.at, new.says) not in known_before)


def _stored(old: Wire, around: ValidationContext) -> dict[str, Any]:
    """The stored object that an update starts from; its pods show whether a gang runs where no status does (V5)."""
    if not isinstance(old, PodGroup):
        return _raw(old)
    pods = around.pods.get(key(old.metadata), ())
    runs = any(pod.spec.node_name for pod in pods) or (old.status is not None and update.is_running(old))
    return {**_raw(old), "status": {"running": int(runs)}}


def _raw(item: Wire) -> dict[str, Any]:
    """The parts of an object that the rules read; of a pod its metadata."""
    version, kind = next(name for name, known_kind in KINDS.items() if known_kind is type(item))
    parts = ("metadata",) if isinstance(item, Pod) else ("metadata", "spec")
    return {"apiVersion": version, "kind": kind} | {part: msgspec.to_builtins(getattr(item, part)) for part in parts}

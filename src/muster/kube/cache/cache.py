"""The cache: objects as structs, kept up to date from watch events, and snapshots of them.

Fields that muster does not read are dropped when an object is decoded, and equal parts of pods are stored once. A
snapshot is equal to `take` of the same objects, at the cost of what has changed since the last one.
"""

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import datetime
from itertools import islice
from operator import is_
from typing import Any

from msgspec.structs import replace

from muster.api import names
from muster.api.core import Node, Pod
from muster.api.meta import Wire
from muster.api.objects import FIELDS, WATCHED_KINDS, Objects, key
from muster.api.podgroup import PodGroup
from muster.api.queue import Queue
from muster.kube.cache.interning import PodInterner, strip
from muster.kube.cache.marked_pods import MarkedPods
from muster.kube.cache.reflector import ObjectDeleted, ObjectUpdated, ReflectorEvent
from muster.kube.listed_pod import ListedPod
from muster.kube.pod_mark import PodMark
from muster.kube.stored_object import EncodedObject, StoredObject, identity, read_object
from muster.model.incremental.incremental_snapshot import IncrementalSnapshot
from muster.model.snapshot import Snapshot
from muster.validation.pods.membership import OURS, gang_of
from muster.validation.pods.pods_by_gang import PodsByGang
from muster.validation.shard import Shard

COUNTED = (Pod, PodGroup)  # one by one, as they change


def _all(_object: Pod | PodGroup) -> bool:
    return True


class Cache:
    """Every object that planning reads; `ours` says which pods and PodGroups are in the snapshots, `shard` which nodes.

    Pods for other schedulers are in them, too: they use resources, and gangs that wait for them report it (N6).
    """

    def __init__(
        self,
        ours: Callable[[Pod | PodGroup], bool] = _all,
        schedulers: Collection[str] = OURS,
        shard: Shard | None = None,
    ) -> None:
        self._ours, self._shard = ours, shard
        self._of_shard: dict[type[Wire], tuple[tuple[Wire, ...], tuple[Wire, ...]]] = {}  # listed, and what it has
        self._moved_nodes: set[str] = set()  # came to the shard, or left it, since the last fold
        self._stored: dict[type[Wire], dict[tuple[str, str], Wire]] = {struct: {} for struct in WATCHED_KINDS.values()}
        self._listed: dict[type[Wire], tuple[Wire, ...]] = {}  # what is stored, as values that were returned
        self._objects: Objects | None = None
        self._interner = PodInterner()
        self._incremental = IncrementalSnapshot(schedulers)
        self._unfolded: dict[type[Wire], dict[tuple[str, str], None]] = {Pod: {}, PodGroup: {}}  # since the last fold
        self._pods_by_gang = PodsByGang()
        self._marked_pods = MarkedPods()
        self.pod_listeners: list[Callable[[Pod | None, Pod | None], None]] = []  # called with a pod before and after
        self._assumed: Mapping[str, Pod] = {}  # what the last snapshot had in place of stored pods
        self.version = 0  # how often something changed
        self.echo = False  # the last change was expected: no plan has to be made for it

    def handle(self, struct: type[Wire], event: ReflectorEvent) -> bool:
        """Apply one watch event; returns whether anything that muster reads has changed."""
        self.echo = False
        if isinstance(event, ObjectUpdated):
            return self._update(struct, identity(event.stored), self._read(event.stored, struct))
        return isinstance(event, ObjectDeleted) and self._delete(struct, identity(event.stored))

    def _update(self, struct: type[Wire], name: tuple[str, str], stored: Wire) -> bool:
        after = self._marked_pods.put(name, stored) if isinstance(stored, Pod) else stored
        known = self._stored[struct]
        before = known.get(name)
        if before == after:
            return False
        known[name] = after
        self.echo = before is not None and self._is_expected(before, after)
        self._note_change(struct, name, before, after)
        return True

    def _delete(self, struct: type[Wire], name: tuple[str, str]) -> bool:
        before = self._stored[struct].pop(name, None)
        if before is None:
            return False
        if struct is Pod:
            self._marked_pods.drop(name)
            self._interner.drop_unused(len(self._stored[Pod]))
        self._note_change(struct, name, before, None)
        return True

    def _note_change(self, struct: type[Wire], name: tuple[str, str], before: Wire | None, after: Wire | None) -> None:
        self._objects = None
        self._listed.pop(struct, None)
        if struct is Pod:
            pod_before, pod_after = _as_pod(before), _as_pod(after)
            self._pods_by_gang.update(pod_before, pod_after)
            for listener in self.pod_listeners:
                listener(pod_before, pod_after)
        if struct in self._unfolded:
            self._unfolded[struct][name] = None
        if self._shard is not None:
            self._note_shard(self._shard, name, before, after)
        self.version += 1

    def set_mark(self, name: str, uid: str, mark: PodMark | None) -> bool:
        """The mark that a pod gets with its binding, which it has here at once; returns whether that changed it."""
        key_ = _split(name)
        stored = self._marked_pods.stored(key_) or self._stored[Pod].get(key_)
        self._marked_pods.set_mark(key_, uid, mark)
        self.echo = False
        return stored is not None and self._update(Pod, key_, stored)

    def missing_mark(self, name: str, uid: str) -> PodMark | None:
        """The mark that a pod has here, and not in the API server."""
        return self._marked_pods.missing(_split(name), uid)

    def _note_shard(self, shard: Shard, name: tuple[str, str], before: Wire | None, after: Wire | None) -> None:
        """Which pods come to the shard or leave it by this change; one that concerns other shards alone is an echo."""
        states = [each for each in (before, after) if each is not None]
        if isinstance(states[0], Pod):
            self.echo = self.echo or not any(self._has_pod(shard, pod) for pod in states if isinstance(pod, Pod))
        elif isinstance(states[0], Node | Queue | PodGroup):
            has = [shard.has(each.metadata.labels) for each in states if isinstance(each, Node | Queue | PodGroup)]
            self.echo = self.echo or not any(has)
            if isinstance(states[0], PodGroup) and (len(has) == 1 or has[0] != has[1]):
                self._unfolded[Pod] |= dict.fromkeys(map(_split, self._pods_by_gang.names(_to_key(name))))
            elif isinstance(states[0], Node) and any(has) and not (len(has) > 1 and all(has)):
                self._moved_nodes.add(name[1])

    def _has_pod(self, shard: Shard, pod: Pod) -> bool:
        gang = gang_of(pod)
        group = self.pod_group(gang) if gang is not None else None
        return shard.has_pod(pod, group, self.node(pod.spec.node_name) if pod.spec.node_name else None)

    def _is_expected(self, before: Wire, after: Wire) -> bool:
        """Whether the last snapshot had the pod like this already, or only fields that muster writes have changed."""
        if isinstance(after, Pod):
            return self._assumed.get(key(after.metadata)) == after
        return _without_own_writes(before) == _without_own_writes(after)

    def _read(self, received: StoredObject, struct: type[Wire]) -> Wire:
        if isinstance(received, EncodedObject) and isinstance(received.struct, ListedPod):
            pod = self._interner.intern_listed(received.struct)
            if pod is not None:
                return pod
        decoded = read_object(received, struct)
        return self._interner.intern(decoded) if isinstance(decoded, Pod) else strip(decoded)

    @property
    def objects(self) -> Objects:
        """Everything, as a value."""
        if self._objects is None:
            self._objects = self._select(self._stored)
        return self._objects

    def _list(self, struct: type[Wire]) -> tuple[Wire, ...]:
        """All objects of a kind; the same value for as long as nothing changes."""
        if struct not in self._listed:
            self._listed[struct] = tuple(self._stored[struct].values())
        return self._listed[struct]

    def get(self, struct: type[Wire], namespace: str, name: str) -> Wire | None:
        """One object, if it is known."""
        return self._stored[struct].get((namespace, name))

    def pod(self, name: str) -> Pod | None:
        """A pod by namespace/name, as the last event had it."""
        return _as_pod(self._stored[Pod].get(_split(name)))

    def may_bind_to(self, name: str) -> bool:
        """Whether a node is there, of the shard, and takes pods, as the last event had it."""
        node = self.node(name)
        is_there = node is not None and (self._shard is None or self._shard.has(node.metadata.labels))
        return is_there and node is not None and not node.spec.unschedulable

    def node(self, name: str) -> Node | None:
        """A node by name, as the last event had it."""
        node = self._stored[Node].get(("", name))
        return node if isinstance(node, Node) else None

    def pod_group(self, name: str) -> PodGroup | None:
        """A PodGroup by namespace/name, as the last event had it."""
        group = self._stored[PodGroup].get(_split(name))
        return group if isinstance(group, PodGroup) else None

    def waiting_number(self, most: int) -> int:
        """How many pods have no node; counts no further than `most`."""
        return sum(1 for _ in islice((pod for _, pod in self._pods() if not pod.spec.node_name), most))

    def pods_of(self, gang: str) -> tuple[Pod, ...]:
        """The pods that name a PodGroup. Any thread may call it."""
        return self._pods_by_gang.pods(gang)

    @property
    def gangs(self) -> Collection[str]:
        """The gangs that some pod names."""
        return self._pods_by_gang.gangs

    def snapshot(self, now: datetime, instead: Mapping[str, Pod] | None = None) -> Snapshot:
        """The cluster at this moment; `instead` has assumed pods, by namespace/name, in place of stored ones."""
        return self.build(self.prepare(instead), now)

    def prepare(self, instead: Mapping[str, Pod] | None = None) -> Objects:
        """What `build` needs; quick, as it counts nothing."""
        before, self._assumed = self._assumed, instead or {}
        for name in before.keys() | self._assumed.keys():
            self._forward_pod(name, _split(name))
        self._forward_changes(None)
        return self._rest

    def build(self, rest: Objects, now: datetime) -> Snapshot:
        """The prepared snapshot; its cost grows with the cluster. Any thread may build it while none folds."""
        return self._incremental.snapshot(rest, now)

    def fold(self, limit: int | None = None) -> bool:
        """Count up to so many changes now, so that the next snapshot costs little; returns whether some are left."""
        self._forward_changes(limit)
        self._incremental.fold(self._rest, with_nodes=False)
        return any(self._unfolded.values())

    @property
    def unfolded_number(self) -> int:
        """How many objects have changed since they were counted."""
        return sum(map(len, self._unfolded.values()))

    def _forward_changes(self, limit: int | None) -> None:
        if self._moved_nodes:
            on_moved = (name for name, pod in self._pods() if pod.spec.node_name in self._moved_nodes)
            self._unfolded[Pod] |= dict.fromkeys(on_moved)
            self._moved_nodes = set()
        left = sys.maxsize if limit is None else limit
        while self._unfolded[PodGroup] and left > 0:
            left -= self._forward_gang(next(iter(self._unfolded[PodGroup])))
        for name in list(islice(self._unfolded[Pod], max(left, 0))):
            del self._unfolded[Pod][name]
            self._forward_pod(_to_key(name), name)

    def _forward_gang(self, name: tuple[str, str]) -> int:
        """A PodGroup, and those of its pods that changed, so that the gang is built once; returns how many."""
        del self._unfolded[PodGroup][name]
        gang, changed = _to_key(name), self._unfolded[Pod]
        self._forward_group(gang)
        pods = [(pod, _split(pod)) for pod in self._pods_by_gang.names(gang)] if changed else []
        pods = [(pod, parts) for pod, parts in pods if parts in changed]
        for pod, parts in pods:
            del changed[parts]
            self._forward_pod(pod, parts)
        return 1 + len(pods)

    @property
    def _rest(self) -> Objects:
        """Everything but pods and PodGroups."""
        rest = self._select(struct for struct in self._stored if struct not in COUNTED)
        if self._shard is None:
            return rest
        fields: dict[str, Any] = {FIELDS[struct]: self._list_shard(self._shard, struct) for struct in (Node, Queue)}
        return replace(rest, **fields)

    def _select(self, structs: Iterable[type[Wire]]) -> Objects:
        """The objects of these kinds, as a value."""
        fields: dict[str, Any] = {FIELDS[struct]: self._list(struct) for struct in structs}
        return Objects(**fields)

    def _list_shard(self, shard: Shard, struct: type[Node] | type[Queue]) -> tuple[Wire, ...]:
        """What the shard has of a kind; the same value for as long as nothing of it changes."""
        listed, (known, before) = self._list(struct), self._of_shard.get(struct, ((), ()))
        if listed is known:
            return before
        after = tuple(each for each in listed if isinstance(each, struct) and shard.has(each.metadata.labels))
        is_same = len(after) == len(before) and all(map(is_, after, before))
        self._of_shard[struct] = listed, before if is_same else after
        return self._of_shard[struct][1]

    def _forward_pod(self, name: str, parts: tuple[str, str]) -> None:
        stored = _as_pod(self._stored[Pod].get(parts))
        pod = self._assumed.get(name, stored)
        if stored is not None and pod is not None and self._is_read(pod):
            self._incremental.put(pod)
        else:
            self._incremental.drop(name)

    def _forward_group(self, name: str) -> None:
        group = self.pod_group(name)
        if group is not None and self._is_read(group):
            self._incremental.put_group(group)
        else:
            self._incremental.drop_group(name)

    def _is_read(self, item: Pod | PodGroup) -> bool:
        """Whether snapshots have a pod or a PodGroup."""
        if self._shard is None or not self._ours(item):
            return self._ours(item)
        return self._has_pod(self._shard, item) if isinstance(item, Pod) else self._shard.has(item.metadata.labels)

    def _pods(self) -> Iterator[tuple[tuple[str, str], Pod]]:
        return ((name, pod) for name, pod in self._stored[Pod].items() if isinstance(pod, Pod))


def _as_pod(stored: Wire | None) -> Pod | None:
    return stored if isinstance(stored, Pod) else None


def _without_own_writes(stored: Wire) -> Wire:
    """Without the fields that muster writes itself and does not act upon at once."""
    if not isinstance(stored, PodGroup | Queue):
        return stored
    notes = {name: note for name, note in stored.metadata.annotations.items() if name not in names.NOTES_OF_TIME}
    return replace(stored, status=None, metadata=replace(stored.metadata, annotations=notes))


def _to_key(name: tuple[str, str]) -> str:
    """namespace/name (N3), as `key` has it."""
    return f"{name[0] or names.DEFAULT_NAMESPACE}/{name[1]}"


def _split(name: str) -> tuple[str, str]:
    namespace, _, last = name.partition("/")
    return namespace, last

"""The cluster as muster reads it, kept up to date from news: objects as structs, and snapshots of them.

What muster does not read is dropped when an object is decoded, and equal parts of pods are kept once. A snapshot is
equal to `take` of the same objects, at the cost of what has changed since the last one.
"""

from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from itertools import islice
from typing import Any

from msgspec.structs import replace

from muster.api import names
from muster.api.core import Node, Pod
from muster.api.decoding import decode
from muster.api.meta import Wire
from muster.api.objects import FIELDS, WATCHED_KINDS, Objects, key
from muster.api.podgroup import PodGroup
from muster.api.queue import Queue
from muster.kube.cache.interning import Slim, bare
from muster.kube.cache.reflector import Changed, Gone, News, identity
from muster.kube.cluster import Raw
from muster.model.incremental.incremental_snapshot import IncrementalSnapshot
from muster.model.snapshot import Snapshot
from muster.validation.pods.membership import OURS, gang_of


def _all(_object: Pod | PodGroup) -> bool:
    return True


class Cache:
    """Every object that planning reads; `ours` says which pods and PodGroups are in the snapshots.

    Pods of other schedulers are, too: they take room, and gangs that wait for them say so (N6).
    """

    def __init__(self, ours: Callable[[Pod | PodGroup], bool] = _all, schedulers: Collection[str] = OURS) -> None:
        self._ours = ours
        self._held: dict[type[Wire], dict[tuple[str, str], Wire]] = {struct: {} for struct in WATCHED_KINDS.values()}
        self._listed: dict[type[Wire], tuple[Wire, ...]] = {}  # what is held, as values that were given out
        self._objects: Objects | None = None
        self._slim = Slim()
        self._kept = IncrementalSnapshot(schedulers)
        self._news: dict[type[Wire], dict[tuple[str, str], None]] = {Pod: {}, PodGroup: {}}  # not yet told to `_kept`
        self._gangs: dict[str, dict[tuple[str, str], None]] = {}  # pods, by the PodGroup that they name
        self._laid: Mapping[str, Pod] = {}  # what the last snapshot had instead of what was heard
        self.version = 0  # how often something changed
        self.echo = False  # the last change was expected: no plan has to be made for it

    def handle(self, struct: type[Wire], news: News) -> bool:
        """Fold one piece of news in; whether anything that muster reads is different now."""
        held, self.echo = self._held[struct], False
        found: Wire | None
        match news:
            case Changed(object=raw):
                found = self._read(raw, struct)
                before = held.get(identity(raw))
                changed = before != found
                if changed:
                    held[identity(raw)] = found
                    self.echo = before is not None and self._expected(before, found)
            case Gone(object=raw):
                before, found = held.pop(identity(raw), None), None
                changed = before is not None
            case _:
                return False
        if changed:
            self._objects = None
            self._listed.pop(struct, None)
            self._regroup(identity(raw), before, found)
            if struct in self._news:
                self._news[struct][identity(raw)] = None
            self.version += 1
        return changed

    def _regroup(self, one: tuple[str, str], before: Wire | None, after: Wire | None) -> None:
        """A pod has joined a gang, or left one."""
        was, now = (gang_of(pod) if isinstance(pod, Pod) else None for pod in (before, after))
        if was == now:
            return
        if was is not None:
            self._gangs[was].pop(one)
            if not self._gangs[was]:
                del self._gangs[was]
        if now is not None:
            self._gangs.setdefault(now, {})[one] = None

    def _expected(self, before: Wire, after: Wire) -> bool:
        """A pod as the last snapshot had it already, or an object of which only what we write has changed."""
        if isinstance(after, Pod):
            return self._laid.get(key(after.metadata)) == after
        return _unwritten(before) == _unwritten(after)

    def _read(self, raw: Raw, struct: type[Wire]) -> Wire:
        found, _ = decode(_unversioned(raw), struct)
        return self._slim.pod(found) if isinstance(found, Pod) else bare(found)

    @property
    def objects(self) -> Objects:
        """Everything, as a value."""
        if self._objects is None:
            held: dict[str, Any] = {FIELDS[struct]: self._list(struct) for struct in self._held}
            self._objects = Objects(**held)
        return self._objects

    def _list(self, struct: type[Wire]) -> tuple[Wire, ...]:
        """The same value for as long as nothing changes."""
        if struct not in self._listed:
            self._listed[struct] = tuple(self._held[struct].values())
        return self._listed[struct]

    def get(self, struct: type[Wire], namespace: str, name: str) -> Wire | None:
        """One object, if it is known."""
        return self._held[struct].get((namespace, name))

    def pod(self, name: str) -> Pod | None:
        """A pod by namespace/name, as it was last heard of."""
        found = self._held[Pod].get(_split(name))
        return found if isinstance(found, Pod) else None

    def node(self, name: str) -> Node | None:
        """As it was last heard of."""
        found = self._held[Node].get(("", name))
        return found if isinstance(found, Node) else None

    def pod_group(self, name: str) -> PodGroup | None:
        """By namespace/name, as it was last heard of."""
        found = self._held[PodGroup].get(_split(name))
        return found if isinstance(found, PodGroup) else None

    def pods_of(self, gang: str) -> tuple[Pod, ...]:
        """The pods that name a PodGroup, as they were last heard of. Any thread may ask."""
        found = (self._held[Pod].get(one) for one in tuple(self._gangs.get(gang, ())))
        return tuple(pod for pod in found if isinstance(pod, Pod))

    def snapshot(self, now: datetime, instead: Mapping[str, Pod] | None = None) -> Snapshot:
        """The cluster at this moment; some pods, by namespace/name, as they will be rather than as they are."""
        return self.build(self.prepare(instead), now)

    def prepare(self, instead: Mapping[str, Pod] | None = None) -> Objects:
        """What `build` needs: quick, as nothing is counted yet."""
        before, self._laid = self._laid, instead or {}
        for name in before.keys() | self._laid.keys():
            self._tell(name)
        self._tell_news(None)
        return self._rest

    def build(self, rest: Objects, now: datetime) -> Snapshot:
        """The snapshot that was prepared. It grows with the cluster: any thread may do it while nobody folds."""
        return self._kept.snapshot(rest, now)

    def fold(self, most: int | None = None) -> bool:
        """Count what is new, so that the next snapshot costs little: so many at most; whether something is left."""
        self._tell_news(most)
        self._kept.fold(self._rest, hosts_too=False)
        return any(self._news.values())

    def _tell_news(self, most: int | None) -> None:
        for struct, tell in ((PodGroup, self._tell_group), (Pod, self._tell)):
            for one in list(islice(self._news[struct], most)):
                del self._news[struct][one]
                tell(_joined(one))

    @property
    def _rest(self) -> Objects:
        """Everything but pods and PodGroups."""
        return replace(self.objects, pods=(), pod_groups=())

    def _tell(self, name: str) -> None:
        seen = self.pod(name)
        pod = self._laid.get(name, seen)
        if seen is not None and pod is not None and self._ours(pod):
            self._kept.put(pod)
        else:
            self._kept.drop(name)

    def _tell_group(self, name: str) -> None:
        group = self._held[PodGroup].get(_split(name))
        if isinstance(group, PodGroup) and self._ours(group):
            self._kept.put_group(group)
        else:
            self._kept.drop_group(name)


def _unwritten(one: Wire) -> Wire:
    """Without what we write ourselves and do not act upon at once."""
    if not isinstance(one, PodGroup | Queue):
        return one
    notes = {name: note for name, note in one.metadata.annotations.items() if name not in names.NOTES_OF_TIME}
    return replace(one, status=None, metadata=replace(one.metadata, annotations=notes))


def _joined(of: tuple[str, str]) -> str:
    """Identity everywhere (N3), as `key` has it."""
    return f"{of[0] or names.DEFAULT_NAMESPACE}/{of[1]}"


def _split(name: str) -> tuple[str, str]:
    namespace, _, last = name.partition("/")
    return namespace, last


def _unversioned(raw: Raw) -> Raw:
    """Without what differs with every write, whoever wrote whatever."""
    return {**raw, "metadata": {name: value for name, value in raw["metadata"].items() if name != "resourceVersion"}}

"""The pods that a manifest will have: its controllers, run to the end on objects in memory.

Rule 1: every pod that is made counts as Running and Ready at once, so that kinds that start in an order get all pods;
but not a pod of a PodGang, whose gate says what has to be scheduled before it. Rule 2: equal manifests give equal names
and uids. Rule 3: the number of pods and of reconciliations is bounded.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

from msgspec import Struct

from muster.api.fields import items, mapping, text
from muster.api.names import DEFAULT_NAMESPACE, GANG_GATE
from muster.api.resources import PODS, Resource
from muster.errors import InputError
from muster.workloads.as_if_due import as_if_due
from muster.workloads.conditions import timestamp
from muster.workloads.defaults import with_defaults
from muster.workloads.merge_patch import merged
from muster.workloads.operators.pod_admission import admit_pod
from muster.workloads.pod_templates import LONGEST_GENERATED, template_hash
from muster.workloads.table import CONTROLLERS
from muster.workloads.types import (
    Action,
    Controller,
    Create,
    Key,
    Raw,
    Reconciliation,
    Remove,
    Update,
    kinds_of,
    related_keys,
)

MOST_PODS = 20_000
MOST_ROUNDS = 200_000  # reconciliations
NOW = datetime(2000, 1, 1, tzinfo=UTC)  # when everything is made; any time serves
MOST_OWNERS = 16  # above an object that are followed: owners may form a circle
SUFFIX = 5  # characters after a generateName
PLANNED = "planned-"  # what the uids of objects that do not exist yet begin with
Named = tuple[str, str, str, str]  # apiVersion, kind, namespace and name


class ExpandedPod(Struct, frozen=True):
    """A pod that does not exist yet, and where it comes from."""

    pod: Raw  # Pending, without a node
    owners: tuple[Raw, ...]  # from the pod upwards; the last one is in a manifest


class Expansion(Struct, frozen=True):
    """The pods that do not exist yet, and the owners of all pods, whether they exist or not."""

    pods: tuple[ExpandedPod, ...]
    owners: tuple[Raw, ...]  # with name and uid
    objects: tuple[Raw, ...] = ()  # everything that controllers read or made, as it is in the end


def expand(raws: Iterable[Raw], controllers: Mapping[Resource, Controller] = CONTROLLERS) -> tuple[ExpandedPod, ...]:
    """The pods that these objects will have, beside those that are among them; in the order of their creation.

    A workload that is suspended or has no replicas has none. InputError: there are too many.
    """
    return expand_objects(raws, controllers).pods


def expand_objects(raws: Iterable[Raw], controllers: Mapping[Resource, Controller] = CONTROLLERS) -> Expansion:
    """What `expand` gives, with the owners of all pods: those of pods that exist, too.

    An object without a uid is the one that others name as their owner: a pod of a cluster and a manifest of its Job
    belong together.
    """
    given = list(raws)
    memory = _MemoryObjects(controllers, _uids_by_reference(given))
    for number, raw in enumerate(given):
        memory.add_given(raw, number)
    memory.settle()
    pods = tuple(ExpandedPod(_pending(pod), tuple(memory.owners_of(pod))) for pod in memory.made_pods())
    return Expansion(pods, tuple(memory.owners()), tuple(memory.everything()))


def _uids_by_reference(raws: Iterable[Raw]) -> dict[Named, str]:
    """The uids by which objects name their owners."""
    return {
        (text(reference, "apiVersion"), text(reference, "kind"), _namespace(raw), text(reference, "name")): uid
        for raw in raws
        for reference in items(raw, "metadata.ownerReferences")
        if (uid := text(reference, "uid"))
    }


def _pending(pod: Raw) -> Raw:
    spec = {name: value for name, value in mapping(pod, "spec").items() if name != "nodeName"}
    return {**pod, "spec": spec, "status": {"phase": "Pending"}}


class _MemoryObjects:
    """Objects by kind and name, their children, and which of them are to be reconciled."""

    def __init__(self, controllers: Mapping[Resource, Controller], uids: Mapping[Named, str]) -> None:
        self._controllers, self._uids = controllers, uids
        kinds = [kind for controller in controllers.values() for kind in kinds_of(controller)]
        self._resources = {(kind.api_version, kind.kind): kind for kind in kinds}
        self._objects: dict[Key, Raw] = {}
        self._given: dict[str, Raw] = {}  # by uid: as the manifest has it
        self._keys: dict[str, Key] = {}  # by uid
        self._children: dict[str, dict[Resource, dict[Key, None]]] = {}  # by the uid of their controller, in order
        self._made: dict[Key, None] = {}  # pods
        self._generated: dict[Key, int] = {}  # how many names each owner has generated
        self._queue: deque[Key] = deque()
        self._waiting: set[Key] = set()

    def of(self, owner: Raw, resource: Resource) -> Sequence[Raw]:
        """See Children."""
        return [self._objects[key] for key in self._children.get(owner["metadata"]["uid"], {}).get(resource, ())]

    def get(self, resource: Resource, namespace: str, name: str) -> Raw | None:
        """See Children."""
        return self._objects.get((resource, namespace, name))

    def orphans(self, resource: Resource) -> Iterable[Raw]:  # noqa: ARG002
        """See Children: none, as owners that are not given are not gone."""
        return ()

    def every(self, resource: Resource) -> Iterable[Raw]:
        """See KnownObjects."""
        return [raw for key, raw in self._objects.items() if key[0] == resource]

    def made_pods(self) -> Iterator[Raw]:
        """Pods that controllers have made."""
        return (self._objects[key] for key in self._made)

    def everything(self) -> Iterable[Raw]:
        """All objects."""
        return self._objects.values()

    def owners(self) -> Iterator[Raw]:
        """Everything that owns something, as manifests have it where they do."""
        uids = [uid for uid in self._children if uid in self._keys]
        return (self._given.get(uid) or self._objects[self._keys[uid]] for uid in uids)

    def owners_of(self, raw: Raw) -> Iterator[Raw]:
        """The controllers above an object, as many as are followed."""
        seen: set[str] = set()
        while (uid := controller_uid(raw)) in self._keys and uid not in seen and len(seen) < MOST_OWNERS:
            seen.add(uid)
            raw = self._objects[self._keys[uid]]
            yield self._given.get(uid, raw)

    # objects

    def add_given(self, raw: Raw, number: int) -> None:
        """An object of a manifest; kinds without a controller are left out."""
        resource = self._resources.get((text(raw, "apiVersion"), text(raw, "kind")))
        if resource is None:
            return
        named = self._named(raw, resource, number)
        self._given[named["metadata"]["uid"]] = named
        self._put(resource, _ready(resource, as_if_due(resource, with_defaults(named))))

    def _put(self, resource: Resource, raw: Raw) -> None:
        key, metadata = _key(resource, raw), raw["metadata"]
        old = self._objects.get(key)
        if old is not None and old["metadata"]["uid"] != metadata["uid"]:  # one name, given twice
            self._keys.pop(old["metadata"]["uid"], None)
        self._objects[key] = raw
        self._keys[metadata["uid"]] = key
        if uid := controller_uid(raw):
            self._children.setdefault(uid, {}).setdefault(resource, {})[key] = None
        self._enqueue(key)

    def _enqueue(self, key: Key) -> None:
        """Reconcile an object, all above it, and what it concerns beside them."""
        raw = self._objects[key]
        above = (_key(self._resource_of(owner), owner) for owner in self.owners_of(raw))
        for one in (key, *above, *related_keys(self._controllers.values(), key[0], raw, self)):
            if one[0] in self._controllers and one in self._objects and one not in self._waiting:
                self._waiting.add(one)
                self._queue.append(one)

    def _resource_of(self, raw: Raw) -> Resource:
        return self._resources[raw["apiVersion"], raw["kind"]]

    # reconciliations

    def settle(self) -> None:
        """Reconcile until nothing changes."""
        rounds = 0
        while self._queue:
            key = self._queue.popleft()
            self._waiting.discard(key)
            if key not in self._objects:
                continue
            rounds += 1
            if rounds > MOST_ROUNDS:
                raise InputError(
                    f"{key[0].kind} `{key[1]}/{key[2]}` does not settle: its controller changes it again and again",
                    hint="split the manifest, or plan on a cluster that has its pods",
                )
            self._perform(key, self._controllers[key[0]].reconcile(self._objects[key], self, NOW))

    def _perform(self, key: Key, reconciliation: Reconciliation) -> None:
        for action in reconciliation.actions:
            self._act(key, action)
        owner = self._objects.get(key)
        if owner is not None and reconciliation.status is not None and reconciliation.status != owner.get("status"):
            self._put(key[0], {**owner, "status": reconciliation.status})
        if reconciliation.again_after_seconds == 0 and key in self._objects:
            self._enqueue(key)

    def _act(self, key: Key, action: Action) -> None:
        match action:
            case Create(resource=resource, object=raw):
                self._create(key, resource, raw)
            case Update(resource=resource, namespace=namespace, name=name, patch=patch):
                old = self._objects.get((resource, namespace, name))
                if old is not None and (new := merged(old, patch)) != old:
                    self._put(resource, new)
            case Remove(resource=resource, namespace=namespace, name=name):
                self._remove((resource, namespace, name))

    def _create(self, key: Key, resource: Resource, raw: Raw) -> None:
        self._resources.setdefault((resource.api_version, resource.kind), resource)
        named = self._new_object(key, resource, {"apiVersion": resource.api_version, "kind": resource.kind, **raw})
        named = admit_pod(named) if resource == PODS else named
        new = _key(resource, named)
        if new in self._objects:  # the name is taken: the real controller would try again and again
            return
        if resource == PODS:
            self._made[new] = None
            if len(self._made) > MOST_PODS:
                raise InputError(
                    f"{key[0].kind} `{key[1]}/{key[2]}`: the manifests would have more than {MOST_PODS} pods",
                    hint="lower its replicas, or leave it out",
                )
        self._put(resource, _ready(resource, as_if_due(resource, with_defaults(named))))

    def _new_object(self, key: Key, resource: Resource, raw: Raw) -> Raw:
        """The object with its name; draws another generated one where the first ones are taken."""
        if text(raw, "metadata.name"):
            return self._named(raw, resource, 0)
        while True:
            number = self._generated[key] = self._generated.get(key, 0) + 1
            named = self._named(raw, resource, number)
            if _key(resource, named) not in self._objects:
                return named

    def _named(self, raw: Raw, resource: Resource, number: int) -> Raw:
        """An object as an API server would store it: with namespace, name, uid and age."""
        metadata = mapping(raw, "metadata")
        namespace = _namespace(raw) if resource.namespaced else ""
        prefix = text(metadata, "generateName")
        seed = [resource.api_version, resource.kind, namespace, controller_uid(raw), prefix, number]
        name = text(metadata, "name") or f"{prefix[:LONGEST_GENERATED]}{template_hash(seed)[:SUFFIX]}"
        known = self._uids.get((resource.api_version, resource.kind, namespace, name))
        uid = text(metadata, "uid") or known or _uid(resource, namespace, name)
        created = {"creationTimestamp": timestamp(NOW), "generation": 1}
        return {**raw, "metadata": {**created, **metadata, "namespace": namespace, "name": name, "uid": uid}}

    def _remove(self, key: Key) -> None:
        """Remove an object and, as the garbage collector would, all below it."""
        doomed = [key]
        while doomed:
            doomed += self._remove_alone(doomed.pop())

    def _remove_alone(self, key: Key) -> list[Key]:
        """The children of an object that is gone now."""
        raw = self._objects.pop(key, None)
        if raw is None:
            return []
        owner, uid = controller_uid(raw), raw["metadata"]["uid"]
        self._children.get(owner, {}).get(key[0], {}).pop(key, None)
        self._made.pop(key, None)
        if self._keys.get(uid) == key:
            del self._keys[uid]
        if owner in self._keys:
            self._enqueue(self._keys[owner])
        return [child for children in self._children.get(uid, {}).values() for child in children]


def _key(resource: Resource, raw: Raw) -> Key:
    return resource, text(raw, "metadata.namespace"), text(raw, "metadata.name")


def controller_uid(raw: Raw) -> str:
    """The uid of the owner that controls an object; empty: none does."""
    references = mapping(raw, "metadata").get("ownerReferences")
    for reference in references if isinstance(references, list) else ():
        if isinstance(reference, dict) and reference.get("controller"):
            return text(reference, "uid")
    return ""


def _namespace(raw: Raw) -> str:
    return text(raw, "metadata.namespace") or DEFAULT_NAMESPACE


def _uid(resource: Resource, namespace: str, name: str) -> str:
    return f"{PLANNED}{resource.plural}-{template_hash([resource.api_version, namespace, name])}"


def _ready(resource: Resource, raw: Raw) -> Raw:
    """A pod that runs; other kinds, pods with a status and pods behind the gate of a PodGang stay as they are."""
    if resource != PODS or mapping(raw, "status").get("phase") or _is_gated(raw):
        return raw
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": "1999-01-01T00:00:00Z"}
    return {**raw, "status": {"phase": "Running", "conditions": [condition]}}


def _is_gated(pod: Raw) -> bool:
    return any(gate.get("name") == GANG_GATE for gate in items(pod, "spec.schedulingGates"))

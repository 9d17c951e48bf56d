"""The objects of an embedded cluster when it starts: those of files, and the built-in ones.

Rule 1: objects of files replace built-in ones. Rule 2: uid, creation time and status of an object are kept, so that a
snapshot is planned like the cluster it was captured from. Rule 3: no controller acts on the objects meanwhile. Rule 4:
the kinds of operators that have a controller here are served, by the CRDs of files or else by minimal ones.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from msgspec import Struct

from muster.api.codec import Document, title
from muster.api.moment import parse_time
from muster.api.resources import DEFINITIONS, NAMESPACES, NODES, PODS, Resource
from muster.embedded.cluster_store import ClusterStore
from muster.embedded.store.kinds import Kind
from muster.errors import InputError
from muster.kube.cluster import Raw
from muster.kube.errors import ApiError
from muster.simulator import datacenter
from muster.validation.problem import listed
from muster.workloads.operators.crds import operator_crds

BUILT_IN_NODES = 64  # where neither `--nodes` nor a file says otherwise
CREATED_FIRST = (
    "CustomResourceDefinition",
    "Namespace",
    "PriorityClass",
    "Queue",
    "Topology",
    "Node",
)  # others refer to them
CREATED_LAST = "Pod"
VALIDATED_KINDS = ("PodGroup", "Queue", "Topology")
SYSTEM_FIELDS = (  # of metadata: set by the API server
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "generation",
    "managedFields",
    "selfLink",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
Identity = tuple[str, str, str, str]  # group, kind, namespace and name


class InitialCluster(Struct, frozen=True):
    """A store with its initial objects, and what users should know about them."""

    store: ClusterStore
    namespaces: tuple[str, ...]  # created, as objects name them and no file has them
    unknown: tuple[str, ...]  # kinds that were skipped
    missing_nodes: tuple[str, ...]  # that pods are bound to


def built_in_objects(
    number: int | None, gpus: int, domains_by_level: dict[str, int], documents: Sequence[Document]
) -> Iterator[Document]:
    """Topology and nodes of the built-in data centre, without those that files have.

    `number` of nodes; None: the default, or 0 where files have nodes. Where files have all nodes, there is no built-in
    topology either.
    """
    in_files = {_identity(document.raw) for document in documents}
    files_have_nodes = any(kind == NODES.kind and not group for group, kind, _, _ in in_files)
    number = (0 if files_have_nodes else BUILT_IN_NODES) if number is None else number
    if files_have_nodes and not number:
        return
    for raw in (datacenter.topology(domains_by_level), *datacenter.nodes(number, gpus, domains_by_level)):
        if _identity(raw) not in in_files:
            yield Document("built in", raw)


def create_cluster(documents: Sequence[Document]) -> InitialCluster:
    """A cluster with these objects. InputError names the file, the document, the object and a way out."""
    identities = _CapturedIdentities()
    store = ClusterStore(clock=identities.now, new_uid=identities.new_uid, custom=_missing_definitions(documents))
    _reject_duplicates(documents)
    ordered = sorted(documents, key=_creation_order)
    namespaces = _missing_namespaces(ordered, {raw["metadata"]["name"] for raw in store.list(NAMESPACES).items})
    unknown: Counter[str] = Counter()
    for document in (*namespaces, *ordered):
        kind = _served_kind(store, document.raw)
        if kind is None:
            unknown[f"{document.raw.get('kind')} ({document.raw.get('apiVersion')})"] += 1
        else:
            _create(store, identities, kind, document)
    identities.use_real_time()
    kinds = tuple(f"{number} {kind}" for kind, number in sorted(unknown.items()))
    names = tuple(sorted(document.raw["metadata"]["name"] for document in namespaces))
    return InitialCluster(store, names, kinds, _missing_nodes(store))


# one object ---------------------------------------------------------------------------------------------------------


class _CapturedIdentities:
    """Clock and uid source of a store while initial objects are created: they keep their uids and creation times."""

    def __init__(self) -> None:
        self._started = datetime.now(UTC)
        self._time: datetime | None = self._started
        self._uid, self._used_uids = "", set[str]()

    def now(self) -> datetime:
        """The creation time of the current object; the real time after `use_real_time`."""
        return self._time or datetime.now(UTC)

    def new_uid(self) -> str:
        """The uid of the current object, if it has one that is not in use; otherwise a new one."""
        uid = self._uid if self._uid and self._uid not in self._used_uids else str(uuid4())
        self._used_uids.add(uid)
        return uid

    @contextmanager
    def creating(self, at: datetime | None, uid: str = "") -> Iterator[None]:
        """Use this time and uid; None: the start of the cluster."""
        self._time, self._uid = at or self._started, uid
        try:
            yield
        finally:
            self._time, self._uid = self._started, ""

    def use_real_time(self) -> None:
        """Use the real time from now on."""
        self._time = None


def _create(store: ClusterStore, identities: _CapturedIdentities, kind: Kind, document: Document) -> None:
    raw, resource = document.raw, kind.resource
    metadata = _metadata(raw)
    user_fields = {name: value for name, value in metadata.items() if name not in SYSTEM_FIELDS}
    if resource.namespaced:
        user_fields["namespace"] = _namespace(metadata)
    try:
        with identities.creating(_moment(metadata.get("creationTimestamp")), _text(metadata.get("uid"))):
            stored = store.create(resource, {**raw, "metadata": user_fields})
        status = raw.get("status")  # `kubectl create --dry-run -o yaml` writes an empty one
        if isinstance(status, dict) and status and "status" in kind.subresources:
            stored = store.replace(resource, {**stored, "status": status}, "status")
        if resource == PODS:
            _delete_terminating(store, identities, stored, metadata)
    except ApiError as error:
        if error.reason == "AlreadyExists":
            _update_existing(store, resource, user_fields)
        else:
            raise _input_error(document, error) from error


def _delete_terminating(store: ClusterStore, identities: _CapturedIdentities, pod: Raw, metadata: Raw) -> None:
    """Delete a pod that was terminating when it was captured, with the same deadline."""
    deadline, grace = _moment(metadata.get("deletionTimestamp")), metadata.get("deletionGracePeriodSeconds")
    if deadline is None:
        return
    seconds = grace if isinstance(grace, int) and 0 < grace < 10**6 else 1
    with identities.creating(deadline - timedelta(seconds=seconds)):
        store.delete(PODS, pod["metadata"]["namespace"], pod["metadata"]["name"], grace_seconds=seconds)


def _update_existing(store: ClusterStore, resource: Resource, metadata: Raw) -> None:
    """Set labels and annotations of an object that every cluster has."""
    fields = {name: metadata[name] for name in ("labels", "annotations") if isinstance(metadata.get(name), dict)}
    store.patch(resource, "", metadata["name"], {"metadata": fields})


def _input_error(document: Document, error: ApiError) -> InputError:
    hint = "correct it, or leave it out"
    if error.reason == "Invalid" and document.raw.get("kind") in VALIDATED_KINDS:
        hint = "`muster validate` lists every problem of a file with its path"
    elif "PriorityClass" in error.message:
        hint = "add a file that has it, such as examples/cluster/priorities.yaml"
    return InputError(f"{document.where}: {title(document.raw)} is rejected: {error.message}", hint=hint)


# all objects --------------------------------------------------------------------------------------------------------


def _creation_order(document: Document) -> int:
    kind = _text(document.raw.get("kind"))
    return CREATED_FIRST.index(kind) if kind in CREATED_FIRST else len(CREATED_FIRST) + int(kind == CREATED_LAST)


def _served_kind(store: ClusterStore, raw: Raw) -> Kind | None:
    type_meta = (raw.get("apiVersion"), raw.get("kind"))
    return next((kind for kind in store.kinds if (kind.resource.api_version, kind.resource.kind) == type_meta), None)


def _reject_duplicates(documents: Sequence[Document]) -> None:
    seen: dict[Identity, str] = {}
    for document in documents:
        identity = _identity(document.raw)
        if identity[3] and identity in seen:
            raise InputError(
                f"{document.where}: {title(document.raw)} is given twice",
                hint=f"the other one is in {seen[identity]}; keep one",
            )
        seen[identity] = document.where


def _missing_definitions(documents: Sequence[Document]) -> list[Raw]:
    """CRDs of the operators' kinds, but those that files have."""
    in_files = {
        _text(_metadata(each.raw).get("name")) for each in documents if each.raw.get("kind") == DEFINITIONS.kind
    }
    return [raw for raw in operator_crds() if raw["metadata"]["name"] not in in_files]


def _missing_namespaces(documents: Sequence[Document], existing: set[str]) -> list[Document]:
    raws = [document.raw for document in documents]
    in_files = {_text(_metadata(raw).get("name")) for raw in raws if raw.get("kind") == NAMESPACES.kind}
    named = {_text(_metadata(raw).get("namespace")) for raw in raws} - {""}
    return [
        Document("created", {"apiVersion": "v1", "kind": NAMESPACES.kind, "metadata": {"name": name}})
        for name in sorted(named - in_files - existing)
    ]


def _missing_nodes(store: ClusterStore) -> tuple[str, ...]:
    nodes = {raw["metadata"]["name"] for raw in store.list(NODES).items}
    return tuple(sorted({raw["spec"].get("nodeName") or "" for raw in store.list(PODS).items} - nodes - {""}))


def notes(cluster: InitialCluster) -> Iterator[str]:
    """What users should know about the initial objects."""
    if cluster.namespaces:
        yield f"created the namespaces that the files name: {listed(cluster.namespaces)}"
    if cluster.unknown:
        yield f"skipped kinds that the embedded cluster does not serve: {', '.join(cluster.unknown)}"
    if cluster.missing_nodes:
        yield (
            f"pods on nodes that do not exist are removed, as in Kubernetes: {listed(cluster.missing_nodes)}; "
            "add the files that have these nodes"
        )


def _identity(raw: Raw) -> Identity:
    """Group, kind, namespace and name; empty where not stated."""
    metadata = _metadata(raw)
    group = _text(raw.get("apiVersion")).rpartition("/")[0]
    return group, _text(raw.get("kind")), _text(_namespace(metadata)), _text(metadata.get("name"))


def _metadata(raw: Raw) -> Raw:
    metadata = raw.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def _namespace(metadata: Raw) -> Any:
    return metadata.get("namespace") or "default"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _moment(value: Any) -> datetime | None:
    return parse_time(value) if isinstance(value, str) else None

"""What an embedded cluster holds when it opens: the objects of files, and what is built in around them.

Rule 1: what files bring wins over what is built in. Rule 2: an object that says who it is, how old it is and how it
fares comes up like that: a snapshot is planned as the cluster that it was taken of. Rule 3: nothing acts meanwhile.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from msgspec import Struct

from muster.api.codec import Document, title
from muster.api.moment import moment
from muster.api.resources import NAMESPACES, NODES, PODS, Resource
from muster.embedded.cluster_store import ClusterStore
from muster.embedded.store.kinds import Kind
from muster.errors import InputError
from muster.kube.cluster import Raw
from muster.kube.errors import ApiError
from muster.simulator import datacenter
from muster.validation.problem import listed

BUILT_IN_NODES = 64  # where nobody says how many, and no file brings any
FIRST = ("CustomResourceDefinition", "Namespace", "PriorityClass", "Queue", "Topology", "Node")  # others lean on them
LAST = "Pod"
JUDGED = ("PodGroup", "Queue", "Topology")
GIVEN = (  # by an API server, to what is created
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


class Filled(Struct, frozen=True):
    """A cluster that is ready to open, and what there is to say about how it came to be."""

    store: ClusterStore
    namespaces: tuple[str, ...]  # made, as files name them and bring none
    unknown: tuple[str, ...]  # kinds that were left alone
    homeless: tuple[str, ...]  # nodes that pods are bound to, and that do not exist


def built_in(
    number: int | None, gpus: int, domains_by_level: dict[str, int], given: Sequence[Document]
) -> Iterator[Document]:
    """The data centre, but for what files bring. None: as many nodes as there are without files, or none with theirs.

    Without nodes of its own, and with files that bring some, there is no topology of its own either.
    """
    theirs = {_identity(document.raw) for document in given}
    bring = any(kind == NODES.kind and not group for group, kind, _, _ in theirs)
    number = (0 if bring else BUILT_IN_NODES) if number is None else number
    if bring and not number:
        return
    for raw in (datacenter.topology(domains_by_level), *datacenter.nodes(number, gpus, domains_by_level)):
        if _identity(raw) not in theirs:
            yield Document("built in", raw)


def fill(documents: Sequence[Document]) -> Filled:
    """A cluster with these objects. InputError names the file, the document, the object, and a way out."""
    birth = _Birth()
    store = ClusterStore(clock=birth.now, new_uid=birth.uid)
    _refuse_repeated(documents)
    ordered = sorted(documents, key=_turn)
    made = _missing_namespaces(ordered, {raw["metadata"]["name"] for raw in store.list(NAMESPACES).items})
    unknown: Counter[str] = Counter()
    for document in (*made, *ordered):
        kind = _known(store, document.raw)
        if kind is None:
            unknown[f"{document.raw.get('kind')} ({document.raw.get('apiVersion')})"] += 1
        else:
            _put(store, birth, kind, document)
    birth.over()
    words = tuple(f"{number} {kind}" for kind, number in sorted(unknown.items()))
    return Filled(store, tuple(sorted(one.raw["metadata"]["name"] for one in made)), words, _homeless(store))


# one object ---------------------------------------------------------------------------------------------------------


class _Birth:
    """The clock and the giver of uids of a store that is being filled: every object is who, and as old as, it says."""

    def __init__(self) -> None:
        self._opened = datetime.now(UTC)
        self._at: datetime | None = self._opened
        self._wanted, self._taken = "", set[str]()

    def now(self) -> datetime:
        """The moment that is pretended; afterwards the real one."""
        return self._at or datetime.now(UTC)

    def uid(self) -> str:
        """That of the object, if it says one that nobody else has."""
        found = self._wanted if self._wanted and self._wanted not in self._taken else str(uuid4())
        self._taken.add(found)
        return found

    @contextmanager
    def pretended(self, at: datetime | None, uid: str = "") -> Iterator[None]:
        """At this moment, for this object; None: it says none, and is as old as the cluster."""
        self._at, self._wanted = at or self._opened, uid
        try:
            yield
        finally:
            self._at, self._wanted = self._opened, ""

    def over(self) -> None:
        """From now on time goes on by itself."""
        self._at = None


def _put(store: ClusterStore, birth: _Birth, kind: Kind, document: Document) -> None:
    raw, resource = document.raw, kind.resource
    meta = _metadata(raw)
    given = {name: value for name, value in meta.items() if name not in GIVEN}
    if resource.namespaced:
        given["namespace"] = _space(meta)
    try:
        with birth.pretended(_moment(meta.get("creationTimestamp")), _text(meta.get("uid"))):
            stored = store.create(resource, {**raw, "metadata": given})
        if isinstance(raw.get("status"), dict) and "status" in kind.subresources:
            stored = store.replace(resource, {**stored, "status": raw["status"]}, "status")
        if resource == PODS:
            _leaves(store, birth, stored, meta)
    except ApiError as error:
        if error.reason == "AlreadyExists":
            _adopt(store, resource, given)
        else:
            raise _refused(document, error) from error


def _leaves(store: ClusterStore, birth: _Birth, pod: Raw, meta: Raw) -> None:
    """A pod that was on its way out is so again, with as much time as it had."""
    until, grace = _moment(meta.get("deletionTimestamp")), meta.get("deletionGracePeriodSeconds")
    if until is None:
        return
    seconds = grace if isinstance(grace, int) and 0 < grace < 10**6 else 1
    with birth.pretended(until - timedelta(seconds=seconds)):
        store.delete(PODS, pod["metadata"]["namespace"], pod["metadata"]["name"], grace_seconds=seconds)


def _adopt(store: ClusterStore, resource: Resource, given: Raw) -> None:
    """What every cluster has from the start gets the labels and annotations that it is given."""
    told = {name: given[name] for name in ("labels", "annotations") if isinstance(given.get(name), dict)}
    store.patch(resource, "", given["name"], {"metadata": told})


def _refused(document: Document, error: ApiError) -> InputError:
    hint = "put it right, or leave it out"
    if error.reason == "Invalid" and document.raw.get("kind") in JUDGED:
        hint = "`muster validate` tells every problem of a file with its place"
    elif "PriorityClass" in error.message:
        hint = "give a file that brings it, too, such as examples/cluster/priorities.yaml"
    return InputError(f"{document.where}: {title(document.raw)} is refused: {error.message}", hint=hint)


# all of them --------------------------------------------------------------------------------------------------------


def _turn(document: Document) -> int:
    kind = _text(document.raw.get("kind"))
    return FIRST.index(kind) if kind in FIRST else len(FIRST) + int(kind == LAST)


def _known(store: ClusterStore, raw: Raw) -> Kind | None:
    named = (raw.get("apiVersion"), raw.get("kind"))
    return next((kind for kind in store.kinds if (kind.resource.api_version, kind.resource.kind) == named), None)


def _refuse_repeated(documents: Sequence[Document]) -> None:
    seen: dict[Identity, str] = {}
    for document in documents:
        identity = _identity(document.raw)
        if identity[3] and identity in seen:
            raise InputError(
                f"{document.where}: {title(document.raw)} is given twice",
                hint=f"the other one is in {seen[identity]}; keep one",
            )
        seen[identity] = document.where


def _missing_namespaces(documents: Sequence[Document], there: set[str]) -> list[Document]:
    brought = {_text(_metadata(one.raw).get("name")) for one in documents if one.raw.get("kind") == NAMESPACES.kind}
    named = {_text(_metadata(one.raw).get("namespace")) for one in documents} - {""}
    return [
        Document("made", {"apiVersion": "v1", "kind": NAMESPACES.kind, "metadata": {"name": name}})
        for name in sorted(named - brought - there)
    ]


def _homeless(store: ClusterStore) -> tuple[str, ...]:
    nodes = {raw["metadata"]["name"] for raw in store.list(NODES).items}
    return tuple(sorted({raw["spec"].get("nodeName") or "" for raw in store.list(PODS).items} - nodes - {""}))


def words(filled: Filled) -> Iterator[str]:
    """What there is to say about it."""
    if filled.namespaces:
        yield f"made the namespaces that the files name: {listed(filled.namespaces)}"
    if filled.unknown:
        yield f"left alone, as the embedded cluster does not know them: {', '.join(filled.unknown)}"
    if filled.homeless:
        yield (
            f"pods are on nodes that do not exist, and go as they would in Kubernetes: {listed(filled.homeless)}; "
            "give the files that bring these nodes, too"
        )


def _identity(raw: Raw) -> Identity:
    """Empty at its end where it says no name."""
    meta = _metadata(raw)
    group = _text(raw.get("apiVersion")).rpartition("/")[0]
    return group, _text(raw.get("kind")), _text(_space(meta)), _text(meta.get("name"))


def _metadata(raw: Raw) -> Raw:
    found = raw.get("metadata")
    return found if isinstance(found, dict) else {}


def _space(meta: Raw) -> Any:
    return meta.get("namespace") or "default"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _moment(value: Any) -> datetime | None:
    return moment(value) if isinstance(value, str) else None

"""Reads a live cluster, for verbs that take one beside or instead of files.

Rule 1: memory holds only what a verb needs: objects come page by page, and the verb reduces each page.
Rule 2: a 404 means "not installed" only for kinds that muster's CRDs bring; for any other kind it is an error.
"""

import asyncio
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any, Protocol, TypeVar

from msgspec.structs import replace

from muster.api import codec
from muster.api.codec import Document
from muster.api.core import Pod
from muster.api.meta import ObjectMeta
from muster.api.names import LAST_APPLIED
from muster.api.objects import FIELDS, WATCHED_KINDS, Objects
from muster.api.resources import PODS, Resource
from muster.cli import printing
from muster.cli.assemble.clients import connect_reader
from muster.errors import InputError
from muster.grouping.eligibility import has_foreign_group
from muster.kube.cache.interning import PodInterner
from muster.kube.cluster import Cluster, Listing
from muster.kube.errors import ApiError
from muster.kube.listed_pod import ListedPod
from muster.kube.stored_object import EncodedObject
from muster.reporting.grouping import DEFAULT_SCHEDULER

T = TypeVar("T")
Reduce = Callable[[list[Document]], T]
ReducePage = Callable[[Resource, Listing], T]
PAGE = 500
QUIET_SECONDS = 5.0  # then a note says what the verb waits for
INSTALLED = {"PodGroup": "PodGroups", "Queue": "Queues", "Topology": "Topologies"}  # by `muster crds`


def objects(kubeconfig: str | None, context: str | None) -> Objects:
    """Everything that planning reads; pods without fields that no rule reads."""
    interner = PodInterner()

    def decode(resource: Resource, page: Listing) -> Objects:
        pods = _listed_pods(interner, page) if resource == PODS else ()
        if pods:
            return Objects(pods=pods)
        decoded = codec.objects(documents(resource, page))
        return replace(decoded, pods=tuple(_with_owners(interner.intern(pod), pod.metadata) for pod in decoded.pods))

    pages = list(chain.from_iterable(_read_pages(kubeconfig, context, decode).values()))
    kinds: dict[str, Any] = {
        field: tuple(chain.from_iterable(getattr(page, field) for page in pages)) for field in FIELDS.values()
    }
    return Objects(**kinds)


def _listed_pods(interner: PodInterner, page: Listing) -> tuple[Pod, ...]:
    """The pods of a page at little cost; none where they came as plain values, or one has fields of wrong types."""
    encoded = [stored.struct for stored in page.stored if isinstance(stored, EncodedObject) and stored.is_exact]
    listed = [pod for pod in encoded if isinstance(pod, ListedPod)]
    pods = [_with_owners(interned, pod.metadata) for pod in listed if (interned := interner.intern_listed(pod))]
    return tuple(pods) if len(pods) == len(page.stored) else ()


def _with_owners(interned: Pod, metadata: ObjectMeta) -> Pod:
    """With what grouping reads, unless Kubernetes' own scheduler places the pod, or its PodGroup is a user's."""
    if interned.spec.scheduler_name == DEFAULT_SCHEDULER or has_foreign_group(interned.metadata):
        return interned
    kept = {name: text for name, text in metadata.annotations.items() if name != LAST_APPLIED}
    with_owners = replace(interned.metadata, annotations=kept, owner_references=metadata.owner_references)
    return replace(interned, metadata=with_owners)


def read(kubeconfig: str | None, context: str | None, reduce: Reduce[T]) -> dict[Resource, list[T]]:
    """The reduced pages of each kind that planning reads. Notes on stderr name kinds that are not installed."""
    return _read_pages(kubeconfig, context, of_documents(reduce))


def _read_pages(kubeconfig: str | None, context: str | None, reduce: ReducePage[T]) -> dict[Resource, list[T]]:
    cluster = connect(kubeconfig, context)
    pages, missing = asyncio.run(_read(cluster, cluster.server, reduce))
    if missing:
        _note_missing(missing, kubeconfig, context)
    return pages


class LiveCluster(Cluster, Protocol):
    """A cluster behind an address."""

    server: str


def connect(kubeconfig: str | None, context: str | None) -> LiveCluster:
    """The cluster that the user names."""
    return connect_reader(kubeconfig, context)


def _note_missing(missing: list[Resource], kubeconfig: str | None, context: str | None) -> None:
    kinds = ", ".join(INSTALLED[resource.kind] for resource in missing)
    words = [
        "kubectl",
        *(["--kubeconfig", kubeconfig] if kubeconfig else []),
        *(["--context", context] if context else []),
    ]
    apply = f"{shlex.join(words)} apply --server-side -f -"  # names this cluster: the current context may be another
    printing.note(f"this cluster does not know {kinds}: `muster crds | {apply}` installs them")


async def _read(cluster: Cluster, server: str, reduce: ReducePage[T]) -> tuple[dict[Resource, list[T]], list[Resource]]:
    """The reduced pages by kind, and the kinds that are not installed."""
    pages: dict[Resource, list[T]] = {}
    missing: list[Resource] = []
    try:
        for resource in WATCHED_KINDS:
            try:
                with _note_after_silence(f"waiting for {server} to list {resource.plural}"):
                    pages[resource] = await _list_pages(cluster, resource, reduce)
            except ApiError as error:
                if error.status != 404 or resource.kind not in INSTALLED:
                    raise unreadable(error, server, resource) from error
                missing.append(resource)
    finally:
        await cluster.close()
    return pages, missing


@contextmanager
def _note_after_silence(text: str) -> Iterator[None]:
    """Print the note if the block takes long."""
    timer = asyncio.get_running_loop().call_later(QUIET_SECONDS, printing.note, text)
    try:
        yield
    finally:
        timer.cancel()


async def list_pages(cluster: Cluster, resource: Resource, reduce: Reduce[T]) -> list[T]:
    """The reduced pages of one kind."""
    return await _list_pages(cluster, resource, of_documents(reduce))


async def _list_pages(cluster: Cluster, resource: Resource, reduce: ReducePage[T]) -> list[T]:
    """List page by page; where the continue token expires on the way (410), list again in one piece."""
    pages: list[T] = []
    after = ""
    while True:
        try:
            page = await cluster.list(resource, limit=PAGE, after=after)
        except ApiError as error:
            if error.status != 410:
                raise
            pages.clear()
            page = await cluster.list(resource)
        pages.append(reduce(resource, page))
        after = page.more
        if not after:
            return pages


def of_documents(reduce: Reduce[T]) -> ReducePage[T]:
    """Reduces a page as those of files."""
    return lambda resource, page: reduce(documents(resource, page))


def documents(resource: Resource, page: Listing) -> list[Document]:
    """The objects of a page, as those of files."""
    typed = {"apiVersion": resource.api_version, "kind": resource.kind}
    return [Document(f"{resource.plural}/{raw['metadata']['name']}", {**typed, **raw}) for raw in page.items]


def unreadable(error: ApiError, server: str, resource: Resource) -> InputError:
    """The error for a kind that cannot be listed, with a hint."""
    if error.status == 404 and not resource.group:
        return InputError(
            f"{server} is not a Kubernetes API server: it does not know {resource.plural}",
            hint="check `server:` of the cluster in the kubeconfig, its path as well: `kubectl cluster-info`",
        )
    at = "" if server in error.message else f" of {server}"
    return InputError(f"cannot list {resource.plural}{at}: {error.message}", hint=_hint(error, resource))


def _hint(error: ApiError, resource: Resource) -> str:
    match error.status:
        case 401:
            return (
                "the server rejects the token or certificate: log in again, or choose another --context or --kubeconfig"
            )
        case 403:
            group = f".{resource.group}" if resource.group else ""
            return f"ask for the right to list {resource.plural}{group} in all namespaces"
        case 404:
            return f"every Kubernetes from 1.21 on has {resource.api_version}: `kubectl api-versions` shows what it has"
        case 503 if "not trusted" in error.message:
            return "`certificate-authority` of the cluster in the kubeconfig is wrong, out of date, or missing"
        case 503 | 504:
            return "check the address and that the cluster is up: `kubectl cluster-info`; or choose another --context"
        case _:
            return "`kubectl get` with the same kubeconfig shows more"

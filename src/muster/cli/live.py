"""A live cluster, which reading verbs take beside or instead of files.

Rule 1: what is not kept is not held: objects come page by page, and the verb says what it keeps of a page.
Rule 2: that nothing is there is believed only of a server that answers for every kind that each Kubernetes has.
"""

import asyncio
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any, TypeVar

from msgspec.structs import replace

from muster.api import codec
from muster.api.codec import Document
from muster.api.objects import FIELDS, WATCHED_KINDS, Objects
from muster.api.resources import Resource
from muster.cli import printing
from muster.cli.assemble.clients import connect_reader
from muster.errors import InputError
from muster.kube.cache.interning import PodInterner
from muster.kube.cluster import Cluster, Listing
from muster.kube.errors import ApiError

T = TypeVar("T")
Keep = Callable[[list[Document]], T]
PAGE = 500
QUIET_SECONDS = 5.0  # then whoever waits is told for what
INSTALLED = {"PodGroup": "PodGroups", "Queue": "Queues", "Topology": "Topologies"}  # by `muster crds`


def objects(kubeconfig: str | None, context: str | None) -> Objects:
    """Everything that planning reads; pods without what no rule reads."""
    interner = PodInterner()

    def small(page: list[Document]) -> Objects:
        found = codec.objects(page)
        return replace(found, pods=tuple(map(interner.intern, found.pods)))

    pages = list(chain.from_iterable(read(kubeconfig, context, small).values()))
    kinds: dict[str, Any] = {
        field: tuple(chain.from_iterable(getattr(page, field) for page in pages)) for field in FIELDS.values()
    }
    return Objects(**kinds)


def read(kubeconfig: str | None, context: str | None, keep: Keep[T]) -> dict[Resource, list[T]]:
    """What is kept of each page of each kind that planning reads. Kinds that are not installed are told on stderr."""
    cluster = connect_reader(kubeconfig, context)
    found, missing = asyncio.run(_read(cluster, cluster.server, keep))
    if missing:
        _note_missing(missing, kubeconfig, context)
    return found


def _note_missing(missing: list[Resource], kubeconfig: str | None, context: str | None) -> None:
    kinds = ", ".join(INSTALLED[resource.kind] for resource in missing)
    words = [
        "kubectl",
        *(["--kubeconfig", kubeconfig] if kubeconfig else []),
        *(["--context", context] if context else []),
    ]
    apply = f"{shlex.join(words)} apply --server-side -f -"  # into this cluster, which may not be the current one
    printing.note(f"this cluster does not know {kinds}: `muster crds | {apply}` installs them")


async def _read(cluster: Cluster, server: str, keep: Keep[T]) -> tuple[dict[Resource, list[T]], list[Resource]]:
    """What is kept by kind, and the kinds that are not installed."""
    found: dict[Resource, list[T]] = {}
    missing: list[Resource] = []
    try:
        for resource in WATCHED_KINDS:
            try:
                with _told(f"waiting for {server} to list {resource.plural}"):
                    found[resource] = await _kind(cluster, resource, keep)
            except ApiError as error:
                if error.status != 404 or resource.kind not in INSTALLED:
                    raise _unreadable(error, server, resource) from error
                missing.append(resource)
    finally:
        await cluster.close()
    return found, missing


@contextmanager
def _told(text: str) -> Iterator[None]:
    """A note, should this take long."""
    timer = asyncio.get_running_loop().call_later(QUIET_SECONDS, printing.note, text)
    try:
        yield
    finally:
        timer.cancel()


async def _kind(cluster: Cluster, resource: Resource, keep: Keep[T]) -> list[T]:
    """Page by page; where pages grow too old on the way, what was kept is dropped, and all is read in one piece."""
    kept: list[T] = []
    after = ""
    while True:
        try:
            page = await cluster.list(resource, limit=PAGE, after=after)
        except ApiError as error:
            if error.status != 410:
                raise
            kept.clear()
            page = await cluster.list(resource)
        kept.append(keep(_documents(resource, page)))
        after = page.more
        if not after:
            return kept


def _documents(resource: Resource, page: Listing) -> list[Document]:
    typed = {"apiVersion": resource.api_version, "kind": resource.kind}
    return [Document(f"{resource.plural}/{raw['metadata']['name']}", {**typed, **raw}) for raw in page.items]


def _unreadable(error: ApiError, server: str, resource: Resource) -> InputError:
    """What is wrong, and a way out."""
    if error.status == 404 and not resource.group:
        return InputError(
            f"{server} is not a Kubernetes API server: it does not know {resource.plural}",
            hint="check `server:` of the cluster in the kubeconfig, its path as well: `kubectl cluster-info`",
        )
    at = "" if server in error.message else f" of {server}"
    return InputError(f"cannot list {resource.plural}{at}: {error.message}", hint=_way_out(error, resource))


def _way_out(error: ApiError, resource: Resource) -> str:
    match error.status:
        case 401:
            return "its token or certificate is not accepted: log in again, or choose another --context or --kubeconfig"
        case 403:
            group = f".{resource.group}" if resource.group else ""
            return f"ask for the right to list {resource.plural}{group} in all namespaces"
        case 404:
            return f"every Kubernetes from 1.21 on has {resource.api_version}: `kubectl api-versions` shows what it has"
        case 503 if "not trusted" in error.message:
            return "`certificate-authority` of the cluster in the kubeconfig is another's, out of date, or missing"
        case 503 | 504:
            return (
                "see that the cluster is up and its address right: `kubectl cluster-info`, or choose another --context"
            )
        case _:
            return "`kubectl get` with the same kubeconfig tells more"

"""What deploy/manifests installs, on a real API server without nodes: the Service leads to a port of this machine.

The API server resolves the webhook's Service itself, and expects a certificate made out to the Service's name. Nothing
routes to a ClusterIP here, so the Service is an ExternalName, and the webhook configuration names the port.
"""

import asyncio
import http.client
import re
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import yaml

from muster.api.resources import NAMESPACES, SECRETS, SERVICES, Resource
from muster.kube.cluster import Cluster, Raw
from muster.kube.errors import ApiError
from muster.webhook.certificates.certificate_rotation import CONFIGURATIONS
from tests.support.apiserver.apiserver import ADMIN, ApiServer

MANIFESTS = Path(__file__).parents[2] / "deploy" / "manifests"
HOME = "muster-system"
APPLY: Any = "application/apply-patch+yaml"


def manifests(name: str) -> list[Raw]:
    """The objects of one file."""
    return list(yaml.safe_load_all((MANIFESTS / name).read_text(encoding="utf-8")))


async def put(cluster: Cluster, resource: Resource, raw: Raw) -> Raw:
    """There, and as it says, whatever was there before."""
    meta = raw["metadata"]
    return await cluster.patch(resource, meta.get("namespace", ""), meta["name"], raw, kind=APPLY, force=True)


def local_service() -> Raw:
    meta = {"name": "muster-webhook", "namespace": HOME}
    spec = {"type": "ExternalName", "externalName": "127.0.0.1"}
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}


@asynccontextmanager
async def registered(cluster: Cluster, port: int, *, converting: bool = False) -> AsyncIterator[None]:
    """The webhook configurations of the manifests, our namespace, the Service and the empty Secret; gone afterwards."""
    await put(cluster, NAMESPACES, manifests("00-namespace.yaml")[0])
    await gone(cluster, SECRETS, HOME, "muster-webhook-certificates")
    await put(cluster, SECRETS, next(raw for raw in manifests("30-config.yaml") if raw["kind"] == "Secret"))
    await put(cluster, SERVICES, local_service())
    files = ("60-webhook.yaml", "70-grove-webhook.yaml", *(("optional/conversion.yaml",) if converting else ()))
    kinds = {resource.kind: resource for resource in CONFIGURATIONS}
    for raw in (raw for name in files for raw in manifests(name)):
        for hook in raw["webhooks"]:
            hook["clientConfig"]["service"]["port"] = port
        await put(cluster, kinds[raw["kind"]], raw)
    try:
        yield
    finally:
        await unregister(cluster)


async def unregister(cluster: Cluster) -> None:
    """No webhook of ours is asked any more."""
    for resource in CONFIGURATIONS:
        for name in ("muster", "muster-grove", "muster-pods"):
            await gone(cluster, resource, "", name)


async def gone(cluster: Cluster, resource: Resource, namespace: str, name: str) -> None:
    """Not there any more, if it ever was."""
    try:
        await cluster.delete(resource, namespace, name, grace_seconds=0)
    except ApiError as error:
        if error.status != 404:
            raise


class Response(NamedTuple):
    """What a client receives."""

    status: int
    warnings: list[str]
    json: Raw

    @property
    def message(self) -> str:
        return str(self.json.get("message", ""))


async def ask(
    apiserver: ApiServer, method: str, path: str, raw: Any = None, media: str = "application/json", user: str = ""
) -> Response:
    """As the administrator, or as a user with all rights; beside the loop, in which the webhook may run."""
    return await asyncio.to_thread(_ask, apiserver, method, path, raw, media, user)


def _ask(apiserver: ApiServer, method: str, path: str, raw: Any, media: str, user: str) -> Response:
    trust = ssl.create_default_context(cafile=str(apiserver.folder / "ca.crt"))
    connection = http.client.HTTPSConnection("127.0.0.1", apiserver.port, context=trust, timeout=30)
    try:
        body = None if raw is None else msgspec.json.encode(raw)
        headers = {"Authorization": f"Bearer {ADMIN}", "Content-Type": media}
        headers |= {"Impersonate-User": user, "Impersonate-Group": "system:masters"} if user else {}
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        warnings = [_text(warning) for warning in answer.headers.get_all("Warning") or ()]
        return Response(answer.status, warnings, msgspec.json.decode(answer.read()))
    finally:
        connection.close()


def _text(warning: str) -> str:
    """Of `299 - "text"`, which is UTF-8 whatever HTTP says."""
    quoted = re.fullmatch(r'299 - "(.*)"', warning.encode("latin-1").decode())
    assert quoted, warning
    return quoted[1].replace('\\"', '"')


async def until(holds: Callable[[], Awaitable[bool]], seconds: float = 60.0) -> None:
    for _ in range(int(seconds / 0.1)):
        if await holds():
            return
        await asyncio.sleep(0.1)
    raise AssertionError("waited in vain")


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port

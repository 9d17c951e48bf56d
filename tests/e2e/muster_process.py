"""`muster run` as a process with nothing but a token of the account that deploy/manifests installs."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import yaml

from muster.api.resources import LEASES, SECRETS, Resource
from muster.kube.cluster import Cluster, Raw
from tests.e2e.installed import HOME, ask, free_port, gone, local_service, manifests, put, unregister
from tests.support.apiserver.apiserver import ApiServer

FILES = (
    "00-namespace",
    "10-crds",
    "15-grove-crds",
    "20-rbac",
    "30-config",
    "40-service",
    "45-networkpolicy",
    "50-deployment",
    "60-webhook",
    "70-grove-webhook",
)
OPTIONS = ("optional/conversion", "optional/grouping")  # webhook configurations that muster updates


def resource_of(raw: Raw) -> Resource:
    """Of whatever the manifests hold: all of them have regular plurals."""
    group, _, version = raw["apiVersion"].rpartition("/")
    plural = f"{raw['kind'].lower()}s".replace("ys", "ies")
    return Resource(group, version, plural, raw["kind"], "namespace" in raw["metadata"])


def installed_objects(without: str = "") -> list[Raw]:
    return [raw for name in (*FILES, *OPTIONS) if name != without for raw in manifests(f"{name}.yaml")]


@asynccontextmanager
async def installed(cluster: Cluster, webhook_port: int, without: str = "") -> AsyncIterator[None]:
    """Every manifest, or all but one, for the first time; but for the Service, which leads to this machine."""
    await gone(cluster, LEASES, HOME, "muster")
    await gone(cluster, SECRETS, HOME, "muster-webhook-certificates")
    raws = [raw for raw in installed_objects(without) if raw["kind"] != "Service"] + [local_service()]
    for raw in raws:
        for hook in raw.get("webhooks", ()):
            hook["clientConfig"]["service"]["port"] = webhook_port
        await put(cluster, resource_of(raw), raw)
    try:
        yield
    finally:
        await unregister(cluster)


def configuration(webhook_port: int, *schedulers: str) -> str:
    """As installed, on other ports, with scheduler names of its own, and the options that need rights."""
    (raw,) = [each for each in manifests("30-config.yaml") if each["kind"] == "ConfigMap"]
    settings: Raw = yaml.safe_load(raw["data"]["config.yaml"])
    settings["scheduling"]["schedulerNames"] = list(schedulers)
    settings["webhook"] |= {"host": "127.0.0.1", "port": webhook_port, "convertOlderDialects": True, "groupPods": True}
    settings["grouping"]["emptySeconds"] = 1
    settings["observability"] |= {"host": "127.0.0.1", "port": free_port()}
    return yaml.safe_dump(settings)


async def token(apiserver: ApiServer, account: str = "muster") -> str:
    """Of muster's account, or of another one, as a kubelet asks for it."""
    path = f"/api/v1/namespaces/{HOME}/serviceaccounts/{account}/token"
    wanted = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    reply = await ask(apiserver, "POST", path, wanted)
    assert reply.status == 201, reply.message
    return str(reply.json["status"]["token"])


def kubeconfig(apiserver: ApiServer, secret: str) -> str:
    cluster = {"server": apiserver.url, "certificate-authority": str(apiserver.folder / "ca.crt")}
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": secret}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
    )


@asynccontextmanager
async def muster_run(folder: Path, settings: str, access: str) -> AsyncIterator[Path]:
    """A process with nothing but a token; its log, which is whole when this is left."""
    (folder / "config.yaml").write_text(settings, encoding="utf-8")
    (folder / "kubeconfig").write_text(access, encoding="utf-8")
    files = ["--config", str(folder / "config.yaml"), "--kubeconfig", str(folder / "kubeconfig")]
    log = folder / "log"
    with log.open("wb") as stream:
        process = subprocess.Popen([sys.executable, "-m", "muster.cli.main", "run", *files], stderr=stream)
        try:
            yield log
        finally:
            process.terminate()
            try:
                await asyncio.to_thread(process.wait, 30)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
    assert process.returncode == 0, log.read_text(encoding="utf-8")[-2000:]

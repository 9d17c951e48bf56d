"""Certificates on a real API server: what the user brings and gets wrong, and manifests that are applied again."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from muster.api.resources import NAMESPACES
from muster.config.settings import Certificates
from muster.kube.client.client import connect
from muster.kube.cluster import Cluster, Raw
from muster.kube.errors import ApiError
from muster.webhook.certificates.certificate_bundle import Bundle, issue
from muster.webhook.certificates.certificate_rotation import CONFIGURATIONS
from muster.webhook.certificates.certificate_sources import FILES
from tests.e2e.installed import APPLY, ask, free_port, manifests, put, registered, until
from tests.e2e.test_webhook import INVALID, bundles, tried
from tests.support.apiserver.apiserver import ApiServer


@pytest.fixture
async def cluster(apiserver: ApiServer) -> AsyncIterator[Cluster]:
    client = connect(apiserver.kubeconfig)
    await put(client, NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "webhook"}})
    yield client
    await client.close()


def bring(folder: Path, bundle: Bundle) -> None:
    for field in ("certificate", "key", "authority"):
        (folder / FILES[field]).write_bytes(getattr(bundle, field))


def made(days_ago: int = 0, service_name: str = "muster-webhook") -> Bundle:
    return issue(Certificates(service_name=service_name), datetime.now(UTC) - timedelta(days=days_ago))


class Muster:
    """`muster run` as a process of its own, that looks at the files every second."""

    def __init__(self, apiserver: ApiServer, folder: Path, **webhook: Any) -> None:
        self.port, self.seen = free_port(), free_port()
        self.log = folder / "log"
        shown = {"source": "files", "folder": str(folder), "checkSeconds": 1}
        settings = {
            "webhook": {"host": "127.0.0.1", "port": self.port, "timeoutSeconds": 10, "certificates": shown, **webhook},
            "observability": {"host": "127.0.0.1", "port": self.seen},
            "scheduling": {"schedulerNames": ["certificates"], "namespaces": ["nowhere"]},
            "leaderElection": {"leaseName": "certificates"},
        }
        (folder / "config.yaml").write_bytes(msgspec.json.encode(settings))
        command = [sys.executable, "-m", "muster.cli.main", "run", "--config", str(folder / "config.yaml")]
        self._command = [*command, "--kubeconfig", str(apiserver.kubeconfig)]

    @contextmanager
    def running(self) -> Iterator[None]:
        with self.log.open("wb") as log, subprocess.Popen(self._command, stderr=log) as process:
            try:
                yield
            except AssertionError as error:
                error.add_note(self.log.read_text(encoding="utf-8")[-2000:])
                raise
            finally:
                process.kill()

    async def ready(self) -> str:
        """What `/readyz/certificate` says; nothing while the server does not answer."""
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.seen)
            writer.write(b"GET /readyz/certificate HTTP/1.1\r\nhost: muster\r\nconnection: close\r\n\r\n")
            reply = await reader.read()
            writer.close()
        except OSError:
            return ""
        return reply.partition(b"\r\n\r\n")[2].decode().strip()

    async def says(self, words: str) -> bool:
        """Whether `/readyz/certificate` says so, or has these words in it."""
        text = await self.ready()
        return text == words or (len(words) > len("ok") and words in text)

    async def logs(self, *words: str) -> None:
        """Until the log has a warning with these words."""

        async def is_logged() -> bool:
            lines = [line for line in self.log.read_text(encoding="utf-8").splitlines() if '"warning"' in line]
            return any(all(word in line for word in words) for line in lines)

        await until(is_logged)


async def trusted(apiserver: ApiServer) -> bool:
    return "denied the request" in (await ask(apiserver, *tried(INVALID))).message


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda good: replace(good, authority=b"rubbish"), ("ca.crt: holds no certificate",)),
        (lambda _: replace(made(), authority=made().authority), ("tls.crt: is not signed by",)),
        (lambda _: made(service_name="another"), ("the old one stays", "`another.muster-system.svc`")),
        (lambda _: made(days_ago=-2), ("the old one stays", "it is not valid before")),
    ],
    ids=["rubbish", "another authority", "another name", "not yet"],
)
async def test_what_the_user_gets_wrong_changes_nothing(
    apiserver: ApiServer, cluster: Cluster, tmp_path: Path, wrong: Any, words: tuple[str, ...]
) -> None:
    """The API server goes on to trust the webhook; the log says what is wrong; what is right later on is taken."""
    good, muster = made(), Muster(apiserver, tmp_path)
    bring(tmp_path, good)
    async with registered(cluster, muster.port):
        with muster.running():
            await until(lambda: trusted(apiserver))
            before = await bundles(cluster)
            bring(tmp_path, wrong(good))
            await muster.logs(*words)
            await asyncio.sleep(1.5)
            assert await bundles(cluster) == before
            assert await trusted(apiserver)
            assert await muster.says("ok")
            bring(tmp_path, made())

            async def changed() -> bool:
                return await bundles(cluster) != before

            await until(changed)
            await until(lambda: trusted(apiserver))


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"service_name": "another"}, "not to `muster-webhook.muster-system.svc`; bring one that is"),
        ({"days_ago": -2}, "it is not valid before"),
        ({"days_ago": 100}, "it expired at"),
    ],
    ids=["another name", "not yet", "no more"],
)
async def test_a_certificate_that_the_api_server_rejects_is_not_ready(
    apiserver: ApiServer, cluster: Cluster, tmp_path: Path, wrong: Any, problem: str
) -> None:
    """The API server says no, and so do `/readyz` and the log; with a good one all of them agree again."""
    muster = Muster(apiserver, tmp_path)
    bring(tmp_path, made(**wrong))
    async with registered(cluster, muster.port):
        with muster.running():
            await muster.logs("the API server rejects the certificate", problem)
            await until(lambda: muster.says(problem))
            reply = await ask(apiserver, *tried(INVALID))
            assert "failed calling webhook" in reply.message
            bring(tmp_path, made())
            await until(lambda: trusted(apiserver))
            await until(lambda: muster.says("ok"))


async def test_manifests_are_applied_again_without_a_conflict(
    apiserver: ApiServer, cluster: Cluster, tmp_path: Path
) -> None:
    """What muster writes is in no manifest, and applying that again, by force or not, changes nothing of it."""
    muster = Muster(apiserver, tmp_path, failurePolicy="Ignore")
    bring(tmp_path, made())

    async def hook() -> Raw:
        (webhook,) = (await cluster.get(CONFIGURATIONS[0], "", "muster"))["webhooks"]
        return {
            "failurePolicy": webhook["failurePolicy"],
            "timeoutSeconds": webhook["timeoutSeconds"],
            "caBundle": webhook["clientConfig"].get("caBundle", ""),
        }

    async with registered(cluster, muster.port):
        assert await hook() == {"failurePolicy": "Fail", "timeoutSeconds": 10, "caBundle": ""}, "nothing passes yet"
        with muster.running():
            await until(lambda: trusted(apiserver))
        before = await hook()
        assert (before["failurePolicy"], bool(before["caBundle"])) == ("Ignore", True)
        (manifest,) = manifests("60-webhook.yaml")
        manifest["webhooks"][0]["clientConfig"]["service"]["port"] = muster.port
        for force in (False, True):
            await cluster.patch(CONFIGURATIONS[0], "", "muster", manifest, kind=APPLY, force=force)
            assert await hook() == before
        manifest["webhooks"][0]["failurePolicy"] = "Fail"
        with pytest.raises(ApiError, match="conflict"):  # as it was, while both wrote it
            await cluster.patch(CONFIGURATIONS[0], "", "muster", manifest, kind=APPLY, force=False)

"""`python -m bench.large [PODS] [NODES]`: a start, verbs and a snapshot among very many pods.

Another process serves the objects from memory: pods of 5 kB as API servers return them, two containers each, in gangs
of eight that run, on nodes of eight GPUs. So the figures are muster's own: the CPU seconds of `muster run` until it is
ready, with grouper and operator, and of verbs that read the whole cluster, and how long it takes to build a snapshot
after eight pods have changed. Modules are compiled before, as they are in an image.
"""

import asyncio
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import msgspec
import yaml
from tests.e2e.installed import free_port

from bench.cluster import GANG, NAMESPACE, node_name, numbered_node, say
from bench.live import cpu_seconds, peak_bytes
from muster.api.core import Node, Pod
from muster.api.podgroup import PodGroup
from muster.api.resources import POD_GROUPS
from muster.kube.cache.cache import Cache
from muster.kube.cache.reflector import ObjectUpdated
from muster.kube.cluster import Raw
from muster.kube.listed_pod import ListedPod
from muster.kube.stored_object import encode_object

CHANGED, SNAPSHOTS = 8, 9
LONGEST_SECONDS = 300.0
LOOK_SECONDS = 0.1  # each look costs muster an answer
VERBS = (("plan",), ("topology",))
SENT = re.compile(rb"(?i)\r\ncontent-length: *([0-9]+)")


# objects --------------------------------------------------------------------------------------------------------------


def stored_pod(number: int, nodes: int, version: int = 1) -> Raw:
    """A pod that runs, as an API server returns it."""
    gang, name, access = f"gang-{number // GANG:06}", f"pod-{number:06}", f"kube-api-access-{number:05x}"
    labels = {"app": gang, "apps.kubernetes.io/pod-index": str(number % GANG), "controller-revision-hash": "6f9c4"}
    meta = {
        "name": name,
        "namespace": NAMESPACE,
        "uid": f"00000000-0000-4000-8000-{number:012x}",
        "resourceVersion": str(number + version),
        "creationTimestamp": "2026-01-31T12:00:00Z",
        "labels": labels,
        "annotations": {"pod-group-name": gang, "example.com/checksum": "3b5d5c3712955042212316173ccf37be" * 2},
        "managedFields": [managed_fields(manager) for manager in ("kube-controller-manager", "muster", "kubelet")],
    }
    token = {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}
    volumes = [{"name": access, "projected": {"sources": [token], "defaultMode": 420}}, {"name": "shm", "emptyDir": {}}]
    node = node_name(number // GANG % nodes)
    spec = {
        "volumes": volumes,
        "containers": [container("main", access), container("sidecar", access)],
        "restartPolicy": "Always",
        "schedulerName": "muster",
        "nodeName": node,
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "priority": 0,
    }
    kinds = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    conditions = [{"type": kind, "status": "True", "lastTransitionTime": "2026-01-31T12:00:09Z"} for kind in kinds]
    status = {"phase": "Running", "conditions": conditions, "podIP": f"10.0.{number // 256 % 256}.{number % 256}"}
    return {"metadata": meta, "spec": spec, "status": status}


def container(name: str, access: str) -> Raw:
    requests = {"cpu": "1", "memory": "8Gi"} | ({"nvidia.com/gpu": "1"} if name == "main" else {})
    mount = {"name": access, "readOnly": True, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
    return {
        "name": name,
        "image": f"registry.example.com/team/{name}@sha256:{'0' * 64}",
        "command": ["/usr/bin/serve", "--model", "/models/large", "--port", "8000"],
        "env": [{"name": f"SETTING_{i}", "value": f"value of setting number {i}"} for i in range(8)],
        "resources": {"requests": requests, "limits": requests},
        "volumeMounts": [mount, {"name": "shm", "mountPath": "/dev/shm"}],
        "livenessProbe": {"httpGet": {"path": "/health", "port": 8000, "scheme": "HTTP"}, "periodSeconds": 10},
        "imagePullPolicy": "IfNotPresent",
    }


def managed_fields(manager: str) -> Raw:
    fields: Raw = {f"f:field{i}": {".": {}, "f:inner": {}} for i in range(8)}
    entry = {"manager": manager, "operation": "Update", "apiVersion": "v1", "time": "2026-01-31T12:00:00Z"}
    return {**entry, "fieldsType": "FieldsV1", "fieldsV1": {"f:metadata": fields}}


def group(number: int) -> Raw:
    meta = {"name": f"gang-{number:06}", "namespace": NAMESPACE, "uid": f"g{number}", "resourceVersion": "1"}
    kind = {"apiVersion": POD_GROUPS.api_version, "kind": POD_GROUPS.kind}
    return {**kind, "metadata": meta, "spec": {"minMember": GANG}}


def stored_node(number: int) -> Raw:
    raw = numbered_node(number, GANG)
    ready = [{"type": "Ready", "status": "True"}]
    meta = {**raw["metadata"], "uid": f"n{number}", "resourceVersion": "1"}
    return {**raw, "metadata": meta, "status": {**raw["status"], "conditions": ready}}


# the server -----------------------------------------------------------------------------------------------------------


class MemoryServer:
    """Lists in pages, and watches on which nothing happens."""

    def __init__(self, pods: int, nodes: int) -> None:
        self._items: dict[str, Sequence[bytes]] = {
            "pods": [msgspec.json.encode(stored_pod(i, nodes)) for i in range(pods)],
            "nodes": [msgspec.json.encode(stored_node(i)) for i in range(nodes)],
            "podgroups": [msgspec.json.encode(group(i)) for i in range(pods // GANG)],
        }

    async def serve(self, port: int) -> None:
        server = await asyncio.start_server(self._answer, "127.0.0.1", port)
        print("ready", flush=True)
        await server.serve_forever()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                if sent := SENT.search(head):
                    await reader.readexactly(int(sent[1]))
                target = urlsplit(head.split(b" ", 2)[1].decode())
                query = {name: values[0] for name, values in parse_qs(target.query).items()}
                if query.get("watch"):
                    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                    await reader.read()
                    return
                body = self._body(target.path, query)
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                await writer.drain()

    def _body(self, path: str, query: dict[str, str]) -> bytes:
        if path == "/version":
            return b'{"major":"1","minor":"36"}'
        items = self._items.get(path.rpartition("/")[2], ())
        first, limit = int(query.get("continue", "0")), int(query.get("limit", "0")) or len(items)
        last = first + limit
        more = b',"continue":"%d"' % last if last < len(items) else b""
        return b'{"metadata":{"resourceVersion":"1"%s},"items":[%s]}' % (more, b",".join(items[first:last]))


@contextmanager
def memory_server(pods: int, nodes: int) -> Iterator[Path]:
    """The kubeconfig of a server in a process of its own."""
    port = free_port()
    command = [sys.executable, "-m", "bench.large", "serve", str(pods), str(nodes), str(port)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"ready\n"
        with tempfile.TemporaryDirectory() as folder:
            kubeconfig = Path(folder) / "kubeconfig"
            server = {"name": "large", "cluster": {"server": f"http://127.0.0.1:{port}"}}
            context = {"name": "large", "context": {"cluster": "large", "user": ""}}
            config = {"clusters": [server], "contexts": [context], "current-context": "large"}
            kubeconfig.write_text(yaml.safe_dump(config), encoding="utf-8")
            yield kubeconfig
    finally:
        process.kill()
        process.wait()


# measuring ------------------------------------------------------------------------------------------------------------


def start(kubeconfig: Path) -> tuple[float, float, int]:
    """CPU seconds and seconds of `muster run` until it is ready, and its memory then."""
    port = free_port()
    config = kubeconfig.with_name("config.yaml")
    observability = {"host": "127.0.0.1", "port": port}
    settings = {"webhook": {"enabled": False}, "leaderElection": {"enabled": False}, "observability": observability}
    settings |= {"log": {"level": "error"}}
    config.write_text(yaml.safe_dump(settings), encoding="utf-8")
    command = [*muster("run"), "--config", str(config), "--kubeconfig", str(kubeconfig)]
    began, process = time.monotonic(), subprocess.Popen(command, env=environment(kubeconfig))
    try:
        while not is_ready(port):
            assert process.poll() is None, "muster has ended"
            assert time.monotonic() - began < LONGEST_SECONDS, "muster is not ready"
            time.sleep(LOOK_SECONDS)
        return cpu_seconds(process.pid), time.monotonic() - began, peak_bytes(process.pid)
    finally:
        process.kill()
        process.wait()


def is_ready(port: int) -> bool:
    with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=10) as answer:
        return bool(answer.status == 200)
    return False


def muster(verb: str) -> list[str]:
    return [sys.executable, *os.environ.get("MUSTER_PYTHON", "").split(), "-m", "muster.cli.main", verb]


def environment(kubeconfig: Path) -> dict[str, str]:
    """Processes find modules that are compiled beside the kubeconfig."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": str(kubeconfig.with_name("compiled"))}


def compile_modules(kubeconfig: Path) -> None:
    """Import what the verbs need once."""
    for verb in ("run", *(verb[0] for verb in VERBS)):
        subprocess.run([*muster(verb), "--help"], check=True, stdout=subprocess.DEVNULL, env=environment(kubeconfig))


def verb_cpu(kubeconfig: Path, verb: Sequence[str]) -> float:
    """CPU seconds of one verb."""
    before = os.times()
    command = [*muster(verb[0]), *verb[1:], "--kubeconfig", str(kubeconfig)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment(kubeconfig))
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def snapshot_seconds(pods: int, nodes: int) -> float:
    """CPU seconds of a snapshot after a few pods have changed, as a median."""
    cache, now = Cache(), datetime.now(UTC)
    for i in range(nodes):
        cache.handle(Node, ObjectUpdated(stored_node(i)))
    for i in range(pods // GANG):
        cache.handle(PodGroup, ObjectUpdated(group(i)))
    for i in range(pods):
        cache.handle(Pod, changed(stored_pod(i, nodes)))
    cache.snapshot(now)
    taken = []
    for version in range(SNAPSHOTS):
        for i in range(CHANGED):
            raw = stored_pod(i * (pods // CHANGED), nodes, 2 + version)
            raw["metadata"]["labels"]["changed"] = str(version)
            cache.handle(Pod, changed(raw))
        began = time.process_time()
        cache.snapshot(now)
        taken.append(time.process_time() - began)
    return statistics.median(taken)


def changed(raw: Raw) -> ObjectUpdated:
    return ObjectUpdated(encode_object(msgspec.json.encode(raw), struct=ListedPod))


def main(pods: int, nodes: int) -> None:
    say(f"{pods:,} pods of {len(msgspec.json.encode(stored_pod(0, nodes))):,} bytes on {nodes:,} nodes")
    verb_names = " | ".join(f"`muster {verb[0]}`, CPU" for verb in VERBS)
    print(f"| pods | nodes | ready: CPU, clock, RSS | {verb_names} | snapshot after {CHANGED} changes |")
    print("|" + "---:|" * (4 + len(VERBS)))
    with memory_server(pods, nodes) as kubeconfig:
        compile_modules(kubeconfig)
        cpu, clock, memory = start(kubeconfig)
        say(f"ready after {cpu:.1f} s of CPU, {clock:.1f} s")
        verbs = [verb_cpu(kubeconfig, verb) for verb in VERBS]
    ready = f"{cpu:.1f} s, {clock:.1f} s, {memory / 2**20:,.0f} MiB"
    shown = " | ".join(f"{seconds:.1f} s" for seconds in verbs)
    print(f"| {pods:,} | {nodes:,} | {ready} | {shown} | {1000 * snapshot_seconds(pods, nodes):.1f} ms |")


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        asyncio.run(MemoryServer(int(sys.argv[2]), int(sys.argv[3])).serve(int(sys.argv[4])))
    else:
        arguments = [int(text) for text in sys.argv[1:]]
        main(*arguments, *(100_000, 12_500)[len(arguments) :])

"""`python -m bench.bare_client KUBECONFIG SCHEDULER AT_ONCE`: binds waiting pods of a scheduler, and nothing else.

The yardstick of `bench.live`: bytes on TLS connections that are open already, one request after the other on each;
nothing is watched, planned, retried or reported. It lists pods and nodes, prints `ready`, and begins with a line on its
standard input. The n-th pod goes to the n-th node, around and around.
"""

import asyncio
import ssl
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import yaml

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class ApiAddress(msgspec.Struct, frozen=True):
    """Where the API server is, and how to reach it with a client certificate."""

    host: str
    port: int
    tls: ssl.SSLContext


def read_kubeconfig(path: Path) -> ApiAddress:
    """Of the first cluster and the first user; files are beside the kubeconfig."""
    raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    cluster, user = raw["clusters"][0]["cluster"], raw["users"][0]["user"]
    tls = ssl.create_default_context(cafile=str(path.parent / cluster["certificate-authority"]))
    tls.load_cert_chain(path.parent / user["client-certificate"], path.parent / user["client-key"])
    url = urlsplit(cluster["server"])
    assert url.hostname is not None
    assert url.port is not None
    return ApiAddress(url.hostname, url.port, tls)


async def request(connection: Connection, address: ApiAddress, method: str, path: str, body: bytes = b"") -> bytes:
    """The body of the answer; AssertionError where it is no success."""
    reader, writer = connection
    head = f"{method} {path} HTTP/1.1\r\nHost: {address.host}\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    lines = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
    headers = {name.lower(): text.strip() for name, _, text in (line.partition(b":") for line in lines[1:])}
    if headers.get(b"transfer-encoding") == b"chunked":
        answer = b"".join([chunk async for chunk in _chunks(reader)])
    else:
        answer = await reader.readexactly(int(headers[b"content-length"]))
    assert lines[0].split()[1].startswith(b"2"), answer[:500]
    return answer


async def _chunks(reader: asyncio.StreamReader):  # type: ignore[no-untyped-def]
    while size := int(await reader.readline(), 16):
        yield await reader.readexactly(size)
        await reader.readline()
    await reader.readline()


def bindings(pods: list[dict[str, dict[str, str]]], nodes: list[str]) -> Iterator[tuple[str, bytes]]:
    """Path and body of each binding."""
    for number, pod in enumerate(pods):
        meta = {name: pod["metadata"][name] for name in ("namespace", "name", "uid")}
        target = {"apiVersion": "v1", "kind": "Node", "name": nodes[number % len(nodes)]}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target}
        yield f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/binding", msgspec.json.encode(body)


async def main(kubeconfig: Path, scheduler: str, at_once: int) -> None:
    address = read_kubeconfig(kubeconfig)
    connections = [await asyncio.open_connection(address.host, address.port, ssl=address.tls) for _ in range(at_once)]
    selected = f"fieldSelector=spec.schedulerName%3D{scheduler},spec.nodeName%3D"
    pods = msgspec.json.decode(await request(connections[0], address, "GET", f"/api/v1/pods?{selected}"))["items"]
    nodes = msgspec.json.decode(await request(connections[0], address, "GET", "/api/v1/nodes"))["items"]
    line = iter(list(bindings(pods, [node["metadata"]["name"] for node in nodes])))
    for connection in connections[1:]:
        await request(connection, address, "GET", "/livez")

    async def post(connection: Connection) -> None:
        for path, body in line:
            await request(connection, address, "POST", path, body)

    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    began, cpu = time.monotonic(), time.process_time()
    await asyncio.gather(*map(post, connections))
    print(msgspec.json.encode([time.monotonic() - began, time.process_time() - cpu]).decode(), flush=True)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))

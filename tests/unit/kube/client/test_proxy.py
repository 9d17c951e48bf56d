"""Proxies as Go reads them from the environment (golang.org/x/net/http/httpproxy), and so kubectl."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from muster.embedded import tls
from muster.kube.client.credentials import Access, Credentials
from muster.kube.client.http import Http, Limits, Request
from muster.kube.client.proxy import find_proxy, redact_proxy
from muster.kube.errors import Unanswered

PROXY = "http://proxy.test:3128"


@pytest.mark.parametrize(
    ("server", "no_proxy", "direct"),
    [
        # everything
        ("https://api.test", "*", True),
        ("https://10.1.2.3", "other.test, *", True),
        ("https://api.test", "", False),
        ("https://api.test", " , ,", False),
        # networks
        ("https://10.1.2.3:6443", "10.0.0.0/8", True),
        ("https://10.1.2.3:6443", "192.168.0.0/16,10.1.2.3/8", True),
        ("https://11.1.2.3:6443", "10.0.0.0/8", False),
        ("https://[fd00::1]:6443", "fd00::/8", True),
        ("https://[fe80::1]:6443", "fd00::/8", False),
        ("https://[::ffff:10.1.2.3]", "10.0.0.0/8", True),
        ("https://10.1.2.3", "10.0.0.0/255.0.0.0", False),
        ("https://10.1.2.3", "10.0.0.0/99", False),
        ("https://ten.test", "10.0.0.0/8", False),
        # addresses
        ("https://10.1.2.3", "10.1.2.3", True),
        ("https://10.1.2.3:6443", "10.1.2.3:6443", True),
        ("https://10.1.2.3:6443", "10.1.2.3:443", False),
        ("https://10.1.2.3", "10.1.2.3:443", True),
        ("http://10.1.2.3", "10.1.2.3:80", True),
        ("https://10.1.2.30", "10.1.2.3", False),
        ("https://[fd00::1]:6443", "fd00:0::1", True),
        ("https://[fd00::1]:6443", "[fd00::1]:6443", True),
        ("https://[fd00::1]:6443", "[fd00::1]:443", False),
        ("https://10.1.2.3", ".2.3", False),
        # domains
        ("https://api.test", "api.test", True),
        ("https://API.Test", "api.TEST", True),
        ("https://a.api.test", "api.test", True),
        ("https://notapi.test", "api.test", False),
        ("https://api.test", ".api.test", False),
        ("https://a.api.test", ".api.test", True),
        ("https://api.test", "*.api.test", False),
        ("https://a.b.api.test", "*.api.test", True),
        ("https://api.test:6443", "api.test:6443", True),
        ("https://a.api.test:6443", ".api.test:6443", True),
        ("https://api.test:6443", "api.test:443", False),
        ("https://api.test", "api.test:443", True),
        ("https://api.test", "*api.test", False),
        ("https://api.test", ":443", False),
        ("https://api.test", "one.test, api.test ,two.test", True),
        # this machine
        ("https://localhost:6443", "", True),
        ("https://127.0.0.1:6443", "", True),
        ("https://127.9.9.9:6443", "", True),
        ("https://[::1]:6443", "", True),
        ("https://localhost.test", "", False),
    ],
)
def test_which_hosts_bypass_the_proxy(server: str, no_proxy: str, direct: bool) -> None:
    environment = {"HTTPS_PROXY": PROXY, "HTTP_PROXY": PROXY, "NO_PROXY": no_proxy}
    assert find_proxy(server, environment) == ("" if direct else PROXY)


@pytest.mark.parametrize(
    ("environment", "proxy"),
    [
        ({}, ""),
        ({"HTTPS_PROXY": "http://a.test"}, "http://a.test"),
        ({"https_proxy": "http://a.test"}, "http://a.test"),
        ({"HTTPS_PROXY": "http://a.test", "https_proxy": "http://b.test"}, "http://a.test"),
        ({"HTTPS_PROXY": "", "https_proxy": "http://b.test"}, "http://b.test"),
        ({"HTTP_PROXY": "http://a.test", "ALL_PROXY": "http://b.test"}, ""),
        ({"HTTPS_PROXY": "a.test:3128"}, "http://a.test:3128"),
        ({"HTTPS_PROXY": "http://a.test", "no_proxy": "api.test"}, ""),
        ({"HTTPS_PROXY": "http://a.test", "NO_PROXY": "x.test", "no_proxy": "api.test"}, "http://a.test"),
    ],
)
def test_which_variable_counts(environment: dict[str, str], proxy: str) -> None:
    assert find_proxy("https://api.test", environment) == proxy


# proxies that fail --------------------------------------------------------------------------------------------------

SERVER = "https://api.test:6443"
SECRET = "s3cr3t"


@asynccontextmanager
async def proxy(answer: str, context: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """The port of a proxy that answers this to every request; empty: it never answers."""
    closing = asyncio.Event()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        if not answer:
            await closing.wait()
        writer.write(answer.encode())
        writer.close()

    async with await asyncio.start_server(handle, "127.0.0.1", 0, ssl=context) as server:
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            closing.set()


async def refused(access: Access) -> Unanswered:
    http = Http(Credentials(lambda: access), Limits(connect_seconds=0.2))
    try:
        async with asyncio.timeout(10):
            with pytest.raises(Unanswered) as caught:
                await http.send_once(Request("POST", "/", body=b"{}"))
    finally:
        await http.close()
    assert SECRET not in f"{caught.value} {caught.value!r}"
    return caught.value


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (
            "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n",
            "asks for another user name and password",
        ),
        ("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n", "refuses the connection (502)"),
    ],
)
async def test_a_proxy_that_refuses_is_named_and_nothing_was_sent(answer: str, problem: str) -> None:
    async with proxy(answer) as port:
        error = await refused(Access(SERVER, proxy=f"http://user:{SECRET}@127.0.0.1:{port}"))
    assert error.message.startswith(f"{SERVER}: its proxy http://127.0.0.1:{port}: {problem}")
    assert not error.sent


async def test_a_proxy_that_does_not_listen_is_named_and_nothing_was_sent() -> None:
    async with proxy("") as port:
        pass
    error = await refused(Access(SERVER, proxy=f"http://user:{SECRET}@127.0.0.1:{port}"))
    assert error.message.startswith(f"{SERVER}: its proxy http://127.0.0.1:{port}: cannot be reached")
    assert not error.sent


async def test_a_proxy_that_never_answers_times_out() -> None:
    async with proxy("") as port:
        error = await refused(Access(SERVER, proxy=f"http://user:{SECRET}@127.0.0.1:{port}"))
    assert error.message == f"{SERVER}: cannot be reached in time through its proxy http://127.0.0.1:{port}"
    assert not error.sent


async def test_a_proxy_whose_certificate_is_refused_is_named(tmp_path: Path) -> None:
    """Not the API server, which was not reached yet."""
    generated = tls.generate(["127.0.0.1"], datetime.now(UTC))
    async with proxy("", tls.server_context(generated, tmp_path)) as port:
        error = await refused(Access(SERVER, proxy=f"https://user:{SECRET}@127.0.0.1:{port}"))
    assert error.message.startswith(f"{SERVER}: its proxy https://127.0.0.1:{port}: its certificate is not trusted")
    assert not error.sent


@pytest.mark.parametrize("address", [f"http://u:{SECRET}@a.test:1", f"http://u:{SECRET}@x@a.test:1", "http://a.test:1"])
def test_a_proxy_is_named_without_its_password(address: str) -> None:
    assert redact_proxy(address) == "http://a.test:1"

"""One reading of how to reach an API server, and what keeps it fresh.

The official client reads token files and certificates once; here they are read again: before a token expires, every
minute where it is a file, and when the API server says 401.
"""

import asyncio
import ssl
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from msgspec import Struct

from muster.errors import InputError

EARLY = timedelta(seconds=60)  # before a token expires
FILE_SECONDS = 60.0  # how old a token from a file may get; the kubelet renews it long before it expires
REST_SECONDS = 5.0  # between two readings: an exec plugin that gives bad tokens is not run for every request


class Access(Struct, frozen=True):
    """Where, and as whom. Its text is the address and nothing else."""

    server: str
    headers: tuple[tuple[str, str], ...] = ()  # who we are: a secret
    ca: str = ""  # a file; empty: what the system trusts
    certificate: tuple[str, str | None] | None = None  # files: certificate and key
    verify: bool = True
    server_name: str = ""  # empty: the host of the address
    proxy: str = ""
    expires: datetime | None = None  # None: not known
    changes: bool = False  # a file that somebody else keeps up to date

    def __repr__(self) -> str:
        return f"Access({self.server!r})"

    def tls(self) -> ssl.SSLContext | bool:
        """What aiohttp takes as `ssl`; for plain HTTP it means nothing."""
        if not self.server.startswith("https:"):
            return True
        try:
            context = ssl.create_default_context(cafile=self.ca or None)
            if self.certificate:
                context.load_cert_chain(*self.certificate, password=lambda: "")  # else it asks on the terminal
        except OSError as error:
            raise InputError(f"{self.server}: its CA or the client certificate cannot be used: {error}") from None
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # CAs of many clusters lack what Go does not ask for
        if not self.verify:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context

    def stamp(self) -> tuple[object, ...]:
        """Equal as long as open connections are good: files change under the same name."""
        files = [self.ca, *(self.certificate or ())]
        return (self.server, self.verify, self.server_name, self.proxy, *(_written(file) for file in files if file))


Load = Callable[[], Access]


class Credentials:
    """The latest reading. Readings run in a thread: an exec plugin may take its time."""

    def __init__(self, load: Load, clock: Callable[[], float] = time.monotonic) -> None:
        self._load, self._clock = load, clock
        self._one = asyncio.Lock()
        self.access = load()
        self._read_at = clock()

    async def current(self) -> Access:
        """What the next request should use."""
        return await self.renewed(self.access) if self._due() else self.access

    async def renewed(self, stale: Access) -> Access:
        """Read again, unless somebody did since `stale`. A reading that fails leaves what was there."""
        async with self._one:
            if self.access is stale and self._clock() - self._read_at >= REST_SECONDS:
                self._read_at = self._clock()
                try:
                    self.access = await asyncio.to_thread(self._load)
                except InputError:
                    return self.access  # the API server's 401 says the rest
            return self.access

    def _due(self) -> bool:
        if self.access.expires is not None:
            return datetime.now(UTC) >= self.access.expires - EARLY
        return self.access.changes and self._clock() - self._read_at >= FILE_SECONDS


def _written(file: str) -> tuple[str, int, int]:
    try:
        found = Path(file).stat()
    except OSError:
        return (file, 0, 0)
    return (file, found.st_mtime_ns, found.st_size)

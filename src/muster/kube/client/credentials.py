"""One reading of how to reach an API server, and what keeps it fresh.

The official client reads token files and certificates once; here they are read again: before a token expires, every
minute where it is a file, and when the API server says 401. After a certificate was refused both are, and files of
certificates are looked at after every failure.
"""

import asyncio
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct

from muster.errors import InputError

RENEW_BEFORE = timedelta(seconds=60)  # before a token expires
TOKEN_FILE_SECONDS = 60.0  # how old a token from a file may get; the kubelet renews it long before it expires
MIN_INTERVAL_SECONDS = 5.0  # between two readings: an exec plugin that gives bad tokens is not run for every request
WAIT_SECONDS = 60.0  # for a reading, before the API server is asked whether what is there is still good


Header = tuple[str, str]
Pem = str | bytes  # the path of a file, or what would be in it
Certificate = tuple[Pem, Pem | None]  # with its key; None: both are in one file


class Access(Struct, frozen=True):
    """Where, and as whom. Its text is the address and nothing else."""

    server: str
    headers: tuple[Header, ...] = ()  # who we are: a secret
    ca: Pem = ""  # empty: what the system trusts
    certificate: Certificate | None = None
    verify: bool = True
    server_name: str = ""  # empty: the host of the address
    proxy: str = ""
    expires: datetime | None = None  # None: not known
    rotates: bool = False  # a file that somebody else keeps up to date

    def __repr__(self) -> str:
        return f"Access({self.server!r})"

    @property
    def is_expired(self) -> bool:
        """Whether it is known to be of no use any more."""
        return self.expires is not None and datetime.now(UTC) >= self.expires

    def build_tls_context(self) -> ssl.SSLContext | bool:
        """What aiohttp takes as `ssl`; for plain HTTP it means nothing."""
        if urlsplit(self.server).scheme != "https":
            return True
        context = self._trust_authority()
        if self.certificate:
            certificate, key = self.certificate
            self._load_certificate(context, certificate, key or certificate)
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # CAs of many clusters lack what Go does not ask for
        if not self.verify:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context

    def fingerprint(self) -> tuple[object, ...]:
        """Equal as long as open connections are good: files change under the same name."""
        parts = [_fingerprint(pem) for pem in (self.ca, *(self.certificate or ())) if pem]
        return (self.server, self.verify, self.server_name, self.proxy, *parts)

    def _trust_authority(self) -> ssl.SSLContext:
        try:
            if isinstance(self.ca, bytes):
                text = self.ca.decode("ascii", "ignore")  # comments may be UTF-8
                return ssl.create_default_context(cadata=text or "none")  # an empty text means the system's CAs
            return ssl.create_default_context(cafile=self.ca or None)
        except OSError as error:
            raise InputError(f"{self.server}: its CA{_name(self.ca)} cannot be used: {_reason(error)}") from None

    def _load_certificate(self, context: ssl.SSLContext, certificate: Pem, key: Pem) -> None:
        try:
            with _as_file(certificate) as certificate_file, _as_file(key) as key_file:
                context.load_cert_chain(certificate_file, key_file, password=lambda: "")  # else it asks on the terminal
        except OSError as error:
            raise InputError(
                f"{self.server}: the client certificate{_name(certificate)} cannot be used: {_reason(error)}"
            ) from None


Load = Callable[[], Access]


class Credentials:
    """The latest reading. An exec plugin may take its time: it is read again beside the requests, by one thread.

    What is there serves until the next reading is done; only what is of no use any more is waited for. Whoever stops
    waiting stops nothing: what a reading brings is there for the next request.
    """

    def __init__(self, load: Load, clock: Callable[[], float] = time.monotonic) -> None:
        self._load, self._clock = load, clock
        self._reading: asyncio.Event | None = None  # set when it is done
        self.failure = ""  # why the last reading brought nothing
        self.access = load()
        self._read_at = clock()

    async def current_access(self) -> Access:
        """What the next request should use."""
        if self._is_due():
            self._start_reading()
        if self.access.is_expired:
            await self._wait_for_reading()
        return self.access

    async def renew(self, stale: Access) -> Access:
        """After `stale` was refused; the same where no other is to be had."""
        if self.access is stale:
            self._start_reading()
            await self._wait_for_reading()
        return self.access

    def _is_due(self) -> bool:
        if self.access.expires is not None:
            return datetime.now(UTC) >= self.access.expires - RENEW_BEFORE
        return self.access.rotates and self._clock() - self._read_at >= TOKEN_FILE_SECONDS

    def _start_reading(self) -> None:
        if self._reading is None and self._clock() - self._read_at >= MIN_INTERVAL_SECONDS:
            self._reading = done = asyncio.Event()
            # nobody waits for this thread at the end of the process, unlike those of an executor
            threading.Thread(target=self._read, args=(asyncio.get_running_loop(), done), daemon=True).start()

    async def _wait_for_reading(self) -> None:
        reading = self._reading  # its thread takes it away
        if reading is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(WAIT_SECONDS):
                    await reading.wait()

    def _read(self, loop: asyncio.AbstractEventLoop, done: asyncio.Event) -> None:
        """A reading that fails leaves what was there."""
        try:
            self.access, self.failure = self._load(), ""
        except InputError as error:
            self.failure = str(error)
        except Exception as error:  # whatever it is, its text could hold a secret
            self.failure = f"it fails ({type(error).__name__})"
        self._read_at, self._reading = self._clock(), None
        with suppress(RuntimeError):  # nobody waits any more: the loop is closed
            loop.call_soon_threadsafe(done.set)


def _fingerprint(pem: Pem) -> object:
    if isinstance(pem, bytes):
        return pem
    try:
        status = Path(pem).stat()
    except OSError:
        return (pem, 0, 0)
    return (pem, status.st_mtime_ns, status.st_size)


@contextmanager
def _as_file(pem: Pem) -> Iterator[str]:
    """OpenSSL reads keys from files only: one that only this user may read, and that is gone afterwards."""
    if isinstance(pem, str):
        yield pem
        return
    with tempfile.NamedTemporaryFile(prefix="muster-") as file:
        file.write(pem)
        file.flush()
        yield file.name


def _name(pem: Pem) -> str:
    return f" `{pem}`" if isinstance(pem, str) and pem else ""


def _reason(error: OSError) -> str:
    reason = getattr(error, "reason", None)  # of OpenSSL, in capitals
    return reason.replace("_", " ").lower() if reason else error.strerror or "it fails"

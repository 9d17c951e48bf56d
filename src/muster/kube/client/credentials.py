"""Access to an API server, and when the configuration behind it is loaded again.

It is loaded again before a token expires, every minute where the token is a file, when the API server answers 401, and
when a certificate is refused. Certificate files are compared after every failed request.
"""

import asyncio
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct

from muster.errors import InputError
from muster.kube.temporary_folder import temporary_folder

RENEW_BEFORE = timedelta(seconds=60)  # before a token expires
TOKEN_FILE_SECONDS = 60.0  # how old a token from a file may get; the kubelet renews it long before it expires
MIN_INTERVAL_SECONDS = 5.0  # between two loads: an exec plugin that gives bad tokens is not run for every request
WAIT_SECONDS = 60.0  # for a load; then the expired credential is sent, and the API server decides

Header = tuple[str, str]
Pem = str | bytes  # the path of a file, or what would be in it
Certificate = tuple[Pem, Pem | None]  # with its key; None: both are in one file


class Access(Struct, frozen=True):
    """Address, credentials and TLS settings. Its text is the address and nothing else."""

    server: str
    headers: tuple[Header, ...] = ()  # credentials: secrets
    ca: Pem = ""  # empty: what the system trusts
    certificate: Certificate | None = None
    verify: bool = True
    server_name: str = ""  # empty: the host of the address
    proxy: str = ""
    expires: datetime | None = None  # None: not known
    rotates: bool = False  # the token is a file that another process keeps up to date

    def __repr__(self) -> str:
        return f"Access({self.server!r})"

    @property
    def is_expired(self) -> bool:
        """Whether the API server will refuse it."""
        return self.expires is not None and datetime.now(UTC) >= self.expires

    def build_tls_context(self) -> ssl.SSLContext | None:
        """What connections use; None: plain HTTP."""
        if urlsplit(self.server).scheme != "https":
            return None
        context = self._trust_authority()
        if self.certificate:
            certificate, key = self.certificate
            self._load_certificate(context, certificate, key or certificate)
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # CAs of many clusters lack what Go does not require
        if not self.verify:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context

    def fingerprint(self) -> tuple[object, ...]:
        """Equal as long as open connections can be reused; covers files that change under the same name."""
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
                context.load_cert_chain(certificate_file, key_file, password=lambda: "")  # else OpenSSL prompts
        except OSError as error:
            raise InputError(
                f"{self.server}: the client certificate{_name(certificate)} cannot be used: {_reason(error)}"
            ) from None


Load = Callable[[], Access]


class Credentials:
    """The latest access. An exec plugin may be slow, so one background thread loads the next access.

    Requests use the present access until then, and wait only where it has expired. A request that stops waiting does
    not cancel the load: the next request uses its result.
    """

    def __init__(self, load: Load, clock: Callable[[], float] = time.monotonic) -> None:
        self._load, self._clock = load, clock
        self._loading: asyncio.Event | None = None  # None: no load in progress
        self.failure = ""  # why the last load failed; empty: it did not
        self.access = load()
        self._loaded_at = clock()

    @property
    def valid_access(self) -> Access | None:
        """The access that the next request should use; None: it has expired, and the next one is loaded."""
        if self._is_due():
            self._start_loading()
        return None if self.access.is_expired else self.access

    async def current_access(self) -> Access:
        """The same; waits for the next one where this one has expired."""
        if self.valid_access is None:
            await self._wait_for_load()
        return self.access

    async def renew(self, stale: Access) -> Access:
        """The access to use after `stale` was refused; `stale` itself where loading brings no other."""
        if self.access is stale:
            self._start_loading()
            await self._wait_for_load()
        return self.access

    def _is_due(self) -> bool:
        if self.access.expires is not None:
            return datetime.now(UTC) >= self.access.expires - RENEW_BEFORE
        return self.access.rotates and self._clock() - self._loaded_at >= TOKEN_FILE_SECONDS

    def _start_loading(self) -> None:
        if self._loading is None and self._clock() - self._loaded_at >= MIN_INTERVAL_SECONDS:
            self._loading = done = asyncio.Event()
            # a daemon: unlike threads of an executor, it is not joined when the process ends
            threading.Thread(target=self._load_next, args=(asyncio.get_running_loop(), done), daemon=True).start()

    async def _wait_for_load(self) -> None:
        loading = self._loading  # its thread resets the attribute
        if loading is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(WAIT_SECONDS):
                    await loading.wait()

    def _load_next(self, loop: asyncio.AbstractEventLoop, done: asyncio.Event) -> None:
        """A load that fails leaves the present access."""
        try:
            self.access, self.failure = self._load(), ""
        except InputError as error:
            self.failure = str(error)
        except Exception as error:  # its text could hold a secret
            self.failure = f"it fails ({type(error).__name__})"
        self._loaded_at, self._loading = self._clock(), None
        with suppress(RuntimeError):  # the loop is closed
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
    """OpenSSL reads keys from files only: PEM data are written to one of mode 0600, which is deleted afterwards."""
    if isinstance(pem, str):
        yield pem
        return
    with temporary_folder() as folder:
        path = folder / "pem"
        path.touch(mode=0o600)
        path.write_bytes(pem)
        yield str(path)


def _name(pem: Pem) -> str:
    return f" `{pem}`" if isinstance(pem, str) and pem else ""


def _reason(error: OSError) -> str:
    reason = getattr(error, "reason", None)  # of OpenSSL, in capitals
    return reason.replace("_", " ").lower() if reason else error.strerror or "it fails"

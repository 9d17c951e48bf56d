"""TLS on a socket of its own: the event loop says that the socket is readable, OpenSSL reads it.

asyncio's TLS transport copies every record through two buffers and a dozen Python calls, which is most of what a small
request costs (decision 0039). Rule 1: a peer that ends a connection without saying so in TLS is an error, never an end.
Rule 2: the protocol is called by the event loop alone, never from inside `write` or `abort`.
"""

import asyncio
import socket
import ssl
from selectors import EVENT_READ, EVENT_WRITE
from typing import Any, Final

RECORD: Final = 2**14  # bytes, the most of one TLS record: what is read at once leaves nothing behind in OpenSSL
READS: Final = 64  # of one turn of the event loop: others are served as well


class TlsTransport(asyncio.Transport):
    """A TLS client; what it receives goes to its protocol."""

    def __init__(self, tcp: socket.socket, tls: ssl.SSLContext, name: str) -> None:
        """Takes the socket over."""
        super().__init__()
        tcp.setblocking(False)
        self._loop = asyncio.get_running_loop()
        self._socket = tls.wrap_socket(
            tcp, do_handshake_on_connect=False, suppress_ragged_eofs=False, server_hostname=name
        )
        self._fd = self._socket.fileno()
        self._protocol: asyncio.Protocol | None = None
        self._unsent = bytearray()
        self._is_closing = self._is_paused = self._send_waits_for_read = False

    async def handshake(self) -> None:
        """Returns once the connection is secure; OSError (ssl.SSLError) where it cannot be, and it is closed."""
        try:
            while (event := self._shake_hands()) is not None:
                await self._until(event)
        except BaseException:
            self._socket.close()
            raise

    def start(self, protocol: asyncio.Protocol) -> None:
        """Receives for this protocol from now on."""
        self._protocol = protocol
        protocol.connection_made(self)
        self._loop.add_reader(self._fd, self._read)

    # of asyncio.Transport

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Sends at once what the socket takes, and the rest as it takes it."""
        if self._is_closing:
            return
        if self._unsent:
            self._unsent += data
            return
        sent = self._send(data)
        if sent < len(data) and not self._is_closing:
            self._unsent += memoryview(data)[sent:]
            self._await_writable()

    def abort(self) -> None:
        """Closes the socket without a word to the peer."""
        self._lose(None)

    def close(self) -> None:
        """As `abort`: nothing that is unsent is of use to anyone."""
        self._lose(None)

    def is_closing(self) -> bool:
        """Whether it is closed, or about to be."""
        return self._is_closing

    def pause_reading(self) -> None:
        """The peer has to wait."""
        if not self._is_paused and not self._is_closing:
            self._is_paused = True
            self._loop.remove_reader(self._fd)

    def resume_reading(self) -> None:
        """Receives again."""
        if self._is_paused and not self._is_closing:
            self._is_paused = False
            self._loop.add_reader(self._fd, self._read)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """The socket."""
        return self._socket if name == "socket" else default

    # of the event loop

    def _shake_hands(self) -> int | None:
        """One step; what the next one waits for. None: the handshake is complete."""
        try:
            self._socket.do_handshake()
        except ssl.SSLWantReadError:
            return EVENT_READ
        except ssl.SSLWantWriteError:
            return EVENT_WRITE
        return None

    async def _until(self, event: int) -> None:
        """The socket is readable, or writable."""
        loop, ready = self._loop, self._loop.create_future()
        add, remove = (
            (loop.add_reader, loop.remove_reader) if event == EVENT_READ else (loop.add_writer, loop.remove_writer)
        )
        add(self._fd, _resolve, ready)
        try:
            await ready
        finally:
            remove(self._fd)

    def _read(self) -> None:
        """A few records; the event loop calls again where more is there."""
        assert self._protocol is not None
        for _ in range(READS):
            if self._is_closing or self._is_paused:
                return
            try:
                data = self._socket.recv(RECORD)
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError, InterruptedError):
                break  # a record is incomplete, or was none of data
            except OSError as error:
                self._lose(error)
                return
            if not data:
                self._lose(None)
                return
            self._protocol.data_received(data)
            if len(data) < RECORD and not self._socket.pending():
                break
        if self._unsent:
            self._flush()  # it may have waited for what was read

    def _send(self, data: bytes | bytearray | memoryview) -> int:
        """How many bytes were sent."""
        self._send_waits_for_read = False
        try:
            return self._socket.send(data)
        except ssl.SSLWantReadError:
            self._send_waits_for_read = True
            return 0
        except (ssl.SSLWantWriteError, InterruptedError):
            return 0
        except OSError as error:
            self._lose(error)
            return 0

    def _flush(self) -> None:
        if self._is_closing or not self._unsent:
            return
        del self._unsent[: self._send(self._unsent)]
        if not self._is_closing:
            self._await_writable()

    def _await_writable(self) -> None:
        if self._unsent and not self._send_waits_for_read:
            self._loop.add_writer(self._fd, self._flush)
        else:
            self._loop.remove_writer(self._fd)

    def _lose(self, error: OSError | None) -> None:
        if self._is_closing:
            return
        self._is_closing = True
        self._loop.remove_reader(self._fd)
        self._loop.remove_writer(self._fd)
        self._unsent.clear()
        self._socket.close()  # now: where the event loop ends, it calls nothing any more
        self._loop.call_soon(self._end, error)

    def _end(self, error: OSError | None) -> None:
        if self._protocol is not None:
            self._protocol.connection_lost(error)
            self._protocol = None


def _resolve(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)

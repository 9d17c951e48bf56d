"""Accepts connections within limits: the number of connections and the time of each phase are bounded.

Rule 1: a connection costs a socket and little more until its first bytes come; only then it gets TLS and HTTP.
Rule 2: where places are short, a new connection takes that of one that waits for its peer; where there is none, the
server stops accepting until there is, and the kernel holds what comes.
"""

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable
from functools import partial

from muster.observability.logging import logger
from muster.observability.serving.connection_table import Connection, ConnectionLimits, ConnectionTable, Phase, peer_of
from muster.observability.serving.heap import release_freed_memory
from muster.observability.serving.tls_protocol import TlsProtocol

ACCEPTED_AT_ONCE = 16  # before requests of other connections go on
SWEEP_SECONDS = 1.0
FLOOD = 250  # connections after which memory is given back, once they are gone
RETRY_SECONDS = 0.1  # after the system had no resources for another connection
REPORT_SECONDS = 60.0
HANDSHAKE = b"\x16"  # the first byte of TLS
EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
OnPhase = Callable[[Phase], None]
BuildProtocol = Callable[[OnPhase, Callable[[], None]], asyncio.Protocol]


class AcceptedConnection(Connection):
    """A connection with its socket, and with its transport once its first bytes came."""

    __slots__ = ("_unsent", "_unsent_since", "is_parked", "sock", "transport")

    def __init__(self, sock: socket.socket, peer: str, now: float) -> None:
        super().__init__(peer, now)
        self.sock = sock
        self.is_parked = True  # nothing was received yet
        self.transport: asyncio.Transport | None = None  # of the socket, below TLS
        self._unsent, self._unsent_since = 0, now

    def is_stalled(self, longest_seconds: float, now: float) -> bool:
        """Whether the peer has taken no byte of what it was sent for too long."""
        unsent = self.transport.get_write_buffer_size() if self.transport else 0
        if unsent != self._unsent or not unsent:
            self._unsent, self._unsent_since = unsent, now
        return now - self._unsent_since > longest_seconds


class Acceptor:
    """One listening socket and its connections."""

    def __init__(
        self,
        listener: socket.socket,
        limits: ConnectionLimits,
        build_protocol: BuildProtocol,
        tls: ssl.SSLContext | None,
    ) -> None:
        self.sockets = (listener,)
        self.table: ConnectionTable[AcceptedConnection] = ConnectionTable(limits)
        self._listener, self._limits = listener, limits
        self._build_protocol, self._tls = build_protocol, tls
        self._loop = asyncio.get_running_loop()
        self._opening: set[asyncio.Task[None]] = set()
        self._is_accepting = self._is_closed = False
        self._retry: asyncio.TimerHandle | None = None
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._reported_at, self._displaced = -REPORT_SECONDS, 0
        self._was_flooded = False
        self._log = logger("servers")

    def start(self) -> None:
        """Accept from now on."""
        self._listener.setblocking(False)
        self._resume()
        self._sweep_timer = self._loop.call_later(SWEEP_SECONDS, self._sweep)

    def close(self) -> None:
        """Accept no more; connections without a complete handshake are closed, the others are left to the server."""
        self._is_closed = True
        self._pause()
        for timer in (self._sweep_timer, self._retry):
            if timer is not None:
                timer.cancel()
        for connection in self.table.all():
            if not connection.is_established:
                self._close(connection)

    async def wait_closed(self) -> None:
        """Until no connection is being opened."""
        if self._opening:
            await asyncio.wait(self._opening)

    # accepting

    def _resume(self) -> None:
        if not self._is_accepting and not self._is_closed:
            self._is_accepting = True
            self._loop.add_reader(self._listener, self._accept_some)

    def _pause(self) -> None:
        if self._is_accepting:
            self._is_accepting = False
            self._loop.remove_reader(self._listener)

    def _accept_some(self) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            if self.table.is_full and self.table.victim() is None:
                self._pause()
                return
            try:
                sock, address = self._listener.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno in EXHAUSTED:
                    self._wait_for_resources()
                    return
                continue  # the peer has gone before it was accepted
            self._admit(sock, peer_of(address))

    def _wait_for_resources(self) -> None:
        """The limit on open files, or on memory of the kernel, is reached."""
        self._displace(self.table.victim())
        self._pause()
        self._retry = self._loop.call_later(RETRY_SECONDS, self._try_again)

    def _try_again(self) -> None:
        self._retry = None
        self._resume()

    def _admit(self, sock: socket.socket, peer: str) -> None:
        if self.table.is_peer_full(peer) and not self._displace(self.table.victim_of(peer)):
            self._count_displaced(peer)
            sock.close()
            return
        if self.table.is_full:
            self._displace(self.table.victim())
        sock.setblocking(False)
        connection = AcceptedConnection(sock, peer, self._loop.time())
        self.table.add(connection)
        self._was_flooded |= len(self.table) >= FLOOD
        self._loop.add_reader(sock, self._open_soon, connection)

    # one connection

    def _open_soon(self, connection: AcceptedConnection) -> None:
        """The first bytes came, or the peer has gone again."""
        if not self._is_plausible(connection.sock):
            self._close(connection)
            return
        self._unpark(connection)
        task = self._loop.create_task(self._open(connection))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    def _is_plausible(self, sock: socket.socket) -> bool:
        """Whether the first byte may begin what is spoken here: nothing is built for anything else."""
        try:
            first = sock.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return True
        except OSError:
            return False
        return first == HANDSHAKE if self._tls is not None else bool(first)

    async def _open(self, connection: AcceptedConnection) -> None:
        try:
            connection.transport, _ = await self._loop.connect_accepted_socket(
                lambda: self._protocol_of(connection), connection.sock
            )
        except OSError:
            connection.sock.close()
            self._remove(connection)
            return
        if connection not in self.table:  # displaced meanwhile
            connection.transport.abort()

    def _protocol_of(self, connection: AcceptedConnection) -> asyncio.BaseProtocol:
        def on_phase(phase: Phase) -> None:
            connection.is_established = True
            self.table.move(connection, phase, self._loop.time())

        on_lost = partial(self._remove, connection)
        http = self._build_protocol(on_phase, on_lost)
        if self._tls is None:
            return http
        return TlsProtocol(self._loop, http, self._tls, self._limits.handshake_seconds, on_lost)

    def _unpark(self, connection: AcceptedConnection) -> None:
        connection.is_parked = False
        self._loop.remove_reader(connection.sock)

    def _close(self, connection: AcceptedConnection) -> None:
        """Close it at once, whatever is still to be sent. One whose transport is being made is aborted after that."""
        self._remove(connection)
        if connection.is_parked:
            self._unpark(connection)
            connection.sock.close()
        elif connection.transport is not None:
            connection.transport.abort()

    def _remove(self, connection: AcceptedConnection) -> None:
        if self.table.remove(connection) and self._retry is None:
            self._resume()

    # making room

    def _displace(self, victim: AcceptedConnection | None) -> bool:
        if victim is None:
            return False
        self._count_displaced(victim.peer)
        self._close(victim)
        return True

    def _count_displaced(self, peer: str) -> None:
        """Logs now and then: a flood must not become one of the log."""
        self._displaced += 1
        now = self._loop.time()
        if now - self._reported_at >= REPORT_SECONDS:
            address = self._listener.getsockname()[:2]
            self._log.warning(
                "too many connections: those that wait for their peer are closed",
                address=f"{address[0]}:{address[1]}",
                closed=self._displaced,
                peer=peer,
            )
            self._reported_at, self._displaced = now, 0

    def _sweep(self) -> None:
        """Close what has taken too long."""
        now = self._loop.time()
        for connection in self.table.all():
            if connection.is_overdue(self._limits, now) or connection.is_stalled(self._limits.write_seconds, now):
                self._close(connection)
        self._release_memory()
        self._sweep_timer = self._loop.call_later(SWEEP_SECONDS, self._sweep)

    def _release_memory(self) -> None:
        """After a flood."""
        if self._was_flooded and len(self.table) < FLOOD // 4:
            self._was_flooded = False
            self._loop.run_in_executor(None, release_freed_memory)

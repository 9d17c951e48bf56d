"""Which connections a server holds, and which of them it closes to make room. Without I/O.

Rule 1: the number of connections is bounded, for each peer and in all. Rule 2: only a request that is complete protects
its connection: everything else waits for its peer, and a new connection takes the place of the oldest that waits. A
peer over its limit loses its own; in all, the peer with the most loses first. So silent, slow and idle peers cost
others nothing, however many connections they open.
"""

import ipaddress
import math
from collections import OrderedDict
from enum import IntEnum
from typing import Any, Generic, TypeVar

from msgspec import Struct

IPV6_PREFIX_BITS = 64  # one host may use every address of such a network


class ConnectionLimits(Struct, frozen=True):
    """Of one server. The time limits are those of a peer; how long an answer takes is the handler's affair."""

    connections: int
    per_peer: int
    handshake_seconds: float = 5.0  # from the connection to the end of the TLS handshake
    head_seconds: float = 10.0  # for the head of a request
    body_seconds: float = 15.0  # for the body of a request
    idle_seconds: float = 75.0  # between requests; clients keep connections for about a minute
    write_seconds: float = 10.0  # while the peer takes no byte of an answer

    def longest_seconds(self, phase: "Phase") -> float:
        """How long a peer may leave a connection in this phase."""
        return (self.head_seconds, self.body_seconds, self.idle_seconds, math.inf)[phase]


class Phase(IntEnum):
    """What a connection waits for; closed in this order where places are short."""

    OPENING = 0  # for the first byte, the handshake or the head of a request
    RECEIVING = 1  # for the body
    IDLE = 2  # for the next request, or for the peer to read an answer
    ANSWERING = 3  # for the handler: never closed to make room


CLOSABLE = (Phase.OPENING, Phase.RECEIVING, Phase.IDLE)


class Connection:
    """One accepted connection: whose it is, what it waits for, and since when."""

    __slots__ = ("is_established", "peer", "phase", "since")

    def __init__(self, peer: str, now: float) -> None:
        self.peer, self.since = peer, now
        self.phase = Phase.OPENING  # only the table changes it
        self.is_established = False  # whether the handshake is complete

    def is_overdue(self, limits: ConnectionLimits, now: float) -> bool:
        """Whether its peer has taken too long."""
        longest = limits.longest_seconds(self.phase) if self.is_established else limits.handshake_seconds
        return now - self.since > longest


C = TypeVar("C", bound=Connection)


class PeerConnections(Generic[C]):
    """Those of one peer, by phase, the longest in it first."""

    def __init__(self) -> None:
        self.by_phase: tuple[OrderedDict[C, None], ...] = tuple(OrderedDict() for _ in Phase)

    @property
    def size(self) -> int:
        """How many there are."""
        return sum(map(len, self.by_phase))

    @property
    def closable(self) -> int:
        """How many of them wait for their peer."""
        return self.size - len(self.by_phase[Phase.ANSWERING])

    def oldest(self) -> C | None:
        """The one to close first; None: a request is answered on each of them."""
        return next((next(iter(self.by_phase[phase])) for phase in CLOSABLE if self.by_phase[phase]), None)


class ConnectionTable(Generic[C]):
    """The connections of one server."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._peers: dict[str, PeerConnections[C]] = {}
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __contains__(self, connection: C) -> bool:
        peer = self._peers.get(connection.peer)
        return peer is not None and connection in peer.by_phase[connection.phase]

    @property
    def is_full(self) -> bool:
        """Whether another connection needs the place of one of these."""
        return self._size >= self.limits.connections

    def is_peer_full(self, peer: str) -> bool:
        """Whether another connection of this peer needs the place of one of its own."""
        return peer in self._peers and self._peers[peer].size >= self.limits.per_peer

    def all(self) -> list[C]:
        """Every connection."""
        return [connection for peer in self._peers.values() for phase in peer.by_phase for connection in phase]

    def add(self, connection: C) -> None:
        """A connection was accepted."""
        self._peers.setdefault(connection.peer, PeerConnections()).by_phase[connection.phase][connection] = None
        self._size += 1

    def move(self, connection: C, phase: Phase, now: float) -> None:
        """It waits for something else now; the same again counts as new."""
        if connection not in self:
            return
        phases = self._peers[connection.peer].by_phase
        del phases[connection.phase][connection]
        connection.phase, connection.since = phase, now
        phases[phase][connection] = None

    def remove(self, connection: C) -> bool:
        """It is closed; returns whether it was in the table."""
        if connection not in self:
            return False
        peer = self._peers[connection.peer]
        del peer.by_phase[connection.phase][connection]
        self._size -= 1
        if not peer.size:
            del self._peers[connection.peer]
        return True

    def victim(self) -> C | None:
        """The connection that makes room for any other; None: all of them are answered."""
        most = max(self._peers.values(), key=lambda peer: peer.closable, default=None)
        return most.oldest() if most else None

    def victim_of(self, peer: str) -> C | None:
        """The connection that makes room for another of this peer."""
        return self._peers[peer].oldest() if peer in self._peers else None


def peer_of(address: Any) -> str:
    """Who is counted as one: an IPv4 address, or the network of an IPv6 address."""
    host = str(address[0]) if isinstance(address, tuple) and address else ""
    try:
        ip = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped:
        return str(ip.ipv4_mapped)
    return host if ip.version == 4 else str(ipaddress.ip_network((ip, IPV6_PREFIX_BITS), strict=False))

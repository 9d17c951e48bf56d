"""Which connection makes room for another, as a value."""

import pytest

from muster.observability.serving.connection_table import Connection, ConnectionLimits, ConnectionTable, Phase, peer_of


def table(*connections: tuple[str, Phase], most: int = 10, per_peer: int = 5) -> ConnectionTable[Connection]:
    """Connections in the order in which they came, one a second."""
    filled: ConnectionTable[Connection] = ConnectionTable(ConnectionLimits(most, per_peer))
    for second, (peer, phase) in enumerate(connections):
        connection = Connection(peer, second)
        filled.add(connection)
        filled.move(connection, phase, second)
    return filled


def of(victim: Connection | None) -> tuple[str, Phase, float] | None:
    return (victim.peer, victim.phase, victim.since) if victim else None


def test_the_peer_with_the_most_connections_makes_room() -> None:
    """A flood of one address costs no other its connections."""
    held = table(("flood", Phase.OPENING), ("api", Phase.OPENING), ("flood", Phase.OPENING))
    assert of(held.victim()) == ("flood", Phase.OPENING, 0)


def test_a_peer_over_its_limit_makes_room_itself() -> None:
    """Whatever others hold."""
    held = table(("api", Phase.OPENING), *[("flood", Phase.OPENING)] * 5)
    assert held.is_peer_full("flood")
    assert not held.is_peer_full("api")
    assert of(held.victim_of("flood")) == ("flood", Phase.OPENING, 1)


def test_what_never_sent_a_request_goes_before_what_did() -> None:
    """An idle connection of the API server outlives younger ones that are silent or slow, also of its own address."""
    held = table(("a", Phase.IDLE), ("a", Phase.RECEIVING), ("a", Phase.OPENING), ("a", Phase.OPENING))
    order = []
    while victim := held.victim():
        order.append((victim.phase, victim.since))
        held.remove(victim)
    assert order == [(Phase.OPENING, 2), (Phase.OPENING, 3), (Phase.RECEIVING, 1), (Phase.IDLE, 0)]


def test_a_request_that_is_answered_is_never_interrupted() -> None:
    """Then there is no room, and nothing is accepted."""
    held = table(("a", Phase.ANSWERING), ("b", Phase.ANSWERING), most=2)
    assert held.is_full
    assert held.victim() is None
    assert held.victim_of("a") is None


def test_a_peer_that_only_has_answers_does_not_protect_others() -> None:
    """The most connections that can be closed count, not the most connections."""
    held = table(*[("busy", Phase.ANSWERING)] * 3, ("quiet", Phase.IDLE))
    assert of(held.victim()) == ("quiet", Phase.IDLE, 3)


def test_a_used_connection_counts_as_new() -> None:
    """The one that was idle for longest goes first."""
    held = table(("a", Phase.IDLE), ("a", Phase.IDLE))
    first = held.victim()
    assert first is not None
    held.move(first, Phase.ANSWERING, 5)
    held.move(first, Phase.IDLE, 6)
    assert of(held.victim()) == ("a", Phase.IDLE, 1)


def test_removed_connections_leave_nothing_behind() -> None:
    """Also where one is removed twice, or moves after it was removed."""
    held = table(("a", Phase.IDLE), ("b", Phase.ANSWERING))
    for connection in held.all():
        assert held.remove(connection)
        assert not held.remove(connection)
        held.move(connection, Phase.IDLE, 9)
    assert (len(held), held.all(), held._peers) == (0, [], {})


@pytest.mark.parametrize(
    ("phase", "seconds"), [(Phase.OPENING, 10.0), (Phase.RECEIVING, 15.0), (Phase.IDLE, 75.0), (Phase.ANSWERING, None)]
)
def test_each_phase_has_its_time(phase: Phase, seconds: float | None) -> None:
    """But for the handler, which has limits of its own."""
    (connection,) = table(("a", phase)).all()
    connection.is_established = True
    limits = ConnectionLimits(1, 1)
    assert not connection.is_overdue(limits, 0.0 if seconds is None else seconds)
    assert connection.is_overdue(limits, 1e9) == (seconds is not None)


def test_a_handshake_has_less_time_than_a_request() -> None:
    """From the moment of the connection."""
    connection = Connection("a", 0.0)
    assert not connection.is_overdue(ConnectionLimits(1, 1), 5.0)
    assert connection.is_overdue(ConnectionLimits(1, 1), 5.1)


@pytest.mark.parametrize(
    ("address", "peer"),
    [
        (("10.0.0.1", 4711), "10.0.0.1"),
        (("::ffff:10.0.0.1", 4711, 0, 0), "10.0.0.1"),
        (("2001:db8:1:2:3:4:5:6", 4711, 0, 0), "2001:db8:1:2::/64"),
        (("fe80::1%eth0", 4711, 0, 2), "fe80::/64"),
        ("", ""),
    ],
)
def test_a_peer_is_an_address_or_the_network_of_a_host(address: object, peer: str) -> None:
    """A host may use every address of its IPv6 network."""
    assert peer_of(address) == peer

"""When a burst of writes is over."""

from muster.kube.write_bursts import LULL_SECONDS, WriteBurst


class Writer:
    """Writes, or not, at a time that the test sets."""

    def __init__(self) -> None:
        self.is_writing, self.now = False, 100.0

    def burst(self) -> WriteBurst:
        return WriteBurst(lambda: self.is_writing, lambda: self.now)


def test_nothing_waits_where_nothing_was_written() -> None:
    assert not Writer().burst()()


def test_a_lull_is_not_the_end_of_a_burst() -> None:
    writer = Writer()
    burst = writer.burst()
    for _ in range(3):
        writer.is_writing = True
        assert burst()
        writer.is_writing = False
        writer.now += LULL_SECONDS / 2
        assert burst()
    writer.now += LULL_SECONDS / 2
    assert not burst()

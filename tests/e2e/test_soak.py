"""A minute of a real `muster up` under load; `make soak` is ten of them."""

from pathlib import Path

import pytest

from tests.support.soak import STOP_SECONDS, soak


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory and threads are read from /proc")
def test_a_minute_under_load_keeps_every_promise_and_ends_at_once() -> None:
    """Gangs keep being bound, no node is overfull, no pod bound twice, no limit passed; SIGTERM ends it in seconds."""
    figures = soak(60.0)
    assert figures.broken == [], "\n".join(figures.lines())
    assert figures.bound > 100
    assert figures.stopped < STOP_SECONDS
    assert max(figures.threads) < 64
    assert max(figures.rss) < 4 * figures.rss[len(figures.rss) // 3], "memory grows with what is there, not with time"

"""Evictions that were refused: left alone for a while, longer each time, and not for ever."""

from muster.api.core import Pod
from muster.api.meta import ObjectMeta
from muster.scheduler.apply.eviction_backoff import FIRST_SECONDS, LONGEST_SECONDS, EvictionBackoff


class Bench:
    def __init__(self) -> None:
        self.now = 0.0
        self.pods = {name: Pod(ObjectMeta(name=name, namespace="team", uid=f"u-{name}")) for name in ("a", "b")}
        self.refusals = EvictionBackoff(lambda: self.now)

    def seen(self, key: str) -> Pod | None:
        return self.pods.get(key.removeprefix("team/"))

    def untouchable(self) -> set[str]:
        return set(self.refusals.untouchable(self.seen))


def test_each_refusal_in_a_row_lasts_twice_as_long() -> None:
    bench, lasted = Bench(), []
    for _ in range(12):
        bench.refusals.refused("team/a", "u-a")
        seconds = bench.refusals.next_seconds()
        assert seconds is not None
        assert bench.untouchable() == {"team/a"}
        bench.now += seconds
        assert bench.untouchable() == set()
        lasted.append(seconds)
    assert lasted[:4] == [FIRST_SECONDS * 2**i for i in range(4)]
    assert lasted[-1] == LONGEST_SECONDS
    assert bench.refusals.next_seconds() is None


def test_a_pod_that_is_evicted_after_all_is_forgotten() -> None:
    bench = Bench()
    bench.refusals.refused("team/a", "u-a")
    bench.refusals.refused("team/b", "u-b")
    bench.refusals.evicted("team/a")
    assert bench.untouchable() == {"team/b"}


def test_a_refusal_is_about_one_pod_and_not_about_its_name() -> None:
    bench = Bench()
    bench.refusals.refused("team/a", "u-of-another")
    bench.refusals.refused("team/gone", "u")
    assert bench.untouchable() == set()
    bench.refusals.refused("team/a", "u-a")
    assert bench.refusals.next_seconds() == FIRST_SECONDS


def test_a_backoff_that_ended_long_ago_starts_from_the_beginning() -> None:
    bench = Bench()
    bench.refusals.refused("team/a", "u-a")
    bench.now += FIRST_SECONDS + LONGEST_SECONDS + 1
    assert bench.untouchable() == set()
    bench.refusals.refused("team/a", "u-a")
    assert bench.refusals.next_seconds() == FIRST_SECONDS

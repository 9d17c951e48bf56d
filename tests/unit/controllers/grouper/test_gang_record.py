"""What the grouper remembers of a gang."""

from muster.controllers.grouper.gang_record import CONFIRM_SECONDS, GONE_SECONDS, GangRecord


def deleted(times: int, every_seconds: float = 10.0) -> tuple[GangRecord, float]:
    """A record whose PodGroup came back and was deleted so often, and when that was last."""
    record, now = GangRecord(), 0.0
    for number in range(times):
        record.applied_at, now = now, now + every_seconds
        record.set_deleted(f"uid-{number}", now)
    return record, now


def wait(record: GangRecord, now: float) -> float:
    return record.gone_seconds_left(now)


def test_a_podgroup_that_was_never_deleted_is_made_at_once() -> None:
    assert wait(GangRecord(), 5.0) <= 0


def test_a_podgroup_that_is_deleted_comes_back_after_a_second() -> None:
    assert wait(*deleted(1)) == GONE_SECONDS


def test_a_podgroup_that_is_deleted_whenever_it_comes_back_waits_longer_and_longer_up_to_a_limit() -> None:
    """The garbage collector deletes it as long as the watch of its owner is behind."""
    waits = [wait(*deleted(times)) for times in range(1, 6)]
    assert waits == sorted(waits)
    assert len(set(waits)) > 2
    assert wait(*deleted(10_000)) == wait(*deleted(10)) <= 2 * CONFIRM_SECONDS


def test_a_podgroup_that_lived_long_in_between_waits_as_at_first() -> None:
    assert wait(*deleted(5, every_seconds=CONFIRM_SECONDS)) == GONE_SECONDS

"""A write ends in time, or with leadership; ApiError 504 says so (I9)."""

import asyncio

import pytest

from muster.kube.errors import ApiError
from muster.kube.leadership import AlwaysLeading, within_leadership


class ShortLease(AlwaysLeading):
    """Leads for a moment."""

    seconds_left = 0.01


async def _write(seconds: float, lasts: float) -> str:
    try:
        with within_leadership(AlwaysLeading(), seconds):
            await asyncio.sleep(lasts)
    except ApiError as error:
        return str(error.status)
    return "done"


async def test_a_write_that_takes_too_long_ends_with_504() -> None:
    assert await _write(0.01, 60) == "504"


async def test_a_write_ends_with_leadership() -> None:
    with pytest.raises(ApiError) as caught, within_leadership(ShortLease(), 60):
        await asyncio.sleep(60)
    assert caught.value.status == 504


async def test_a_write_without_any_time_ends_at_its_first_wait() -> None:
    assert await _write(0.0, 60) == "504"


async def test_each_write_ends_at_its_own_deadline_whatever_the_order() -> None:
    limits = [0.05, 60.0, 0.01, 0.03, 60.0, 0.02]
    outcomes = await asyncio.gather(*(_write(limit, 0.1) for limit in limits))
    assert outcomes == ["504", "done", "504", "504", "done", "504"]


async def test_a_later_write_is_watched_after_an_earlier_one_has_ended() -> None:
    async with asyncio.timeout(5):
        first, second = asyncio.create_task(_write(0.01, 60)), asyncio.create_task(_write(0.05, 60))
        assert await first == "504"
        assert await second == "504"
        assert await _write(0.01, 60) == "504"


async def test_the_callers_own_cancellation_stays_a_cancellation() -> None:
    task = asyncio.create_task(_write(60, 60))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_cancellation_beside_an_expiry_is_not_swallowed() -> None:
    task = asyncio.create_task(_write(0.0, 60))
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_soon(task.cancel)
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_timeout_inside_is_the_same_error() -> None:
    with pytest.raises(ApiError), within_leadership(AlwaysLeading(), 60):
        raise TimeoutError


async def test_an_expired_write_leaves_its_task_uncancelled() -> None:
    assert await _write(0.01, 60) == "504"
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    assert await _write(60, 0.001) == "done"


async def test_nested_writes_end_where_their_own_time_ends() -> None:
    with within_leadership(AlwaysLeading(), 60):
        assert await _write(0.01, 60) == "504"
    with pytest.raises(ApiError), within_leadership(AlwaysLeading(), 0.01):
        assert await _write(60, 60) == "never"

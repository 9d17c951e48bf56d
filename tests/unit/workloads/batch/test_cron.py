"""Schedules, and the Jobs that CronJobs make of them."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.resources import CRON_JOBS, JOBS, PODS
from muster.workloads.batch.cron_schedule import parse_schedule
from tests.support.workload_objects import START, WorkloadObjects, pod_template


def next_times(schedule: str, start: str, zone: str = "", count: int = 1) -> list[str]:
    parsed, now, times = parse_schedule(schedule, zone), datetime.fromisoformat(start), []
    for _ in range(count):
        following = parsed.next(now)
        assert following is not None
        times.append(following.isoformat()[:16])
        now = following
    return times


@pytest.mark.parametrize(
    ("schedule", "start", "expected"),
    [
        ("* * * * *", "2026-01-01T00:00:30+00:00", "2026-01-01T00:01"),
        ("*/15 * * * *", "2026-01-01T00:16:00+00:00", "2026-01-01T00:30"),
        ("5/20 * * * *", "2026-01-01T00:06:00+00:00", "2026-01-01T00:25"),
        ("0 9-17/4 * * *", "2026-01-01T10:00:00+00:00", "2026-01-01T13:00"),
        ("30 4 1,15 * *", "2026-01-02T00:00:00+00:00", "2026-01-15T04:30"),
        ("0 0 * * mon-FRI", "2026-01-02T12:00:00+00:00", "2026-01-05T00:00"),
        ("0 0 * FEB sun", "2026-01-02T12:00:00+00:00", "2026-02-01T00:00"),
        ("0 0 29 2 *", "2026-01-01T00:00:00+00:00", "2028-02-29T00:00"),
        ("@daily", "2026-01-01T00:00:00+00:00", "2026-01-02T00:00"),
        ("@weekly", "2026-01-01T00:00:00+00:00", "2026-01-04T00:00"),
        ("0 0 13 * 5", "2026-01-01T00:00:00+00:00", "2026-01-02T00:00"),  # the 13th, or any Friday
    ],
)
def test_the_next_time(schedule: str, start: str, expected: str) -> None:
    assert next_times(schedule, start) == [expected]


def test_a_time_zone_shifts_with_its_summer_time() -> None:
    """Berlin changes on 2026-03-29."""
    times = next_times("0 9 * * *", "2026-03-28T00:00:00+00:00", "Europe/Berlin", 2)
    assert times == ["2026-03-28T08:00", "2026-03-29T07:00"]


@pytest.mark.parametrize(
    "schedule", ["", "* * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "x * * * *", "5-1 * * * *", "*/0 * * * *"]
)
def test_what_is_no_schedule_is_said(schedule: str) -> None:
    with pytest.raises(ValueError, match="not"):
        parse_schedule(schedule)


def test_an_unknown_time_zone_is_said() -> None:
    with pytest.raises(ValueError, match="not a time zone"):
        parse_schedule("@daily", "Mars/Olympus")


def test_a_day_that_never_comes() -> None:
    assert parse_schedule("0 0 31 2 *").next(START) is None


fields = st.tuples(st.sampled_from(["*", "*/7", "3", "10-20"]), st.sampled_from(["*", "5", "8-9"]), st.just("*"))


@given(fields, st.integers(0, 10**6))
def test_the_latest_time_is_the_one_before_the_next(parts: tuple[str, ...], minutes: int) -> None:
    schedule = parse_schedule(" ".join((*parts, "*", "*")))
    now = START + timedelta(minutes=minutes, seconds=30)
    latest = schedule.latest(now)
    assert latest is not None
    assert latest <= now
    assert schedule.next(latest) == schedule.next(now)


# CronJobs -------------------------------------------------------------------------------------------------------------


def scheduled(schedule: str = "*/5 * * * *", **spec: Any) -> WorkloadObjects:
    objects = WorkloadObjects()
    template = {"metadata": {"labels": {"team": "a"}}, "spec": {"template": pod_template()}}
    own = {"schedule": schedule, "jobTemplate": template, **spec}
    objects.create(CRON_JOBS, {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "w"}, "spec": own})
    objects.settle()
    return objects


def pass_minutes(objects: WorkloadObjects, minutes: int) -> None:
    objects.advance(60 * minutes)
    objects.settle()


def test_a_job_is_named_by_the_minute_of_its_time() -> None:
    objects = scheduled()
    assert objects.names(JOBS) == []
    assert objects.reconcile(CRON_JOBS).again_after_seconds == pytest.approx(300, abs=1)
    pass_minutes(objects, 6)
    due = datetime(2026, 1, 1, 0, 5, tzinfo=UTC)
    (job,) = objects.all_of(JOBS)
    assert job["metadata"]["name"] == f"w-{int(due.timestamp()) // 60}"
    assert job["metadata"]["labels"]["team"] == "a"
    assert job["metadata"]["annotations"] == {"batch.kubernetes.io/cronjob-scheduled-timestamp": "2026-01-01T00:05:00Z"}
    status = objects.get(CRON_JOBS)["status"]
    assert status["lastScheduleTime"] == "2026-01-01T00:05:00Z"
    assert [reference["name"] for reference in status["active"]] == [job["metadata"]["name"]]


def test_only_the_latest_of_missed_times_is_made_up_for() -> None:
    objects = scheduled()
    pass_minutes(objects, 63)
    assert [name[-8:] for name in objects.names(JOBS)] == [str(int(START.timestamp()) // 60 + 60)]


def test_a_job_that_is_deleted_does_not_run_again() -> None:
    objects = scheduled()
    pass_minutes(objects, 5)
    objects.delete(JOBS, *objects.names(JOBS))
    objects.settle()
    assert objects.names(JOBS) == []


@pytest.mark.parametrize(("policy", "count"), [("Allow", 2), ("Forbid", 1), ("Replace", 1)])
def test_what_happens_while_a_job_still_runs(policy: str, count: int) -> None:
    objects = scheduled(concurrencyPolicy=policy)
    pass_minutes(objects, 5)
    (first,) = objects.names(JOBS)
    pass_minutes(objects, 5)
    assert len(objects.names(JOBS)) == count
    assert (first in objects.names(JOBS)) == (policy != "Replace")


def test_a_suspended_cron_job_makes_no_jobs() -> None:
    objects = scheduled(suspend=True)
    pass_minutes(objects, 20)
    assert objects.names(JOBS) == []


def test_a_time_beyond_its_deadline_is_missed() -> None:
    objects = scheduled("0 * * * *", startingDeadlineSeconds=30)
    pass_minutes(objects, 61)
    assert objects.names(JOBS) == []


def test_old_jobs_beyond_the_limits_are_deleted() -> None:
    objects = scheduled(successfulJobsHistoryLimit=2)
    for _ in range(4):
        pass_minutes(objects, 5)
        for name in [name for name in objects.names() if objects.get(PODS, name)["status"]["phase"] == "Running"]:
            objects.finish(name)
        objects.settle()
    assert len(objects.names(JOBS)) == 2
    assert objects.get(CRON_JOBS)["status"]["lastSuccessfulTime"]

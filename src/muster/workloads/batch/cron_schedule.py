"""Schedules of CronJobs: five fields with lists, ranges, steps and names, or a macro such as `@hourly`.

As in Kubernetes, a day matches by its day of the month *or* of the week where both are restricted.
"""

from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from msgspec import Struct

from muster.api.fields import number

MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTH_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
MONTHS = {name: month for month, name in enumerate(_MONTH_NAMES, 1)}
DAYS = {name: day for day, name in enumerate(("sun", "mon", "tue", "wed", "thu", "fri", "sat"))}
MOST_DAYS = 5 * 366  # further away is never
LONGEST = 1000  # characters of a schedule


class CronField(Struct, frozen=True):
    """The values of one field."""

    values: frozenset[int]
    is_any: bool  # `*` or `?`


class CronSchedule(Struct, frozen=True):
    """When a CronJob runs, in the time of its zone."""

    minutes: CronField
    hours: CronField
    days: CronField
    months: CronField
    weekdays: CronField
    zone: tzinfo = UTC

    def latest(self, now: datetime) -> datetime | None:
        """The last time up to now; None: there is none in years."""
        return self._search(now, -1)

    def next(self, now: datetime) -> datetime | None:
        """The first time after now; None: there is none in years."""
        return self._search(now, 1)

    def _search(self, now: datetime, direction: int) -> datetime | None:
        local = now.astimezone(self.zone)
        for offset in range(MOST_DAYS):
            day = (local + timedelta(days=direction * offset)).date()
            if day.month in self.months.values and self._matches_day(day.day, day.isoweekday() % 7):
                times = (
                    datetime(day.year, day.month, day.day, hour, minute, tzinfo=self.zone).astimezone(UTC)
                    for hour in sorted(self.hours.values, reverse=direction < 0)
                    for minute in sorted(self.minutes.values, reverse=direction < 0)
                )
                for time in times:
                    if time <= now if direction < 0 else time > now:
                        return time
        return None

    def _matches_day(self, day: int, weekday: int) -> bool:
        by_day, by_weekday = day in self.days.values, weekday in self.weekdays.values
        return by_day and by_weekday if self.days.is_any or self.weekdays.is_any else by_day or by_weekday


def parse_schedule(text: str, zone: str = "") -> CronSchedule:
    """ValueError says what is wrong with it."""
    words = MACROS.get(text.strip().lower(), text).split() if len(text) <= LONGEST else []
    if len(words) != 5:
        raise ValueError(f"`{text[:60]}` is not a schedule: expected five fields, or a macro such as `@hourly`")
    return CronSchedule(
        _field(words[0], 0, 59),
        _field(words[1], 0, 23),
        _field(words[2], 1, 31),
        _field(words[3], 1, 12, MONTHS),
        _field(words[4], 0, 6, DAYS),
        _zone(zone),
    )


def _zone(name: str) -> tzinfo:
    try:
        return ZoneInfo(name) if name else UTC
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"`{name[:60]}` is not a time zone that this machine knows") from None


def _field(text: str, low: int, high: int, names: dict[str, int] | None = None) -> CronField:
    values: set[int] = set()
    for part in text.split(","):
        values |= _part(part, low, high, names or {})
    return CronField(frozenset(values), text[0] in "*?")


def _part(part: str, low: int, high: int, names: dict[str, int]) -> set[int]:
    span, _, step_text = part.partition("/")
    step = number(step_text) if step_text else 1
    first, _, last = span.partition("-")
    if span in ("*", "?"):
        start, end = low, high
    else:
        start = _value(first, names, part)
        end = _value(last, names, part) if last else high if "/" in part else start
    if not step or not low <= start <= end <= high:
        raise ValueError(f"`{part[:60]}` is not within {low} to {high}, or its step is none")
    return set(range(start, end + 1, step))


def _value(text: str, names: dict[str, int], part: str) -> int:
    value = names.get(text.lower(), number(text))
    if value is None:
        raise ValueError(f"`{part[:60]}` is not a number, a range or a name")
    return value

"""Times as text: RFC 3339, in UTC, as the annotations of PodGroups have them (S2)."""

from datetime import UTC, datetime, timedelta

CLOCK_SKEW = timedelta(minutes=5)  # by which clocks of machines may differ


def format_time(moment: datetime) -> str:
    """A time as text; `parse_time` reads it back exactly."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def parse_time(text: str) -> datetime | None:
    """The time that a text holds; None: it holds none, or has no time zone."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time if time.tzinfo else None


def parse_past_time(text: str, now: datetime | None) -> datetime | None:
    """The time of something past. None: the text holds none, or one too far ahead for a clock that is only skewed.

    A time that is later than `now` by less than clocks differ is read as `now`.
    """
    time = parse_time(text)
    if time is None or now is None or time <= now:
        return time
    return now if time - now < CLOCK_SKEW else None

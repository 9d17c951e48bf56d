"""Moments as text: RFC 3339, in UTC, as the annotations of PodGroups have them (S2)."""

from datetime import UTC, datetime, timedelta

CLOCK_SKEW = timedelta(minutes=5)  # that clocks of machines may differ by


def format_time(moment: datetime) -> str:
    """The usual way to write a moment; it reads back exactly."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def parse_time(text: str) -> datetime | None:
    """The moment that a text names; None: it names none, or says no zone."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else None


def parse_past_time(text: str, now: datetime | None) -> datetime | None:
    """The moment of a stamp about the past. None: it names none, or one so far ahead that no clock of ours wrote it.

    What is later than now by less than clocks differ happened now.
    """
    found = parse_time(text)
    if found is None or now is None or found <= now:
        return found
    return now if found - now < CLOCK_SKEW else None

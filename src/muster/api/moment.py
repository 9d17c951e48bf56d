"""Moments as text: RFC 3339, in UTC, as the annotations of PodGroups have them (S2)."""

from datetime import UTC, datetime


def stamp(moment: datetime) -> str:
    """The usual way to write a moment; it reads back exactly."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def moment(text: str) -> datetime | None:
    """The moment that a text names; None: it names none, or says no zone."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else None

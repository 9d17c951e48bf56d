"""Logs: JSON with the gang's key, and no secret, wherever it is in the event."""

import io
import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
import structlog

from muster.config.settings import Certificates, Log
from muster.observability import logging as logs
from muster.webhook.certificates.certificate_bundle import issue

BUNDLE = issue(Certificates(), datetime(2026, 1, 1, tzinfo=UTC))
TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJtdXN0ZXIifQ.c2lnbmF0dXJl"


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    output = io.StringIO()
    logs.configure(Log(), output)
    yield output
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) for line in stream.getvalue().splitlines()]


def test_a_line_is_json(stream: io.StringIO) -> None:
    """Time, level, logger and event first; then the rest."""
    logs.logger("scheduler").info("cycle", seconds=0.5, verdicts={"Scheduled": 3})
    (line,) = lines(stream)
    assert list(line)[:4] == ["time", "level", "logger", "event"]
    assert datetime.fromisoformat(line.pop("time")).tzinfo is not None
    assert line == {
        "level": "info",
        "logger": "muster.scheduler",
        "event": "cycle",
        "seconds": 0.5,
        "verdicts": {"Scheduled": 3},
    }


def test_the_key_of_a_gang_comes_first(stream: io.StringIO) -> None:
    logs.logger("apply").info("bound", pod="p0", gang="team/llama")
    (line,) = lines(stream)
    assert list(line) == ["time", "level", "logger", "event", "gang", "pod"]


def test_libraries_write_the_same_way(stream: io.StringIO) -> None:
    logging.getLogger("aiohttp.client").warning("slow %s", "answer")
    logging.getLogger("uvicorn.error").info("Press CTRL+C to quit", extra={"color_message": "\x1b[36m"})
    (slow,) = lines(stream)
    assert (slow["event"], slow["logger"], slow["level"]) == ("slow answer", "aiohttp.client", "warning")


def test_the_level_is_that_of_the_configuration(stream: io.StringIO) -> None:
    """And probes write nothing."""
    logs.logger("a").debug("quiet")
    logging.getLogger("uvicorn.access").info("GET /livez")
    assert lines(stream) == []
    logs.configure(Log(level="debug"), stream)
    logs.logger("a").debug("loud")
    assert [line["event"] for line in lines(stream)] == ["loud"]


def test_exceptions_are_one_line(stream: io.StringIO) -> None:
    """With where it happened, and without secrets in it."""
    try:
        raise ValueError(f"Authorization: Bearer {TOKEN}")
    except ValueError:
        logs.logger("a").exception("failed")
    (line,) = lines(stream)
    assert "ValueError" in line["exception"]
    assert TOKEN not in stream.getvalue()


SECRETS = {
    "a token by its name": {"token": "abc123xyz"},
    "deep inside": {"request": {"headers": [{"Authorization": "abc123xyz"}]}},
    "a token by its form": {"said": f"got {TOKEN} there"},
    "a header in a text": {"said": "Bearer abc123xyz"},
    "basic": {"said": "authorization basic YWJjMTIzeHl6"},
    "a key": {"said": BUNDLE.key.decode()},
    "a certificate": {"said": f"x {BUNDLE.certificate.decode()} y"},
    "bytes": {"said": BUNDLE.key},
    "the data of a Secret": {"data": {"tls.key": "LS0tLS1CRUdJTiBQUklWQVRF"}},
    "base64 of PEM": {"said": "LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0tabc123xyz"},
    "a URL": {"said": "https://user:abc123xyz@example.com/a"},
    "a query": {"said": "https://example.com/a?token=abc123xyz&b=1"},
    "a caBundle": {"caBundle": "abc123xyz"},
    "a password": {"db_password": "abc123xyz"},
    "an object": {"said": BUNDLE},
    "half a key": {"said": BUNDLE.key.decode()[:90]},
}


@pytest.mark.parametrize("fields", SECRETS.values(), ids=SECRETS)
def test_no_secret_reaches_a_log(stream: io.StringIO, fields: dict[str, Any]) -> None:
    """By the name of its field, or by how it looks."""
    logs.logger("a").info("event", **fields)
    logging.getLogger("library").warning("event %s", fields)
    written = stream.getvalue()
    inside = [line for pem in (BUNDLE.key, BUNDLE.certificate) for line in pem.decode().splitlines()[1:-1]]
    for secret in (TOKEN, "YWJjMTIzeHl6", "LS0tLS1CRUdJTi", *inside):
        assert secret not in written
    assert "abc123xyz" not in msgspec.json.encode(lines(stream)[0]).decode()


def test_fields_that_are_no_secrets_stay(stream: io.StringIO) -> None:
    """Names of secrets are no secrets, and the key of a gang is none either."""
    fields = {"secret_name": "muster-webhook", "gang": "team/llama", "keys": 3, "expires": "2026-01-01", "token": ""}
    logs.logger("a").info("event", **fields)
    assert lines(stream)[0].items() >= fields.items()


def test_what_objects_hold_paints_nothing_on_a_terminal(stream: io.StringIO) -> None:
    text = "\x1b[2J\x9b31m\u202e\x7f\nforged"
    logs.logger("x").info(text, gang=text)
    logging.getLogger("library").warning(text)
    assert stream.getvalue().isascii()
    assert stream.getvalue().replace("\n", "").isprintable()
    assert [line["event"] for line in lines(stream)] == [text, text]


def test_every_value_can_be_written(stream: io.StringIO) -> None:
    """Lone surrogates, huge numbers, depth and length."""
    deep: Any = "end"
    for _ in range(50):
        deep = [deep]
    logs.logger("a").info("event", half="\ud800", huge=10**5000, deep=deep, long="x" * 100_000, other={1, 2}.__class__)
    (line,) = lines(stream)
    assert line["event"] in ("event", "'event'")
    assert len(stream.getvalue()) < 100_000

"""Logs: one JSON object a line on stderr, with the gang's key, and without secrets.

Rule: every line passes `redact`, also those of libraries. A key that was logged must be replaced.
"""

import logging
import re
import sys
from collections.abc import MutableMapping
from typing import Any, TextIO

import msgspec
import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from muster.config.settings import Log
from muster.control_characters import escape_json

HIDDEN = "[redacted]"
_DEEPEST = 8
_HUGE = 2**63
_LONGEST = 8_192  # characters of one text
_SECRET_KEYS = re.compile(
    r"token|secret|passw|authorization|credential|cookie|private|api_?key|pem$|ca_?bundle|"
    r"(?:^|[-_.])key(?:_data)?$|certificate(?:_?data|_?authority_?data)?$|\.key$|\.crt$",
    re.IGNORECASE,
)
_NAMES_ONLY = re.compile(
    r"(?:name|namespace|kind|count|days|seconds|source)$", re.IGNORECASE
)  # `secret_name` is no secret
_SECRET_TEXT = (
    re.compile(r"-----BEGIN [A-Z0-9 ]+-----.*?(?:-----END [A-Z0-9 ]+-----|\Z)", re.DOTALL),  # keys and certificates
    re.compile(r"\bLS0tLS1CRUdJTi[A-Za-z0-9+/=_-]+"),  # the same, as Secrets hold them
    re.compile(r"\beyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]*"),  # tokens of service accounts
    re.compile(r"(?i)(?<=\bbearer )[^\s\"',]+"),
    re.compile(r"(?i)(?<=\bbasic )[A-Za-z0-9+/=]{8,}"),
    re.compile(r"(?i)(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"),  # user and password in a URL
    re.compile(r"(?i)(?<=[?&]token=)[^&\s]+|(?<=[?&]access_token=)[^&\s]+"),
)


def configure(settings: Log, stream: TextIO | None = None) -> None:
    """Logs everything as JSON, also what libraries log. Call it once, when the program starts."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*_shared(), structlog.stdlib.ExtraAdder()],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_last()],
        )
    )
    level = logging.getLevelNamesMapping()[settings.level.upper()]
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name in ("uvicorn", "uvicorn.access", "uvicorn.error"):  # they have handlers of their own
        logging.getLogger(name).handlers.clear()
        logging.getLogger(name).propagate = True
        logging.getLogger(name).setLevel(logging.ERROR)  # any peer could fill the log with its own mistakes
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *_shared(),
            structlog.processors.format_exc_info,
            redact,  # before a handler of a library sees it
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )


def _shared() -> list[Processor]:
    return [
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
    ]


def _last() -> list[Processor]:
    return [structlog.processors.format_exc_info, redact, structlog.processors.JSONRenderer(serializer=_json)]


def logger(name: str) -> structlog.stdlib.BoundLogger:
    """The log of one part of muster."""
    bound: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger(f"muster.{name}")
    return bound


def redact(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Hides tokens, keys and certificates, at any depth of the event."""
    return {str(key): _redacted(key, value, _DEEPEST) for key, value in event.items()}


def _redacted(key: Any, value: Any, levels: int) -> Any:
    if isinstance(key, str) and _SECRET_KEYS.search(key) and not _NAMES_ONLY.search(key) and value:
        return HIDDEN
    match value:
        case None | bool() | float():
            return value
        case int():
            return value if -_HUGE < value < _HUGE else "a huge number"
        case str():
            return redact_text(value)
        case bytes():
            return f"{len(value)} bytes"
        case MutableMapping() if levels:
            return {str(name): _redacted(name, inner, levels - 1) for name, inner in value.items()}
        case list() | tuple() if levels:
            return [_redacted("", inner, levels - 1) for inner in value]
        case _:
            return redact_text(str(value))


def redact_text(text: str) -> str:
    """Text without what looks like a secret, cut where it is too long."""
    for pattern in _SECRET_TEXT:
        text = pattern.sub(HIDDEN, text)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text)} characters)"


def _json(event: Any, **_more: Any) -> str:
    first = ("time", "level", "logger", "event", "gang")
    ordered = {key: event[key] for key in first if key in event} | event
    try:
        return escape_json(msgspec.json.encode(ordered, enc_hook=str).decode())
    except (UnicodeError, ValueError, OverflowError):  # lone surrogates, numbers beyond 64 bits
        return msgspec.json.encode({key: ascii(value)[:_LONGEST] for key, value in ordered.items()}).decode()

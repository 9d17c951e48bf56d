"""Options of writes: field manager, dry run, field validation, and DeleteOptions."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct, field
from starlette.requests import Request

from muster.embedded.admission.admission_chain import reject_unknown_fields
from muster.embedded.rest.negotiation import content_type, decode_body, is_dry_run, query_flag, query_int, read_body
from muster.embedded.rest.responses import status_error
from muster.kube.cluster import Raw

PROPAGATIONS = ("", "Orphan", "Background", "Foreground")
VALIDATIONS = ("", "Strict", "Warn", "Ignore")
MAX_MANAGER_LENGTH = 128


class WriteOptions(Struct, frozen=True):
    """Options of create, update and patch."""

    field_manager: str
    dry_run: bool
    validation: str  # fieldValidation; empty: Warn
    force: bool = False
    warnings: list[str] = field(default_factory=list)

    def on_unknown_fields(self, paths: Sequence[str]) -> None:
        """Reject unknown fields, warn about them, or ignore them."""
        if self.validation == "Strict":
            reject_unknown_fields(paths)
        if self.validation != "Ignore":
            self.warnings.extend(f'unknown field "{path}"' for path in paths)


class DeleteOptions(Struct, frozen=True):
    """Options of delete."""

    uid: str = ""
    resource_version: str = ""
    grace_seconds: int | None = None
    propagation: str = ""
    dry_run: bool = False


def parse_write_options(request: Request, *, is_apply: bool = False) -> WriteOptions:
    """The options of create, update and patch; ApiError 400 and 422 for values that no API server accepts."""
    query = request.query_params
    validation = query.get("fieldValidation", "")
    if validation not in VALIDATIONS:
        raise status_error(422, f"fieldValidation: `{validation[:60]}` is none of Ignore, Warn, Strict")
    manager = query.get("fieldManager", "")
    if len(manager) > MAX_MANAGER_LENGTH or not manager.isprintable():
        raise status_error(422, f"fieldManager: at most {MAX_MANAGER_LENGTH} printable characters")
    force = query_flag(query, "force")
    if is_apply and not manager:
        raise status_error(422, "fieldManager: Required value: is required for apply patch")
    if force and not is_apply:
        raise status_error(422, "force: may only be set for apply patch")
    return WriteOptions(manager or _default_manager(request), is_dry_run(query), validation, force)


def _default_manager(request: Request) -> str:
    """The field manager by user agent, as in Kubernetes: `kubectl/v1.33 …` is kubectl."""
    name = request.headers.get("user-agent", "").partition("/")[0]
    return "".join(filter(str.isprintable, name))[:MAX_MANAGER_LENGTH] or "unknown"


async def parse_delete_options(request: Request) -> DeleteOptions:
    """The options of a delete, from the body (`DeleteOptions`) before the query."""
    query = request.query_params
    sent = await _read_delete_options(request)
    preconditions = _object(sent, "preconditions")
    propagation = sent.get("propagationPolicy") or query.get("propagationPolicy", "")
    if sent.get("orphanDependents") is not None and not propagation:
        propagation = "Orphan" if sent["orphanDependents"] is True else "Background"
    if propagation not in PROPAGATIONS:
        raise status_error(
            422, f"propagationPolicy: `{str(propagation)[:60]}` is none of Orphan, Background, Foreground"
        )
    return DeleteOptions(
        _text(preconditions, "uid"),
        _text(preconditions, "resourceVersion"),
        _grace_seconds(sent.get("gracePeriodSeconds", query_int(query, "gracePeriodSeconds"))),
        propagation,
        is_dry_run(query, sent),
    )


def eviction_options(options: Any, request: Request) -> DeleteOptions:
    """The options of an eviction, from its `deleteOptions`."""
    sent = options if isinstance(options, dict) else {}
    return DeleteOptions(
        uid=_text(_object(sent, "preconditions"), "uid"),
        grace_seconds=_grace_seconds(sent.get("gracePeriodSeconds")),
        dry_run=is_dry_run(request.query_params, sent),
    )


async def _read_delete_options(request: Request) -> Raw:
    data = await read_body(request)
    if not data.strip():
        return {}
    sent = decode_body(data, content_type(request))
    if not isinstance(sent, dict) or sent.get("kind", "DeleteOptions") != "DeleteOptions":
        raise status_error(400, "the body of a delete must be DeleteOptions, or nothing")
    return sent


def _grace_seconds(seconds: Any) -> int | None:
    if seconds is None or (isinstance(seconds, int) and abs(seconds) < 2**62):
        return seconds
    raise status_error(400, "gracePeriodSeconds: must be a whole number")


def _object(sent: Raw, name: str) -> Raw:
    value = sent.get(name)
    if value is None:
        return {}
    if isinstance(value, dict):
        return value
    raise status_error(400, f"{name}: must be an object")


def _text(sent: Raw, name: str) -> str:
    value = sent.get(name) or ""
    if isinstance(value, str):
        return value
    raise status_error(400, f"{name}: must be text")

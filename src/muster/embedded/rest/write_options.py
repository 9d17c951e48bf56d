"""What a request says beside its object: who writes, whether for real, and how something is to go."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct, field
from starlette.requests import Request

from muster.embedded.admission.admission_chain import reject_unknown_fields
from muster.embedded.rest.negotiation import body, content_type, dry_run, flag, value, whole
from muster.embedded.rest.responses import refusal
from muster.kube.cluster import Raw

PROPAGATIONS = ("", "Orphan", "Background", "Foreground")
VALIDATIONS = ("", "Strict", "Warn", "Ignore")
LONGEST_MANAGER = 128


class WriteOptions(Struct, frozen=True):
    """Options of create, update and patch."""

    manager: str
    dry_run: bool
    validation: str  # what is done about unknown fields; empty: Warn
    force: bool = False
    warnings: list[str] = field(default_factory=list)

    def on_unknown_fields(self, places: Sequence[str]) -> None:
        """Fields that nobody knows are refused, told, or passed over."""
        if self.validation == "Strict":
            reject_unknown_fields(places)
        if self.validation != "Ignore":
            self.warnings.extend(f'unknown field "{place}"' for place in places)


class DeleteOptions(Struct, frozen=True):
    """Options of delete."""

    uid: str = ""
    resource_version: str = ""
    grace_seconds: int | None = None
    propagation: str = ""
    dry_run: bool = False


def writing(request: Request, *, applies: bool = False) -> WriteOptions:
    """400 and 422 for what no API server understands."""
    query = request.query_params
    validation = query.get("fieldValidation", "")
    if validation not in VALIDATIONS:
        raise refusal(422, f"fieldValidation: `{validation[:60]}` is none of Ignore, Warn, Strict")
    manager = query.get("fieldManager", "")
    if len(manager) > LONGEST_MANAGER or not manager.isprintable():
        raise refusal(422, f"fieldManager: at most {LONGEST_MANAGER} printable characters")
    force = flag(query, "force")
    if applies and not manager:
        raise refusal(422, "fieldManager: Required value: is required for apply patch")
    if force and not applies:
        raise refusal(422, "force: may only be set for apply patch")
    return WriteOptions(manager or _agent(request), dry_run(query), validation, force)


def _agent(request: Request) -> str:
    """The program behind a request, as Kubernetes guesses it: `kubectl/v1.33 …` is kubectl."""
    name = request.headers.get("user-agent", "").partition("/")[0]
    return "".join(filter(str.isprintable, name))[:LONGEST_MANAGER] or "unknown"


async def deleting(request: Request) -> DeleteOptions:
    """From the query, and from `DeleteOptions` in the body, which win."""
    query = request.query_params
    sent = await _sent(request)
    preconditions = _object(sent, "preconditions")
    propagation = sent.get("propagationPolicy") or query.get("propagationPolicy", "")
    if sent.get("orphanDependents") is not None and not propagation:
        propagation = "Orphan" if sent["orphanDependents"] is True else "Background"
    if propagation not in PROPAGATIONS:
        raise refusal(422, f"propagationPolicy: `{str(propagation)[:60]}` is none of Orphan, Background, Foreground")
    return DeleteOptions(
        _text(preconditions, "uid"),
        _text(preconditions, "resourceVersion"),
        _grace(sent.get("gracePeriodSeconds", whole(query, "gracePeriodSeconds"))),
        propagation,
        dry_run(query, sent),
    )


def deleting_from(options: Any, request: Request) -> DeleteOptions:
    """From the `deleteOptions` of an Eviction."""
    sent = options if isinstance(options, dict) else {}
    return DeleteOptions(
        uid=_text(_object(sent, "preconditions"), "uid"),
        grace_seconds=_grace(sent.get("gracePeriodSeconds")),
        dry_run=dry_run(request.query_params, sent),
    )


async def _sent(request: Request) -> Raw:
    data = await body(request)
    if not data.strip():
        return {}
    found = value(data, content_type(request))
    if not isinstance(found, dict) or found.get("kind", "DeleteOptions") != "DeleteOptions":
        raise refusal(400, "the body of a delete must be DeleteOptions, or nothing")
    return found


def _grace(seconds: Any) -> int | None:
    if seconds is None or (isinstance(seconds, int) and abs(seconds) < 2**62):
        return seconds
    raise refusal(400, "gracePeriodSeconds: must be a whole number")


def _object(sent: Raw, name: str) -> Raw:
    found = sent.get(name)
    if found is None:
        return {}
    if isinstance(found, dict):
        return found
    raise refusal(400, f"{name}: must be an object")


def _text(sent: Raw, name: str) -> str:
    found = sent.get(name) or ""
    if isinstance(found, str):
        return found
    raise refusal(400, f"{name}: must be text")

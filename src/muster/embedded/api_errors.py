"""ApiErrors of the embedded cluster, with the reasons and messages of an API server."""

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from muster.api.resources import Resource
from muster.kube.errors import ApiError


class Cause(Struct, frozen=True):
    """One problem of an object: field, message and reason."""

    field: str
    message: str
    reason: str = "FieldValueInvalid"


def qualified(resource: Resource) -> str:
    """The resource as messages name it: `podgroups.scheduling.run.ai`, `pods`."""
    return f"{resource.plural}.{resource.group}" if resource.group else resource.plural


def _details(resource: Resource, name: str, kind: str, **more: Any) -> dict[str, Any]:
    group = {"group": resource.group} if resource.group else {}
    return {**({"name": name} if name else {}), **group, "kind": kind, **more}


def not_found(resource: Resource, name: str) -> ApiError:
    """404: the object does not exist."""
    message = f'{qualified(resource)} "{name}" not found'
    return ApiError(404, "NotFound", message, _details(resource, name, resource.plural))


def not_served() -> ApiError:
    """404: the kind is not served."""
    return ApiError(404, "NotFound", "the server could not find the requested resource")


def already_exists(resource: Resource, name: str) -> ApiError:
    """409: an object of this name exists."""
    message = f'{qualified(resource)} "{name}" already exists'
    return ApiError(409, "AlreadyExists", message, _details(resource, name, resource.plural))


def conflict(resource: Resource, name: str, reason: str, causes: Iterable[Cause] = ()) -> ApiError:
    """409: the object is not in the state that the request requires."""
    message = f'Operation cannot be fulfilled on {qualified(resource)} "{name}": {reason}'
    return ApiError(409, "Conflict", message, _details(resource, name, resource.plural, **_causes(causes)))


def out_of_date(resource: Resource, name: str) -> ApiError:
    """409: the resourceVersion of the write is not the latest."""
    reason = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(resource, name, reason)


def other_uid(resource: Resource, name: str, expected: str, actual: str) -> ApiError:
    """409: the object of this name has another uid."""
    reason = f"Precondition failed: UID in precondition: {expected}, UID in object meta: {actual}"
    return conflict(resource, name, reason)


def invalid(resource: Resource, name: str, causes: Iterable[Cause]) -> ApiError:
    """422: validation failed; every problem is a cause."""
    problems = tuple(causes)
    messages = [f"{cause.field}: {cause.message}" if cause.field else cause.message for cause in problems]
    text = messages[0] if len(messages) == 1 else f"[{', '.join(messages)}]"
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    message = f'{kind} "{name}" is invalid: {text}'
    return ApiError(422, "Invalid", message, _details(resource, name, resource.kind, **_causes(problems)))


def forbidden(resource: Resource, name: str, reason: str, causes: Iterable[Cause] = ()) -> ApiError:
    """403: rejected by admission."""
    message = f'{qualified(resource)} "{name}" is forbidden: {reason}'
    return ApiError(403, "Forbidden", message, _details(resource, name, resource.plural, **_causes(causes)))


def bad_request(message: str) -> ApiError:
    """400: the request is malformed."""
    return ApiError(400, "BadRequest", message)


def unsupported(message: str) -> ApiError:
    """415: the patch type is not supported for this kind."""
    return ApiError(415, "UnsupportedMediaType", message)


def no_such_method(resource: Resource, verb: str) -> ApiError:
    """405: the kind does not support this verb or subresource."""
    return ApiError(405, "MethodNotAllowed", f"{verb} is not supported on resources of kind {qualified(resource)}")


def expired(message: str) -> ApiError:
    """410: the resourceVersion is compacted."""
    return ApiError(410, "Expired", message)


def too_large(version: int, latest: int) -> ApiError:
    """504: a resourceVersion in the future."""
    cause = Cause("", "Too large resource version", "ResourceVersionTooLarge")
    message = f"Timeout: Too large resource version: {version}, current: {latest}"
    return ApiError(504, "Timeout", message, {"retryAfterSeconds": 1, **_causes([cause])})


def too_many_requests(message: str, causes: Iterable[Cause], seconds: int = 0) -> ApiError:
    """429: retry later."""
    retry = {"retryAfterSeconds": seconds} if seconds else {}
    return ApiError(429, "TooManyRequests", message, {**retry, **_causes(causes)})


def _causes(causes: Iterable[Cause]) -> dict[str, Any]:
    listed = [
        {"reason": cause.reason, "message": cause.message, **({"field": cause.field} if cause.field else {})}
        for cause in causes
    ]
    return {"causes": listed} if listed else {}

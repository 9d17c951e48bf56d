"""The answers other than success, worded as an API server words them."""

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from muster.api.resources import Resource
from muster.kube.errors import ApiError


class Cause(Struct, frozen=True):
    """One thing that is wrong with an object, and where."""

    field: str
    message: str
    reason: str = "FieldValueInvalid"


def qualified(resource: Resource) -> str:
    """`podgroups.scheduling.run.ai`, `pods`."""
    return f"{resource.plural}.{resource.group}" if resource.group else resource.plural


def _details(resource: Resource, name: str, kind: str, **more: Any) -> dict[str, Any]:
    group = {"group": resource.group} if resource.group else {}
    return {**({"name": name} if name else {}), **group, "kind": kind, **more}


def not_found(resource: Resource, name: str) -> ApiError:
    """404: no such object."""
    message = f'{qualified(resource)} "{name}" not found'
    return ApiError(404, "NotFound", message, _details(resource, name, resource.plural))


def not_served() -> ApiError:
    """404: no such kind."""
    return ApiError(404, "NotFound", "the server could not find the requested resource")


def already_exists(resource: Resource, name: str) -> ApiError:
    """409: the name is taken."""
    message = f'{qualified(resource)} "{name}" already exists'
    return ApiError(409, "AlreadyExists", message, _details(resource, name, resource.plural))


def conflict(resource: Resource, name: str, why: str, causes: Iterable[Cause] = ()) -> ApiError:
    """409: the object is not as the caller thought."""
    message = f'Operation cannot be fulfilled on {qualified(resource)} "{name}": {why}'
    return ApiError(409, "Conflict", message, _details(resource, name, resource.plural, **_causes(causes)))


def out_of_date(resource: Resource, name: str) -> ApiError:
    """409: written on top of something newer."""
    why = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(resource, name, why)


def other_uid(resource: Resource, name: str, wanted: str, found: str) -> ApiError:
    """409: another object bears this name now."""
    why = f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}"
    return conflict(resource, name, why)


def invalid(resource: Resource, name: str, causes: Iterable[Cause]) -> ApiError:
    """422: every problem is a cause."""
    problems = tuple(causes)
    words = [f"{one.field}: {one.message}" if one.field else one.message for one in problems]
    text = words[0] if len(words) == 1 else f"[{', '.join(words)}]"
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    message = f'{kind} "{name}" is invalid: {text}'
    return ApiError(422, "Invalid", message, _details(resource, name, resource.kind, **_causes(problems)))


def forbidden(resource: Resource, name: str, why: str, causes: Iterable[Cause] = ()) -> ApiError:
    """403: admission says no."""
    message = f'{qualified(resource)} "{name}" is forbidden: {why}'
    return ApiError(403, "Forbidden", message, _details(resource, name, resource.plural, **_causes(causes)))


def bad_request(why: str) -> ApiError:
    """400: the request itself makes no sense."""
    return ApiError(400, "BadRequest", why)


def unsupported(why: str) -> ApiError:
    """415: this kind of patch is not for this kind of object."""
    return ApiError(415, "UnsupportedMediaType", why)


def no_such_method(resource: Resource, verb: str) -> ApiError:
    """405: the kind has no such subresource."""
    return ApiError(405, "MethodNotAllowed", f"{verb} is not supported on resources of kind {qualified(resource)}")


def expired(why: str) -> ApiError:
    """410: the history does not reach back so far."""
    return ApiError(410, "Expired", why)


def too_large(version: int, latest: int) -> ApiError:
    """504: a version that has not been yet."""
    cause = Cause("", "Too large resource version", "ResourceVersionTooLarge")
    message = f"Timeout: Too large resource version: {version}, current: {latest}"
    return ApiError(504, "Timeout", message, {"retryAfterSeconds": 1, **_causes([cause])})


def too_many_requests(message: str, causes: Iterable[Cause], seconds: int = 0) -> ApiError:
    """429: not now."""
    later = {"retryAfterSeconds": seconds} if seconds else {}
    return ApiError(429, "TooManyRequests", message, {**later, **_causes(causes)})


def _causes(causes: Iterable[Cause]) -> dict[str, Any]:
    listed = [
        {"reason": one.reason, "message": one.message, **({"field": one.field} if one.field else {})} for one in causes
    ]
    return {"causes": listed} if listed else {}

"""Where objects are on an API server; every part of a path is percent-encoded."""

from urllib.parse import quote

from muster.api.names import DEFAULT_NAMESPACE
from muster.api.resources import Resource
from muster.kube.cluster import Raw
from muster.kube.errors import ApiError


def collection(resource: Resource, namespace: str = "") -> str:
    """All objects of a kind, in one namespace or in all."""
    root = f"/apis/{_part(resource.group)}" if resource.group else "/api"
    inside = f"/namespaces/{_part(namespace)}" if resource.namespaced and namespace else ""
    return f"{root}/{_part(resource.version)}{inside}/{_part(resource.plural)}"


def home(resource: Resource, namespace: str) -> str:
    """Where a new object goes."""
    return collection(resource, namespace or DEFAULT_NAMESPACE)


def item(resource: Resource, namespace: str, name: str, subresource: str = "") -> str:
    """One object, or a part of it that has a life of its own."""
    whole = f"{home(resource, namespace)}/{_part(name)}"
    return f"{whole}/{_part(subresource)}" if subresource else whole


def named(raw: Raw) -> tuple[str, str]:
    """Namespace and name, as the object says."""
    meta = raw.get("metadata")
    meta = meta if isinstance(meta, dict) else {}
    return str(meta.get("namespace") or ""), str(meta.get("name") or "")


def _part(text: str) -> str:
    """One part of a path; what would make it another path is refused."""
    if text in ("", ".", ".."):
        raise ApiError(400, "BadRequest", f"`{text}` cannot be part of a path: a name is missing or wrong")
    return quote(text, safe="")

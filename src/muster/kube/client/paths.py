"""Paths of objects on an API server; every segment is percent-encoded."""

import re
from functools import lru_cache
from typing import Final
from urllib.parse import quote

from muster.api.names import DEFAULT_NAMESPACE
from muster.api.resources import Resource
from muster.kube.cluster import Raw
from muster.kube.errors import ApiError

PLAIN: Final = re.compile(r"[A-Za-z0-9_.~-]+")  # what needs no encoding: nearly every name


@lru_cache(maxsize=4096)
def collection_path(resource: Resource, namespace: str = "") -> str:
    """All objects of a kind, in one namespace or in all."""
    root = f"/apis/{_segment(resource.group)}" if resource.group else "/api"
    scope = f"/namespaces/{_segment(namespace)}" if resource.namespaced and namespace else ""
    return f"{root}/{_segment(resource.version)}{scope}/{_segment(resource.plural)}"


def creation_path(resource: Resource, namespace: str) -> str:
    """The path to which a new object is posted."""
    return collection_path(resource, namespace or DEFAULT_NAMESPACE)


def object_path(resource: Resource, namespace: str, name: str, subresource: str = "") -> str:
    """One object, or a subresource of it."""
    whole = f"{creation_path(resource, namespace)}/{_segment(name)}"
    return f"{whole}/{_segment(subresource)}" if subresource else whole


def namespace_and_name(raw: Raw) -> tuple[str, str]:
    """Namespace and name from the metadata; empty where it has none."""
    meta = raw.get("metadata")
    meta = meta if isinstance(meta, dict) else {}
    return str(meta.get("namespace") or ""), str(meta.get("name") or "")


def _segment(text: str) -> str:
    """One segment of a path; a text that would make it another path is refused."""
    if text in ("", ".", ".."):
        raise ApiError(400, "BadRequest", f"`{text}` cannot be part of a path: a name is missing or wrong")
    return text if PLAIN.fullmatch(text) else quote(text, safe="")

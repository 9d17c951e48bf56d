"""Label and field selectors of list and watch requests as predicates, and LabelSelectors of objects as text.

What a label selector means is decided in `model.selectors`; here a selector that cannot be read becomes ApiError 400.
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from muster.api.resources import Resource
from muster.embedded.api_errors import bad_request
from muster.kube.cluster import Raw
from muster.model.selectors import meets_all, parse_requirements

_FIELD_REQUIREMENT = re.compile(r"\s*([^=!\s]+)\s*(==|=|!=)\s*(.*?)\s*")
_COMMON = ("metadata.name", "metadata.namespace")
FIELDS: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("", "pods"): (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    ),
    ("", "nodes"): ("spec.unschedulable",),
    ("", "namespaces"): ("status.phase",),
    ("", "secrets"): ("type",),
    ("", "events"): (
        *(
            f"involvedObject.{name}"
            for name in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
        ),
        "reason",
        "reportingComponent",
        "source",
        "type",
    ),
    ("events.k8s.io", "events"): (
        *(
            f"regarding.{name}"
            for name in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
        ),
        "reason",
        "reportingController",
        "type",
    ),
}
_FALSE_WHERE_MISSING = ("spec.unschedulable", "spec.hostNetwork")


@lru_cache(maxsize=1024)
def label_predicate(text: str) -> Callable[[Mapping[str, str]], bool]:
    """Whether labels match a `labelSelector`; ApiError 400 where it cannot be read."""
    try:
        requirements = parse_requirements(text)
    except ValueError as error:
        raise bad_request(f'unable to parse requirement: "{str(error)[:80]}" is not a label selector') from None
    return lambda labels: meets_all(requirements, labels)


def field_predicate(resource: Resource, text: str) -> Callable[[Raw], bool]:
    """Whether an object matches `spec.nodeName=a,status.phase!=Running`; ApiError 400 for fields its kind has not."""
    predicates = [_one_field(resource, part) for part in text.split(",") if part.strip()]
    return lambda raw: all(matches(raw) for matches in predicates)


def _one_field(resource: Resource, part: str) -> Callable[[Raw], bool]:
    match = _FIELD_REQUIREMENT.fullmatch(part)
    if not match:
        raise bad_request(f"invalid field selector: `{part[:80]}`; can't understand it")
    path, value, equal = match[1], match[3], match[2] != "!="
    if path not in (*_COMMON, *FIELDS.get((resource.group, resource.plural), ())):
        raise bad_request(f"field label not supported: {path[:80]}")
    return lambda raw: (_field_text(raw, path) == value) == equal


def _field_text(raw: Raw, path: str) -> str:
    if path == "source":
        return str(raw.get("source", {}).get("component") or raw.get("reportingComponent", ""))
    value: Any = raw
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if value is not None else "false" if path in _FALSE_WHERE_MISSING else ""


def selector_text(selector: Any) -> str:
    """A LabelSelector of an object as text, sorted by key: `a=b,c in (x,y),!d`."""
    if not isinstance(selector, dict):
        return ""
    parts = [(key, f"{key}={value}") for key, value in (selector.get("matchLabels") or {}).items()]
    parts += [
        (requirement.get("key", ""), _requirement_text(requirement))
        for requirement in selector.get("matchExpressions") or ()
    ]
    return ",".join(text for _, text in sorted(parts))


def _requirement_text(requirement: Raw) -> str:
    key, values = str(requirement.get("key", "")), ",".join(sorted(requirement.get("values") or ()))
    text_by_operator = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "DoesNotExist": f"!{key}"}
    return text_by_operator.get(requirement.get("operator", ""), key)

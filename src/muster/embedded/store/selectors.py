"""Label and field selectors, from text and as objects have them, to a question about one object."""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from muster.embedded.api_errors import bad_request
from muster.kube.cluster import Raw, Resource

Labels = Mapping[str, str]
Test = Callable[[Labels], bool]

_KEY = r"[A-Za-z0-9](?:[-A-Za-z0-9_./]*[A-Za-z0-9])?"
_VALUE = r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?)?"
_SET = re.compile(rf"\s*({_KEY})\s+(in|notin)\s+\(([^()]*)\)\s*")
_EQUAL = re.compile(rf"\s*({_KEY})\s*(==|=|!=)\s*({_VALUE})\s*")
_ORDER = re.compile(rf"\s*({_KEY})\s*([<>])\s*(-?[0-9]+)\s*")
_THERE = re.compile(rf"\s*(!?)\s*({_KEY})\s*")

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
_FALSE = ("spec.unschedulable", "spec.hostNetwork")


@lru_cache(maxsize=1024)
def labels(text: str) -> Test:
    """`a=b,c!=d,e in (x,y),f notin (z),g,!h` as a question; ApiError 400 where it cannot be read."""
    tests = tuple(_requirement(part) for part in _parts(text))
    return lambda found: all(test(found) for test in tests)


def _parts(text: str) -> list[str]:
    """Split at commas, except inside brackets."""
    return [part for part in re.split(r",(?![^(]*\))", text) if part.strip()] if text.strip() else []


def _requirement(part: str) -> Test:
    if found := _SET.fullmatch(part):
        key, values = found[1], frozenset(value.strip() for value in found[3].split(","))
        return (lambda of: of.get(key) in values) if found[2] == "in" else (lambda of: of.get(key) not in values)
    if found := _EQUAL.fullmatch(part):
        key, value = found[1], found[3]
        return (lambda of: of.get(key) != value) if found[2] == "!=" else (lambda of: of.get(key) == value)
    if found := _ORDER.fullmatch(part):
        return _compared(found[1], found[2], int(found[3]))
    if found := _THERE.fullmatch(part):
        key, absent = found[2], bool(found[1])
        return lambda of: (key in of) != absent
    raise bad_request(f'unable to parse requirement: "{part.strip()[:80]}" is not a label selector')


def _compared(key: str, sign: str, limit: int) -> Test:
    def holds(of: Labels) -> bool:
        try:
            value = int(of.get(key, ""))
        except ValueError:
            return False
        return value > limit if sign == ">" else value < limit

    return holds


def fields(resource: Resource, text: str) -> Callable[[Raw], bool]:
    """`spec.nodeName=a,status.phase!=Running` as a question; ApiError 400 where a kind cannot be selected by it."""
    tests = [_field(resource, part) for part in text.split(",") if part.strip()]
    return lambda raw: all(test(raw) for test in tests)


def _field(resource: Resource, part: str) -> Callable[[Raw], bool]:
    found = re.fullmatch(r"\s*([^=!\s]+)\s*(==|=|!=)\s*(.*?)\s*", part)
    if not found:
        raise bad_request(f"invalid field selector: `{part[:80]}`; can't understand it")
    path, wanted, equal = found[1], found[3], found[2] != "!="
    if path not in (*_COMMON, *FIELDS.get((resource.group, resource.plural), ())):
        raise bad_request(f"field label not supported: {path[:80]}")
    return lambda raw: (_text(raw, path) == wanted) == equal


def _text(raw: Raw, path: str) -> str:
    if path == "source":
        return str(raw.get("source", {}).get("component") or raw.get("reportingComponent", ""))
    value: Any = raw
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if value is not None else "false" if path in _FALSE else ""


def selects(selector: Any, found: Labels) -> bool:
    """A LabelSelector as objects carry it: none selects nothing, an empty one everything."""
    if not isinstance(selector, dict):
        return False
    return all(found.get(key) == value for key, value in (selector.get("matchLabels") or {}).items()) and all(
        _expression(one, found) for one in selector.get("matchExpressions") or ()
    )


def written(selector: Any) -> str:
    """A LabelSelector as text, by key: `a=b,c in (x,y),!d`."""
    if not isinstance(selector, dict):
        return ""
    parts = [(key, f"{key}={value}") for key, value in (selector.get("matchLabels") or {}).items()]
    parts += [(one.get("key", ""), _worded(one)) for one in selector.get("matchExpressions") or ()]
    return ",".join(text for _, text in sorted(parts))


def _worded(one: Raw) -> str:
    key, values = str(one.get("key", "")), ",".join(sorted(one.get("values") or ()))
    words = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "DoesNotExist": f"!{key}"}
    return words.get(one.get("operator", ""), key)


def _expression(one: Raw, found: Labels) -> bool:
    key, values = one.get("key", ""), one.get("values") or ()
    match one.get("operator"):
        case "In":
            return found.get(key) in values
        case "NotIn":
            return found.get(key) not in values
        case "Exists":
            return key in found
        case "DoesNotExist":
            return key not in found
        case _:
            return False

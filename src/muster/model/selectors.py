"""Label selectors as Kubernetes reads them: LabelSelector objects, and the text of `kubectl -l` (`?labelSelector=`)."""

import re
from collections.abc import Iterable, Mapping

from muster.api.meta import LabelSelector, LabelSelectorRequirement

OBJECT_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")  # Gt and Lt exist in text only
_KEY = r"[A-Za-z0-9](?:[-A-Za-z0-9_./]*[A-Za-z0-9])?"
_VALUE = r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?)?"
_SET = re.compile(rf"\s*({_KEY})\s+(in|notin)\s+\(([^()]*)\)\s*")
_EQUALITY = re.compile(rf"\s*({_KEY})\s*(==|=|!=)\s*({_VALUE})\s*")
_ORDER = re.compile(rf"\s*({_KEY})\s*([<>])\s*(-?[0-9]{{1,18}})\s*")
_EXISTENCE = re.compile(rf"\s*(!?)\s*({_KEY})\s*")
_COMMA_OUTSIDE_PARENTHESES = re.compile(r",(?![^(]*\))")


def selects(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Whether labels match; no selector selects nothing, an empty one everything."""
    if selector is None:
        return False
    return all(labels.get(name) == value for name, value in selector.match_labels.items()) and all(
        requirement.operator in OBJECT_OPERATORS and meets(requirement, labels)
        for requirement in selector.match_expressions
    )


def meets_all(requirements: Iterable[LabelSelectorRequirement], labels: Mapping[str, str]) -> bool:
    """Whether labels meet every requirement."""
    return all(meets(requirement, labels) for requirement in requirements)


def meets(requirement: LabelSelectorRequirement, labels: Mapping[str, str]) -> bool:
    """Whether labels meet one requirement; an unknown operator is never met."""
    match requirement.operator:
        case "In":
            return labels.get(requirement.key) in requirement.values
        case "NotIn":
            return labels.get(requirement.key) not in requirement.values
        case "Exists":
            return requirement.key in labels
        case "DoesNotExist":
            return requirement.key not in labels
        case "Gt" | "Lt":
            return _compares(labels.get(requirement.key, ""), requirement.operator, int(requirement.values[0]))
        case _:
            return False


def _compares(value: str, operator: str, bound: int) -> bool:
    try:
        number = int(value)
    except ValueError:
        return False
    return number > bound if operator == "Gt" else number < bound


def parse_requirements(text: str) -> tuple[LabelSelectorRequirement, ...]:
    """The requirements of `a=b,c!=d,e in (x,y),f notin (z),g,!h,i>5`. ValueError holds the part that cannot be read."""
    return tuple(_parse_requirement(part) for part in _COMMA_OUTSIDE_PARENTHESES.split(text) if part.strip())


def _parse_requirement(part: str) -> LabelSelectorRequirement:
    if match := _SET.fullmatch(part):
        values = tuple(value.strip() for value in match[3].split(","))
        return LabelSelectorRequirement(match[1], "In" if match[2] == "in" else "NotIn", values)
    if match := _EQUALITY.fullmatch(part):
        return LabelSelectorRequirement(match[1], "NotIn" if match[2] == "!=" else "In", (match[3],))
    if match := _ORDER.fullmatch(part):
        return LabelSelectorRequirement(match[1], "Gt" if match[2] == ">" else "Lt", (match[3],))
    if match := _EXISTENCE.fullmatch(part):
        return LabelSelectorRequirement(match[2], "DoesNotExist" if match[1] else "Exists")
    raise ValueError(part.strip())

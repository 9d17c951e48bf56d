"""Label selectors, as Kubernetes reads them."""

from collections.abc import Mapping

from muster.api.meta import LabelSelector, LabelSelectorRequirement


def selects(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Whether labels match; no selector selects nothing, an empty one everything."""
    if selector is None:
        return False
    return all(labels.get(name) == value for name, value in selector.match_labels.items()) and all(
        _holds(one, labels) for one in selector.match_expressions
    )


def _holds(one: LabelSelectorRequirement, labels: Mapping[str, str]) -> bool:
    match one.operator:
        case "In":
            return labels.get(one.key) in one.values
        case "NotIn":
            return labels.get(one.key) not in one.values
        case "Exists":
            return one.key in labels
        case "DoesNotExist":
            return one.key not in labels
        case _:
            return False

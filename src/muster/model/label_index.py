"""An index of pods by label: finds those that an inter-pod rule selects without a check of every pod."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from muster.api.core import Pod

if TYPE_CHECKING:
    from muster.model.inter_pod_rules import Rule, Scope


class LabelIndex:
    """Pods by label. A selector that names a value is compared only with the pods that have it."""

    def __init__(self, pods: Sequence[Pod], scope: "Scope") -> None:
        self._pods, self._scope = pods, scope
        self._by_label: dict[tuple[str, str], list[int]] = {}
        for i, pod in enumerate(pods):
            for label in pod.metadata.labels.items():
                self._by_label.setdefault(label, []).append(i)

    def selected(self, rule: "Rule") -> list[int]:
        """The pods that a rule selects, by index, in order."""
        return sorted(i for i in self._candidates(rule) if self._scope.selects(rule, self._pods[i]))

    def _candidates(self, rule: "Rule") -> Iterable[int]:
        """The pods with a label value that the selector names, the rarest one; all pods where it names none."""
        selector = rule.selector
        if selector is None:
            return ()
        named = [self._by_label.get(label, []) for label in selector.match_labels.items()]
        for expression in selector.match_expressions:
            if expression.operator == "In":
                values = dict.fromkeys(expression.values)
                named.append([i for value in values for i in self._by_label.get((expression.key, value), ())])
        return min(named, key=len, default=range(len(self._pods)))

"""Inter-pod rules during a cycle: where the pods of each rule are now, and the nodes that remain for a class."""

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from muster.model.inter_pod_rules import Rule, RuleMatches
from muster.model.snapshot import PodClass
from muster.placement.filters import Mask, Scene, affine, selected, tolerated

Ints = NDArray[np.int64]


class InterPodState:
    """Matching pods and carriers by rule and node: pods that run, and pods that this cycle has placed."""

    def __init__(self, scene: Scene) -> None:
        known = scene.snapshot.inter_pod_rules
        self.scene = scene
        self.rules = known.rules
        self.classes = known.classes
        self.selected = known.selected.copy()
        self.carriers = known.carriers.copy()
        self.touched = frozenset(
            i for i, rule_matches in enumerate(known.classes) if rule_matches.selected_by or rule_matches.carries
        )
        self._expected = {rule for rule_matches in known.classes[: known.waiting] for rule in rule_matches.selected_by}
        self._about: dict[int, list[int]] = {}  # by rule: classes that it selects, or that carry it
        for i, rule_matches in enumerate(known.classes):
            for rule in dict.fromkeys((*rule_matches.selected_by, *rule_matches.carries)):
                self._about.setdefault(rule, []).append(i)

    def copy(self) -> "InterPodState":
        """An independent copy, for a hypothesis."""
        duplicate = object.__new__(InterPodState)
        duplicate.__dict__ |= self.__dict__ | {"selected": self.selected.copy(), "carriers": self.carriers.copy()}
        return duplicate

    def put(self, node: int, rule_matches: RuleMatches, count: int) -> None:
        """Add pods to a node; a negative count removes them."""
        for rule in rule_matches.selected_by:
            self.selected.add(rule, node, count)
        for rule in rule_matches.carries:
            self.carriers.add(rule, node, count)

    def about(self, rule_matches: RuleMatches) -> Iterator[int]:
        """Classes whose allowed nodes may change when a pod with these matches is added or removed."""
        for rule in (*rule_matches.selected_by, *rule_matches.carries):
            yield from self._about.get(rule, ())

    def is_expected(self, number: int) -> bool:
        """Whether a rule selects some pending pod."""
        return number in self._expected

    def places(self, rule: Rule) -> Ints:
        """The domain of each node by the rule's topology key; -1: none."""
        return self.scene.labels.places(rule.key)

    def allowed(self, pod_class: int) -> Mask:
        """Nodes that anti-affinity with placed pods leaves to a class, and where its other rules can still be met."""
        mask = np.ones(len(self.scene.snapshot.nodes), dtype=bool)
        for _, allowed_by_rule in self.masks(pod_class):
            mask &= allowed_by_rule
        return mask

    def masks(self, pod_class: int) -> Iterator[tuple[str, Mask]]:
        """The masks of `allowed`, rule by rule, each with the name of its kind."""
        for number in self.classes[pod_class].carries:
            rule = self.rules[number]
            if rule.kind == "anti_affinity":
                yield "podAntiAffinity", ~self._shared(rule, self.selected.row(number))
            elif rule.kind == "affinity" and number not in self._expected:
                yield "podAffinity", self._shared(rule, self.selected.row(number))
            elif rule.firm:
                yield "podAffinity" if rule.kind == "affinity" else "topologySpread", self.places(rule) >= 0
        for number in self.classes[pod_class].selected_by:
            if self.rules[number].kind == "anti_affinity":
                yield "podAntiAffinity", ~self._shared(self.rules[number], self.carriers.row(number))

    def _shared(self, rule: Rule, counts: Ints) -> Mask:
        """Nodes that share a domain with one of the counted pods."""
        places = self.places(rule)
        held = np.zeros(int(places.max(initial=-1)) + 2, dtype=bool)  # the last entry: nodes in no domain
        held[places[counts > 0]] = True
        held[-1] = False
        mask: Mask = held[places]
        return mask

    def counting(self, rule: Rule) -> Mask:
        """Nodes whose domains count for a spread, by its `nodeAffinityPolicy` and `nodeTaintsPolicy`."""
        mask = self.places(rule) >= 0
        if rule.carrier is None:
            return mask
        carrier = PodClass(-1, rule.carrier, np.zeros(0, dtype=np.int64))
        if rule.by_affinity:
            mask &= selected(carrier, self.scene) & affine(carrier, self.scene)
        if rule.by_taints:
            mask &= tolerated(carrier, self.scene)
        return mask

    def among(self, pod_classes: Iterable[int], wishes: bool = False) -> tuple[int, ...]:
        """Rules to check when these classes are placed together (`wishes`: soft ones too); masks cover the others."""
        pod_classes = tuple(pod_classes)
        carried = sorted({rule for pod_class in pod_classes for rule in self.classes[pod_class].carries})
        met = {rule for pod_class in pod_classes for rule in self.classes[pod_class].selected_by}
        return tuple(number for number in carried if self._matters(number, number in met, wishes))

    def _matters(self, number: int, met: bool, wishes: bool) -> bool:
        rule = self.rules[number]
        match rule.kind:
            case "anti_affinity":
                return met and not rule.alone
            case "affinity":
                return number in self._expected
            case "spread":
                return rule.firm or wishes

"""Rules between pods: who must be near whom, who must not, and how evenly pods are spread (X5, decision 0007).

Only rules that can touch a waiting pod are kept: those that waiting pods carry, and the anti-affinity of running pods
against them. What a rule means for a placement is decided in `placement`; here is who it is about and where they are.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

import msgspec
import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from muster.api import names
from muster.api.core import Namespace, Pod, PodAffinityTerm, TopologySpreadConstraint
from muster.api.meta import LabelSelector, LabelSelectorRequirement
from muster.api.objects import key
from muster.model.selectors import selects

Ints = NDArray[np.int64]
ALONE = "alone/"


class Rule(Struct, frozen=True, eq=False):
    """One rule, whoever carries it."""

    kind: Literal["near", "away", "spread"]
    key: str  # the node label whose values are places
    selector: LabelSelector | None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    skew: int = 0  # spread: how far a place may be above the emptiest
    places: int = 0  # spread: with fewer places than these, the emptiest counts as 0
    firm: bool = True  # False: a wish (`ScheduleAnyway`)
    by_affinity: bool = False  # spread: only nodes that the carrier's selector and affinity allow
    by_taints: bool = False  # spread: only nodes whose taints the carrier tolerates
    node_rules: bytes = b""  # spread: what tells carriers apart in these two
    alone: bool = False  # among waiting pods, a column of the snapshot sees to it
    carrier: Pod | None = None  # one of them

    def signature(self) -> bytes:
        """Rules with one signature are one rule."""
        return msgspec.json.encode(replace(self, carrier=None))


class Marks(Struct, frozen=True):
    """What rules have to do with a pod."""

    selected_by: tuple[int, ...] = ()
    carries: tuple[int, ...] = ()


class Neighbours(Struct, frozen=True, eq=False):
    """The rules of a snapshot, and how many pods on every node they are about."""

    rules: tuple[Rule, ...]
    classes: tuple[Marks, ...]  # of every class; those of pods that run only carry no rules here
    running: Mapping[str, Marks]  # of pods on nodes, by namespace/name
    waiting: int  # how many of the classes have pods that wait: the first ones
    selected: Ints  # rules × nodes: pods there that a rule selects
    carriers: Ints  # rules × nodes: pods there that carry it


class Scope:
    """Which pods a rule selects, with the labels of the cluster's namespaces."""

    def __init__(self, namespaces: Iterable[Namespace]) -> None:
        self._labels = {one.metadata.name: one.metadata.labels for one in namespaces}

    def selects(self, rule: Rule, pod: Pod) -> bool:
        """Whether a pod is one that the rule looks at."""
        if not selects(rule.selector, pod.metadata.labels):
            return False
        namespace = namespace_of(pod)
        return namespace in rule.namespaces or (
            rule.namespace_selector is not None
            and selects(rule.namespace_selector, {**self._labels.get(namespace, {}), names.NAMESPACE_NAME: namespace})
        )


def namespace_of(pod: Pod) -> str:
    """A pod's namespace."""
    return pod.metadata.namespace or names.DEFAULT_NAMESPACE


def between_pods(pod: Pod, away: bool) -> tuple[PodAffinityTerm, ...]:
    """The required terms of a pod's affinity, or anti-affinity, to other pods."""
    affinity = pod.spec.affinity
    side = affinity and (affinity.pod_anti_affinity if away else affinity.pod_affinity)
    return side.required_during_scheduling_ignored_during_execution if side else ()


def rules_of(pod: Pod) -> Iterator[Rule]:
    """Every rule that a pod carries."""
    for term in between_pods(pod, away=False):
        yield _term(pod, term, "near")
    for term in between_pods(pod, away=True):
        yield _term(pod, term, "away")
    for constraint in pod.spec.topology_spread_constraints:
        yield _spread(pod, constraint)


def _term(pod: Pod, term: PodAffinityTerm, kind: Literal["near", "away"]) -> Rule:
    own = () if term.namespace_selector is not None else (namespace_of(pod),)
    return Rule(
        kind=kind,
        key=term.topology_key,
        selector=_selector(pod, term.label_selector, term.match_label_keys, term.mismatch_label_keys),
        namespaces=tuple(sorted(term.namespaces)) or own,
        namespace_selector=term.namespace_selector,
        carrier=pod,
    )


def _spread(pod: Pod, constraint: TopologySpreadConstraint) -> Rule:
    by_affinity = constraint.node_affinity_policy != "Ignore"
    by_taints = constraint.node_taints_policy == "Honor"
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    allowed = (sorted(pod.spec.node_selector.items()), required) if by_affinity else ()
    return Rule(
        kind="spread",
        key=constraint.topology_key,
        selector=_selector(pod, constraint.label_selector, constraint.match_label_keys, ()),
        namespaces=(namespace_of(pod),),
        skew=constraint.max_skew,
        places=constraint.min_domains or 0,
        firm=constraint.when_unsatisfiable != "ScheduleAnyway",
        by_affinity=by_affinity,
        by_taints=by_taints,
        node_rules=msgspec.json.encode((allowed, pod.spec.tolerations if by_taints else ())),
        carrier=pod,
    )


def _selector(
    pod: Pod, selector: LabelSelector | None, same: Sequence[str], other: Sequence[str]
) -> LabelSelector | None:
    """The selector with the pod's own values of some labels, wanted or not wanted."""
    if selector is None:
        return None
    labels = pod.metadata.labels
    wanted = [
        LabelSelectorRequirement(key=name, operator=operator, values=(labels[name],))
        for operator, keys in (("In", same), ("NotIn", other))
        for name in keys
        if name in labels
    ]
    return replace(selector, match_expressions=(*selector.match_expressions, *wanted)) if wanted else selector


def looked_at(pods: Iterable[Pod]) -> frozenset[str]:
    """Labels that some rule between pods looks at; others do not tell pods apart."""
    found: set[str] = set()
    for pod in pods:
        if pod.spec.affinity is None and not pod.spec.topology_spread_constraints:
            continue
        for rule in rules_of(pod):
            if rule.selector is not None:
                found.update(rule.selector.match_labels)
                found.update(one.key for one in rule.selector.match_expressions)
    return frozenset(found)


def gather(
    classes: Sequence[Pod],
    waiting: int,
    bound: Sequence[Pod],
    index: Mapping[str, int],
    namespaces: Iterable[Namespace],
    guarded: Sequence[Pod] | None = None,
) -> Neighbours:
    """The rules that matter to waiting pods, given one pod of every class; those that wait are the first ones.

    `guarded` are those of `bound` that keep away from others, where that is known.
    """
    scope = Scope(namespaces)
    found: dict[bytes, tuple[int, Rule]] = {}
    carried = [_numbered(found, rules_of(pod)) if i < waiting else () for i, pod in enumerate(classes)]
    guards = sorted(filter(keeps_away, bound if guarded is None else guarded), key=lambda pod: key(pod.metadata))
    running = [(pod, _numbered(found, _against(pod, classes[:waiting], scope))) for pod in guards]
    rules = tuple(_with_columns(rule, classes[:waiting], scope) for _, rule in found.values())
    of_class = tuple(
        Marks(tuple(i for i, rule in enumerate(rules) if scope.selects(rule, pod)), carries)
        for pod, carries in zip(classes, carried, strict=True)
    )
    marks = _marks(rules, bound, {key(pod.metadata): carries for pod, carries in running if carries}, scope)
    selected = np.zeros((len(rules), len(index)), dtype=np.int64)
    carriers = np.zeros_like(selected)
    for pod in bound if marks else ():
        mark = marks.get(key(pod.metadata))
        if mark is not None:
            node = index[pod.spec.node_name]
            for rule in mark.selected_by:
                selected[rule, node] += 1
            for rule in mark.carries:
                carriers[rule, node] += 1
    return Neighbours(rules, of_class, marks, waiting, selected, carriers)


def keeps_away(pod: Pod) -> bool:
    """Whether a pod may have anti-affinity to others."""
    return pod.spec.affinity is not None and pod.spec.affinity.pod_anti_affinity is not None


def _against(pod: Pod, classes: Sequence[Pod], scope: Scope) -> Iterator[Rule]:
    """The anti-affinity of a running pod, where it selects a waiting one."""
    for rule in rules_of(pod):
        if rule.kind == "away" and any(scope.selects(rule, other) for other in classes):
            yield rule


def _numbered(found: dict[bytes, tuple[int, Rule]], rules: Iterable[Rule]) -> tuple[int, ...]:
    """Rules by their numbers; new ones get the next."""
    numbers = [found.setdefault(rule.signature(), (len(found), rule))[0] for rule in rules]
    return tuple(dict.fromkeys(numbers))


def _marks(
    rules: Sequence[Rule], bound: Sequence[Pod], carried: Mapping[str, tuple[int, ...]], scope: Scope
) -> dict[str, Marks]:
    if not rules:
        return {}
    labels = sorted(looked_at(rule.carrier for rule in rules if rule.carrier is not None))
    seen: dict[object, tuple[int, ...]] = {}
    found: dict[str, Marks] = {}
    for pod in bound:
        leaving = pod.metadata.deletion_timestamp is not None
        look = (namespace_of(pod), leaving, *(pod.metadata.labels.get(label) for label in labels))
        if look not in seen:
            seen[look] = tuple(
                i
                for i, rule in enumerate(rules)
                if scope.selects(rule, pod) and not (leaving and rule.kind == "spread")
            )
        carries = carried.get(key(pod.metadata), ())
        if seen[look] or carries:
            found[key(pod.metadata)] = Marks(seen[look], carries)
    return found


# one of a kind on a node ----------------------------------------------------------------------------------------------


def alone_columns(pod: Pod) -> list[str]:
    """A pod that keeps its own kind off its node, as columns of which every node has one."""
    if not keeps_away(pod):
        return []
    return [_column(rule) for rule in rules_of(pod) if _off_its_node(rule)]


def _column(rule: Rule) -> str:
    return ALONE + rule.signature().decode()


def _off_its_node(rule: Rule) -> bool:
    """Anti-affinity about single nodes that selects its carrier: the usual "one of these on a node"."""
    pod = rule.carrier
    return (
        rule.kind == "away"
        and rule.key == names.HOSTNAME
        and pod is not None
        and namespace_of(pod) in rule.namespaces
        and selects(rule.selector, pod.metadata.labels)
    )


def _with_columns(rule: Rule, classes: Sequence[Pod], scope: Scope) -> Rule:
    """Whether the column is all there is to a rule among waiting pods: whoever it selects or carries it has one."""
    if not _off_its_node(rule):
        return rule
    column, signature = _column(rule), rule.signature()
    about = (
        pod for pod in classes if scope.selects(rule, pod) or any(own.signature() == signature for own in rules_of(pod))
    )
    return replace(rule, alone=all(column in alone_columns(pod) for pod in about))

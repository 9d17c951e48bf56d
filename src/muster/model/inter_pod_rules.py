"""Inter-pod rules of a snapshot: affinity, anti-affinity and topology spread (X5, decision 0007).

Only rules that concern a pending pod are kept: those that pending pods carry, and anti-affinity of running pods that
selects pending ones. `placement` decides what a rule allows; here are its matching pods and its carriers, by node.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from muster.api import names
from muster.api.core import Namespace, Pod, PodAffinityTerm, TopologySpreadConstraint
from muster.api.meta import LabelSelector, LabelSelectorRequirement
from muster.api.objects import key
from muster.model.label_index import LabelIndex
from muster.model.node_counts import NodeCounts
from muster.model.selectors import selects

ALONE = "alone/"
MOST_ALONE = 64  # exclusive columns: each is one more number on every node


class Rule(Struct, frozen=True, eq=False):
    """One rule, whichever pods carry it."""

    kind: Literal["affinity", "anti_affinity", "spread"]
    key: str  # the topology key: a node label whose values are the domains
    selector: LabelSelector | None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    skew: int = 0  # spread: how far a domain may be above the emptiest (`maxSkew`)
    places: int = 0  # spread: with fewer domains the emptiest counts as 0 (`minDomains`)
    firm: bool = True  # False: a preference (`ScheduleAnyway`)
    by_affinity: bool = False  # spread: only nodes that the carrier's selector and affinity allow
    by_taints: bool = False  # spread: only nodes whose taints the carrier tolerates
    node_rules: bytes = b""  # spread: what these two read of the carrier
    alone: bool = False  # an exclusive column enforces it among pending pods
    carrier: Pod | None = None  # one of the pods that carry it

    def signature(self) -> bytes:
        """Rules with equal signatures are one rule."""
        return msgspec.json.encode(replace(self, carrier=None))


class RuleMatches(Struct, frozen=True):
    """The rules that select a pod, and those that it carries, by number."""

    selected_by: tuple[int, ...] = ()
    carries: tuple[int, ...] = ()


class InterPodRules(Struct, frozen=True, eq=False):
    """The rules of a snapshot, with their matching pods and carriers by node."""

    rules: tuple[Rule, ...]
    classes: tuple[RuleMatches, ...]  # of every class; one without pending pods carries no rules here
    running: Mapping[str, RuleMatches]  # of pods on nodes, by namespace/name
    waiting: int  # the number of classes with pending pods: the first ones
    selected: NodeCounts  # pods that a rule selects
    carriers: NodeCounts  # pods that carry it


class Scope:
    """Which pods a rule selects, with the labels of the cluster's namespaces."""

    def __init__(self, namespaces: Iterable[Namespace]) -> None:
        self._labels = {namespace.metadata.name: namespace.metadata.labels for namespace in namespaces}

    def selects(self, rule: Rule, pod: Pod) -> bool:
        """Whether a rule selects a pod, by its labels and its namespace."""
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


def required_terms(pod: Pod, away: bool) -> tuple[PodAffinityTerm, ...]:
    """The required terms of a pod's affinity, or anti-affinity, to other pods."""
    affinity = pod.spec.affinity
    side = affinity and (affinity.pod_anti_affinity if away else affinity.pod_affinity)
    return side.required_during_scheduling_ignored_during_execution if side else ()


def rules_of(pod: Pod) -> Iterator[Rule]:
    """Every rule that a pod carries."""
    for term in required_terms(pod, away=False):
        yield _term(pod, term, "affinity")
    for term in required_terms(pod, away=True):
        yield _term(pod, term, "anti_affinity")
    for constraint in pod.spec.topology_spread_constraints:
        yield _spread(pod, constraint)


def _term(pod: Pod, term: PodAffinityTerm, kind: Literal["affinity", "anti_affinity"]) -> Rule:
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
    pod: Pod, selector: LabelSelector | None, same: Sequence[str], different: Sequence[str]
) -> LabelSelector | None:
    """The selector with `matchLabelKeys` and `mismatchLabelKeys` as requirements, by the pod's own values."""
    if selector is None:
        return None
    labels = pod.metadata.labels
    wanted = [
        LabelSelectorRequirement(key=name, operator=operator, values=(labels[name],))
        for operator, keys in (("In", same), ("NotIn", different))
        for name in keys
        if name in labels
    ]
    return replace(selector, match_expressions=(*selector.match_expressions, *wanted)) if wanted else selector


def selected_label_keys(pods: Iterable[Pod]) -> frozenset[str]:
    """Labels that some inter-pod rule selects by; others make no difference between pods."""
    label_keys: set[str] = set()
    for pod in pods:
        if pod.spec.affinity is None and not pod.spec.topology_spread_constraints:
            continue
        for rule in rules_of(pod):
            if rule.selector is not None:
                label_keys.update(rule.selector.match_labels)
                label_keys.update(expression.key for expression in rule.selector.match_expressions)
    return frozenset(label_keys)


def collect_rules(
    classes: Sequence[Pod],
    waiting: int,
    bound: Sequence[Pod],
    index: Mapping[str, int],
    namespaces: Iterable[Namespace],
    columns: Collection[str],
    guarded: Sequence[Pod] | None = None,
) -> InterPodRules:
    """The rules that concern pending pods, given one pod of every class; classes with pending pods come first.

    `columns` are those of the snapshot. `guarded` are the pods of `bound` with anti-affinity, where these are known.
    """
    scope = Scope(namespaces)
    numbered: dict[bytes, tuple[int, Rule]] = {}
    carried = [_numbered(numbered, rules_of(pod)) if i < waiting else () for i, pod in enumerate(classes)]
    guards = sorted(filter(has_anti_affinity, bound if guarded is None else guarded), key=lambda pod: key(pod.metadata))
    against = _Against(LabelIndex(classes[:waiting], scope) if guards else None)
    running = {key(pod.metadata): numbers for pod in guards if (numbers := _numbered(numbered, against.rules(pod)))}
    selected_by = _selections(classes, [rule for _, rule in numbered.values()], scope)
    rules = _with_columns([rule for _, rule in numbered.values()], classes[:waiting], carried, selected_by, columns)
    rule_matches = _rule_matches(rules, bound, running, scope)
    selected, carriers = NodeCounts(len(index)), NodeCounts(len(index))
    for pod in bound if rule_matches else ():
        mark = rule_matches.get(key(pod.metadata))
        if mark is not None:
            node = index[pod.spec.node_name]
            for rule in mark.selected_by:
                selected.add(rule, node, 1)
            for rule in mark.carries:
                carriers.add(rule, node, 1)
    of_class = tuple(
        RuleMatches(tuple(numbers_of_class), carries)
        for numbers_of_class, carries in zip(selected_by, carried, strict=True)
    )
    return InterPodRules(rules, of_class, rule_matches, waiting, selected, carriers)


def has_anti_affinity(pod: Pod) -> bool:
    """Whether a pod may have anti-affinity to others."""
    return pod.spec.affinity is not None and pod.spec.affinity.pod_anti_affinity is not None


class _Against:
    """The anti-affinity of running pods that selects a pending one; a rule of many pods is checked once."""

    def __init__(self, waiting: LabelIndex | None) -> None:
        self._waiting = waiting
        self._known: dict[bytes, bool] = {}

    def rules(self, pod: Pod) -> Iterator[Rule]:
        """Those rules of one pod."""
        return (rule for rule in rules_of(pod) if rule.kind == "anti_affinity" and self._matters(rule))

    def _matters(self, rule: Rule) -> bool:
        signature = rule.signature()
        if signature not in self._known:
            self._known[signature] = self._waiting is not None and bool(self._waiting.selected(rule))
        return self._known[signature]


def _numbered(numbered: dict[bytes, tuple[int, Rule]], rules: Iterable[Rule]) -> tuple[int, ...]:
    """The numbers of rules; a new rule gets the next one."""
    numbers = [numbered.setdefault(rule.signature(), (len(numbered), rule))[0] for rule in rules]
    return tuple(dict.fromkeys(numbers))


def _selections(pods: Sequence[Pod], rules: Sequence[Rule], scope: Scope) -> list[list[int]]:
    """The rules that select each pod, by number."""
    numbers_of: list[list[int]] = [[] for _ in pods]
    index = LabelIndex(pods, scope)
    for number, rule in enumerate(rules):
        for i in index.selected(rule):
            if rule.kind != "spread" or pods[i].metadata.deletion_timestamp is None:
                numbers_of[i].append(number)
    return numbers_of


def _rule_matches(
    rules: Sequence[Rule], bound: Sequence[Pod], carried: Mapping[str, tuple[int, ...]], scope: Scope
) -> dict[str, RuleMatches]:
    """The matches of bound pods, by namespace/name; pods that no rule distinguishes are checked once."""
    if not rules:
        return {}
    labels = selected_label_keys(rule.carrier for rule in rules if rule.carrier is not None)
    views = [_view(pod, labels) for pod in bound]
    first: dict[object, Pod] = {}
    for pod, view in zip(bound, views, strict=True):
        first.setdefault(view, pod)
    selections = _selections(list(first.values()), rules, scope)
    selected_by = {view: tuple(numbers) for view, numbers in zip(first, selections, strict=True)}
    matches: dict[str, RuleMatches] = {}
    for pod, view in zip(bound, views, strict=True):
        carries = carried.get(key(pod.metadata), ())
        if selected_by[view] or carries:
            matches[key(pod.metadata)] = RuleMatches(selected_by[view], carries)
    return matches


def _view(pod: Pod, labels: frozenset[str]) -> object:
    """What rules that select by these labels read of a pod."""
    seen = tuple(sorted(label for label in pod.metadata.labels.items() if label[0] in labels))
    return namespace_of(pod), pod.metadata.deletion_timestamp is not None, seen


# exclusive columns: one pod of a kind per node ------------------------------------------------------------------------


def exclusive_columns(pod: Pod) -> list[str]:
    """Columns of which every node has one, for a pod whose anti-affinity allows one of its kind per node."""
    if not has_anti_affinity(pod):
        return []
    return [_column(rule) for rule in rules_of(pod) if _off_its_node(rule)]


def _column(rule: Rule) -> str:
    return ALONE + rule.signature().decode()


def _off_its_node(rule: Rule) -> bool:
    """Whether it is anti-affinity by hostname that selects its carrier: the usual "one of these per node"."""
    pod = rule.carrier
    return (
        rule.kind == "anti_affinity"
        and rule.key == names.HOSTNAME
        and pod is not None
        and namespace_of(pod) in rule.namespaces
        and selects(rule.selector, pod.metadata.labels)
    )


def limit_columns(columns: Iterable[str]) -> frozenset[str]:
    """The columns that a snapshot has of these; a rule without one is checked like other inter-pod rules."""
    return frozenset(sorted(columns)[:MOST_ALONE])


def _with_columns(
    rules: Sequence[Rule],
    waiting: Sequence[Pod],
    carried: Sequence[tuple[int, ...]],
    selected_by: Sequence[Sequence[int]],
    columns: Collection[str],
) -> tuple[Rule, ...]:
    """The rules, `alone` where a column enforces one: each class that it selects or that carries it has the column."""
    candidates = {
        i: column for i, rule in enumerate(rules) if _off_its_node(rule) and (column := _column(rule)) in columns
    }
    replaced = set(candidates)
    for i, pod in enumerate(waiting):
        about = replaced.intersection((*carried[i], *selected_by[i]))
        if about:
            own = exclusive_columns(pod)
            replaced.difference_update([number for number in about if candidates[number] not in own])
    return tuple(replace(rule, alone=True) if i in replaced else rule for i, rule in enumerate(rules))

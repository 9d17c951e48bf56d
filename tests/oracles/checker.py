"""An independent judge of plans: plain manifests and a plan as JSON in, every broken promise out.

Rule 1: shares no code with the engine; it has its own reading of quantities, labels, selectors and trees.
Rule 2: where the order of steps matters and the plan does not tell it, the judge is lenient.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import combinations
from typing import NamedTuple

from tests.oracles.disturbance import disturbed, outcomes
from tests.oracles.objects import (
    CheckedGang,
    ObjectIndex,
    Outcome,
    Raw,
    apart,
    expression,
    key_of,
    labels,
    matches,
    name,
    namespace,
    overfull,
    phase,
    terminating,
)

HOSTNAME = "kubernetes.io/hostname"


def broken(objects: list[Raw], plan: Raw, now: datetime | None = None) -> list[str]:
    """Every promise that the plan does not keep; without `now`, nothing that depends on the time is judged."""
    index = ObjectIndex(objects)
    at_once, after = outcomes(index, plan)
    findings = [*_bound_once(index, plan), *_wrong(index, at_once)]
    if _at_once(index, plan):
        seats = _seats(index, at_once)
        findings += _uneven(index, seats) + _scattered(index, seats)
    if at_once != after:
        findings += [f"in the end: {problem}" for problem in _wrong(index, after)]
    return [*findings, *_misjudged(index, plan, after), *disturbed(index, plan, now), *internal_errors(plan)]


def internal_errors(plan: Raw) -> list[str]:
    """A failure inside is one gang's verdict, and still a bug."""
    return [
        f"{one['namespace']}/{one['name']}: {reason['message']}"
        for one in plan.get("podGroups") or ()
        for reason in one.get("reasons") or ()
        if reason["reason"] == "InternalError"
    ]


def _wrong(index: ObjectIndex, outcome: Outcome) -> list[str]:
    """What holds at every moment: now with the bindings, and once victims are gone and pods in place."""
    seats = _seats(index, outcome)
    return [
        *overfull(index, outcome),
        *_misplaced(index, seats),
        *_ports_clash(seats),
        *_too_close(index, seats),
        *_alone(index, seats),
        *_half_started(index, outcome),
    ]


class Seat(NamedTuple):
    """A pod that holds room on a node once the plan is carried out."""

    pod: Raw
    node: Raw
    new: bool

    def __str__(self) -> str:
        return f"{name(self.pod)} on {self.node['metadata']['name']}"


def _seats(index: ObjectIndex, outcome: Outcome) -> list[Seat]:
    """Every pod that holds room on a known node."""
    seats = []
    for key, pod in index.pods.items():
        node = index.nodes.get(outcome.places.get(key) or pod["spec"].get("nodeName") or "")
        if node and phase(pod) not in ("Succeeded", "Failed") and key not in outcome.gone:
            seats.append(Seat(pod, node, key in outcome.places))
    return seats


def _bound_once(index: ObjectIndex, plan: Raw) -> Iterator[str]:
    """I1: a pod is bound or nominated once, and only if it waits."""
    times = Counter(key_of(one) for one in (*plan["bindings"], *(plan.get("nominations") or ())))
    for pod, count in times.items():
        raw = index.pods.get(pod)
        if count > 1:
            yield f"{pod} is bound {count} times"
        if raw is None or raw["spec"].get("nodeName") or raw["spec"].get("schedulingGates"):
            yield f"{pod} cannot be bound"
        elif terminating(raw) or phase(raw) in ("Succeeded", "Failed"):
            yield f"{pod} has ended"


def _misplaced(index: ObjectIndex, seats: list[Seat]) -> Iterator[str]:
    """What a bound pod and its node say about each other (X5)."""
    for seat in seats:
        for rule, holds in NODE_RULES.items() if seat.new else ():
            if not holds(index, seat.pod, seat.node):
                yield f"{seat}: {rule}"


def _selected(index: ObjectIndex, pod: Raw, node: Raw) -> bool:
    return (pod["spec"].get("nodeSelector") or {}).items() <= labels(node).items()


def _has_affinity(index: ObjectIndex, pod: Raw, node: Raw) -> bool:
    required = _affinity(pod, "nodeAffinity").get("requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or _any_term(required, node)


def _volumes_reach(index: ObjectIndex, pod: Raw, node: Raw) -> bool:
    """Bound claims only: where an unbound one will be is not known."""
    for volume in pod["spec"].get("volumes") or ():
        claim = index.claims.get(f"{namespace(pod)}/{_claim(pod, volume)}")
        bound = index.volumes.get(claim["spec"].get("volumeName") or "") if claim else None
        required = (bound["spec"].get("nodeAffinity") or {}).get("required") if bound else None
        if required is not None and not _any_term(required, node):
            return False
    return True


def _claim(pod: Raw, volume: Raw) -> str:
    if "ephemeral" in volume:
        return f"{pod['metadata']['name']}-{volume['name']}"
    return str((volume.get("persistentVolumeClaim") or {}).get("claimName", ""))


def _taints_tolerated(index: ObjectIndex, pod: Raw, node: Raw) -> bool:
    taints = (node.get("spec") or {}).get("taints") or ()
    return all(_tolerated(pod, taint) for taint in taints if taint["effect"] in ("NoSchedule", "NoExecute"))


def _tolerated(pod: Raw, taint: Raw) -> bool:
    return any(_tolerates(one, taint) for one in pod["spec"].get("tolerations") or ())


def _tolerates(toleration: Raw, taint: Raw) -> bool:
    exists: bool = toleration.get("operator", "Equal") == "Exists"
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if not toleration.get("key"):
        return exists
    same: bool = exists or (toleration.get("value") or "") == (taint.get("value") or "")
    return same and str(toleration["key"]) == taint["key"]


def _open(index: ObjectIndex, pod: Raw, node: Raw) -> bool:
    cordon = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    return not (node.get("spec") or {}).get("unschedulable") or _tolerated(pod, cordon)


def _ready(index: ObjectIndex, pod: Raw, node: Raw) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return all(one["status"] == "True" for one in conditions if one["type"] == "Ready")


NODE_RULES: dict[str, Callable[[ObjectIndex, Raw, Raw], bool]] = {
    "its nodeSelector says another node": _selected,
    "its node affinity says another node": _has_affinity,
    "a volume of its cannot be reached from there": _volumes_reach,
    "a taint there is not tolerated": _taints_tolerated,
    "the node is unschedulable": _open,
    "the node is not ready": _ready,
}


def _affinity(pod: Raw, kind: str) -> Raw:
    return (pod["spec"].get("affinity") or {}).get(kind) or {}


def _any_term(selector: Raw, node: Raw) -> bool:
    """A node selector: terms are alternatives, and an empty term selects nothing."""
    return any(_term(term, node) for term in selector.get("nodeSelectorTerms") or ())


def _term(term: Raw, node: Raw) -> bool:
    by_label, by_field = term.get("matchExpressions") or (), term.get("matchFields") or ()
    field = {"metadata.name": node["metadata"]["name"]}
    return (
        bool(by_label or by_field)
        and all(expression(one, labels(node)) for one in by_label)
        and all(expression(one, field) for one in by_field)
    )


def _ports_clash(seats: list[Seat]) -> Iterator[str]:
    """A port of a node is taken once; on every address means on each."""
    for one, other in combinations(seats, 2):
        if (one.new or other.new) and one.node is other.node:
            for mine in _ports(one.pod):
                if any(_same_port(mine, theirs) for theirs in _ports(other.pod)):
                    yield f"{one} and {name(other.pod)} both want host port {mine[1]}"


def _ports(pod: Raw) -> list[tuple[str, int, str]]:
    sidecars = [one for one in pod["spec"].get("initContainers") or () if one.get("restartPolicy") == "Always"]
    return [
        (port.get("protocol") or "TCP", port["hostPort"], port.get("hostIP") or "0.0.0.0")
        for container in (*(pod["spec"].get("containers") or ()), *sidecars)
        for port in container.get("ports") or ()
        if port.get("hostPort")
    ]


def _same_port(one: tuple[str, int, str], other: tuple[str, int, str]) -> bool:
    return one[:2] == other[:2] and (one[2] == other[2] or "0.0.0.0" in (one[2], other[2]))


def _terms(pod: Raw, kind: str) -> list[Raw]:
    return _affinity(pod, kind).get("requiredDuringSchedulingIgnoredDuringExecution") or []


def _place(node: Raw, key: str) -> str | None:
    """A node without the label is nowhere, but for its hostname it needs none."""
    return labels(node).get(key) or (node["metadata"]["name"] if key == HOSTNAME else None)


def _together(one: Seat, other: Seat, key: str) -> bool:
    place = _place(one.node, key)
    return place is not None and place == _place(other.node, key)


def _considers(index: ObjectIndex, pod: Raw, term: Raw, other: Raw) -> bool:
    """Whether a term that `pod` carries selects `other`."""
    where, chosen = namespace(other), term.get("namespaceSelector")
    if not term.get("namespaces") and chosen is None:
        inside = where == namespace(pod)
    else:
        known = index.namespaces.get(where, {"kubernetes.io/metadata.name": where})
        inside = where in (term.get("namespaces") or ()) or (chosen is not None and matches(chosen, known))
    return inside and _alike(term, pod, other)


def _alike(term: Raw, pod: Raw, other: Raw) -> bool:
    """The label selector, and the keys in which both must agree or differ; without a selector nothing is selected."""
    if term.get("labelSelector") is None:
        return False
    own, theirs = labels(pod), labels(other)
    agree = all(theirs.get(key) == own[key] for key in term.get("matchLabelKeys") or () if key in own)
    differ = all(theirs.get(key) != own[key] for key in term.get("mismatchLabelKeys") or () if key in own)
    return agree and differ and matches(term["labelSelector"], theirs)


def _too_close(index: ObjectIndex, seats: list[Seat]) -> Iterator[str]:
    """Anti-affinity, both ways, for every pair with a new pod."""
    for one in seats:
        for term in _terms(one.pod, "podAntiAffinity"):
            for other in seats:
                concerns = other is not one and (one.new or other.new) and _together(one, other, term["topologyKey"])
                if concerns and _considers(index, one.pod, term, other.pod):
                    yield f"{one} keeps away from {other} in one {term['topologyKey']}"


def _alone(index: ObjectIndex, seats: list[Seat]) -> Iterator[str]:
    """Affinity: a selected pod beside each new carrier, or one that may have started a place."""
    for one in seats:
        for term in _terms(one.pod, "podAffinity") if one.new else ():
            key = term["topologyKey"]
            if _place(one.node, key) is None:
                yield f"{one}: affinity by {key}, which the node does not have"
            elif not _considers(index, one.pod, term, one.pod) and not _inter_pod_rules(index, one, term, seats):
                yield f"{one}: no pod there that its affinity by {key} requires"


def _inter_pod_rules(index: ObjectIndex, one: Seat, term: Raw, seats: list[Seat]) -> list[Seat]:
    """Other pods in the place of a carrier that its term selects."""
    key = term["topologyKey"]
    return [
        other
        for other in seats
        if other is not one and _together(one, other, key) and _considers(index, one.pod, term, other.pod)
    ]


def _at_once(index: ObjectIndex, plan: Raw) -> bool:
    """Whether the plan is one step: the core of one gang of which nothing was placed before."""
    gangs = {f"{b['namespace']}/{b['podGroup']}" for b in plan["bindings"]}
    placed = {
        f"{namespace(pod)}/{(pod['metadata'].get('annotations') or {}).get('pod-group-name')}"
        for pod in index.pods.values()
        if pod["spec"].get("nodeName")
    }
    return len(gangs) == 1 and not gangs & placed and all(b["role"] != "extra" for b in plan["bindings"])


def _scattered(index: ObjectIndex, seats: list[Seat]) -> list[str]:
    """Affinity of a gang that came at once: a series starts one place, and only where no outside pod is selected."""
    started: dict[str, set[str]] = defaultdict(set)
    findings = []
    for one in seats:
        for term in _terms(one.pod, "podAffinity") if one.new else ():
            if not any(_stands(other, _series(one.pod, term)) for other in _inter_pod_rules(index, one, term, seats)):
                started[_series(one.pod, term)].add(str(_place(one.node, term["topologyKey"])))
                elsewhere = [other for other in seats if not other.new and _place(other.node, term["topologyKey"])]
                if any(_considers(index, one.pod, term, other.pod) for other in elsewhere):
                    findings.append(f"{one}: a place is started though its affinity selects a pod elsewhere")
    return findings + [f"{term} is started in {sorted(places)}" for term, places in started.items() if len(places) > 1]


def _stands(other: Seat, series: str) -> bool:
    """Whether a selected pod is there for another reason than the series itself."""
    return not other.new or all(_series(other.pod, term) != series for term in _terms(other.pod, "podAffinity"))


def _series(pod: Raw, term: Raw) -> str:
    """One term of pods that see each other by it."""
    keys = (*(term.get("matchLabelKeys") or ()), *(term.get("mismatchLabelKeys") or ()))
    return f"{namespace(pod)} {term} {[(key, labels(pod).get(key)) for key in keys]}"


def _uneven(index: ObjectIndex, seats: list[Seat]) -> list[str]:
    """Topology spread of a gang that came at once."""
    return [
        f"{one}: spread by {rule['topologyKey']}: {problem}"
        for one in seats
        if one.new
        for rule in one.pod["spec"].get("topologySpreadConstraints") or ()
        if rule.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule"
        if (problem := _skew(index, one, rule, seats))
    ]


def _skew(index: ObjectIndex, one: Seat, rule: Raw, seats: list[Seat]) -> str:
    key = rule["topologyKey"]
    here = _place(one.node, key)
    if here is None:
        return "the node does not have it"
    counts = {
        place: 0
        for node in index.nodes.values()
        if (place := _place(node, key)) is not None and _counts(index, one.pod, rule, node)
    }
    for other in seats:
        seen = namespace(other.pod) == namespace(one.pod) and not other.pod["metadata"].get("deletionTimestamp")
        place = _place(other.node, key)
        if seen and place in counts and _counts(index, one.pod, rule, other.node) and _alike(rule, one.pod, other.pod):
            counts[place] += 1
    floor = 0 if len(counts) < (rule.get("minDomains") or 1) else min(counts.values(), default=0)
    return "" if counts.get(here, 0) - floor <= rule["maxSkew"] else f"{here} has too many of {counts}"


def _counts(index: ObjectIndex, pod: Raw, rule: Raw, node: Raw) -> bool:
    """Whether a node is one of those that a pod's spread is about."""
    chosen = _selected(index, pod, node) and _has_affinity(index, pod, node)
    affinity = chosen or rule.get("nodeAffinityPolicy") == "Ignore"
    return affinity and (rule.get("nodeTaintsPolicy") != "Honor" or _taints_tolerated(index, pod, node))


def _half_started(index: ObjectIndex, outcome: Outcome) -> Iterator[str]:
    """I3, I4, G1, G2: minimums and domains at every level, for what is placed and what is new together."""
    for key in index.gangs:
        checked = CheckedGang(index, key, outcome)
        for group in checked.tree if checked.new() else ():
            if checked.new(group) and not checked.met(group):
                yield f"{key}: pods of `{group}` are bound, but it is not satisfied"
            yield from apart(index, checked, group) if checked.new(group) else ()
        if checked.new() and not checked.met():
            yield f"{key}: is started below its minimum"


def _misjudged(index: ObjectIndex, plan: Raw, after: Outcome) -> Iterator[str]:
    """`Scheduled` means that the root is satisfied with this plan, nominations counted."""
    verdict_of = {f"{one['namespace']}/{one['name']}": one["verdict"] for one in plan["podGroups"]}
    for key in index.gangs:
        met = CheckedGang(index, key, after).met()
        if (verdict_of[key] == "Scheduled") != met:
            yield f"{key}: verdict {verdict_of[key]}, but satisfied is {met}"

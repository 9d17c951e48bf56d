"""A PodCliqueSet as people ask about it: replicas, gangs, cliques and pods, each with what it needs and what it has.

Rule 1: the set and its parts say what there should be, pods and gangs what there is. Rule 2: why a gang waits is said
in the words of `explain`; without a plan, in those of its PodGang's condition. Rule 3: every pod is read once.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from muster.api import names
from muster.api.core import Pod
from muster.api.fields import integer, items, number, text, texts
from muster.api.objects import key
from muster.api.podgroup import TopologyConstraint
from muster.api.resources import POD_CLIQUE_SETS, POD_CLIQUES, POD_GANGS, Resource
from muster.errors import InputError
from muster.grove.gangs.gang_status import NOT_SCHEDULED
from muster.grove.gangs.gates import SCHEDULED
from muster.grove.health import FALSE
from muster.grove.topology import LEVELS_UNAVAILABLE
from muster.model.gang.pod_state import PodState, pod_state
from muster.model.gang.types import Member, walk, walk_leaves
from muster.model.roles import roles
from muster.planning.decision import GangPlan
from muster.planning.grove.scaled_gangs import ScaledGang
from muster.reporting.explain import helps, sentence
from muster.reporting.grove.hints import refusals_of
from muster.reporting.grove.scaled import after_base
from muster.reporting.views import together
from muster.validation.problem import listed
from muster.workloads.conditions import find_condition

Raw = dict[str, Any]


class PodReport(Struct, frozen=True):
    """A pod of a clique."""

    name: str
    state: PodState
    node: str = ""  # empty: it is on none
    role: str = ""  # core or extra, once it is placed


class CliqueReport(Struct, frozen=True):
    """A PodClique in its gang."""

    name: str
    minimum: int  # pods
    replicas: int  # pods that it is to have
    pods: tuple[PodReport, ...]
    together: str = ""  # its constraint, in words
    domain: str = ""

    @property
    def placed(self) -> int:
        """Pods on nodes, and those that have finished."""
        return sum(pod.state in (PodState.PLACED, PodState.SUCCEEDED) for pod in self.pods)

    @property
    def gated(self) -> int:
        """Pods behind a gate."""
        return sum(pod.state is PodState.GATED for pod in self.pods)

    @property
    def is_satisfied(self) -> bool:
        """Whether it has what it needs."""
        return self.placed >= self.minimum


class GangReport(Struct, frozen=True):
    """A PodGang of a replica."""

    name: str
    base: str  # the gang that it starts after; empty: it is a base gang
    state: str  # a verdict; Gated: pods wait for other things than room
    cliques: tuple[CliqueReport, ...]
    reasons: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    note: str = ""  # when it starts, for a scaled gang of a plan
    together: str = ""
    domain: str = ""

    @property
    def is_satisfied(self) -> bool:
        """Whether every clique has what it needs."""
        return all(clique.is_satisfied for clique in self.cliques)


class ReplicaReport(Struct, frozen=True):
    """A replica of a set: its base gang, and then its scaled gangs."""

    index: int
    gangs: tuple[GangReport, ...]

    @property
    def is_satisfied(self) -> bool:
        """Whether the base gang has what it needs: then the replica can serve."""
        return all(gang.is_satisfied for gang in self.gangs if not gang.base)


class SetReport(Struct, frozen=True):
    """A PodCliqueSet."""

    namespace: str
    name: str
    replicas: tuple[ReplicaReport, ...]
    wanted: int  # replicas
    notes: tuple[str, ...] = ()

    @property
    def cliques(self) -> Iterator[CliqueReport]:
        """All cliques."""
        return (clique for replica in self.replicas for gang in replica.gangs for clique in gang.cliques)


class SetSituation(Struct, frozen=True, eq=False):
    """What is known around a set."""

    parts: Sequence[Raw]  # Grove's objects
    pods: Sequence[Pod]
    gangs: Mapping[str, GangPlan]  # by namespace/name
    scaled: Mapping[str, ScaledGang] = {}
    is_planned: bool = False  # gangs are as a plan leaves them, with its reasons
    schedulers: Collection[str] = ()


def report_set(situation: SetSituation, namespace: str, name: str) -> SetReport:
    """One set. InputError: there is none of this name."""
    raw = _find_set(situation.parts, namespace, name)
    own = [part for part in situation.parts if _is_of(part, namespace, name)]
    cliques = {text(part, "metadata.name"): part for part in own if _is(part, POD_CLIQUES)}
    pods: dict[str, list[Pod]] = {}
    for pod in situation.pods:
        if (pod.metadata.namespace or names.DEFAULT_NAMESPACE) == namespace and names.POD_CLIQUE in pod.metadata.labels:
            pods.setdefault(pod.metadata.labels[names.POD_CLIQUE], []).append(pod)
    replicas: dict[int, list[GangReport]] = {}
    for part in own:
        if _is(part, POD_GANGS):
            replicas.setdefault(_replica(part), []).append(_gang(part, cliques, pods, situation))
    return SetReport(
        namespace,
        name,
        tuple(ReplicaReport(index, tuple(_ordered(replicas[index]))) for index in sorted(replicas)),
        integer(raw, "spec.replicas"),
        tuple(_notes(raw, situation.schedulers)),
    )


def _find_set(parts: Iterable[Raw], namespace: str, name: str) -> Raw:
    sets = {_place(part): part for part in parts if _is(part, POD_CLIQUE_SETS)}
    if (namespace, name) not in sets:
        known = listed([f"pcs/{'/'.join(place)}" for place in sorted(sets)]) if sets else "none"
        raise InputError(f"there is no PodCliqueSet `{namespace}/{name}`", hint=f"known: {known}")
    return sets[namespace, name]


def _is(raw: Raw, resource: Resource) -> bool:
    return (text(raw, "apiVersion"), text(raw, "kind")) == (resource.api_version, resource.kind)


def _place(raw: Raw) -> tuple[str, str]:
    return text(raw, "metadata.namespace") or names.DEFAULT_NAMESPACE, text(raw, "metadata.name")


def _is_of(raw: Raw, namespace: str, name: str) -> bool:
    return _place(raw)[0] == namespace and texts(raw, "metadata.labels").get(names.PART_OF) == name


def _replica(gang: Raw) -> int:
    return number(texts(gang, "metadata.labels").get(names.SET_REPLICA, "")) or 0


def _ordered(gangs: Iterable[GangReport]) -> list[GangReport]:
    """The base gang, then the others in the order in which they are listed."""
    return sorted(gangs, key=lambda gang: bool(gang.base))


def _notes(raw: Raw, schedulers: Collection[str]) -> Iterator[str]:
    """What stands in the way of the whole set."""
    named = {text(clique, "spec.podSpec.schedulerName") for clique in items(raw, "spec.template.cliques")}
    for other in sorted(named - {"", *schedulers}) if schedulers else ():
        yield (
            f"its pods name scheduler `{other}`, and are left to that; "
            f"hint: say `schedulerName: {next(iter(schedulers))}`, or add `{other}` to `scheduling.schedulerNames`"
        )
    if not integer(raw, "spec.replicas"):
        yield "it has no replicas; hint: `spec.replicas` is 0 where it is left out"
    levels = find_condition(raw, LEVELS_UNAVAILABLE)
    if levels is not None and levels.get("status") != FALSE:
        yield text(levels, "message")
    yield from (text(error, "description") for error in items(raw, "status.lastErrors"))


# gangs and cliques --------------------------------------------------------------------------------------------------


def _gang(
    part: Raw, cliques: Mapping[str, Raw], pods: Mapping[str, Sequence[Pod]], situation: SetSituation
) -> GangReport:
    name = f"{_place(part)[0]}/{text(part, 'metadata.name')}"
    plan = situation.gangs.get(name)
    below = tuple(_cliques(part, cliques, pods, plan))
    scaled = situation.scaled.get(name)
    reasons, hints = _why(part, plan, is_planned=situation.is_planned)
    is_held = scaled is not None and not scaled.is_lifted
    root = plan.gang.root if plan is not None else None
    return GangReport(
        name=text(part, "metadata.name"),
        base=_base(part, cliques),
        state=_state(plan, below, is_planned=situation.is_planned, is_held=is_held),
        cliques=below,
        reasons=() if is_held and situation.is_planned else reasons,
        hints=() if is_held else hints,
        note=after_base(scaled) if scaled is not None and situation.is_planned else "",
        together=together(root.constraint) if root is not None else "",
        domain=plan.domains.get(root.name, "") if plan is not None and root is not None else "",
    )


def _base(part: Raw, cliques: Mapping[str, Raw]) -> str:
    """The base gang: Grove's own operator names it on cliques only."""
    own = (cliques.get(text(entry, "name")) for entry in items(part, "spec.podgroups"))
    labels = (texts(raw, "metadata.labels").get(names.BASE_POD_GANG, "") for raw in (part, *own))
    return next(filter(None, labels), "")


def _state(plan: GangPlan | None, cliques: Iterable[CliqueReport], *, is_planned: bool, is_held: bool) -> str:
    cliques = list(cliques)
    if is_held or (not is_planned and any(clique.gated for clique in cliques)):
        return "Gated"
    if is_planned and plan is not None:
        return plan.verdict
    return "Scheduled" if all(clique.is_satisfied for clique in cliques) else "Waiting"


def _why(part: Raw, plan: GangPlan | None, *, is_planned: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Reasons and hints."""
    if is_planned and plan is not None:
        hints = (help_ for refusal in refusals_of(plan) for help_ in helps(refusal))
        return tuple(map(sentence, plan.refusals)), tuple(hints)
    condition = find_condition(part, SCHEDULED)
    if condition is None or condition.get("status") == "True" or condition.get("reason") == NOT_SCHEDULED:
        return (), ()
    return (text(condition, "message"),), ()


def _cliques(
    part: Raw, cliques: Mapping[str, Raw], pods: Mapping[str, Sequence[Pod]], plan: GangPlan | None
) -> Iterator[CliqueReport]:
    leaves = () if plan is None else tuple(walk_leaves(plan.gang.root))
    members = {member.name: member for leaf in leaves for member in leaf.members}
    core = frozenset() if plan is None else frozenset(member.name for member in roles(plan.gang.root).core)
    levels: dict[str, TopologyConstraint] = {} if plan is None else {g.name: g.constraint for g in walk(plan.gang.root)}
    domains = {} if plan is None else plan.domains
    groups = {
        member: text(config, "name")
        for config in items(part, "spec.topologyConstraintGroupConfigs")
        for member in config.get("podGroupNames", ())
    }
    for entry in items(part, "spec.podgroups"):
        name = text(entry, "name")
        own = levels.get(name)
        level = name if own is not None and together(own) else groups.get(name, "")
        replicas = integer(cliques.get(name), "spec.replicas", integer(entry, "minReplicas"))
        yield CliqueReport(
            name=name,
            minimum=integer(entry, "minReplicas") if replicas else 0,
            replicas=replicas,
            pods=tuple(_pod(pod, members, core) for pod in sorted(pods.get(name, ()), key=_index)),
            together=together(levels[level]) if level and level in levels else "",
            domain=domains.get(level, "") if level else "",
        )


def _index(pod: Pod) -> tuple[int, str]:
    return number(pod.metadata.labels.get(names.POD_INDEX, "")) or 0, key(pod.metadata)


def _pod(pod: Pod, members: Mapping[str, Member], core: Collection[str]) -> PodReport:
    """A pod as its gang has it: a plan may have placed it, or lifted its gate."""
    name, member = pod.metadata.name, members.get(pod.metadata.name)
    if member is None:
        return PodReport(name, pod_state(pod), pod.spec.node_name)
    role = ("core" if name in core else "extra") if member.state is PodState.PLACED else ""
    return PodReport(name, member.state, member.node, role)

"""What the operator makes of a PodCliqueSet and others change: the scale of PodCliques and groups (R9), and gangs."""

from collections.abc import Iterator

from muster.api.grove.pod_clique import MOST_CLIQUES, PodClique
from muster.api.grove.pod_clique_scaling_group import PodCliqueScalingGroup
from muster.api.grove.pod_gang import PodGang
from muster.validation.problem import Problem, listed


def judge(child: PodClique | PodCliqueScalingGroup | PodGang) -> Iterator[Problem]:
    """Every problem of one of them."""
    match child:
        case PodClique(spec=spec):
            yield from _scale(spec.replicas, spec.min_available, "pods")
        case PodCliqueScalingGroup(spec=group):
            yield from _scale(group.replicas, group.min_available, "replicas")
            if group.replicas > MOST_CLIQUES:
                says = f"is {group.replicas}: a set has at most {MOST_CLIQUES} PodCliques"
                yield Problem("spec.replicas", says, hint="use several sets", rule="R9")
        case PodGang():
            yield from _gang(child)


def _gang(gang: PodGang) -> Iterator[Problem]:
    """Groups have names of their own, and constraints are on groups that exist."""
    names: set[str] = set()
    for i, part in enumerate(gang.spec.podgroups):
        at = f"spec.podgroups[{i}]"
        if not part.name or part.name in names:
            says = f"`{part.name[:63]}` occurs twice" if part.name else "is missing"
            yield Problem(f"{at}.name", says, hint="each PodGroup has a name of its own", rule="R3")
        if part.min_replicas < 0:
            says = f"must be at least 0, is {part.min_replicas}"
            yield Problem(f"{at}.minReplicas", says, hint="how many pods start together", rule="R3")
        names.add(part.name)
    for i, group in enumerate(gang.spec.topology_constraint_group_configs):
        for name in group.pod_group_names:
            if name not in names:
                at, says = f"spec.topologyConstraintGroupConfigs[{i}]", f"`{name[:63]}` is not a PodGroup of this gang"
                yield Problem(f"{at}.podGroupNames", says, hint=f"known: {listed(names)}", rule="R3")


def _scale(replicas: int, minimum: int | None, counted: str) -> Iterator[Problem]:
    """Scaled to zero nothing is needed; above that, fewer than the minimum are never scheduled."""
    if replicas < 0:
        yield Problem("spec.replicas", f"must be at least 0, is {replicas}", hint="0 scales it to zero", rule="R9")
    if minimum is not None and 0 < replicas < minimum:
        yield Problem(
            "spec.replicas",
            f"is {replicas}, below `minAvailable` {minimum}: so few {counted} are never scheduled",
            hint=f"0, or at least {minimum}",
            rule="R9",
        )

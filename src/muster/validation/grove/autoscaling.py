"""Limits of autoscalers (R4): never below the minimum of a gang, and never below what the template begins with."""

from collections.abc import Iterator

from muster.api.grove.pod_clique import AutoScalingConfig
from muster.validation.grove.places import SetOutline
from muster.validation.problem import Problem


def judge(outline: SetOutline) -> Iterator[Problem]:
    """Every problem of an autoscaler's limits."""
    for at, clique in outline.placed_cliques():
        if clique.spec.auto_scaling_config:
            minimum = clique.spec.replicas if clique.spec.min_available is None else clique.spec.min_available
            place = f"{at}.spec.autoScalingConfig"
            yield from _limits(place, clique.spec.auto_scaling_config, minimum, clique.spec.replicas)
    for at, group in outline.placed_groups():
        if group.scale_config:
            yield from _limits(f"{at}.scaleConfig", group.scale_config, group.min_available, group.replicas)


def _limits(at: str, scaling: AutoScalingConfig, minimum: int, replicas: int) -> Iterator[Problem]:
    least = replicas if scaling.min_replicas is None else scaling.min_replicas
    most = scaling.max_replicas
    if least < minimum:
        says = f"scales to {least}, below `minAvailable` {minimum}: the gang would be recreated"
        yield Problem(f"{at}.minReplicas", says, hint=f"at least {minimum}", rule="R4")
    if most < least:
        says = f"is {most}, below `minReplicas` {least}"
        yield Problem(f"{at}.maxReplicas", says, hint=f"at least {max(least, replicas)}", rule="R4")
    elif most < replicas:
        says = f"is {most}, below the {replicas} replicas of the template"
        yield Problem(f"{at}.maxReplicas", says, hint=f"at least {replicas}, or fewer replicas", rule="R4")
    if not scaling.metrics:
        yield Problem(
            f"{at}.metrics",
            "names no metric: the autoscaler goes by 80 % of the requested CPU",
            hint="name metrics of autoscaling/v2; pods without a CPU request are never scaled",
            severity="warning",
            rule="R4",
        )

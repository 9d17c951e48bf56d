"""Cliques that scale together (R4): a clique is in one group at most, and a group names cliques that exist."""

from collections.abc import Iterator

from muster.api.grove.pod_clique_set import ScalingGroupTemplate
from muster.validation.grove.cliques import numbers
from muster.validation.grove.places import SetOutline
from muster.validation.problem import Problem, listed


def judge(outline: SetOutline) -> Iterator[Problem]:
    """Every problem of a group."""
    taken: dict[str, str] = {}
    for at, group in outline.placed_groups():
        yield from numbers(at, group.replicas, group.min_available)
        yield from _members(outline, at, group, taken)
    yield from _scaled_twice(outline)


def _members(outline: SetOutline, at: str, group: ScalingGroupTemplate, taken: dict[str, str]) -> Iterator[Problem]:
    """`taken`: the group of each clique so far."""
    if not group.clique_names:
        hint = f"name the cliques that scale together: {listed(outline.by_name)}"
        yield Problem(f"{at}.cliqueNames", "names no clique", hint=hint, rule="R4")
    for i, clique in enumerate(group.clique_names):
        place = f"{at}.cliqueNames[{i}]"
        if clique not in outline.by_name:
            says = f"`{clique[:63]}` is not a clique of this set"
            yield Problem(place, says, hint=f"known: {listed(outline.by_name)}", rule="R4")
        elif clique in taken:
            says = f"clique `{clique}` is in group `{taken[clique][:63]}` already"
            yield Problem(place, says, hint="a clique is in one group at most", rule="R4")
        taken.setdefault(clique, group.name)


def _scaled_twice(outline: SetOutline) -> Iterator[Problem]:
    for at, clique in outline.placed_cliques():
        group = outline.group_of.get(clique.name)
        if group is not None and clique.spec.auto_scaling_config is not None:
            yield Problem(
                f"{at}.spec.autoScalingConfig",
                f"clique `{clique.name}` scales with its group `{group.name[:63]}`, and not by itself",
                hint="move it to `scaleConfig` of the group",
                rule="R4",
            )

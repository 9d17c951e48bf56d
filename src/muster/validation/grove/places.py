"""Where things are in a PodCliqueSet, and what belongs to what."""

from collections.abc import Iterator
from functools import cached_property
from typing import Any

from muster.api.fields import at as value_at
from muster.api.grove.pod_clique_set import PodCliqueSet, PodCliqueTemplate, ScalingGroupTemplate

TEMPLATE = "spec.template"
CLIQUES = f"{TEMPLATE}.cliques"
GROUPS = f"{TEMPLATE}.podCliqueScalingGroups"
LARGEST = 2**31 - 1
LABEL_HINT = "a DNS label: lower-case letters, digits and `-`, at most 63"


def parts(raw: Any, path: str) -> list[Any]:
    """The list at a path of a set as it is written, whatever it holds: paths count every item."""
    value = value_at(raw, path)
    return value if isinstance(value, list) else []


class SetOutline:
    """A PodCliqueSet with indexes that all rules share."""

    def __init__(self, pcs: PodCliqueSet) -> None:
        self.pcs, self.template = pcs, pcs.spec.template
        self.cliques, self.groups = self.template.cliques, self.template.pod_clique_scaling_groups

    @cached_property
    def name(self) -> str:
        """Its name; of a generated one, as many characters as it will have."""
        metadata = self.pcs.metadata
        return metadata.name or (f"{metadata.generate_name}xxxxx" if metadata.generate_name else "")

    @cached_property
    def by_name(self) -> dict[str, PodCliqueTemplate]:
        """Cliques by name; of two with one name, the first."""
        return {clique.name: clique for clique in reversed(self.cliques)}

    @cached_property
    def group_of(self) -> dict[str, ScalingGroupTemplate]:
        """The group of each clique that is in one; where it is in two, the first."""
        return {clique: group for group in reversed(self.groups) for clique in group.clique_names}

    def placed_cliques(self) -> Iterator[tuple[str, PodCliqueTemplate]]:
        """Every clique with its path."""
        return ((f"{CLIQUES}[{i}]", clique) for i, clique in enumerate(self.cliques))

    def placed_groups(self) -> Iterator[tuple[str, ScalingGroupTemplate]]:
        """Every scaling group with its path."""
        return ((f"{GROUPS}[{i}]", group) for i, group in enumerate(self.groups))

"""The minimums of a group, children and pods apart (E2), as the spec names them, for status, `plan` and `tree`."""

from collections.abc import Mapping

from msgspec import Struct

from muster.model.gang.state import Standing
from muster.model.gang.types import Group, Leaf


class Minimums(Struct, frozen=True):
    """0 where a group has no such minimum: a leaf counts pods, a branch counts children, one of old both (M5)."""

    min_member: int  # pods
    min_sub_group: int  # direct children
    sub_groups: int  # direct children that there are
    satisfied_sub_groups: int

    def plain(self) -> dict[str, int]:
        """As data."""
        return {
            "minMember": self.min_member,
            "minSubGroup": self.min_sub_group,
            "subGroups": self.sub_groups,
            "satisfiedSubGroups": self.satisfied_sub_groups,
        }


def minimums_of(group: Group, now: Mapping[str, Standing]) -> Minimums:
    """The minimums of a group, and how many of its children meet theirs."""
    if isinstance(group, Leaf):
        return Minimums(group.need, 0, 0, 0)
    met = sum(now[child.name].satisfied for child in group.children)
    return Minimums(group.need_pods, group.need, len(group.children), met)

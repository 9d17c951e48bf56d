"""A gang with some of its pods replaced: a hypothesis is a new value, never an undo."""

from collections.abc import Mapping
from operator import is_

from msgspec.structs import replace

from muster.model.gang.gang import Gang
from muster.model.gang.pod_state import PodState
from muster.model.gang.state import update_standings
from muster.model.gang.types import Branch, Group, Leaf, Member, walk


def replace_members(root: Group, members: Mapping[tuple[str, str], Member]) -> Group:
    """The tree with some members replaced, by (leaf, pod); groups that do not change stay the same objects."""
    leaves = {leaf for leaf, _ in members}
    by_name: dict[str, Group] = {}
    for group in reversed(list(walk(root))):
        match group:
            case Leaf():
                if group.name in leaves:
                    after = tuple(members.get((group.name, member.name), member) for member in group.members)
                    group = replace(group, members=after)
                by_name[group.name] = group
            case Branch():
                children = tuple([by_name.pop(child.name) for child in group.children])
                same = all(map(is_, children, group.children))
                by_name[group.name] = group if same else replace(group, children=children)
    return by_name[root.name]


def with_members(gang: Gang, members: Mapping[tuple[str, str], Member]) -> Gang:
    """The gang with some members replaced, by (leaf, pod); leftovers by the name of the pod alone."""
    by_name = {name: member for (_, name), member in members.items()} if gang.leftovers else {}
    leftovers = tuple(by_name.get(member.name, member) for member in gang.leftovers)
    after = replace(gang, root=replace_members(gang.root, members), leftovers=leftovers)
    if isinstance(gang.root, Branch) and "standings" in gang.__dict__:
        after.__dict__["standings"] = update_standings(gang.standings, gang.root, after.root)
    return after


def place_members(root: Group, nodes: Mapping[tuple[str, str], str]) -> Group:
    """The tree with some pending pods placed on nodes, by (leaf, pod)."""
    by_name: dict[str, Group] = {}
    for group in reversed(list(walk(root))):
        match group:
            case Leaf():
                members = tuple(
                    replace(member, state=PodState.PLACED, node=nodes[group.name, member.name])
                    if (group.name, member.name) in nodes
                    else member
                    for member in group.members
                )
                by_name[group.name] = replace(group, members=members)
            case Branch():
                children = tuple(by_name.pop(child.name) for child in group.children)
                by_name[group.name] = replace(group, children=children)
    return by_name[root.name]

"""A gang as people see it: a drawn tree, data for programs, a diagram. CLI and dashboard share these."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import asdict

from muster.api.podgroup import TopologyConstraint
from muster.api.quantity import format_amount
from muster.errors import InputError
from muster.model.gang.demand import leaf_demands
from muster.model.gang.gang import Gang
from muster.model.gang.state import Standing, count_missing, has_enough_pods, standings
from muster.model.gang.types import Branch, Group, Leaf, walk
from muster.model.roles import Roles, leftovers, non_preemptible, resources, roles
from muster.model.shortage import shortages
from muster.reporting.explain import existing_pods, left_to
from muster.reporting.minimums import minimums_of
from muster.reporting.text import Line, Role, Span, guides, many, table

Part = Literal["core", "extra", "needed", "optional", "broken"]
PART_ROLES: Mapping[Part, Role] = {
    "core": "good",
    "extra": "plain",
    "needed": "warn",
    "optional": "dim",
    "broken": "bad",
}
NEVER = "it is never scheduled"
DEEPEST_JSON = 400  # levels; programs that read JSON give up soon after


class GangView(Struct, frozen=True, eq=False):
    """A gang with every answer about it computed once."""

    gang: Gang
    standings: Mapping[str, Standing]
    roles: Roles
    parts: Mapping[str, Part]


def inspect_gang(gang: Gang) -> GangView:
    """Compute everything that the views show of a gang."""
    return GangView(gang, gang.standings, roles(gang.root), parts(gang.root))


def parts(root: Group) -> dict[str, Part]:
    """What each group is: in the core; extra (satisfied, beyond the need); still needed; optional; or broken off.

    Where children are missing, those are needed that would be tried first (M3).
    """
    now = standings(root)
    by_group: dict[str, Part] = {}
    ahead: list[tuple[Group, Part]] = [(root, "core" if now[root.name].satisfied else "needed")]
    while ahead:
        group, part = ahead.pop()
        by_group[group.name] = part
        if isinstance(group, Branch):
            ahead += zip(group.children, _children_parts(group, part, now), strict=True)
    return by_group


def _children_parts(branch: Branch, part: Part, now: Mapping[str, Standing]) -> list[Part]:
    first = sorted(
        branch.children,
        key=lambda child: (
            not now[child.name].satisfied,
            now[child.name].missing if not now[child.name].satisfied else 0,
        ),
    )
    needed = {child.name for child in first[: branch.need]}
    return [_part(child, child.name in needed, part, now) for child in branch.children]


def _part(child: Group, needed: bool, around: Part, now: Mapping[str, Standing]) -> Part:
    standing = now[child.name]
    if standing.satisfied:
        if not needed:
            return "extra"
        return around if around in ("extra", "optional") else "core"
    if around == "optional" or not needed:
        return "broken" if standing.placed else "optional"
    return "needed"


# drawing ------------------------------------------------------------------------------------------------------------


def draw_tree(
    seen: GangView, domains: Mapping[str, str] | None = None, pods: Mapping[str, Span] | None = None
) -> Iterator[Line]:
    """The gang as a tree: minimums, what is placed, levels and domains, and what is core or optional.

    With `domains`, the domain of a group follows its level. With `pods`, there is one more column: a text about the
    pods of each leaf, by its name.
    """
    yield from _heading(seen)
    lines = guides(map(_children, walk(seen.gang.root)))
    words = ("GROUP", "NEEDS", "PLACED", *(("PODS",) if pods is not None else ()), "TOGETHER IN", "PART")
    rows = [[Span(text, "dim") for text in words]]
    for group in walk(seen.gang.root):
        standing, part = seen.standings[group.name], seen.parts[group.name]
        rows.append(
            [
                Span(lines[group.name] + (group.name or seen.gang.name), "name"),
                Span(needs(group)),
                Span(_placed(group, standing), "good" if standing.satisfied else "warn"),
                *((pods.get(group.name, Span("")),) if pods is not None else ()),
                _where(group, (domains or {}).get(group.name, "")),
                Span(part, PART_ROLES[part]),
            ]
        )
    yield from table(rows)
    running = {f"{seen.gang.namespace}/{pod.name}": pod.node for pod in leftovers(seen.gang)}
    for stray in seen.gang.strays:
        then = f"it runs on `{running[stray.pod]}` as a leftover, and leaves first" if stray.pod in running else NEVER
        yield [Span(f"! pod `{stray.pod}` {stray.says}: {then} (N4)", "bad")]


def _where(group: Group, domain: str) -> Span:
    words = together(group.constraint)
    if not words:
        return Span("-", "dim")
    return Span(f"{words}: {domain}" if domain else words)


def _heading(seen: GangView) -> Iterator[Line]:
    gang, root = seen.gang, seen.standings[seen.gang.root.name]
    state = "satisfied" if root.satisfied else _waiting(seen)
    yield [
        Span(gang.key, "name"),
        Span(f"  {gang.preemptibility}, queue {gang.queue}, priority {gang.priority}  ", "dim"),
        Span(state, "good" if root.satisfied else "warn"),
    ]
    if root.placed:
        core, extra = len(seen.roles.core), sum(len(unit) for unit in seen.roles.surplus)
        yield [Span(f"{many(core, 'core pod')}, {extra} extra; {_protected(gang)}")]


def _protected(gang: Gang) -> str:
    pods = non_preemptible(gang)
    amounts = [f"{format_amount(name, value)} {name}" for name, value in sorted(resources(pods).items())]
    return f"protected: {', '.join(amounts) or many(len(pods), 'pod')}" if pods else "nothing protected"


def _waiting(seen: GangView) -> str:
    gang = seen.gang
    if has_enough_pods(gang.root):
        return f"{many(count_missing(gang.root), 'pod')} still to place"
    others = [left_to(gang.other_schedulers, is_all=gang.is_foreign)] if gang.other_schedulers else []
    lacking = [] if gang.is_foreign else [existing_pods(shortage) for shortage in shortages(gang.root)]
    return "; ".join((*others, *([f"not enough pods: {'; '.join(lacking)}"] if lacking else ())))


def _children(group: Group) -> tuple[str, list[str]]:
    return group.name, [child.name for child in group.children] if isinstance(group, Branch) else []


def needs(group: Group) -> str:
    """A minimum in words: `3 of 4 groups`, `8 pods`."""
    if isinstance(group, Leaf):
        return many(group.need, "pod")
    whole = len(group.children)
    all_of_them = "its one group" if whole == 1 else f"all {whole} groups"
    children = f"{group.need} of {whole} groups" if group.need != whole else all_of_them
    return f"{children} and {many(group.need_pods, 'pod')}" if group.need_pods else children


def _placed(group: Group, standing: Standing) -> str:
    done = f" +{standing.succeeded} done" if standing.succeeded else ""
    if isinstance(group, Leaf):
        return f"{standing.placed}/{max(group.need, len(group.members))}{done}"
    return f"{many(standing.placed, 'pod')}{done}"


def together(constraint: TopologyConstraint) -> str:
    """A constraint in words."""
    words = []
    if constraint.required_topology_level:
        words.append(constraint.required_topology_level)
    if constraint.preferred_topology_level:
        words.append(f"{constraint.preferred_topology_level} if possible")
    named = f" ({constraint.topology})" if constraint.topology and words else ""
    return ", ".join(words) + named


# data ---------------------------------------------------------------------------------------------------------------


def data(seen: GangView) -> dict[str, Any]:
    """The gang for programs; `tree` as in a plan."""
    gang = seen.gang
    protected = non_preemptible(gang)
    return {
        "namespace": gang.namespace,
        "name": gang.name,
        "queue": gang.queue,
        "priority": gang.priority,
        "preemptibility": gang.preemptibility,
        "satisfied": seen.standings[gang.root.name].satisfied,
        "ready": has_enough_pods(gang.root),
        "missing": [
            {"subGroup": want.leaf, "pods": want.pods, "candidates": [pod.name for pod in want.candidates]}
            for want in leaf_demands(gang.root)
        ],
        "notEnoughPods": [
            {"subGroup": shortage.group, **{name: count for name, count in asdict(shortage).items() if name != "group"}}
            for shortage in (() if gang.is_foreign else shortages(gang.root))
        ],
        "otherSchedulers": list(gang.other_schedulers),
        "core": sorted(pod.name for pod in seen.roles.core),
        "surplus": [[pod.name for pod in unit] for unit in seen.roles.surplus],
        "nonPreemptible": {
            "pods": sorted(pod.name for pod in protected),
            "resources": {name: format_amount(name, value) for name, value in sorted(resources(protected).items())},
        },
        "strays": [{"pod": stray.pod, "reason": stray.why, "message": stray.says} for stray in gang.strays],
        "leftovers": [pod.name for pod in leftovers(gang)],
        "tree": _nested(seen),
    }


def depth(root: Group) -> int:
    """Levels of the tree."""
    levels = {root.name: 1}
    for group in walk(root):
        if isinstance(group, Branch):
            levels |= {child.name: levels[group.name] + 1 for child in group.children}
    return max(levels.values())


def _nested(seen: GangView) -> dict[str, Any]:
    if depth(seen.gang.root) > DEEPEST_JSON:
        raise InputError(
            f"podgroup `{seen.gang.key}` is {depth(seen.gang.root)} levels deep: too deep for nested JSON",
            hint="`-o table` draws it",
        )
    made: dict[str, dict[str, Any]] = {}
    for group in reversed(list(walk(seen.gang.root))):
        standing = seen.standings[group.name]
        children = [made.pop(child.name) for child in group.children] if isinstance(group, Branch) else []
        made[group.name] = {
            "name": group.name,
            "need": group.need,
            "counts": "pods" if isinstance(group, Leaf) else "groups",
            **({"needPods": group.need_pods} if isinstance(group, Branch) and group.need_pods else {}),
            **minimums_of(group, seen.standings).plain(),
            "satisfied": standing.satisfied,
            "placed": standing.placed,
            "succeeded": standing.succeeded,
            "pending": standing.pending,
            "gated": standing.gated,
            "missing": standing.missing,
            "part": seen.parts[group.name],
            "domain": "",
            "required": group.constraint.required_topology_level,
            "preferred": group.constraint.preferred_topology_level,
            "topology": group.constraint.topology,
            "children": children,
        }
    return made[seen.gang.root.name]


# diagrams -----------------------------------------------------------------------------------------------------------


def mermaid(seen: GangView) -> Iterator[str]:
    """The gang as a Mermaid graph; what is optional is dashed."""
    yield "graph TD"
    ids = {group.name: f"g{i}" for i, group in enumerate(walk(seen.gang.root))}
    dashed: list[str] = []
    for group in walk(seen.gang.root):
        label = [group.name or f"PodGroup: {seen.gang.key}", needs(group)]
        label += [f"in one {together(group.constraint)}"] if together(group.constraint) else []
        yield f'    {ids[group.name]}["{"<br/>".join(map(_escaped, label))}"]'
        if seen.parts[group.name] in ("optional", "extra"):
            dashed.append(ids[group.name])
        if isinstance(group, Branch):
            yield from (f"    {ids[group.name]} --> {ids[child.name]}" for child in group.children)
    for name in dashed:
        yield f"    style {name} stroke-dasharray: 5 5"


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace(">", "&gt;")

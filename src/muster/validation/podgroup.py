"""V1, V2, V3 and the values of a PodGroup. Each rule yields every problem and is linear in SubGroups."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct

from muster.api import names
from muster.api.duration import parse_nanoseconds
from muster.api.names import DNS_LABEL
from muster.api.podgroup import PodGroup, PodGroupSpec, SubGroup
from muster.validation.problem import Problem, listed

LARGEST = 2**31 - 1
PREEMPTIBILITIES = (names.PREEMPTIBLE, names.NON_PREEMPTIBLE, names.SEMI_PREEMPTIBLE)
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


class GroupPlace(Struct, frozen=True):
    """The PodGroup or one SubGroup; of two minimums, one of 0 counts as unset (V1)."""

    name: str  # empty: the PodGroup itself
    at: str
    min_member: int | None
    min_sub_group: int | None
    children: int

    @property
    def called(self) -> str:
        """The place in a sentence."""
        return f"`{self.name}`" if self.name else "the PodGroup"


class Outline(Struct, frozen=True):
    """A spec with the number of children at each place, counted once."""

    spec: PodGroupSpec
    places: tuple[GroupPlace, ...]  # the PodGroup first, then SubGroups in spec order


Rule = Callable[[Outline], Iterator[Problem]]


def outline(spec: PodGroupSpec) -> Outline:
    """Count children by the parent that they name; the rules report unknown and repeated names."""
    children = Counter(group.parent for group in spec.sub_groups if group.parent != group.name or not group.name)
    root = GroupPlace("", "spec", *_minimums(spec), children[""])
    rest = (
        GroupPlace(group.name, f"spec.subGroups[{i}]", *_minimums(group), children[group.name] if group.name else 0)
        for i, group in enumerate(spec.sub_groups)
    )
    return Outline(spec, (root, *rest))


def _minimums(part: PodGroupSpec | SubGroup) -> tuple[int | None, int | None]:
    """V1: a 0 beside the other one counts as unset."""
    pods, groups = part.min_member, part.min_sub_group
    return None if pods == 0 and (groups or 0) > 0 else pods, None if groups == 0 and (pods or 0) > 0 else groups


def parents_first(spec: PodGroupSpec) -> tuple[SubGroup, ...]:
    """SubGroups with every parent before its children, siblings in spec order; without unreachable ones."""
    children: dict[str, list[SubGroup]] = defaultdict(list)
    for group in {group.name: group for group in reversed(spec.sub_groups)}.values():
        children[group.parent].append(group)
    ordered: list[SubGroup] = []
    pending = children[""]
    while pending:
        group = pending.pop()
        if group.name:
            ordered.append(group)
            pending += children[group.name]
    return tuple(ordered)


# V1 -----------------------------------------------------------------------------------------------------------------


def one_minimum(outline: Outline) -> Iterator[Problem]:
    """`minMember` and `minSubGroup` exclude each other, at every place."""
    for place in outline.places:
        if place.min_member is not None and place.min_sub_group is not None and place.min_member > 0:
            drop, why = (
                ("minMember", "it has children and counts them")
                if place.children
                else ("minSubGroup", "it has no children to count")
            )
            yield Problem(
                f"{place.at}.{drop}",
                f"`minMember: {place.min_member}` and `minSubGroup: {place.min_sub_group}` exclude each other",
                hint=f"drop `{drop}`: {why}",
                rule="V1",
                key=f"both:{place.name}",
            )


def minimums_count(outline: Outline) -> Iterator[Problem]:
    """Each minimum is greater than 0."""
    for place in outline.places:
        for field, value in (("minMember", place.min_member), ("minSubGroup", place.min_sub_group)):
            if value is not None and not 0 < value <= LARGEST:
                yield Problem(
                    f"{place.at}.{field}",
                    f"must be between 1 and {LARGEST}, is {_short(value)}",
                    hint=_unset_means(place, field),
                    rule="V1",
                    key=f"range:{field}:{place.name}",
                )


def _unset_means(place: GroupPlace, field: str) -> str:
    if field == "minSubGroup":
        return "leave it out for all children" if place.children else "leave it out: there are no children to count"
    if place.children:
        return "leave it out: children are counted with `minSubGroup`"
    return "`minMember: 1` is the least" if place.name else "leave it out for 1"


def _short(value: int) -> str:
    return str(value) if abs(value) < 10**20 else "far outside"


# V2 -----------------------------------------------------------------------------------------------------------------


def enough_children(outline: Outline) -> Iterator[Problem]:
    """`minSubGroup` is at most the number of direct children."""
    for place in outline.places:
        if place.children and place.min_sub_group is not None and place.children < place.min_sub_group <= LARGEST:
            yield Problem(
                f"{place.at}.minSubGroup",
                f"needs {place.min_sub_group} children, but {place.called} has {place.children}",
                hint=f"at most {place.children}; leave it out for all of them",
                rule="V2",
                key=f"too-many:{place.name}",
            )


def children_to_count(outline: Outline) -> Iterator[Problem]:
    """`minSubGroup` stands only where there are children."""
    for place in outline.places:
        if not place.children and place.min_sub_group is not None and (place.min_member or 0) <= 0:
            instead = (
                f"`parent: {place.name}` makes a SubGroup its child; a leaf states `minMember` instead"
                if place.name
                else "add `subGroups`, or state `minMember` instead for a PodGroup that has pods of its own"
            )
            yield Problem(
                f"{place.at}.minSubGroup",
                f"counts children, but {place.called} has none",
                hint=instead,
                rule="V2",
                key=f"no-children:{place.name}",
            )


def leaves_count_pods(outline: Outline) -> Iterator[Problem]:
    """A leaf SubGroup states `minMember`; the PodGroup as its own leaf may leave it out (N2)."""
    for place in outline.places[1:]:
        if not place.children and place.min_member is None and place.min_sub_group is None:
            yield Problem(
                f"{place.at}.minMember",
                f"is missing: leaf {place.called} must say how many pods it needs",
                hint="`minMember: 1` is what a stored one without it counts as",
                rule="V2",
                key=f"leaf-without:{place.name}",
            )


def branches_count_children(outline: Outline) -> Iterator[Problem]:
    """A branch uses `minSubGroup`, not `minMember`; on the PodGroup itself, other controllers write it (M5)."""
    for place in outline.places:
        if place.children and place.min_member is not None and place.min_sub_group is None and place.min_member > 0:
            yield _pods_in_all(place) if not place.name else _pods_of_a_branch(place)


def _pods_in_all(root: GroupPlace) -> Problem:
    """A warning that says what it means: KAI's and Grove's own controllers write it."""
    return Problem(
        f"{root.at}.minMember",
        f"{_all_of(root.children)} needed, and {_short(root.min_member or 0)} pods in all (M5)",
        hint="`minSubGroup` instead counts subGroups, unset: all; `muster convert` rewrites files that mean that",
        severity="warning",
        rule="V2",
    )


def _all_of(children: int) -> str:
    return "its one top subGroup is" if children == 1 else f"all {children} top subGroups are"


def _pods_of_a_branch(place: GroupPlace) -> Problem:
    return Problem(
        f"{place.at}.minMember",
        f"counts pods, but {place.called} is a branch with children",
        hint="`minSubGroup` instead counts children, unset: all; `muster convert` rewrites older forms",
        rule="V2",
        key=f"branch-pods:{place.name}",
    )


# V3 -----------------------------------------------------------------------------------------------------------------


def names_are_labels(outline: Outline) -> Iterator[Problem]:
    """SubGroup names are DNS labels: pods carry them as a label's value."""
    for place in outline.places[1:]:
        if not place.name:
            yield Problem(f"{place.at}.name", "is missing", hint="every SubGroup has a name", rule="V3")
        elif not DNS_LABEL.fullmatch(place.name):
            yield Problem(
                f"{place.at}.name",
                f"`{place.name[:80]}` is not a DNS label",
                hint="lower-case letters, digits and `-`, at most 63, starting and ending with a letter or digit",
                rule="V3",
            )


def names_are_unique(outline: Outline) -> Iterator[Problem]:
    """A name stands for one SubGroup."""
    first: dict[str, str] = {}
    for place in outline.places[1:]:
        if place.name and place.name in first:
            yield Problem(
                f"{place.at}.name",
                f"`{place.name}` is already the name of {first[place.name]}",
                hint="give each SubGroup a name of its own",
                rule="V3",
            )
        first.setdefault(place.name, place.at)


def parents_exist(outline: Outline) -> Iterator[Problem]:
    """`parent` names a SubGroup of the same PodGroup, and not itself."""
    known = {place.name for place in outline.places}
    hint = ""  # built once: there may be thousands of problems
    for i, group in enumerate(outline.spec.sub_groups):
        at = f"spec.subGroups[{i}].parent"
        if group.parent and group.parent == group.name:
            yield Problem(
                at, f"`{group.name}` cannot be its own parent", hint="leave it out for the PodGroup", rule="V3"
            )
        elif group.parent not in known:
            hint = hint or f"known: {listed(known - {''})}"
            yield Problem(at, f"`{group.parent}` is not a subgroup here", hint=hint, rule="V3")


def parents_lead_up(outline: Outline) -> Iterator[Problem]:
    """The parents form no cycle."""
    parents = {group.name: group.parent for group in outline.spec.sub_groups}
    index = {group.name: i for i, group in enumerate(outline.spec.sub_groups)}
    settled = {""}
    for start in parents:
        path: list[str] = []
        on_path: dict[str, int] = {}
        name = start
        while name not in settled and name in parents and name not in on_path:
            on_path[name] = len(path)
            path.append(name)
            name = parents[name]
        if name in on_path and len(path) - on_path[name] > 1:
            ring = path[on_path[name] :]
            yield Problem(
                f"spec.subGroups[{index[name]}].parent",
                f"goes round in a circle: {_ring(ring)}",
                hint="leave `parent` out of the one that belongs directly under the PodGroup",
                rule="V3",
            )
        settled.update(path)


def _ring(ring: list[str]) -> str:
    shown = ring if len(ring) <= 8 else [*ring[:4], "…", ring[-1]]
    return " → ".join((*shown, ring[0]))


# D3, D4 -------------------------------------------------------------------------------------------------------------


def nothing_ignored(outline: Outline) -> Iterator[Problem]:
    """Fields of older dialects are errors: without them the gang would be a different one."""
    for field, value, now, rule in (
        ("subgroups", outline.spec.subgroups, "`subGroups`", "D4"),
        ("topologyConstraints", outline.spec.topology_constraints, "`topologyConstraint` on groups", "D3"),
    ):
        if value is not None:
            yield Problem(
                f"spec.{field}",
                f"is the older form of {now}, and would be ignored",
                hint="`muster convert` rewrites it",
                rule=rule,
            )


# values -------------------------------------------------------------------------------------------------------------


def known_preemptibility(outline: Outline) -> Iterator[Problem]:
    """One of the three words of P1."""
    word = outline.spec.preemptibility
    if word and word not in PREEMPTIBILITIES:
        yield _preemptibility("spec.preemptibility", word)


def known_values(outline: Outline) -> Iterator[Problem]:
    """Preemptibility, backoff and grace period have valid values."""
    spec = outline.spec
    yield from known_preemptibility(outline)
    if spec.scheduling_backoff not in (-1, 1):
        yield Problem(
            "spec.schedulingBackoff",
            f"must be -1 or 1, is {_short(spec.scheduling_backoff)}",
            hint="-1 keeps trying; 1 stops after one failed attempt until something changes",
            rule="S4",
        )
    if spec.staleness_grace_period is not None:
        try:
            parse_nanoseconds(spec.staleness_grace_period)
        except ValueError as error:
            yield Problem(
                "spec.stalenessGracePeriod", str(error), hint="such as `60s`, `5m`, or `-1s`: never", rule="S2"
            )


def _preemptibility(at: str, word: str) -> Problem:
    return Problem(
        at, f"`{word[:60]}` is not a preemptibility", hint=f"known: {', '.join(PREEMPTIBILITIES)}", rule="P1"
    )


RULES: tuple[Rule, ...] = (
    one_minimum,
    minimums_count,
    enough_children,
    children_to_count,
    leaves_count_pods,
    branches_count_children,
    names_are_labels,
    names_are_unique,
    parents_exist,
    parents_lead_up,
    nothing_ignored,
    known_values,
)
FORM: tuple[Rule, ...] = tuple(rule for rule in RULES if rule is not known_values)  # the form of record
TREE: tuple[Rule, ...] = (  # without these there is no tree; other problems leave one with a known meaning (M5)
    names_are_labels,
    names_are_unique,
    parents_exist,
    parents_lead_up,
    nothing_ignored,
)


def planning_problems(group: PodGroup) -> Iterator[Problem]:
    """Problems that keep a gang from being planned: no tree, a minimum out of range, an unknown preemptibility.

    Everything else that V1 and V2 refuse has a meaning in a stored object (M5, V4).
    """
    yield from judge(group.spec, (*TREE, minimums_count, known_preemptibility))
    yield from _judge_labels(group)


def judge(spec: PodGroupSpec, rules: Iterable[Rule] = RULES) -> Iterator[Problem]:
    """Every problem of the spec alone."""
    return judge_outline(outline(spec), rules)


def judge_outline(outlined: Outline, rules: Iterable[Rule] = RULES) -> Iterator[Problem]:
    """The same of a spec whose children are counted already."""
    for rule in rules:
        yield from rule(outlined)


def judge_metadata(group: PodGroup) -> Iterator[Problem]:
    """Every problem of the metadata: names that Kubernetes rejects, unknown values of labels."""
    name = group.metadata.name
    if not name and not group.metadata.generate_name:
        yield Problem("metadata.name", "is missing", hint="every PodGroup has a name")
    elif name and (len(name) > 253 or not _SUBDOMAIN.fullmatch(name)):
        yield Problem(
            "metadata.name",
            f"`{name[:80]}` is not a name that Kubernetes accepts",
            hint="lower-case letters, digits, `-` and `.`, at most 253",
        )
    yield from _judge_labels(group)
    namespace = group.metadata.namespace
    if namespace and not DNS_LABEL.fullmatch(namespace):
        yield Problem("metadata.namespace", f"`{namespace[:80]}` is not a namespace", hint="a DNS label, at most 63")


def _judge_labels(group: PodGroup) -> Iterator[Problem]:
    """The preemptibility label counts where the spec states none."""
    stated = group.metadata.labels.get(names.PREEMPTIBILITY, "")
    if stated and not group.spec.preemptibility and stated not in PREEMPTIBILITIES:
        yield _preemptibility(f"metadata.labels[{names.PREEMPTIBILITY}]", stated)

"""A user's own kinds: where their replicas, minimums, roles and topology stand, as JSON paths.

Rule 1: what the configuration says is checked when it is loaded (`custom_kind_problems`). Rule 2: what an object says
is not: a value of a wrong type counts as missing, as for the kinds that muster knows.
"""

from collections.abc import Iterator
from typing import Annotated, Any

from msgspec.structs import replace

from muster.api.jsonpath import evaluate
from muster.api.meta import Wire, doc
from muster.api.podgroup import TopologyConstraint
from muster.grouping.fields import number
from muster.grouping.gangs import ANY_POD, gang_of_tree, lacks_label, one_leaf, remembered_tree
from muster.grouping.table import KindRule
from muster.grouping.topology import template_constraint
from muster.grouping.tree import Part
from muster.grouping.types import TRAIN, GangTree, GroupingRequest, Owner, Raw, Ungrouped


class TopologyPaths(Wire, frozen=True):
    """Where an object names a Topology and its levels; empty: annotations of the object do (T1, T2)."""

    topology: Annotated[str, doc("Path of the name of the Topology.")] = ""
    required: Annotated[str, doc("Path of the level that all pods must share.")] = ""
    preferred: Annotated[str, doc("Path of the level that all pods should share.")] = ""


class RolePaths(Wire, frozen=True):
    """Where the roles of a kind stand; the other paths begin at a role."""

    path: Annotated[str, doc("Path of the roles: a list of objects, or an object by name. Empty: there are none.")] = ""
    name: Annotated[str, doc("The name of a role; of an object by name, its key is the name.")] = ".name"
    replicas: Annotated[str, doc("How many pods a role has; where it leads nowhere, 1.")] = ".replicas"
    minimum: Annotated[str, doc("How many of them are needed; empty, or where it leads nowhere: all.")] = ""
    template: Annotated[str, doc("The pod template, whose annotations may state the topology of the role.")] = (
        ".template"
    )


class CustomKind(Wire, frozen=True):
    """A kind of your own. Paths are JSON paths such as `.spec.replicas`, in `spec` or `metadata` of its objects."""

    api_version: Annotated[str, doc("Such as `example.com/v1`; every version of the group counts.")] = ""
    kind: Annotated[str, doc("Such as `Simulation`.")] = ""
    resource: Annotated[str, doc("The plural, such as `simulations`.")] = ""
    wrapper: Annotated[bool, doc("The owner below it chooses the rule, and it only adds labels and annotations.")] = (
        False
    )
    replicas: Annotated[str, doc("Without roles: path of how many pods there are.")] = ""
    minimum: Annotated[
        str, doc("Without roles: path of how many of them are needed; where it leads nowhere, `replicas`, else 1.")
    ] = ""
    roles: Annotated[RolePaths, doc("Its roles, a SubGroup each.")] = RolePaths()
    role_label: Annotated[str, doc("The label of its pods that holds the name of their role.")] = ""
    topology: Annotated[TopologyPaths, doc("Where its topology stands.")] = TopologyPaths()
    priority_class: Annotated[
        str, doc("The PriorityClass where neither object nor pod names one, and where it exists.")
    ] = TRAIN

    @property
    def group(self) -> str:
        """The API group; empty: core."""
        return self.api_version.rpartition("/")[0]


def custom_rule(custom: CustomKind) -> KindRule:
    """The kind as a line of the table."""

    def group(request: GroupingRequest) -> GangTree | Ungrouped:
        """`pg-<owner>-<uid>`, with a leaf for every role."""
        gang = _by_roles(request, custom) if custom.roles.path else _without_roles(request.owner, custom)
        if isinstance(gang, Ungrouped):
            return gang
        constraint = _topology(request.owner, custom.topology)
        return replace(gang, constraint=constraint, priority_class=custom.priority_class)

    return KindRule(custom.group, custom.kind, custom.resource, group, custom.wrapper)


def _without_roles(owner: Owner, custom: CustomKind) -> GangTree | Ungrouped:
    raw = _plain(owner)
    for path in filter(None, (custom.minimum, custom.replicas)):
        if value := number_at(raw, path):
            return one_leaf(owner, min(value, number_at(raw, custom.replicas) or value), path)
    return one_leaf(owner, 1, ANY_POD)


def _by_roles(request: GroupingRequest, custom: CustomKind) -> GangTree | Ungrouped:
    owner, role = request.owner, request.pod.metadata.labels.get(custom.role_label, "")
    if not role:
        return lacks_label(request.pod, custom.role_label, owner)
    return gang_of_tree(owner, remembered_tree(owner, custom, _parts(owner, custom.roles)), (role,))


def _parts(owner: Owner, paths: RolePaths) -> Iterator[Part]:
    for name, role in roles_of(_plain(owner), paths):
        declared = number_at(role, paths.replicas)
        replicas = 1 if declared is None else declared
        stated = number_at(role, paths.minimum) if paths.minimum else None
        minimum = replicas if stated is None else min(stated, replicas)
        if name and replicas:
            yield Part(
                name=name,
                need=minimum,
                source=f"{paths.replicas if stated is None else paths.minimum} of role {name}",
                constraint=template_constraint(first_at(role, paths.template) or {}),
                is_needed=minimum > 0,
            )


def roles_of(raw: Raw, paths: RolePaths) -> Iterator[tuple[str, Any]]:
    """Every role with its name, in the order of the object."""
    for value in evaluate(raw, paths.path):
        if isinstance(value, list):
            yield from ((_text(item, paths.name), item) for item in value)
        elif isinstance(value, dict):
            yield from ((str(name), item) for name, item in value.items())


def _topology(owner: Owner, paths: TopologyPaths) -> TopologyConstraint | None:
    """None: the annotations of the object say."""
    raw = _plain(owner)
    levels = _text(raw, paths.required), _text(raw, paths.preferred)
    return TopologyConstraint(_text(raw, paths.topology), *levels) if any(levels) else None


def _plain(owner: Owner) -> Raw:
    """What paths read of an object."""
    meta = owner.metadata
    return {
        "metadata": {"name": meta.name, "labels": meta.labels, "annotations": meta.annotations},
        "spec": owner.spec,
    }


def first_at(raw: Any, path: str) -> Any:
    """The first value at a path; None: there is none."""
    return next(iter(evaluate(raw, path)), None) if path else None


def _text(raw: Any, path: str) -> str:
    value = first_at(raw, path)
    return value if isinstance(value, str) else ""


def number_at(raw: Any, path: str) -> int | None:
    """A whole number from 0 up, in digits too, as annotations have it; None: there is none."""
    value = first_at(raw, path)
    if isinstance(value, str):
        return number(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None

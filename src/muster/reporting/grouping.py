"""Which PodGroups workloads get, for people and for programs: trees with the source of every minimum, and notes."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from muster.api.decoding import encode
from muster.api.names import DEFAULT_QUEUE
from muster.api.podgroup import PodGroupSpec, SubGroup, TopologyConstraint
from muster.api.resources import POD_GROUPS
from muster.grouping.manifests.shortages import shortage_of
from muster.grouping.manifests.types import ExpandedWorkload, GroupedObjects, PlannedGang, UngroupedPods, Workload
from muster.grouping.table import KINDS
from muster.reporting.text import Line, Span, guides, many, table
from muster.reporting.views import together

MOST_NAMED = 5  # workloads or pods in one sentence
MOST_NOTES = 10  # about pods of one kind of trouble
UNWRITTEN = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields")
DEFAULT_SCHEDULER = "default-scheduler"  # Kubernetes' own

# trees --------------------------------------------------------------------------------------------------------------


def lines(grouped: GroupedObjects) -> Iterator[Line]:
    """Every PodGroup as a tree, those alike once; then the pods that get none."""
    ordered = sorted(grouped.gangs, key=lambda gang: (gang.workload, gang.key))
    is_first = True
    for _, alike in groupby(ordered, key=lambda gang: (gang.workload, gang.rule, gang.pod_group.spec, gang.pods)):
        if not is_first:
            yield []
        yield from _gang_lines(list(alike))
        is_first = False
    for missing in grouped.ungrouped:
        if not is_first:
            yield []
        yield [Span(f"! {_not_grouped(missing)}", "bad")]
        yield [Span(f"  hint: {missing.why.hint}")]
        is_first = False


def _gang_lines(alike: Sequence[PlannedGang]) -> Iterator[Line]:
    gang = alike[0]
    yield [Span(gang.key, "name"), Span(f"  {_about(gang)}", "dim")]
    if len(alike) > 1:
        yield [Span(f"and {len(alike) - 1} more like it, to {alike[-1].key}")]
    rows = [[Span(text, "dim") for text in ("GROUP", "NEEDS", "PODS", "TOGETHER IN", "BECAUSE")]]
    spec, children = gang.pod_group.spec, _children(gang.pod_group.spec)
    sources = {minimum.group: minimum.source for minimum in gang.minimums}
    by_name: dict[str, PodGroupSpec | SubGroup] = {"": spec, **{group.name: group for group in spec.sub_groups}}
    order = _parents_first(children)
    drawn = guides((name, children.get(name, ())) for name in order)
    for name in order:
        group = by_name[name]
        below = children.get(name, ())
        rows.append(
            [
                Span(drawn[name] + (name or gang.pod_group.metadata.name), "name"),
                Span(_needs(group, len(below))),
                Span("" if below else str(gang.pods.get(name, 0))),
                Span(_together(group.topology_constraint) or "-"),
                Span(sources.get(name, "the PodGroup that exists says so"), "dim"),
            ]
        )
    yield from table(rows)


def _about(gang: PlannedGang) -> str:
    spec = gang.pod_group.spec
    parts = [
        f"{gang.workload} by the rule for {gang.rule}",
        f"queue {spec.queue or DEFAULT_QUEUE}",
        f"priority class {spec.priority_class_name}" if spec.priority_class_name else "",
        spec.preemptibility,
        "exists" if gang.is_existing else "",
    ]
    return ", ".join(filter(None, parts))


def _children(spec: PodGroupSpec) -> dict[str, list[str]]:
    children: dict[str, list[str]] = {}
    for group in spec.sub_groups:
        children.setdefault(group.parent, []).append(group.name)
    return children


def _parents_first(children: dict[str, list[str]]) -> list[str]:
    """Every group before its children, and those before its siblings."""
    order, ahead = [], [""]
    while ahead:
        name = ahead.pop()
        order.append(name)
        ahead += reversed(children.get(name, ()))
    return order


def _needs(group: PodGroupSpec | SubGroup, children: int) -> str:
    if not children:
        return many(group.min_member or 1, "pod")
    if group.min_sub_group is None or group.min_sub_group == children:
        return "its one group" if children == 1 else f"all {children} groups"
    return f"{group.min_sub_group} of {children} groups"


def _together(constraint: TopologyConstraint | None) -> str:
    return together(constraint) if constraint else ""


def _not_grouped(missing: UngroupedPods) -> str:
    return f"{_pods_of(missing)}: {missing.why.message}"


def _pods_of(pods: UngroupedPods) -> str:
    if len(pods.pods) == 1:
        return f"pod `{pods.pods[0]}`"
    return f"{len(pods.pods)} pods such as `{pods.pods[0]}`"


# data ---------------------------------------------------------------------------------------------------------------


def data(grouped: GroupedObjects) -> dict[str, Any]:
    """The grouping for programs."""
    return {
        "podGroups": [_gang_data(gang) for gang in grouped.gangs],
        "ungrouped": [_reason_data(missing) for missing in grouped.ungrouped],
        "notes": [_reason_data(note) for note in grouped.notes],
        "workloads": [
            {**_workload_data(each.workload), "futurePods": each.pods, "source": each.where}
            for each in grouped.expanded
        ],
    }


def _gang_data(gang: PlannedGang) -> dict[str, Any]:
    meta, spec = gang.pod_group.metadata, gang.pod_group.spec
    return {
        "namespace": meta.namespace,
        "name": meta.name,
        "rule": gang.rule,
        "workload": _workload_data(gang.workload),
        "exists": gang.is_existing,
        "queue": spec.queue,
        "priorityClassName": spec.priority_class_name,
        "preemptibility": spec.preemptibility,
        "tree": _tree(gang),
    }


def _tree(gang: PlannedGang) -> dict[str, Any]:
    """Nested, parents around children: rules make trees of a few levels."""
    spec, children = gang.pod_group.spec, _children(gang.pod_group.spec)
    sources = {minimum.group: minimum.source for minimum in gang.minimums}
    made: dict[str, dict[str, Any]] = {}
    for group in reversed(spec.sub_groups):
        below = [made.pop(name) for name in children.get(group.name, ())]
        made[group.name] = _node(group.name, group, below, sources, gang)
    return _node("", spec, [made.pop(name) for name in children.get("", ())], sources, gang)


def _node(
    name: str, group: PodGroupSpec | SubGroup, below: list[dict[str, Any]], sources: dict[str, str], gang: PlannedGang
) -> dict[str, Any]:
    constraint = group.topology_constraint or TopologyConstraint()
    need = (group.min_sub_group or len(below)) if below else group.min_member or 1
    return {
        "name": name,
        "need": need,
        "counts": "groups" if below else "pods",
        "source": sources.get(name, ""),
        "pods": sum(child["pods"] for child in below) if below else gang.pods.get(name, 0),
        "required": constraint.required_topology_level,
        "preferred": constraint.preferred_topology_level,
        "topology": constraint.topology,
        "children": below,
    }


def _workload_data(workload: Workload) -> dict[str, str]:
    return {
        "apiVersion": workload.api_version,
        "kind": workload.kind,
        "namespace": workload.namespace,
        "name": workload.name,
    }


def _reason_data(pods: UngroupedPods) -> dict[str, Any]:
    return {
        "workload": _workload_data(pods.workload),
        "pods": list(pods.pods),
        "reason": pods.why.reason,
        "message": pods.why.message,
        "hint": pods.why.hint,
    }


def manifests(grouped: GroupedObjects) -> list[dict[str, Any]]:
    """The PodGroups as objects that an API server accepts."""
    return [_manifest(gang) for gang in grouped.gangs]


def _manifest(gang: PlannedGang) -> dict[str, Any]:
    raw = encode(gang.pod_group)
    raw["metadata"] = {name: value for name, value in raw["metadata"].items() if name not in UNWRITTEN}
    raw.pop("status", None)
    return {"apiVersion": POD_GROUPS.api_version, "kind": POD_GROUPS.kind, **raw}


# notes --------------------------------------------------------------------------------------------------------------


def notes(grouped: GroupedObjects, schedulers: Collection[str]) -> Iterator[str]:
    """What to tell beside the data: which workloads were expanded, and what stands in their way."""
    made = [f"{each.pods} of {each.workload}" for each in grouped.expanded if each.pods]
    if made:
        yield f"pods that do not exist yet are made from templates: {_listed(made)}"
    yield from _schedulers(grouped.expanded, schedulers)
    without = [str(each.workload) for each in grouped.expanded if not each.pods and each.has_controller]
    if without:
        yield f"no pods are to come, as they are suspended, finished or have no replicas: {_listed(without)}"
    unknown = [str(each.workload) for each in grouped.expanded if not each.pods and not each.has_controller]
    if unknown:
        yield f"muster does not make the pods of these; add the pods to see their PodGroups: {_listed(unknown)}"
    yield from _bounded(list(_shortages(grouped.gangs)))
    yield from _bounded([f"{_pods_of(note)}: {note.why.message}; hint: {note.why.hint}" for note in grouped.notes])


def _shortages(gangs: Iterable[PlannedGang]) -> Iterator[str]:
    """Gangs that will never start: one sentence a workload."""
    seen: set[Workload] = set()
    for gang in gangs:
        shortage = None if gang.workload in seen else shortage_of(gang)
        if shortage is not None:
            seen.add(gang.workload)
            group = f"`{shortage.group}` of {gang.key}" if shortage.group else gang.key
            yield (
                f"{gang.workload} will never start: {group} needs {many(shortage.need, 'pod')} "
                f"({shortage.source}), and will have {shortage.pods}; hint: {_more_pods(gang)}"
            )


def _more_pods(gang: PlannedGang) -> str:
    hint = "lower the minimum, or ask for more pods"
    group, kind = gang.workload.api_version.rpartition("/")[0], gang.workload.kind
    return hint if (group, kind) in KINDS else f"{hint}; `replicas` in `grouping.kinds` says where their number stands"


def ungrouped_notes(grouped: GroupedObjects) -> Iterator[str]:
    """Pods without a PodGroup, for verbs that show something else."""
    return _bounded([f"{_not_grouped(missing)}; hint: {missing.why.hint}" for missing in grouped.ungrouped])


def _bounded(texts: Sequence[str]) -> Iterator[str]:
    yield from texts[:MOST_NOTES]
    if len(texts) > MOST_NOTES:
        yield f"{len(texts) - MOST_NOTES} more workloads like that; `muster group` lists all"


def _schedulers(expanded: Iterable[ExpandedWorkload], ours: Collection[str]) -> Iterator[str]:
    expanded = list(expanded)
    if silent := [str(each.workload) for each in expanded if "" in each.schedulers]:
        yield (
            f"these name no scheduler, and a cluster would leave them to `{DEFAULT_SCHEDULER}`: {_listed(silent)}; "
            f"hint: say `schedulerName: {next(iter(ours), '')}` in their pod templates"
        )
    others = sorted({name for each in expanded for name in each.schedulers if name and name not in ours})
    for name in others[:MOST_NAMED]:
        workloads = [str(each.workload) for each in expanded if name in each.schedulers]
        yield f"these are left to scheduler `{name}`: {_listed(workloads)}"


def _listed(texts: Sequence[str]) -> str:
    more = f" and {len(texts) - MOST_NAMED} more" if len(texts) > MOST_NAMED else ""
    return ", ".join(texts[:MOST_NAMED]) + more

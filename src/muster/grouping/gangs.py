"""Gangs as the rules of kinds state them: one leaf, one PodGroup a pod, or a tree."""

from collections.abc import Hashable, Iterable

from muster.api import names
from muster.api.meta import ObjectMeta, OwnerReference
from muster.api.resources import PODS
from muster.grouping.naming import pod_group_name, stem_of
from muster.grouping.tree import Part, Path, WorkloadTree, build_tree, remember
from muster.grouping.types import TRAIN, GangTree, GroupingRequest, Minimum, Owner, Ungrouped, WorkloadPod

ANY_POD = "one pod may start alone"


def owner_gang_name(owner: Owner, *more: str) -> str:
    """`pg-<owner>-<uid>`; in a file, where nothing has a uid yet, the kind takes its place."""
    return pod_group_name(stem_of(owner.metadata), owner.metadata.uid or owner.kind.lower(), *more)


def one_leaf(owner: Owner, minimum: int = 1, source: str = ANY_POD, priority_class: str = TRAIN) -> GangTree:
    """One PodGroup for all pods of an owner, without SubGroups."""
    return GangTree(
        name=owner_gang_name(owner),
        owner=owner.reference,
        min_member=minimum,
        priority_class=priority_class,
        minimums=(Minimum("", minimum, source),),
    )


def one_for_each_pod(request: GroupingRequest, uid: str, priority_class: str = TRAIN) -> GangTree:
    """A PodGroup for the pod alone: `pg-<pod>-<uid>`."""
    return GangTree(
        name=_kept_name(request) or pod_group_name(stem_of(request.pod.metadata), uid),
        owner=pod_reference(request.pod),
        min_member=1,
        priority_class=priority_class,
        minimums=(Minimum("", 1, "a PodGroup for each pod"),),
    )


def _kept_name(request: GroupingRequest) -> str:
    """The name that admission gave before the pod had a name and a uid; empty: there is none, or it is another's."""
    pod = request.pod.metadata
    name = pod.annotations.get(names.POD_GROUP, "") if names.GROUPED_BY in pod.annotations else ""
    is_shared = name == owner_gang_name(request.owner)
    return name if not is_shared and name.startswith(f"{_stem(pod)}-") else ""


def _stem(pod: ObjectMeta) -> str:
    """What the name of a pod's own PodGroup begins with, before and after the pod has a name."""
    return pod_group_name(pod.generate_name.rstrip("-.") or pod.name)


def admission_name(pod: ObjectMeta, suffix: str) -> str:
    """The name of a PodGroup for a pod that has no name and uid yet; `suffix` makes it the only one."""
    return pod_group_name(pod.generate_name.rstrip("-.") or pod.name, suffix)


def pod_reference(pod: WorkloadPod) -> OwnerReference:
    """How a PodGroup names a pod as its owner."""
    return OwnerReference(PODS.api_version, PODS.kind, pod.metadata.name, pod.metadata.uid)


def gang_of_tree(
    owner: Owner, tree: WorkloadTree | Ungrouped, path: Path, name: str = "", priority_class: str = TRAIN
) -> GangTree | Ungrouped:
    """The gang of an owner, and the pod's place in it."""
    if isinstance(tree, Ungrouped):
        return tree
    leaf = tree.leaves.get(path)
    if leaf is None:
        return no_place(owner, path)
    return GangTree(
        name=name or owner_gang_name(owner),
        owner=owner.reference,
        leaf=leaf,
        min_sub_group=tree.min_sub_group,
        sub_groups=tree.sub_groups,
        late=tree.late,
        spare=tree.spare,
        priority_class=priority_class,
        minimums=tree.minimums,
    )


def remembered_tree(
    owner: Owner, key: Hashable, parts: Iterable[Part], need: int | None = None, source: str = ""
) -> WorkloadTree | Ungrouped:
    """The tree of an owner, built once; `parts` may be a generator, and is not read otherwise."""
    return remember(owner, key, lambda: build_tree(parts, need, source))


def no_place(owner: Owner, path: Path) -> Ungrouped:
    """A pod that its workload does not account for."""
    place = "/".join(part[:80] for part in path) or "no group"
    return Ungrouped(
        "NoSuchGroup",
        f"{owner.kind} `{owner.metadata.name}` has no group `{place}` for this pod: the pod is not grouped",
        "the workload was scaled down, or the labels of the pod do not say which of its groups it belongs to",
    )


def lacks_label(pod: WorkloadPod, label: str, owner: Owner) -> Ungrouped:
    """A pod without the label by which its kind tells the group."""
    value = pod.metadata.labels.get(label, "")
    says = f"says `{value[:63]}`, which is no number" if value else "is missing"
    return Ungrouped(
        "LabelMissing",
        f"label `{label}` of a pod of {owner.kind} `{owner.metadata.name}` {says}: the pod is not grouped",
        f"the controller of {owner.kind} sets it; is it running, and its webhook with it?",
    )

"""The PodGroup of a pod: the rule of its workload's kind, and what is the same for all kinds."""

from collections.abc import Collection

from msgspec import Struct
from msgspec.structs import replace

from muster.api import names
from muster.api.meta import ObjectMeta
from muster.api.podgroup import PodGroup, PodGroupSpec
from muster.api.resources import PODS
from muster.grouping.owners import OwnerChain
from muster.grouping.presence import settle
from muster.grouping.table import KINDS, UNKNOWN, KindRule
from muster.grouping.topology import constraint_of
from muster.grouping.types import GangTree, GroupingRequest, Owner, Ungrouped, WorkloadPod
from muster.validation.podgroup import PREEMPTIBILITIES
from muster.validation.pods.membership import is_skipped

RAY_PRIORITY_CLASS = "ray.io/priority-class-name"  # label

# what belongs to one object and not to its gang
NOT_COPIED = frozenset(
    (
        names.LAST_APPLIED,
        names.POD_GROUP,
        names.SUBGROUP,
        names.GROUPED_BY,
        names.BACKED_OFF,
        *names.NOTES_OF_TIME,
        "apps.kubernetes.io/pod-index",
        "batch.kubernetes.io/job-completion-index",
        "controller-revision-hash",
        "deployment.kubernetes.io/desired-replicas",
        "deployment.kubernetes.io/max-replicas",
        "deployment.kubernetes.io/revision",
        "pod-template-generation",
        "pod-template-hash",
        "statefulset.kubernetes.io/pod-name",
    )
)
# characters of annotations: an object may have 256 KiB of them, and every replica of a workload would copy them
MOST_COPIED = 60_000


class Assignment(Struct, frozen=True):
    """The gang and the leaf of one pod, and which kind's rule says so."""

    rule: str
    gang: GangTree
    request: GroupingRequest
    notes: tuple[Ungrouped, ...] = ()


def assign(pod: WorkloadPod, chain: OwnerChain, kinds: Collection[KindRule] = ()) -> Assignment | Ungrouped:
    """Which PodGroup and leaf a pod joins; depends on the pod and its owners alone. `kinds`: a user's own."""
    if (skipping := next(filter(is_skipped, (owner.metadata for owner in chain.owners)), None)) is not None:
        return _skipped(skipping)
    own = {(kind.group, kind.kind): kind for kind in kinds}
    request = _request(pod, chain.owners, own)
    kind = _kind_of(request.owner, own)
    gang = kind.rule(request)
    return gang if isinstance(gang, Ungrouped) else Assignment(kind.kind, gang, request, chain.notes)


def build_pod_group(
    assignment: Assignment,
    present: Collection[str] = (),
    priority_classes: Collection[str] = (),
    pool_label: str = names.NODE_POOL,
) -> PodGroup:
    """The PodGroup that a pod joins, as muster applies it.

    `present`: names of the gang's groups that have pods. `priority_classes`: those that exist. `pool_label`: names the
    shard of a gang.
    """
    request = assignment.request
    preemptibility = _preemptibility(request)
    gang = settle(assignment.gang, present, is_semi_preemptible=preemptibility == names.SEMI_PREEMPTIBLE)
    spec = PodGroupSpec(
        queue=_queue(request, pool_label),
        priority_class_name=_priority_class(request, gang.priority_class, priority_classes),
        preemptibility=preemptibility,
        min_member=gang.min_member,
        min_sub_group=gang.min_sub_group,
        topology_constraint=gang.constraint or constraint_of(request.owner.metadata.annotations),
        sub_groups=gang.sub_groups,
    )
    return PodGroup(_metadata(assignment, gang, pool_label), spec)


def pool_of(assignment: Assignment, pool_label: str) -> str:
    """The pool of nodes of a pod's PodGroup: the label of the owner, else of the pod; empty: the default."""
    return _label(assignment.request, pool_label)


def _skipped(owner: ObjectMeta) -> Ungrouped:
    return Ungrouped(
        "SkippedByOwner",
        f"owner `{owner.name}` says `{names.SKIP_GROUPING}`: the pod is not grouped",
        f"name a PodGroup in the annotation `{names.POD_GROUP}` of its pods, or remove `{names.SKIP_GROUPING}`",
    )


# which rule ----------------------------------------------------------------------------------------------------------


def _kind_of(owner: Owner, own: dict[tuple[str, str], KindRule]) -> KindRule:
    key = owner.group, owner.kind
    return own.get(key) or KINDS.get(key) or UNKNOWN


def _request(pod: WorkloadPod, owners: tuple[Owner, ...], own: dict[tuple[str, str], KindRule]) -> GroupingRequest:
    """The highest owner that is no wrapper, with what the wrappers above it add; without one, the pod itself."""
    at = len(owners)
    while at and _kind_of(owners[at - 1], own).is_wrapper:
        at -= 1
    owner = owners[at - 1] if at else _as_owner(pod)
    for wrapper in owners[at:]:
        owner = _filled(owner, wrapper)
    return GroupingRequest(pod, owner, (*owners[: max(at - 1, 0)], *([owner] if at else [])))


def _as_owner(pod: WorkloadPod) -> Owner:
    return Owner(PODS.api_version, PODS.kind, pod.metadata)


def _filled(owner: Owner, wrapper: Owner) -> Owner:
    """An owner with the labels and annotations of its wrapper that it does not have itself; made once for both."""
    known: tuple[Owner, Owner] | None = owner.__dict__.get("filled")
    if known is None or known[0] is not wrapper:
        above, own = wrapper.metadata, owner.metadata
        labels, annotations = {**above.labels, **own.labels}, {**above.annotations, **own.annotations}
        known = wrapper, replace(owner, metadata=replace(own, labels=labels, annotations=annotations))
        owner.__dict__["filled"] = known
    return known[1]


# what is the same for all kinds --------------------------------------------------------------------------------------


def _metadata(assignment: Assignment, gang: GangTree, pool_label: str) -> ObjectMeta:
    owner, pod = assignment.request.owner.metadata, assignment.request.pod.metadata
    annotations = {**_copied_annotations(owner.annotations), names.GROUPED_BY: assignment.rule}
    pool = pool_of(assignment, pool_label)
    has_owner = gang.owner is not None and gang.owner.uid
    return ObjectMeta(
        name=gang.name,
        namespace=pod.namespace,
        labels=_copied_labels(owner.labels) | ({pool_label: pool} if pool else {}),
        annotations=annotations,
        owner_references=(gang.owner,) if has_owner and gang.owner else (),
    )


def _copied(texts: dict[str, str]) -> dict[str, str]:
    return {name: text for name, text in texts.items() if name not in NOT_COPIED}


def _copied_annotations(annotations: dict[str, str]) -> dict[str, str]:
    """Without the longest ones, where they are too long in all: those that say something of the gang are short."""
    copied = _copied(annotations)
    rest = MOST_COPIED - sum(map(_length, copied.items()))
    for name in sorted(copied, key=lambda name: (len(copied[name]), name), reverse=True) if rest < 0 else ():
        rest += _length((name, copied.pop(name)))
        if rest >= 0:
            break
    return copied


def _length(annotation: tuple[str, str]) -> int:
    return len(annotation[0]) + len(annotation[1])


def _copied_labels(labels: dict[str, str]) -> dict[str, str]:
    """Without a preemptibility that is none: the PodGroup would be invalid."""
    copied = _copied(labels)
    if copied.get(names.PREEMPTIBILITY, "") not in ("", *PREEMPTIBILITIES):
        del copied[names.PREEMPTIBILITY]
    return copied


def _queue(request: GroupingRequest, pool_label: str) -> str:
    """The queue that a label names; else the project's, which has one for each pool, as with KAI."""
    project, pool = _label(request, names.PROJECT), request.pod.metadata.labels.get(pool_label, "")
    of_project = f"{project}-{pool}" if project and pool else project
    return _label(request, names.QUEUE) or of_project or names.DEFAULT_QUEUE


def _label(request: GroupingRequest, name: str) -> str:
    """A label of the owner, else of the pod."""
    return request.owner.metadata.labels.get(name) or request.pod.metadata.labels.get(name, "")


def _priority_class(request: GroupingRequest, default: str, existing: Collection[str]) -> str:
    """The class of owner or pod; the kind's own only where it exists: a gang would wait for another one (P1)."""
    stated = (
        _label(request, names.PRIORITY_CLASS)
        or _label(request, RAY_PRIORITY_CLASS)
        or request.pod.spec.priority_class_name
    )
    return stated or (default if default in existing else "")


def _preemptibility(request: GroupingRequest) -> str:
    """What a label says; a word that is none of P1 counts as unset, as a gang would be invalid with it."""
    word = _label(request, names.PREEMPTIBILITY)
    return word if word in PREEMPTIBILITIES else ""

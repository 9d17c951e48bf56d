"""Whether a pod is ours (N6), which gang it joins, and which leaf (N3, N4).

A pod that cannot join is a value with a reason, never dropped.
"""

from collections.abc import Collection, Iterator
from typing import Final, Literal

from msgspec import Struct

from muster.api import names
from muster.api.core import Pod
from muster.api.meta import ObjectMeta
from muster.api.objects import Objects, key

OURS: Final = frozenset((names.DEFAULT_SCHEDULER,))
Why = Literal["UnknownSubGroup", "SubGroupIsABranch", "NoSubGroup", "NoSuchPodGroup", "NoPodGroup"]
SENTENCES: dict[Why, str] = {
    "UnknownSubGroup": "names subgroup `{named}`, which does not exist",
    "SubGroupIsABranch": "names subgroup `{named}`, which has children and no pods of its own",
    "NoSubGroup": "names no subgroup, but the PodGroup has SubGroups",
    "NoSuchPodGroup": "names podgroup `{named}`, which does not exist",
    "NoPodGroup": f"names no podgroup in its annotation `{names.POD_GROUP}`",
}


SKIPPED: Final = (
    f"`{names.SKIP_GROUPING}` on the pod keeps muster from grouping it: remove that, or create a PodGroup and name it "
    "in the annotation"
)


class Stray(Struct, frozen=True):
    """A pod that belongs to no leaf: never scheduled, never counted, always reported (N4)."""

    pod: str  # namespace/name
    why: Why
    named: str = ""
    hint: str = ""  # the way out, where the reason alone does not show it

    @property
    def says(self) -> str:
        """The reason, of which the pod is the subject."""
        return SENTENCES[self.why].format(named=self.named)

    @property
    def sentence(self) -> str:
        """What the pod itself says, with the way out."""
        return f"the pod {self.says}" + (f"; hint: {self.hint}" if self.hint else "")


def is_ours(pod: Pod, schedulers: Collection[str] = OURS) -> bool:
    """Whether a pod names one of these schedulers (N6); every other pod only uses resources of its node.

    A pod that names none is from a file: API servers fill the field in.
    """
    return not pod.spec.scheduler_name or pod.spec.scheduler_name in schedulers


def gang_of(pod: Pod) -> str | None:
    """The PodGroup that a pod joins, in its own namespace; None: it joins none."""
    name = pod.metadata.annotations.get(names.POD_GROUP, "")
    namespace = pod.metadata.namespace or names.DEFAULT_NAMESPACE
    return f"{namespace}/{name}" if name else None


def is_skipped(metadata: ObjectMeta) -> bool:
    """Whether a user said that the grouper leaves a pod, or the pods of an owner, alone; any value says so."""
    return names.SKIP_GROUPING in metadata.annotations or names.SKIP_GROUPING in metadata.labels


def orphan(pod: Pod) -> Stray:
    """The Stray for a pod whose gang does not exist."""
    if gang := gang_of(pod):
        return Stray(key(pod.metadata), "NoSuchPodGroup", gang)
    return Stray(key(pod.metadata), "NoPodGroup", hint=SKIPPED if is_skipped(pod.metadata) else "")


def orphans(objects: Objects, schedulers: Collection[str] = OURS) -> Iterator[Stray]:
    """Strays for pods of ours whose gang does not exist."""
    known = {key(group.metadata) for group in objects.pod_groups}
    return (orphan(pod) for pod in objects.pods if gang_of(pod) not in known and is_ours(pod, schedulers))


def leaf_of(pod: Pod, leaves: Collection[str], branches: Collection[str]) -> str | Stray:
    """The leaf that a pod of a gang joins; a PodGroup without SubGroups is the one leaf `""` (N2)."""
    named = pod.metadata.labels.get(names.SUBGROUP, "")
    if named in leaves:
        return named
    if not named:
        return Stray(key(pod.metadata), "NoSubGroup")
    return Stray(key(pod.metadata), "SubGroupIsABranch" if named in branches else "UnknownSubGroup", named)

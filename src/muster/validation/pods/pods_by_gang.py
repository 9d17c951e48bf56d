"""Pods by the PodGroup that they name (N3): of a value at once, or kept up to date pod by pod."""

from collections import defaultdict
from collections.abc import Collection, Iterable

from muster.api.core import Pod
from muster.api.objects import key
from muster.validation.pods.membership import gang_of


def group_by_gang(pods: Iterable[Pod]) -> dict[str, list[Pod]]:
    """Pods by the gang that they name, in order; pods that name none are left out."""
    by_gang: dict[str, list[Pod]] = defaultdict(list)
    for pod in pods:
        gang = gang_of(pod)
        if gang is not None:
            by_gang[gang].append(pod)
    return dict(by_gang)


class PodsByGang:
    """An index of pods by the gang that they name; equal to `group_by_gang` of the same pods, up to order."""

    def __init__(self) -> None:
        self._pods: dict[str, dict[str, Pod]] = {}  # by gang, then by namespace/name; a gang without pods has no entry

    def update(self, before: Pod | None, after: Pod | None) -> tuple[str, ...]:
        """Replace one state of a pod by another (None: it does not exist); returns the gangs that it left or joined."""
        left = gang_of(before) if before is not None else None
        joined = gang_of(after) if after is not None else None
        if before is not None and left is not None and left != joined:
            self._remove(left, key(before.metadata))
        if after is not None and joined is not None:
            members = self._pods.get(joined)
            if members is None:
                members = self._pods[joined] = {}
            members[key(after.metadata)] = after
        if left is None or left == joined:
            return () if joined is None else (joined,)
        return (left,) if joined is None else (left, joined)

    def _remove(self, gang: str, name: str) -> None:
        del self._pods[gang][name]
        if not self._pods[gang]:
            del self._pods[gang]

    def pods(self, gang: str) -> tuple[Pod, ...]:
        """The pods that name a gang. Any thread may call it: the copy is made in one step."""
        return tuple(self._pods.get(gang, {}).values())

    def names(self, gang: str) -> Collection[str]:
        """The same pods, by namespace/name."""
        return self._pods.get(gang, {}).keys()

    @property
    def gangs(self) -> Collection[str]:
        """The gangs that some pod names."""
        return self._pods.keys()

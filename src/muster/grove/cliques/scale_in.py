"""Which pods of a PodClique go first when it has too many."""

from collections.abc import Iterable

from muster.grove.cliques.clique_pods import CliquePod

_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


def scale_in_order(pods: Iterable[CliquePod]) -> list[CliquePod]:
    """Pods that go first come first: unassigned, pending, not ready, outdated, new; of equal ones the highest index."""
    newest_first = sorted(pods, key=lambda pod: (pod.created or "~", _index(pod), pod.name), reverse=True)
    return sorted(newest_first, key=_rank)


def _rank(pod: CliquePod) -> tuple[bool, int, bool, bool]:
    return pod.is_bound, _PHASES.get(pod.phase, 0), pod.is_ready, pod.is_updated


def _index(pod: CliquePod) -> int:
    return -1 if pod.index is None else pod.index

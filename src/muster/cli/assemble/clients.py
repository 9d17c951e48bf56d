"""Clients of a live cluster."""

from msgspec import Struct

from muster.kube.client.client import Kubernetes, connect
from muster.kube.client.http import Limits, Observe


class ClusterAccess(Struct, frozen=True):
    """Where a cluster is; unset: as `kubectl` finds it, or the one that muster runs in."""

    kubeconfig: str | None = None
    context: str | None = None

    def connect(
        self,
        limits: Limits = Limits(),  # noqa: B008 - frozen
        observe: Observe = lambda *_: None,
    ) -> Kubernetes:
        """A client; InputError where there is no cluster. `observe`: see Http."""
        return connect(self.kubeconfig, self.context, limits, observe)


ANSWER_SECONDS, ATTEMPTS = 20.0, 3  # a user waits: give up after a minute of silence


def connect_reader(kubeconfig: str | None, context: str | None) -> Kubernetes:
    """A client for verbs that only read, with limits for a user who waits."""
    return connect(kubeconfig, context, Limits(answer_seconds=ANSWER_SECONDS, attempts=ATTEMPTS))

"""Clients of a live cluster."""

from muster.kube.client.client import Kubernetes, connect
from muster.kube.client.http import Limits

ANSWER_SECONDS, ATTEMPTS = 20.0, 3  # a user waits: give up after a minute of silence


def connect_reader(kubeconfig: str | None, context: str | None) -> Kubernetes:
    """A client for verbs that only read, with limits for a user who waits."""
    return connect(kubeconfig, context, Limits(answer_seconds=ANSWER_SECONDS, attempts=ATTEMPTS))

"""Demands and signatures of pods, each kept once under a number."""

from collections.abc import Mapping

from muster.api.core import Pod
from muster.model.snapshot import Signature, encode_demands, node_requests

Requests = Mapping[str, int]


class DemandKinds:
    """The demands that occur, each once: requests, and the part of the signature that the pod's own spec decides."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}
        self.demands: list[bytes] = []
        self.requests: list[Requests] = []

    def number_of(self, pod: Pod) -> int:
        """The number of a pod's demands."""
        requests = node_requests(pod.spec)
        demands = encode_demands(pod, requests)
        number = self._numbers.setdefault(demands, len(self.requests))
        if number == len(self.requests):
            self.demands.append(demands)
            self.requests.append(requests)
        return number


class Signatures:
    """The signatures that occur, each once, with an example pod and its requests; that pod may be gone by now."""

    def __init__(self) -> None:
        self._numbers: dict[Signature, int] = {}
        self.signatures: list[Signature] = []
        self.examples: list[tuple[Pod, Requests]] = []

    def number_of(self, signature: Signature, pod: Pod, requests: Requests) -> int:
        """The number of a signature; a new one takes this pod as its example."""
        number = self._numbers.setdefault(signature, len(self.examples))
        if number == len(self.examples):
            self.signatures.append(signature)
            self.examples.append((pod, requests))
        return number

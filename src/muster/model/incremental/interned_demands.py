"""Demands and signatures of pods, each kept once under a number."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from muster.api.core import Pod, PodSpec
from muster.api.names import SHARED_GPU
from muster.model.incremental.sharded_dict import ShardedDict
from muster.model.inter_pod_rules import has_anti_affinity
from muster.model.snapshot import Signature, encode_demands, host_ports, node_requests

Requests = Mapping[str, int]
SPARE_SPECS = 1_024  # whose facts are kept beside those of all pods; beyond it all are worked out again


class SpecFacts(Struct, frozen=True, eq=False, gc=False):
    """What counting reads of a spec: worked out once for all pods that share it."""

    spec: PodSpec
    kind: int  # of its demands
    is_special: bool  # it has host ports or anti-affinity
    has_rules: bool  # about other pods


class DemandKinds:
    """The demands that occur, each once: requests, and the part of the signature that the pod's own spec decides."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}
        self._facts: dict[int, SpecFacts] = {}  # by the identity of a spec, which an entry keeps alive
        self.demands: list[bytes] = []
        self.requests: list[Requests] = []

    def facts_of(self, pod: Pod) -> SpecFacts:
        """What counting reads of a pod; the same for pods with one spec, unless an annotation says more."""
        if any(name in pod.metadata.annotations for name in SHARED_GPU):
            return self._work_out(pod)
        facts = self._facts.get(id(pod.spec))
        if facts is None:
            facts = self._facts[id(pod.spec)] = self._work_out(pod)
        return facts

    def drop_unused(self, pods: int) -> None:
        """Forget the specs of pods that are gone, once they outnumber those of so many that are there."""
        if len(self._facts) > SPARE_SPECS + pods:
            self._facts = {}

    def _work_out(self, pod: Pod) -> SpecFacts:
        spec = pod.spec
        is_special = has_anti_affinity(pod) or any(True for _ in host_ports(spec))
        has_rules = spec.affinity is not None or bool(spec.topology_spread_constraints)
        return SpecFacts(spec, self.number_of(pod), is_special, has_rules)

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


class SignedPods:
    """The signature of each pod, and how many pods have each."""

    def __init__(self) -> None:
        self.numbers: ShardedDict[int] = ShardedDict()
        self._pods: Counter[int] = Counter()

    def sign(self, name: str, signature: int) -> None:
        """A pod has this signature, and no other."""
        self.drop(name)
        self.numbers[name] = signature
        self._pods[signature] += 1

    def drop(self, name: str) -> None:
        """A pod has none, or is gone."""
        signature = self.numbers.pop(name, None)
        if signature is not None:
            self._pods[signature] -= 1
            if not self._pods[signature]:
                del self._pods[signature]

    @property
    def in_use(self) -> set[int]:
        """Signatures that some pod has."""
        return set(self._pods)


class PodClassNumbers(Mapping[str, int]):
    """The class of each pod, by its signature: looked up when it is asked for, as most of 100,000 pods never are."""

    __slots__ = ("_classes", "_signatures")

    def __init__(self, signatures: Mapping[str, int], classes: Sequence[int]) -> None:
        self._signatures, self._classes = signatures, classes

    def __getitem__(self, name: str) -> int:
        return self._classes[self._signatures[name]]

    def __contains__(self, name: object) -> bool:
        return name in self._signatures

    def __iter__(self) -> Iterator[str]:
        return iter(self._signatures)

    def __len__(self) -> int:
        return len(self._signatures)

"""One cycle of a small world as a checker sees it: what is free, held, bound and promised, from plain manifests."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping

from tests.oracles.objects import CheckedGang, ObjectIndex, Outcome, Raw, asks, key_of, name, owner, phase, terminating
from tests.support.random_cluster import GPU, Cycle, is_foreign


class View:
    """A cycle as a checker sees it: pods of other schedulers are members of no gang (N6)."""

    def __init__(self, cycle: Cycle) -> None:
        self.cycle = cycle
        self.manifests = [
            _disowned(raw) if raw["kind"] == "Pod" and is_foreign(raw) else raw for raw in cycle.manifests
        ]
        self.index = ObjectIndex(self.manifests)
        self.gangs = {key: CheckedGang(self.index, key) for key in self.index.gangs}
        self.bound: dict[str, str] = {key_of(one): one["node"] for one in cycle.plan["bindings"]}
        self.nominated: dict[str, str] = {key_of(one): one["node"] for one in cycle.plan["nominations"]}
        self.evicted = {key_of(one) for one in cycle.plan["evictions"]}

    @property
    def blames(self) -> str:
        """What a wrong plan is a sign of: where pods of other schedulers name our gangs, of N6."""
        groups = {name(raw) for raw in self.cycle.manifests if raw["kind"] == "PodGroup"}
        named = (is_foreign(raw) and owner(raw) in groups for raw in self.cycle.manifests if raw["kind"] == "Pod")
        return "foreign" if any(named) else "plan"

    def gpus(self, pod: str) -> int:
        """What a pod asks for."""
        return int(asks(self.index.pods[pod]).get(GPU, 0))

    def free(self) -> Counter[str]:
        """GPUs on every node that no pod holds now, terminating ones included."""
        left = Counter({key: int(node["status"]["allocatable"][GPU]) for key, node in self.index.nodes.items()})
        for key, pod in self.index.pods.items():
            if pod["spec"].get("nodeName") in left and phase(pod) not in ("Succeeded", "Failed"):
                left[pod["spec"]["nodeName"]] -= self.gpus(key)
        return left

    def freed(self) -> Counter[str]:
        """The same once all that leave have left, and all that this plan binds or nominates is in place."""
        left = self._without(lambda key, pod: terminating(pod) or key in self.evicted)
        for key, node in (*self.bound.items(), *self.nominated.items()):
            left[node] -= self.gpus(key)
        return left

    def promisable(self) -> Counter[str]:
        """GPUs that earlier promises could be kept with: neither nominated nor held, once terminating pods are gone."""
        left = self._without(lambda _, pod: terminating(pod))
        for key, node in self.held().items():
            left[node] -= self.gpus(key)
        return left

    def held(self) -> dict[str, str]:
        """Pods that wait for nodes which earlier plans nominated."""
        waiting = {key: pod for key, pod in self.index.pods.items() if not pod["spec"].get("nodeName")}
        noted = {key: str((pod.get("status") or {}).get("nominatedNodeName")) for key, pod in waiting.items()}
        return {key: node for key, node in noted.items() if node in self.index.nodes}

    def _without(self, is_gone: Callable[[str, Raw], bool]) -> Counter[str]:
        """What is free without some pods."""
        left = self.free()
        for key, pod in self.index.pods.items():
            node = pod["spec"].get("nodeName")
            if node in left and is_gone(key, pod) and phase(pod) not in ("Succeeded", "Failed"):
                left[node] += self.gpus(key)
        return left

    def places(self, gang: str, of: Mapping[str, str]) -> dict[str, str]:
        """The pods of a gang among bindings or nominations."""
        return {pod: node for pod, node in of.items() if owner(self.index.pods[pod]) == gang}

    def usage(self) -> dict[str, int]:
        """GPUs that every queue holds with those below it, terminating pods and leftovers included (Q4)."""
        held: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        for key, pod in self.index.pods.items():
            checked = self.gangs.get(owner(pod))
            if (
                checked
                and (pod["spec"].get("nodeName") or key in self.bound)
                and phase(pod) not in ("Succeeded", "Failed")
            ):
                held[checked.queue][GPU] += self.gpus(key)
        return {queue: amounts[GPU] for queue, amounts in self.index.queues.summed(held).items()}

    def limit(self, queue: str) -> int | None:
        """GPUs; None: as many as there are."""
        return self.index.queues.says(queue, GPU).limit

    def has_limit(self, gang: str) -> bool:
        """Whether some queue on its way to the top is limited."""
        return any(self.limit(queue) is not None for queue in self.index.queues.path(self.gangs[gang].queue))

    def is_met(self, gang: str) -> bool:
        """Whether the gang is satisfied by what is placed and what this plan binds."""
        return CheckedGang(self.index, gang, Outcome(dict(self.bound))).met()

    def is_whole_with(self, gang: str, places: Mapping[str, str]) -> bool:
        """Whether some places would satisfy the gang, without what this plan evicts."""
        return CheckedGang(self.index, gang, Outcome(dict(places), frozenset(self.evicted))).met()


def _disowned(pod: Raw) -> Raw:
    meta = {key: value for key, value in pod["metadata"].items() if key != "annotations"}
    return pod | {"metadata": meta}

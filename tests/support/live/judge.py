"""Checks every change of a pod against I1-I5 and I7, from plain objects; shares no code with the engine."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from muster.api.resources import NODES, POD_GROUPS, PODS, QUEUES
from muster.embedded.cluster_store import ClusterStore
from muster.kube.cluster import Change, Raw
from tests.support.live.objects import GPU, enough, gang_of, gpus_of, leaf_of, leaves, placed

CurrentObjects = Callable[[], Iterable[Raw]]


class Judge:
    """Looks at every single change of a pod, as it happens; `broken` are the promises that were not kept.

    It remembers the pods itself, so that each change is judged with what was there at that very moment.
    """

    def __init__(self, nodes: CurrentObjects, groups: CurrentObjects, queues: CurrentObjects) -> None:
        self.broken: list[str] = []
        self.bound: dict[str, str] = {}  # by uid
        self.evicted: dict[str, str] = {}  # uid -> name
        self.pods: dict[tuple[str, str], Raw] = {}
        self._nodes, self._podgroups, self._queues = nodes, groups, queues
        self.belongs: Callable[[Raw], tuple[str, str]] = lambda raw: (gang_of(raw), leaf_of(raw))
        """PodGroup and leaf of a pod; a test may know them where pods are marked with their bindings."""

    def look(self, change: Change) -> None:
        """One change, in the order in which they happened."""
        raw = change.object
        meta, there = raw["metadata"], raw["spec"].get("nodeName", "")
        if change.type == "DELETED":
            self.pods.pop((meta["namespace"], meta["name"]), None)
            return
        self.pods[meta["namespace"], meta["name"]] = raw
        uid = meta["uid"]
        if self.bound.get(uid, there) != there:
            self.broken.append(f"I1: {meta['name']} was on {self.bound[uid]}, now on {there or 'none'}")
        if there and uid not in self.bound:
            self.bound[uid] = there
            self.broken += [*self._overfull(), *self._scattered(), *self._over_limit(), *self._hopeless(raw)]
        if _is_evicted(raw) and uid not in self.evicted:
            self.evicted[uid] = meta["name"]
            self.broken += self._unprotected(raw)

    def _groups(self) -> dict[str, Raw]:
        return {one["metadata"]["name"]: one["spec"] for one in self._podgroups()}

    def _overfull(self) -> Iterator[str]:
        """I2; terminating pods still hold their resources."""
        used: Counter[str] = Counter()
        for raw in self.pods.values():
            if raw.get("status", {}).get("phase") not in ("Succeeded", "Failed"):
                used[raw["spec"].get("nodeName", "")] += gpus_of(raw)
        for raw in self._nodes():
            name, gpus = raw["metadata"]["name"], int(raw["status"]["allocatable"][GPU])
            if used[name] > gpus:
                yield f"I2: {name} has {gpus} GPUs and gives {used[name]}"

    def _scattered(self) -> Iterator[str]:
        """I4: all below a group with a required level sit in one domain of it."""
        labels = {one["metadata"]["name"]: one["metadata"]["labels"] for one in self._nodes()}
        for gang, spec in self._groups().items():
            here = [raw for raw in self.pods.values() if gang_of(raw) == gang and placed(raw)]
            for one in [{"name": "", **spec}, *(spec.get("subGroups") or ())]:
                level = (one.get("topologyConstraint") or {}).get("requiredTopologyLevel", "")
                label, below = level if "/" in level else f"topology/{level}", leaves(spec, one["name"])
                nodes = {raw["spec"]["nodeName"] for raw in here if leaf_of(raw) in below}
                domains = {labels.get(name, {}).get(label, "?") for name in nodes}
                if level and len(domains) > 1:
                    yield f"I4: {gang} {one['name']} in {sorted(domains)}"

    def _over_limit(self) -> Iterator[str]:
        """I7, for flat queues."""
        queues = {name: spec.get("queue", "default") for name, spec in self._groups().items()}
        used: Counter[str] = Counter()
        for raw in filter(placed, self.pods.values()):
            used[queues.get(gang_of(raw), "")] += gpus_of(raw)
        for raw in self._queues():
            limit, name = raw["spec"]["resources"]["gpu"].get("limit", -1), raw["metadata"]["name"]
            if 0 <= limit < used[name]:
                yield f"I7: {name} may have {limit} GPUs and has {used[name]}"

    def _counts(self, gang: str, test: Callable[[Raw], bool]) -> Counter[str]:
        return Counter(leaf_of(raw) for raw in self.pods.values() if gang_of(raw) == gang and test(raw))

    def _hopeless(self, raw: Raw) -> Iterator[str]:
        """I3: no pod starts where the gang lacks pods for its minimums."""
        spec = self._groups().get(gang_of(raw))
        members = Counter(
            leaf for gang, leaf in map(self.belongs, filter(_alive, self.pods.values())) if gang == gang_of(raw)
        )
        if spec is not None and not enough(spec, members):
            yield f"I3: {raw['metadata']['name']} starts, and its gang has too few pods"

    def _unprotected(self, raw: Raw) -> Iterator[str]:
        """I5: what leaves does not take a protected core below its minimum."""
        spec = self._groups().get(gang_of(raw), {})
        if not spec.get("preemptibility", "").startswith(("semi", "non")):
            return
        after = self._counts(gang_of(raw), lambda one: placed(one) and not _is_evicted(one))
        before = after + Counter({leaf_of(raw): 1})
        if enough(spec, before) and not enough(spec, after):
            yield f"I5: {raw['metadata']['name']} of a protected core was evicted"

    def halves(self) -> list[str]:
        """Gangs that are there in part and below their minimum."""
        findings = []
        for name, spec in self._groups().items():
            here = self._counts(name, placed)
            if here and not enough(spec, here):
                findings.append(f"I3: {name} rests below its minimum with {dict(here)}")
        return findings


def _alive(raw: Raw) -> bool:
    over = raw.get("status", {}).get("phase") == "Failed"
    return not over and not raw["metadata"].get("deletionTimestamp")


def _is_evicted(raw: Raw) -> bool:
    conditions = raw.get("status", {}).get("conditions") or ()
    return any(one["type"] == "DisruptionTarget" and one["status"] == "True" for one in conditions)


def judged(store: ClusterStore) -> Judge:
    """A judge of everything that happens in a store from now on, within the very write."""
    judge = Judge(*(lambda kind=kind: store.list(kind).items for kind in (NODES, POD_GROUPS, QUEUES)))
    watch = store.watch(PODS, store.version)

    def look() -> None:
        for change in watch.take():
            judge.look(change)

    watch.wake = look
    return judge

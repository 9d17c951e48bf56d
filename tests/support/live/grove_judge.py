"""Checks every change of a pod or PodGang against R1 and what an operator promises; shares no code with the engine.

An operator decides on what its watches showed: so a gate may be lifted when R1 held at some moment since the pod was
made, and a pod of the base that vanishes in the same instant is no breach.
"""

from collections import Counter

from muster.api.resources import POD_CLIQUE_SETS, POD_CLIQUES, POD_GANGS, PODS
from muster.embedded.cluster_store import ClusterStore
from muster.kube.cluster import Raw
from muster.kube.errors import ApiError

GATE = "grove.io/podgang-pending-creation"
CLIQUE, INDEX, GANG = "grove.io/podclique", "grove.io/podclique-pod-index", "grove.io/podgang"
BASE, MEMBER = "grove.io/base-podgang", "grove.io/podcliquescalinggroup"


class GroveJudge:
    """Looks at every change as it happens; `broken` are the promises that were not kept."""

    def __init__(self, store: ClusterStore) -> None:
        self.broken: list[str] = []
        self.doubled = 0  # most pods at a time that had the place of another one
        self._store = store
        self._pods: dict[str, Raw] = {}  # by name
        self._may_be_free: set[str] = set()  # uids of gated pods
        self._free: set[str] = set()  # uids
        self._started: set[str] = set()  # uids of cliques that had their minimum ready
        self._watches = {kind: store.watch(kind, store.version) for kind in (PODS, POD_GANGS)}
        for watch in self._watches.values():
            watch.wake = self._look

    def _look(self) -> None:
        self._watches[POD_GANGS].take()  # it only has to be noticed
        for change in self._watches[PODS].take():
            raw = change.object
            if change.type == "DELETED":
                self._pods.pop(raw["metadata"]["name"], None)
            else:
                self._pods[raw["metadata"]["name"]] = raw
                self._judge_gate(raw)
        live = [raw for raw in self._pods.values() if is_live(raw)]
        self._judge_places(live)
        self._judge_floors(live)
        self._may_be_free |= {raw["metadata"]["uid"] for raw in live if is_gated(raw) and self._is_allowed(raw, live)}

    # gates

    def _judge_gate(self, raw: Raw) -> None:
        uid, name = raw["metadata"]["uid"], raw["metadata"]["name"]
        if is_gated(raw):
            if uid in self._free:
                self.broken.append(f"R1: the gate of {name} came back")
        elif uid not in self._free:
            self._free.add(uid)
            if uid not in self._may_be_free:
                self.broken.append(f"R1: {name} was freed early")

    def _is_allowed(self, raw: Raw, live: list[Raw]) -> bool:
        labels = raw["metadata"]["labels"]
        if not self._has_references(labels[GANG], live):
            return False
        return BASE not in labels or self._is_scheduled(labels[BASE], live)

    def _entries(self, gang: str) -> list[Raw] | None:
        try:
            return list(self._store.get(POD_GANGS, "default", gang)["spec"].get("podgroups") or ())
        except ApiError:
            return None

    def _has_references(self, gang: str, live: list[Raw]) -> bool:
        """Every PodGroup of the gang references as many live pods as it needs."""
        entries, names = self._entries(gang), {raw["metadata"]["name"] for raw in live}
        return entries is not None and all(
            sum(reference["name"] in names for reference in entry.get("podReferences") or ()) >= entry["minReplicas"]
            for entry in entries
        )

    def _is_scheduled(self, gang: str, live: list[Raw]) -> bool:
        """Every PodGroup of the gang has as many pods on nodes as it needs."""
        bound = Counter(raw["metadata"]["labels"][CLIQUE] for raw in live if raw["spec"].get("nodeName"))
        entries = self._entries(gang)
        return entries is not None and all(bound[entry["name"]] >= entry["minReplicas"] for entry in entries)

    # pods

    def _judge_places(self, live: list[Raw]) -> None:
        places = Counter((raw["metadata"]["labels"][CLIQUE], raw["metadata"]["labels"][INDEX]) for raw in live)
        self.doubled = max(self.doubled, len(live) - len(places))

    def _judge_floors(self, live: list[Raw]) -> None:
        """A standalone clique that has more pods than it needs keeps its minimum ready, whatever is updated."""
        ready = Counter(raw["metadata"]["labels"][CLIQUE] for raw in live if is_ready(raw))
        if any(raw["metadata"].get("deletionTimestamp") for raw in self._store.list(POD_CLIQUE_SETS).items):
            return  # the set goes with all of its pods
        for raw in self._store.list(POD_CLIQUES).items:
            uid, needed = raw["metadata"]["uid"], raw["spec"]["minAvailable"]
            if MEMBER in raw["metadata"]["labels"] or raw["spec"]["replicas"] <= needed:
                continue
            if ready[raw["metadata"]["name"]] >= needed:
                self._started.add(uid)
            elif uid in self._started and not raw["metadata"].get("deletionTimestamp"):
                self.broken.append(f"{raw['metadata']['name']} fell below its minimum")


def is_gated(raw: Raw) -> bool:
    return any(gate["name"] == GATE for gate in raw["spec"].get("schedulingGates") or ())


def is_live(raw: Raw) -> bool:
    over = raw.get("status", {}).get("phase") in ("Succeeded", "Failed")
    return not over and not raw["metadata"].get("deletionTimestamp")


def is_ready(raw: Raw) -> bool:
    conditions = raw.get("status", {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)

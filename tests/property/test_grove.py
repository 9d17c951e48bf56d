"""Whatever happens to a set, gates are lifted in order at every event, and it ends as its spec and scales describe.

Nodes come, go and are cordoned; pods are bound to nodes that are there, a gang at a time, as a scheduler would.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.api import names
from muster.api.fields import integer
from muster.api.resources import POD_CLIQUE_SCALING_GROUPS, POD_CLIQUE_SETS, POD_CLIQUES, POD_GANGS, POD_GROUPS, PODS
from muster.grove.template_hash import pod_template_hash
from muster.workloads.types import Action, Raw, Remove
from tests.support.grove import GroveCluster, clique, group, pod_clique_set
from tests.support.late_grove import LateCluster

HOURS = 3600.0
FIRST_NODES = 3
STEPS = (
    *("scale set", "scale group", "scale clique", "update", "fail", "delete pod", "delete clique", "wait"),
    *("add node", "lose node", "cordon", "uncordon", "schedule", "schedule", "schedule", "ready", "ready"),
)
Step = tuple[str, int]


def is_live(raw: Raw) -> bool:
    return raw["status"].get("phase") not in ("Failed", "Succeeded") and not raw["metadata"].get("deletionTimestamp")


def is_ready(raw: Raw) -> bool:
    return any(one["type"] == "Ready" and one["status"] == "True" for one in raw["status"].get("conditions", ()))


class WatchedCluster(LateCluster):
    """Remembers what an action is about to remove."""

    removed: Raw

    def _perform(self, action: Action) -> None:
        if isinstance(action, Remove):
            self.removed = self.get(action.resource, action.namespace, action.name) or {}
        super()._perform(action)


class Story:
    """A set with a standalone clique and a group of two cliques; what happens to it, and what must hold meanwhile."""

    def __init__(self, lags: Sequence[int]) -> None:
        self.grove = WatchedCluster(lags, grace_seconds=sum(lags) % 2, collect_seconds=sum(lags) // 2 % 2)
        self.nodes = {f"n{number}": True for number in range(FIRST_NODES)}  # whether pods may come
        self._free: set[str] = set()  # uids
        self.grove.observers.append(self._check)
        cliques = clique("a", 3, 2), clique("b"), clique("c", 2, 1)
        self.grove.apply(pod_clique_set(*cliques, groups=[group("sg", "b", "c", replicas=2)]))

    # what must hold after every action

    def _check(self, action: Action) -> None:
        gated = set(self.grove.gated())
        for raw in self.grove.every(PODS):
            uid, is_gated = raw["metadata"]["uid"], raw["metadata"]["name"] in gated
            assert not (is_gated and uid in self._free), "a lifted gate never returns"
            if not is_gated and uid not in self._free:
                self._free.add(uid)
                assert self._may_be_free(raw["metadata"]["labels"]), f"{raw['metadata']['name']} was freed early"
        if isinstance(action, Remove) and action.resource == PODS:
            self._check_removal(self.grove.removed)

    def _may_be_free(self, labels: dict[str, str]) -> bool:
        left = self.grove.orphans(PODS)
        gated = set(self.grove.gated())
        for raw in filter(is_live, left):
            if raw["metadata"]["labels"][names.POD_GANG] == labels[names.POD_GANG]:
                assert raw["metadata"]["name"] in gated, "pods of a deleted clique count for no minimum"
        live = {raw["metadata"]["name"]: raw for raw in self.grove.every(PODS) if is_live(raw) and raw not in left}
        for entry in self._entries(labels[names.POD_GANG]):
            if sum(one["name"] in live for one in entry["podReferences"]) < entry["minReplicas"]:
                return False
        bound = Counter(
            raw["metadata"]["labels"][names.POD_CLIQUE] for raw in live.values() if raw["spec"].get("nodeName")
        )
        base = labels.get(names.BASE_POD_GANG)
        return base is None or all(bound[entry["name"]] >= entry["minReplicas"] for entry in self._entries(base))

    def _entries(self, gang: str) -> list[Raw]:
        entries: list[Raw] = self.grove.spec(POD_GANGS, gang)["podgroups"]
        return entries

    def _check_removal(self, removed: Raw) -> None:
        """An update takes a ready pod only where the minimum is ready; so never two of them below it."""
        owner = removed["metadata"]["labels"][names.POD_CLIQUE]
        if not is_ready(removed) or not self.grove.has(POD_CLIQUES, owner):
            return
        spec = self.grove.spec(POD_CLIQUES, owner)
        live = list(filter(is_live, self.grove.of(self.grove.named(POD_CLIQUES, owner), PODS)))
        if len(live) < spec["replicas"]:  # otherwise it was one too many
            ready = sum(map(is_ready, live)) + 1
            assert ready >= min(spec["minAvailable"], spec["replicas"]), f"{owner} lost a pod with {ready} ready"

    # what happens

    def perform(self, step: Step) -> None:
        """One thing that happens; a number picks what it happens to."""
        name, number = step
        match name:
            case "update":
                self.grove.update_image(f"image:{number}", ("", "a", "c")[number % 3])
            case "wait":
                self.grove.advance(number * HOURS)
            case "schedule":
                self.schedule(number)
            case "ready":
                self.make_ready()
            case "scale set" | "scale group" | "scale clique":
                self._scale(step)
            case "add node" | "lose node" | "cordon" | "uncordon":
                self._change_node(step)
            case _:
                self._lose(step)

    def _scale(self, step: Step) -> None:
        name, number = step
        kind = {"scale set": POD_CLIQUE_SETS, "scale group": POD_CLIQUE_SCALING_GROUPS}.get(name, POD_CLIQUES)
        targets = [one for one in self.grove.names(kind) if kind != POD_CLIQUES or one.endswith("-a")]
        sizes = {POD_CLIQUE_SETS: (0, 1, 2, 3), POD_CLIQUE_SCALING_GROUPS: (0, 1, 2, 3), POD_CLIQUES: (0, 2, 3, 4)}
        if targets:
            self.grove.scale(kind, targets[number % len(targets)], sizes[kind][number % 4])

    def _lose(self, step: Step) -> None:
        name, number = step
        kind = POD_CLIQUES if name == "delete clique" else PODS
        if not (targets := self.grove.names(kind)):
            return
        target = targets[number % len(targets)]
        if name == "fail":
            self.grove.fail(target)
        else:
            self.grove.delete(kind, target)

    def _change_node(self, step: Step) -> None:
        name, number = step
        if name == "add node":
            self.nodes.setdefault(f"n{number + FIRST_NODES}", True)
        elif self.nodes:
            node = sorted(self.nodes)[number % len(self.nodes)]
            self.nodes[node] = name == "uncordon"
            if name == "lose node":
                del self.nodes[node]
                self._lose_pods(node)

    def _lose_pods(self, node: str) -> None:
        for raw in self.grove.every(PODS):
            if raw["spec"].get("nodeName") == node and self.grove.has(PODS, raw["metadata"]["name"]):
                self.grove.delete(PODS, raw["metadata"]["name"])

    def schedule(self, number: int) -> None:
        """Binds what is free of some gangs, whole: minimums of what is missing, or nothing."""
        open_nodes = sorted(node for node, is_open in self.nodes.items() if is_open)
        for gang in self.grove.names(POD_GANGS)[: number + 1] if open_nodes else ():
            if self.grove.has(POD_GANGS, gang) and (free := list(self._unbound(gang))) and self._suffices(gang, free):
                for index, name in enumerate(free):
                    self.grove.bind(name, node=open_nodes[index % len(open_nodes)])

    def _unbound(self, gang: str) -> Iterator[str]:
        gated = set(self.grove.gated())
        for raw in self.grove.every(PODS):
            metadata = raw["metadata"]
            is_own = metadata["labels"][names.POD_GANG] == gang and metadata["name"] not in gated
            if is_own and is_live(raw) and not raw["spec"].get("nodeName"):
                yield metadata["name"]

    def _suffices(self, gang: str, free: list[str]) -> bool:
        counts = Counter(
            raw["metadata"]["labels"][names.POD_CLIQUE]
            for raw in self.grove.every(PODS)
            if is_live(raw) and (raw["spec"].get("nodeName") or raw["metadata"]["name"] in free)
        )
        return all(counts[entry["name"]] >= entry["minReplicas"] for entry in self._entries(gang))

    def make_ready(self) -> None:
        waiting = [
            raw["metadata"]["name"]
            for raw in self.grove.every(PODS)
            if raw["spec"].get("nodeName") and is_live(raw) and not is_ready(raw)
        ]
        for name in waiting:
            if self.grove.has(PODS, name):
                self.grove.ready(name)

    def settle(self) -> None:
        """There are nodes for all, until nothing changes."""
        self.nodes = {"n0": True}
        for _ in range(100):
            before = self.grove.pods()
            self.schedule(100)
            self.make_ready()
            self.grove.advance(1)
            if self.grove.pods() == before and not self.grove.gated() and all(map(is_ready, self.grove.every(PODS))):
                return
        raise AssertionError("the set does not settle")


def described(grove: GroveCluster) -> dict[str, Any]:
    """What the spec alone describes, with the live scales of groups and cliques."""
    hashes = {
        one["name"]: pod_template_hash(one["spec"]["podSpec"], {}, {}, "")
        for one in grove.spec(POD_CLIQUE_SETS)["template"]["cliques"]
    }
    pods: dict[str, Any] = {}
    gangs: dict[str, list[tuple[str, int]]] = {}
    for index in range(integer(grove.spec(POD_CLIQUE_SETS), "replicas")):
        replicas = grove.spec(POD_CLIQUES, f"w-{index}-a")["replicas"]
        count = grove.spec(POD_CLIQUE_SCALING_GROUPS, f"w-{index}-sg")["replicas"]
        pods[f"w-{index}-a"] = [hashes["a"]] * replicas
        gangs[f"w-{index}"] = [(f"w-{index}-a", 2)] if replicas else []
        for row in range(count):
            member = f"w-{index}-sg-{row}"
            pods |= {f"{member}-b": [hashes["b"]], f"{member}-c": [hashes["c"]] * 2}
            gang = f"w-{index}-sg-{row - 1}" if row else f"w-{index}"
            gangs.setdefault(gang, []).extend([(f"{member}-b", 1), (f"{member}-c", 1)])
    return {"pods": pods, "gangs": {name: entries for name, entries in gangs.items() if entries}}


def observed(grove: GroveCluster) -> dict[str, Any]:
    """What is there: templates of pods by clique, and the minimums of every gang."""
    pods = {
        raw["metadata"]["name"]: [pod["metadata"]["labels"][names.TEMPLATE_HASH] for pod in grove.of(raw, PODS)]
        for raw in grove.every(POD_CLIQUES)
    }
    gangs = {
        raw["metadata"]["name"]: [(entry["name"], entry["minReplicas"]) for entry in raw["spec"]["podgroups"]]
        for raw in grove.every(POD_GANGS)
    }
    return {"pods": pods, "gangs": gangs}


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 7)), max_size=16),
    st.lists(st.integers(0, 8), min_size=1, max_size=6),
)
def test_any_sequence_of_events_keeps_the_order_of_gates_and_ends_as_the_spec_describes(
    steps: list[Step], lags: list[int]
) -> None:
    """R1 at every write; gates never return; controllers take no clique below its minimum; names, counts, hashes.

    However late statuses are written, and whether pods take a second to be collected, or to terminate, or none.
    """
    story = Story(lags)
    for step in steps:
        story.perform(step)
    story.settle()
    grove = story.grove
    assert observed(grove) == described(grove)
    places = [raw["spec"]["hostname"] for raw in grove.every(PODS)]
    assert len(places) == len(set(places)), "no two pods have one place"
    assert grove.names(POD_GROUPS) == grove.names(POD_GANGS)
    for raw in grove.every(POD_GANGS):
        references = [one["name"] for entry in raw["spec"]["podgroups"] for one in entry["podReferences"]]
        own = [pod for pod in grove.every(PODS) if pod["metadata"]["labels"][names.POD_GANG] == raw["metadata"]["name"]]
        assert sorted(references) == sorted(pod["metadata"]["name"] for pod in own)

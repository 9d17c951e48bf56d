"""Cliques start after those before them, also where a replica is being recreated and any write of it fails."""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.api import names
from muster.api.fields import texts
from muster.api.resources import POD_CLIQUE_SETS, POD_CLIQUES, PODS
from muster.grove.startup import START, is_waiting
from muster.grove.startup_order import parents_of
from muster.workloads.pod_templates import is_ready
from muster.workloads.types import Action, Key, Raw, Remove, Update
from tests.support.grove import GroveCluster, clique, group, pod_clique_set

DELAY_SECONDS = 4 * 3600.0
MOST_FAILURES = 3  # of one deletion
IN_ORDER, EXPLICIT = "CliqueStartupTypeInOrder", "CliqueStartupTypeExplicit"
MEMBERS = [f"w-0-sg-{index}-{name}" for index in range(3) for name in "bc"]
NAMES = ["w-0-a", *MEMBERS, "w-0-d"]


class RequestLost(Exception):
    """The API server does not answer: the rest of a reconciliation is not sent."""


class UnreliableCluster(GroveCluster):
    """Deletions of cliques fail as often as `failures` says; those that are sent with them may succeed."""

    def __init__(self) -> None:
        super().__init__()
        self.failures: Counter[str] = Counter()
        self._has_failed = False
        self._waiting: set[Key] = set()  # what has failed waits for its time, whatever changes meanwhile

    def advance(self, seconds: float) -> None:
        """Time passes; what has failed is tried again."""
        waiting, self._waiting = self._waiting, set()
        for key in waiting:
            self._enqueue(key)
        super().advance(seconds)

    def _perform(self, action: Action) -> None:
        is_removal = isinstance(action, Remove) and action.resource == POD_CLIQUES
        if self._has_failed and not is_removal:
            raise RequestLost
        if isinstance(action, Remove) and is_removal and self.failures[action.name] > 0:
            self.failures[action.name] -= 1
            self._has_failed = True
            return
        super()._perform(action)

    def _reconcile(self, key: Key) -> None:
        if key in self._waiting:
            return
        with suppress(RequestLost):
            super()._reconcile(key)
        if self._has_failed:
            self._waiting.add(key)
        self._has_failed = False

    def uid(self, clique_name: str) -> str:
        uid: str = self.named(POD_CLIQUES, clique_name)["metadata"]["uid"]
        return uid

    def clique_of(self, pod: Raw) -> str:
        return texts(pod, "metadata.labels")[names.POD_CLIQUE]

    def run_in_order(self, *, without: Sequence[str] = ()) -> None:
        """Binds and readies pods that may start, until none is left; no node is there for cliques with these uids."""
        for _ in range(20):
            pods = [pod for pod in self.every(PODS) if pod["metadata"]["ownerReferences"][0]["uid"] not in without]
            gated = set(self.gated())
            free = [pod["metadata"]["name"] for pod in pods if not pod["spec"].get("nodeName")]
            unbound = [name for name in free if name not in gated]
            if unbound:
                self.bind(*unbound)
            bound = [pod for pod in self.every(PODS) if pod["spec"].get("nodeName")]
            starting = [pod["metadata"]["name"] for pod in bound if not is_waiting(pod) and not is_ready(pod)]
            if starting:
                self.ready(*starting)
            if not unbound and not starting:
                return


def running(order: str) -> UnreliableCluster:
    """`a`, then `b`, `c` of a group of three replicas that needs two, then `d`."""
    after = {"b": ["a"], "c": ["b"], "d": ["c"]} if order == EXPLICIT else {}
    # the order of templates is another one than that of their start, where the set states that
    templates = "dcba" if order == EXPLICIT else "abcd"
    cliques = [clique(name, 1, spec={"startsAfter": after[name]} if name in after else {}) for name in templates]
    grove = UnreliableCluster()
    groups = [group("sg", "b", "c", replicas=3, minimum=2)]
    grove.apply(pod_clique_set(*cliques, groups=groups, cliqueStartupType=order))
    grove.run_in_order()
    grove.advance(60)
    assert all(is_ready(pod) for pod in grove.every(PODS))
    return grove


class StartWatch:
    """Whether a pod that was recreated is let go while a clique before it is one of those that are about to go."""

    def __init__(self, grove: UnreliableCluster) -> None:
        self.grove, self.before = grove, {name: grove.uid(name) for name in NAMES}
        self.early: list[str] = []
        grove.observers.append(self.check)

    def check(self, action: Action) -> None:
        if not isinstance(action, Update) or action.resource != PODS:
            return
        if action.patch.get("metadata", {}).get("annotations", {}).get(names.STARTUP) != START:
            return
        name = self.grove.clique_of(self.grove.named(PODS, action.name))
        parents = parents_of(self.grove.named(POD_CLIQUES, name))
        old = [one for one in parents if self.grove.uid(one) == self.before[one]]
        self.early += [f"{name} starts while {one} is about to go" for one in old]


def terminate(grove: UnreliableCluster, breached: str, failures: Mapping[str, int]) -> None:
    """A clique loses its pods for longer than the delay, and deletions fail; others run as they may meanwhile."""
    lost = grove.uid(breached)
    for pod in grove.pods(f"{breached}-"):
        grove.delete(PODS, pod)
    grove.advance(DELAY_SECONDS - 1)
    grove.failures.update(failures)
    for _ in range(5 * MOST_FAILURES):
        grove.advance(1)
        grove.run_in_order(without=[lost])


@pytest.mark.parametrize("order", [IN_ORDER, EXPLICIT])
@pytest.mark.parametrize("breached", ["w-0-a", "w-0-d"])
@settings(max_examples=25, deadline=None)
@given(st.dictionaries(st.sampled_from(NAMES), st.integers(1, MOST_FAILURES)))
def test_a_recreated_clique_never_starts_after_one_that_is_about_to_go(
    order: str, breached: str, failures: dict[str, int]
) -> None:
    """Deletions are sent together, any of them may fail, and cliques of groups are recreated meanwhile."""
    grove = running(order)
    watch = StartWatch(grove)
    terminate(grove, breached, failures)
    assert watch.early == []
    assert [name for name in NAMES if grove.uid(name) == watch.before[name]] == []
    assert all(is_ready(pod) for pod in grove.every(PODS))
    assert grove.status(POD_CLIQUE_SETS)["availableReplicas"] == 1


@pytest.mark.parametrize("order", [IN_ORDER, EXPLICIT])
@pytest.mark.parametrize("updated", ["b", "c"])
@settings(max_examples=15, deadline=None)
@given(st.dictionaries(st.sampled_from(MEMBERS), st.integers(1, MOST_FAILURES)))
def test_an_update_recreates_no_clique_that_starts_after_an_old_one_of_its_replica(
    order: str, updated: str, failures: dict[str, int]
) -> None:
    """A replica of a group goes whole; those of the others are older, and may be ready."""
    grove = running(order)
    watch = StartWatch(grove)
    grove.failures.update(failures)
    grove.update_image("image:2", updated)
    for _ in range(10 * MOST_FAILURES):
        grove.advance(1)
        grove.run_in_order()
    inside = [f"w-0-sg-{index}-c starts while w-0-sg-{index}-b is about to go" for index in range(3)]
    assert [line for line in watch.early if line in inside] == []
    assert [name for name in MEMBERS if grove.uid(name) == watch.before[name]] == []
    assert all(is_ready(pod) for pod in grove.every(PODS))

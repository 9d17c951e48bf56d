"""Whatever happens to a set, it ends as its spec and the scales of its parts say."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.api.fields import integer
from muster.api.resources import POD_CLIQUE_SCALING_GROUPS, POD_CLIQUE_SETS, POD_CLIQUES, POD_GANGS, POD_GROUPS, PODS
from muster.grove.cliques.failed_pods import LONGEST_SECONDS
from tests.support.grove import GroveCluster, clique, group, pod_clique_set

HOURS = 3600.0
STEPS = ("scale set", "scale group", "scale clique", "update", "run", "bind", "fail", "lose", "delete", "wait")
Step = tuple[str, int]


def a_cluster() -> GroveCluster:
    """A set with a standalone clique and a group of two cliques."""
    grove = GroveCluster()
    cliques = clique("a", 2, 1), clique("b"), clique("c", 2, 1)
    groups = [group("sg", "b", "c", replicas=2)]
    grove.apply(pod_clique_set(*cliques, groups=groups, replicas=2))
    return grove


def scale(grove: GroveCluster, step: Step) -> None:
    """The set, a group or a standalone clique gets another scale."""
    name, number = step
    kind = {"scale set": POD_CLIQUE_SETS, "scale group": POD_CLIQUE_SCALING_GROUPS}.get(name, POD_CLIQUES)
    targets = [one for one in grove.names(kind) if kind != POD_CLIQUES or one.endswith("-a")]
    if targets:
        grove.scale(kind, targets[number % len(targets)], number % 4)


def lose_pods(grove: GroveCluster, step: Step) -> None:
    """A pod fails, or some are gone."""
    name, number = step
    pods = grove.pods()
    if name == "fail" and pods:
        grove.fail(pods[number % len(pods)])
    for pod in pods[:number] if name == "lose" else ():
        grove.delete(PODS, pod)


def perform(grove: GroveCluster, step: Step) -> None:
    """One thing that happens; a number picks what it happens to."""
    name, number = step
    match name:
        case "update":
            grove.update_image(f"image:{number}", ("", "a", "c")[number % 3])
        case "run":
            grove.run_pods()
        case "bind":
            grove.bind()
        case "delete" if cliques := grove.names(POD_CLIQUES):
            grove.delete(POD_CLIQUES, cliques[number % len(cliques)])
        case "wait":
            grove.advance(number * HOURS)
        case "fail" | "lose":
            lose_pods(grove, step)
        case _:
            scale(grove, step)


def settle_down(grove: GroveCluster) -> None:
    """Pods are bound and get ready as fast as they are made, until nothing changes."""
    for _ in range(60):
        before = grove.pods()
        grove.run_pods()
        has_failed = any(raw["status"]["phase"] == "Failed" for raw in grove.every(PODS))
        grove.advance(LONGEST_SECONDS if has_failed else 1)
        if grove.pods() == before and not grove.gated() and not has_failed:
            return
    raise AssertionError("the set does not settle")


def expected(grove: GroveCluster) -> dict[str, Any]:
    """What the spec alone describes, with the live scales of groups and cliques."""
    image = {
        one["name"]: one["spec"]["podSpec"]["containers"][0]["image"]
        for one in grove.spec(POD_CLIQUE_SETS)["template"]["cliques"]
    }
    cliques, gangs = {}, set()
    for index in range(integer(grove.spec(POD_CLIQUE_SETS), "replicas")):
        replicas = grove.spec(POD_CLIQUES, f"w-{index}-a")["replicas"]
        cliques[f"w-{index}-a"] = (replicas, image["a"])
        count = grove.spec(POD_CLIQUE_SCALING_GROUPS, f"w-{index}-sg")["replicas"]
        for row in range(count):
            cliques[f"w-{index}-sg-{row}-b"], cliques[f"w-{index}-sg-{row}-c"] = (1, image["b"]), (2, image["c"])
        gangs |= {f"w-{index}-sg-{row}" for row in range(count - 1)} | ({f"w-{index}"} if replicas or count else set())
    return {"cliques": cliques, "gangs": gangs}


def observed(grove: GroveCluster) -> dict[str, Any]:
    """What is there: the pods of every clique with their image, and the gangs."""
    cliques = {}
    for raw in grove.every(POD_CLIQUES):
        pods = grove.of(raw, PODS)
        images = {pod["spec"]["containers"][0]["image"] for pod in pods}
        latest = raw["spec"]["podSpec"]["containers"][0]["image"]
        assert images <= {latest}
        cliques[raw["metadata"]["name"]] = (len(pods), latest)
    return {"cliques": cliques, "gangs": set(grove.names(POD_GANGS))}


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 7)), max_size=10))
def test_any_sequence_of_scales_failures_and_updates_ends_in_what_the_spec_describes(steps: list[Step]) -> None:
    grove = a_cluster()
    for step in steps:
        perform(grove, step)
    settle_down(grove)
    assert observed(grove) == expected(grove)
    assert grove.names(POD_GROUPS) == grove.names(POD_GANGS)
    status = grove.status(POD_CLIQUE_SETS)
    replicas = integer(grove.spec(POD_CLIQUE_SETS), "replicas")
    counts = (status["replicas"], status["availableReplicas"], status["updatedReplicas"])
    assert counts == (replicas, replicas, replicas)
    assert not status.get("updateProgress", {}).get("currentlyUpdating")


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 7)), max_size=8))
def test_deletion_leaves_nothing_whatever_was_before(steps: list[Step]) -> None:
    grove = a_cluster()
    for step in steps:
        perform(grove, step)
    grove.delete(POD_CLIQUE_SETS, "w")
    assert grove.objects == {}


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(("update", "scale group", "run", "fail")), st.integers(0, 7)), max_size=8))
def test_no_two_replicas_of_a_set_are_updated_at_once(steps: list[Step]) -> None:
    grove = a_cluster()
    settle_down(grove)

    def check(_action: object) -> None:
        progress = grove.status(POD_CLIQUE_SETS).get("updateProgress", {})
        assert len(progress.get("currentlyUpdating", ())) <= 1

    grove.observers.append(check)
    for step in steps:
        perform(grove, step)
    settle_down(grove)

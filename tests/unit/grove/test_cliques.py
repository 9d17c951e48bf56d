"""PodCliques: pods, indexes, scale and replacement."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.api import names
from muster.api.resources import POD_CLIQUE_SETS, POD_CLIQUES, PODS
from muster.grove.cliques.clique_controller import CONTROLLER, related
from muster.workloads.types import Create, Remove
from tests.unit.grove.given_cliques import Cliques, a_clique, a_set


def test_a_clique_has_as_many_pods_as_its_replicas_say() -> None:
    cliques = Cliques(a_clique(replicas=3))
    cliques.settle_cliques()
    assert cliques.indexes() == [0, 1, 2]


def test_a_clique_that_is_scaled_to_zero_has_no_pods() -> None:
    cliques = Cliques(a_clique(replicas=3))
    cliques.settle_cliques()
    cliques.change(POD_CLIQUES, "w-0-a", replicas=0)
    cliques.settle_cliques()
    assert cliques.pods_of() == []


def test_new_pods_take_the_lowest_free_index() -> None:
    cliques = Cliques(a_clique(replicas=4))
    cliques.settle_cliques()
    by_index = {pod["metadata"]["labels"][names.POD_INDEX]: pod["metadata"]["name"] for pod in cliques.pods_of()}
    cliques.delete(PODS, by_index["1"])
    cliques.delete(PODS, by_index["2"])
    cliques.change(POD_CLIQUES, "w-0-a", replicas=3)
    cliques.settle_cliques()
    assert cliques.indexes() == [0, 1, 3]


def test_the_index_of_a_terminating_pod_is_free() -> None:
    """It is deleted, and its replacement is the same member of the clique."""
    cliques = Cliques()
    cliques.settle_cliques()
    first = cliques.names()[0]
    cliques.patch(first, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    cliques.settle_cliques()
    assert cliques.indexes() == [0, 1]
    assert len(cliques.names()) == 3
    assert cliques.status()["replicas"] == 2


def test_a_pod_that_failed_is_replaced_at_the_same_index() -> None:
    """Upstream keeps it, and the clique stays short."""
    cliques = Cliques()
    cliques.settle_cliques()
    first = cliques.names()[0]
    cliques.finish(first, "Failed")
    cliques.settle_cliques()
    assert first not in cliques.names()
    assert cliques.indexes() == [0, 1]


def test_a_pod_that_succeeded_stays_and_keeps_its_index() -> None:
    """It has done its part (N5): a replacement would do it once more."""
    cliques = Cliques()
    cliques.settle_cliques()
    cliques.ready()
    before = cliques.names()
    cliques.finish(before[0], "Succeeded")
    cliques.settle_cliques()
    assert cliques.names() == before
    assert cliques.indexes() == [0, 1]


def test_without_its_set_a_clique_makes_no_pods() -> None:
    cliques = Cliques()
    cliques.delete(POD_CLIQUE_SETS, "w")
    cliques.settle_cliques()
    assert cliques.names() == []


def test_a_terminating_clique_makes_no_pods() -> None:
    cliques = Cliques()
    cliques.objects[POD_CLIQUES, "w-0-a"]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    cliques.settle_cliques()
    assert cliques.names() == []


# scale-in -----------------------------------------------------------------------------------------------------------


def scaled_in(cliques: Cliques, replicas: int) -> set[str]:
    """The pods that go."""
    before = set(cliques.names())
    cliques.change(POD_CLIQUES, "w-0-a", replicas=replicas)
    cliques.settle_cliques()
    return before - set(cliques.names())


def test_unassigned_pods_go_first() -> None:
    cliques = Cliques(a_clique(replicas=3))
    cliques.settle_cliques()
    first, second, third = cliques.names()
    cliques.bind(second, third)
    assert scaled_in(cliques, 2) == {first}


def test_pods_that_are_not_ready_go_before_ready_ones() -> None:
    cliques = Cliques(a_clique(replicas=3))
    cliques.settle_cliques()
    cliques.ready()
    first = cliques.names()[0]
    cliques.unready(first)
    assert scaled_in(cliques, 2) == {first}


def test_outdated_pods_go_before_updated_ones() -> None:
    cliques = Cliques(a_clique(replicas=3), pcs=a_set() | {"spec": on_delete_spec()})
    cliques.settle_cliques()
    cliques.ready()
    first = cliques.names()[0]
    for name in cliques.names()[1:]:
        cliques.patch(name, metadata={"labels": {names.TEMPLATE_HASH: "h2"}})
    cliques.relabel("h2")
    assert scaled_in(cliques, 2) == {first}


def on_delete_spec() -> dict[str, Any]:
    return {**a_set()["spec"], "updateStrategy": {"type": "OnDelete"}}


def test_of_equal_pods_the_newest_goes_and_of_equal_ages_the_highest_index() -> None:
    cliques = Cliques(a_clique(replicas=2))
    cliques.settle_cliques()
    cliques.advance(60)
    cliques.change(POD_CLIQUES, "w-0-a", replicas=4)
    cliques.settle_cliques()
    cliques.ready()
    newest = set(cliques.names()[2:])
    assert scaled_in(cliques, 2) == newest
    scaled_in(cliques, 1)
    assert cliques.indexes() == [0]


# what concerns a clique ---------------------------------------------------------------------------------------------


def test_a_change_of_a_set_concerns_only_cliques_with_old_pods() -> None:
    """A set of 500 replicas changes often, and none of its cliques may be reconciled for that."""
    cliques = Cliques()
    cliques.settle_cliques()
    pcs = cliques.get(POD_CLIQUE_SETS, "w")
    reference = {
        "apiVersion": "x",
        "kind": "PodCliqueSet",
        "name": "w",
        "uid": pcs["metadata"]["uid"],
        "controller": True,
    }
    cliques.objects[POD_CLIQUES, "w-0-a"]["metadata"]["ownerReferences"] = [reference]
    assert list(related(POD_CLIQUE_SETS, pcs, cliques)) == []
    cliques.relabel("h2")
    cliques.objects[POD_CLIQUES, "w-0-a"]["status"]["updatedReplicas"] = 0
    assert list(related(POD_CLIQUE_SETS, pcs, cliques)) == [("default", "w-0-a")]


def test_a_failed_creation_is_in_the_status() -> None:
    cliques = Cliques()
    assert CONTROLLER.failed is not None
    status = CONTROLLER.failed(cliques.clique(), {"replicas": 0}, "FailedCreate", "quota", cliques.now)
    assert status["lastErrors"] == [
        {"code": "FailedCreate", "description": "quota", "observedAt": "2026-01-01T00:00:00Z"}
    ]


# bounds -------------------------------------------------------------------------------------------------------------


def test_ten_thousand_pods_are_made_in_a_few_bursts() -> None:
    """Each reconciliation reads every pod once; their number must not grow with the pods."""
    cliques = Cliques(a_clique(replicas=10_000))
    rounds = 0
    while cliques.reconcile(POD_CLIQUES, "w-0-a").actions:
        rounds += 1
    assert rounds <= 10
    assert cliques.indexes() == list(range(10_000))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_sequence_of_scales_and_failures_ends_with_what_the_spec_says(data: st.DataObject) -> None:
    """Indexes are unique, and there are as many pods as replicas."""
    cliques = Cliques(a_clique(replicas=data.draw(st.integers(0, 5))))
    for _ in range(data.draw(st.integers(0, 8))):
        live = [pod["metadata"]["name"] for pod in cliques.pods_of()]
        match data.draw(st.sampled_from(("scale", "fail", "delete", "bind", "ready", "reconcile", "update"))):
            case "scale":
                cliques.change(POD_CLIQUES, "w-0-a", replicas=data.draw(st.integers(0, 6)))
            case "fail" if live:
                cliques.finish(data.draw(st.sampled_from(live)), "Failed")
            case "delete" if live:
                cliques.delete(PODS, data.draw(st.sampled_from(live)))
            case "bind" if live:
                cliques.bind(data.draw(st.sampled_from(live)))
            case "ready" if live:
                cliques.ready(data.draw(st.sampled_from(live)))
            case "update":
                cliques.relabel(data.draw(st.sampled_from(("h1", "h2", "h3"))))
            case _:
                cliques.reconcile(POD_CLIQUES, "w-0-a")
    for _ in range(20):
        cliques.settle_cliques()
        cliques.ready()
    replicas = cliques.clique()["spec"]["replicas"]
    indexes = cliques.indexes()
    current = cliques.clique()["metadata"]["labels"][names.TEMPLATE_HASH]
    assert len(indexes) == len(set(indexes)) == replicas
    assert {pod["metadata"]["labels"][names.TEMPLATE_HASH] for pod in cliques.pods_of()} <= {current}
    assert cliques.status()["replicas"] == replicas


def test_pods_are_deleted_before_others_are_made() -> None:
    """What ended gives its place back first."""
    cliques = Cliques()
    cliques.settle_cliques()
    cliques.finish(cliques.names()[0], "Failed")
    kinds = [type(action) for action in cliques.reconcile(POD_CLIQUES, "w-0-a").actions]
    assert kinds == [Remove, Create]

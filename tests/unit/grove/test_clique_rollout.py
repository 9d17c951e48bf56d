"""How a new template reaches the pods of a PodClique."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api import names
from muster.api.resources import POD_CLIQUE_SETS, POD_CLIQUES, PODS
from muster.grove.cliques import clique_rollout
from tests.unit.grove.given_cliques import Cliques, a_clique, a_set


def running(replicas: int, minimum: int, *, strategy: str = "RollingRecreate") -> Cliques:
    """A clique whose pods are all ready."""
    pcs = a_set()
    pcs["spec"]["updateStrategy"] = {"type": strategy}
    cliques = Cliques(a_clique(replicas=replicas, minAvailable=minimum), pcs=pcs)
    cliques.settle_cliques()
    cliques.ready()
    cliques.settle_cliques()
    return cliques


def old(cliques: Cliques) -> list[str]:
    return [pod["metadata"]["name"] for pod in cliques.pods_of() if hash_of(pod) != "h2"]


def new(cliques: Cliques) -> list[str]:
    return [pod["metadata"]["name"] for pod in cliques.pods_of() if hash_of(pod) == "h2"]


def hash_of(pod: dict[str, dict[str, dict[str, str]]]) -> str:
    return pod["metadata"]["labels"][names.TEMPLATE_HASH]


def test_ready_pods_are_replaced_one_at_a_time() -> None:
    """The next one goes when the new pod is ready."""
    cliques = running(3, 2)
    cliques.relabel("h2")
    for left in (2, 1, 0):
        cliques.settle_cliques()
        assert len(old(cliques)) == left
        cliques.settle_cliques()
        assert len(old(cliques)) == left
        cliques.ready(*new(cliques))
    cliques.settle_cliques()
    assert len(new(cliques)) == 3
    assert "updateEndedAt" in cliques.status()["updateProgress"]
    assert cliques.status()["currentPodTemplateHash"] == "h2"


def test_old_pods_that_are_not_ready_go_at_once() -> None:
    cliques = running(4, 2)
    first, second, *_ = cliques.names()
    cliques.unready(first)
    cliques.unready(second)
    cliques.relabel("h2")
    cliques.reconcile(POD_CLIQUES, "w-0-a")
    assert len(old(cliques)) == 2
    assert first not in cliques.names()
    assert len(new(cliques)) == 2


def test_a_ready_pod_that_once_crashed_is_not_deleted_at_once() -> None:
    """Its past does not make it worse: users lost serving pods that way."""
    cliques = running(2, 2)
    container = {"name": "main", "ready": True, "started": True, "lastState": {"terminated": {"exitCode": 137}}}
    for name in cliques.names():
        cliques.patch(name, status={"containerStatuses": [container]})
    cliques.relabel("h2")
    cliques.settle_cliques()
    assert len(old(cliques)) == 1


def test_nothing_ready_goes_while_fewer_than_the_minimum_are_ready() -> None:
    cliques = running(3, 3)
    cliques.unready(cliques.names()[0])
    cliques.relabel("h2")
    cliques.settle_cliques()
    cliques.settle_cliques()
    assert len(old(cliques)) == 2
    cliques.ready(*new(cliques))
    cliques.settle_cliques()
    assert len(old(cliques)) == 1


def test_an_extra_pod_that_nothing_places_does_not_stop_an_update() -> None:
    """It was pending before, and its replacement is pending as well."""
    cliques = running(3, 1)
    cliques.change(POD_CLIQUES, "w-0-a", replicas=4)
    cliques.settle_cliques()
    cliques.relabel("h2")
    for _ in range(8):
        cliques.settle_cliques()
        waiting = [name for name in new(cliques) if not cliques.get(PODS, name)["spec"].get("nodeName")]
        if len(waiting) > 1:
            cliques.ready(waiting[0])  # the place that the deleted pod left
            cliques.unschedulable(*waiting[1:])
    assert old(cliques) == []
    assert "updateEndedAt" in cliques.status()["updateProgress"]


def test_the_next_ready_pod_waits_for_the_one_in_place_of_the_last() -> None:
    """Pods in place of those that were not ready do not count: else every one of them takes a ready pod down."""
    cliques = running(6, 1)
    for name in cliques.names()[:3]:
        cliques.unready(name)
    cliques.relabel("h2")
    cliques.reconcile(POD_CLIQUES, "w-0-a")
    replaced = new(cliques)
    cliques.settle_cliques()
    (successor,) = set(new(cliques)) - set(replaced)
    for name in replaced:
        cliques.ready(name)
        cliques.settle_cliques()
        assert len(old(cliques)) == 2
    cliques.ready(successor)
    cliques.settle_cliques()
    assert len(old(cliques)) == 1


def test_the_pod_in_place_of_another_may_have_a_lower_index() -> None:
    """New pods take the lowest index that is free, and a scale-in may have left one."""
    cliques = running(3, 1)
    cliques.delete(PODS, cliques.names()[0])
    cliques.change(POD_CLIQUES, "w-0-a", replicas=2)
    cliques.relabel("h2")
    for left in (1, 0):
        cliques.settle_cliques()
        assert len(old(cliques)) == left
        cliques.ready(*new(cliques))
    cliques.settle_cliques()
    assert cliques.indexes() == [0, 1]
    assert "updateEndedAt" in cliques.status()["updateProgress"]


def test_an_update_goes_on_where_a_scale_in_took_the_new_pod() -> None:
    cliques = running(3, 1)
    cliques.relabel("h2")
    cliques.settle_cliques()
    cliques.change(POD_CLIQUES, "w-0-a", replicas=2)
    for _ in range(4):
        cliques.settle_cliques()
        cliques.ready(*new(cliques))
    assert old(cliques) == []


def test_ready_pods_that_find_no_node_again_do_not_take_others_down() -> None:
    """Another tenant took the place: the rest of the old pods serves on."""
    cliques = running(4, 1)
    cliques.relabel("h2")
    cliques.settle_cliques()
    cliques.unschedulable(*new(cliques))
    cliques.settle_cliques()
    assert len(old(cliques)) == 3


@given(data=st.data(), replicas=st.integers(1, 6), minimum=st.integers(1, 6))
def test_an_update_never_has_more_than_one_ready_pod_less_than_before(
    data: st.DataObject, replicas: int, minimum: int
) -> None:
    """Whatever is ready at first, and in whatever order new pods become so."""
    cliques = running(replicas, min(minimum, replicas))
    for name in data.draw(st.sets(st.sampled_from(cliques.names()), max_size=replicas - 1), label="unready"):
        cliques.unready(name)
    cliques.relabel("h2")
    most = cliques.ready_pods()
    for _ in range(4 * replicas):
        cliques.settle_cliques()
        assert cliques.ready_pods() >= most - 1
        most = max(most, cliques.ready_pods())
        if starting := [name for name in new(cliques) if cliques.get(PODS, name)["status"]["phase"] == "Pending"]:
            cliques.ready(data.draw(st.sampled_from(starting), label="ready"))
    cliques.settle_cliques()
    assert old(cliques) == []


def test_a_pod_is_selected_in_the_status_before_it_is_deleted() -> None:
    """A restart in between goes on with the same pod."""
    cliques = running(2, 1)
    cliques.relabel("h2")
    assert cliques.reconcile(POD_CLIQUES, "w-0-a").actions == ()
    selected = cliques.status()["updateProgress"]["readyPodsSelectedToUpdate"]["current"]
    assert selected in cliques.names()
    cliques.reconcile(POD_CLIQUES, "w-0-a")
    assert selected not in cliques.names()


def test_with_on_delete_only_a_deleted_pod_gets_the_new_template() -> None:
    cliques = running(2, 1, strategy="OnDelete")
    cliques.relabel("h2")
    cliques.settle_cliques()
    assert len(old(cliques)) == 2
    assert cliques.condition("MinAvailableBreached")["status"] == "False"
    cliques.delete(PODS, old(cliques)[0])
    cliques.settle_cliques()
    assert len(new(cliques)) == 1
    assert cliques.status()["updatedReplicas"] == 1
    assert cliques.status()["currentPodTemplateHash"] == "h1"


def test_a_strategy_that_becomes_automatic_updates_the_rest() -> None:
    cliques = running(2, 1, strategy="OnDelete")
    cliques.relabel("h2")
    cliques.settle_cliques()
    cliques.change(POD_CLIQUE_SETS, "w", updateStrategy={"type": "RollingRecreate"})
    for _ in range(3):
        cliques.settle_cliques()
        cliques.ready()
    assert old(cliques) == []


def test_an_update_that_is_taken_back_ends() -> None:
    cliques = running(3, 2)
    cliques.relabel("h2")
    cliques.settle_cliques()
    cliques.relabel("h1")
    for _ in range(4):
        cliques.settle_cliques()
        cliques.ready()
    cliques.settle_cliques()
    assert new(cliques) == []
    progress = cliques.status()["updateProgress"]
    assert progress["podTemplateHash"] == "h1"
    assert "updateEndedAt" in progress


def test_during_an_update_the_minimum_is_not_known_to_be_breached() -> None:
    cliques = running(2, 2)
    cliques.relabel("h2")
    cliques.settle_cliques()
    condition = cliques.condition("MinAvailableBreached")
    assert (condition["status"], condition["reason"]) == ("Unknown", "UpdateInProgress")


def test_the_status_names_a_bounded_number_of_replaced_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clique_rollout, "MOST_COMPLETED", 2)
    cliques = running(6, 1)
    cliques.relabel("h2")
    for _ in range(12):
        cliques.settle_cliques()
        completed = cliques.status()["updateProgress"].get("readyPodsSelectedToUpdate", {}).get("completed", ())
        assert len(completed) <= 2
        assert len([name for name in new(cliques) if cliques.get(PODS, name)["status"]["phase"] == "Pending"]) <= 1
        cliques.ready(*new(cliques))
    assert old(cliques) == []


def test_a_clique_without_pods_is_up_to_date_at_once() -> None:
    cliques = Cliques(a_clique(replicas=0))
    cliques.settle_cliques()
    cliques.relabel("h2")
    cliques.settle_cliques()
    assert cliques.status()["currentPodTemplateHash"] == "h2"
    assert "updateEndedAt" in cliques.status()["updateProgress"]

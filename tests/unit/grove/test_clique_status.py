"""The status of a PodClique: counts, conditions and their times."""

from collections.abc import Callable
from typing import Any

from muster.api import names
from muster.api.resources import POD_CLIQUES, PODS
from tests.unit.grove.given_cliques import Cliques, a_clique


def breach(cliques: Cliques) -> tuple[str, str]:
    condition = cliques.condition("MinAvailableBreached")
    return condition["status"], condition["reason"]


def scheduled(cliques: Cliques) -> tuple[str, str]:
    condition = cliques.condition("PodCliqueScheduled")
    return condition["status"], condition["reason"]


def started(replicas: int = 2, minimum: int = 2, **spec: Any) -> Cliques:
    cliques = Cliques(a_clique(replicas=replicas, minAvailable=minimum, **spec))
    cliques.settle_cliques()
    return cliques


def test_counts_are_those_of_pods_that_were_not_deleted() -> None:
    cliques = started(4, 1)
    first, second, third, fourth = cliques.names()
    cliques.ready(first)
    cliques.bind(second)
    cliques.patch(third, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    cliques.change(POD_CLIQUES, "w-0-a", replicas=3)
    cliques.settle_cliques()
    status = cliques.status()
    assert fourth in cliques.names()
    counts = {name: value for name, value in status.items() if name.endswith("eplicas")}
    assert counts == {
        "replicas": 3,
        "readyReplicas": 1,
        "scheduledReplicas": 2,
        "scheduleGatedReplicas": 1,
        "updatedReplicas": 3,
    }
    assert status["observedGeneration"] == 2


def test_pods_that_succeeded_count_for_the_minimum() -> None:
    """They have done their part (N5): a clique that is done is not terminated for it."""
    cliques = started(2, 2)
    cliques.ready()
    for name in cliques.names():
        cliques.finish(name, "Succeeded")
    cliques.settle_cliques()
    assert breach(cliques) == ("False", "SufficientReadyPods")
    assert scheduled(cliques) == ("True", "SufficientScheduledPods")
    assert cliques.status()["readyReplicas"] == 2


def test_standalone_cliques_tell_an_autoscaler_their_pods_and_members_do_not() -> None:
    expected = "app.kubernetes.io/managed-by=grove-operator,app.kubernetes.io/part-of=w,grove.io/podclique=w-0-a"
    assert started().status()["hpaPodSelector"] == expected
    member = Cliques(a_clique(labels={names.SCALING_GROUP: "w-0-sg", names.SCALING_GROUP_REPLICA: "0"}))
    member.settle_cliques()
    assert "hpaPodSelector" not in member.status()


def test_a_clique_is_scheduled_with_its_minimum() -> None:
    cliques = started(3, 2)
    assert scheduled(cliques) == ("False", "InsufficientScheduledPods")
    cliques.bind(*cliques.names()[:2])
    cliques.settle_cliques()
    assert scheduled(cliques) == ("True", "SufficientScheduledPods")


def is_healthy(cliques: Cliques) -> bool:
    """Whether it is on record that the clique was healthy."""
    return any(each["type"] == "HealthyStateObserved" for each in cliques.status()["conditions"])


def test_a_clique_is_below_its_minimum_while_too_few_pods_are_scheduled() -> None:
    """That it never was healthy is another condition: without it nothing is terminated."""
    cliques = started()
    assert breach(cliques) == ("True", "ScheduledReplicasBelowMinAvailable")
    assert not is_healthy(cliques)


def test_pods_that_start_count_and_pods_that_failed_do_not() -> None:
    cliques = started()
    cliques.bind()
    cliques.settle_cliques()
    assert breach(cliques) == ("False", "SufficientReadyPods")
    cliques.unready(cliques.names()[0], exit_code=1)
    cliques.settle_cliques()
    assert breach(cliques) == ("True", "InsufficientReadyPods")


def test_a_pod_that_started_and_is_not_ready_does_not_count() -> None:
    cliques = started()
    cliques.ready()
    cliques.unready(cliques.names()[0])
    cliques.settle_cliques()
    assert breach(cliques) == ("True", "InsufficientReadyPods")


def test_losing_every_pod_is_a_breach_as_well() -> None:
    cliques = started()
    cliques.ready()
    cliques.settle_cliques()
    for name in cliques.names():
        cliques.delete(PODS, name)
    cliques.settle_cliques()
    assert breach(cliques) == ("True", "ScheduledReplicasBelowMinAvailable")
    assert is_healthy(cliques)


def test_a_breach_counts_from_its_beginning_whatever_its_reason() -> None:
    cliques = started()
    cliques.ready()
    cliques.settle_cliques()
    cliques.advance(60)
    cliques.unready(cliques.names()[0])
    cliques.settle_cliques()
    began = cliques.condition("MinAvailableBreached")["lastTransitionTime"]
    cliques.advance(60)
    cliques.delete(PODS, cliques.names()[0])
    cliques.settle_cliques()
    assert breach(cliques) == ("True", "ScheduledReplicasBelowMinAvailable")
    assert cliques.condition("MinAvailableBreached")["lastTransitionTime"] == began == "2026-01-01T00:01:00Z"


def test_time_before_a_clique_was_healthy_does_not_count() -> None:
    """It waited for hours, was ready and fails soon: it is not terminated for the hours."""
    cliques = started()
    cliques.advance(3600)
    cliques.ready()
    cliques.settle_cliques()
    cliques.advance(60)
    for name in cliques.names():
        cliques.unready(name, exit_code=1)
    cliques.settle_cliques()
    assert cliques.condition("MinAvailableBreached")["lastTransitionTime"] == "2026-01-01T01:01:00Z"


def test_a_clique_is_healthy_once_its_minimum_was_ready_and_not_when_it_is_only_scheduled() -> None:
    """What crashes from the start would crash again: nothing is terminated for it."""
    cliques = started(3, 2)
    cliques.bind()
    cliques.settle_cliques()
    assert not is_healthy(cliques)
    first, second, _ = cliques.names()
    cliques.ready(first)
    cliques.settle_cliques()
    assert not is_healthy(cliques)
    cliques.ready(second)
    cliques.settle_cliques()
    assert is_healthy(cliques)
    cliques.unready(first, exit_code=1)
    cliques.unready(second, exit_code=1)
    cliques.settle_cliques()
    assert is_healthy(cliques)


def test_a_clique_that_is_scaled_to_zero_needs_nothing_and_forgets_its_past() -> None:
    cliques = started()
    cliques.ready()
    cliques.settle_cliques()
    cliques.change(POD_CLIQUES, "w-0-a", replicas=0)
    cliques.settle_cliques()
    assert breach(cliques) == ("False", "SufficientReadyPods")
    assert scheduled(cliques) == ("True", "SufficientScheduledPods")
    assert not is_healthy(cliques)


def test_a_scale_below_the_minimum_is_explained() -> None:
    cliques = started(3, 3)
    cliques.change(POD_CLIQUES, "w-0-a", replicas=1)
    cliques.settle_cliques()
    message = cliques.condition("PodCliqueScheduled")["message"]
    assert "replicas 1 is below minAvailable 3; scale to 0, or to at least 3" in message


def test_reconciling_again_changes_nothing() -> None:
    """Else the status would be written again and again."""
    cliques = started()
    changes: tuple[Callable[[], object], ...] = (lambda: None, cliques.bind, cliques.ready)
    for change in changes:
        change()
        cliques.settle_cliques()
        before = cliques.status()
        cliques.advance(100)
        cliques.reconcile(POD_CLIQUES, "w-0-a")
        assert cliques.status() == before

"""Pods of cliques that fail: replaced at once, then later and later."""

import pytest

from muster.api.names import FAILURES, POD_INDEX
from muster.api.resources import POD_CLIQUES, PODS
from muster.grove.cliques.failed_pods import FIRST_SECONDS, LONG_SECONDS, LONGEST_SECONDS
from muster.workloads.conditions import timestamp
from tests.support.grove import GroveCluster, clique, pod_clique_set


@pytest.fixture
def grove() -> GroveCluster:
    """A set of one clique of two pods, of which one has failed and was replaced."""
    cluster = GroveCluster()
    cluster.apply(pod_clique_set(clique("a", 2, 1)))
    cluster.run_pods()
    cluster.fail(cluster.pods()[0])
    cluster.run_pods()
    return cluster


def young(grove: GroveCluster) -> str:
    """The pod that was made last."""
    return max(grove.pods(), key=lambda name: int(name.rsplit("-", 1)[1]))


def failures(grove: GroveCluster) -> list[str]:
    return [grove.named(PODS, name)["metadata"]["annotations"].get(FAILURES, "") for name in grove.pods()]


def test_the_first_failure_is_replaced_at_once(grove: GroveCluster) -> None:
    assert len(grove.pods()) == 2
    assert sorted(failures(grove)) == ["", "1"]


def test_a_pod_that_fails_again_and_again_is_replaced_later_and_later(grove: GroveCluster) -> None:
    waits = []
    for _ in range(8):
        name, waited = young(grove), 0
        grove.fail(name)
        while grove.has(PODS, name):
            grove.advance(1)
            waited += 1
        waits.append(waited)
        grove.run_pods()
    assert waits == [10, 20, 40, 80, 160, 300, 300, 300]
    assert (FIRST_SECONDS, LONGEST_SECONDS) == (10, 300)


def test_a_failed_pod_keeps_its_index_and_the_others_run(grove: GroveCluster) -> None:
    name = young(grove)
    grove.fail(name)
    assert len(grove.pods()) == 2
    assert grove.status(POD_CLIQUES, "w-0-a")["replicas"] == 1
    grove.scale(POD_CLIQUES, "w-0-a", 3)
    indexes = sorted(grove.labels(PODS, pod)[POD_INDEX] for pod in grove.pods())
    assert indexes == ["0", "1", "2"]


def test_a_scale_in_takes_failed_pods_first(grove: GroveCluster) -> None:
    name = young(grove)
    grove.fail(name)
    grove.scale(POD_CLIQUES, "w-0-a", 1)
    assert not grove.has(PODS, name)
    assert len(grove.pods()) == 1


def test_a_new_template_does_not_wait(grove: GroveCluster) -> None:
    """Whoever mends a template wants to see it run."""
    name = young(grove)
    grove.fail(name)
    grove.update_image("image:2")
    assert not grove.has(PODS, name)


def test_a_pod_that_ran_for_long_is_replaced_at_once(grove: GroveCluster) -> None:
    name = young(grove)
    grove.patch(PODS, name, {"status": {"startTime": timestamp(grove.now)}})
    grove.advance(LONG_SECONDS)
    ended = {"state": {"terminated": {"finishedAt": timestamp(grove.now)}}}
    grove.patch(PODS, name, {"status": {"containerStatuses": [ended]}})
    grove.patch(PODS, name, {"status": {"phase": "Failed"}})
    assert not grove.has(PODS, name)
    assert sorted(failures(grove)) == ["", "1"]

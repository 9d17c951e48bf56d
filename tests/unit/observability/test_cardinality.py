"""The number of series is bounded, whatever users put into a cluster and however often they change it."""

from datetime import UTC, datetime

import muster
from muster.kube.client.http import Request
from muster.model.snapshot import take
from muster.observability.api_requests import count_requests
from muster.observability.metric_table import OTHER_REASON
from muster.observability.metrics import Metrics
from muster.observability.queue_metrics import MOST_RESOURCES, OTHER_QUEUES, QueueLabels
from muster.planning.cycle import plan
from muster.planning.decision import CyclePlan
from tests.support.factories import Raw, pod, podgroup

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MOST_QUEUES = 10
QUEUES, GANGS = 60, 3  # of each round; gangs in every queue


def queue(name: str, resources: int = 8) -> Raw:
    shares = {f"example.com/{name}-{i}": {"quota": 1} for i in range(resources)}
    spec = {"resources": {**shares, "cpu": {"quota": 1000}}}
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def hostile(number: int) -> CyclePlan:
    """Queues, gangs, pods, resources and namespaces of names that were never there before, some running."""
    node: Raw = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n{number}"}}
    node["status"] = {"allocatable": {"cpu": "16", "pods": "500", f"example.com/r{number}": 4}}
    raws: list[Raw] = [node]
    for i in range(QUEUES):
        name = f"q{number}-{i}"
        raws.append(queue(name))
        for j in range(GANGS):
            gang = f"{name}-g{j}"
            raws.append(podgroup(name=gang, namespace=f"ns{number}-{i}", minMember=1, queue=name if j else "no-such"))
            raws.append(pod(f"{gang}-0", gang=gang, namespace=f"ns{number}-{i}", cpu="100m"))
    return plan(take(muster.objects(raws), NOW))


def series(metrics: Metrics) -> int:
    return sum(len(family.samples) for family in metrics.registry.collect())


def test_a_hostile_cluster_has_as_many_series_after_ten_rounds_as_after_one() -> None:
    """Queues and gangs come and go under new names; the API server's reasons are made up; verbs and codes are not."""
    metrics = Metrics(MOST_QUEUES)
    count = count_requests(metrics.requested)
    counts = []
    for number in range(10):
        made = hostile(number)
        assert len(made.gangs) == QUEUES * GANGS
        metrics.cycle(made, 0.1)
        for gang_plan in made.gangs:
            metrics.evicted("Preempt", gang_plan.gang.key)
            metrics.bind_failed(f"Reason{gang_plan.gang.key}", 0.1)
            metrics.eviction_failed(f"Reason{gang_plan.gang.key}")
            metrics.grouping_failed(f"Reason{gang_plan.gang.key}")
            count(Request("POST", f"/api/v1/namespaces/x/pods/{gang_plan.gang.name}/binding"), 201, 0.1)
            count(Request("GET", f"/api/v1/namespaces/x/pods/{gang_plan.gang.name}"), 200, 0.1)
        counts.append(series(metrics))
    empty = series(Metrics(MOST_QUEUES))
    labels = MOST_QUEUES + 1
    by_resource = 5 * labels * MOST_RESOURCES + MOST_RESOURCES
    by_queue = labels * (4 + 2 * 2 * 2)  # verdicts and pods; created and total of each counter, of evictions by reason
    assert counts[0] - empty <= by_resource + by_queue + 100, "a bound that does not depend on the cluster"
    assert max(counts) - min(counts) <= 3 * labels, "reasons differ from round to round, names do not count"


def test_queues_beyond_the_bound_are_counted_together() -> None:
    metrics = Metrics(MOST_QUEUES)
    metrics.cycle(hostile(0), 0.1)
    read = metrics.registry.get_sample_value
    own = sum(read("muster_queue_scheduled_gangs", {"queue": f"q0-{i}"}) is not None for i in range(QUEUES))
    assert own == MOST_QUEUES
    others = read("muster_queue_scheduled_gangs", {"queue": OTHER_QUEUES}) or 0
    assert others == (QUEUES - MOST_QUEUES) * (GANGS - 1)
    missing = {"queue": OTHER_QUEUES, "reason": "QueueDoesNotExist"}
    assert read("muster_queue_waiting_gangs", missing) == QUEUES
    amount = {"resource": "cpu", "unit": "core"}
    one = read("muster_queue_requested", {"queue": "q0-0", **amount})
    assert one == 0.2
    assert read("muster_queue_requested", {"queue": OTHER_QUEUES, **amount}) == (QUEUES - MOST_QUEUES) * one


def test_a_queue_keeps_its_series_while_it_exists_and_gives_them_to_another_when_it_is_gone() -> None:
    labels = QueueLabels(2)
    assert labels.update(["b", "c", "d"]) == []
    assert labels.update(["a", "b", "c", "d"]) == [], "a newer queue takes nothing away"
    assert [labels.of(name) for name in "abcd"] == [OTHER_QUEUES, "b", "c", OTHER_QUEUES]
    assert labels.update(["a", "c"]) == ["b"]
    assert [labels.of(name) for name in "abc"] == ["a", OTHER_QUEUES, "c"]


def test_reasons_that_are_made_up_are_one_reason() -> None:
    metrics = Metrics()
    metrics.bind_failed("Conflict", 0.1)
    metrics.bind_failed("because I say so", 0.1)
    read = metrics.registry.get_sample_value
    assert read("muster_bind_failures_total", {"reason": "Conflict"}) == 1
    assert read("muster_bind_failures_total", {"reason": OTHER_REASON}) == 1


def test_a_cycle_costs_the_same_however_many_gangs_wait() -> None:
    """What is shown of gangs is made when it is scraped, once a plan: a cycle only passes the plan on."""
    metrics, made = Metrics(), hostile(0)
    metrics.cycle(made, 0.1)
    assert metrics._queues._families is None
    first = list(metrics._queues.collect())
    assert list(metrics._queues.collect()) == first
    assert all(one is other for one, other in zip(first, metrics._queues.collect(), strict=True))

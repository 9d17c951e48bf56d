"""Manifests of many pods, jobs or owners: the work grows with them, and not with their square."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from muster.api.resources import (
    DEPLOYMENTS,
    JOB_SETS,
    JOBS,
    LEADER_WORKER_SETS,
    PYTORCH_JOBS,
    RAY_CLUSTERS,
    STATEFUL_SETS,
    Resource,
)
from muster.workloads import expansion
from muster.workloads.bursts import BURST, LARGEST_BURST, burst_beside
from muster.workloads.expansion import controller_uid, expand
from muster.workloads.table import CONTROLLERS
from muster.workloads.types import Children, Controller, Raw, Reconciliation
from tests.support.workload_objects import pod_template, workload

READY, COMPLETE = "Ready", "Complete"


class CountedChildren:
    """Counts the objects that controllers look at."""

    def __init__(self, children: Children, counts: Counter[str]) -> None:
        self._children, self._counts = children, counts

    def of(self, owner: Raw, resource: Resource) -> Sequence[Raw]:
        children = self._children.of(owner, resource)
        self._counts["objects"] += len(children)
        return children

    def get(self, resource: Resource, namespace: str, name: str) -> Raw | None:
        self._counts["objects"] += 1
        return self._children.get(resource, namespace, name)

    def orphans(self, resource: Resource) -> Iterable[Raw]:
        return self._children.orphans(resource)


def counted(counts: Counter[str]) -> Mapping[Resource, Controller]:
    """Every controller, with its reconciliations and what they look at counted."""

    def count(controller: Controller) -> Controller:
        def reconcile(owner: Raw, children: Children, now: datetime) -> Reconciliation:
            counts["reconciliations"] += 1
            counts["items of specs"] += len(owner["spec"].get("replicatedJobs", ()))
            return controller.reconcile(owner, CountedChildren(children, counts), now)

        return replace(controller, reconcile=reconcile)

    return {resource: count(controller) for resource, controller in CONTROLLERS.items()}


def steps(raws: Sequence[Raw]) -> int:
    """How much controllers do until the pods of these manifests are made."""
    counts: Counter[str] = Counter()
    expand(raws, counted(counts))
    return counts.total()


def job_set(names: Sequence[str], dependencies: Mapping[str, tuple[str, str]] | None = None, order: str = "") -> Raw:
    """A JobSet of replicated jobs with two pods each."""
    job = {"spec": {"parallelism": 2, "completions": 2, "template": pod_template()}}
    replicated = []
    for name in names:
        on, state = (dependencies or {}).get(name, ("", ""))
        depends_on = [{"name": on, "status": state}] if on else []
        replicated.append({"name": name, "replicas": 1, "template": job, "dependsOn": depends_on})
    return workload(JOB_SETS, replicatedJobs=replicated, startupPolicy={"startupPolicyOrder": order})


def names_of_jobs(count: int) -> list[str]:
    return [f"r{i}" for i in range(count)]


def leader_worker_set(size: int) -> Raw:
    return workload(
        LEADER_WORKER_SETS, replicas=1, leaderWorkerTemplate={"size": size, "workerTemplate": pod_template()}
    )


def pytorch_job(workers: int) -> Raw:
    roles = {"Worker": {"replicas": workers, "template": pod_template()}}
    return workload(PYTORCH_JOBS, pytorchReplicaSpecs=roles)


def ray_cluster(replicas: int) -> Raw:
    group = {"groupName": "g", "replicas": replicas, "maxReplicas": replicas, "template": pod_template()}
    return workload(RAY_CLUSTERS, headGroupSpec={"template": pod_template()}, workerGroupSpecs=[group])


MANIFESTS: list[Callable[[int], Raw]] = [
    lambda pods: workload(JOBS, parallelism=pods, completions=pods, completionMode="Indexed"),
    lambda pods: workload(DEPLOYMENTS, replicas=pods),
    lambda pods: workload(STATEFUL_SETS, replicas=pods),
    leader_worker_set,
    pytorch_job,
    ray_cluster,
]


@pytest.mark.parametrize("manifest", MANIFESTS)
def test_each_of_many_pods_is_counted_a_few_times(manifest: Callable[[int], Raw]) -> None:
    """In bursts of 500, each of 8,000 pods was counted nine times on the average, and of 20,000 twenty times."""
    assert steps([manifest(8_000)]) < 6 * 8_000


@pytest.mark.parametrize("state", [READY, COMPLETE])
def test_a_job_set_in_order_is_not_looked_at_for_each_of_its_jobs(state: str) -> None:
    def in_order(count: int) -> Raw:
        return job_set(names_of_jobs(count), order="InOrder")

    def in_a_chain(count: int) -> Raw:
        names = names_of_jobs(count)
        return job_set(names, {name: (before, state) for before, name in pairwise(names)})

    for manifest in (in_order, in_a_chain):
        assert steps([manifest(200)]) < 6 * steps([manifest(50)])


def test_owners_in_a_circle_are_followed_a_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each change of one of them concerned all others."""

    def circle(count: int) -> list[Raw]:
        jobs = []
        for i in range(count):
            raw, above = workload(JOBS), (i + 1) % count
            owner = {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "name": f"j{above}",
                "uid": f"u{above}",
                "controller": True,
            }
            raw["metadata"] |= {"name": f"j{i}", "uid": f"u{i}", "ownerReferences": [owner]}
            jobs.append(raw)
        return jobs

    def lookups(count: int) -> int:
        calls = 0

        def counted_uid(raw: Raw) -> str:
            nonlocal calls
            calls += 1
            return controller_uid(raw)

        monkeypatch.setattr(expansion, "controller_uid", counted_uid)
        assert len(expand(circle(count))) == count
        return calls

    assert lookups(400) < 4.5 * lookups(100)


def test_a_chain_of_owners_that_are_gone_ends_without_an_error() -> None:
    """Deeper than Python calls functions: a Job whose time to live is over takes all below it along."""

    def job(i: int) -> Raw:
        raw = workload(JOBS, ttlSecondsAfterFinished=0 if i == 0 else None)
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": f"j{i - 1}", "uid": f"u{i - 1}", "controller": True}
        raw["metadata"] |= {"name": f"j{i}", "uid": f"u{i}", "ownerReferences": [owner] if i else []}
        if i == 0:
            condition = {"type": "Complete", "status": "True", "lastTransitionTime": "1999-01-01T00:00:00Z"}
            raw["status"] = {"conditions": [condition]}
        return raw

    assert expand([job(i) for i in range(2_000)]) == ()


def test_objects_with_one_uid_are_no_error() -> None:
    """A manifest that was copied with its uid, and one that is given twice."""
    first, second = workload(JOBS), workload(JOBS)
    for raw, name in ((first, "a"), (second, "b")):
        raw["metadata"] |= {"name": name, "uid": "u"}
    assert expand([first, second])
    third = {**first, "metadata": {**first["metadata"], "uid": "v"}}
    assert expand([first, third])


@pytest.mark.parametrize(
    ("existing", "burst"),
    [(0, BURST), (BURST, BURST), (BURST + 1, BURST + 1), (LARGEST_BURST, LARGEST_BURST), (10**6, LARGEST_BURST)],
)
def test_a_burst_grows_with_what_is_there_and_is_bounded(existing: int, burst: int) -> None:
    assert burst_beside(existing) == burst


@st.composite
def ordered_job_sets(draw: st.DrawFn) -> Raw:
    names = names_of_jobs(draw(st.integers(1, 6)))
    others = st.sampled_from([*names, "unknown"])
    states = st.sampled_from([READY, READY, COMPLETE, "Other"])
    dependencies = draw(st.dictionaries(st.sampled_from(names), st.tuples(others, states)))
    return job_set(names, dependencies, draw(st.sampled_from(["", "InOrder", "AnyOrder"])))


def pods_of(raw: Raw) -> list[tuple[str, Any]]:
    made = sorted(expand([raw]), key=lambda each: str(each.pod["metadata"]["name"]))
    return [(each.pod["metadata"]["name"], each.owners) for each in made]


@settings(max_examples=40)
@given(raw=ordered_job_sets())
def test_a_job_set_gets_the_pods_that_it_gets_one_job_after_the_other(raw: Raw) -> None:
    """The slow definition: the controller waits for each replicated job, and every pod is ready at once."""
    fast = pods_of(raw)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(expansion, "as_if_due", lambda _, raw: raw)
        slow = pods_of(raw)
    assert [name for name, _ in fast] == [name for name, _ in slow]
    assert [owners[-1] for _, owners in fast] == [owners[-1] for _, owners in slow]

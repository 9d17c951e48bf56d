"""Manifests that cannot be used: a sentence with file and way out, in bounded time."""

from typing import Any

import pytest

import muster
from muster.errors import InputError
from tests.unit.grouping.manifests.manifest_examples import Raw, deployment, job, lws, manifest, pytorch_job, template


def refusal(*raws: Raw) -> str:
    with pytest.raises(InputError) as refused:
        muster.group(muster.objects(raws))
    return str(refused.value)


@pytest.mark.parametrize("count", ["three", -1, 1.5, True])
@pytest.mark.parametrize("make", [lambda n: job(pods=n), lambda n: deployment(replicas=n), lambda n: lws(size=n)])
def test_a_count_that_is_no_number_is_refused(make: Any, count: Any) -> None:
    """Read as missing, `replicas: three` would be one pod."""
    assert "is not a whole number" in refusal(make(count))


@pytest.mark.parametrize("raw", [job(pods=10**9), lws(replicas=10**9), pytorch_job(workers=10**40)])
def test_an_enormous_workload_is_refused_at_once(raw: Raw) -> None:
    assert "more than 20000 pods" in refusal(raw)


def test_workloads_that_are_too_large_together_are_refused() -> None:
    said = refusal(job(), lws(replicas=6_000, size=6_000))
    assert "object 0 and 1 more: " in said
    assert "more than 20000 pods" in said


@pytest.mark.parametrize("spec", [{}, {"template": {}}, {"template": [1]}, {"template": {"spec": {"containers": []}}}])
def test_a_missing_template_is_refused(spec: Raw) -> None:
    said = refusal(manifest("Job", "batch/v1", "train", spec))
    assert "object 0: job `default/train`" in said
    assert "hint: Kubernetes refuses such pods" in said


def test_a_template_that_is_no_pod_is_refused_with_the_path() -> None:
    wrong = template(containers=[{"name": "a", "resources": {"requests": {"cpu": "much"}}}])
    said = refusal(manifest("Job", "batch/v1", "train", {"template": wrong}))
    assert "spec.containers[0].resources.requests" in said
    assert "the pod template of Job `default/train`" in said


@pytest.mark.parametrize("spec", ["text", [1], 7])
def test_a_spec_that_is_no_object_is_refused(spec: Any) -> None:
    assert "`spec` is not an object" in refusal(manifest("Job", "batch/v1", "train", spec))


def test_a_workload_without_a_name_is_refused() -> None:
    raw = job()
    del raw["metadata"]["name"]
    assert "it has no name" in refusal(raw)


def test_a_workload_with_a_generated_name_is_grouped() -> None:
    """As `kubectl create` takes it."""
    raw = job(pods=1)
    raw["metadata"] = {"generateName": "train-"}
    assert len(muster.group(muster.objects([raw])).pod_groups) == 1


def test_a_workload_that_is_given_twice_is_refused() -> None:
    assert "is given twice" in refusal(job(), job())


def test_numbers_of_kinds_whose_pods_are_not_made_here_are_not_judged() -> None:
    raw = manifest("SparkApplication", "sparkoperator.k8s.io/v1beta2", "pi", {"size": "large", "replicas": "some"})
    assert not muster.group(muster.objects([raw])).pod_groups


def test_a_copy_with_the_uid_of_another_workload_is_refused() -> None:
    """By its uid, the pods of one of them would belong to both."""
    first, second = job(), deployment()
    first["metadata"]["uid"] = second["metadata"]["uid"] = "u"
    said = refusal(first, second)
    assert "it has the uid of job" in said
    assert "hint: remove `metadata.uid` from the copy" in said


@pytest.mark.parametrize("namespace", [["a"], {"a": 1}, 7])
def test_a_namespace_that_is_no_text_counts_as_missing(namespace: Any) -> None:
    raw = job(pods=1)
    raw["metadata"]["namespace"] = namespace
    (gang,) = muster.group(muster.objects([raw])).pod_groups
    assert gang.key.startswith("default/")

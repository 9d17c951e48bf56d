"""Pods that the cache has with the mark of their gang before the API server does."""

from muster.api.core import Pod
from muster.kube.cache.cache import Cache
from muster.kube.cache.reflector import ObjectDeleted, ObjectUpdated
from muster.kube.cluster import Raw
from muster.kube.pod_mark import PodMark

MARK = PodMark({"pod-group-name": "g"}, {"kai.scheduler/subgroup-name": "leaf"})
NAME = "default/p"


def raw_pod(uid: str = "1", node: str = "", mark: PodMark | None = None) -> Raw:
    labels, annotations = {"app": "x"}, dict[str, str]()
    if mark is not None:
        labels |= {name: text for name, text in mark.labels.items() if text is not None}
        annotations |= mark.annotations
    meta = {"name": "p", "namespace": "default", "uid": uid, "labels": labels, "annotations": annotations}
    return {"metadata": meta, "spec": {"schedulerName": "muster", "nodeName": node}}


def cache_of(raw: Raw) -> Cache:
    cache = Cache()
    cache.handle(Pod, ObjectUpdated(raw))
    return cache


def gang_of(cache: Cache) -> str | None:
    pod = cache.pod(NAME)
    return pod.metadata.annotations.get("pod-group-name") if pod else None


def test_a_pod_has_its_mark_at_once() -> None:
    cache = cache_of(raw_pod())
    assert cache.set_mark(NAME, "1", MARK)
    pod = cache.pod(NAME)
    assert pod is not None
    assert MARK.is_on(pod.metadata)
    assert pod.metadata.labels["app"] == "x"
    assert [one.metadata.name for one in cache.pods_of("default/g")] == ["p"]
    assert cache.missing_mark(NAME, "1") == MARK


def test_a_mark_may_come_before_its_pod() -> None:
    cache = Cache()
    assert not cache.set_mark(NAME, "1", MARK)
    cache.handle(Pod, ObjectUpdated(raw_pod()))
    assert gang_of(cache) == "g"


def test_a_mark_that_is_stored_is_not_missing() -> None:
    """Also where it is removed later: then what is stored counts, and the grouper marks the pod again."""
    cache = cache_of(raw_pod())
    cache.set_mark(NAME, "1", MARK)
    assert cache.handle(Pod, ObjectUpdated(raw_pod(node="a", mark=MARK)))
    assert cache.missing_mark(NAME, "1") is None
    cache.handle(Pod, ObjectUpdated(raw_pod(node="a")))
    assert gang_of(cache) is None


def test_a_withdrawn_mark_leaves_the_pod_as_it_is_stored() -> None:
    cache = cache_of(raw_pod())
    before = cache.pod(NAME)
    cache.set_mark(NAME, "1", MARK)
    assert cache.set_mark(NAME, "1", None)
    assert cache.pod(NAME) == before
    assert cache.pods_of("default/g") == ()


def test_a_changed_mark_replaces_the_first() -> None:
    cache = cache_of(raw_pod())
    cache.set_mark(NAME, "1", MARK)
    cache.set_mark(NAME, "1", PodMark({"pod-group-name": "h"}))
    pod = cache.pod(NAME)
    assert pod is not None
    assert pod.metadata.annotations == {"pod-group-name": "h"}
    assert pod.metadata.labels == {"app": "x"}


def test_a_mark_is_for_one_pod_and_not_for_its_name() -> None:
    cache = cache_of(raw_pod())
    cache.set_mark(NAME, "1", MARK)
    cache.handle(Pod, ObjectDeleted(raw_pod()))
    cache.handle(Pod, ObjectUpdated(raw_pod(uid="2")))
    assert gang_of(cache) is None
    assert cache.missing_mark(NAME, "2") is None


def test_other_changes_of_the_pod_keep_the_mark() -> None:
    cache = cache_of(raw_pod())
    cache.set_mark(NAME, "1", MARK)
    cache.handle(Pod, ObjectUpdated(raw_pod(node="a")))
    pod = cache.pod(NAME)
    assert pod is not None
    assert pod.spec.node_name == "a"
    assert gang_of(cache) == "g"
    assert cache.missing_mark(NAME, "1") == MARK, "an API server that drops labels: the grouper writes them"
